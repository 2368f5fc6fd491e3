"""What a reply takes of each mechanism, measured and predicted: whether a model is right for the right reasons."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.showing import figure_style, traces
from harness.showing.lines import Line, Source, lines_of
from models.metrics import Metrics

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

COUNTED = (  # counter, what it is, and what its figure is multiplied by
    ("server_cpu", "server's CPU (µs)", 1e6),
    ("load_cpu", "generator's CPU (µs)", 1e6),
    ("polls", "server's polls", 1.0),
    ("switches", "server's sleeps", 1.0),
    ("load_sleeps", "generator's sleeps", 1.0),
)


def mechanisms(source: Source) -> Figure:
    """CPU, polls and sleeps a reply over the variable; a panel for each, measured solid and predicted dashed."""
    from plotly.subplots import make_subplots

    lines = lines_of(source)
    shown = [row for row in COUNTED if any(_known(line, row[0]) for line in lines)]
    made = make_subplots(
        1, max(len(shown), 1), subplot_titles=[title for _, title, _ in shown], horizontal_spacing=0.06
    )
    figure_style.dress(made, lines)
    for column, (name, title, scale) in enumerate(shown, 1):
        for line in lines:
            for purpose, dash in (("measured", "solid"), ("predicted", "dash")):
                rows = _rows(line, purpose, name)
                made.add_scatter(
                    x=[x for x, _ in rows],
                    y=[value * scale for _, value in rows],
                    name=html.escape(f"{line.label}, {purpose}" if line.label else purpose),
                    legendgroup=f"{line.label} {purpose}",
                    showlegend=column == 1,
                    mode="lines+markers",
                    line={"color": line.colour, "width": 2, "dash": dash},
                    marker={"symbol": line.symbol if dash == "solid" else f"{line.symbol}-open", "size": 7},
                    hovertemplate=traces.hover(line, f"{purpose}, {title}: %{{y:.3~g}} a reply"),
                    row=1,
                    col=column,
                )
    made.update_yaxes(rangemode="tozero", title="")
    made.update_layout(legend={"y": -0.3})
    figure_style.ticks(made, lines)
    return made


def knows_mechanisms(lines: Sequence[Line]) -> bool:
    """Whether something was both measured and predicted."""
    return any(_known(line, name) for line in lines for name, *_ in COUNTED)


def _known(line: Line, name: str) -> bool:
    """Both sides have it, and it is not nothing in all of them."""
    both = [_rows(line, purpose, name) for purpose in ("measured", "predicted")]
    return all(both) and any(value for rows in both for _, value in rows)


def _rows(line: Line, purpose: str, name: str) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for point in line.points:
        metrics: Metrics | None = getattr(point, purpose)
        value = metrics.counters.get(name, math.nan) if metrics else math.nan
        if math.isfinite(value):
            found.append((point.x, value))
    return found
