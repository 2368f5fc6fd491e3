"""How far a value lies from a prediction that has an interval, and how wide such intervals are, at any level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from models.metrics import Estimate

_NORMAL = NormalDist()


def standard_score(value: float, predicted: Estimate) -> float:
    """How far a value lies from a prediction, in standard deviations of the prediction's logarithm.

    The prediction is taken as log-normal on either side of its value, each side's standard deviation being the distance to
    the 95 % bound over the normal quantile 1.96: so |score| ≤ 1.96 says exactly whether the interval holds the value.
    Infinite where there is no interval: a prediction that does not say how sure it is covers nothing.
    """
    bound = predicted.high if value >= predicted.value else predicted.low
    if not (value > 0 and predicted.value > 0 and math.isfinite(bound)):
        return math.inf
    side = abs(math.log(bound / predicted.value)) if bound > 0 else math.inf
    distance = abs(math.log(value / predicted.value))
    if distance == 0:
        return 0.0
    return quantile(95) * distance / side if side > 0 else math.inf


def half_width(predicted: Estimate, level: int) -> float:
    """Half the width of a prediction's interval over its value, at a level in per cent; nan where it has none."""
    if not (0 < predicted.low <= predicted.value <= predicted.high < math.inf):
        return math.nan
    power = quantile(level) / quantile(95)
    high, low = predicted.high / predicted.value, predicted.low / predicted.value
    return float(high**power - low**power) / 2


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median that holds for any distribution; nan where there are fewer than six values.

    The k-th smallest and the k-th largest, k the greatest with P(Bin(n, 1/2) < k) ≤ 2.5 %: H. A. David and H. N. Nagaraja,
    Order Statistics, 3rd edition, 2003, section 7.1.
    """
    count, k, below = len(values), 0, 0.0
    while (below := below + math.comb(count, k) / 2**count) <= 0.025:
        k += 1
    rising = sorted(values)
    return (rising[k - 1], rising[count - k]) if k else (math.nan, math.nan)


def quantile(level: int) -> float:
    """The normal quantile that so many per cent lie within, on both sides."""
    return _NORMAL.inv_cdf(0.5 + level / 200)
