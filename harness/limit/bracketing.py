"""Which value to try next on the way to a limit, from what the values tried so far turned out to be. Pure.

Doubling finds a value beyond the limit; one more doubling confirms it, as everything over the limit should be
beyond it too; bisection in logarithms then closes in. A value that cannot be told from the limit is not decided by
force: it stays between, and both of its sides are closed in upon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

WITHIN, BEYOND, UNDECIDED = "within", "beyond", "undecided"
NEAR = 1.05  # ratio of a bracket's ends at which it is narrow enough
MOST_TRIALS = 60


@dataclass(frozen=True, slots=True)
class Range:
    """What may be tried: the first value, the highest, and whether only whole numbers are values."""

    low: float
    high: float
    whole: bool


@dataclass(frozen=True, slots=True)
class Bracket:
    """Where the limit is.

    Attributes
    ----------
    low : float or None
        Highest value found within, of those below `high`.
    high : float or None
        Lowest value found beyond.
    between : tuple of float
        Undecided values between the two.
    against : tuple of float
        Values found within although a lower one was beyond: the outcomes are not monotone.
    """

    low: float | None
    high: float | None
    between: tuple[float, ...]
    against: tuple[float, ...]


def bracket(verdicts: Mapping[float, str]) -> Bracket:
    """The bracket that these verdicts (by value) leave; of contradicting ones the cautious reading."""

    def values(verdict: str) -> list[float]:
        return sorted(value for value, found in verdicts.items() if found == verdict)

    high = min(values(BEYOND), default=None)
    below = [value for value in values(WITHIN) if high is None or value < high]
    low = max(below, default=None)
    between = [
        value
        for value in values(UNDECIDED)
        if (low is None or value > low) and (high is None or value < high)
    ]
    against = [value for value in values(WITHIN) if high is not None and value > high]
    return Bracket(low, high, tuple(between), tuple(against))


def next_value(verdicts: Mapping[float, str], within: Range) -> float | None:
    """The value to try next; None when the bracket is narrow, or there is nothing to find."""
    if not verdicts:
        return within.low
    found, top = bracket(verdicts), max(verdicts)
    if len(verdicts) >= MOST_TRIALS or (found.low is None and found.high is not None):
        return None
    unconfirmed = found.high is not None and top == found.high
    if found.high is None or unconfirmed:
        if top < within.high:
            return _value(min(2 * top, within.high), within.whole)
        if found.high is None:
            return None
    assert found.low is not None and found.high is not None
    points = [found.low, *found.between, found.high]
    for a, b in dict.fromkeys([(points[0], points[1]), (points[-2], points[-1])]):
        if b / a > NEAR and not (within.whole and b - a <= 1):
            middle = _value(math.sqrt(a * b), within.whole)
            if a < middle < b:
                return middle
    return None


def _value(value: float, whole: bool) -> float:
    """A value that can be written in few digits."""
    return float(round(value)) if whole else float(f"{value:.4g}")
