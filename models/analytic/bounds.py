"""Asymptotic bounds of a closed system: what no arrangement of its queues can beat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from models.analytic._domain import by_station, counts, positive, time, whole


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a closed system.

    Attributes
    ----------
    throughput_low, throughput_high : float
        1/s.
    response_low, response_high : float
        s.
    knee : float
        N*, the number of clients at which the two upper bounds of the throughput meet.
    """

    throughput_low: float
    throughput_high: float
    response_low: float
    response_high: float
    knee: float


def asymptotic(
    clients: int, demands: Sequence[float], think: float = 0.0, servers: Sequence[float] | None = None
) -> Bounds:
    """Bounds throughput and response time by the demands alone.

    Parameters
    ----------
    clients : int
        N, at least 1.
    demands : sequence of float
        Demand D_k of a request at each station, s, not negative, one of them positive.
    think : float
        Z, s, not negative.
    servers : sequence, optional
        Parallel servers m_k of each station; math.inf is a delay. One each by default.

    Raises
    ------
    ValueError
        When an argument is outside its domain.

    Notes
    -----
    With D = ΣD_k and D_max = max D_k/m_k: N/(ND + Z) ≤ X ≤ min(N/(D + Z), 1/D_max), and by Little's law
    max(D, N D_max − Z) ≤ R ≤ ND; N* = (D + Z)/D_max. E. D. Lazowska, J. Zahorjan, G. S. Graham and K. C.
    Sevcik, Quantitative System Performance, 1984, section 5.2 (after R. R. Muntz and J. W. Wong, 1974).
    """
    many, pause = whole("clients", clients), time("think", think)
    own = by_station("demands", demands)
    total = math.fsum(own)
    largest = float((own / counts("servers", servers, len(own))).max())
    return Bounds(
        throughput_low=many / (many * total + pause),
        throughput_high=min(many / (total + pause), 1 / largest if largest else math.inf),
        response_low=max(total, many * largest - pause),
        response_high=many * total,
        knee=(total + pause) / largest if largest else math.inf,
    )


def naive_bound(clients: int, response_one: float, think: float, cpus: int, demand: float) -> float:
    """The bound that a measurement with one client suggests: min(N/(R₁ + Z), cpus/D), 1/s.

    A yardstick for predictions, not a bound of the real system: what one client costs is more than what each
    of many does, so the real system can exceed it.

    Parameters
    ----------
    clients : int
        N, at least 1.
    response_one : float
        Response time R₁ with one client, s, positive.
    think : float
        Z, s, not negative.
    cpus : int
        Processors, at least 1.
    demand : float
        Processor time D of a request, s, positive.

    Raises
    ------
    ValueError
        When an argument is outside its domain.

    Notes
    -----
    The upper bound of `asymptotic` for one station with so many servers; P. J. Denning and J. P. Buzen, "The
    operational analysis of queueing network models", Computing Surveys 10, 1978, section "Bottleneck
    analysis".
    """
    whole("clients", clients), whole("cpus", cpus)
    first, work = positive("response_one", response_one), positive("demand", demand)
    return min(clients / (first + time("think", think)), cpus / work)


predict = asymptotic
