"""Open multi-server queues: Erlang's loss and delay formulas, and M/M/m."""

from __future__ import annotations

import math
from dataclasses import dataclass


def erlang_b(servers: int, offered: float) -> float:
    """Probability that all servers are busy when nobody may wait (M/G/m/m).

    Parameters
    ----------
    servers : int
        m, not negative.
    offered : float
        Offered load a = λS, erlang, not negative.

    Raises
    ------
    ValueError
        When an argument is outside its domain.

    Notes
    -----
    A. K. Erlang, 1917. By the recursion B(k) = a B(k−1) / (k + a B(k−1)), B(0) = 1, all of whose terms are
    positive, so no digits are lost (D. L. Jagerman, Bell System Technical Journal 53, 1974, p. 527).
    """
    if isinstance(servers, bool) or servers != int(servers) or servers < 0:
        raise ValueError(f"servers={servers}: not a whole number of at least 0")
    if not (math.isfinite(offered) and offered >= 0):
        raise ValueError(f"offered={offered}: not a load of at least 0 erlang")
    blocking = 1.0
    for k in range(1, int(servers) + 1):
        blocking = offered * blocking / (k + offered * blocking)
    return blocking


def erlang_c(servers: int, offered: float) -> float:
    """Probability that an arrival has to wait when all may (M/M/m).

    Parameters
    ----------
    servers : int
        m, at least 1.
    offered : float
        Offered load a = λS, erlang, below m.

    Raises
    ------
    ValueError
        When an argument is outside its domain; with a ≥ m the queue has no steady state.

    Notes
    -----
    C = B / (1 − ρ (1 − B)) with ρ = a/m: equation 3.40 of L. Kleinrock, Queueing Systems I, 1975, divided by
    the loss formula of its section 3.7.
    """
    blocking = erlang_b(servers, offered)
    if not offered < servers:
        raise ValueError(f"offered={offered}: not below the {servers} servers, so the queue grows for ever")
    return blocking / (1 - offered / servers * (1 - blocking))


@dataclass(frozen=True, slots=True)
class OpenResult:
    """Steady state of an open queue.

    Attributes
    ----------
    throughput : float
        Requests answered per second, X = λ.
    response, waiting : float
        Mean time from arrival to answer, and its part before service begins, s.
    delayed : float
        Probability that an arrival has to wait.
    queue_length, waiting_length : float
        Mean number of requests waiting or in service, and waiting.
    utilisation : float
        Mean share of the servers that is busy, 0 to 1.
    """

    throughput: float
    response: float
    waiting: float
    delayed: float
    queue_length: float
    waiting_length: float
    utilisation: float


def multiserver(*, arrival_rate: float, workers: int, demand: float) -> OpenResult:
    """Solves M/M/m.

    Parameters
    ----------
    arrival_rate : float
        λ of a Poisson stream, 1/s, positive.
    workers : int
        Parallel servers m, at least 1.
    demand : float
        Mean service time S, exponential, s, positive.

    Raises
    ------
    ValueError
        When an argument is outside its domain, λS < m included.
    ArithmeticError
        When the solution breaks Little's law, which no valid one does.

    Notes
    -----
    W = C S / (m − a), Q = C ρ / (1 − ρ) waiting (L. Kleinrock, Queueing Systems I, 1975, section 3.5).
    """
    for name, value in (("arrival_rate", arrival_rate), ("demand", demand)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}={value}: not a number above 0")
    offered = arrival_rate * demand
    delayed = erlang_c(workers, offered)
    free = workers - offered
    waiting = delayed * demand / free
    waiting_length = delayed * offered / free
    queue_length = waiting_length + offered
    if not math.isclose(queue_length, arrival_rate * (waiting + demand), rel_tol=1e-9):
        raise ArithmeticError(f"Q = λR does not hold with λS = {offered} and {workers} workers")
    utilisation = offered / workers
    return OpenResult(
        arrival_rate, waiting + demand, waiting, delayed, queue_length, waiting_length, utilisation
    )


predict = multiserver
