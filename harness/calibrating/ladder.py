"""The calibration ladder: the zero-demand service on each architecture, and what its counters say each step costs.

Per reply, the processor time of the generator and of the select loop is a sum of counted events times unknown costs:

    load   = event + polls × poll + wake_sleeper × own sleeps + wake_waker × server sleeps
    select = event + polls × (poll + N × poll_connection) + wake_sleeper × own sleeps + wake_waker × load sleeps

A client that thinks ends its thinking by a timer, and leaves both sides' CPUs halted for long, and their caches cool:
each wake-up then costs more, the longer the pause (`models.des.machine`). Clients that think equally long ask all at once,
time and again: one request of each burst wakes the server, and every connection and thread that has a part in it is cold.

At one client every count is one a reply and nothing can be told apart; more clients batch, and a burning server keeps its
clients asleep: the rungs differ in their counts. On the threaded servers with saturated CPUs nobody is woken from a halt:
their threads pay for switches, for sleeps, and for waking each other. What a poll or a switch costs, hardly any rung
tells by itself: `harness.calibrating.joint` solves these equations together with those of the probes.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.calibrating.joint import SHARED_DF, Equation, Fit, Singular, cost
from models.costs import Cost, Covariance
from models.des.machine import COOLS, HALTS, cooled, depth
from models.quantiles import t_quantile
from models.scenario import Scenario

NORMAL = 1.96
CALM = 0.05  # share of the CPUs that others may have used in a run that counts


@dataclass(frozen=True, slots=True)
class Rung:
    """One configuration of the ladder.

    Attributes
    ----------
    place : str
        Server and generator on "one" CPU, or "two"; empty: anywhere.
    random : bool
        Clients think for exponential times, else all for the same.
    """

    server: str
    clients: int
    demand: float = 0.0
    options: tuple[tuple[str, str], ...] = ()
    think: float = 0.0
    place: str = ""
    random: bool = False

    @property
    def name(self) -> str:
        """As a source of costs is called: ladder sbuf N=16 workers=4."""
        demand = f" demand={self.demand * 1e6:g}µs" if self.demand else ""
        think = f" think={self.think * 1e3:g}ms" if self.think else ""
        think += " exponential" if self.random else ""
        place = f" {self.place}" if self.place else ""
        return f"ladder {self.server} N={self.clients}{demand}{think}" + "".join(
            [*(f" {k}={v}" for k, v in self.options), place]
        )

    @property
    def apart(self) -> bool:
        """Whether every message goes from one CPU to the other."""
        return self.place == "two"

    @property
    def spins(self) -> bool:
        return ("wait", "spin") in self.options

    def scenario(self, seed: int) -> Scenario:
        options: dict[str, Any] = {"clients": self.clients, "demand": self.demand, **dict(self.options)}
        if self.server == "queues":
            options["accept"] = "thread"  # what its equations are about
        if self.think:
            options |= {"think": self.think, "think_dist": "exponential" if self.random else "constant"}
        if self.place:
            cpus = sorted(os.sched_getaffinity(0))
            options |= {"load_cpus": str(cpus[0]), "server_cpus": str(cpus[1 if self.apart else 0])}
        return Scenario.of("synthetic", self.server, seed=seed, options=options)


BURST, PAUSE = 16, 5e-3  # clients that ask at once, and for how long they think, s
MANY = 128  # clients of a server that sleeps and wakes for nearly each of their requests
WORKERS = (("workers", "4"),)
ONCE = (("connection", "per_request"),)
RUNGS = (
    *(Rung("select", n, place="two") for n in (1, 2, 4, 16, 64)),
    *(Rung("select", n, place="one") for n in (2, 16)),
    *(Rung("select", n, 2e-5, place="two") for n in (2, 16)),
    *(Rung("select", 1, think=pause, place="two") for pause in (1e-4, 1e-3, 5e-3)),
    Rung("select", BURST, think=PAUSE, place="two"),
    *(Rung(server, BURST, 0.0, WORKERS, PAUSE, "two") for server in ("sbuf", "queues")),
    Rung("select", MANY, think=MANY * 6e-5, place="two", random=True),
    *(Rung("select", n, 0.0, ONCE, place=place) for n, place in ((2, "two"), (16, "two"), (16, "one"))),
    *(
        Rung(server, 16, 0.0, (("workers", m),), place="one")
        for server in ("sbuf", "queues")
        for m in ("1", "4")
    ),
    *(Rung(server, n, 0.0, WORKERS, place="two") for server in ("sbuf", "queues") for n in (16, 64)),
    Rung("queues", 1, 0.0, (("wait", "spin"), ("workers", "1"))),
)


def null() -> Rung:
    """Where a machine's speed is looked at again: a saturated loop without demand."""
    return Rung("select", 16, place="two" if len(os.sched_getaffinity(0)) > 1 else "one")


def available() -> list[Rung]:
    """Those that the CPUs suffice for."""
    return [rung for rung in RUNGS if not rung.apart or len(os.sched_getaffinity(0)) > 1]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one run of a rung counted, per reply; times in s. `role` holds the server's counters by role."""

    throughput: float
    server: float
    load: float
    load_polls: float
    load_sleeps: float
    neighbours: float
    role: Mapping[str, Mapping[str, float]]

    def of(self, role: str, name: str) -> float:
        return self.role.get(role, {}).get(name, 0.0)


def read(record: Mapping[str, Any]) -> Reading:
    """A replicate's record as a reading."""
    replies = sum(h["count"] for h in record["histograms"].values())
    if not replies:
        raise Singular("a rung got no replies")
    per = record["window"] / record["edge"]["time"] / replies
    edge = record["edge"]
    return Reading(
        replies / record["window"] * 1e9,
        edge["server_cpu"] * per * 1e-9,
        edge["load_cpu"] * per * 1e-9,
        edge["polls"] * per,
        edge["sleeps"] * per,
        record["neighbours"] or 0.0,
        {role: {k: v * per for k, v in counters.items()} for role, counters in record["roles"].items()},
    )


def calm(several: Sequence[Reading]) -> list[Reading]:
    """The runs that other processes left alone; at least the half that they disturbed least."""
    order = sorted(several, key=lambda r: r.neighbours)
    least = max(1, (len(order) + 1) // 2)
    return order[:least] + [reading for reading in order[least:] if reading.neighbours <= CALM]


def equations(readings: Mapping[Rung, Sequence[Reading]]) -> list[Equation]:
    """What the calm runs say of the costs, one pass of a thread each."""
    return [
        equation
        for rung, several in readings.items()
        if not rung.spins
        for reading in calm(several)
        for equation in _of_rung(rung, reading)
    ]


def _of_rung(rung: Rung, reading: Reading) -> list[Equation]:
    """Of several clients that think only the server's: how many of the generator's polls a timer ended is not counted."""
    of_server, of_load = {
        "select": (_select, _select_load),
        "sbuf": (_sbuf, _threads_load),
        "queues": (_queues, _threads_load),
    }[rung.server]
    return [*of_server(rung, reading), *([] if rung.think and rung.clients > 1 else [of_load(rung, reading)])]


def _bursts(rung: Rung) -> bool:
    return rung.think > 0 and rung.clients > 1 and not rung.random


def _pause(reading: Reading) -> float:
    """How long the server's CPU is idle between two replies, s."""
    return max(1 / reading.throughput - reading.server, 0.0)


def _slept(rung: Rung, own: float, others: float) -> dict[str, float]:
    """Of one of two that wake each other: what its own sleeps cost it, and those of the other."""
    if rung.apart:
        return {"machine.wake_sleeper": own, "machine.wake_waker": others}
    return {"machine.switch": own, "machine.block": own, "machine.wake_socket": others}


def _reached(rung: Rung, batches: float) -> dict[str, float]:
    """What the way to another CPU costs, a message read; `batches`: begun there, and found begun by the other."""
    return {"machine.remote": 1.0, "machine.contact": batches} if rung.apart else {}


def _select_load(rung: Rung, reading: Reading) -> Equation:
    timers = 1.0 if rung.think else 0.0  # polls that a timer ends, not a message
    terms = {
        "load.event": 1.0,
        "load.poll": reading.load_polls,
        **_slept(rung, reading.load_sleeps, reading.of("loop", "switches")),
        **_reached(rung, reading.load_polls - timers + reading.of("loop", "polls")),
    }
    if rung.options == ONCE:
        terms["load.connect"] = 1.0
    if rung.think:  # it has slept for so long before it sends to a server that has slept for longer
        terms["load.timer"] = timers
        terms["machine.cooling_sleeper"] = depth(rung.think)
        terms["machine.cold_connection"] = cooled(rung.think)
        terms["machine.cooling_waker"] = depth(_pause(reading))
    return Equation(rung.name, "load", "ladder", terms, reading.load, reading.load)


def _select(rung: Rung, reading: Reading) -> list[Equation]:
    polls, slept = reading.of("loop", "polls"), reading.of("loop", "switches")
    terms = {
        "select.event": 1.0,
        "select.poll": polls,
        "select.poll_connection": polls * rung.clients,
        "select.watch_connection": slept * rung.clients,
        **_slept(rung, slept, reading.load_sleeps),
        **_reached(rung, polls + reading.load_polls - (1.0 if rung.think else 0.0)),
    }
    if not rung.apart:
        terms["machine.switch"] += reading.of("loop", "preemptions")
    if rung.options == ONCE:
        terms["machine.accept"] = 1.0
    if rung.random:  # its CPU has rested since for the greater part of the client's thinking
        idle = max(1 - reading.throughput * reading.server, 0.0)
        terms["machine.cooling_sleeper"] = slept * depth(_pause(reading) / slept)
        terms["machine.cold_connection"] = cooled(idle * rung.clients / reading.throughput)
    elif rung.think:
        rest = rung.think if _bursts(rung) else _pause(reading)
        terms["machine.cooling_sleeper"] = slept * depth(rest)
        terms["machine.cold_connection"] = cooled(rest)
    value = reading.server - reading.of("loop", "demand_ns") * 1e-9
    return [Equation(rung.name, "loop", "ladder", terms, value, reading.server)]


def _threads_load(rung: Rung, reading: Reading) -> Equation:
    """The generator against a threaded server, whose threads never all sleep: on their CPU nobody is woken from a halt."""
    polls, woken = reading.of("acceptor", "polls"), reading.of("acceptor", "switches")
    if rung.server == "queues":  # each connection has a thread of its own, which waits for its next message
        polls, woken = 1.0, _receives(reading)
    slept = _slept(rung, reading.load_sleeps, 0.0)
    terms = {
        "load.event": 1.0,
        "load.poll": reading.load_polls,
        **slept,
        **_reached(rung, reading.load_polls + polls),
        "machine.wake_socket": woken,
    }
    if rung.apart:
        terms["machine.wake_remote"] = woken
    return Equation(rung.name, "load", "ladder", terms, reading.load, reading.load)


def _role(
    rung: Rung, reading: Reading, role: str, terms: Mapping[str, float], first: bool, threads: int
) -> Equation:
    """The processor time of a role's threads: their switches, what each sleep costs beyond, and the terms.

    `first`: it is one of them that a burst wakes the CPU for; `threads`: how many of them have a part in it, cold.
    """
    cpu, slept = reading.of(role, "cpu_ns") * 1e-9, reading.of(role, "switches")
    switched = {"machine.switch": slept + reading.of(role, "preemptions"), "machine.block": slept}
    if _bursts(rung):
        woken, cold = first / rung.clients, cooled(rung.think)
        switched["machine.switch"] -= woken
        switched["machine.block"] -= woken
        switched |= {"machine.wake_sleeper": woken, "machine.cooling_sleeper": woken * depth(rung.think)}
        switched["machine.cold_thread"] = (min(threads, rung.clients) / rung.clients - woken) * cold
    return Equation(rung.name, role, "ladder", {**terms, **switched}, cpu, cpu)


def _fetched(rung: Rung) -> dict[str, float]:
    """What a burst's messages cost more."""
    return {"machine.cold_connection": cooled(rung.think)} if _bursts(rung) else {}


def _woken(rung: Rung, reading: Reading) -> dict[str, float]:
    """What waking the generator costs a thread of the server: alone on its CPU it is woken from idling."""
    return {"machine.wake_waker" if rung.apart else "machine.wake_socket": reading.load_sleeps}


def _sbuf(rung: Rung, reading: Reading) -> list[Equation]:
    polls = reading.of("acceptor", "polls")
    inserted = {
        "sbuf.acceptor": 1.0,
        "load.poll": polls,
        "machine.wake_futex": reading.of("worker", "switches"),
    }
    served = {"sbuf.worker": 1.0, **_woken(rung, reading), **_fetched(rung)}
    if rung.apart:
        inserted["machine.contact"] = polls
        served |= _reached(rung, reading.load_polls)
    return [
        _role(rung, reading, "acceptor", inserted, True, 1),
        _role(rung, reading, "worker", served, False, int(dict(rung.options)["workers"])),
    ]


def _queues(rung: Rung, reading: Reading) -> list[Equation]:
    attended = {
        "queues.connection": 1.0,
        **_woken(rung, reading),
        **_reached(rung, 1.0 + reading.load_polls),
        **_fetched(rung),
        "machine.wake_futex": reading.of("worker", "switches"),
    }
    worked = {"queues.worker": 1.0, "machine.wake_futex": reading.of("connection", "sleeps")}
    return [
        _role(rung, reading, "connection", attended, True, rung.clients),
        _role(rung, reading, "worker", worked, False, int(dict(rung.options)["workers"])),
    ]


def _receives(reading: Reading) -> float:
    """Times a connection's thread slept for a request, a reply: its other sleeps are waits for its tasks."""
    return max(reading.of("connection", "switches") - reading.of("connection", "sleeps"), 0.0)


CYCLE = {
    "load.event": 1.0,
    "select.event": 1.0,
    "machine.wake_sleeper": 2.0,
    "machine.remote": 2.0,
    "machine.contact": 2.0,
}
LATENCY = "machine.wake_latency"
ALONE = Rung("select", 1, place="two")


def complete(readings: Mapping[Rung, Sequence[Reading]], found: Fit) -> Fit:
    """The fit with the costs that no equation holds, from the rungs that show them.

    After how long a CPU halts and has cooled are conventions that the costs of that were fitted with: drawn apart from them,
    they would move what the thinking rungs say.
    """
    spinning = [r for rung, several in readings.items() if rung.spins for r in calm(several)]
    latency, covariance = cost(0.0, 0.0, "one CPU"), found.covariance
    if ALONE in readings:
        latency, covariance = _latency(readings, found)
    halts = Cost(HALTS, HALTS, HALTS, "KVM's halt_poll_ns by default")
    cools = Cost(COOLS, COOLS, COOLS, "from there on pauses cost no more")
    table = {
        **found.table,
        LATENCY: latency,
        "machine.halts": halts,
        "machine.cools": cools,
        "queues.spin_held": _held(spinning),
    }
    return replace(found, table=table, covariance=covariance)


def _latency(readings: Mapping[Rung, Sequence[Reading]], found: Fit) -> tuple[Cost, Covariance]:
    """Time from the interrupt to the sleeper's first instruction: what one client's cycle leaves over, by halves.

    So it is the shorter the longer the costs that it is the rest of: (cycle − w·c)/2 has −C·w/2 in common with costs c of
    covariance C, and a draw of all of them keeps the cycle as it was measured; it is an equation like the ladder's others,
    and off by as much as those are.
    """
    known, fitted = found.covariance.names, found.covariance.matrix
    cycle = statistics.median(_cycles(readings[ALONE]))
    rest = cycle - math.fsum(weight * found.table[name].value for name, weight in CYCLE.items())
    common = [
        -math.fsum(row[known.index(name)] * weight for name, weight in CYCLE.items()) / 2 for row in fitted
    ]
    own = (_cycle_variance(readings) + found.quality["between"] ** 2) * cycle**2
    variance = (own + found.covariance.of(CYCLE)) / 4
    matrix = (*((*row, c) for row, c in zip(fitted, common, strict=True)), (*common, variance))
    source = f"{ALONE.name}: cycle of one client"
    return cost(max(rest / 2, 0.0), NORMAL * math.sqrt(variance), source), Covariance(
        (*known, LATENCY), matrix
    )


def _cycles(readings: Sequence[Reading]) -> list[float]:
    return [1 / reading.throughput for reading in calm(readings)]


def _cycle_variance(readings: Mapping[Rung, Sequence[Reading]]) -> float:
    """Relative, of the median of one client's cycles; what few passes cannot say is taken from the other rungs' scatter."""
    squares, df = 0.0, 0
    for rung in (rung for rung in readings if rung.server == ALONE.server):
        cycles = _cycles(readings[rung])
        middle = statistics.fmean(cycles)
        squares += math.fsum((cycle / middle - 1) ** 2 for cycle in cycles)
        df += len(cycles) - 1
    alone = _cycles(readings[ALONE])
    own = math.fsum((cycle / statistics.fmean(alone) - 1) ** 2 for cycle in alone)
    shared = squares / max(df, 1)
    each = (SHARED_DF * shared + own) / (SHARED_DF + len(alone) - 1)
    return math.pi / 2 * each / len(alone)


def _held(readings: Sequence[Reading]) -> Cost:
    """Share of a polling worker's turn in which it holds its queue's lock: how often a put found it held."""
    held, error = _typical(
        [min(r.of("connection", "lock_waits") / max(r.of("worker", "tasks"), 1e-9), 1.0) for r in readings]
    )
    return Cost(held, max(held - error, 0.0), min(held + error, 1.0), "ladder queues, spinning", "share")


def _typical(values: Sequence[float]) -> tuple[float, float]:
    """The median, and half the 95 % interval of the mean; that is not known from a single value."""
    if len(values) < 2:
        return values[0], math.nan
    error = statistics.stdev(values) / math.sqrt(len(values)) * t_quantile(len(values) - 1)
    return statistics.median(values), error
