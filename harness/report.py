"""Writes a sweep as one HTML page that needs nothing else: answers, figures, tables, noise, provenance."""

from __future__ import annotations

import html
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from harness import figure_style
from harness.lines import Line, lines_of
from harness.page import PAGE, STYLE
from models.metrics import Estimate, Metrics
from models.series import Point
from models.wording import at, figure, finding, interval, percent, rate, set_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_CONFIG = {
    "responsive": True,
    "displaylogo": False,
    "displayModeBar": "hover",
    "modeBarButtons": [["toImage", "resetScale2d"]],
}


class ReportError(RuntimeError):
    """The page could not be written; the message is one line for the user."""


def write(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes the page of a sweep; a page that was there is replaced at once or not at all.

    Parameters
    ----------
    document : mapping
        The sweep's document as `sweep --json` prints it.
    path : path
        Of the page.

    Raises
    ------
    ReportError
        When the file cannot be written.
    """
    target = Path(path)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        draft.write_text(page(document), encoding="utf-8")
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ReportError(f"{target}: the page cannot be written ({error.strerror})") from error


def page(document: Mapping[str, Any]) -> str:
    """The page as text."""
    from plotly.offline import get_plotlyjs

    lines = lines_of(document)
    plots: dict[str, Figure] = {}
    body = "\n".join(
        [
            *_warnings(document["sweep"].get("warnings") or ()),
            *_answers(lines),
            *_figures(lines, plots),
            *_tables(lines),
            *_noise(document["sweep"].get("noise")),
            *_provenance(document["sweep"]),
        ]
    )
    return PAGE.substitute(
        title=html.escape(question(document)),
        what=html.escape(_what(document)),
        style=STYLE.strip(),
        body=body,
        plotly=get_plotlyjs(),
        scripts="\n".join(_script(name, plot) for name, plot in plots.items()),
    )


def question(document: Mapping[str, Any]) -> str:
    """What the sweep asks, for a title."""
    parts = {(cell["scenario"]["service"], cell["scenario"]["server"]) for cell in document["cells"]}
    services, servers = (sorted({part[place] for part in parts}) for place in (0, 1))
    system = " and ".join(services) + " on " + " and ".join(servers) if parts else "the server"
    variables = list(dict.fromkeys(row["variable"] for row in document["series"]))
    if not variables:
        return f"What does {system} do?"
    if variables in (["workers"], ["clients"]):
        return f"Where does {system} stop scaling with {variables[0]}, and why?"
    return f"How does the throughput of {system} depend on {' and '.join(variables)}?"


def _what(document: Mapping[str, Any]) -> str:
    """One line on how much was done."""
    cells = document["cells"]
    runs = sum(len(cell["replicates"]) for cell in cells)
    broken = sum(bool(cell["broken"]) for cell in cells) or "none"
    predicted = sum(cell["predicted"] is not None for cell in cells) or "none"
    return (
        f"{len(cells)} configurations, {runs} runs, each on a fresh server process; {broken} of them broken, "
        f"{predicted} predicted before they were measured. Sweep {document['sweep']['id']}."
    )


def _warnings(found: Sequence[str]) -> Iterator[str]:
    if found:
        items = "".join(f"<li>{html.escape(text)}</li>" for text in found)
        yield '<section class="warnings" aria-label="Warnings"><p>Read the figures with this in mind:</p>'
        yield f"<ul>{items}</ul></section>"


def _answers(lines: Sequence[Line]) -> Iterator[str]:
    """A card for each curve: where it peaks in large, how sure, why."""
    yield '<section class="answers" aria-label="Answers">'
    for line in lines:
        best = next((point for point in line.points if point.x == line.peak.value), None)
        peak = at(line.variable, line.peak.value) if best else "no peak known"
        if best and best.measured:
            peak += f" · {rate(best.measured.throughput.value)}"
        explanation = line.document["explanation"]
        yield f'<article class="answer" style="--line: {line.colour}">'
        yield f'<h3 class="label"><span class="dot"></span>{html.escape(line.label)}</h3>'
        yield f'<p class="peak">{html.escape(peak)}</p><p class="sure">{html.escape(_sure(line))}</p>'
        text = re.sub(r"(?<=[0-9]) (?=%|µs|ms|s\b)", "\u00a0", explanation["text"])
        yield from (f"<p>{html.escape(sentence)}</p>" for sentence in re.split(r"(?<=[.]) (?=[A-Z])", text))
        rows = [(row["name"], _plain(row["value"]), row["unit"]) for row in explanation["evidence"]]
        yield _folded(f"Evidence ({len(rows)} figures)", rows, ("figure", "value", "unit"))
        yield "</article>"
    yield "</section>"


def _sure(line: Line) -> str:
    """The peak set, the law's peak and the model's error in one line."""
    parts = []
    if line.peak.members:
        parts.append(f"peak set {set_of(line.peak.members)}, 95 %")
    if line.law:
        bounds = interval(line.peak.low, line.peak.high)
        shown = f"{figure(line.peak.law_value)} {bounds}" if math.isfinite(line.peak.law_value) else "none"
        parts.append(f"peak by {_LAWS.get(line.law, line.law)}: {shown}")
    errors = [abs(error) for point in line.points if math.isfinite(error := _error(point))]
    if errors:
        parts.append(f"prediction off by {percent(median(errors))} (median)")
    return "; ".join(parts)


def _error(point: Point) -> float:
    """predicted / measured − 1 of throughput at a sound point; nan elsewhere."""
    if not point.sound or not point.measured or not point.predicted:
        return math.nan
    return point.predicted.throughput.value / point.measured.throughput.value - 1


def _figures(lines: Sequence[Line], plots: dict[str, Figure]) -> Iterator[str]:
    from harness import figures

    if not lines:
        yield "<p>The sweep holds no series.</p>"
        return
    for variable in dict.fromkeys(line.variable for line in lines):
        group = [line for line in lines if line.variable == variable]
        yield "<h2>Throughput</h2>"
        yield (
            '<p class="note">Marks: measured, with 95 % intervals over runs; hollow: broken and unused. '
            "The strip at the foot is the set of values not significantly below the highest (dark).</p>"
        )
        yield _placed(plots, f"throughput-{variable}", figures.throughput(group))
        yield "<h2>Response time</h2>"
        yield _placed(plots, f"response-{variable}", figures.response(group))
        top = figures.highest_cpu(group)
        yield "<h2>CPU that a reply costs, and whose</h2>"
        yield '<div class="panels">'
        for line in group:
            yield _placed(plots, f"cpu-{lines.index(line)}", figures.cpu([line], top), line, 360)
        yield "</div><h2>How busy each resource was</h2>"
        yield '<div class="panels">'
        for line in group:
            yield _placed(plots, f"use-{lines.index(line)}", figures.utilisation([line]), line, 360)
        yield "</div>"


def _placed(
    plots: dict[str, Figure], name: str, plot: Figure, line: Line | None = None, height: int = 440
) -> str:
    """The place of a figure; the figure itself is drawn by a script at the page's end."""
    plot.update_layout(height=height)
    plots[name] = plot
    caption = ""
    if line:
        dot = f'<span class="dot" style="--line: {line.colour}"></span>'
        caption = f"<figcaption>{dot}{html.escape(line.label)}</figcaption>"
    return f'<figure>{caption}<div id="{html.escape(name)}" style="height: {height}px"></div></figure>'


def _script(name: str, plot: Figure) -> str:
    """The call that draws a figure in its place; plotly escapes what could end the script."""
    from plotly.io import to_json

    place, config = json.dumps(name).replace("<", "\\u003c"), json.dumps(_CONFIG)
    drawn = f"(figure => Plotly.newPlot({place}, figure.data, figure.layout, {config}))({to_json(plot)});"
    return f"<script>{drawn}</script>"


_LAWS = {"usl": "USL", "amdahl": "Amdahl's law"}
_COLUMNS = (
    ("throughput", "1/s"),
    ("± 95 %", "1/s"),
    ("predicted", "1/s"),
    ("error", "%"),
    ("mean response", "ms"),
    ("predicted", "ms"),
    ("p99", "ms"),
    ("CPUs busy", "%"),
)


def _tables(lines: Sequence[Line]) -> Iterator[str]:
    if lines:
        yield "<h2>Numbers</h2>"
        yield (
            '<p class="note">● belongs to the peak set, ○ is broken. Error is predicted / measured − 1; '
            "broken configurations have none. Findings are what a configuration is there to show.</p>"
        )
    for line in lines:
        heads = [(line.variable, figure_style.UNITS.get(line.variable, "")), *_COLUMNS]
        cells = "".join(_head(name, unit) for name, unit in heads)
        rows = "".join(_row(line, point) for point in line.points)
        yield f'<div class="scroll" style="--line: {line.colour}"><table>'
        yield f'<caption><span class="dot"></span>{html.escape(line.label)}</caption>'
        yield f'<thead><tr>{cells}<th scope="col" class="words">marks and findings</th></tr></thead>'
        yield f"<tbody>{rows}</tbody></table></div>"


def _row(line: Line, point: Point) -> str:
    """One value of the variable; figures that are not known are dashes."""
    measured, predicted = point.measured or _NOTHING, point.predicted or _NOTHING
    half = (measured.throughput.high - measured.throughput.low) / 2
    figures = (
        (measured.throughput.value, 4),
        (half, 2),
        (predicted.throughput.value, 4),
        (_error(point) * 100, 2),
        (measured.response.value * 1e3, 3),
        (predicted.response.value * 1e3, 3),
        (measured.p99 * 1e3, 3),
        (measured.utilisation.get("cpu", math.nan) * 100, 3),
    )
    kinds = ["broken"] if point.broken else []
    kinds += ["member"] if point.x in line.peak.members else []
    kinds += ["best"] if point.x == line.peak.value else []
    words = [
        f"broken: {mark.check} {figure(mark.value)} (limit {figure(mark.limit)})" for mark in point.broken
    ]
    words += line.remarks.get(point.x, ())
    words += [finding(found.name, found.value, found.unit) for found in point.findings]
    texts = [figure(point.x, 6), *(figure(value, digits, padded=True) for value, digits in figures)]
    cells = "".join(f"<td>{text}</td>" for text in texts)
    remarks = f'<td class="words">{html.escape("; ".join(words))}</td>'
    return f'<tr class="{" ".join(kinds)}">{cells}{remarks}</tr>'


def _noise(noise: Mapping[str, Any] | None) -> Iterator[str]:
    """How far two measurements of the same thing were apart in this very sweep."""
    yield "<h2>How noisy the machine was</h2>"
    if not noise:
        yield '<p class="note">No configuration was measured twice, so that the noise is not known.</p>'
        return
    found = [abs(x) for x in noise.get("differences") or () if x is not None]
    if found:
        yield (
            "<p>One configuration was measured twice in each block. The two differed by "
            f"{percent(median(found))} in the median, {percent(max(found))} at most ({len(found)} pairs): "
            "single runs that differ by no more than that may well be alike.</p>"
        )
    ceiling = (noise.get("null") or {}).get("throughput", {}).get("value")
    if ceiling:
        yield f"<p>The generator reached {rate(ceiling)} with a server that does nothing.</p>"
    yield _folded("All figures on noise", _flat(noise), ("figure", "value"))


def _provenance(sweep: Mapping[str, Any]) -> Iterator[str]:
    rows = _flat({name: value for name, value in sweep.items() if name not in ("noise", "warnings")})
    yield "<h2>Where these figures come from</h2>"
    yield _folded("Provenance: machine, settings, versions", rows, ("what", "value"))


def _folded(summary: str, rows: Sequence[tuple[str, ...]], heads: Sequence[str]) -> str:
    """A table of facts behind a line to click."""
    top = "".join(_head(head, "") for head in heads)
    body = "".join(_fact(*row) for row in rows)
    table = f'<table class="facts"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    return f'<details><summary>{html.escape(summary)}</summary><div class="scroll">{table}</div></details>'


def _fact(name: str, *cells: str) -> str:
    row = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{html.escape(name)}</th>{row}</tr>'


def _head(name: str, unit: str) -> str:
    below = f"<small>{html.escape(unit)}</small>" if unit else ""
    return f'<th scope="col">{html.escape(name)}{below}</th>'


def _flat(value: Any, name: str = "") -> list[tuple[str, str]]:
    """A nested mapping as rows of dotted name and text."""
    if isinstance(value, Mapping):
        return [
            row for key, part in value.items() for row in _flat(part, f"{name}.{key}" if name else str(key))
        ]
    if isinstance(value, (list, tuple)) and any(isinstance(part, (Mapping, list)) for part in value):
        return [row for place, part in enumerate(value) for row in _flat(part, f"{name}[{place}]")]
    return [
        (
            name,
            ", ".join(_plain(part) for part in value) if isinstance(value, (list, tuple)) else _plain(value),
        )
    ]


def _plain(value: Any) -> str:
    """A value of a document as text; null is a dash."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


_NOTHING = Metrics(Estimate(math.nan), Estimate(math.nan))
