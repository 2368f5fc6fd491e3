"""How experiments read a probe's document: times by pairs, cores or threads, lines through them, where they stop to fall."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.reading import CONFIRMED, CONTRADICTED, UNDECIDED, above
from models.quantiles import interval, t_quantile

LEAST_POINTS = 4  # of which a shape can be told
BEND = 0.1  # share of its middle by which a curve may leave its chord and still be called a line

Times = dict[float, tuple[float, float, float]]


def times(document: Mapping[str, Any], over: str, **fixed: object) -> Times:
    """The time in which all ends did their iterations (ms: median of launches, low, high), by pairs, cores or a knob.

    Rows with other settings than `fixed`, and those that were rejected, are left out.
    """
    found: Times = {}
    for row in document["results"]:
        fields = {**row, **row["options"]}
        if "rejected" in row["flags"] or any(fields.get(k) != v for k, v in fixed.items()):
            continue
        launches = [ns / 1e6 for ns in row["elapsed_launches"]]
        middle, about = median(launches), interval(launches)
        low, high = (middle if bound is None else bound for bound in (about.low, about.high))
        found[float(fields[over])] = (middle, min(low, middle), max(high, middle))
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Line:
    """The least-squares line through a curve.

    Attributes
    ----------
    slope, low, high : float
        And its 95 % interval.
    r2 : float
        The share of the variance that the line explains.
    bend : tuple of float
        How far the curve's middle lies below its chord, as a share of the middle: value, low, high; above zero where it
        grows faster and faster.
    """

    slope: float
    low: float
    high: float
    r2: float
    bend: tuple[float, float, float]


def line(curve: Mapping[float, tuple[float, float, float]]) -> Line:
    """Fits a line; at least LEAST_POINTS points."""
    x, y = np.array(list(curve)), np.array([value for value, _, _ in curve.values()])
    slope, half = _last(x, y, 1)
    square, square_half = _last(x, y, 2)
    # A parabola q·x² leaves its chord by q·(half of the span)² in the middle.
    share = (np.ptp(x) / 2) ** 2 / float(np.mean(y))
    residual = y - np.polyval(np.polyfit(x, y, 1), x)
    varies = float(np.sum((y - y.mean()) ** 2))
    r2 = 1 - float(np.sum(residual**2)) / varies if varies else math.nan
    bend = (square * share, (square - square_half) * share, (square + square_half) * share)
    return Line(slope, slope - half, slope + half, r2, bend)


def _last(x: NDArray[np.float64], y: NDArray[np.float64], degree: int) -> tuple[float, float]:
    """The highest coefficient of a least-squares polynomial, and half of its 95 % interval."""
    terms = np.vander(x, degree + 1)
    found, *_ = np.linalg.lstsq(terms, y, rcond=None)
    df = len(x) - degree - 1
    variance = float(np.sum((y - terms @ found) ** 2)) / df
    half = t_quantile(df) * math.sqrt(variance * float(np.linalg.inv(terms.T @ terms)[0, 0]))
    return float(found[0]), half


def linear(fit: Line) -> str:
    """Whether it grows as a line does."""
    _, low, high = fit.bend
    if fit.high <= 0 or low > BEND or high < -BEND:
        return CONTRADICTED
    return CONFIRMED if fit.low > 0 and low >= -BEND and high <= BEND else UNDECIDED


def said(fit: Line, unit: str) -> str:
    """The line in words."""
    return (
        f"{fit.slope:.3g} [{fit.low:.3g}, {fit.high:.3g}] {unit}, R² {fit.r2:.3f}, "
        f"bend {fit.bend[0]:+.0%} [{fit.bend[1]:+.0%}, {fit.bend[2]:+.0%}]"
    )


def stops_falling(curve: Times) -> tuple[str, float | None]:
    """Whether times stop falling before the last value, and from which value on none is clearly below it."""
    values = list(curve)
    if len(values) < LEAST_POINTS:
        return UNDECIDED, None
    stop = next(
        value
        for at, value in enumerate(values)
        if all(above(curve[value], curve[later]) != CONFIRMED for later in values[at + 1 :])
    )
    if stop != values[-1]:
        return CONFIRMED, stop
    return CONTRADICTED, None


def oscillates(curve: Times, start: float) -> str:
    """Whether times both rise and fall, each clearly, from one value to the next, from `start` on."""
    values = [value for value in curve if value >= start]
    if len(values) < LEAST_POINTS:
        return UNDECIDED
    steps = [above(curve[b], curve[a]) for a, b in itertools.pairwise(values)]
    return CONFIRMED if {CONFIRMED, CONTRADICTED} <= set(steps) else CONTRADICTED
