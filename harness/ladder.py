"""The calibration ladder: the zero-demand service on each architecture, and what its counters say each step costs.

Per reply, the processor time of the generator and of the select loop is a sum of counted events times unknown costs:

    load   = event + polls × poll + wake_sleeper × own sleeps + wake_waker × server sleeps
    select = event + polls × (poll + N × poll_connection) + wake_sleeper × own sleeps + wake_waker × load sleeps

The polls are priced by probes. At one client every other count is one a reply and nothing can be told apart; more clients
batch, and a burning server keeps its clients asleep: the rungs differ in their counts, and a weighted regression finds the
costs. On the threaded servers with saturated CPUs nobody is woken from a halt: there the known prices of switches and
wake-ups are subtracted.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.costs import Cost
from models.quantiles import t_quantile
from models.scenario import Scenario

# Of a hop between two threads on one CPU (futex wake, switch, futex wait): what the waker pays. The models use the sum.
WAKE_SHARE = 0.35
MOST_CONDITION = 1e4


class Singular(RuntimeError):
    """The rungs do not tell the costs apart."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One configuration of the ladder."""

    server: str
    clients: int
    demand: float = 0.0
    options: tuple[tuple[str, str], ...] = ()

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


NAMES = (
    "load.event",
    "select.event",
    "sbuf.acceptor",
    "sbuf.worker",
    "queues.connection",
    "queues.worker",
    "machine.wake_waker",
    "machine.wake_sleeper",
    "machine.wake_socket",
    "machine.block",
)


@dataclass(frozen=True, slots=True)
class Probes:
    """What the probes found, s: a hop between two threads on one CPU, an epoll call, a select call over one and over
    `many` descriptors."""

    hop: float
    epoll: float
    select_one: float
    select_many: float
    many: int

    def table(self) -> dict[str, Cost]:
        per = max((self.select_many - self.select_one) / (self.many - 1), 0.0)

        def cost(value: float, source: str, spread: float = 0.1) -> Cost:
            return Cost(value, value * (1 - spread), value * (1 + spread), source)

        return {
            "machine.switch": cost((1 - WAKE_SHARE) * self.hop, "probe wakeup on one CPU"),
            "machine.wake_futex": cost(WAKE_SHARE * self.hop, "probe wakeup on one CPU", 0.2),
            "load.poll": cost(self.epoll, "probe readiness: epoll"),
            "select.poll": cost(self.select_one, "probe readiness: select"),
            "select.poll_connection": cost(per, "probe readiness: select"),
        }


def solve(
    readings: Mapping[Rung, Sequence[Reading]], probes: Probes
) -> tuple[dict[str, Cost], dict[str, float]]:
    """The table of costs, and the quality of the fit.

    Parameters
    ----------
    readings : mapping of Rung to sequence of Reading
    probes : Probes

    Raises
    ------
    Singular
    """
    table = probes.table()
    known = {name: cost.value for name, cost in table.items()}
    rows, right = [], []
    for rung, several in readings.items():
        for terms, value, whole in _equations(rung, middle(several), known):
            rows.append([terms.get(name, 0.0) / whole for name in NAMES])
            right.append(value / whole)
    values, errors, quality = _least_squares(np.array(rows), np.array(right))
    for name, v, e in zip(NAMES, values, errors, strict=True):
        table[name] = Cost(v, max(v - e, 0.0), v + e, "ladder: synthetic service on select, sbuf and queues")
    cost = {name: c.value for name, c in table.items()}
    table["machine.wake_latency"] = _latency(readings[Rung("select", 1)], cost)
    table["queues.spin_held"] = _held(
        [r for rung, several in readings.items() if _spins(rung) for r in several]
    )
    return table, quality


def _spins(rung: Rung) -> bool:
    return ("wait", "spin") in rung.options


def middle(several: Sequence[Reading]) -> Reading:
    """The run with the median processor time a reply, among the half that other processes disturbed least."""
    calm = sorted(several, key=lambda r: r.neighbours)[: max(1, (len(several) + 1) // 2)]
    return sorted(calm, key=lambda r: r.server + r.load)[(len(calm) - 1) // 2]


Equation = tuple[Mapping[str, float], float, float]


def _equations(rung: Rung, reading: Reading, known: Mapping[str, float]) -> list[Equation]:
    """Rows of the regression: what was counted of each unknown cost, the processor time that they explain, and the whole
    of it, which weighs the row."""
    sleeps = reading.load_sleeps
    load = reading.load - known["load.poll"] * reading.load_polls
    if rung.server == "select":
        polls, slept = reading.of("loop", "polls"), reading.of("loop", "switches")
        poll = known["select.poll"] + known["select.poll_connection"] * rung.clients
        server = reading.server - reading.of("loop", "demand_ns") * 1e-9 - polls * poll
        wakes = {"machine.wake_waker": slept, "machine.wake_sleeper": sleeps}
        return [
            ({"load.event": 1.0, **wakes}, load, reading.load),
            (
                {"select.event": 1.0, "machine.wake_waker": sleeps, "machine.wake_sleeper": slept},
                server,
                reading.server,
            ),
        ]
    if _spins(rung):
        return []
    roles = _sbuf if rung.server == "sbuf" else _queues
    return [*roles(reading, known), _busy_load(rung, reading, load, known)]


def _busy_load(rung: Rung, reading: Reading, load: float, known: Mapping[str, float]) -> Equation:
    """The generator against a threaded server on saturated CPUs: nobody is woken from a halt."""
    woken = reading.of("acceptor", "switches") if rung.server == "sbuf" else _receives(reading)
    terms = {"load.event": 1.0, "machine.wake_socket": woken, "machine.block": reading.load_sleeps}
    return terms, load - known["machine.switch"] * reading.load_sleeps, reading.load


def _role(
    reading: Reading, role: str, terms: Mapping[str, float], known_cost: float, switch: float
) -> Equation:
    """A thread's processor time: its switches at the probe's price, what each sleep costs beyond, and the terms."""
    cpu, slept = reading.of(role, "cpu_ns") * 1e-9, reading.of(role, "switches")
    rest = cpu - switch * (slept + reading.of(role, "preemptions")) - known_cost
    return {**terms, "machine.block": slept}, rest, cpu


def _sbuf(reading: Reading, known: Mapping[str, float]) -> list[Equation]:
    switch = known["machine.switch"]
    wakes = known["machine.wake_futex"] * reading.of("worker", "switches")
    polls = known["load.poll"] * reading.of("acceptor", "polls")
    served = {"sbuf.worker": 1.0, "machine.wake_socket": reading.load_sleeps}
    return [
        _role(reading, "acceptor", {"sbuf.acceptor": 1.0}, polls + wakes, switch),
        _role(reading, "worker", served, 0.0, switch),
    ]


def _queues(reading: Reading, known: Mapping[str, float]) -> list[Equation]:
    switch, futex = known["machine.switch"], known["machine.wake_futex"]
    attended = {"queues.connection": 1.0, "machine.wake_socket": reading.load_sleeps}
    worker_wakes, waiter_wakes = reading.of("worker", "switches"), reading.of("connection", "sleeps")
    return [
        _role(reading, "connection", attended, futex * worker_wakes, switch),
        _role(reading, "worker", {"queues.worker": 1.0}, futex * waiter_wakes, switch),
    ]


def _receives(reading: Reading) -> float:
    """Times a connection's thread slept for a request, a reply: its other sleeps are waits for its tasks."""
    return max(reading.of("connection", "switches") - reading.of("connection", "sleeps"), 0.0)


def _least_squares(
    matrix: NDArray[np.float64], right: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], dict[str, float]]:
    """Non-negative least squares, standard errors as half-widths of 95 % intervals, and the quality."""
    from scipy.optimize import nnls

    scale = np.linalg.norm(matrix, axis=0)
    if (scale == 0).any():
        raise Singular("a cost is never counted")
    scaled = matrix / scale
    condition = float(np.linalg.cond(scaled))
    if condition > MOST_CONDITION:
        raise Singular(f"condition number {condition:.0f}, limit {MOST_CONDITION:.0f}")
    solution, _ = nnls(scaled, right)
    residual = right - scaled @ solution
    df = len(right) - len(solution)
    variance = float(residual @ residual) / df
    errors = np.sqrt(np.diag(np.linalg.inv(scaled.T @ scaled)) * variance) * t_quantile(df)
    return solution / scale, errors / scale, {"condition": condition, "residual": math.sqrt(variance)}


def _latency(readings: Sequence[Reading], cost: Mapping[str, float]) -> Cost:
    """Time from the interrupt to the sleeper's first instruction: what one client's cycle leaves over, by halves."""
    known = cost["load.event"] + cost["select.event"] + 2 * cost["machine.wake_sleeper"]
    found = [max((1 / reading.throughput - known) / 2, 0.0) for reading in readings]
    return Cost(statistics.median(found), min(found), max(found), "ladder: cycle of one client on select")


def _held(readings: Sequence[Reading]) -> Cost:
    """Share of a polling worker's turn in which it holds its queue's lock: how often a put found it held."""
    found = [
        min(r.of("connection", "lock_waits") / max(r.of("worker", "tasks"), 1e-9), 1.0) for r in readings
    ]
    source = "ladder: synthetic service on queues, spinning"
    return Cost(statistics.median(found), min(found), max(found), source, "share")
