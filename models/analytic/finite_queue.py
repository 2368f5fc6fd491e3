"""Open multi-server queue with few places, M/M/m/K: an arrival that finds all of them taken is turned away."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.analytic._chain import mean, probabilities
from models.analytic._domain import conserve, positive, whole
from models.analytic._open import TimedResult
from models.analytic._times import Departures


@dataclass(frozen=True, slots=True)
class LossResult(TimedResult):
    """Steady state of an open queue that turns arrivals away; its times are those of the requests that it takes in.

    Attributes
    ----------
    blocked : float
        Probability that an arrival is turned away.
    empty : float
        Probability that nobody is there.
    """

    blocked: float
    empty: float


def finite_queue(*, arrival_rate: float, workers: int, places: int, demand: float) -> LossResult:
    """Solves M/M/m/K, overloaded or not.

    Parameters
    ----------
    arrival_rate : float
        λ of a Poisson stream, 1/s, positive.
    workers : int
        Parallel servers m, at least 1.
    places : int
        K, the most requests that wait or are served, at least m.
    demand : float
        Mean service time S, exponential, s, positive.

    Raises
    ------
    ValueError
        When an argument is outside its domain.
    ArithmeticError
        When the solution breaks the utilisation law, which no valid one does.

    Notes
    -----
    p(n+1)/p(n) = λS / min(n+1, m) for n < K (D. Gross and C. M. Harris, Fundamentals of Queueing Theory, 1998,
    chapter 2). A request that is taken in finds n others with probability p(n)/(1 − p(K)).
    """
    rate, service = positive("arrival_rate", arrival_rate, "1/s"), positive("demand", demand)
    many, most = whole("workers", workers), whole("places", places)
    if most < many:
        raise ValueError(f"places={places}: fewer than the {workers} workers, who would never all be busy")
    state = np.arange(most + 1.0)
    busy = np.minimum(state, many)
    share = probabilities(math.log(rate) + math.log(service) - np.log(busy[1:]))
    queue, working = mean(share, state), mean(share, busy)
    taken = share[:-1] / share[:-1].sum()
    throughput = rate * float(share[:-1].sum())
    conserve("U = XS", working, throughput * service)
    waiting = mean(share, state - busy) / throughput
    return LossResult(
        throughput=throughput,
        response=waiting + service,
        waiting=waiting,
        delayed=float(taken[many:].sum()),
        queue_length=queue,
        waiting_length=mean(share, state - busy),
        utilisation=working / many,
        times=Departures(np.append(taken[:many].sum(), taken[many:]), many, service),
        blocked=float(share[-1]),
        empty=float(share[0]),
    )


predict = finite_queue
