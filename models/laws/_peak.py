"""The peak as measured, without a law: the values of the variable that may be the best one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from models.laws._law import Array

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class PeakSet:
    """The best value measured, and those that are not significantly below it.

    Attributes
    ----------
    best : float
        The value with the highest mean throughput; of equal ones the lowest.
    members : tuple of float
        By rising value: a set that holds the truly best of the values with probability `level`.
    level : float
    undecided : bool
        Nothing could be compared, for want of two blocks or of two values; then all values are members.
    """

    best: float
    members: tuple[float, ...]
    level: float
    undecided: bool


def peak_set(blocks: Mapping[float, Sequence[float]], level: float = LEVEL) -> PeakSet:
    """The values whose throughput is not significantly below the best: multiple comparisons with the best.

    Parameters
    ----------
    blocks : mapping of value to sequence of float
        Throughput, 1/s, in randomised complete blocks: the k-th element is of block k, nan or absent where it
        is missing. Values without any measurement are left out.
    level : float
        Probability with which the set holds the truly best value.

    Returns
    -------
    PeakSet

    Raises
    ------
    ValueError
        Nothing was measured, a throughput is negative or infinite, or the level is not between 0 and 1.

    Notes
    -----
    A value is left out when another is higher by more than c √(v/b) on the mean of their b paired differences
    (Hsu 1984): paired by block, in logarithms where all throughputs are above 0, since a machine that slows
    down slows all in proportion. c is Dunnett's one-sided critical value for comparisons with all others.

    v is the larger of the variance of the pair's own differences and twice the residual variance of the whole
    table (values plus blocks): the pooled one alone covered 0.82 where the best values scatter most, the own
    one alone has hardly any degrees of freedom. It is credited with b − 1 + min(2, (k − 2)/3) of them for k
    values. Simulated with k = 2 to 14, b = 2 to 10, scatter equal or differing up to sevenfold, ties of all
    values, of two, and smooth peaks, the set at 95 % held the best in 94 to 100 % of 1,500 draws each. For
    eight and more values in two blocks it is a seventh to a third smaller than one by paired t tests with
    Bonferroni's correction.
    """
    if not 0 < level < 1:
        raise ValueError(f"the level must be between 0 and 1, not {level}")
    values, table = _table(blocks)
    means = [math.fsum(row[np.isfinite(row)]) / np.isfinite(row).sum() for row in table]
    best = int(np.argmax(means))
    below, compared = set(), False
    positive = np.all(table[np.isfinite(table)] > 0)
    for candidate, excluded in _comparisons(np.log(table) if positive else table, level):
        compared = True
        if excluded and candidate != best:
            below.add(candidate)
    members = tuple(value for place, value in enumerate(values) if place not in below)
    return PeakSet(values[best], members, level, not compared)


def _table(blocks: Mapping[float, Sequence[float]]) -> tuple[list[float], Array]:
    """The measured values, rising, and their throughputs in rows padded with nan."""
    rows = {value: np.asarray(blocks[value], dtype=np.float64) for value in sorted(blocks)}
    for value, row in rows.items():
        if np.any(np.isinf(row)) or np.any(row < 0):
            raise ValueError(f"a throughput must be finite and not negative: {row.tolist()} at {value}")
    rows = {value: row for value, row in rows.items() if np.any(np.isfinite(row))}
    if not rows:
        raise ValueError("nothing was measured: there is no peak")
    table = np.full((len(rows), max(len(row) for row in rows.values())), np.nan)
    for place, row in enumerate(rows.values()):
        table[place, : len(row)] = row
    return list(rows), table


def _comparisons(table: Array, level: float) -> Iterator[tuple[int, bool]]:
    """The place of each value that can be compared with another, and whether one of these is significantly higher."""
    count = len(table)
    pooled, spare = _residual_variance(table)
    for place, row in enumerate(table):
        gaps = table - row
        shared = np.isfinite(gaps).sum(axis=1)
        df = np.minimum(shared - 1 + min(2.0, (count - 2) / 3), spare)
        able = (shared > 0) & (df > 0) & (np.arange(count) != place)
        if not able.any():
            continue
        gaps, shared, df = gaps[able], shared[able], df[able]
        means = np.nansum(gaps, axis=1) / shared
        own = np.nansum((gaps - means[:, None]) ** 2, axis=1) / np.maximum(shared - 1, 1)
        spread = np.sqrt(np.maximum(own, 2 * pooled) / shared)
        kinds, which = np.unique(df, return_inverse=True)
        critical = np.array([dunnett(count - 1, float(kind), level) for kind in kinds])[which]
        yield place, bool(np.any(means > critical * spread))


def _residual_variance(table: Array) -> tuple[float, int]:
    """Mean square of what values plus blocks leave over, and its degrees of freedom."""
    value, block = np.nonzero(np.isfinite(table))
    found = table[value, block]
    design = np.zeros((len(found), sum(table.shape)))
    rows = np.arange(len(found))
    design[rows, value] = 1
    design[rows, table.shape[0] + block] = 1
    solved, _, rank, _ = np.linalg.lstsq(design, found, rcond=None)
    df = len(found) - int(rank)
    return (float(np.sum((found - design @ solved) ** 2)) / df if df > 0 else 0.0), df


@cache
def dunnett(comparisons: int, df: float, level: float = LEVEL) -> float:
    """One-sided critical value of the largest of several Student variates that share their control.

    Of equal group sizes, so with correlations of ½ (Dunnett 1955): P(all (Z_j − Z_0)/(√2 S) ≤ c) = level with
    S² = χ²/df, integrated over Z_0 by the trapezoidal rule and over S by 400 equally likely slices.
    """
    from scipy.special import chdtri, ndtr

    scale = np.sqrt(2 * chdtri(df, 1 - (np.arange(400) + 0.5) / 400) / df)[:, None]
    z = np.linspace(-8, 8, 161)
    density = np.exp(-z * z / 2)
    density /= np.sum(density)
    low, high = 0.0, 1.0

    def covered(c: float) -> float:
        return float(np.mean((ndtr(z + c * scale) ** comparisons) @ density))

    while covered(high) < level and high < 1e6:
        low, high = high, high * 2
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if covered(middle) < level else (low, middle)
    return high
