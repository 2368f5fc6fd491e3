"""The calibration ladder: the zero-demand service on each architecture, and what its counters say each step costs.

Per reply, the processor time of the generator and of the select loop is a sum of counted events times unknown costs:

    load   = event + polls × poll + wake_sleeper × own sleeps + wake_waker × server sleeps
    select = event + polls × (poll + N × poll_connection) + wake_sleeper × own sleeps + wake_waker × load sleeps

At one client every count is one a reply and nothing can be told apart; more clients batch, and a burning server keeps its
clients asleep: the rungs differ in their counts. On the threaded servers with saturated CPUs nobody is woken from a halt:
their threads pay for switches, for sleeps, and for waking each other. What a poll or a switch costs, hardly any rung
tells by itself: `harness.calibrating.joint` solves these equations together with those of the probes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.calibrating.joint import Equation, Fit, Singular, cost
from models.costs import Cost
from models.quantiles import t_quantile
from models.scenario import Scenario

CALM = 0.05  # share of the CPUs that others may have used in a run that counts


@dataclass(frozen=True, slots=True)
class Rung:
    """One configuration of the ladder."""

    server: str
    clients: int
    demand: float = 0.0
    options: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """As a source of costs is called: ladder sbuf N=16 workers=4."""
        demand = f" demand={self.demand * 1e6:g}µs" if self.demand else ""
        return f"ladder {self.server} N={self.clients}{demand}" + "".join(
            f" {k}={v}" for k, v in self.options
        )

    @property
    def spins(self) -> bool:
        return ("wait", "spin") in self.options

    def scenario(self, seed: int) -> Scenario:
        options = {"clients": self.clients, "demand": self.demand, **dict(self.options)}
        return Scenario.of("synthetic", self.server, seed=seed, options=options)


RUNGS = (
    *(Rung("select", n) for n in (1, 2, 4, 16, 64)),
    *(Rung("select", n, 2e-5) for n in (2, 16)),
    *(Rung(server, 16, 0.0, (("workers", m),)) for server in ("sbuf", "queues") for m in ("1", "4", "8")),
    *(Rung(server, 64) for server in ("sbuf", "queues")),
    Rung("queues", 1, 0.0, (("wait", "spin"), ("workers", "1"))),
)


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


def middle(several: Sequence[Reading]) -> Reading:
    """The run with the median processor time a reply, among the calm ones."""
    found = sorted(calm(several), key=lambda r: r.server + r.load)
    return found[(len(found) - 1) // 2]


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
    if rung.server == "select":
        return [_select_load(rung, reading), _select(rung, reading)]
    roles = _sbuf if rung.server == "sbuf" else _queues
    return [*roles(rung, reading), _busy_load(rung, reading)]


def _select_load(rung: Rung, reading: Reading) -> Equation:
    terms = {
        "load.event": 1.0,
        "load.poll": reading.load_polls,
        "machine.wake_waker": reading.of("loop", "switches"),
        "machine.wake_sleeper": reading.load_sleeps,
    }
    return Equation(rung.name, "load", "ladder", terms, reading.load, reading.load)


def _select(rung: Rung, reading: Reading) -> Equation:
    polls = reading.of("loop", "polls")
    terms = {
        "select.event": 1.0,
        "select.poll": polls,
        "select.poll_connection": polls * rung.clients,
        "machine.wake_waker": reading.load_sleeps,
        "machine.wake_sleeper": reading.of("loop", "switches"),
    }
    value = reading.server - reading.of("loop", "demand_ns") * 1e-9
    return Equation(rung.name, "loop", "ladder", terms, value, reading.server)


def _busy_load(rung: Rung, reading: Reading) -> Equation:
    """The generator against a threaded server on saturated CPUs: nobody is woken from a halt."""
    woken = reading.of("acceptor", "switches") if rung.server == "sbuf" else _receives(reading)
    terms = {
        "load.event": 1.0,
        "load.poll": reading.load_polls,
        "machine.wake_socket": woken,
        "machine.switch": reading.load_sleeps,
        "machine.block": reading.load_sleeps,
    }
    return Equation(rung.name, "load", "ladder", terms, reading.load, reading.load)


def _role(rung: Rung, reading: Reading, role: str, terms: Mapping[str, float]) -> Equation:
    """A thread's processor time: its switches, what each sleep costs beyond, and the terms."""
    cpu, slept = reading.of(role, "cpu_ns") * 1e-9, reading.of(role, "switches")
    switched = {"machine.switch": slept + reading.of(role, "preemptions"), "machine.block": slept}
    return Equation(rung.name, role, "ladder", {**terms, **switched}, cpu, cpu)


def _sbuf(rung: Rung, reading: Reading) -> list[Equation]:
    inserted = {
        "sbuf.acceptor": 1.0,
        "load.poll": reading.of("acceptor", "polls"),
        "machine.wake_futex": reading.of("worker", "switches"),
    }
    served = {"sbuf.worker": 1.0, "machine.wake_socket": reading.load_sleeps}
    return [_role(rung, reading, "acceptor", inserted), _role(rung, reading, "worker", served)]


def _queues(rung: Rung, reading: Reading) -> list[Equation]:
    attended = {
        "queues.connection": 1.0,
        "machine.wake_socket": reading.load_sleeps,
        "machine.wake_futex": reading.of("worker", "switches"),
    }
    worked = {"queues.worker": 1.0, "machine.wake_futex": reading.of("connection", "sleeps")}
    return [_role(rung, reading, "connection", attended), _role(rung, reading, "worker", worked)]


def _receives(reading: Reading) -> float:
    """Times a connection's thread slept for a request, a reply: its other sleeps are waits for its tasks."""
    return max(reading.of("connection", "switches") - reading.of("connection", "sleeps"), 0.0)


CYCLE = {"load.event": 1.0, "select.event": 1.0, "machine.wake_sleeper": 2.0}


def derived(readings: Mapping[Rung, Sequence[Reading]], found: Fit) -> dict[str, Cost]:
    """The costs that no equation holds, from the rungs that show them."""
    alone = Rung("select", 1)
    spinning = [r for rung, several in readings.items() if rung.spins for r in calm(several)]
    return {
        "machine.wake_latency": _latency(alone, calm(readings[alone]), found),
        "queues.spin_held": _held(spinning),
    }


def _latency(rung: Rung, readings: Sequence[Reading], found: Fit) -> Cost:
    """Time from the interrupt to the sleeper's first instruction: what one client's cycle leaves over, by halves."""
    known = math.fsum(weight * found.table[name].value for name, weight in CYCLE.items())
    cycle, spread = _typical([1 / reading.throughput for reading in readings])
    value = max((cycle - known) / 2, 0.0)
    error = math.hypot(spread, 2 * math.sqrt(found.covariance.of(CYCLE))) / 2
    return cost(value, error, f"{rung.name}: cycle of one client")


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
