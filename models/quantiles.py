"""Quantiles of logarithmic histograms and intervals of means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.metrics import Estimate


@dataclass(frozen=True, slots=True)
class Merged:
    """Histograms added up: counts of non-empty buckets in order, with exact count, sum, min and max (ns)."""

    index: NDArray[np.int64]
    counts: NDArray[np.int64]
    count: int
    sum: int
    min: int
    max: int


@cache
def _bounds() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    from pyx.load import bucket_bounds

    floor, width = bucket_bounds()
    return floor, width


def merge(histograms: Iterable[Mapping[str, Any]]) -> Merged:
    """Adds up histograms of the form {count, sum, min, max, buckets: [[index, count], …]}."""
    filled = [h for h in histograms if h["count"]]
    rows = [np.asarray(h["buckets"], dtype=np.int64).reshape(-1, 2) for h in filled]
    every = np.vstack(rows) if rows else np.empty((0, 2), dtype=np.int64)
    index, where = np.unique(every[:, 0], return_inverse=True)
    counts = np.bincount(where, weights=every[:, 1], minlength=len(index)).astype(np.int64)
    return Merged(
        index,
        counts,
        sum(int(h["count"]) for h in filled),
        sum(int(h["sum"]) for h in filled),
        min((int(h["min"]) for h in filled), default=0),
        max((int(h["max"]) for h in filled), default=0),
    )


def mean(merged: Merged) -> float:
    """Exact mean, s; nan of nothing."""
    return merged.sum / merged.count * 1e-9 if merged.count else math.nan


def quantile(merged: Merged, q: float) -> float:
    """The q-quantile (nearest rank), s, within 0.1 %: the middle of its bucket, clipped to min and max."""
    if not merged.count:
        return math.nan
    floor, width = _bounds()
    rank = max(1, math.ceil(q * merged.count))
    place = int(np.searchsorted(np.cumsum(merged.counts), rank))
    at = int(
        merged.index[min(place, len(merged.index) - 1)]
    )  # a damaged one may count more than its buckets hold
    middle = float(floor[at]) + (float(width[at]) - 1) / 2
    return min(max(middle, merged.min), merged.max) * 1e-9


@cache
def t_quantile(df: int, level: float = 0.95) -> float:
    """Two-sided Student quantile."""
    from scipy.special import stdtrit

    return float(stdtrit(df, 0.5 + level / 2))


def interval(values: Sequence[float], level: float = 0.95) -> Estimate:
    """Mean of independent replicates with its Student interval; no interval from fewer than two.

    Of positive values the interval is taken in logarithms and laid about the mean, so that it never holds what cannot be,
    such as a negative throughput.
    """
    n = len(values)
    centre = math.fsum(values) / n
    if n < 2:
        return Estimate(centre)
    positive = min(values) > 0
    scale = [math.log(v) for v in values] if positive else list(values)
    middle = math.fsum(scale) / n
    half = t_quantile(n - 1, level) * math.sqrt(math.fsum((v - middle) ** 2 for v in scale) / (n - 1) / n)
    if positive:
        factor = math.exp(min(half, 100.0))
        return Estimate(centre, centre / factor, centre * factor)
    return Estimate(centre, centre - half, centre + half)
