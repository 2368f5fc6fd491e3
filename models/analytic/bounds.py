"""Asymptotic bounds of a closed system: what no arrangement of its queues can beat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


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
    clients: int, demands: Sequence[float], think: float = 0.0, servers: Sequence[int] | None = None
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
    servers : sequence of int, optional
        Parallel servers m_k of each station; one each by default.

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
    _whole("clients", clients)
    _time("think", think)
    counts = [1] * len(demands) if servers is None else list(servers)
    if len(counts) != len(demands):
        raise ValueError(f"servers: {len(counts)} numbers for {len(demands)} demands")
    for demand, count in zip(demands, counts, strict=True):
        _time("demand", demand)
        _whole("servers", count)
    total = math.fsum(demands)
    if not total > 0:
        raise ValueError("demands: none is above 0 s")
    largest = max(demand / count for demand, count in zip(demands, counts, strict=True))
    return Bounds(
        throughput_low=clients / (clients * total + think),
        throughput_high=min(clients / (total + think), 1 / largest),
        response_low=max(total, clients * largest - think),
        response_high=clients * total,
        knee=(total + think) / largest,
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
    _whole("clients", clients)
    _whole("cpus", cpus)
    _time("response_one", response_one)
    _time("think", think)
    _time("demand", demand)
    if response_one <= 0 or demand <= 0:
        raise ValueError("response_one and demand must be above 0 s")
    return min(clients / (response_one + think), cpus / demand)


def _whole(name: str, number: int) -> None:
    if isinstance(number, bool) or number != int(number) or number < 1:
        raise ValueError(f"{name}={number}: not a whole number of at least 1")


def _time(name: str, seconds: float) -> None:
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{name}={seconds}: not a time of at least 0 s")


predict = asymptotic
