"""Fork and join over separate queues: one task of a request goes to each of k workers, the last task ends it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.analytic._domain import positive, time, whole
from models.analytic.fork_join import ForkJoinResult

MOST = 32  # queues up to which Nelson and Tantawi's formula was fitted


@dataclass(frozen=True, slots=True)
class SplitResult:
    """Mean response time of an open fork-join system, s, and what it lies between for certain.

    Attributes
    ----------
    response : float
        By Nelson and Tantawi, s; exact for one queue and for two.
    response_low, response_high : float
        Bounds, s.
    utilisation : float
        Of each worker, 0 to 1.
    """

    response: float
    response_low: float
    response_high: float
    utilisation: float


def split_fork_join(*, arrival_rate: float, workers: int, demand: float) -> SplitResult:
    """Approximates an open fork-join system of k M/M/1 queues that get one task of every request.

    Parameters
    ----------
    arrival_rate : float
        λ of a Poisson stream of requests, 1/s, positive.
    workers : int
        k, the queues and the tasks of a request, 1 to 32.
    demand : float
        Mean demand S of a task, exponential, s, positive.

    Raises
    ------
    ValueError
        When an argument is outside its domain, λS < 1 included.

    Notes
    -----
    R_2 = (12 − ρ)/8 · S/(1 − ρ) exactly (L. Flatto and S. Hahn, 1984), and R_k ≈ (H_k/H_2 + (1 − H_k/H_2) 4ρ/11) R_2,
    within 5 % for k ≤ 32: R. Nelson and A. N. Tantawi, "Approximate analysis of fork/join synchronization in parallel
    queues", IEEE Transactions on Computers 37, 1988. Above it lies H_k S/(1 − ρ), of queues that do not depend on each
    other (theirs too); below it Σ S/(i − ρ), i = 1…k (E. Varki and others, in A. Thomasian, "Analysis of fork/join
    and related queueing systems", ACM Computing Surveys 47, 2014, equations 1 to 3).
    """
    rate, service = positive("arrival_rate", arrival_rate, "1/s"), positive("demand", demand)
    many = whole("workers", workers)
    load = rate * service
    if many > MOST:
        raise ValueError(f"workers={workers}: above {MOST}, where the formula was never checked")
    if not load < 1:
        raise ValueError(
            f"arrival_rate={arrival_rate}: λS = {load} is not below 1, so the queues grow for ever"
        )
    single = service / (1 - load)
    ratio = _harmonic(many) / 1.5
    pair = (12 - load) / 8 * single
    return SplitResult(
        response=single if many == 1 else (ratio + (1 - ratio) * 4 * load / 11) * pair,
        response_low=math.fsum(service / (i - load) for i in range(1, many + 1)),
        response_high=_harmonic(many) * single,
        utilisation=load,
    )


def closed_split_fork_join(*, clients: int, workers: int, think: float, demand: float) -> ForkJoinResult:
    """Approximates a closed fork-join system of k queues that get one task of every request; exact for one queue.

    Parameters
    ----------
    clients : int
        N, at least 1.
    workers : int
        k, the queues and the tasks of a request, at least 1.
    think : float
        Z, s, not negative.
    demand : float
        Mean demand S of a task, exponential, s, positive.

    Raises
    ------
    ValueError
        When an argument is outside its domain.

    Notes
    -----
    R(N) = S (H_k + Q(N − 1)): E. Varki, "Mean value technique for closed fork-join networks", ACM SIGMETRICS, 1999. Against
    exact chains of up to 4 queues and 8 clients, throughput was within 3 % and response, mostly too long, within 5 %.
    """
    many, count = whole("clients", clients), whole("workers", workers)
    pause, service = time("think", think), positive("demand", demand)
    least = _harmonic(count)
    queue = response = throughput = 0.0
    for number in range(1, many + 1):
        response = service * (least + queue)
        throughput = number / (response + pause)
        queue = throughput * response
    return ForkJoinResult(throughput, response, queue, throughput * service)


def _harmonic(number: int) -> float:
    return math.fsum(1 / np.arange(1.0, number + 1))


predict = split_fork_join
