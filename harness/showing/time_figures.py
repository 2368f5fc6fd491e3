"""Plotly figures of sampled servers: each cell over time, and what the server took over the variable."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.showing import figure_style, footprint, traces
from harness.showing.figure_style import GRID, INK
from harness.showing.lines import Line
from harness.watching.timeline import Timeline
from models.wording import at

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

DARK, LIGHT = "#1f2933", "#b7791f"  # of two series in one panel; they differ in lightness too
# A panel: its title and unit, and its series: where from, name, words, colour, scale.
PANELS: tuple[tuple[str, tuple[tuple[str, str, str, str, float], ...]], ...] = (
    ("throughput (1/s)", (("load", "throughput", "", DARK, 1.0),)),
    ("mean response (ms)", (("load", "response", "", DARK, 1e3),)),
    ("CPU of the server (CPUs)", (("server", "cpu", "", DARK, 1.0),)),
    ("threads that wait for a CPU", (("server", "wait", "", DARK, 1.0),)),
    (
        "switches (1/s)",
        (
            ("server", "switches", "all", DARK, 1.0),
            ("server", "preemptions", "pre-emptions", LIGHT, 1.0),
        ),
    ),
    ("memory (MiB)", (("server", "rss", "RSS", DARK, 1.0), ("server", "pss", "PSS", LIGHT, 1.0))),
    (
        "",
        (
            ("server", "threads", "threads", DARK, 1.0),
            ("server", "processes", "processes", LIGHT, 1.0),
        ),
    ),
    ("descriptors", (("server", "descriptors", "", DARK, 1.0),)),
)
COLUMNS = 2
HEIGHT = 780
TAKEN = (
    (
        "memory (MiB)",
        (("pss", "PSS", "solid", "circle"), ("rss", "RSS", "dot", "square")),
    ),
    ("threads", (("threads", "", "solid", "circle"),)),
    ("descriptors", (("descriptors", "", "solid", "circle"),)),
)


def over_time(lines: Sequence[Line]) -> Figure:
    """Small multiples over the time of the window, of one cell at a time, chosen by the figure's own drop-down."""
    from plotly.subplots import make_subplots

    titles = [_titled(title, parts) for title, parts in PANELS]
    made = make_subplots(
        math.ceil(len(PANELS) / COLUMNS),
        COLUMNS,
        shared_xaxes=True,
        subplot_titles=titles,
        horizontal_spacing=0.12,
        vertical_spacing=0.075,
    )
    figure_style.dress(made, lines)
    cells = [(line, x, sampled) for line in lines for x, sampled in sorted(line.samples.items())]
    names = [_name(line, x, len(lines) > 1) for line, x, _ in cells]
    for number, (line, x, sampled) in enumerate(cells):
        _draw(made, line, x, sampled, visible=number == 0)
    each = len(made.data) // max(len(cells), 1)
    buttons = [
        {
            "label": html.escape(name),
            "method": "update",
            "args": [{"visible": [place // each == number for place in range(len(made.data))]}],
        }
        for number, name in enumerate(names)
    ]
    made.update_layout(
        updatemenus=[_menu(buttons)], showlegend=False, height=HEIGHT, margin={"t": 84, "r": 12, "l": 52}
    )
    made.update_annotations(font={"size": 13}, xanchor="left")
    for column, note in enumerate(made.layout.annotations):
        note.x = 0 if column % COLUMNS == 0 else made.layout.xaxis2.domain[0]
    made.update_xaxes(title="")
    made.update_xaxes(title={"text": "time in the window (s)", "standoff": 4}, row=len(PANELS) // COLUMNS)
    made.update_yaxes(rangemode="tozero", tickformat=",")
    return made


def taken(lines: Sequence[Line], panel: int) -> Figure:
    """One panel of `TAKEN`: what the server took over the variable, medians over the window; broken cells hollow."""
    from plotly.graph_objects import Figure

    title, parts = TAKEN[panel]
    made = Figure()
    figure_style.dress(made, lines)
    for line in lines:
        for name, words, dash, symbol in parts:
            shown = ", ".join(
                part for part in (words, line.label if len(lines) > 1 or not words else "") if part
            )
            for broken in (False, True):
                values = footprint.levels(line, name, broken)
                xs: list[float | None] = [*values]
                ys: list[float | None] = [*values.values()]
                made.add_scatter(
                    x=xs or [None],  # an empty one would lose the curve's place in the legend
                    y=ys or [None],
                    name=html.escape(shown),
                    legendgroup=shown,
                    showlegend=not broken and len(lines) + len(parts) > 2,
                    mode="markers" if broken else "lines+markers",
                    line={"color": line.colour, "width": 2, "dash": dash},
                    marker={
                        "symbol": f"{symbol}-open" if broken else symbol,
                        "size": 8,
                        "color": line.colour,
                    },
                    hovertemplate=traces.hover(line, f"{words or name} %{{y:.4~g}}"),
                )
    made.update_yaxes(rangemode="tozero", tickformat=",", title=title)
    figure_style.ticks(made, lines)
    made.update_layout(legend={"y": -0.25})
    return made


def _titled(title: str, parts: Sequence[tuple[str, str, str, str, float]]) -> str:
    """A panel's title; two series in it are named there in their colours, instead of in a legend."""
    names = ", ".join(
        f'<span style="color:{colour}">{words}</span>' for _, _, words, colour, _ in parts if words
    )
    return ": ".join(part for part in (title, names) if part)


def _name(line: Line, x: float, several: bool) -> str:
    return f"{at(line.variable, x)} · {line.label}" if several else at(line.variable, x)


def _draw(made: Figure, line: Line, x: float, sampled: Timeline, visible: bool) -> None:
    """A cell's series, always the same number of traces, so that the drop-down can count them off."""
    for place, (title, parts) in enumerate(PANELS):
        for source, name, words, colour, scale in parts:
            table = sampled.server if source == "server" else sampled.load
            made.add_scatter(
                x=list(table["time"]),
                y=[value * scale if math.isfinite(value) else None for value in table[name]],
                name=words or name,
                mode="lines+markers",
                line={"color": colour, "width": 1.5, "dash": "solid" if colour == DARK else "dot"},
                marker={"size": 5 if source == "server" else 3, "color": colour},
                visible=visible,
                hovertemplate=f"%{{x:.3~g}} s<br>{words or title} %{{y:.4~g}}"
                f"<extra>{html.escape(at(line.variable, x))}</extra>",
                row=place // COLUMNS + 1,
                col=place % COLUMNS + 1,
            )


def _menu(buttons: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "dropdown",
        "direction": "down",
        "buttons": list(buttons),
        "x": 0,
        "xanchor": "left",
        "y": 1.05,
        "yanchor": "bottom",
        "pad": {"b": 6},
        "font": {"size": 12, "color": INK},
        "bgcolor": "white",
        "bordercolor": GRID,
        "borderwidth": 1,
        "active": 0,
    }
