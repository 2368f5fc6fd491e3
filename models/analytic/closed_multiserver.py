"""Exact closed multi-server queue M/M/m//N: N clients think, queue for one of m servers, and think again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LITTLE = 1e-9  # how far N = X (R + Z) may be off by rounding


@dataclass(frozen=True, slots=True)
class ClosedResult:
    """Steady state of a closed system.

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
    balance of section 3.1: p(n+1)/p(n) = (N − n) S / (min(n+1, m) Z). The probabilities are kept as
    logarithms relative to the most probable state, so that neither factorials nor powers can overflow.
    """
    _check(clients, workers, think, demand)
    if think == 0:
        return _result(clients, workers, think, demand, float(clients), float(min(clients, workers)))
    state = np.arange(clients + 1, dtype=np.float64)
    busy = np.minimum(state, workers)
    steps = np.log(clients - state[:-1]) + (math.log(demand) - math.log(think)) - np.log(busy[1:])
    weight = np.exp(_from_mode(steps))
    weight /= weight.sum()
    return _result(clients, workers, think, demand, float(weight @ state), float(weight @ busy))


def _from_mode(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms of p(n)/p(mode); steps falls with n, so the mode is where it changes sign, and errors add up from there."""
    mode = int(np.count_nonzero(steps > 0))
    up = np.cumsum(steps[mode:])
    down = -np.cumsum(steps[:mode][::-1])[::-1]
    return np.concatenate([down, [0.0], up])


def _check(clients: int, workers: int, think: float, demand: float) -> None:
    for name, number in (("clients", clients), ("workers", workers)):
        if isinstance(number, bool) or number != int(number) or number < 1:
            raise ValueError(f"{name}={number}: not a whole number of at least 1")
    if not (math.isfinite(think) and think >= 0):
        raise ValueError(f"think={think}: not a time of at least 0 s")
    if not (math.isfinite(demand) and demand > 0):
        raise ValueError(f"demand={demand}: not a time above 0 s")


def _result(
    clients: int, workers: int, think: float, demand: float, queue: float, busy: float
) -> ClosedResult:
    """The means, once both sides of the cycle agree: what the servers finish is what the thinkers send."""
    throughput = busy / demand
    response = queue / throughput
    off = abs(throughput * (response + think) / clients - 1)
    if not off <= LITTLE:
        raise ArithmeticError(
            f"N = X (R + Z) is off by {off:.1e} with {clients} clients and {workers} workers"
        )
    return ClosedResult(throughput, response, max(response - demand, 0.0), queue, busy / workers)


predict = closed_multiserver
