"""Plotly figures of a probe run: heat map, what a round trip is made of, curves, distributions."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.showing import figure_style
from harness.showing.figure_style import GRID, INK, PALE
from harness.showing.lines import COLOURS, SYMBOLS
from harness.showing.probe_words import (
    KINDS,
    POSITIONS,
    Row,
    at,
    bounds,
    form,
    name,
    order,
    plainest,
    rejected,
    settings,
    time,
)
from models.wording import figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# From pale to dark in one hue, so that it can be read without colours; grey is left for what has no figure.
COST = ((0.0, "#fff7e6"), (0.35, "#f9c97d"), (0.7, "#d8702a"), (1.0, "#7a2604"))
NOTHING, ABSENT = "#f5f7fa", "#dde2e7"
PARTS = {
    "system calls": "#0072B2",
    "data": "#E69F00",
    "switches": "#56B4E9",
    "wake-ups": "#D55E00",
    "residual": "#b8c1cb",
}
CELL, BAR, LINE = 27, 30, 20  # px of a row, of a bar's, of a legend's
SHORT = 22  # characters of a legend's entry of which two stand beside each other
FEW = 8  # figures below which a heat map needs no scale beside it
BINS = 70
TAIL = 0.995  # share of the samples that a distribution shows in full; the rest is said


def heat(document: Mapping[str, Any], positions: Sequence[str]) -> Figure:
    """Median of each primitive at each position, ns in logarithmic colours; a panel of each kind of ends.

    A star marks a flagged figure; rejected, refused and absent cells are grey, and say why under the pointer.
    """
    from plotly.subplots import make_subplots

    rows = [row for row in plainest(document["results"]) if row["position"] in positions]
    rows.sort(key=lambda row: row["median_ns"] or math.inf)
    labels = list(dict.fromkeys(name(row) for row in rows))[::-1]
    kinds = [kind for kind in KINDS if any(row["kind"] == kind for row in rows)]
    titles = [f"between {KINDS[kind]}" for kind in kinds]
    made = make_subplots(1, len(kinds), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.02)
    for column, kind in enumerate(kinds, 1):
        cells = _cells(document, [row for row in rows if row["kind"] == kind], labels, positions, kind)
        made.add_trace(_grey(cells, labels, positions), row=1, col=column)
        made.add_trace(_coloured(cells, labels, positions), row=1, col=column)
        _say_absent(made, document, positions, len(labels), column)
    figure_style.dress(made, ())
    made.update_xaxes(showline=False, ticks="", side="bottom", tickangle=0, tickfont={"size": 11}, title="")
    made.update_yaxes(showgrid=False, tickvals=labels, ticktext=_ticks(rows, labels))
    made.update_layout(
        coloraxis=_scale([row["median_ns"] for row in rows if row["median_ns"] and not rejected(row)]),
        height=CELL * len(labels) + 90,
        margin={"l": 8, "r": 8, "t": 30, "b": 52},
    )
    return made


def _ticks(rows: Sequence[Row], labels: Sequence[str]) -> list[str]:
    """Each primitive with its unit of work in pale."""
    units = {name(row): row["unit_of_work"] for row in rows}
    pale = f'<span style="color:{PALE};font-size:10px">'
    return [f"{html.escape(label)} {pale}{html.escape(units[label])}</span>" for label in labels]


Cell = tuple[float | None, str, str]  # log10 of the ns, what stands in the cell, what the pointer shows


def _cells(
    document: Mapping[str, Any],
    rows: Sequence[Row],
    labels: Sequence[str],
    positions: Sequence[str],
    kind: str,
) -> list[list[Cell]]:
    found = {(name(row), row["position"]): _cell(row) for row in rows}
    refused = {(name(row), row["position"]): row["why"] for row in document["refused"] if row["kind"] == kind}
    absent = {place: about["absent"] for place, about in document["positions"].items() if "absent" in about}

    def cell(label: str, position: str) -> Cell:
        if (label, position) in found:
            return found[label, position]
        if position in absent:
            return None, "", f"absent: {html.escape(absent[position])}"
        if (label, position) in refused:
            return None, "refused", f"refused: {html.escape(refused[label, position])}"
        return None, "", "not measured"

    return [[cell(label, position) for position in positions] for label in labels]


def _cell(row: Row) -> Cell:
    if rejected(row):
        return None, "rejected", _about(row)
    if not row["median_ns"] or row["median_ns"] < 0:  # the subtraction left nothing that has a logarithm
        return None, f"{time(row['median_ns'])}{_star(row)}", _about(row)
    return math.log10(row["median_ns"]), f"{time(row['median_ns'])}{_star(row)}", _about(row)


def _grey(cells: Sequence[Sequence[Cell]], labels: Sequence[str], positions: Sequence[str]) -> Any:
    """What has no figure: darker where the machine lacks the position."""
    shades = [
        [None if z is not None else float(about.startswith("absent")) for z, _, about in row] for row in cells
    ]
    words = [["" if z is not None else text for z, text, _ in row] for row in cells]
    return _trace(
        cells,
        labels,
        positions,
        z=shades,
        text=words,
        zmin=0,
        zmax=1,
        colorscale=[(0, NOTHING), (1, ABSENT)],
        showscale=False,
        textfont={"size": 11, "color": PALE},
    )


def _coloured(cells: Sequence[Sequence[Cell]], labels: Sequence[str], positions: Sequence[str]) -> Any:
    shades = [[z for z, _, _ in row] for row in cells]
    words = [["" if z is None else text for z, text, _ in row] for row in cells]
    return _trace(
        cells, labels, positions, z=shades, text=words, coloraxis="coloraxis", textfont={"size": 12}
    )


def _trace(
    cells: Sequence[Sequence[Cell]], labels: Sequence[str], positions: Sequence[str], **more: Any
) -> Any:
    from plotly.graph_objects import Heatmap

    return Heatmap(
        x=[POSITIONS[position].replace(" ", "<br>", 1) for position in positions],
        y=list(labels),
        texttemplate="%{text}",
        customdata=[[about for _, _, about in row] for row in cells],
        hovertemplate="%{y}<br>%{customdata}<extra></extra>",
        hoverongaps=False,
        xgap=3,
        ygap=3,
        **more,
    )


def _say_absent(
    made: Figure, document: Mapping[str, Any], positions: Sequence[str], rows: int, column: int
) -> None:
    """Writes why a position is absent along its column, as far as there is room."""
    for position in positions:
        why = document["positions"].get(position, {}).get("absent")
        if why is None:
            continue
        text = html.escape(f"absent: {why}")
        fits = 6 * len(text) < CELL * rows
        made.add_annotation(
            x=POSITIONS[position].replace(" ", "<br>", 1),
            y=(rows - 1) / 2,
            text=text if fits else "absent",
            textangle=-90 if fits else 0,
            showarrow=False,
            font={"size": 11, "color": PALE},
            row=1,
            col=column,
        )


def _scale(values: Sequence[float]) -> dict[str, Any]:
    """Logarithmic colours over the values, with ticks at full times."""
    low, high = (math.log10(bound(values)) for bound in (min, max)) if values else (0.0, 1.0)
    ticks = [math.log10(m) + p for p in range(math.floor(low), math.ceil(high) + 1) for m in (1, 3)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    ticks = ticks if len(ticks) <= 6 else [tick for tick in ticks if tick == round(tick)]
    return {
        "colorscale": COST,
        "cmin": low,
        "cmax": max(high, low + 0.3),
        "showscale": len(values) >= FEW,
        "colorbar": {
            "thickness": 10,
            "outlinewidth": 0,
            "tickvals": ticks,
            "ticktext": [time(round(10**tick)) for tick in ticks],
            "tickfont": {"size": 11, "color": PALE},
        },
    }


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
            text=[f"{html.escape(name(row))}<br>{_about(row)}" for row in here],
            hovertemplate="%{text}<extra></extra>",
        )
        made.add_scatter(
            x=[max(row["high_ns"] or 0.0, row["median_ns"]) / 1e3 for row in here],
            y=made.data[-1].y,
            mode="text",
            text=[f"   {time(row['median_ns'])}{_star(row)}" for row in here],
            textposition="middle right",
            textfont={"size": 11, "color": COLOURS[place]},
            showlegend=False,
            hoverinfo="skip",
        )
    figure_style.dress(made, ())
    times = [row["median_ns"] / 1e3 for row in rows]
    low, high = math.log10(min(times)), math.log10(max(times))
    made.update_xaxes(type="log", range=[low - 0.3, high + 0.7], title="µs", showgrid=True)
    made.update_xaxes(**figure_style.decades(times))
    made.update_yaxes(range=[-0.7, len(labels) - 0.3], showgrid=False)
    made.update_yaxes(tickvals=list(range(len(labels))), ticktext=_ticks(rows, labels))
    made.update_layout(
        height=(CELL + 8 * (len(kinds) - 1)) * len(labels) + 84,
        margin={"l": 8, "r": 12, "t": 24, "b": 44},
        showlegend=len(kinds) > 1,
        legend={"y": 1.0, "yanchor": "bottom"},
    )
    return made


def _star(row: Row) -> str:
    """What a flagged figure is marked with; that a sample is a batch's mean is no reproach."""
    return " rejected" if rejected(row) else "*" if set(row["flags"]) - {"batched"} else ""


def _about(row: Row) -> str:
    words = [f"{time(row['median_ns'])} [{bounds(row)}] a {html.escape(row['unit_of_work'])}"]
    words += [f"flags: {html.escape(' '.join(row['flags']))}"] if row["flags"] else []
    return "<br>".join(words)


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


def distribution(row: Row, samples: Sequence[float]) -> Figure:
    """How the samples of a result are spread, % of them by time on a logarithmic axis, with its median and launches.

    Parameters
    ----------
    samples : sequence of float
        ns for a unit.
    """
    from plotly.graph_objects import Figure

    values = np.asarray(samples, dtype=float) / 1e3
    values = values[values > 0]
    if not len(values):  # the subtraction left nothing that has a logarithm
        values = np.array([1e-6])
    low, high = float(values.min()), float(np.quantile(values, TAIL))
    edges = np.geomspace(low * 0.98, max(high * 1.02, low * 1.1), BINS + 1)
    counts = np.histogram(values, edges)[0] / len(values) * 100
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
