"""Open queue with one server and any distribution of demand, M/G/1, by Pollaczek and Khinchine."""

from __future__ import annotations

from models.analytic._domain import conserve, positive
from models.analytic._open import OpenResult


def single_server(*, arrival_rate: float, demand: float, variation: float) -> OpenResult:
    """Solves the means of M/G/1.

    Parameters
    ----------
    arrival_rate : float
        λ of a Poisson stream, 1/s, positive.
    demand : float
        Mean service time S, s, positive.
    variation : float
        Squared coefficient of variation of the service time, its variance over S², not negative: 0 for a constant
        one, 1 for an exponential one.

    Raises
    ------
    ValueError
        When an argument is outside its domain, λS < 1 included.
    ArithmeticError
        When the solution breaks Little's law, which no valid one does.

    Notes
    -----
    W = λ S² (1 + c²) / (2 (1 − λS)) in any order of service that knows nothing of the demands (L. Kleinrock,
    Queueing Systems I, 1975, section 5.5).
    """
    rate, service = positive("arrival_rate", arrival_rate, "1/s"), positive("demand", demand)
    spread = 0.0 if variation == 0 else positive("variation", variation, "(no unit)")
    load = rate * service
    if not load < 1:
        raise ValueError(
            f"arrival_rate={arrival_rate}: λS = {load} is not below 1, so the queue grows for ever"
        )
    waiting = load * service * (1 + spread) / (2 * (1 - load))
    length = load * load * (1 + spread) / (2 * (1 - load))
    conserve("Q = λR", length + load, rate * (waiting + service))
    return OpenResult(
        throughput=rate,
        response=waiting + service,
        waiting=waiting,
        delayed=load,
        queue_length=length + load,
        waiting_length=length,
        utilisation=load,
    )


predict = single_server
