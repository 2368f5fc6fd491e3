"""The calibration ladder: its runs are read per reply, and what they count gives the costs that it was made with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from calibrated import HELD, LATENCY, TRUE, Machine

from harness.calibrating import ladder
from harness.calibrating.joint import Singular, fit
from harness.calibrating.ladder import RUNGS, Rung

EXACT = {"rel": 1e-6}


def test_derived_costs_are_recovered_without_noise() -> None:
    machine = Machine(1, noise=0.0)
    readings = machine.climb()
    table = ladder.derived(readings, fit([*machine.probes(), *ladder.equations(readings)]))
    assert table["machine.wake_latency"].value == pytest.approx(LATENCY, **EXACT)
    assert table["queues.spin_held"].value == pytest.approx(HELD)
    assert table["queues.spin_held"].unit == "share"


def test_the_latency_is_no_surer_than_the_costs_it_is_the_rest_of() -> None:
    machine = Machine(1, noise=0.0, equation=0.05)
    readings = machine.climb()
    found = fit([*machine.probes(), *ladder.equations(readings)])
    latency = ladder.derived(readings, found)["machine.wake_latency"]
    sleeper = found.table["machine.wake_sleeper"]
    assert latency.high - latency.low > (sleeper.high - sleeper.low) / 4


def test_a_disturbed_pass_is_not_used() -> None:
    machine = Machine(3, noise=0.0)
    readings = machine.climb()
    for several in readings.values():
        for i, factor in enumerate((9, 3)):
            several[i] = replace(
                several[i],
                server=factor * several[i].server,
                load=factor * several[i].load,
                neighbours=0.5 - i / 10,
            )
    found = fit([*machine.probes(), *ladder.equations(readings)])
    assert found.table["load.event"].value == pytest.approx(TRUE["load.event"], **EXACT)


def test_half_of_the_passes_are_used_however_disturbed() -> None:
    several = [replace(Machine(1).read(RUNGS[0]), neighbours=x) for x in (0.9, 0.6, 0.7, 0.8)]
    assert [reading.neighbours for reading in ladder.calm(several)] == [0.6, 0.7]
    assert len(ladder.calm([replace(reading, neighbours=0.01) for reading in several])) == 4


def test_a_rung_says_what_it_is() -> None:
    assert Rung("select", 2, 2e-5).name == "ladder select N=2 demand=20µs"
    assert Rung("sbuf", 16, 0.0, (("workers", "4"),)).name == "ladder sbuf N=16 workers=4"
    assert len({rung.name for rung in RUNGS}) == len(RUNGS)


def record(replies: int) -> dict[str, object]:
    """A replicate's record, of 2 s and with counters over its inner 1 s."""
    return {
        "histograms": {"0": {"count": replies}},
        "window": 2_000_000_000,
        "edge": {
            "time": 1_000_000_000, "server_cpu": 400_000_000, "load_cpu": 600_000_000, "polls": 5_000, "sleeps": 100,
        },
        "neighbours": None,
        "roles": {"loop": {"polls": 2_000, "switches": 50}},
    }  # fmt: skip


def test_a_record_is_read_per_reply() -> None:
    reading = ladder.read(record(20_000))
    assert reading.throughput == pytest.approx(10_000)
    assert (reading.server, reading.load) == pytest.approx((40e-6, 60e-6))
    assert (reading.load_polls, reading.load_sleeps) == pytest.approx((0.5, 0.01))
    assert reading.of("loop", "polls") == pytest.approx(0.2)
    assert reading.of("loop", "steals") == reading.of("worker", "polls") == 0.0
    assert reading.neighbours == 0.0


def test_a_rung_without_replies_is_singular() -> None:
    with pytest.raises(Singular, match="no replies"):
        ladder.read(record(0))


def test_no_rung_runs_a_service_that_will_be_predicted() -> None:
    scenarios = [rung.scenario(seed=1) for rung in RUNGS]
    assert {scenario.service for scenario in scenarios} == {"synthetic"}
    assert {scenario.server for scenario in scenarios} == {"select", "sbuf", "queues"}
