"""Compares two cells that the same blocks measured: the ratio of their throughputs, and whether they differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models import quantiles
from models.metrics import Estimate


@dataclass(frozen=True, slots=True)
class Comparison:
    """One cell over another.

    Attributes
    ----------
    ratio : Estimate
        Geometric mean of the blocks' ratios with its interval; nan without a pair.
    pairs : int
        Blocks that measured both.
    different : bool or None
        Whether the interval leaves out 1; None where two pairs are missing to tell.
    """

    ratio: Estimate
    pairs: int
    different: bool | None

    def to_json(self) -> dict[str, Any]:
        return {"ratio": self.ratio.to_json(), "pairs": self.pairs, "different": self.different}


def compare(first: Mapping[int, float], second: Mapping[int, float], level: float = 0.95) -> Comparison:
    """The second over the first, paired by block, so that what a block's cells share cancels.

    A Student interval of the mean logarithm of the ratios: at level 0.95, five in a hundred pairs of equal cells
    are called different.

    Parameters
    ----------
    first, second : mapping of int to float
        Throughput by block, 1/s; blocks in which either has none, or answered nothing, make no pair.
    level : float
        Of the interval.
    """
    both = [block for block in sorted(first.keys() & second.keys()) if first[block] > 0 < second[block]]
    logs = [math.log(second[block] / first[block]) for block in both]
    if not logs:
        return Comparison(Estimate(math.nan), 0, None)
    n, middle = len(logs), math.fsum(logs) / len(logs)
    if n < 2:
        return Comparison(Estimate(math.exp(middle)), n, None)
    error = math.sqrt(math.fsum((x - middle) ** 2 for x in logs) / (n - 1) / n)
    half = quantiles.t_quantile(n - 1, level) * error
    ratio = Estimate(math.exp(middle), math.exp(middle - half), math.exp(middle + half))
    return Comparison(ratio, n, abs(middle) > half)
