"""Plotly figures of a sweep; each takes a sweep's document, one series or several, as `lines_of` does."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from harness.showing import figure_style, traces
from harness.showing.figure_style import INK, PALE
from harness.showing.lines import Line, Source, lines_of
from models.explain.view import bill
from models.metrics import Metrics
from models.series import Point
from models.wording import figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SERVICE = "99th percentile from sending on"
STRETCH = 4.0  # how far beyond the figures the response's axis runs at most for their intervals
APART = 8.0  # ratio of two curves' highest throughputs from which the axis starts logarithmic

# Shades that differ in lightness, so that they stay apart in grey and beside the curves' own colours.
PURPOSES = (
    ("service's work", "#334e68", ""),
    ("server, other", "#9fb3c8", ""),
    ("server, not split", "#627d98", "x"),
    ("load generator", "#f0d9a8", "/"),
)
RESOURCES = (
    ("cpu", "all CPUs", "#1f2933", "solid", "circle"),
    ("server_cpu", "CPUs, by the server", "#627d98", "dash", "circle-open"),
    ("worker", "workers", "#7b4fa3", "solid", "square"),
    ("load_thread", "generator's thread", "#b7791f", "solid", "triangle-up"),
)


def throughput(source: Source) -> Figure:
    """Throughput over the variable: measured with 95 % intervals, predicted, the law's curve, and the peak.

    Broken points are hollow. The strip at the foot is the set of values not significantly below the highest;
    the horizontal bar on a law's curve is its peak with its interval.
    """
    lines = lines_of(source)
    made = _figure(lines, "throughput (1/s)")
    rates = [metrics.throughput.value for metrics in _known(lines)]
    figure_style.foot(made, len(lines))
    traces.offered(made, lines)
    for place, line in enumerate(lines):
        traces.peak_set(made, line, place)
        traces.law(made, line)
        traces.predicted(made, line, lambda metrics: metrics.throughput.value, "1/s")
        traces.measured(made, line, lambda metrics: metrics.throughput, 1.0, "1/s")
    traces.key(
        made,
        lines,
        (
            ("predicted", "dash", ""),
            ("law, and its peak", "solid", ""),
            (traces.OFFERED, "dot", ""),
            ("broken", "", "circle-open"),
        ),
    )
    made.update_yaxes(rangemode="tozero", tickformat=",")
    apart = _apart(lines)
    if apart:
        made.update_yaxes(type="log", **figure_style.decades(rates))
    made.update_layout(updatemenus=[figure_style.scales(rates, apart)])
    return made


def response(source: Source) -> Figure:
    """Mean and 99th percentile of the response time over the variable, ms, with the predicted mean.

    Of an open load the response time runs from the moment that a request was planned for; the 99th percentile of the
    service time, from its sending on, is drawn beside it.
    """
    lines = lines_of(source)
    made = _figure(lines, "response time (ms)")
    for line in lines:
        traces.predicted(made, line, lambda metrics: metrics.response.value * 1e3, "ms")
        _quantile(made, line, lambda metrics: metrics.p99, "99th percentile", "dot", "triangle-up")
        _quantile(made, line, _service_p99, SERVICE, "dashdot", "triangle-down-open")
        traces.measured(made, line, lambda metrics: metrics.response, 1e3, "ms", joined=True)
    traces.key(
        made,
        lines,
        (
            ("99th percentile", "dot", "triangle-up"),
            (SERVICE, "dashdot", "triangle-down-open"),
            ("predicted", "dash", ""),
            ("broken", "", "circle-open"),
        ),
    )
    low, high = _span(_known(lines))
    room = 0.05 * (math.log10(high / low) + 0.2)
    span = [math.log10(low) - room, math.log10(high) + room]
    made.update_yaxes(type="log", range=span, **figure_style.decades([low, high]))
    return made


def _span(known: Sequence[Metrics]) -> tuple[float, float]:
    """From which to which time the response's axis runs, ms.

    Intervals are drawn in full as far as they reach `STRETCH` times beyond the figures themselves: those of two
    runs can span many decades, and would press all else into a line.
    """
    times = [time for m in known for time in (m.response.value, m.p99, _service_p99(m))]
    times = [time * 1e3 for time in times if math.isfinite(time) and time > 0] or [1.0]
    low, high = min(times), max(times)
    lows = [m.response.low * 1e3 for m in known if m.response.low > 0]
    highs = [m.response.high * 1e3 for m in known if math.isfinite(m.response.high)]
    return max(min([low, *lows]), low / STRETCH), min(max([high, *highs]), high * STRETCH)


def _quantile(
    made: Figure, line: Line, read: Callable[[Metrics], float], name: str, dash: str, symbol: str
) -> None:
    """A quantile of measured times over the variable, ms; nothing where it is not known."""
    rows = [(p.x, read(p.measured) * 1e3) for p in line.measured if p.measured]
    rows = [(x, value) for x, value in rows if math.isfinite(value)]
    if not rows:
        return
    made.add_scatter(
        x=[x for x, _ in rows],
        y=[value for _, value in rows],
        name=name,
        legendgroup=name,
        showlegend=False,
        mode="lines+markers",
        line={"color": line.colour, "width": 1.5, "dash": dash},
        marker={"symbol": symbol, "size": 7},
        hovertemplate=traces.hover(line, f"{name} %{{y:.4~g}} ms"),
    )


def _service_p99(metrics: Metrics) -> float:
    """Of an open load: without the wait for a connection, s; nan for other loads."""
    return (metrics.service_time or {}).get("p99", math.nan)


def cpu(source: Source, top: float | None = None) -> Figure:
    """CPU that a reply costs by purpose, µs, beside each value of the variable; one panel for each curve.

    Parameters
    ----------
    top : float, optional
        Upper end of the vertical axis, µs, to compare figures that are drawn apart.
    """
    lines = lines_of(source)
    made = _panels(lines, "CPU a reply (µs)")
    for column, line in enumerate(lines, 1):
        points = [point for point in line.measured if bill(point)]
        names = [figure(point.x, 6) for point in points]
        for name, colour, pattern in PURPOSES:
            heights = [_part(point, name) for point in points]
            if not any(heights):
                continue
            made.add_bar(
                x=names,
                y=heights,
                name=name,
                legendgroup=name,
                showlegend=all(trace.name != name for trace in made.data),
                marker={
                    "color": colour,
                    "pattern": {
                        "shape": pattern,
                        "bgcolor": colour,
                        "fgcolor": PALE,
                        "size": 5,
                        "solidity": 0.25,
                    },
                    "line": {"width": 0},
                },
                hovertemplate=traces.hover(line, f"{name} %{{y:.4~g}} µs"),
                row=1,
                col=column,
            )
        totals = [(figure(p.x, 6), _total(p.predicted)) for p in line.points if p.predicted]
        totals = [(name, total) for name, total in totals if math.isfinite(total)]
        if totals:
            made.add_scatter(
                x=[name for name, _ in totals],
                y=[total for _, total in totals],
                name="predicted, all",
                legendgroup="predicted, all",
                showlegend=all(trace.name != "predicted, all" for trace in made.data),
                mode="markers",
                marker={"symbol": "diamond-open", "size": 9, "color": INK, "line": {"width": 2}},
                hovertemplate=traces.hover(line, "predicted %{y:.4~g} µs"),
                row=1,
                col=column,
            )
    made.update_layout(barmode="stack", bargap=0.35)
    made.update_xaxes(type="category")
    made.update_yaxes(rangemode="tozero", range=[0, top] if top else None)
    return made


def utilisation(source: Source) -> Figure:
    """How busy each resource was over the variable, % of its capacity; one panel for each curve."""
    lines = lines_of(source)
    made = _panels(lines, "busy (% of capacity)")
    for column, line in enumerate(lines, 1):
        for name, words, colour, dash, symbol in RESOURCES:
            rows = [(p.x, p.measured.utilisation.get(name, math.nan)) for p in line.measured if p.measured]
            rows = [(x, value) for x, value in rows if math.isfinite(value)]
            if not rows:
                continue
            made.add_scatter(
                x=[x for x, _ in rows],
                y=[value * 100 for _, value in rows],
                name=words,
                legendgroup=words,
                showlegend=all(trace.name != words for trace in made.data),
                mode="lines+markers",
                line={"color": colour, "width": 2, "dash": dash},
                marker={"symbol": symbol, "size": 7},
                hovertemplate=traces.hover(line, f"{words} %{{y:.3~g}} %"),
                row=1,
                col=column,
            )
    made.update_yaxes(range=[0, 105], dtick=25)
    figure_style.ticks(made, lines)
    return made


def knows_cpu(line: Line) -> bool:
    """Whether `cpu` has anything to draw of the curve."""
    return any(bill(point) or math.isfinite(_total(point.predicted)) for point in line.points)


def knows_use(line: Line) -> bool:
    """Whether `utilisation` has anything to draw of the curve."""
    uses = [
        p.measured.utilisation.get(name, math.nan)
        for p in line.measured
        if p.measured
        for name, *_ in RESOURCES
    ]
    return any(math.isfinite(use) for use in uses)


def highest_cpu(lines: Sequence[Line]) -> float:
    """The tallest bar or mark of `cpu`, µs, with some room above it."""
    measured = [cost.total * 1e6 for line in lines for point in line.points if (cost := bill(point))]
    predicted = [_total(point.predicted) for line in lines for point in line.points if point.predicted]
    return 1.08 * max((x for x in [*measured, *predicted] if math.isfinite(x)), default=1.0)


def _figure(lines: Sequence[Line], title: str) -> Figure:
    from plotly.graph_objects import Figure

    made = Figure()
    figure_style.dress(made, lines)
    made.update_yaxes(title=title)
    figure_style.ticks(made, lines)
    return made


def _panels(lines: Sequence[Line], title: str) -> Figure:
    from plotly.subplots import make_subplots

    titles = [html.escape(line.label) for line in lines] if len(lines) > 1 else None
    made = make_subplots(
        1, max(len(lines), 1), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.04
    )
    figure_style.dress(made, lines)
    made.update_yaxes(title=title, col=1)
    made.update_layout(legend={"y": -0.3})
    return made


def _apart(lines: Sequence[Line]) -> bool:
    """Whether the curves lie so far apart that a linear axis would flatten one of them."""
    tops = [
        max((p.measured.throughput.value for p in line.measured if p.measured), default=0) for line in lines
    ]
    tops = [top for top in tops if top > 0]
    return bool(tops) and max(tops) > APART * min(tops)


def _known(lines: Sequence[Line]) -> list[Metrics]:
    """All metrics drawn, measured and predicted."""
    return [m for line in lines for point in line.points for m in (point.measured, point.predicted) if m]


def _part(point: Point, purpose: str) -> float:
    """A part of the CPU bill, µs; the server's undivided time only where its purposes are not known."""
    cost = bill(point)
    if not cost:
        return 0.0
    parts = {"load generator": cost.load}
    if cost.split:
        parts |= {"service's work": cost.work, "server, other": cost.other}
    else:
        parts["server, not split"] = cost.server
    return parts.get(purpose, 0.0) * 1e6


def _total(metrics: Metrics | None) -> float:
    """Predicted CPU a reply of both sides, µs; nan where the model does not know it."""
    counters = metrics.counters if metrics else {}
    return (counters.get("server_cpu", math.nan) + counters.get("load_cpu", math.nan)) * 1e6
