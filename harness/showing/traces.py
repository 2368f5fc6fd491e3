"""What figures of a sweep are drawn with: measured points, predictions, a law with its peak, the peak set."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from harness.showing import figure_style
from harness.showing.advice import mark_text
from harness.showing.figure_style import PALE, WIDE
from harness.showing.lines import Line
from models.metrics import Estimate, Metrics
from models.series import Point
from models.wording import at, figure, interval

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

OFFERED = "all that arrives"


def measured(
    made: Figure,
    line: Line,
    read: Callable[[Metrics], Estimate],
    scale: float,
    unit: str,
    joined: bool = False,
) -> None:
    """Filled marks with intervals for sound points, hollow ones for broken."""
    for broken in (False, True):
        points = [point for point in line.measured if bool(point.broken) is broken]
        found = [read(point.measured) for point in points if point.measured]
        # None where there is no interval: a bar of no height would be drawn as a line through the mark.
        high = [max(e.high - e.value, 0) * scale if math.isfinite(e.high) else None for e in found]
        low = [max(e.value - e.low, 0) * scale if math.isfinite(e.low) else None for e in found]
        if broken and not points:
            continue
        xs: list[float | None] = [point.x for point in points]
        ys: list[float | None] = [e.value * scale for e in found]
        about = [_about(point, e, scale, unit) for point, e in zip(points, found, strict=True)]
        made.add_scatter(
            x=xs or [None],  # an empty one would lose the curve's place in the legend
            y=ys or [None],
            error_y={
                "type": "data",
                "array": high,
                "arrayminus": low,
                "color": line.colour,
                "thickness": 1.5,
                "width": 5,
            },
            name=html.escape(line.label),
            legendgroup="broken" if broken else line.label,
            showlegend=not broken and bool(line.label),
            mode="lines+markers" if (joined or line.law is None) and not broken else "markers",
            line={"color": line.colour, "width": 2},
            marker={
                "symbol": f"{line.symbol}-open" if broken else line.symbol,
                "size": 10,
                "color": line.colour,
                "line": {"color": line.colour if broken else "white", "width": 2 if broken else 1},
            },
            text=about,
            hovertemplate=hover(line, "%{text}"),
        )


def predicted(made: Figure, line: Line, read: Callable[[Metrics], float], unit: str) -> None:
    points = [point for point in line.points if point.predicted]
    if not points:
        return
    made.add_scatter(
        x=[point.x for point in points],
        y=[read(point.predicted) for point in points if point.predicted],
        name="predicted",
        legendgroup="predicted",
        showlegend=False,
        mode="lines",
        line={"color": line.colour, "width": 2, "dash": "dash"},
        hovertemplate=hover(line, f"predicted %{{y:.4~g}} {unit}"),
    )


def law(made: Figure, line: Line) -> None:
    """The chosen law over the values measured, and its peak as a bar from its lower to its upper bound."""
    from models import laws

    sound = [point.x for point in line.points if point.sound]
    if not line.law or not sound:
        return
    low, high = sound[0], sound[-1]
    steps = 120
    ratio = high / low if low > 0 else 1.0
    xs = [
        low * ratio ** (k / steps) if ratio >= WIDE else low + (high - low) * k / steps
        for k in range(steps + 1)
    ]
    curve = laws.curve(line.law, line.parameters)
    common = {
        "legendgroup": "law, and its peak",
        "showlegend": False,
        "line": {"color": line.colour, "width": 1.5},
    }
    made.add_scatter(
        x=xs,
        y=[float(curve(x)) for x in xs],
        name=line.law,
        mode="lines",
        hoverinfo="skip",
        opacity=0.75,
        **common,
    )
    peak = line.peak
    if not math.isfinite(peak.law_value) or not low <= peak.law_value <= high:
        return
    left, right = (max(peak.low, low), min(peak.high, high))
    text = f"peak of the law {at(line.variable, peak.law_value)} {interval(peak.low, peak.high)}"
    made.add_scatter(
        x=[peak.law_value],
        y=[float(curve(peak.law_value))],
        error_x={
            "type": "data",
            "array": [right - peak.law_value],
            "arrayminus": [peak.law_value - left],
            "thickness": 2,
            "width": 6,
            "color": line.colour,
        },
        mode="markers",
        marker={"symbol": "line-ns-open", "size": 13, "color": line.colour, "line": {"width": 2}},
        hovertemplate=hover(line, text),
        **common,
    )


def offered(made: Figure, lines: Sequence[Line]) -> None:
    """The line on which everything that arrives is answered, where the variable is the rate of arrivals."""
    values = sorted({point.x for line in lines for point in line.points})
    if not values or any(line.variable != "arrival_rate" for line in lines):
        return
    made.add_scatter(
        x=values,
        y=values,
        name=OFFERED,
        legendgroup=OFFERED,
        showlegend=False,
        mode="lines",
        line={"color": PALE, "width": 1.5, "dash": "dot"},
        hoverinfo="skip",
    )


def peak_set(made: Figure, line: Line, place: int) -> None:
    """The measured peak set: a strip at the figure's foot over its values, one row for each curve."""
    values = [point.x for point in line.points if point.sound]
    members = line.peak.members
    if not members or len(values) < 2:
        return
    half = 0.35 * min(b - a for a, b in pairwise(values))
    log = values[0] > 0 and values[-1] / values[0] >= WIDE
    factor = min(b / a for a, b in pairwise(values)) ** 0.35 if log else 1.0
    bottom, top = figure_style.row(place)
    for member in members:
        left, right = (member / factor, member * factor) if log else (member - half, member + half)
        made.add_shape(
            type="rect",
            xref="x",
            yref="paper",
            x0=left,
            x1=right,
            y0=bottom,
            y1=top,
            fillcolor=line.colour,
            opacity=1.0 if member == line.peak.value else 0.4,
            line={"width": 0},
            layer="below",
        )


def key(made: Figure, lines: Sequence[Line], styles: Sequence[tuple[str, str, str]]) -> None:
    """Entries of the legend for what a line or mark means; a click hides it on all curves."""
    drawn = {trace.legendgroup for trace in made.data}
    for name, dash, symbol in styles:
        if name not in drawn:
            continue
        mode = "lines+markers" if dash and symbol else "lines" if dash else "markers"
        made.add_scatter(
            x=[None],
            y=[None],
            name=name,
            legendgroup=name,
            mode=mode,
            line={"color": PALE, "dash": dash or "solid", "width": 2},
            marker={
                "symbol": symbol or "circle",
                "size": 9,
                "color": PALE,
                "line": {"width": 2, "color": PALE},
            },
            hoverinfo="skip",
        )


def hover(line: Line, text: str) -> str:
    label = html.escape(line.label).replace("%{", "% {")
    return f"{html.escape(line.variable)} %{{x}}<br>{text}<extra>{label}</extra>"


def _about(point: Point, found: Estimate, scale: float, unit: str) -> str:
    text = f"measured {figure(found.value * scale, 4)} {unit}"
    if math.isfinite(found.low):
        text += f" {interval(found.low * scale, found.high * scale)}"
    for mark in point.broken:
        text += f"<br>broken: {html.escape(mark_text(mark))}"
    return text
