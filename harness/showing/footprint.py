"""What memory, threads and descriptors a server takes for each unit of a variable: a least-squares line over its cells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.showing.lines import Line
from harness.watching.timeline import MIB
from models.metrics import Estimate
from models.quantiles import t_quantile
from models.wording import figure, per, size

NAMES = ("pss", "rss", "threads", "descriptors")
FEWEST = 3  # cells from which a slope has an interval
CROOKED = 0.05  # share of the range that the straight line misses by, from which that is said


@dataclass(frozen=True, slots=True)
class Slope:
    """What one more of the variable costs.

    Attributes
    ----------
    each : Estimate
        The slope with its 95 % interval, in the figure's unit for one of the variable.
    cells : int
        Cells that it was fitted to.
    off : float
        Root mean square distance from the line over the range of the figure, 0 for a straight line.
    """

    each: Estimate
    cells: int
    off: float


def levels(line: Line, name: str, broken: bool = False) -> dict[float, float]:
    """Median over the window by value of the variable, where it is known: of the sound cells, or of the broken ones."""
    spoilt = {point.x for point in line.points if point.broken}
    found = {x: sampled.typical(name) for x, sampled in line.samples.items() if (x in spoilt) is broken}
    return {x: value for x, value in sorted(found.items()) if math.isfinite(value)}


def slope(values: Mapping[float, float]) -> Slope | None:
    """Ordinary least squares over (variable, figure), with Student's interval; None from too few cells.

    The interval is Student's for the slope (Draper and Smith 1998, Applied Regression Analysis, section 1.4). It takes
    the cells to lie on a straight line but for chance; `off` says how straight it is.
    """
    if len(values) < FEWEST:
        return None
    x, y = np.array(list(values)), np.array(list(values.values()))
    spread = float(((x - x.mean()) ** 2).sum())
    value = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    rest = y - y.mean() - value * (x - x.mean())
    half = t_quantile(len(x) - 2) * math.sqrt(float((rest**2).sum()) / (len(x) - 2) / spread)
    extent = float(np.ptp(y))
    off = math.sqrt(float((rest**2).mean())) / extent if extent else 0.0
    return Slope(Estimate(value, value - half, value + half), len(x), off)


def sentences(line: Line) -> list[str]:
    """What one more of the variable costs in memory, threads and descriptors, one sentence for each that is known."""
    words = {"pss": "Memory (PSS)", "threads": "Threads", "descriptors": "Descriptors"}
    found = []
    for name, begin in words.items():
        values = levels(line, name)
        fitted = slope(values)
        if fitted:
            found.append(f"{begin}: {_said(line.variable, name, fitted, next(iter(values.values())))}.")
    return found


def _said(variable: str, name: str, fitted: Slope, first: float) -> str:
    def amount(value: float) -> str:
        return size(value / MIB) if name == "pss" else figure(value)

    each = fitted.each
    if each.low == each.high == 0:
        return f"{amount(first)} at every value of {variable}"
    source = f"95 %, least squares over {fitted.cells} configurations"
    if each.low <= 0 <= each.high:
        bounds = f"between {amount(each.low)} and {amount(each.high)}"
        return (
            f"no growth with {variable} that could be told from chance ({bounds} {per(variable)}; {source})"
        )
    bent = fitted.off > CROOKED
    average = "; it does not lie on a straight line, so that this is an average" if bent else ""
    return (
        f"{amount(each.value)} [{amount(each.low)}, {amount(each.high)}] {per(variable)} ({source}){average}"
    )
