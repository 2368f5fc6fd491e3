"""Whether runs of one scenario fall in two: one arrangement of its threads or another, each for a whole run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

EXPLAINED = 0.9  # share of the variance between the groups; the best split of normal values has 0.64 there
FEWEST = 0.1  # share of the runs that either group has
APART = 0.05  # relative distance of the groups below which nobody cares


@dataclass(frozen=True, slots=True)
class Regime:
    """Runs that are alike: their mean, and their share of all runs."""

    value: float
    share: float


def regimes(values: Sequence[float]) -> tuple[Regime, ...]:
    """The two groups that positive values fall into, the lower first; none where they are scattered about one middle.

    The split in two that explains most of the variance (W. D. Fisher, On grouping for maximum homogeneity, Journal of the
    American Statistical Association 53, 1958), taken for real where it explains nearly all.
    """
    rising, count = np.sort(np.asarray(values, dtype=float)), len(values)
    least = max(2, int(np.ceil(FEWEST * count)))
    if count < 2 * least:
        return ()
    total = float(((rising - rising.mean()) ** 2).sum())
    sizes = np.arange(least, count - least + 1)
    low = np.cumsum(rising)[sizes - 1] / sizes
    high = (rising.sum() - low * sizes) / (count - sizes)
    between = sizes * (count - sizes) / count * (high - low) ** 2
    best = int(np.argmax(between))
    if between[best] < EXPLAINED * total or high[best] < (1 + APART) * low[best]:
        return ()
    share = float(sizes[best] / count)
    return Regime(float(low[best]), share), Regime(float(high[best]), 1 - share)
