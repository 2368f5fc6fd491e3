"""Semaphores: ends in turn switch once a hop; a bounded buffer loses nothing and keeps the order."""

import os
import signal
from statistics import median

import pytest
from probe_ends import error_after, errors_after, signalled

from pyx.probing import ProbeError, launch

HERE = sorted(os.sched_getaffinity(0))
PLACES = [HERE[:1], HERE[:2]] if len(HERE) > 1 else [HERE]
KINDS = ["process", "thread"]


def switches(end):
    return end["voluntary"] + end["involuntary"]


@pytest.mark.parametrize("cpus", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_ends_let_each_other_go_as_often_as_they_were_let_go(kind, cpus):
    first, second = launch("semaphore", kind=kind, cpus=cpus, iterations=500)["ends"]
    assert first["measured"] == 500
    assert first["units"] == first["sent"] == first["received"] == second["sent"] == second["received"]


@pytest.mark.parametrize("kind", KINDS)
def test_on_one_cpu_every_hop_is_a_switch(kind):
    ends = launch("semaphore", kind=kind, cpus=PLACES[0], iterations=2000)["ends"]
    units = ends[0]["units"]
    for end in ends:
        assert units - 2 <= switches(end) < 1.5 * units


@pytest.mark.parametrize("cpus", PLACES)
@pytest.mark.parametrize("slots", [1, 2, 10])
@pytest.mark.parametrize("kind", KINDS)
def test_a_buffer_gives_every_message_once_and_in_order(kind, slots, cpus):
    options = {"variant": "spsc", "slots": str(slots)}
    found = launch("semaphore", options, kind=kind, cpus=cpus, size=100, iterations=1000)
    producer, consumer = found["ends"]
    assert found["unit_of_work"] == "message"
    assert producer["units"] == producer["sent"] == consumer["received"] > 1000
    assert 1 <= consumer["notes"]["occupancy_messages"] <= slots


def test_a_larger_buffer_on_one_cpu_needs_fewer_switches_a_message():
    def switches_a_message(slots):
        options = {"variant": "spsc", "slots": str(slots)}
        ends = launch("semaphore", options, cpus=PLACES[0], iterations=4000)["ends"]
        return sum(map(switches, ends)) / ends[0]["units"]

    # With one slot each message needs the other end before and after it.
    assert switches_a_message(1) > 1.5 > switches_a_message(1000)


def test_several_pairs_do_not_meet():
    found = launch("semaphore", {"variant": "spsc"}, cpus=HERE[:2], pairs=5, iterations=300)
    ends = found["ends"]
    for producer, consumer in zip(ends[::2], ends[1::2], strict=True):
        assert producer["sent"] == consumer["received"] >= 300


def test_a_message_has_room_for_its_number():
    assert launch("semaphore", {"variant": "spsc"}, cpus=PLACES[0], size=1, iterations=10)["size"] == 8


def test_buffers_that_would_not_fit_are_refused():
    with pytest.raises(ProbeError, match=r"pairs: 3, slots: 4096.*256 are allowed") as caught:
        launch("semaphore", {"variant": "spsc", "slots": "4096"}, pairs=3, size=1 << 20)
    assert caught.value.usage


@pytest.mark.parametrize("kind", KINDS)
def test_the_calls_alone_cost_less_than_a_round_trip_and_never_sleep(kind):
    def cost(options):
        ends = launch("semaphore", options, kind=kind, cpus=PLACES[0], budget=0.05)["ends"]
        return ends, median(ends[0]["samples"])

    _, trip = cost({})
    costs = []
    for sleeps in range(3):
        (end,), ns = cost({"variant": "calls", "sleeps": str(sleeps)})
        assert end["voluntary"] < 10
        costs.append(ns)
    assert costs[0] < costs[1] < costs[2]
    assert costs[1] < trip  # in which one end at least sleeps


@pytest.mark.parametrize("variant", ["pingpong", "spsc"])
@pytest.mark.parametrize("end", [0, 1])
def test_an_end_that_is_killed_ends_the_run(variant, end):
    said = error_after(signalled(end, signal.SIGKILL), "semaphore", {"variant": variant}, cpus=HERE[:1])
    assert f"end {end} of pair 0 was killed by signal 9" in said


def test_an_end_that_is_stopped_ends_the_run():
    cases = [
        (signalled(end, signal.SIGSTOP), "semaphore", {"variant": variant})
        for variant in ("pingpong", "spsc")
        for end in (0, 1)
    ]
    assert all("pair 0 has stood still" in said for said in errors_after(cases, cpus=HERE[:1]))
