"""A sweep as text: figures, what marks mean, and how far to trust it."""

from __future__ import annotations

import copy
import itertools
import re
from typing import Any

import fakes
import pytest

from harness import measuring, recorded, table
from harness.cell import Cell, Replicate
from harness.judging import marks
from models.explain import analyse
from models.metrics import Estimate, Metrics
from models.scenario import Scenario
from models.series import Point
from models.wording import named

SCENARIO = Scenario.of("synthetic", "sbuf", options={"clients": 8, "workers": 2})


def sweep(**changes: Any) -> dict[str, Any]:
    """A document of three cells over clients; changes go into the sweep."""
    points, cells = [], []
    for clients in (1, 2, 4):
        measured = Metrics(
            Estimate(100.0 * clients, 95.0 * clients, 106.0 * clients), Estimate(0.01), 0.01, 0.02, 0.03
        )
        points.append(
            Point(float(clients), measured, None, (99.0 * clients, 100.0 * clients, 101.0 * clients))
        )
        cells.append(
            {
                "series": 0,
                "value": clients,
                "scenario": {"service": "http", "server": "sbuf", "options": {"clients": clients}},
                "broken": [],
                "findings": [],
                "measured": measured.to_json(),
                "predicted": None,
                "error": None,
                "refusal": None,
                "failures": [],
            }
        )
    fixed = {"service": "http", "server": "sbuf", "timeout": 10.0}
    row = analyse("clients", fixed, points, 2).to_json()
    noise = {"aa": [0.01, -0.03], "null": {"throughput": {"value": 90_000.0}}}
    return {"sweep": {"noise": noise, "warnings": [], **changes}, "cells": cells, "series": [row]}


def row_of(text: str, value: str) -> str:
    """The line of a value, and what stands indented below it for want of room."""
    lines = text.splitlines()
    first = next(place for place, line in enumerate(lines) if line.split()[:1] == [value])
    rest = itertools.takewhile(lambda line: re.match(r" {4,6}[A-Za-z]", line), lines[first + 1 :])
    return " ".join([lines[first], *map(str.strip, rest)])


def test_every_mark_is_explained_once_and_named_where_it_occurs() -> None:
    made = sweep()
    made["cells"][0]["broken"] = [marks.mark("stationarity", 0.143).to_json()]
    made["cells"][2]["broken"] = [marks.mark("stationarity", 0.2).to_json()]
    made["cells"][2]["findings"] = [marks.finding("cpu_limited", 0.97).to_json()]
    text = table.text(made)
    assert "BROKEN stationarity 14 % (limit 10 %)" in row_of(text, "1")
    assert "CPU limited 97 % of capacity" in row_of(text, "4") and "BROKEN" not in row_of(text, "2")
    flat = " ".join(text.split())
    rule = marks.TABLE["stationarity"]
    assert flat.count("stationarity (broken, limit 10 % of the throughput; 2 cells)") == 1
    assert f"{rule.says[1:]}." in flat and f"{rule.todo[1:]}." in flat
    assert "CPU limited (finding, limit 95 % of capacity; 1 cell)" in flat
    assert "3 of 3 cells measured, 2 of them broken" in flat


def test_no_line_of_the_cells_is_too_long_and_what_nobody_predicted_has_no_column() -> None:
    made = sweep()
    names = [name for name, rule in marks.TABLE.items() if rule.kind == marks.BROKEN]
    made["cells"][1]["broken"] = [marks.mark(name, 2.0).to_json() for name in names]
    lines = table.text(made).splitlines()
    assert max(map(len, lines)) <= table.WIDTH
    flat = " ".join(" ".join(lines).split())
    assert all(f"BROKEN {named(name)} " in flat for name in names)
    assert "predicted/s" not in lines[1]
    made["cells"][0]["predicted"] = made["cells"][0]["measured"]
    assert "predicted/s" in table.text(made).splitlines()[1]


def test_a_sound_sweep_has_no_legend() -> None:
    assert not any(line == "marks and findings" for line in table.text(sweep()).splitlines())


def test_the_noise_and_the_reason_for_stopping_are_said() -> None:
    text = " ".join(table.text(sweep(stopping={"says": "stopped after 5 blocks", "coverage": 0.95})).split())
    assert "differed by 2 % in the median, 3 % at most (2 pairs)." in text
    assert (
        "Stopped after 5 blocks; a 95 % interval holds the truth in 95 % of sweeps simulated with this rule."
        in text
    )
    assert "Null server: the load generator reached 90,000/s" in text
    for absent in ("lay inside", "generator's own cost"):
        assert absent not in text


def test_only_an_open_load_has_columns_for_what_waits() -> None:
    made = sweep()
    assert "backlog" not in table.text(made)
    for cell in made["cells"]:
        cell["measured"]["service"] = {"mean": 0.002, "p50": 0.002, "p90": 0.003, "p99": 0.004}
        cell["measured"]["counters"]["backlog"] = 17.0
    text = table.text(made)
    assert "p99 ms  p99 service ms  backlog" in text
    assert row_of(text, "2").split()[-4:] == ["30", "4", "17", "–"]


def test_a_foreign_server_is_named_by_its_command() -> None:
    fixed = {
        "service": "http",
        "server": "command",
        "command": "gunicorn app",
        "target": "http://127.0.0.1:{port}/",
    }
    shown = table.title({"fixed": fixed}, [{"fixed": fixed}])
    assert shown == "gunicorn, command=gunicorn app target=http://127.0.0.1:{port}/"
    assert table.title({"fixed": {"service": "http", "server": "sbuf"}}, []) == "http on sbuf"


def test_what_is_unknown_is_a_dash() -> None:
    made = copy.deepcopy(sweep())
    measured = made["cells"][1]["measured"]
    measured["response"] = {
        "mean": {"value": None, "low": None, "high": None},
        "p50": None,
        "p90": None,
        "p99": None,
    }
    measured["utilisation"] = {}
    measured["throughput"] |= {"low": None, "high": None}
    assert row_of(table.text(made), "2").split() == ["2", "200", "–", "–", "–", "–"]


def test_a_refusal_of_all_cells_is_said_once() -> None:
    made = sweep()
    for cell in made["cells"]:
        cell["refusal"] = "no model of it"
    assert table.text(made).count("not predicted: no model of it") == 1
    made["cells"][0]["refusal"] = "another reason"
    assert "not predicted: another reason" in row_of(table.text(made), "1")
    assert "not predicted: no model of it" in row_of(table.text(made), "2")


@pytest.mark.parametrize("sampled", [False, True])
def test_one_cell_shows_what_its_server_took_where_it_was_sampled(sampled: bool) -> None:
    record = fakes.record(SCENARIO, 1000, 1.0)
    if sampled:
        record["samples"] = fakes.samples(1.0, 0.1)
    cell = measuring.cell_of(SCENARIO, [Replicate("a", 0.0, 0, record)])
    text = table.cell_text(Cell.to_json(cell))
    assert ("memory (PSS)" in text) is sampled
    if sampled:
        assert [line.split()[-2:] for line in text.splitlines() if "memory (PSS)" in line] == [["4", "MiB"]]
        assert [line.split()[-2:] for line in text.splitlines() if "CPU used" in line] == [["0.5", "CPUs"]]


def test_an_open_record_becomes_service_times_and_a_backlog() -> None:
    record = fakes.record(SCENARIO, 1000, 1.0)
    response = record["histograms"]["work"]
    service = {**response, "sum": response["sum"] // 2, "min": response["min"] // 4}
    record |= {
        "service": {"work": service},
        "planned": 1000,
        "sent": 990,
        "backlog": [0, 10],
        "backlog_peak": 40,
    }
    second = {**record, "backlog": [10, 30], "backlog_peak": 35}
    found = recorded.metrics_of([record, second])
    assert found.service_time is not None and found.service_time["mean"] == pytest.approx(
        found.response.value / 2
    )
    assert (found.counters["backlog"], found.counters["backlog_peak"]) == (20.0, 40)
    assert recorded.metrics_of([fakes.record(SCENARIO, 1000, 1.0)]).service_time is None
