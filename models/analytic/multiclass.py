"""Exact closed network of several classes of requests, with queueing, multi-server and delay stations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from models.analytic._domain import conserve
from models.analytic._network import Vector, leave_one_out, occupancy, parallel
from models.analytic.approximate_mva import Classes, ClassesResult, approximate_mva

LARGEST = 3e9  # additions that are still worth waiting for: some seconds


def multiclass(
    *,
    clients: Sequence[int],
    demands: Sequence[Sequence[float]],
    servers: Sequence[float] | None = None,
    think: Sequence[float] | None = None,
) -> ClassesResult:
    """Solves a closed product-form network of a few classes exactly.

    Where classes differ in demand, the station shares its servers among the requests (processor sharing); with equal
    demands it may as well serve them first come first served.

    Parameters
    ----------
    clients : sequence of int
        N_c, clients of each class, at least 1.
    demands : sequence of sequences of float
        demands[c][k] is the demand of a request of class c at station k, s, not negative.
    servers : sequence, optional
        Parallel servers m_k of each station; math.inf is a delay. One each by default.
    think : sequence of float, optional
        Z_c, s, not negative; none by default.

    Raises
    ------
    ValueError
        When an argument is outside its domain, or when there are so many populations to go through that only
        `approximate_mva` can answer.
    ArithmeticError
        When the solution breaks the utilisation law or loses a client, which no valid one does.

    Notes
    -----
    F. Baskett, K. M. Chandy, R. R. Muntz and F. Palacios, "Open, closed, and mixed networks of queues with different
    classes of customers", Journal of the ACM 22, 1975. A station with j requests gives a term of degree j in Σ_c D_c z_c,
    so it is added to the others by shifting their table once for each j; all terms are positive, so no digits are lost.
    """
    classes = Classes.checked(clients, demands, servers, think)
    everyone = math.fsum(classes.clients)
    stations = classes.demands.shape[1] + 1
    work = stations * math.log2(2 * stations) * everyone * len(classes.clients)
    work *= math.prod(float(many + 1) for many in classes.clients)
    if work > LARGEST:
        raise ValueError(f"clients={clients}: too many to solve exactly; ask approximate_mva")
    near = approximate_mva(
        clients=clients, demands=demands, servers=servers, think=think, method="schweitzer"
    )
    return _solve(classes, np.array(near.throughput))


class _Station:
    """Weights of 0…ΣN requests at a station, and the chance of each class to be the one that is there."""

    def __init__(self, loads: Vector, servers: float, most: int) -> None:
        total = float(loads.sum())
        self.weight = occupancy(total / parallel(most, servers), 1.0)
        self.chance = loads / total if total > 0 else loads

    def shifts(self, table: Vector) -> Iterator[Vector]:
        """The table moved on by 0, 1, … requests, each of a random class."""
        for _ in self.weight:
            yield table
            table = _shift(table, self.chance)


def _shift(table: Vector, chance: Vector) -> Vector:
    moved = np.zeros_like(table)
    for axis, share in enumerate(chance):
        if share > 0:
            to = np.moveaxis(moved, axis, 0)
            to[1:] += share * np.moveaxis(table, axis, 0)[:-1]
    return moved


def _add(table: Vector, station: _Station) -> Vector:
    found = np.zeros_like(table)
    for weight, moved in zip(station.weight, station.shifts(table), strict=True):
        if weight > 0:
            found += weight * moved
    return np.asarray(found / found.max())


def _solve(classes: Classes, rates: Vector) -> ClassesResult:
    """Weights are multiplied by the rates near the throughputs, so that the answer lies where they are largest."""
    many = classes.clients
    loads = [*(classes.demands * rates[:, None]).T]
    servers = [*classes.servers]
    if classes.think.any():
        loads, servers = [*loads, classes.think * rates], [*servers, math.inf]
    most = sum(many)
    stations = [_Station(load, count, most) for load, count in zip(loads, servers, strict=True)]
    empty = np.zeros([number + 1 for number in many])
    empty[(0,) * len(many)] = 1.0
    throughputs, queues = [], []
    for k, (station, others) in enumerate(zip(stations, leave_one_out(stations, empty, _add), strict=True)):
        throughput, queue = _means(classes, rates, station, others, loads[k], parallel(most, servers[k]))
        throughputs.append(throughput)
        queues.append(queue)
    for throughput in throughputs:
        for one, other in zip(throughput, throughputs[0], strict=True):
            conserve("X the same at every station", float(one), float(other))
    return classes.result(throughputs[0], np.array(queues[: classes.demands.shape[1]]).T)


def _means(
    classes: Classes, rates: Vector, station: _Station, others: Vector, load: Vector, busy: Vector
) -> tuple[Vector, Vector]:
    """X of every class, and its requests at one station, by the arrival theorem: it finds what one client fewer leaves."""
    many = classes.clients
    fewer = [tuple(number - (c == own) for c, number in enumerate(many)) for own in range(len(many))]
    seen = [[moved[point] for point in (many, *fewer)] for moved in station.shifts(others)]
    share = station.weight[:, None] * np.array(seen)
    throughput = rates * share[:, 1:].sum(axis=0) / share[:, 0].sum()
    found = share[:-1, 1:] / share[:, 1:].sum(axis=0)
    number = np.arange(1.0, len(busy) + 1)
    queue = throughput / rates * load * ((number / busy) @ found)
    conserve("U = XD", float(share[1:, 0] @ busy / share[:, 0].sum()), float(throughput / rates @ load))
    return throughput, queue


predict = multiclass
