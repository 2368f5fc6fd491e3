"""The results of open queues."""

from __future__ import annotations

from dataclasses import dataclass, field

from models.analytic._times import Timed, Times


@dataclass(frozen=True, slots=True)
class OpenResult:
    """Steady state of an open queue.

    Attributes
    ----------
    throughput : float
        Requests answered per second, X.
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


@dataclass(frozen=True, slots=True)
class TimedResult(OpenResult, Timed):
    """Steady state of an open queue whose waiting and response times are known as distributions, first come first served.

    `waiting_quantile(p)` and `response_quantile(p)` give their quantiles, s.
    """

    times: Times = field(repr=False, compare=False)
