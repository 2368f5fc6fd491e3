"""Launches and what becomes of them: order, time, failures, Ctrl-C, rows, files, the table."""

import json
import math
import random
import re

import numpy as np
import probes
import pytest

from harness.errors import HarnessError
from harness.probing import launching, results, running, table
from harness.probing.points import Plan
from harness.probing.wanted import Request
from harness.progress import Silent
from pyx.probing import ProbeError

CONTRACT = {
    *("probe", "variant", "kind", "unit_of_work", "position", "pairs", "cores", "size", "median_ns"),
    *("low_ns", "high_ns", "p99_ns", "overhead_ns", "samples", "flags"),
}


class Machine:
    """Launches that take no time: each point's cost is known, and some go wrong."""

    def __init__(self, cost=0.03):
        self.asked, self.now, self.cost, self.faults = [], 0.0, cost, {}
        self.random = random.Random(5)

    def clock(self):
        return self.now

    def launch(self, probe, options, *, position="?", **words):
        self.asked.append((probe, options.get("variant", ""), words["kind"], words["cpus"], words["budget"]))
        self.now += self.cost + words["budget"] * launching.WARMING
        fault = self.faults.get(probe)
        if fault:
            raise fault.pop() if isinstance(fault, list) else fault
        point = probes.point(
            "", words["cpus"], probe=probe, kind=words["kind"], pairs=words["pairs"], size=words["size"]
        )
        level = 5000 * self.random.uniform(0.995, 1.005)
        return probes.launch(point, np.exp(np.random.default_rng(1).normal(math.log(level), 0.02, 200)))


@pytest.fixture
def machine(monkeypatch):
    probes.install(monkeypatch)
    return Machine()


POINTS = tuple(probes.point(probe=name) for name in ("a", "b", "c", "d"))


def carry_out(machine, points=POINTS, effort=None):
    effort = effort or launching.Effort.of(len(points), quick=False)
    return launching.carry_out(points, effort, Silent(), machine.launch, seed=1, clock=machine.clock)


def test_each_round_visits_every_point_once_in_an_order_of_its_own(machine):
    carry_out(machine)
    names = [name for name, *_ in machine.asked]
    rounds = [names[i : i + 4] for i in range(0, 24, 4)]
    assert len(names) == 24 and all(sorted(visit) == list("abcd") for visit in rounds)
    assert len(set(map(tuple, rounds))) > 1


@pytest.mark.parametrize(("quick", "most"), [(False, 48), (True, 7)])
@pytest.mark.parametrize("count", [1, 40, 60])
@pytest.mark.parametrize("cost", [0.01, 0.03, 0.05])
def test_all_launches_fit_into_the_time(quick, most, count, cost):
    machine = Machine(cost)
    points = [probes.point(probe=f"p{i}") for i in range(count)]
    found = carry_out(machine, points, launching.Effort.of(count, quick))
    assert machine.now <= most
    assert all(len(found.found[i]) >= launching.FEWEST_REPS for i in range(count))


def test_slow_launches_shorten_those_after_them():
    machine = Machine(0.2)
    carry_out(machine, [probes.point(probe=f"p{i}") for i in range(40)])
    budgets = [budget for *_, budget in machine.asked]
    assert budgets[0] > budgets[-1]


def test_as_many_launches_as_are_asked_for():
    assert launching.Effort.of(10_000, True, reps=7).reps == 7
    assert launching.Effort.of(10_000, False).reps == launching.QUICK_REPS
    assert launching.Effort.of(10_000, False, reps=4).fewest == 4
    assert launching.Effort.of(10, False).reps == launching.REPS


def test_a_refusal_is_not_tried_again_and_takes_nothing_with_it(machine):
    machine.faults["b"] = ProbeError("probe b: no such thing here", usage=True)
    found = carry_out(machine)
    assert found.refused == {1: "no such thing here"} and not found.failed
    assert [name for name, *_ in machine.asked].count("b") == 1
    assert all(len(found.found[i]) == launching.REPS for i in (0, 2, 3))


def test_a_failure_is_tried_once_more(machine):
    machine.faults["b"] = ProbeError("probe b: end 1 was killed")
    found = carry_out(machine)
    assert found.failed == {1: "end 1 was killed"}
    assert [name for name, *_ in machine.asked].count("b") == 2


def test_interrupted_keeps_what_is_there(machine):
    plain = machine.launch

    def launch(*words, **more):
        if len(machine.asked) == 9:
            raise KeyboardInterrupt
        return plain(*words, **more)

    machine.launch = launch
    found = carry_out(machine)
    assert found.interrupted and sum(map(len, found.found.values())) == 9


def run(machine, *names, **request):
    return running.run(Request(names, **request), launch=machine.launch, here=probes.TWO)


def test_the_document_is_what_others_rely_on(machine):
    outcome = run(machine, "pingpong", reps=3)
    document = outcome.document
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert {
        "schema",
        "command",
        "started",
        "seconds",
        "machine",
        "positions",
        "results",
        "refused",
    } <= document.keys()
    for place, row in enumerate(document["results"]):
        assert row.keys() >= CONTRACT
        assert row["low_ns"] <= row["median_ns"] <= row["high_ns"]
        assert row["median_ns"] == pytest.approx(5000 - row["overhead_ns"], rel=0.02)
        assert len(row["launches"]) == 3 and row["samples"] == 600
        assert len(outcome.samples[str(place)]) == 600
        assert outcome.samples[f"{place}.launch"].tolist() == [200] * 3
    assert not outcome.failed and document["complete"] and -0.9 < document["yardstick_shift"] < 9


def test_one_launch_has_no_interval(machine):
    row = run(machine, "crowd", reps=1).document["results"][0]
    assert row["low_ns"] is None and row["high_ns"] is None


def test_what_failed_is_a_row_of_its_own(machine):
    machine.faults["crowd"] = ProbeError("probe crowd: end 1 of pair 0 was killed by signal 9")
    outcome = run(machine, "pingpong", "crowd", kind="process", position="l3", reps=1)
    (refused,) = outcome.document["refused"]
    assert refused["why"] == "failed: end 1 of pair 0 was killed by signal 9"
    assert len(outcome.failed) == 1
    measured = {row["probe"] for row in outcome.document["results"]}
    assert "pingpong" in measured and "crowd" not in measured


def test_when_the_machine_refuses_everything_that_is_said(machine):
    machine.faults["crowd"] = ProbeError("probe crowd: raise the limit", usage=True)
    with pytest.raises(HarnessError, match="nothing to measure: crowd: raise the limit") as caught:
        run(machine, "crowd")
    assert caught.value.usage
    assert (
        len([name for name, *_ in machine.asked if name == "crowd"]) == 4
    )  # both kinds at both positions, once each


@pytest.mark.parametrize("request_", [{"reps": 0}, {"reps": 1001}, {"iterations": 0}])
def test_numbers_have_limits(machine, request_):
    with pytest.raises(HarnessError, match="outside 1:"):
        run(machine, "crowd", **request_)


def test_notes_are_means_over_ends_and_medians_over_launches():
    point = probes.point()
    raws = [probes.launch(point, [5000.0] * 50, notes={"depth": depth}) for depth in (1.0, 2.0, 9.0)]
    raws[0]["ends"][1]["notes"] = {"depth": 3.0, "other": 5.0}
    found = {0: [launching.Found(raw, 0.1, 0.0, 0.0, 2) for raw in raws]}
    (row,), refused, _ = results.rows(Plan((point,), ()), launching.Collected(found))
    assert row["notes"] == {"depth": 2.0, "other": 5.0} and not refused


def test_launches_without_samples_are_refused():
    point = probes.point()
    found = {0: [launching.Found(probes.launch(point, []), 0.1, 0.0, 0.0, 2)]}
    rows, (refused,), samples = results.rows(Plan((point,), ()), launching.Collected(found))
    assert not rows and not samples and "iterations" in refused["why"]


def test_files_beside_each_other(machine, tmp_path):
    outcome = run(machine, "pingpong", reps=2)
    path = running.path_for(tmp_path / "deep/down", ("pingpong",))
    running.write(outcome, path, report=False)
    document = json.loads(path.read_text())
    assert path.name == "down.json" and document["samples_file"] == "down.npz"
    with np.load(path.with_suffix(".npz")) as stored:
        for place, row in enumerate(document["results"]):
            assert np.percentile(stored[str(place)], 99) == pytest.approx(row["p99_ns"])


def test_the_document_has_a_name_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = running.path_for(None, ("pipe", "syscall"))
    assert re.fullmatch(r"results/probe-\d{8}-\d{6}-\d+-pipe-syscall\.json", str(path))
    path.parent.mkdir()
    path.touch()
    assert running.path_for(None, ("pipe", "syscall")) != path
    with pytest.raises(HarnessError, match=r"ends in \.json"):
        running.path_for(tmp_path / "figures.csv", ())
    with pytest.raises(HarnessError, match=r"ends in \.json"):
        running.path_for(tmp_path, ())
    (tmp_path / "file").touch()
    with pytest.raises(HarnessError, match="cannot be written: Not a directory"):
        running.path_for(tmp_path / "file/down.json", ())


def test_the_table_shows_rows_absences_refusals_and_meanings(machine):
    outcome = run(machine, reps=2)
    outcome.document["results"][0]["flags"] = ["rejected", "lost"]
    outcome.document["legend"] = {"lost": "what it means"}
    shown = table.text(outcome.document)
    head, *lines = shown.split("\n")
    assert " ".join(head.split()) == "probe variant kind position pairs median 95 % p99 unit flags"
    rows = lines[: len(outcome.document["results"])]
    assert sum("REJECTED" in row for row in rows) == 1 and rows[0].endswith("lost")
    assert all("µs" in row for row in rows)
    assert "smt: absent, none" in shown and "lost: what it means" in shown
    assert "polling (thread same_cpu): its ends poll" in shown


def test_the_table_has_columns_for_what_was_swept(machine):
    shown = table.text(
        run(machine, "crowd", settings=("ends=2,3",), size="8,64", cores="1:2", reps=1).document
    )
    head = " ".join(shown.split("\n")[0].split())
    assert head.startswith("probe variant kind position pairs cores size ends")


def test_the_table_says_where_the_time_of_a_round_trip_goes(machine):
    document = run(machine, "pingpong", kind="thread", position="l3", variant="blocking", reps=2).document
    parts = [
        ("system calls", 2000.0, 1900.0, 2100.0),
        ("switches", 3000.0, None, None),
        ("residual", 1e-12, 0.0, 1e-12),
    ]
    names = ("part", "ns", "low_ns", "high_ns")
    document["results"][0]["parts"] = [dict(zip(names, part, strict=True)) for part in parts]
    shown = table.text(document).split("\n\n")[1].split("\n")
    assert "system calls" in shown[0] and shown[0].startswith("round trip")
    assert shown[1].endswith("2 ± 0.1 µs      3 µs         0")
