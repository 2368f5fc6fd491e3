"""A pool of threads on a few processors with one lock: a request holds a thread, then the lock, and a processor in both."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.analytic._chain import probabilities
from models.analytic._domain import conserve, positive, time, whole
from models.analytic._network import Vector

LARGEST = 5e9  # multiplications that are still worth waiting for: some seconds
APART = 1e12  # ratio of times up to which the chain keeps its digits


@dataclass(frozen=True, slots=True)
class LockedResult:
    """Steady state of a closed system with a pool and a lock.

    Attributes
    ----------
    throughput : float
        Requests answered per second, X.
    response : float
        Mean time from a request to its answer, s.
    waiting, lock_waiting : float
        Mean time that a request waits for a thread, and for the lock, s.
    queue_length : float
        Mean number of requests outside the clients.
    utilisation, lock_utilisation : float
        Mean share of the processors that is busy, and share of time that the lock is held, 0 to 1. Its holder can be
        without a processor, so the lock is held longer than its work takes.
    """

    throughput: float
    response: float
    waiting: float
    lock_waiting: float
    queue_length: float
    utilisation: float
    lock_utilisation: float


def locked_pool(
    *, clients: int, workers: int, cpus: int, demand: float, critical: float, think: float
) -> LockedResult:
    """Solves exactly a pool whose threads work outside a lock, then inside it, sharing the processors.

    Parameters
    ----------
    clients : int
        N, at least 1.
    workers : int
        Threads m, at least 1; further requests wait for one.
    cpus : int
        Processors, at least 1, shared equally by the threads that do not wait for the lock.
    demand : float
        Mean processor time of a request outside the lock, exponential, s, positive.
    critical : float
        Mean processor time inside it, exponential, s, positive.
    think : float
        Mean time Z between an answer and the client's next request, exponential, s, not negative.

    Raises
    ------
    ValueError
        When an argument is outside its domain, the chain has too many states, or the times are too far apart.
    ArithmeticError
        When the solution breaks Little's or the utilisation law, which no valid one does.

    Notes
    -----
    A Markov chain of the number n outside the clients and the number j at the lock, solved level by level of n: D. P. Gaver,
    P. A. Jacobs and G. Latouche, "Finite birth-and-death models in randomly changing environments", Advances in
    Applied Probability 16, 1984.
    """
    many, threads = whole("clients", clients), min(whole("workers", workers), whole("clients", clients))
    processors, pause = whole("cpus", cpus), time("think", think)
    outside, inside = positive("demand", demand), positive("critical", critical)
    times = [seconds for seconds in (outside, inside, pause) if seconds > 0]
    if max(times) > APART * min(times):
        raise ValueError(
            f"demand, critical and think, {times} s: more than {APART:g} apart; leave out the least"
        )
    if many * float(threads + 1) ** 3 > LARGEST:
        raise ValueError(
            f"clients={clients}, workers={workers}: too many states to solve exactly; ask layered"
        )
    levels = [_Level(min(n, threads), processors, outside, inside) for n in range(many + 1)]
    shares = _steady(levels, many, pause)
    return _result(levels, shares, many, processors, pause, outside + inside)


class _Level:
    """The rates with so many threads busy, by the number j = 0… of them that hold the lock or wait for it."""

    def __init__(self, threads: int, processors: int, outside: float, inside: float) -> None:
        at_lock = np.arange(threads + 1)
        running = threads - np.maximum(at_lock - 1, 0)
        self.busy = np.minimum(running, processors)
        each = self.busy / np.maximum(running, 1)
        self.arriving: Vector = (threads - at_lock) * each / outside  # at the lock
        self.finishing: Vector = (at_lock > 0) * each / inside  # and leaving the system


def _steady(levels: list[_Level], many: int, pause: float) -> list[Vector]:
    """Probabilities of j at every level n = 0…N."""
    if pause == 0:
        return [np.zeros_like(level.arriving) for level in levels[:-1]] + [_saturated(levels[-1])]
    # Up to a factor, the probabilities of level n+1 are those of level n times factors[n].
    factors: list[Vector] = []
    back = np.zeros((len(levels[-1].arriving),) * 2)
    for n in range(many, 0, -1):
        level, below = levels[n], levels[n - 1]
        within = np.diag(level.arriving[:-1], 1) + back
        np.fill_diagonal(within, 0.0)
        # What leaves a state is what goes elsewhere in the level or below: sums, where differences would lose digits.
        rates = np.diag(within.sum(axis=1) + level.finishing) - within
        enter = np.eye(len(below.arriving), len(within)) * ((many - n + 1) / pause)
        factor = np.linalg.solve(rates.T, enter.T).T
        factors.append(np.asarray(factor, dtype=np.float64))
        down = np.eye(len(within), len(below.arriving), -1) * level.finishing[:, None]
        back = factor @ down
    shares: list[Vector] = [np.ones(1)]
    for factor in reversed(factors):
        shares.append(shares[-1] @ factor)
        largest = shares[-1].max()
        if largest > 1e100:
            shares = [share / largest for share in shares]
    total = math.fsum(float(share.sum()) for share in shares)
    return [share / total for share in shares]


def _saturated(level: _Level) -> Vector:
    """Without think time the number of busy threads never changes, and j is a birth-death chain."""

    return probabilities(np.log(level.arriving[:-1]) - np.log(level.finishing[1:]))


def _result(
    levels: list[_Level], shares: list[Vector], many: int, processors: int, pause: float, work: float
) -> LockedResult:
    """The means, once requests, thinkers and processors agree about the throughput."""
    throughput = math.fsum(float(p @ level.finishing) for p, level in zip(shares, levels, strict=True))
    busy = math.fsum(float(p @ level.busy) for p, level in zip(shares, levels, strict=True))
    there = np.array([p.sum() for p in shares])
    queue = float(there @ np.arange(many + 1.0))
    threads = np.array([len(level.busy) - 1 for level in levels])
    waits = float(there @ (np.arange(many + 1) - threads))
    at_lock = math.fsum(float(p @ np.maximum(np.arange(len(p)) - 1, 0)) for p in shares)
    conserve("N = X (R + Z)", many, queue + throughput * pause)
    conserve("U = XD", busy, throughput * work)
    return LockedResult(
        throughput=throughput,
        response=queue / throughput,
        waiting=waits / throughput,
        lock_waiting=at_lock / throughput,
        queue_length=queue,
        utilisation=busy / processors,
        lock_utilisation=math.fsum(float(p[1:].sum()) for p in shares),
    )


predict = locked_pool
