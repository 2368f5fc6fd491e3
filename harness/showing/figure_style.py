"""How all figures look: fonts, colours, axes and their ticks."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.showing.lines import Line
from models.wording import figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

INK, PALE, GRID = "#1f2933", "#616e7c", "#e4e7eb"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
WIDE = 12.0  # ratio of the largest to the smallest value from which the horizontal axis is logarithmic
MOST_TICKS = 12
UNITS = {
    "array": "numbers",
    "chunk": "numbers",
    "bits": "bits",
    "message": "bytes",
    "arrival_rate": "1/s",
    "demand": "s",
    "think": "s",
    "timeout": "s",
}


def dress(made: Figure, lines: Sequence[Line]) -> None:
    made.update_layout(
        template="none",
        paper_bgcolor="white",
        plot_bgcolor="white",
        font={"family": FONT, "size": 13, "color": INK},
        margin={"l": 64, "r": 16, "t": 36, "b": 48},
        height=420,
        legend={"orientation": "h", "x": 0, "y": -0.2, "yanchor": "top", "font": {"size": 12}},
        hoverlabel={"font": {"family": FONT, "color": "white"}, "bgcolor": INK},
    )
    made.update_yaxes(
        gridcolor=GRID, zeroline=False, showline=False, ticks="", automargin=True, title_standoff=8
    )
    made.update_xaxes(
        gridcolor=GRID,
        showgrid=False,
        zeroline=False,
        showline=True,
        linecolor=PALE,
        ticks="outside",
        tickcolor=PALE,
        title={"text": html.escape(axis_title(lines[0].variable)) if lines else "", "standoff": 8},
    )


def ticks(made: Figure, lines: Sequence[Line]) -> None:
    """Ticks at the values themselves; logarithmic where they span a wide range."""
    values = sorted({point.x for line in lines for point in line.points})
    if not values:
        return
    wide = values[0] > 0 and values[-1] / values[0] >= WIDE
    low, high = values[0], values[-1]
    if wide:
        room = 0.04 * math.log10(high / low)
        span = [math.log10(low) - room, math.log10(high) + room]
    else:
        room = 0.06 * (high - low) or 0.5
        span = [low - room, high + room]
    step = math.ceil(len(values) / MOST_TICKS)
    shown = values[::step]
    made.update_xaxes(
        type="log" if wide else "linear",
        range=span,
        tickvals=shown,
        ticktext=[figure(value, 6) for value in shown],
    )


def decades(values: Sequence[float]) -> dict[str, Any]:
    """Ticks of a logarithmic axis in full: 1, 2, 5 and 10, or tens alone where it spans many decades."""
    shown = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
    low, high = math.floor(math.log10(min(shown))), math.ceil(math.log10(max(shown)))
    steps = (1, 2, 5) if high - low <= 4 else (1,)
    ticks = [step * 10.0**power for power in range(low, high + 1) for step in steps]
    return {"tickmode": "array", "tickvals": ticks, "ticktext": [figure(tick) for tick in ticks]}


def foot(made: Figure, rows: int) -> None:
    """Keeps so many rows free between the curves and the horizontal axis."""
    made.update_yaxes(domain=[row(rows)[0] + 0.01, 1], zeroline=True, zerolinecolor=GRID)
    made.update_xaxes(anchor="free", position=0)


def row(place: int) -> tuple[float, float]:
    """Lower and upper edge of a row at the foot, as shares of the figure's height."""
    return 0.015 + 0.035 * place, 0.04 + 0.035 * place


def scales(values: Sequence[float], log: bool) -> dict[str, Any]:
    """Buttons that switch the vertical axis, for curves that lie far apart."""
    both = {"yaxis.autorange": True}
    ticks = {f"yaxis.{name}": value for name, value in decades(values).items()}
    return {
        "type": "buttons",
        "active": int(log),
        "direction": "right",
        "x": 0,
        "y": 1.02,
        "xanchor": "left",
        "yanchor": "bottom",
        "pad": {"t": 0, "b": 2},
        "font": {"size": 11},
        "bgcolor": "white",
        "bordercolor": GRID,
        "buttons": [
            {
                "label": "linear",
                "method": "relayout",
                "args": [{**both, "yaxis.type": "linear", "yaxis.tickmode": "auto"}],
            },
            {"label": "logarithmic", "method": "relayout", "args": [{**both, "yaxis.type": "log", **ticks}]},
        ],
    }


def axis_title(variable: str) -> str:
    """A variable's name with its unit, where it is not a count that its name says already."""
    return f"{variable} ({UNITS[variable]})" if variable in UNITS else variable
