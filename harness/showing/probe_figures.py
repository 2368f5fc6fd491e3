"""Plotly figures of a probe run: what one end alone costs, what a round trip is made of, curves, distributions."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.showing import figure_style
from harness.showing.figure_style import GRID, INK, PALE
from harness.showing.lines import COLOURS, SYMBOLS
from harness.showing.probe_heat import CELL, about, star, ticks
from harness.showing.probe_words import (
    KINDS,
    POSITIONS,
    Row,
    at,
    bounds,
    form,
    name,
    order,
    rejected,
    settings,
    time,
)
from models.wording import figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PARTS = {
    "system calls": "#0072B2",
    "data": "#E69F00",
    "switches": "#56B4E9",
    "wake-ups": "#D55E00",
    "residual": "#b8c1cb",
}
BAR, LINE = 30, 20  # px of a bar's row, of a legend's
SHORT = 22  # characters of a legend's entry of which two stand beside each other
BINS = 70
TAIL = 0.995  # share of the samples that a distribution shows in full; the rest is said


def alone(rows: Sequence[Row]) -> Figure:
    """Medians of primitives of one end with their intervals, µs on a logarithmic axis; hollow: rejected."""
    from plotly.graph_objects import Figure

    rows = sorted(rows, key=lambda row: row["median_ns"] or math.inf)
    rows = [row for row in rows if row["position"] == "alone" and (row["median_ns"] or 0) > 0]
    labels = list(dict.fromkeys(name(row) for row in rows))[::-1]
    kinds = [kind for kind in KINDS if any(row["kind"] == kind for row in rows)]
    made = Figure()
    for place, kind in enumerate(kinds):
        here = [row for row in rows if row["kind"] == kind]
        aside = 0.2 * (len(kinds) - 1) * (1 - 2 * place)  # so that two kinds' figures stand above each other
        made.add_scatter(
            x=[row["median_ns"] / 1e3 for row in here],
            y=[labels.index(name(row)) + aside for row in here],
            error_x=_errors(here),
            mode="markers",
            name=KINDS[kind],
            marker={
                "symbol": [f"{SYMBOLS[place]}-open" if rejected(row) else SYMBOLS[place] for row in here],
                "size": 8,
                "color": COLOURS[place],
            },
            text=[f"{html.escape(name(row))}<br>{about(row)}" for row in here],
            hovertemplate="%{text}<extra></extra>",
        )
        made.add_scatter(
            x=[max(row["high_ns"] or 0.0, row["median_ns"]) / 1e3 for row in here],
            y=made.data[-1].y,
            mode="text",
            text=[f"   {time(row['median_ns'])}{star(row)}" for row in here],
            textposition="middle right",
            textfont={"size": 11, "color": COLOURS[place]},
            showlegend=False,
            hoverinfo="skip",
        )
    _lay_out_alone(made, rows, labels, len(kinds))
    return made


def _lay_out_alone(made: Figure, rows: Sequence[Row], labels: Sequence[str], kinds: int) -> None:
    figure_style.dress(made, ())
    times = [row["median_ns"] / 1e3 for row in rows]
    low, high = math.log10(min(times)), math.log10(max(times))
    made.update_xaxes(type="log", range=[low - 0.3, high + 0.7], title="µs", showgrid=True)
    made.update_xaxes(**figure_style.decades(times))
    made.update_yaxes(range=[-0.7, len(labels) - 0.3], showgrid=False)
    made.update_yaxes(tickvals=list(range(len(labels))), ticktext=ticks(rows, labels))
    made.update_layout(
        height=(CELL + 8 * (kinds - 1)) * len(labels) + 84,
        margin={"l": 8, "r": 12, "t": 24, "b": 44},
        showlegend=kinds > 1,
        legend={"y": 1.0, "yanchor": "bottom"},
    )


def _errors(rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "type": "data",
        "array": [_gap(row["median_ns"], row["high_ns"]) for row in rows],
        "arrayminus": [_gap(row["low_ns"], row["median_ns"]) for row in rows],
        "thickness": 1.5,
        "width": 4,
    }


def parts(rows: Sequence[Row]) -> Figure:
    """What round trips are made of, µs, as stacked bars with the parts' intervals; a negative residual lies left of 0."""
    from plotly.graph_objects import Figure

    rows = sorted(rows, key=lambda row: -row["median_ns"])
    labels = [f"{name(row)}, {KINDS[row['kind']]}" for row in rows]
    made = Figure()
    others = dict.fromkeys(part["part"] for row in rows for part in row["parts"] if part["part"] not in PARTS)
    for part, colour in {**PARTS, **dict.fromkeys(others, PALE)}.items():
        found = [next((p for p in row["parts"] if p["part"] == part), None) for row in rows]
        shown = [p if p else {"ns": None, "low_ns": None, "high_ns": None} for p in found]
        made.add_bar(
            orientation="h",
            y=labels,
            x=[_micro(p["ns"]) for p in shown],
            name=html.escape(part),
            marker={"color": colour, "line": {"width": 0}},
            error_x={
                "type": "data",
                "array": [_gap(p["ns"], p["high_ns"]) for p in shown],
                "arrayminus": [_gap(p["low_ns"], p["ns"]) for p in shown],
                "color": INK,
                "thickness": 1,
                "width": 3,
            },
            customdata=[[time(p["ns"]), time(p["low_ns"]), time(p["high_ns"])] for p in shown],
            hovertemplate=f"%{{y}}<br>{html.escape(part)} %{{customdata[0]}} [%{{customdata[1]}} – %{{customdata[2]}}]"
            "<extra></extra>",
        )
    figure_style.dress(made, ())
    made.update_layout(
        barmode="relative",
        bargap=0.35,
        height=BAR * len(rows) + 118,
        margin={"l": 8, "r": 12, "t": 8, "b": 44},
        legend={"y": 1.0, "yanchor": "bottom", "traceorder": "normal"},
    )
    made.update_yaxes(showgrid=False, categoryorder="array", categoryarray=labels)
    made.update_xaxes(showgrid=True, title="µs", nticks=7, zeroline=True, zerolinecolor=PALE)
    return made


def _micro(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e3


def _gap(low: float | None, high: float | None) -> float | None:
    """Length of an error bar, µs; None where a bound is not known."""
    return None if low is None or high is None else max(high - low, 0.0) / 1e3


def curves(dimension: str, found: Sequence[Sequence[Row]]) -> Figure:
    """Medians over a dimension with 95 % intervals, µs; hollow marks are rejected, and their curve leaves them out."""
    from plotly.graph_objects import Figure

    made = Figure()
    values = sorted({at(row, dimension) for curve in found for row in curve}, key=order)
    numeric = all(math.isfinite(order(value)[0]) for value in values)
    labels = _labels(found)
    for place, (curve, label) in enumerate(zip(found, labels, strict=True)):
        for refused in (False, True):
            rows = [row for row in curve if rejected(row) is refused and row["median_ns"] is not None]
            if rows:
                made.add_scatter(**_curve(rows, dimension, label, place, numeric, refused))
    figure_style.dress(made, ())
    made.update_xaxes(title=html.escape(f"{dimension} (bytes)" if dimension == "size" else dimension))
    if numeric:
        _axis(made, [order(value)[0] for value in values])
    medians = [row["median_ns"] / 1e3 for curve in found for row in curve if row["median_ns"]]
    if medians and min(medians) > 0 and max(medians) / min(medians) > figure_style.WIDE:
        made.update_yaxes(type="log", **figure_style.decades(medians))
    else:
        made.update_yaxes(rangemode="tozero")
    unit = next(row["unit_of_work"] for curve in found for row in curve)
    made.update_yaxes(title=f"µs a {html.escape(unit)}")
    lines = len(labels) if max(map(len, labels)) > SHORT else math.ceil(len(labels) / 2)
    foot = 62 + LINE * lines
    made.update_layout(
        height=290 + foot,
        margin={"b": foot},
        legend={"yref": "container", "y": 0, "yanchor": "bottom"},
    )
    return made


def _curve(
    rows: Sequence[Row], dimension: str, label: str, place: int, numeric: bool, refused: bool
) -> dict[str, Any]:
    colour, symbol = COLOURS[place % len(COLOURS)], SYMBOLS[place % len(SYMBOLS)]
    return {
        "x": [order(at(row, dimension))[0] if numeric else str(at(row, dimension)) for row in rows],
        "y": [row["median_ns"] / 1e3 for row in rows],
        "error_y": _errors(rows),
        "name": html.escape(label),
        "legendgroup": label,
        "showlegend": not refused,
        "mode": "markers" if refused else "lines+markers",
        "line": {"color": colour, "width": 2},
        "marker": {"symbol": f"{symbol}-open" if refused else symbol, "size": 8, "color": colour},
        "text": [f"{time(row['median_ns'])} [{bounds(row)}] {' '.join(row['flags'])}" for row in rows],
        "hovertemplate": f"{html.escape(dimension)} %{{x}}<br>%{{text}}<extra></extra>",
    }


def _labels(found: Sequence[Sequence[Row]]) -> list[str]:
    """What tells the curves apart."""
    firsts = [_facts(curve[0]) for curve in found]
    keys = [key for key in firsts[0] if len({facts.get(key) for facts in firsts}) > 1]
    words = [", ".join(facts[key] for key in keys if key in facts) for facts in firsts]
    return [
        text or f"{facts['kind']}, {facts['position']}" for text, facts in zip(words, firsts, strict=True)
    ]


def _facts(row: Row) -> dict[str, str]:
    return {
        "variant": form(row),
        "kind": KINDS[row["kind"]],
        "position": POSITIONS[row["position"]],
        "pairs": f"{row['pairs']} pairs",
        "size": f"{row['size']} bytes",
        **({"cores": f"{row['cores']} cores"} if row["position"] == "free" else {}),
        **{knob: f"{knob} = {value}" for knob, value in settings(row).items()},
    }


def _axis(made: Figure, values: Sequence[float]) -> None:
    """Ticks at the values; logarithmic where they span a wide range."""
    step = math.ceil(len(values) / figure_style.MOST_TICKS)
    log = values[0] > 0 and values[-1] / values[0] >= figure_style.WIDE
    made.update_xaxes(type="log" if log else "linear", tickvals=values[::step])
    made.update_xaxes(ticktext=[figure(value, 6) for value in values[::step]])


def _binned(samples: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Edges of bins, µs, and the % of the samples in each."""
    values = np.asarray(samples, dtype=float) / 1e3
    values = values[values > 0]
    if not len(values):  # the subtraction left nothing that has a logarithm
        values = np.array([1e-6])
    low, high = float(values.min()), float(np.quantile(values, TAIL))
    edges = np.geomspace(low * 0.98, max(high * 1.02, low * 1.1), BINS + 1)
    return edges, np.histogram(values, edges)[0] / len(values) * 100


def distribution(row: Row, samples: NDArray[np.float64]) -> Figure:
    """How the samples of a result are spread, % of them by time on a logarithmic axis, with its median and launches.

    Parameters
    ----------
    samples : array
        ns for a unit.
    """
    from plotly.graph_objects import Figure

    edges, counts = _binned(samples)
    made = Figure()
    made.add_scatter(
        x=[round(float(x), 6) for x in edges],
        y=[round(float(y), 3) for y in [*counts, 0.0]],
        mode="lines",
        line={"shape": "hv", "color": "#334e68", "width": 1.5},
        fill="tozeroy",
        fillcolor="rgba(51, 78, 104, 0.18)",
        hovertemplate="from %{x:.3~g} µs: %{y:.2~f} %<extra></extra>",
    )
    launches = [ns / 1e3 for ns in row["launches"] if ns]
    made.add_scatter(
        x=launches,
        y=[0.0] * len(launches),
        mode="markers",
        marker={"symbol": "line-ns-open", "size": 12, "color": "#D55E00", "line": {"width": 2}},
        hovertemplate="median of a launch %{x:.4~g} µs<extra></extra>",
    )
    figure_style.dress(made, ())
    if row["median_ns"]:
        made.add_vline(x=row["median_ns"] / 1e3, line={"color": "#D55E00", "width": 1.5, "dash": "dash"})
    made.update_xaxes(
        type="log",
        range=[math.log10(edges[0]), math.log10(edges[-1])],
        title="µs",
        tickvals=(ticks := [float(f"{x:.2g}") for x in np.geomspace(edges[0], edges[-1], 5)[1:]]),
        ticktext=[figure(tick) for tick in ticks],
    )
    made.update_yaxes(rangemode="tozero", title="% of samples", gridcolor=GRID)
    made.update_layout(showlegend=False, height=230, margin={"l": 48, "r": 8, "t": 8, "b": 44})
    return made
