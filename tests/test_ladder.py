"""The calibration ladder recovers known costs from noisy readings, and refuses what does not identify them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from harness import ladder
from harness.ladder import RUNGS, Probes, Reading, Rung, Singular

PROBES = Probes(hop=2e-6, epoll=4.4e-7, select_one=5.9e-7, select_many=3.79e-6, many=65)
TRUE = {
    "load.event": 5.1e-6, "select.event": 5.4e-6, "sbuf.acceptor": 1.4e-6, "sbuf.worker": 6.5e-6,
    "queues.connection": 9.5e-6, "queues.worker": 2.7e-6, "machine.wake_waker": 7.9e-6,
    "machine.wake_sleeper": 7.2e-6, "machine.wake_socket": 2.8e-6, "machine.block": 1.2e-6,
}  # fmt: skip
LATENCY, HELD = 1.5e-5, 0.4


class Machine:
    """Makes readings as the cost model says they come about, written down here apart from the regression."""

    def __init__(self, seed: int, noise: float = 0.01, same: bool = False) -> None:
        self.random = np.random.default_rng(seed)
        self.noise, self.same = noise, same
        self.known = {name: cost.value for name, cost in PROBES.table().items()}

    def noisy(self, seconds: float) -> float:
        return float(seconds * (1 + self.noise * self.random.standard_normal()))

    def between(self, low: float, high: float) -> float:
        return float(self.random.uniform(low, high))

    def read(self, rung: Rung) -> Reading:
        if ("wait", "spin") in rung.options:
            role = {"connection": {"lock_waits": HELD}, "worker": {"tasks": 1.0}}
            return Reading(5e4, 2e-5, 1e-5, 1.0, 1.0, 0.0, role)
        return {"select": self.select, "sbuf": self.sbuf, "queues": self.queues}[rung.server](rung)

    def select(self, rung: Rung) -> Reading:
        batch = 1.0 if rung.clients == 1 or self.same else rung.clients ** self.between(0.5, 0.9)
        slept = 1.0 if self.same else (0.1 if rung.demand else 1.0) / batch
        load_slept = 1.0 if self.same else 1.0 if rung.demand else self.between(0.3, 1.0) / batch
        polls, load_polls = 1.2 / batch + slept, 1.1 / batch + load_slept
        poll = self.known["select.poll"] + self.known["select.poll_connection"] * rung.clients
        waker, sleeper = TRUE["machine.wake_waker"], TRUE["machine.wake_sleeper"]
        server = TRUE["select.event"] + polls * poll + slept * sleeper + load_slept * waker
        load = (
            TRUE["load.event"] + load_polls * self.known["load.poll"] + load_slept * sleeper + slept * waker
        )
        cycle = TRUE["select.event"] + TRUE["load.event"] + 2 * (sleeper + LATENCY)
        counters = {"polls": polls, "switches": slept, "demand_ns": rung.demand * 1e9}
        return Reading(
            1 / self.noisy(cycle),
            self.noisy(server) + rung.demand,
            self.noisy(load),
            load_polls,
            load_slept,
            self.between(0.0, 0.02),
            {"loop": counters},
        )

    def role(self, slept: float, preempted: float, rest: float) -> dict[str, float]:
        """Counters of threads that slept so often and have work of their own for so long."""
        cpu = rest + self.known["machine.switch"] * (slept + preempted) + TRUE["machine.block"] * slept
        return {"cpu_ns": self.noisy(cpu) * 1e9, "switches": slept, "preemptions": preempted}

    def load(self, woken: float, slept: float, polls: float) -> float:
        each = self.known["machine.switch"] + TRUE["machine.block"]
        sent = TRUE["load.event"] + TRUE["machine.wake_socket"] * woken
        return self.noisy(sent + polls * self.known["load.poll"] + slept * each)

    def sbuf(self, rung: Rung) -> Reading:
        slept, worker_slept, load_slept = (
            self.between(0.05, 0.4),
            self.between(0.1, 0.9),
            self.between(0.1, 0.9),
        )
        polls, futex = self.between(0.1, 0.5), self.known["machine.wake_futex"]
        insert = TRUE["sbuf.acceptor"] + polls * self.known["load.poll"] + futex * worker_slept
        acceptor = {**self.role(slept, 0.1, insert), "polls": polls}
        worker = self.role(worker_slept, 0.2, TRUE["sbuf.worker"] + TRUE["machine.wake_socket"] * load_slept)
        return self.threaded({"acceptor": acceptor, "worker": worker}, slept, load_slept)

    def queues(self, rung: Rung) -> Reading:
        waited, received = self.between(0.2, 0.9), self.between(0.2, 0.9)
        worker_slept, load_slept = self.between(0.1, 0.9), self.between(0.1, 0.9)
        futex = self.known["machine.wake_futex"]
        attend = TRUE["queues.connection"] + TRUE["machine.wake_socket"] * load_slept + futex * worker_slept
        connection = {**self.role(waited + received, 0.1, attend), "sleeps": waited}
        worker = self.role(worker_slept, 0.1, TRUE["queues.worker"] + futex * waited)
        return self.threaded({"connection": connection, "worker": worker}, received, load_slept)

    def threaded(self, roles: Mapping[str, Mapping[str, float]], woken: float, load_slept: float) -> Reading:
        server = sum(role["cpu_ns"] for role in roles.values()) * 1e-9
        polls = load_slept + 0.2
        return Reading(
            6e4,
            server,
            self.load(woken, load_slept, polls),
            polls,
            load_slept,
            self.between(0.0, 0.02),
            roles,
        )

    def climb(self, passes: int = 4) -> dict[Rung, list[Reading]]:
        return {rung: [self.read(rung) for _ in range(passes)] for rung in RUNGS}


def test_known_costs_are_recovered_exactly_without_noise() -> None:
    table, quality = ladder.solve(Machine(1, noise=0.0).climb(), PROBES)
    for name, value in TRUE.items():
        assert table[name].value == pytest.approx(value, rel=1e-6), name
    assert table["machine.wake_latency"].value == pytest.approx(LATENCY, rel=1e-6)
    assert table["queues.spin_held"].value == pytest.approx(HELD)
    assert table["queues.spin_held"].unit == "share"
    assert quality["residual"] < 1e-9 and 1 < quality["condition"] < ladder.MOST_CONDITION


def test_intervals_hold_known_costs_as_often_as_they_say() -> None:
    trials, held, near = 60, 0, []
    for seed in range(trials):
        table, _ = ladder.solve(Machine(seed).climb(), PROBES)
        for name, value in TRUE.items():
            held += table[name].low <= value <= table[name].high
            near.append(abs(table[name].value / value - 1))
    # 95 % of 600, of which those of one trial are correlated
    assert 0.91 <= held / (trials * len(TRUE)) <= 0.99
    assert np.median(near) < 0.03


def test_more_noise_gives_wider_intervals() -> None:
    widths = []
    for noise in (0.005, 0.03):
        table, _ = ladder.solve(Machine(5, noise).climb(), PROBES)
        widths.append(table["machine.wake_waker"].high - table["machine.wake_waker"].low)
    assert widths[1] > 3 * widths[0]


def test_a_disturbed_pass_is_not_used() -> None:
    readings = Machine(3, noise=0.0).climb()
    for rung, several in readings.items():
        several[0] = replace(
            several[0], server=9 * several[0].server, load=9 * several[0].load, neighbours=0.5
        )
        several[1] = replace(
            several[1], server=3 * several[1].server, load=3 * several[1].load, neighbours=0.4
        )
        readings[rung] = several
    table, _ = ladder.solve(readings, PROBES)
    assert table["load.event"].value == pytest.approx(TRUE["load.event"], rel=1e-6)


def test_rungs_that_do_not_tell_costs_apart_are_singular() -> None:
    # every reply wakes both sides once on every rung: who wakes and who sleeps cannot be told apart
    with pytest.raises(Singular, match="condition number"):
        ladder.solve(Machine(1, same=True).climb(), PROBES)


def test_a_cost_that_no_rung_counts_is_singular() -> None:
    readings = {rung: several for rung, several in Machine(1).climb().items() if rung.server != "queues"}
    with pytest.raises(Singular, match="never counted"):
        ladder.solve(readings, PROBES)


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


def test_probes_are_costs_of_their_own() -> None:
    table = PROBES.table()
    assert table["machine.switch"].value + table["machine.wake_futex"].value == pytest.approx(PROBES.hop)
    assert table["select.poll_connection"].value == pytest.approx(5e-8)
    assert replace(PROBES, select_many=0.0).table()["select.poll_connection"].value == 0.0
    assert all(cost.low <= cost.value <= cost.high and cost.source for cost in table.values())


def test_no_rung_runs_a_service_that_will_be_predicted() -> None:
    scenarios = [rung.scenario(seed=1) for rung in RUNGS]
    assert {scenario.service for scenario in scenarios} == {"synthetic"}
    assert {scenario.server for scenario in scenarios} == {"select", "sbuf", "queues"}
