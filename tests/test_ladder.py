"""The calibration ladder: its runs are read per reply, and what they count gives the costs that it was made with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from calibrated import HELD, LATENCY, TRUE, Machine
from sizes import fewest, sized

from harness.calibrating import ladder
from harness.calibrating.joint import Fit, Singular, fit
from harness.calibrating.ladder import RUNGS, Rung
from models.des.machine import HALTS

EXACT = {"rel": 1e-6}


def completed(machine: Machine, passes: int = 4) -> Fit:
    readings = machine.climb(passes)
    return ladder.complete(readings, fit([*machine.probes(passes), *ladder.equations(readings)]))


def test_derived_costs_are_recovered_without_noise() -> None:
    table = completed(Machine(1, noise=0.0)).table
    assert table["machine.wake_latency"].value == pytest.approx(LATENCY, **EXACT)
    assert table["queues.spin_held"].value == pytest.approx(HELD)
    assert table["queues.spin_held"].unit == "share"
    assert table["machine.halts"].low == table["machine.halts"].high == HALTS


def test_the_latency_is_no_surer_than_the_costs_it_is_the_rest_of() -> None:
    table = completed(Machine(1, noise=0.0, equation=0.05)).table
    latency, sleeper = table["machine.wake_latency"], table["machine.wake_sleeper"]
    assert latency.high - latency.low > (sleeper.high - sleeper.low) / 4


def test_the_latency_moves_with_the_costs_so_that_the_cycle_stays() -> None:
    machine = Machine(1, noise=0.002, method=0.05)
    readings = machine.climb()
    bare = fit([*machine.probes(), *ladder.equations(readings)])
    bare = replace(bare, quality={**bare.quality, "between": 0.0})
    wide = replace(
        bare,
        covariance=replace(
            bare.covariance, matrix=tuple(tuple(900 * x for x in row) for row in bare.covariance.matrix)
        ),
    )
    found = ladder.complete(readings, wide)
    cycle = {**ladder.CYCLE, ladder.LATENCY: 2.0}
    total = sum(weight * found.table[name].value for name, weight in cycle.items())
    assert found.covariance.of(ladder.CYCLE) ** 0.5 > 0.02 * total > 4 * found.covariance.of(cycle) ** 0.5
    matrix = np.array(found.covariance.matrix)
    assert np.allclose(matrix, matrix.T) and np.linalg.eigvalsh(matrix).min() > -1e-9 * np.trace(matrix)


@sized("trials", 40, 100)
def test_intervals_of_the_latency_hold_it_as_often_as_they_say(trials: int) -> None:
    held = 0
    for seed in range(trials):
        latency = completed(Machine(seed, noise=0.01, equation=0.03, method=0.05)).table[
            "machine.wake_latency"
        ]
        held += latency.low <= LATENCY <= latency.high
    assert held >= fewest(trials)


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
    assert Rung("sbuf", 16, 0.0, (("workers", "4"),), place="two").name == "ladder sbuf N=16 workers=4 two"
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
