"""Mutexes: nothing that is counted under one is lost, changes of owner are told from turns, and turns alternate."""

import os
import signal
from statistics import median

import pytest
import trials
from probe_ends import errors_after, signalled

from pyx.probing import ProbeError, launch

HERE = sorted(os.sched_getaffinity(0))
PLACES = [HERE[:1], HERE[:2]] if len(HERE) > 1 else [HERE]
KINDS = ["process", "thread"]


def notes(ends, name):
    return [end["notes"][name] for end in ends]


def total(ends, name):
    return sum(end[name] for end in ends)


@pytest.mark.parametrize("protocol", ["none", "inherit"])
@pytest.mark.parametrize("ends", [1, 2, 4])
@pytest.mark.parametrize("cpus", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_counted_is_what_all_ends_did(kind, cpus, ends, protocol):
    options = {"ends": str(ends), "protocol": protocol}
    found = launch("mutex", options, kind=kind, cpus=cpus, budget=0.05)["ends"]
    assert len(found) == ends
    assert total(found, "received") == total(found, "units") == total(found, "sent")
    assert notes(found, "acquisitions") == pytest.approx([end["units"] for end in found], rel=1e-5)


@pytest.mark.parametrize("cpus", PLACES)
@pytest.mark.parametrize("variant", ["shared", "handoff"])
def test_two_owners_take_over_from_each_other_in_turn(variant, cpus):
    options = {"variant": variant, "work_inside": "1000", "work_outside": "1000"}
    ends = launch("mutex", options, cpus=cpus, budget=0.1)["ends"]
    first, second = notes(ends, "owner_changes")
    assert abs(first - second) <= 1
    for end in ends:
        found = end["notes"]
        each = found["acquisitions"] / found["owner_changes"]
        assert found["acquisitions_a_change"] == pytest.approx(each, rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_on_one_cpu_an_owner_keeps_it_for_very_many_turns(kind):
    ends = launch("mutex", kind=kind, cpus=PLACES[0], budget=0.1)["ends"]
    assert sum(notes(ends, "acquisitions")) > 100 * sum(notes(ends, "owner_changes")) > 0
    # So the time of a turn is far from what it takes to get the mutex from another.
    assert median(ends[0]["samples"]) < 1000


def test_an_owner_and_the_time_between_two_turns_burn_what_they_are_told_to():
    def cost(options):
        ends = launch("mutex", {"ends": "1", **options}, cpus=PLACES[0], budget=0.05)["ends"]
        return median(ends[0]["samples"])

    def attempt():  # how fast the loop runs is measured once, when the ends begin
        assert 0.8 * 20000 < cost({"work_inside": "20000"}) < 3 * 20000
        assert 0.8 * 20000 < cost({"work_outside": "15000", "work_inside": "5000"}) < 3 * 20000

    trials.patiently(attempt)


@pytest.mark.parametrize("cpus", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_hand_offs_are_changes_of_owner_that_were_waited_for(kind, cpus):
    options = {"variant": "handoff", "work_inside": "2000", "work_outside": "2000"}
    found = launch("mutex", options, kind=kind, cpus=cpus, budget=0.2)
    ends = found["ends"]
    assert found["unit_of_work"] == "hand-off"
    assert sum(notes(ends, "acquisitions")) == pytest.approx(total(ends, "received"), rel=1e-5)
    for end in ends:
        told = end["notes"]
        assert 0 < told["handoffs"] <= told["owner_changes"] < told["acquisitions"]
        assert end["units"] >= told["handoffs"] - 1
        assert told["stamp_ns"] <= told["handoff_p50_ns"] <= told["handoff_p90_ns"]
        assert told["handoff_mean_ns"] > 0


def test_a_mutex_that_is_hardly_ever_waited_for_ends_too():
    options = {"variant": "handoff", "work_outside": "1000000"}
    try:
        launch("mutex", options, cpus=HERE[:2], budget=0.05)
    except ProbeError as error:
        assert "hardly a hand-off" in str(error) or "stood still" in str(error)


@pytest.mark.parametrize("protocol", ["none", "inherit"])
@pytest.mark.parametrize("cpus", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_turns_alternate(kind, cpus, protocol):
    # Each turn is numbered and checked by its end: a second one in a row would fail.
    options = {"variant": "pingpong", "protocol": protocol}
    first, second = launch("mutex", options, kind=kind, cpus=cpus, iterations=500)["ends"]
    assert first["units"] == first["sent"] == first["received"] == second["sent"] == second["received"]


@pytest.mark.parametrize("kind", KINDS)
def test_on_one_cpu_every_turn_is_a_switch(kind):
    ends = launch("mutex", {"variant": "pingpong"}, kind=kind, cpus=PLACES[0], iterations=2000)["ends"]
    units = ends[0]["units"]
    for end in ends:
        assert units - 2 <= end["voluntary"] + end["involuntary"] < 1.5 * units


def test_the_calls_alone_cost_less_than_a_round_trip_and_never_sleep():
    def cost(options):
        ends = launch("mutex", options, cpus=PLACES[0], budget=0.05)["ends"]
        return ends, median(ends[0]["samples"])

    _, trip = cost({"variant": "pingpong"})
    costs = []
    for sleeps in range(3):
        (end,), ns = cost({"variant": "calls", "sleeps": str(sleeps)})
        assert end["voluntary"] < 10
        costs.append(ns)
    assert costs[0] < costs[1] < costs[2]
    assert costs[1] < trip


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"variant": "handoff", "ends": "1"}, "ask for ends=2"),
        ({"variant": "calls", "protocol": "inherit"}, "ask for none"),
        ({"ends": "65"}, "outside 1:64"),
    ],
)
def test_what_cannot_be_is_refused(options, why):
    with pytest.raises(ProbeError, match=why) as caught:
        launch("mutex", options)
    assert caught.value.usage


def meddled(number):
    """What runs say of which either end got a signal, by variant and end."""
    # work_inside: it very likely holds the mutex by then.
    cases = [(variant, end) for variant in ("shared", "handoff", "pingpong") for end in (0, 1)]
    words = [
        (signalled(end, number), "mutex", {"variant": variant, "work_inside": "2000"})
        for variant, end in cases
    ]
    return zip(cases, errors_after(words, cpus=HERE[:1]), strict=True)


def test_an_end_that_is_killed_ends_the_run():
    for (_, end), said in meddled(signal.SIGKILL):
        assert f"end {end} of pair 0 was killed by signal 9" in said


def test_an_end_that_is_stopped_ends_the_run():
    for (variant, _), said in meddled(signal.SIGSTOP):
        # To be handed nothing for a second may come to the other end before.
        assert "pair 0 has stood still" in said or (variant == "handoff" and "hardly a hand-off" in said)
