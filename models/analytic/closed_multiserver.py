"""Exact closed multi-server queue M/M/m//N: N clients think, queue for one of m servers, and think again."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from models.analytic._chain import mean, probabilities
from models.analytic._domain import conserve, positive, time, whole
from models.analytic._times import Departures, Timed, Times


@dataclass(frozen=True, slots=True)
class ClosedResult(Timed):
    """Steady state of a closed system.

    `waiting_quantile(p)` and `response_quantile(p)` give quantiles, s, of exponential demands served first come first
    served.

    Attributes
    ----------
    throughput : float
        Requests answered per second, X.
    response : float
        Mean time from a request to its answer, waiting included, s, R.
    waiting : float
        Mean time before service begins, s.
    queue_length : float
        Mean number of requests waiting or in service.
    utilisation : float
        Mean share of the servers that is busy, 0 to 1.
    """

    throughput: float
    response: float
    waiting: float
    queue_length: float
    utilisation: float
    times: Times = field(repr=False, compare=False)


def closed_multiserver(*, clients: int, workers: int, think: float, demand: float) -> ClosedResult:
    """Solves M/M/m//N exactly, by its birth-death chain.

    With n requests at the station, arrivals come at rate (N − n)/Z and departures at min(n, m)/S. The mean
    results hold for any distribution of the think time, and for any order of service that knows nothing of
    what is left to do.

    Parameters
    ----------
    clients : int
        N, at least 1.
    workers : int
        Parallel servers m, at least 1.
    think : float
        Mean time Z between an answer and the client's next request, s, not negative.
    demand : float
        Mean service time S of a request, exponential, s, positive.

    Returns
    -------
    ClosedResult

    Raises
    ------
    ValueError
        When an argument is outside its domain.
    ArithmeticError
        When the solution breaks Little's law N = X (R + Z) by more than 1e-9, which no valid one does.

    Notes
    -----
    L. Kleinrock, Queueing Systems I, 1975, section 3.10 (M/M/m/K/M with K = M, his M being N), solved by the
    balance of section 3.1: p(n+1)/p(n) = (N − n) S / (min(n+1, m) Z). A request finds n others there with
    probability proportional to (N − n) p(n), which is the p(n) of N − 1 clients (S. S. Lavenberg and M. Reiser, 1980).
    """
    many, most = whole("clients", clients), whole("workers", workers)
    pause, service = time("think", think), positive("demand", demand)
    state = np.arange(many + 1.0)
    busy = np.minimum(state, most)
    if pause == 0:
        share, found = (state == many) * 1.0, (state[:-1] == many - 1) * 1.0
    else:
        share = probabilities(
            np.log(many - state[:-1]) + math.log(service) - math.log(pause) - np.log(busy[1:])
        )
        found = share[:-1] * (many - state[:-1])
        found /= found.sum()
    queue, working = mean(share, state), mean(share, busy)
    throughput = working / service
    response = queue / throughput
    conserve("N = X (R + Z)", many, throughput * (response + pause))
    return ClosedResult(
        throughput=throughput,
        response=response,
        waiting=max(mean(share, state - busy) / throughput, 0.0),
        queue_length=queue,
        utilisation=working / most,
        times=Departures(np.append(found[:most].sum(), found[most:]), most, service),
    )


predict = closed_multiserver
