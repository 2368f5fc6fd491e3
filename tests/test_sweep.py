"""What a sweep measures and measures again, what it keeps when things fail, and its document."""

import json
import math
import os
import random
import re
from pathlib import Path

import fakes
import pytest

import harness
from harness import calibrate, document, sweeping, table
from harness.deciding import drift
from harness.errors import HarnessError
from harness.plan import NULL
from harness.progress import Silent
from harness.request import Request
from harness.store import open_store
from models.scenario import Scenario

SMALL = {"service": "synthetic", "server": "queues", "reps": 3, "window": 0.1, "warmup": 0.0, "budget": 0.0}


@pytest.fixture
def fake(monkeypatch):
    return fakes.install(monkeypatch)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "s.sqlite"


def sweep(out, *variables, **settings):
    return harness.sweep(*(variables or ("workers",)), out=out, **{**SMALL, **settings})


def test_the_document_has_what_other_programs_rely_on(fake, out):
    found = json.loads(
        json.dumps(sweep(out, values="1,2,4,6,8", options={"steal": ["none", "next"]}), allow_nan=False)
    )
    assert found.keys() == {"schema_version", "sweep", "cells", "series"} and found["schema_version"] == 1
    assert {"id", "variables", "provenance", "noise"} <= found["sweep"].keys() and found["sweep"]["complete"]
    assert found["sweep"]["variables"] == [{"name": "workers", "values": [1, 2, 4, 6, 8]}]
    provenance = found["sweep"]["provenance"]
    assert {
        "cpu",
        "cpus",
        "kernel",
        "hz",
        "governor",
        "mitigations",
        "git",
        "build",
        "versions",
    } <= provenance.keys()
    assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", json.dumps(provenance))
    assert len(found["cells"]) == 10
    for cell in found["cells"]:
        assert {
            "scenario",
            "replicates",
            "broken",
            "findings",
            "measured",
            "predicted",
            "error",
        } <= cell.keys()
        assert [sorted(r) for r in cell["replicates"]] == [["block", "id", "started"]] * 3
        assert cell["broken"] == []
        assert (
            cell["measured"].keys() == cell["predicted"].keys() >= {"throughput", "response", "utilisation"}
        )
        ratio = cell["predicted"]["throughput"]["value"] / cell["measured"]["throughput"]["value"]
        assert cell["error"]["throughput"] == pytest.approx(ratio - 1)
    assert [series["fixed"]["steal"] for series in found["series"]] == ["none", "next"]
    for series in found["series"]:
        assert {"fixed", "variable", "fits", "law", "peak", "explanation"} <= series.keys()
        assert series["variable"] == "workers" and series["peak"]["value"] == 4
        assert 4 in series["peak"]["set"]
        assert {"value", "set", "law_value", "low", "high"} <= series["peak"].keys()
        assert series["explanation"]["text"] and series["explanation"]["evidence"]
    noise = found["sweep"]["noise"]
    assert len(noise["aa"]) == 3 and 0 < max(map(abs, noise["aa"])) < 0.1
    assert noise["null"]["throughput"]["value"] > 0


def test_the_laws_are_fitted_to_what_was_measured(fake, out):
    fake.noise = 0.002
    (series,) = sweep(out, values="1:8")["series"]
    fits = {fit["law"]: fit for fit in series["fits"]}
    assert set(fits) == {"amdahl", "usl"} and series["law"] == "usl"
    sigma, kappa = (fits["usl"]["parameters"][name] for name in ("sigma", "kappa"))
    for found, truth in ((sigma, 0.05), (kappa, 0.045)):
        assert found["low"] < 1.1 * truth and 0.9 * truth < found["high"] < 1.5 * truth
    peak = math.sqrt(0.95 / 0.045)  # one interval in twenty misses the truth by a little
    assert series["peak"]["low"] < 1.02 * peak and 0.98 * peak < series["peak"]["high"]


def test_too_few_points_are_said_so_and_not_fitted(fake, out):
    (series,) = sweep(out, values="1,2")["series"]
    assert series["law"] is None
    assert "too few" in series["explanation"]["text"]


def test_every_prediction_is_stored_before_its_cell_is_measured(fake, out):
    def check(scenario, block):
        with open_store(out) as reader:
            known = reader.predictions()
        if scenario.server == "queues":
            assert known[scenario.key].metrics is not None

    fake.before = check
    sweep(out)
    assert len(fake.asked) == 3 * 8
    with open_store(out) as reader:
        assert reader.costs(1)["cpus"] == 2 and reader.costs(2) is None


def test_a_failure_is_kept_the_sweep_goes_on_and_resume_tries_it_again(fake, out):
    def dies(scenario, block):
        return "server queues was killed by signal 9" if scenario.get("workers") == 3 and block == 1 else None

    fake.fail = dies
    first = sweep(out)
    (failed,) = [cell for cell in first["cells"] if cell["failures"]]
    assert failed["value"] == 3 and len(failed["replicates"]) == 2 and failed["measured"]
    assert failed["failures"] == [{"block": 1, "message": "server queues was killed by signal 9"}]
    assert not first["sweep"]["complete"] and "FAILED 1×" in table.text(first)
    assert all(len(cell["replicates"]) == 3 for cell in first["cells"] if cell is not failed)
    fake.fail = lambda scenario, block: None
    fake.asked.clear()
    second = sweep(out, resume=True)
    assert fake.asked == [(failed["key"], 1)]
    assert second["sweep"]["complete"] and not any(cell["failures"] for cell in second["cells"])


def test_a_sweep_in_which_nothing_works_ends_after_one_block(fake, out):
    fake.fail = lambda scenario, block: "kneepoint-server cannot be run"
    found = sweep(out, values="1,2")
    assert len(found["cells"]) == 2 and all(cell["measured"] is None for cell in found["cells"])
    with open_store(out) as store:
        assert len(store.failures()) == 4
    assert found["series"][0]["peak"]["value"] is None
    assert table.text(found)


def test_an_error_of_the_system_is_a_failure_too(fake, out):
    def exhausted(scenario, block):
        if scenario.get("workers") == 2:
            raise OSError(24, "Too many open files")

    fake.before = exhausted
    found = sweep(out, values="1,2")
    assert [len(cell["replicates"]) for cell in found["cells"]] == [3, 0]
    assert found["cells"][1]["failures"][0]["message"] == "Too many open files"


def test_more_values_run_only_the_new_ones(fake, out):
    first = sweep(out, values="1,4")
    fake.asked.clear()
    second = sweep(out, values="1,2,8", resume=True)
    new = {cell["key"] for cell in second["cells"]} - {cell["key"] for cell in first["cells"]}
    assert [cell["value"] for cell in second["cells"]] == [1, 2, 4, 8]
    assert sorted(fake.asked) == sorted((key, block) for key in new for block in range(3))
    kept = {cell["key"]: cell["replicates"] for cell in second["cells"]}
    assert all(kept[cell["key"]] == cell["replicates"] for cell in first["cells"])
    assert any("another session" in warning for warning in second["sweep"]["warnings"])
    assert second["sweep"]["id"] == first["sweep"]["id"]


def test_values_alone_are_those_of_the_stored_variable(fake, out):
    sweep(out, values="1,2")
    fake.asked.clear()
    with sweeping.open_for(Request(values=("1,4",)), out, resume=True) as store:
        sweeping.execute(store, Silent(), predict=False)
    assert len({key for key, _ in fake.asked}) == 1
    with pytest.raises(HarnessError, match="--values given 2 times for 1 --var"):
        sweeping.open_for(Request(values=("1", "4")), out, resume=True)


def test_more_repetitions_add_blocks(fake, out):
    sweep(out, values="1,2")
    fake.asked.clear()
    found = sweep(out, values="1,2", reps=4, resume=True)
    assert len(fake.asked) == 4 and {block for _, block in fake.asked} == {3}
    assert all(len(cell["replicates"]) == 4 for cell in found["cells"])


def test_resuming_what_is_finished_measures_nothing(fake, out):
    first = sweep(out, values="1,2")
    fake.asked.clear()
    assert sweep(out, values="1,2", resume=True) == first
    assert fake.asked == []


@pytest.mark.parametrize(
    "change",
    [
        {"window": 0.2},
        {"seed": 5},
        {"sample": 0.5},
        {"server": "sbuf"},
        {"service": "stock"},
        {"options": {"steal": "next"}},
    ],
)
def test_resuming_another_sweep_is_refused(fake, out, change):
    sweep(out, values="1,2")
    with pytest.raises(HarnessError, match="holds another sweep") as caught:
        sweep(out, resume=True, **change)
    assert caught.value.usage


def test_resuming_with_another_variable_is_refused(fake, out):
    sweep(out, values="1,2")
    with pytest.raises(HarnessError, match="--var workers, not --var clients"):
        sweep(out, "clients", resume=True)


def test_a_shift_of_the_machine_leaves_its_block_out_while_enough_remain(fake, out, monkeypatch):
    readings = iter(
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.3, 1.0]
    )  # at the start and the end of each of four blocks
    monkeypatch.setattr(calibrate, "yardstick", lambda: next(readings))
    slow = {"on": False}
    fake.throughput = lambda scenario: fakes.usl(scenario) * (0.5 if slow["on"] else 1)
    fake.before = lambda scenario, block: slow.update(on=block == 3)
    found = sweep(out, values="1,2,4", reps=4)
    assert "left out" in found["sweep"]["warnings"][0] and "+30%" in found["sweep"]["warnings"][0]
    for cell in found["cells"]:
        scenario = Scenario.from_json(cell["scenario"])
        assert len(cell["replicates"]) == 4
        assert cell["measured"]["throughput"]["value"] == pytest.approx(fakes.usl(scenario), rel=0.05)
    assert drift.drift_of(
        [{"session": 1, "block": b, "yardstick": y} for b, y in enumerate((1, 1, 2))]
    ).drifted
    few = drift.drift_of([{"session": 1, "block": b, "yardstick": y} for b, y in enumerate((1, 1, 2))])
    assert not few.left_out  # two would remain


def test_further_blocks_are_measured_until_the_intervals_are_narrow(fake, out):
    fake.noise = 0.06
    found = sweep(out, values="1,4", reps=5, budget=1e5, predict=False)
    told, blocks = found["sweep"]["stopping"], found["sweep"]["stopping"]["blocks"]
    assert (told["rule"], told["reason"]) == ("sequential", "interval") and 5 < blocks <= 20
    assert told["widest"] <= found["sweep"]["precision"] == 0.05 and "every sound cell" in told["says"]
    assert [len(cell["replicates"]) for cell in found["cells"]] == [blocks] * 2
    assert len(found["sweep"]["noise"]["aa"]) == blocks and found["sweep"]["complete"]
    widths = [cell["measured"]["throughput"] for cell in found["cells"]]
    assert max((w["high"] - w["low"]) / 2 / w["value"] for w in widths) == pytest.approx(told["widest"])


def test_by_default_the_budget_holds_a_third_more_blocks(fake, out):
    fake.noise = 0.3
    found = sweep(out, values="1,4", reps=5, budget=None, predict=False)
    told = found["sweep"]["stopping"]
    assert (told["reason"], told["blocks"], found["sweep"]["complete"]) == ("budget", 6, True)
    fake.asked.clear()
    more = sweep(out, resume=True, budget=8.1 * 4 * 0.15, predict=False)
    assert more["sweep"]["stopping"]["blocks"] == 8 and {block for _, block in fake.asked} == {6, 7}


def test_blocks_in_which_the_machine_had_shifted_are_measured_again(fake, out, monkeypatch):
    block = {"now": 0}
    fake.before = lambda scenario, number: block.update(now=number)
    readings = iter([1.0, 1.0, 1.0, 1.2, *[1.0] * 100])
    monkeypatch.setattr(calibrate, "yardstick", lambda: next(readings))
    found = sweep(out, values="1,2", reps=5, budget=None, predict=False)
    assert found["sweep"]["stopping"]["reason"] == "interval"
    assert (found["sweep"]["stopping"]["blocks"], found["sweep"]["stopping"]["steady"]) == (6, 5)
    assert "speed had shifted" in found["sweep"]["stopping"]["says"]


def test_a_null_server_at_half_its_speed_is_a_drift_and_one_that_wanders_is_not(fake, out):
    def rates(scenario):
        if scenario.server != "select":
            return fakes.usl(scenario)
        return 100_000.0 * {1: 1.25, 2: 0.8, 4: 0.5}.get(block["now"], 1.0)

    block = {"now": 0}
    fake.before = lambda scenario, number: block.update(now=number)
    fake.throughput = rates
    found = sweep(out, values="1,2", reps=5, budget=None, predict=False)["sweep"]
    drifted = [row["block"] for row in found["noise"]["yardstick"]["blocks"] if row["drifted"]]
    assert drifted == [4] and (found["stopping"]["blocks"], found["stopping"]["steady"]) == (6, 5)
    assert "1 of 6 blocks (null server -5" in found["warnings"][0]


def test_a_null_server_at_half_its_speed_marks_cells_when_its_block_must_be_kept(fake, out):
    block = {"now": 0}
    fake.before = lambda scenario, number: block.update(now=number)
    fake.throughput = lambda scenario: (
        10_000.0 / (2 if scenario.server == "select" and block["now"] == 2 else 1)
    )
    found = sweep(out, values="1,2", reps=3, budget=0.0, predict=False)
    assert not found["sweep"]["noise"]["yardstick"]["left_out"]
    assert [[mark["check"] for mark in cell["broken"]] for cell in found["cells"]] == [["drift"]] * 2


def test_a_broken_cell_asks_for_no_further_blocks(fake, out, monkeypatch):
    fake.throughput = lambda scenario: 0.0 if scenario.get("workers") == 2 else fakes.usl(scenario)
    real = fakes.record

    def empty(scenario, rate, window):
        found = real(scenario, max(rate, 1.0), window)
        if scenario.get("workers") == 2:
            found["errors"] = {"reset": random.randrange(10**6)}
        return found

    monkeypatch.setattr(fakes, "record", empty)
    found = sweep(out, values="1,2,4", reps=5, budget=1e5, predict=False)
    assert [bool(cell["broken"]) for cell in found["cells"]] == [False, True, False]
    assert (found["sweep"]["stopping"]["reason"], found["sweep"]["stopping"]["blocks"]) == ("interval", 5)


def test_a_sweep_killed_in_a_further_block_goes_on_as_if_it_had_not_been(fake, out, tmp_path):
    fake.noise = 0.0
    rates = {}

    def steady(scenario):  # the same in every run, so that both sweeps see the same figures
        name = (scenario.key, fake.asked[-1][1])
        return fakes.usl(scenario) * rates.setdefault(name, random.Random(str(name)).gauss(1, 0.06))

    fake.throughput = steady
    whole = sweep(out, values="1,2,4", reps=5, budget=1e5, predict=False)
    blocks = whole["sweep"]["stopping"]["blocks"]
    assert blocks > 6
    other, asked = tmp_path / "killed.sqlite", []
    for stop in (3, 11, 26, 27, 29, 10**6):

        def dies(scenario, block, stop=stop):
            if len(asked) == stop:
                raise KeyboardInterrupt
            asked.append((scenario.key, block))

        fake.before = dies
        try:
            found = sweep(other, values="1,2,4", reps=5, budget=1e5, predict=False, resume=other.exists())
        except KeyboardInterrupt:
            continue
    assert found["sweep"]["stopping"]["blocks"] == blocks and found["sweep"]["sessions"] == 6
    assert len(asked) == 5 * blocks and [c["measured"] for c in found["cells"]] == [
        c["measured"] for c in whole["cells"]
    ]


def test_the_document_has_the_certificate_and_where_the_time_went(fake, out):
    found = sweep(out, values="1,2", predict=False)["sweep"]
    proof = found["certificate"]
    assert (
        proof["ceiling"]["low"] <= found["noise"]["null"]["throughput"]["value"] <= proof["ceiling"]["high"]
    )
    assert proof["lag"] is None and proof["threads"] == 1 and 0 < proof["clock_cost"] < 1e-5
    with open_store(out) as store:
        (null,) = store.replicates(NULL)
    assert proof["null_key"] == null
    ceiling = proof["ceiling"]["value"]
    assert proof["cpu_per_request"] == pytest.approx(1 / 3 / ceiling, rel=0.05)
    spent = found["efficiency"]
    assert spent["windows"] == pytest.approx(3 * 4 * 0.1)
    assert spent["parts"]["start"] == pytest.approx(3 * 4 * 0.01)
    assert found["noise"]["aa_different"] in (True, False)


def test_a_cell_near_the_null_servers_ceiling_is_said_to_be_limited_by_the_load(fake, out):
    fake.throughput = lambda scenario: 10_000.0 if scenario.server == "select" else 9_900.0
    found = sweep(out, values="1,2", predict=False)
    names = [{finding["name"] for finding in cell["findings"]} for cell in found["cells"]]
    assert names == [{"load_limited"}] * 2


def test_new_stores_have_names_of_their_own(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    first = sweeping.store_path(None, Request(("workers",)), resume=False)
    first.parent.mkdir()
    first.touch()
    second = sweeping.store_path(None, Request(("workers",)), resume=False)
    assert first != second and first.suffix == second.suffix == ".sqlite"
    assert sweeping.store_path(Path("mine"), Request(), resume=False) == Path("mine.sqlite")
    os.utime(first, (1, 1))
    second.touch()
    assert sweeping.store_path(None, Request(), resume=True) == second


def test_a_calibration_that_fails_leaves_a_sweep_without_predictions(fake, out, monkeypatch):
    def fails(scenarios, progress=None):
        raise calibrate.CalibrationError("the ladder does not identify the costs")

    monkeypatch.setattr(calibrate, "costs_for", fails)
    wanted = sweeping.request_for("workers", "1,2", **SMALL)
    with sweeping.open_for(wanted, out, resume=False) as store:
        outcome = sweeping.execute(store, Silent())
        found = document.document(store)
    assert outcome.measured == 12 and "does not identify" in outcome.unpredicted
    assert all(cell["measured"] and cell["predicted"] is None for cell in found["cells"])
