"""Balanced-job bounds of a closed system: tighter than the asymptotic ones, from the demands alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from models.analytic._domain import by_station, time, whole
from models.analytic.bounds import Bounds


def balanced_job(*, clients: int, demands: Sequence[float], think: float = 0.0) -> Bounds:
    """Bounds a product-form network of single-server stations between two balanced ones.

    Parameters
    ----------
    clients : int
        N, at least 1.
    demands : sequence of float
        Demand D_k of a request at each station, s, not negative, one of them positive.
    think : float
        Z, s, not negative.

    Raises
    ------
    ValueError
        When an argument is outside its domain.

    Notes
    -----
    N / (D + Z + (N−1) D_max / (1 + Z/(ND))) ≤ X ≤ min(1/D_max, N / (D + Z + (N−1) D_mean / (1 + Z/D))), and
    R = N/X − Z: E. D. Lazowska, J. Zahorjan, G. S. Graham and K. C. Sevcik, Quantitative System Performance, 1984,
    table 5.2 (after J. Zahorjan et al., Communications of the ACM 25, 1982), with the mean over the stations that are used.
    The knee is that of the asymptotic bounds.
    """
    many, pause = whole("clients", clients), time("think", think)
    own = by_station("demands", demands)
    total, largest, mean = math.fsum(own), float(own.max()), math.fsum(own) / np.count_nonzero(own)
    slow = total + (many - 1) * largest / (1 + pause / (many * total))
    fast = max(total + (many - 1) * mean / (1 + pause / total), many * largest - pause)
    return Bounds(
        throughput_low=many / (slow + pause),
        throughput_high=many / (fast + pause),
        response_low=fast,
        response_high=slow,
        knee=(total + pause) / largest,
    )


predict = balanced_job
