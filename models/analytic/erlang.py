"""Open multi-server queues: Erlang's loss and delay formulas, and M/M/m."""

from __future__ import annotations

from models.analytic._domain import conserve, positive, whole
from models.analytic._open import TimedResult
from models.analytic._times import Exponentials


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
    count = whole("servers", servers, least=0)
    load = 0.0 if offered == 0 else positive("offered", offered, "erlang")
    blocking = 1.0
    for k in range(1, count + 1):
        blocking = load * blocking / (k + load * blocking)
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


def multiserver(*, arrival_rate: float, workers: int, demand: float) -> TimedResult:
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
    W = C S / (m − a), Q = C ρ / (1 − ρ) waiting (L. Kleinrock, Queueing Systems I, 1975, section 3.5). The waiting
    time is 0, or with probability C exponential of rate (m − a)/S (D. Gross and C. M. Harris, Fundamentals of
    Queueing Theory, 1998, chapter 2).
    """
    rate, service = positive("arrival_rate", arrival_rate, "1/s"), positive("demand", demand)
    whole("workers", workers)
    offered = rate * service
    delayed = erlang_c(workers, offered)
    free = workers - offered
    waiting = delayed * service / free
    waiting_length = delayed * offered / free
    conserve("Q = λR", waiting_length + offered, rate * (waiting + service))
    return TimedResult(
        throughput=rate,
        response=waiting + service,
        waiting=waiting,
        delayed=delayed,
        queue_length=waiting_length + offered,
        waiting_length=waiting_length,
        utilisation=offered / workers,
        times=Exponentials(delayed, free / service, service),
    )


predict = multiserver
