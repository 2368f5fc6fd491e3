"""The tables of a sweep's page: one for each curve, what its marks mean, and facts behind a line to click."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.showing import figure_style
from harness.showing.advice import Advice, mark_text
from harness.showing.lines import Line
from models.metrics import Estimate, Finding, Mark, Metrics
from models.series import Point
from models.wording import figure, finding, named

_EVER, _PREDICTED, _OPEN = "ever", "predicted", "open"  # which lines have a column
_COLUMNS = (  # name, unit, which lines have it, digits
    ("throughput", "1/s", _EVER, 4),
    ("± 95 %", "1/s", _EVER, 2),
    ("predicted", "1/s", _PREDICTED, 4),
    ("error", "%", _PREDICTED, 2),
    ("mean response", "ms", _EVER, 3),
    ("predicted", "ms", _PREDICTED, 3),
    ("p99", "ms", _EVER, 3),
    ("p99 service", "ms", _OPEN, 3),
    ("backlog", "arrivals", _OPEN, 3),
    ("CPUs busy", "%", _EVER, 3),
)


def tables(lines: Sequence[Line]) -> Iterator[str]:
    """A table of all cells for each curve."""
    if lines:
        yield "<h2>Numbers</h2>"
        yield (
            '<p class="note">● belongs to the peak set, ○ is broken. Error is predicted / measured − 1; '
            "broken configurations have none. Findings are what a configuration is there to show.</p>"
        )
    for line in lines:
        shown = _shown(line)
        columns = [(name, unit) for name, unit, which, _ in _COLUMNS if which in shown]
        heads = [(line.variable, figure_style.UNITS.get(line.variable, "")), *columns]
        cells = "".join(head(name, unit) for name, unit in heads)
        shared = _shared(line)
        rows = "".join(_row(line, point, shown, shared) for point in line.points)
        yield f'<div class="scroll" style="--line: {line.colour}"><table>'
        yield f'<caption><span class="dot"></span>{html.escape(line.label)}</caption>'
        yield f'<thead><tr>{cells}<th scope="col" class="words">marks and findings</th></tr></thead>'
        yield f"<tbody>{rows}</tbody></table></div>"
        yield from (f'<p class="note">For all of these: {html.escape(text)}.</p>' for text in sorted(shared))


def _shown(line: Line) -> frozenset[str]:
    """Which columns say something of a line."""
    opened = any(point.measured.service_time for point in line.points if point.measured)
    predicted = any(point.predicted for point in line.points)
    return frozenset({_EVER} | ({_OPEN} if opened else set()) | ({_PREDICTED} if predicted else set()))


def _shared(line: Line) -> frozenset[str]:
    """Remarks that every value has, such as why nothing is predicted: they are said once, below the table."""
    remarks = [frozenset(line.remarks.get(point.x, ())) for point in line.points]
    return frozenset.intersection(*remarks) if len(remarks) > 1 else frozenset()


def error(point: Point) -> float:
    """predicted / measured − 1 of throughput at a sound point; nan elsewhere."""
    if not point.sound or not point.measured or not point.predicted:
        return math.nan
    return point.predicted.throughput.value / point.measured.throughput.value - 1


def _row(line: Line, point: Point, shown: frozenset[str], shared: frozenset[str]) -> str:
    """One value of the variable; figures that are not known are dashes."""
    measured, predicted = point.measured or _NOTHING, point.predicted or _NOTHING
    half = (measured.throughput.high - measured.throughput.low) / 2
    service = (measured.service_time or {}).get("p99", math.nan)
    figures = (
        measured.throughput.value,
        half,
        predicted.throughput.value,
        error(point) * 100,
        measured.response.value * 1e3,
        predicted.response.value * 1e3,
        measured.p99 * 1e3,
        service * 1e3,
        measured.counters.get("backlog", math.nan),
        measured.utilisation.get("cpu", math.nan) * 100,
    )
    kinds = ["broken"] if point.broken else []
    kinds += ["member"] if point.x in line.peak.members else []
    kinds += ["best"] if point.x == line.peak.value else []
    words = [_hinted(f"broken: {mark_text(mark)}", mark) for mark in point.broken]
    words += [html.escape(remark) for remark in line.remarks.get(point.x, ()) if remark not in shared]
    words += [_hinted(finding(found.name, found.value, found.unit), found) for found in point.findings]
    texts = [figure(point.x, 6)]
    for value, (_, _, which, digits) in zip(figures, _COLUMNS, strict=True):
        texts += [figure(value, digits, padded=True)] if which in shown else []
    cells = "".join(f"<td>{text}</td>" for text in texts)
    return f'<tr class="{" ".join(kinds)}">{cells}<td class="words">{"; ".join(words)}</td></tr>'


def _hinted(text: str, about: Mark | Finding) -> str:
    """Words that tell more under the pointer, where there is more to tell."""
    hint = "; ".join(part for part in (about.says, about.todo) if part)
    if not hint:
        return html.escape(text)
    return f'<span class="hint" title="{html.escape(hint)}">{html.escape(text)}</span>'


def legend(found: Sequence[Advice]) -> Iterator[str]:
    """What the marks and findings that occur mean, and what to do."""
    rows = [
        (
            named(item.name),
            "breaks the cell" if item.broken else "finding",
            item.limit_text,
            str(item.cells),
            item.says,
            item.todo,
        )
        for item in found
    ]
    if rows:
        yield "<h3>What the marks mean, and what to do</h3>"
        yield facts(rows, ("mark", "kind", "limit", "cells", "meaning", "what to do"), "facts marks")


def folded(summary: str, rows: Sequence[tuple[str, ...]], heads: Sequence[str]) -> str:
    """A table of facts behind a line to click."""
    return f"<details><summary>{html.escape(summary)}</summary>{facts(rows, heads)}</details>"


def facts(rows: Sequence[tuple[str, ...]], heads: Sequence[str], kind: str = "facts") -> str:
    """A table of words."""
    top = "".join(head(text, "") for text in heads)
    body = "".join(_fact(*row) for row in rows)
    table = f'<table class="{kind}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def _fact(name: str, *cells: str) -> str:
    row = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{html.escape(name)}</th>{row}</tr>'


def head(name: str, unit: str) -> str:
    """A column's head with its unit below."""
    below = f"<small>{html.escape(unit)}</small>" if unit else ""
    return f'<th scope="col">{html.escape(name)}{below}</th>'


def flat(value: Any, name: str = "") -> list[tuple[str, str]]:
    """A nested mapping as rows of dotted name and text."""
    if isinstance(value, Mapping):
        return [
            row for key, part in value.items() for row in flat(part, f"{name}.{key}" if name else str(key))
        ]
    if isinstance(value, (list, tuple)) and any(isinstance(part, (Mapping, list)) for part in value):
        return [row for place, part in enumerate(value) for row in flat(part, f"{name}[{place}]")]
    return [
        (
            name,
            ", ".join(plain(part) for part in value) if isinstance(value, (list, tuple)) else plain(value),
        )
    ]


def plain(value: Any) -> str:
    """A value of a document as text; null is a dash."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


_NOTHING = Metrics(Estimate(math.nan), Estimate(math.nan))
