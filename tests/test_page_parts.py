"""The parts of a page that only some sweeps have: samples over time, advice, trust, open loads, servers of others."""

from __future__ import annotations

import re
from typing import Any

import fakes
import pytest
from pages import Page, document, metrics

from harness import figures, report
from harness.showing import mechanisms, time_figures
from harness.showing.lines import lines_of, system_of
from harness.watching import timeline
from models.explain import analyse
from models.metrics import Estimate, Metrics
from models.scenario import Scenario
from models.series import Point


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without plotly's four megabytes, which take a second to parse."""
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "/* plotly */")


def sampled(pss: float) -> dict[str, Any]:
    scenario = Scenario.of("prime", "queues", options={"clients": 10})
    record = {**fakes.record(scenario, 1000, 1.0), "samples": fakes.samples(1.0, 0.1, pss=pss)}
    found = timeline.timeline([record])
    assert found is not None
    return found.to_json()


def with_samples(cells: int = 12) -> dict[str, Any]:
    made = document()
    for cell in made["cells"][:cells]:
        cell["samples"] = sampled(1 + 0.5 * cell["scenario"]["options"]["workers"])
    return made


def test_without_samples_nothing_is_said_of_them(light: None) -> None:
    page = Page(report.page(document()))
    assert "Over time" not in page.words and "descriptors" not in page.words.lower()


def test_sampled_cells_are_drawn_over_time_and_over_the_variable(light: None) -> None:
    made = report.page(with_samples())
    page = Page(made)
    places = {attrs["id"] for tag, attrs in page.tags if tag == "div" and attrs.get("id")}
    assert {"time-workers", "taken-workers-0", "taken-workers-1", "taken-workers-2"} <= places
    assert (
        "Memory (PSS): 512 KiB [512 KiB, 512 KiB] for each worker (95 %, least squares over 5 configurations)"
        in (page.words)
    )
    assert "Threads: 6 at every value of workers." in page.words
    folds = re.findall(r"<details><summary>Show 12 configurations over time.*?</details>", made)
    assert len(folds) == 1 and 'id="time-workers"' in folds[0]
    assert 'id="time-workers"' not in "".join(
        re.findall(r"<details>.*?</details>", report.page(with_samples(3)))
    )


def test_the_drop_down_shows_one_cell_at_a_time() -> None:
    lines = lines_of(with_samples())
    made = time_figures.over_time(lines)
    buttons = made.layout.updatemenus[0].buttons
    assert [button.label for button in buttons][:2] == ["1 worker · wait = spin", "2 workers · wait = spin"]
    each = len(made.data) // 12
    for number, button in enumerate(buttons):
        visible = button.args[0]["visible"]
        assert [place // each for place, shown in enumerate(visible) if shown] == [number] * each
    assert [bool(trace.visible) for trace in made.data] == [place < each for place in range(len(made.data))]
    assert all(len(trace.x) in (10, 20) for trace in made.data)


def test_what_the_server_took_is_hollow_where_broken() -> None:
    made = time_figures.taken(lines_of(with_samples()), 0)
    drawn = [
        (trace.marker.symbol, list(trace.x)) for trace in made.data if trace.legendgroup == "PSS, wait = spin"
    ]
    assert drawn == [("circle", [1.0, 2.0, 3.0, 4.0, 8.0]), ("circle-open", [6.0])]
    assert "MiB" in made.layout.yaxis.title.text


# Marks with their advice, how far to trust a sweep, open loads, servers of others


def test_a_mark_tells_what_it_means_and_what_to_do(light: None) -> None:
    made = document()
    for cell in made["cells"]:
        for mark in cell["broken"]:
            mark |= {"unit": "of the throughput", "says": 'it "fell"', "todo": "measure <longer>"}
        for finding in cell["findings"]:
            finding |= {"limit": 0.95, "says": "all CPUs are busy", "todo": "make replies cheaper"}
    page = Page(report.page(made))
    hints = [attrs["title"] for tag, attrs in page.tags if tag == "span" and attrs.get("class") == "hint"]
    assert hints.count('it "fell"; measure <longer>') == 2 and len(hints) == 2 + 12
    assert [
        "stationarity",
        "breaks the cell",
        "10 % of the throughput",
        "2",
        'it "fell"',
        "measure <longer>",
    ] in page.rows
    assert [
        "CPU limited",
        "finding",
        "95 % of capacity",
        "12",
        "all CPUs are busy",
        "make replies cheaper",
    ] in page.rows
    assert "broken: stationarity 14 % (limit 10 %)" in page.words


def test_why_it_stopped_and_what_the_generator_can_do(light: None) -> None:
    made = document()
    made["sweep"] |= {
        "stopping": {"says": "stopped after 6 blocks: the budget holds no further block", "coverage": 0.944},
        "efficiency": {"windows": 60.0, "wall": 75.0, "share": 0.8},
        "certificate": {
            "ceiling": {"value": 120_000.0, "low": None, "high": None},
            "cpu_per_request": 7.9e-6,
            "lag": {"p50": 2e-6, "p99": 6.1e-5, "max": 1.9e-3},
            "clock_cost": 2.4e-8,
            "threads": 1,
        },
    }
    made["sweep"]["noise"]["aa_different"] = False
    words = Page(report.page(made)).words
    for text in (
        "Stopped after 6 blocks: the budget holds no further block; a 95 % interval holds the truth in 94 % of",
        "80 % of the time spent measuring (60 s of 75 s) lay inside measuring windows.",
        "the load generator with 1 thread reached 120,000/s",
        "7.9 µs of CPU a request; requests late by p50 2 µs, p99 61 µs, max 1.9 ms; 24 ns a look at the clock.",
        "(3 pairs), which is not significant.",
    ):
        assert text in words


def opened() -> dict[str, Any]:
    """A sweep of an open load over its rate; the last value is more than the server can do."""
    rates, found = (1000.0, 2000.0, 4000.0, 8000.0), []
    for rate in rates:
        done = min(rate, 5000.0)
        service = {"mean": 0.001, "p50": 0.001, "p90": 0.002, "p99": 0.003}
        wait = 1.0 if rate > done else 0.0
        measured = Metrics(
            Estimate(done, done * 0.99, done * 1.01),
            Estimate(0.001 + wait),
            0.001 + wait,
            0.002 + wait,
            0.004 + wait,
            counters={"backlog": 3000.0 * wait},
            service_time=service,
        )
        found.append(Point(rate, measured, None, (done * 0.99, done, done * 1.01)))
    row = analyse("arrival_rate", {"service": "stock", "server": "sbuf"}, found, 2)
    cells = [
        {
            "scenario": {
                "service": "stock",
                "server": "sbuf",
                "load": "open",
                "seed": 1,
                "options": {"arrival_rate": point.x},
            },
            "replicates": [],
            "broken": [],
            "findings": [],
            "measured": point.measured.to_json() if point.measured else None,
            "predicted": None,
        }
        for point in found
    ]
    sweep = {"id": "x", "load": "open", "noise": {"aa": [0.001, 0.002]}, "provenance": None}
    return {"sweep": sweep, "cells": cells, "series": [row.to_json()]}


def test_an_open_load_shows_response_and_service_and_what_waits(light: None) -> None:
    page = Page(report.page(opened()))
    assert "How much load can stock on sbuf take" in page.words
    heads = next(cells for cells in page.rows if cells and cells[0] == "arrival_rate1/s")
    last = next(cells for cells in page.rows if cells and cells[0] == "8,000")
    shown = dict(zip(heads, last, strict=True))
    assert (shown["p99ms"], shown["p99 servicems"], shown["backlogarrivals"]) == ("1,000", "3.00", "3,000")
    assert "of an open load is that of its schedule" in page.words


def test_an_open_load_is_drawn_beside_what_arrives() -> None:
    made = figures.throughput(opened())
    line = next(
        trace for trace in made.data if trace.legendgroup == "all that arrives" and trace.x[0] is not None
    )
    assert list(line.x) == list(line.y) == [1000.0, 2000.0, 4000.0, 8000.0]
    assert "1/s" in made.layout.xaxis.title.text
    response = figures.response(opened())
    service = next(t for t in response.data if t.legendgroup == figures.SERVICE and t.x[0] is not None)
    assert list(service.y) == pytest.approx([3.0] * 4) and response.layout.yaxis.type == "log"
    assert not any(trace.legendgroup == "all that arrives" for trace in figures.throughput(document()).data)


def test_metrics_keep_their_service_time_in_json() -> None:
    for cell in opened()["cells"]:
        assert Metrics.from_json(cell["measured"]).to_json() == cell["measured"]
    assert metrics(100.0, 0.0).to_json()["service"] is None


COMMANDS = {
    "/opt/bin/gunicorn -w {workers} app:app": "gunicorn",
    "python3.11 -u -m http.server {port}": "http.server",
    "/usr/bin/python3 /srv/server.py {port}": "server.py",
    "sh -c \"sed s/PORT/{port}/ nginx.conf > live.conf && exec nginx -p . -g 'daemon off;'\"": "nginx",
    "bash -c 'THREADS=2 ./serve {port}'": "serve",
    "bash -e start.sh {port}": "start.sh",
    "python3 -c 'import time' {port}": "python3",
    "it's broken": "it's",
}


def test_others_servers_are_called_by_what_starts_or_reaches_them() -> None:
    ours = {"service": "http", "server": "sbuf", "target": "", "command": ""}
    assert system_of(ours) == "http on sbuf"
    for command, name in COMMANDS.items():
        assert system_of({**ours, "server": "command", "command": command}) == name
    assert system_of({**ours, "server": "target", "target": "127.0.0.1:80"}) == "127.0.0.1:80"
    assert len(system_of({**ours, "server": "command", "command": "x" * 500})) == 60
    assert system_of({"service": "imported", "server": "imported", "file": "a.csv"}) == "figures from a.csv"


def test_what_nobody_measured_is_said_to_be_unknown_and_not_drawn_empty(light: None) -> None:
    made = opened()
    for cell in made["cells"]:
        cell["scenario"]["server"], cell["scenario"]["options"]["target"] = "target", "10.0.0.1:80<b>"
    page = Page(report.page(made))
    places = {attrs["id"] for tag, attrs in page.tags if tag == "div" and attrs.get("id")}
    assert places == {"throughput-arrival_rate", "response-arrival_rate"}
    assert "nobody looked at the processor time" in page.words and "fresh server process" not in page.words
    assert "How much load can 10.0.0.1:80<b> take" in page.words


def test_a_refusal_of_all_cells_is_said_once(light: None) -> None:
    made = opened()
    for cell in made["cells"]:
        cell["refusal"] = "no model <of> it"
    assert Page(report.page(made)).words.count("not predicted: no model <of> it") == 1
    del made["cells"][0]["refusal"]
    assert Page(report.page(made)).words.count("not predicted: no model <of> it") == 3


def test_a_point_without_an_interval_has_no_bar() -> None:
    lonely = [Point(float(x), Metrics(Estimate(100.0 * x), Estimate(0.1))) for x in (1, 2, 3)]
    for draw in (figures.throughput, figures.response):
        bars = [
            trace.error_y.array
            for trace in draw(analyse("clients", {}, lonely, 2)).data
            if trace.error_y.array
        ]
        assert bars and all(list(bar) == [None] * len(bar) for bar in bars)


def test_what_a_reply_takes_is_drawn_where_it_was_measured_and_predicted(light: None) -> None:
    lines = lines_of(document())
    made = mechanisms.mechanisms(lines)
    titles = [note.text for note in made.layout.annotations]
    assert "server's CPU (µs)" in titles and "server's polls" not in titles  # nobody predicted polls
    line = lines[0]
    measured, predicted = made.data[:2]
    assert list(measured.x) == [point.x for point in line.points if point.measured]
    for trace, purpose in ((measured, "measured"), (predicted, "predicted")):
        found = [metrics for point in line.points if (metrics := getattr(point, purpose))]
        assert list(trace.y) == pytest.approx([m.counters["server_cpu"] * 1e6 for m in found])
    assert (measured.line.dash, predicted.line.dash) == ("solid", "dash")
    assert "What a reply takes, measured and predicted" in Page(report.page(document())).words
