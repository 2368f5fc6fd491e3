"""Samples of a server over time: rates from accounts, one grid for all replicates, and what a client costs."""

from __future__ import annotations

import json
import math
import random
import sys
import types
from pathlib import Path

import fakes
import numpy as np
import pytest
from scipy.stats import binom, linregress

from harness import measuring, sweeping
from harness.cell import Cell, Replicate
from harness.plan import null_scenario
from harness.showing import footprint
from harness.showing.lines import lines_of
from harness.watching import timeline
from harness.watching.processes import watched
from harness.watching.timeline import Timeline
from models.explain import analyse
from models.scenario import Scenario
from models.series import Point

SCENARIO = Scenario.of("synthetic", "sbuf", options={"clients": 8, "workers": 2})


def sampled(window: float = 1.0, interval: float = 0.1, **how: float) -> dict:
    return {**fakes.record(SCENARIO, 10_000, window), "samples": fakes.samples(window, interval, **how)}


def column(record: dict, name: str) -> int:
    return record["samples"]["columns"].index(name)


def test_steady_accounts_become_steady_rates_whatever_the_phase() -> None:
    found = timeline.timeline([sampled(phase=0.0), sampled(phase=0.037), sampled(phase=0.09)])
    assert found is not None and found.replicates == 3
    assert found.server["time"] == pytest.approx([0.05 + 0.1 * k for k in range(10)])
    for name, value in (("cpu", 0.5), ("wait", 0.1), ("switches", 1e6), ("preemptions", 1e3)):
        assert found.server[name] == pytest.approx([value] * 10, rel=1e-6), name
    for name, value in (("pss", 4.0), ("rss", 8.0), ("threads", 6), ("descriptors", 20), ("processes", 1)):
        assert found.server[name] == pytest.approx([value] * 10), name


def test_the_total_of_an_account_is_kept() -> None:
    """Whatever an account does from sample to sample, its rates add up to its growth over the window."""
    source, record = random.Random(1), sampled(interval=0.05)
    grown = 0
    for row in record["samples"]["rows"]:
        row[column(record, "cpu")] = grown
        grown += source.randrange(10**8)
    at = {row[0]: row[column(record, "cpu")] for row in record["samples"]["rows"]}
    found = timeline.timeline([record])
    assert found is not None
    assert sum(found.server["cpu"]) * found.step == pytest.approx((at[10**9] - at[0]) * 1e-9)


def test_the_median_replicate_stands_for_all() -> None:
    found = timeline.timeline([sampled(cpu=0.4), sampled(cpu=0.5), sampled(cpu=1.9)])
    assert found is not None and found.server["cpu"] == pytest.approx([0.5] * 10)


def test_what_cannot_be_read_is_unknown_and_nothing_else_is() -> None:
    record = sampled()
    for k, row in enumerate(record["samples"]["rows"]):
        row[column(record, "pss")] = -1
        row[column(record, "rss")] = -1 if k % 2 else row[column(record, "rss")]
    found = timeline.timeline([record])
    assert found is not None and math.isnan(found.typical("pss"))
    assert [value for value in found.server["rss"] if math.isfinite(value)] == pytest.approx([8.0] * 10)
    assert found.server["cpu"] == pytest.approx([0.5] * 10)
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["server"]["pss"] == [None] * 10


def test_an_account_that_shrinks_has_no_rate_there() -> None:
    record = sampled()
    lost = next(row for row in record["samples"]["rows"] if row[0] == 500_000_000)
    for row in record["samples"]["rows"][record["samples"]["rows"].index(lost) :]:
        row[column(record, "cpu")] -= 10**9
    found = timeline.timeline([record])
    assert found is not None
    assert [math.isnan(value) for value in found.server["cpu"]] == [k == 4 for k in range(10)]


def test_samples_far_apart_make_one_step() -> None:
    found = timeline.timeline([sampled(window=0.2, interval=1.0, phase=-0.3)])
    assert found is not None and found.server["cpu"] == pytest.approx((0.5,)) and found.step == 0.2


def test_the_loads_bins_share_the_axis() -> None:
    record = sampled(window=2.0)
    record["bins"] = {"count": list(range(100, 120)), "response": [k * 3_000_000 for k in range(100, 120)]}
    found = timeline.timeline([record])
    assert found is not None
    assert found.load["time"][0] == pytest.approx(0.05) and found.load["time"][-1] == pytest.approx(1.95)
    assert sum(found.load["throughput"]) * 0.1 == pytest.approx(sum(range(100, 120)))
    assert found.load["response"] == pytest.approx([0.003] * 20)


def test_a_bin_without_replies_has_no_response() -> None:
    record = sampled()
    record["bins"] = {"count": [0] + [5] * 19, "response": [0] + [5000] * 19}
    found = timeline.timeline([record])
    assert found is not None and math.isnan(found.load["response"][0]) and found.load["throughput"][0] == 0


def test_cutting_keeps_the_window_and_one_on_either_side() -> None:
    raw = {"columns": ["cpu", "time"], "rows": [[k, k * 10] for k in range(10)]}
    assert timeline.cut(raw, 25, 52) == {
        "columns": ["cpu", "time"],
        "rows": [[k, k * 10 - 25] for k in range(2, 7)],
    }
    assert [row[1] for row in timeline.cut(raw, 20, 50)["rows"]] == [0, 10, 20, 30]
    assert len(timeline.cut(raw, -5, 500)["rows"]) == 10


def test_a_cell_shows_samples_only_where_there_are_some() -> None:
    bare = Cell(SCENARIO, (Replicate("a", 0.0, 0, fakes.record(SCENARIO, 1000, 1.0)),)).to_json()
    assert "samples" not in bare
    single = sampled()
    single["samples"]["rows"] = single["samples"]["rows"][:1]
    assert timeline.timeline([single]) is None
    shown = Cell(SCENARIO, (Replicate("a", 0.0, 0, sampled()),)).to_json()["samples"]
    assert Timeline.from_json(json.loads(json.dumps(shown))).to_json() == shown


def test_nothing_is_sampled_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyx.sampling", types.ModuleType("pyx.sampling"))
    for pid, interval in ((0, 0.1), (1, None)):
        with watched(pid, interval) as found:
            pass
        assert found == {}


def test_the_sampler_is_stopped_also_when_the_load_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    class Sampler:
        def __init__(self, pid: int, interval: float) -> None:
            asked.append((pid, interval))

        def start(self) -> None:
            asked.append("start")

        def stop(self) -> dict:
            asked.append("stop")
            return {"columns": ["time"], "rows": [[1]]}

    module = types.ModuleType("pyx.sampling")
    module.Sampler = Sampler  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyx.sampling", module)
    with pytest.raises(RuntimeError), watched(7, 0.25):
        raise RuntimeError
    assert asked == [(7, 0.25), "start", "stop"]


def test_a_real_server_is_sampled_over_its_window() -> None:
    cell = measuring.measure(
        Scenario.of("synthetic", "sbuf", options={"clients": 12, "workers": 3}),
        reps=2,
        window=0.5,
        sample=0.05,
    )
    assert cell.measured is not None
    found = timeline.timeline([replicate.record for replicate in cell.replicates])
    assert found is not None and found.replicates == 2
    assert found.typical("threads") >= 3 and found.typical("processes") == 1
    assert found.typical("descriptors") >= 12 and 0 < found.typical("pss") <= found.typical("rss")
    used = float(np.mean(found.server["cpu"]))
    expected = cell.measured.utilisation["server_cpu"] * cell.replicates[0].record["cpus"]
    assert expected / 2 < used < expected * 2
    for replicate in cell.replicates:
        times = [row[0] for row in replicate.record["samples"]["rows"]]
        assert times[0] <= 0 and times[-1] >= replicate.record["window"] and times == sorted(times)


def test_a_sweep_samples_all_but_the_null_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in = fakes.install(monkeypatch)
    made = sweeping.sweep(
        "workers",
        values="1,2,3",
        service="synthetic",
        server="sbuf",
        out=tmp_path / "a",
        sample=0.05,
        quick=True,
        predict=False,
    )
    assert made["sweep"]["sample"] == 0.05
    assert {stand_in.sampled[cell["key"]] for cell in made["cells"]} == {0.05}
    assert stand_in.sampled[null_scenario(made["sweep"]["seed"]).key] is None


# What one more of a variable costs


def line_of(pss: dict[float, float], broken: tuple[float, ...] = ()):
    points = [Point(x) for x in pss]
    row = analyse("clients", {"service": "stock", "server": "sbuf"}, points, 2).to_json()
    cells = []
    for x, value in pss.items():
        found = timeline.timeline([sampled(pss=value)])
        assert found is not None
        cells.append(
            {
                "scenario": {"service": "stock", "server": "sbuf", "options": {"clients": x}},
                "measured": None,
                "predicted": None,
                "broken": [{"check": "steal", "value": 1.0, "limit": 0.02}] if x in broken else [],
                "findings": [],
                "samples": found.to_json(),
            }
        )
    return lines_of({"series": [row], "cells": cells})[0]


def test_a_slope_is_that_of_another_programme() -> None:
    source = random.Random(3)
    values = {float(x): 3 + 0.02 * x + source.gauss(0, 0.05) for x in (1, 2, 5, 10, 20, 50)}
    found, other = footprint.slope(values), linregress(list(values), list(values.values()))
    assert found is not None and found.each.value == pytest.approx(other.slope)
    half = 2.7764451052 * other.stderr  # Student's 97.5 % quantile of 4 degrees of freedom
    assert (found.each.low, found.each.high) == pytest.approx((other.slope - half, other.slope + half))


def test_its_interval_holds_the_truth_as_often_as_it_says() -> None:
    source, held, tries = random.Random(4), 0, 1000
    for _ in range(tries):
        found = footprint.slope({float(x): 2 + 0.5 * x + source.gauss(0, 1) for x in (1, 2, 4, 8, 16)})
        assert found is not None
        held += found.each.low <= 0.5 <= found.each.high
    assert binom.ppf(0.001, tries, 0.95) <= held <= binom.ppf(0.999, tries, 0.95)


def test_the_cost_of_a_client_is_said_with_its_interval() -> None:
    mib = 2.0**20
    pss = {float(n): (1 * mib + 8192 * n) / mib for n in (10, 20, 40, 80)}
    said = footprint.sentences(line_of(pss))
    assert said[0].startswith("Memory (PSS): 8 KiB [8 KiB, 8 KiB] for each client (95 %")
    assert said[1] == "Threads: 6 at every value of clients."


def test_broken_cells_have_no_part_in_it() -> None:
    line = line_of({10.0: 1.0, 20.0: 2.0, 30.0: 99.0, 40.0: 4.0}, broken=(30.0,))
    assert footprint.levels(line, "pss") == pytest.approx({10.0: 1.0, 20.0: 2.0, 40.0: 4.0})
    assert footprint.levels(line, "pss", broken=True) == pytest.approx({30.0: 99.0})


def test_too_few_cells_say_nothing_and_a_bent_curve_says_so() -> None:
    assert footprint.sentences(line_of({1.0: 1.0, 2.0: 2.0})) == []
    bent = footprint.sentences(line_of({float(x): float(x) ** 3 / 100 for x in range(1, 9)}))
    assert "not lie on a straight line" in bent[0]
    source = random.Random(5)
    noise = footprint.sentences(line_of({float(x): 5 + source.gauss(0, 0.5) for x in range(1, 9)}))
    assert "no growth with clients that could be told from chance" in noise[0]
