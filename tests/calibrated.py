"""A machine of known costs: readings of the ladder and launches of the probes, as the cost model says they come about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.calibrating import ladder, probes
from harness.calibrating.joint import Equation, Fit, fit
from harness.calibrating.ladder import RUNGS, Reading, Rung
from harness.calibrating.probes import PROBES, Probe
from models.des.machine import cooled, depth

TRUE = {
    "load.event": 5.1e-6, "load.poll": 4.4e-7, "load.timer": 6e-6,
    "select.event": 5.4e-6, "select.poll": 5.9e-7,
    "select.poll_connection": 5e-8, "select.watch_connection": 2.5e-7,
    "sbuf.acceptor": 1.4e-6, "sbuf.worker": 6.5e-6, "queues.connection": 9.5e-6,
    "queues.worker": 2.7e-6, "machine.wake_waker": 7.9e-6, "machine.wake_sleeper": 7.2e-6,
    "machine.wake_socket": 2.8e-6, "machine.wake_futex": 7e-7, "machine.switch": 1.3e-6, "machine.block": 1.2e-6,
    "machine.futex": 2e-7, "machine.syscall": 1e-7, "machine.fork": 8e-5, "machine.thread_create": 1e-5,
    "machine.accept": 2.2e-5, "load.connect": 3.1e-5,
    "machine.wake_idle": 7e-6, "machine.halted_latency": 8e-6, "machine.cooling_waker": 8e-6,
    "machine.cooling_sleeper": 6.1e-5, "machine.cooling_latency": 2.7e-5, "machine.cold_thread": 5.2e-6,
    "machine.cold_connection": 3.1e-6, "machine.remote": 2.2e-6, "machine.contact": 1.1e-6,
    "machine.wake_remote": 2.6e-6,
}  # fmt: skip
LATENCY, HELD = 1.5e-5, 0.4
CLOCK, LOOP = 30.0, 0.4  # ns


class Machine:
    """Written down here apart from the regression.

    Parameters
    ----------
    noise : float
        Of each reading and launch, a share.
    equation, method : float
        What each rung's thread and each probe's figure is off by in all passes, a share.
    analogy : float
        Factor by which a probe's woken sleeper costs both sides more than a server's.
    same : bool
        Every reply wakes both sides once, on every rung of select.
    """

    def __init__(
        self,
        seed: int,
        noise: float = 0.01,
        equation: float = 0.0,
        method: float = 0.0,
        analogy: float = 1.0,
        same: bool = False,
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.noise, self.equation, self.method, self.analogy, self.same = (
            noise,
            equation,
            method,
            analogy,
            same,
        )
        self.bias: dict[tuple[str, str], float] = {}

    def noisy(self, seconds: float, rung: Rung | Probe, part: str) -> float:
        spread = self.equation if isinstance(rung, Rung) else self.method
        key = (rung.name if isinstance(rung, Rung) else rung.source, part)
        bias = self.bias.setdefault(key, 1 + spread * self.random.standard_normal())
        return float(seconds * bias * (1 + self.noise * self.random.standard_normal()))

    def between(self, low: float, high: float) -> float:
        return float(self.random.uniform(low, high))

    def read(self, rung: Rung) -> Reading:
        if ("wait", "spin") in rung.options:
            role = {"connection": {"lock_waits": HELD}, "worker": {"tasks": 1.0}}
            return Reading(5e4, 2e-5, 1e-5, 1.0, 1.0, 0.0, role)
        return {"select": self.select, "sbuf": self.sbuf, "queues": self.queues}[rung.server](rung)

    def select(self, rung: Rung) -> Reading:
        if rung.think and rung.clients > 1:
            return self.many(rung)
        batch = 1.0 if rung.clients == 1 or self.same else rung.clients ** self.between(0.5, 0.9)
        slept = 1.0 if self.same else (0.1 if rung.demand else 1.0) / batch
        load_slept = 1.0 if self.same else 1.0 if rung.demand else self.between(0.3, 1.0) / batch
        polls, load_polls = 1.2 / batch + slept, 1.1 / batch + load_slept
        timers = 1.0 if rung.think else 0.0
        poll = TRUE["select.poll"] + TRUE["select.poll_connection"] * rung.clients
        preempted = 0.0 if rung.apart else 0.1
        way = self.way(rung, polls + load_polls - timers)
        server = TRUE["select.event"] + polls * poll + way + self.slept(rung, slept, load_slept)
        server += slept * rung.clients * TRUE["select.watch_connection"]
        server += preempted * TRUE["machine.switch"]
        load = TRUE["load.event"] + load_polls * TRUE["load.poll"] + way + self.slept(rung, load_slept, slept)
        if rung.options == ladder.ONCE:
            server += TRUE["machine.accept"]
            load += TRUE["load.connect"]
        cycle = TRUE["select.event"] + TRUE["load.event"] + 2 * TRUE["machine.wake_sleeper"] + 2 * LATENCY
        cycle += 2 * (TRUE["machine.remote"] + TRUE["machine.contact"])
        if rung.think:
            cycle += rung.think
            hot = server
            for _ in range(40):  # the longer it works, the shorter it has slept
                server = hot + self.chilled(cycle - server)
            load += TRUE["load.timer"] + self.chilled(rung.think)
        counters = {
            "polls": polls,
            "switches": slept,
            "preemptions": preempted,
            "demand_ns": rung.demand * 1e9,
        }
        cycle, server = self.noisy(cycle, rung, "cycle"), self.noisy(server, rung, "loop") + rung.demand
        if rung.think:  # what is read of the pause is what the waker pays by
            load += TRUE["machine.cooling_waker"] * depth(cycle - server)
        return Reading(
            1 / cycle,
            server,
            self.noisy(load, rung, "load"),
            load_polls,
            load_slept,
            self.between(0.0, 0.02),
            {"loop": counters},
        )

    def chilled(self, idle: float) -> float:
        """What such a rest costs who is woken after it more, s."""
        return TRUE["machine.cooling_sleeper"] * depth(idle) + TRUE["machine.cold_connection"] * cooled(idle)

    def many(self, rung: Rung) -> Reading:
        """Clients that think, and ask all at once or each by itself; only the server's time is read."""
        slept, load_slept = (0.6 if rung.random else 1 / rung.clients), self.between(0.3, 0.6)
        polls, load_polls = self.between(0.7, 1.0), self.between(0.8, 1.2)
        poll = TRUE["select.poll"] + TRUE["select.poll_connection"] * rung.clients
        hot = TRUE["select.event"] + polls * poll + self.slept(rung, slept, load_slept)
        hot += self.way(rung, polls + load_polls - 1) + slept * rung.clients * TRUE["select.watch_connection"]
        cycle = rung.think / rung.clients + 1e-5
        server = hot
        for _ in range(40):
            rest = max(cycle - server, 0.0)
            gap, away = (rest / slept, rest * rung.clients) if rung.random else (rung.think, rung.think)
            server = hot + slept * TRUE["machine.cooling_sleeper"] * depth(gap)
            server += TRUE["machine.cold_connection"] * cooled(away)
        role = {"polls": polls, "switches": slept, "preemptions": 0.0, "demand_ns": 0.0}
        server = self.noisy(server, rung, "loop")
        return Reading(
            1 / cycle, server, 2e-5, load_polls, load_slept, self.between(0.0, 0.02), {"loop": role}
        )

    def burst(self, rung: Rung, threads: int, first: bool) -> float:
        """What a burst costs the threads of a role more, a reply, s; of its first wake-up, no switch on a busy CPU."""
        if not rung.think:
            return 0.0
        woken, cold = first / rung.clients, cooled(rung.think)
        more = woken * (TRUE["machine.wake_sleeper"] + TRUE["machine.cooling_sleeper"] * depth(rung.think))
        more -= woken * (TRUE["machine.switch"] + TRUE["machine.block"])
        return more + TRUE["machine.cold_thread"] * cold * (min(threads, rung.clients) / rung.clients - woken)

    def fetched(self, rung: Rung) -> float:
        return TRUE["machine.cold_connection"] * cooled(rung.think) if rung.think else 0.0

    def way(self, rung: Rung, batches: float) -> float:
        """What a message read and so many batches cost between two CPUs, s."""
        return TRUE["machine.remote"] + batches * TRUE["machine.contact"] if rung.apart else 0.0

    def slept(self, rung: Rung, own: float, others: float) -> float:
        """What one's own sleeps cost, and waking the other, s."""
        if rung.apart:
            return own * TRUE["machine.wake_sleeper"] + others * TRUE["machine.wake_waker"]
        sleep = TRUE["machine.switch"] + TRUE["machine.block"]
        return own * sleep + others * TRUE["machine.wake_socket"]

    def role(self, rung: Rung, part: str, slept: float, preempted: float, rest: float) -> dict[str, float]:
        """Counters of threads that slept so often and have work of their own for so long."""
        cpu = rest + TRUE["machine.switch"] * (slept + preempted) + TRUE["machine.block"] * slept
        return {"cpu_ns": self.noisy(cpu, rung, part) * 1e9, "switches": slept, "preemptions": preempted}

    def load(self, rung: Rung, woken: float, slept: float, polls: float, batches: float) -> float:
        each = TRUE["machine.wake_socket"] + (TRUE["machine.wake_remote"] if rung.apart else 0.0)
        sent = TRUE["load.event"] + each * woken + self.way(rung, polls + batches)
        return self.noisy(sent + polls * TRUE["load.poll"] + self.slept(rung, slept, 0.0), rung, "load")

    def waking(self, rung: Rung) -> float:
        return TRUE["machine.wake_waker" if rung.apart else "machine.wake_socket"]

    def sbuf(self, rung: Rung) -> Reading:
        slept, worker_slept = self.between(0.05, 0.4), self.between(0.1, 0.9)
        load_slept, polls = self.between(0.1, 0.9), self.between(0.1, 0.5)
        load_polls = load_slept + 0.2
        woken = TRUE["machine.wake_futex"] * worker_slept
        insert = TRUE["sbuf.acceptor"] + polls * TRUE["load.poll"] + woken
        insert += polls * TRUE["machine.contact"] * rung.apart + self.burst(rung, 1, True)
        acceptor = {**self.role(rung, "acceptor", slept, 0.1, insert), "polls": polls}
        serve = TRUE["sbuf.worker"] + self.waking(rung) * load_slept + self.way(rung, load_polls)
        serve += self.fetched(rung) + self.burst(rung, int(dict(rung.options)["workers"]), False)
        worker = self.role(rung, "worker", worker_slept, 0.2, serve)
        load = self.load(rung, slept, load_slept, load_polls, polls)
        return self.threaded({"acceptor": acceptor, "worker": worker}, load, load_slept, load_polls)

    def queues(self, rung: Rung) -> Reading:
        waited, received = self.between(0.2, 0.9), self.between(0.2, 0.9)
        worker_slept, load_slept = self.between(0.1, 0.9), self.between(0.1, 0.9)
        load_polls = load_slept + 0.2
        futex = TRUE["machine.wake_futex"]
        attend = TRUE["queues.connection"] + self.waking(rung) * load_slept + futex * worker_slept
        attend += self.way(rung, 1.0 + load_polls) + self.fetched(rung) + self.burst(rung, rung.clients, True)
        connection = {**self.role(rung, "connection", waited + received, 0.1, attend), "sleeps": waited}
        task = TRUE["queues.worker"] + futex * waited
        task += self.burst(rung, int(dict(rung.options)["workers"]), False)
        worker = self.role(rung, "worker", worker_slept, 0.1, task)
        load = self.load(rung, received, load_slept, load_polls, 1.0)
        return self.threaded({"connection": connection, "worker": worker}, load, load_slept, load_polls)

    def threaded(
        self, roles: Mapping[str, Mapping[str, float]], load: float, load_slept: float, load_polls: float
    ) -> Reading:
        server = sum(role["cpu_ns"] for role in roles.values()) * 1e-9
        return Reading(6e4, server, load, load_polls, load_slept, self.between(0.0, 0.02), roles)

    def climb(self, passes: int = 4) -> dict[Rung, list[Reading]]:
        return {rung: [self.read(rung) for _ in range(passes)] for rung in RUNGS}

    def launch(self, probe: Probe) -> dict[str, Any]:
        """What pyx.probing.launch gives, of a batch of four."""
        sleeps = self.between(1.0, 2.0)  # in a round trip on one CPU
        pause = depth(float(probe.options.get("gap", "0")) * 1e-6)
        seconds = self.noisy(self.unit(probe, sleeps) + self.halted(pause), probe, "")
        sample = seconds * 1e9 + CLOCK / 4 + LOOP
        first = {"voluntary": 10**6, "units": 10**6, "batch": 4, "samples": [sample]}
        second = {"voluntary": round((sleeps - 1) * 1e6), "units": 0, "batch": 0, "samples": []}
        waker, sleeper = (
            self.analogy * self.noisy(TRUE[name], probe, name) + TRUE["machine.futex"]
            for name in ("machine.wake_waker", "machine.wake_sleeper")
        )
        waker += TRUE["machine.cooling_waker"] * pause
        ends = [
            {**first, "notes": {"waker_ns": waker * 1e9 + CLOCK}},
            {**second, "notes": {"sleeper_cpu_ns": sleeper * 1e9 + CLOCK}},
        ]
        return {"clock_ns": CLOCK, "loop_ns": LOOP, "ends": ends}

    def halted(self, pause: float) -> float:
        """What a wake-up takes longer after a halt, s."""
        return (TRUE["machine.halted_latency"] if pause else 0.0) + TRUE["machine.cooling_latency"] * pause

    def unit(self, probe: Probe, sleeps: float) -> float:
        """The time of a unit of a probe with its settings, s."""
        switch, call = TRUE["machine.switch"], TRUE["machine.futex"]
        several = int(probe.options.get("descriptors", "1")) > 1
        units = {
            "syscall": TRUE["machine.syscall"],
            "switch yield": 2 * (switch + TRUE["machine.syscall"]),
            "wakeup calls": 4 * call,
            "wakeup idle": TRUE["machine.wake_idle"],
            "wakeup pingpong": 2 * switch
            + sleeps * (TRUE["machine.wake_futex"] + call)  # one wakes, one waits
            + (2 - sleeps) * 2 * call,  # nobody slept: one wakes nobody, one finds the answer there
            "readiness epoll": TRUE["load.poll"],
            "readiness select": TRUE["select.poll"],
            "fork": TRUE["machine.fork"],
            "thread_create": TRUE["machine.thread_create"],
        }
        seconds = units.get(" ".join([probe.name, *probe.options.values()][:2]), 1e-5)
        return seconds + 64 * TRUE["select.poll_connection"] * several

    def probes(self, passes: int = 4, without: str = "") -> list[Equation]:
        """The rows of all probes but that source."""
        return [
            equation
            for _ in range(passes)
            for probe in PROBES
            if not without or not probe.source.startswith(without)
            for equation in probes.equations(probe, self.launch(probe))
        ]

    def fit(self, passes: int = 4) -> Fit:
        return fit([*probes.steady(self.probes(passes)), *ladder.equations(self.climb(passes))])
