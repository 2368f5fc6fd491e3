"""The page of a sweep: complete, escaped, and in need of nothing from anywhere else."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import fakes
import pytest

from harness import figures, report, time_figures, timeline
from harness.lines import labels_of, lines_of, system_of
from models.explain import analyse
from models.metrics import Estimate, Finding, Mark, Metrics
from models.scenario import Scenario
from models.series import Point, Series

WORKERS = (1, 2, 3, 4, 6, 8)
HOSTILE = "</script><img src=x onerror=alert(1)>&amp;{{$}}"


def metrics(rate: float, other: float) -> Metrics:
    return Metrics(
        Estimate(rate, rate * 0.97, rate * 1.03),
        Estimate(10 / rate, 9.8 / rate, 10.3 / rate),
        8 / rate,
        16 / rate,
        31 / rate,
        utilisation={"cpu": 0.97, "server_cpu": 0.8, "load_cpu": 0.17, "load_thread": 0.34, "worker": 0.4},
        counters={"server_cpu": 20e-6 + other, "load_cpu": 15e-6, "busy": 20e-6, "spins": 40.0},
    )


def points(extra: float) -> list[Point]:
    """A curve with a peak at 3; the point at 6 is broken, the one at 8 was not predicted."""
    found = []
    for x in WORKERS:
        rate = 10_000 * x / (1 + 0.3 * (x - 1) + extra * x * (x - 1))
        found.append(
            Point(
                float(x),
                metrics(rate, x * 12e-6),
                metrics(rate * 1.1, x * 13e-6) if x != 8 else None,
                tuple(rate * f for f in (0.99, 1.0, 1.01, 0.995, 1.004)),
                (Mark("stationarity", 0.143, 0.1),) if x == 6 else (),
                (Finding("cpu_limited", 0.97, "of capacity"),),
            )
        )
    return found


def analysed(label: str = "spin") -> list[Series]:
    waits = {label: 0.08, "block": 0.02}
    return [
        analyse("workers", {"wait": wait, "service": "prime", "server": "queues"}, points(extra), 2)
        for wait, extra in waits.items()
    ]


def document(label: str = "spin") -> dict[str, Any]:
    """What `sweep --json` would print of two series."""
    series = analysed(label)
    cells = [
        {
            "key": f"{place}-{point.x}",
            "scenario": {
                "service": "prime",
                "server": "queues",
                "load": "closed",
                "seed": 1,
                "options": {"workers": int(point.x), "wait": row.fixed["wait"], "clients": 10},
            },
            "replicates": [{"id": f"{place}-{point.x}-{b}", "started": 1.7e9, "block": b} for b in range(5)],
            "broken": [mark.to_json() for mark in point.broken],
            "findings": [finding.to_json() for finding in point.findings],
            "measured": point.measured.to_json() if point.measured else None,
            "predicted": point.predicted.to_json() if point.predicted else None,
            "refusal": None if point.predicted else f"no model {label}",
            "failures": [{"block": 2, "message": f"server died {label}"}] if point.x == 4 else [],
        }
        for place, row in enumerate(series)
        for point in row.points
    ]
    made = {
        "schema_version": 1,
        "sweep": {
            "id": f"sweep {label}",
            "variables": [{"name": "workers", "values": list(WORKERS)}],
            "noise": {"aa": [0.01, -0.02, None, 0.004], "null": {"throughput": {"value": 91000.0}}},
            "warnings": [f"the machine was slow {label}"],
            "provenance": {"cpus": 2, "smt": None, "kernel": label, "versions": {"numpy": "2.4"}},
        },
        "cells": cells,
        "series": [row.to_json() for row in series],
    }
    return json.loads(json.dumps(made, allow_nan=False))


class Page(HTMLParser):
    """What a page holds: its text outside scripts, its tags, its scripts, its table rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.rows: list[list[str]] = []
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else ""
        if tag == "script":
            self.scripts.append("")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self._cell = tag in ("td", "th") or (tag == "small" and self._cell)

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text.append(data)
            if self._cell:
                self.rows[-1][-1] += data

    _cell = False

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).replace("\u00a0", " ").split())


@pytest.fixture(scope="module")
def text() -> str:
    return report.page(document())


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_the_question_stands_on_top(page: Page) -> None:
    assert "Where does prime on queues stop scaling with workers, and why?" in page.words


def test_every_series_has_its_answer_with_evidence(page: Page) -> None:
    for row in document()["series"]:
        for sentence in re.split(r"(?<=[.]) (?=[A-Z])", row["explanation"]["text"]):
            assert sentence in page.words
        for item in row["explanation"]["evidence"]:
            assert any(
                cells[0] == item["name"] and cells[2] == item["unit"]
                for cells in page.rows
                if len(cells) == 3
            )


def test_every_cell_stands_in_a_table_with_units(page: Page) -> None:
    heads = [cells for cells in page.rows if cells and cells[0] == "workers"]
    assert len(heads) == 2
    for unit, name in (("1/s", "throughput"), ("%", "error"), ("ms", "p99"), ("ms", "mean response")):
        assert any(cell == name + unit for cell in heads[0])
    for row in analysed():
        for point in row.points:
            assert point.measured
            found = [c for c in page.rows if len(c) == 10 and c[0] == f"{point.x:.0f}"]
            rate = f"{float(f'{point.measured.throughput.value:.4g}'):,.0f}"
            assert any(cells[1] == rate for cells in found), (rate, found)
    errors = {cells[4] for cells in page.rows if len(cells) == 10 and cells[0] in "1234"}
    assert errors == {"10"}


def test_broken_and_failed_cells_are_said_to_be(page: Page) -> None:
    classes = [attrs.get("class", "") for tag, attrs in page.tags if tag == "tr"]
    assert sum("broken" in (name or "").split() for name in classes) == 2
    assert sum("best" in (name or "").split() for name in classes) == 2
    broken = [cells for cells in page.rows if len(cells) == 10 and cells[0] == "6"]
    assert all("broken: stationarity 0.143 (limit 0.1)" in cells[9] and cells[4] == "–" for cells in broken)
    assert "run 2 failed: server died spin" in page.words
    assert "not predicted: no model spin" in page.words


def test_noise_warnings_and_provenance(page: Page) -> None:
    assert "differed by 1 % in the median, 2 % at most (3 pairs)" in page.words
    assert "91,000/s with a server that does nothing" in page.words
    assert "the machine was slow spin" in page.words
    assert ["provenance.versions.numpy", "2.4"] in page.rows
    assert ["provenance.smt", "–"] in page.rows


def test_the_page_needs_nothing_from_anywhere(text: str, page: Page) -> None:
    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base", "audio", "video")
        assert not {"src", "href", "srcset", "data", "action"} & attrs.keys(), (tag, attrs)
    own = text.replace(max(page.scripts, key=len), "")
    assert "//" not in own.replace("</", "")
    assert not re.search(r"@import|url\(", own)
    policy = next(
        attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert (
        policy
        == "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
    )


def test_each_figure_has_its_place(page: Page) -> None:
    places = {attrs["id"] for tag, attrs in page.tags if tag == "div" and attrs.get("id")}
    drawn = {
        match for script in page.scripts[1:] for match in re.findall(r'Plotly\.newPlot\("([^"]+)"', script)
    }
    assert places == drawn == {"throughput-workers", "response-workers", "cpu-0", "cpu-1", "use-0", "use-1"}


def test_everything_is_escaped() -> None:
    made = report.page(document(HOSTILE))
    page = Page(made)
    assert not any(tag == "img" for tag, _ in page.tags)
    assert len(page.scripts) == 1 + 6
    for part in (
        f"wait = {HOSTILE}",
        f"the machine was slow {HOSTILE}",
        f"server died {HOSTILE}",
        f"sweep {HOSTILE}",
    ):
        assert part in page.words


def test_the_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "sweep.html"
    target.write_text("old")
    report.write(document(), target)
    assert target.read_text().startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.html"]
    with pytest.raises(report.ReportError, match="cannot be written"):
        report.write(document(), tmp_path / "nowhere" / "sweep.html")
    with pytest.raises(report.ReportError, match="cannot be written"):
        report.write(document(), tmp_path)


def test_sweeps_without_much_still_make_a_page() -> None:
    bare = document()
    for cell in bare["cells"]:
        cell["measured"] = cell["predicted"] = None
        cell["broken"] = cell["findings"] = []
        del cell["refusal"], cell["failures"]
    row = analyse("workers", {"wait": "spin"}, [Point(float(x)) for x in WORKERS], 2).to_json()
    bare |= {"series": [row], "sweep": {"id": "x", "variables": [], "provenance": None}}
    page = Page(report.page(bare))
    assert "Nothing was measured" in page.words
    assert "the noise is not known" in page.words
    assert "The sweep holds no series." in Page(report.page({**bare, "cells": [], "series": []})).words


# What was sampled over time


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


def test_without_samples_nothing_is_said_of_them(page: Page) -> None:
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


def test_others_servers_are_called_by_what_starts_or_reaches_them() -> None:
    ours = {"service": "http", "server": "sbuf", "target": "", "command": ""}
    assert system_of(ours) == "http on sbuf"
    assert (
        system_of({**ours, "server": "command", "command": "/opt/bin/gunicorn -w {workers}"})
        == "gunicorn -w {workers}"
    )
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


# Figures, as notebooks use them


def test_throughput_shows_measured_predicted_law_and_broken() -> None:
    made = figures.throughput(document())
    names = {trace.name for trace in made.data if trace.x is not None and trace.x[0] is not None}
    assert {"wait = spin", "wait = block", "predicted"} <= names
    hollow = [
        t
        for t in made.data
        if t.marker.symbol and str(t.marker.symbol).endswith("-open") and t.legendgroup == "broken"
    ]
    assert [list(trace.x) for trace in hollow if trace.x[0] is not None] == [[6.0], [6.0]]
    assert "1/s" in made.layout.yaxis.title.text
    strips = [shape for shape in made.layout.shapes if shape.type == "rect"]
    assert len(strips) == sum(len(line.peak.members) for line in lines_of(document()))


def test_the_laws_curve_runs_through_its_own_parameters() -> None:
    row = analysed()[0]
    fit = next(fit for fit in row.fits if fit.law == row.law)
    curve = next(trace for trace in figures.throughput(row).data if trace.name == row.law)
    assert (curve.x[0], curve.x[-1]) == (1.0, 8.0)
    for x, y in zip(curve.x, curve.y, strict=True):
        assert math.isclose(y, float(fit.throughput(x)), rel_tol=1e-9)


def test_figures_of_series_and_of_the_document_are_alike() -> None:
    for draw in (figures.throughput, figures.response, figures.cpu, figures.utilisation):
        a, b = draw(analysed()).to_dict(), draw(document()).to_dict()
        assert [trace.get("name") for trace in a["data"]] == [trace.get("name") for trace in b["data"]]


def test_cpu_parts_add_up_to_the_bill() -> None:
    made = figures.cpu(analysed()[0])
    bars = [trace for trace in made.data if trace.type == "bar"]
    totals = [sum(heights) for heights in zip(*(trace.y for trace in bars), strict=True)]
    assert totals == pytest.approx([20 + 12 * x + 15 for x in WORKERS])
    assert "µs" in made.layout.yaxis.title.text


def test_a_wide_variable_is_drawn_logarithmically() -> None:
    wide = [Point(float(x), metrics(1000.0 * x, 1e-6), None, (1000.0 * x,) * 3) for x in (1, 2, 4, 16, 64)]
    made = figures.throughput(analyse("clients", {}, wide, 2))
    assert made.layout.xaxis.type == "log"
    assert list(made.layout.xaxis.ticktext) == ["1", "2", "4", "16", "64"]


def test_curves_are_labelled_by_what_tells_them_apart() -> None:
    assert labels_of([{"wait": "spin", "server": "q"}, {"wait": "block", "server": "q"}]) == [
        "wait = spin",
        "wait = block",
    ]
    assert labels_of([{"service": "prime", "server": "queues"}]) == ["prime on queues"]
    assert labels_of([{}]) == ["measured"]
