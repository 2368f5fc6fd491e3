"""The heat map of a probe run: the median of each primitive at each position."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from harness.showing import figure_style
from harness.showing.figure_style import PALE
from harness.showing.probe_words import KINDS, POSITIONS, Row, bounds, name, plainest, rejected, time

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# From pale to dark in one hue, so that it can be read without colours; grey is left for what has no figure.
COST = ((0.0, "#fff7e6"), (0.35, "#f9c97d"), (0.7, "#d8702a"), (1.0, "#7a2604"))
NOTHING, ABSENT = "#f5f7fa", "#dde2e7"
CELL = 27  # px of a row
LACKING = 0.45  # width of a column that the machine lacks, of another's
FEW = 8  # figures below which a heat map needs no scale beside it


def star(row: Row) -> str:
    """What a flagged figure is marked with; that a sample is a batch's mean is no reproach."""
    return " rejected" if rejected(row) else "*" if set(row["flags"]) - {"batched"} else ""


def about(row: Row) -> str:
    words = [f"{time(row['median_ns'])} [{bounds(row)}] a {html.escape(row['unit_of_work'])}"]
    words += [f"flags: {html.escape(' '.join(row['flags']))}"] if row["flags"] else []
    return "<br>".join(words)


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
    edges, middles = _columns(document, positions)
    for column, kind in enumerate(kinds, 1):
        cells = _cells(document, [row for row in rows if row["kind"] == kind], labels, positions, kind)
        made.add_trace(_grey(cells, labels, edges), row=1, col=column)
        made.add_trace(_coloured(cells, labels, edges), row=1, col=column)
        _say_absent(made, document, dict(zip(positions, middles, strict=True)), len(labels), column)
    figure_style.dress(made, ())
    made.update_xaxes(showline=False, ticks="", side="bottom", tickangle=0, tickfont={"size": 11}, title="")
    made.update_xaxes(
        showgrid=False, tickvals=middles, ticktext=[_heading(document, place) for place in positions]
    )
    made.update_yaxes(showgrid=False, tickvals=labels, ticktext=ticks(rows, labels))
    made.update_layout(
        coloraxis=_scale([row["median_ns"] for row in rows if row["median_ns"] and not rejected(row)]),
        height=CELL * len(labels) + 90,
        margin={"l": 8, "r": 8, "t": 30, "b": 52},
    )
    return made


def ticks(rows: Sequence[Row], labels: Sequence[str]) -> list[str]:
    """Each primitive with its unit of work in pale."""
    units = {name(row): row["unit_of_work"] for row in rows}
    pale = f'<span style="color:{PALE};font-size:10px">'
    return [f"{html.escape(label)} {pale}{html.escape(units[label])}</span>" for label in labels]


def _columns(document: Mapping[str, Any], positions: Sequence[str]) -> tuple[list[float], list[float]]:
    """Edges and middles of the columns: those that the machine lacks are narrow, so that figures have room in the others."""
    widths = [LACKING if "absent" in document["positions"].get(place, {}) else 1.0 for place in positions]
    edges = list(accumulate(widths, initial=0.0))
    return edges, [(left + right) / 2 for left, right in pairwise(edges)]


def _heading(document: Mapping[str, Any], position: str) -> str:
    """Above a figure's column; a narrow one is named by the words along it."""
    return (
        ""
        if "absent" in document["positions"].get(position, {})
        else POSITIONS[position].replace(" ", "<br>", 1)
    )


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
    absent = {place: given["absent"] for place, given in document["positions"].items() if "absent" in given}

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
        return None, "rejected", about(row)
    if not row["median_ns"] or row["median_ns"] < 0:  # the subtraction left nothing that has a logarithm
        return None, f"{time(row['median_ns'])}{star(row)}", about(row)
    return math.log10(row["median_ns"]), f"{time(row['median_ns'])}{star(row)}", about(row)


def _grey(cells: Sequence[Sequence[Cell]], labels: Sequence[str], edges: Sequence[float]) -> Any:
    """What has no figure: darker where the machine lacks the position."""
    shades = [
        [None if z is not None else float(words.startswith("absent")) for z, _, words in row] for row in cells
    ]
    words = [["" if z is not None else text for z, text, _ in row] for row in cells]
    return _trace(
        cells,
        labels,
        edges,
        z=shades,
        text=words,
        zmin=0,
        zmax=1,
        colorscale=[(0, NOTHING), (1, ABSENT)],
        showscale=False,
        textfont={"size": 11, "color": PALE},
    )


def _coloured(cells: Sequence[Sequence[Cell]], labels: Sequence[str], edges: Sequence[float]) -> Any:
    shades = [[z for z, _, _ in row] for row in cells]
    words = [["" if z is None else text for z, text, _ in row] for row in cells]
    return _trace(cells, labels, edges, z=shades, text=words, coloraxis="coloraxis", textfont={"size": 12})


def _trace(
    cells: Sequence[Sequence[Cell]], labels: Sequence[str], edges: Sequence[float], **more: Any
) -> Any:
    from plotly.graph_objects import Heatmap

    return Heatmap(
        x=list(edges),
        y=list(labels),
        texttemplate="%{text}",
        customdata=[[hint for _, _, hint in row] for row in cells],
        hovertemplate="%{y}<br>%{customdata}<extra></extra>",
        hoverongaps=False,
        xgap=3,
        ygap=3,
        **more,
    )


def _say_absent(
    made: Figure, document: Mapping[str, Any], middles: Mapping[str, float], rows: int, column: int
) -> None:
    """Writes why a position is absent along its column, as far as there is room."""
    for position, middle in middles.items():
        why = document["positions"].get(position, {}).get("absent")
        if why is None:
            continue
        text = html.escape(f"{POSITIONS[position]} absent: {why}")
        fits = 6 * len(text) < CELL * rows
        made.add_annotation(
            x=middle,
            y=(rows - 1) / 2,
            text=text if fits else html.escape(POSITIONS[position]),
            textangle=-90,
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
