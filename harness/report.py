"""Writes a sweep as one HTML page that needs nothing else: answers, figures, tables, noise, provenance."""

from __future__ import annotations

import html
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from harness.showing import footprint, trust
from harness.showing.advice import advice
from harness.showing.lines import Line, lines_of, system_of
from harness.showing.page_tables import error, flat, folded, legend, plain, tables
from harness.showing.placing import ReportError as ReportError
from harness.showing.placing import filled, joined, placed, save
from models.wording import at, figure, interval, percent, rate, set_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

FEW = 4  # cells up to which their course over time is shown without a click
NOT_STARTED = {"target", "imported"}  # servers that run already, or ran elsewhere
QUALITY = ("noise", "stopping", "certificate", "efficiency")


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
    save(path, page(document))


def page(document: Mapping[str, Any]) -> str:
    """The page as text."""
    lines = lines_of(document)
    plots: dict[str, Figure] = {}
    body = "\n".join(
        [
            *_commands(document),
            *_warnings(document["sweep"].get("warnings") or ()),
            *_answers(lines),
            *_figures(lines, plots),
            *_over_time(lines, plots),
            *tables(lines),
            *legend(advice(document["cells"])),
            *_quality(document["sweep"]),
            *_provenance(document["sweep"]),
        ]
    )
    return filled("kneepoint sweep", question(document), _what(document), body, plots)


def question(document: Mapping[str, Any]) -> str:
    """What the sweep asks, for a title."""
    settings = [{**cell["scenario"]["options"], **cell["scenario"]} for cell in document["cells"]]
    system = " and ".join(sorted({system_of(row) for row in settings})) or "the server"
    variables = list(dict.fromkeys(row["variable"] for row in document["series"]))
    if not variables:
        return f"What does {system} do?"
    if variables == ["arrival_rate"]:
        return f"How much load can {system} take, and how fast does it answer?"
    if variables in (["workers"], ["clients"]):
        return f"Where does {system} stop scaling with {variables[0]}, and why?"
    return f"How does the throughput of {system} depend on {' and '.join(variables)}?"


def _what(document: Mapping[str, Any]) -> str:
    """One line on how much was done."""
    cells = document["cells"]
    runs = sum(len(cell["replicates"]) for cell in cells)
    broken = sum(bool(cell["broken"]) for cell in cells) or "none"
    predicted = sum(cell["predicted"] is not None for cell in cells) or "none"
    servers = {cell["scenario"]["server"] for cell in cells}
    fresh = "" if servers & NOT_STARTED else ", each on a fresh server process"
    return (
        f"{len(cells)} configurations, {runs} runs{fresh}; {broken} of the configurations broken, "
        f"{predicted} predicted before they were measured. Sweep {document['sweep']['id']}."
    )


def _commands(document: Mapping[str, Any]) -> Iterator[str]:
    """What started the servers that are not ours, in full, and where they were asked."""
    told = [cell["scenario"]["options"] for cell in document["cells"]]
    for command, target in dict.fromkeys(
        (row["command"], row["target"]) for row in told if row.get("command")
    ):
        yield f"<p>Started by <code>{html.escape(command)}</code> and asked at <code>{html.escape(target)}</code>.</p>"


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
        text = joined(explanation["text"])
        yield from (f"<p>{html.escape(sentence)}</p>" for sentence in re.split(r"(?<=[.]) (?=[A-Z])", text))
        rows = [(row["name"], plain(row["value"]), row["unit"]) for row in explanation["evidence"]]
        yield folded(f"Evidence ({len(rows)} figures)", rows, ("figure", "value", "unit"))
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
    errors = [abs(found) for point in line.points if math.isfinite(found := error(point))]
    if errors:
        parts.append(f"prediction off by {percent(median(errors))} (median)")
    return "; ".join(parts)


def _figures(lines: Sequence[Line], plots: dict[str, Figure]) -> Iterator[str]:
    from harness import figures
    from harness.showing import mechanisms

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
        yield placed(plots, f"throughput-{variable}", figures.throughput(group), height=440)
        yield "<h2>Response time</h2>"
        yield placed(plots, f"response-{variable}", figures.response(group), height=440)
        top = figures.highest_cpu(group)
        known = [line for line in group if figures.knows_cpu(line)]
        yield "<h2>CPU that a reply costs, and whose</h2>"
        yield from _panels(plots, lines, known, "cpu", partial(figures.cpu, top=top))
        known = [line for line in group if figures.knows_use(line)]
        yield "<h2>How busy each resource was</h2>"
        yield from _panels(plots, lines, known, "use", figures.utilisation)
        if mechanisms.knows_mechanisms(group):
            yield "<h2>What a reply takes, measured and predicted</h2>"
            yield (
                '<p class="note">A model that has the throughput right and these wrong is right by accident. '
                "Solid: measured; dashed: predicted.</p>"
            )
            yield placed(plots, f"mechanisms-{variable}", mechanisms.mechanisms(group), height=380)


def _panels(
    plots: dict[str, Figure],
    lines: Sequence[Line],
    known: Sequence[Line],
    name: str,
    draw: Callable[[Sequence[Line]], Figure],
) -> Iterator[str]:
    """A figure for each curve of which something is known."""
    if not known:
        yield '<p class="note">Not known: nobody looked at the processor time while this was measured.</p>'
        return
    yield '<div class="panels">'
    for line in known:
        yield placed(plots, f"{name}-{lines.index(line)}", draw([line]), _caption(line), 360)
    yield "</div>"


def _caption(line: Line) -> str:
    return f'<span class="dot" style="--line: {line.colour}"></span>{html.escape(line.label)}'


def _over_time(lines: Sequence[Line], plots: dict[str, Figure]) -> Iterator[str]:
    """What the server's processes did over time and took over the variable; nothing where they were not sampled."""
    from harness.showing import time_figures

    sampled = [line for line in lines if line.samples]
    if not sampled:
        return
    for variable in dict.fromkeys(line.variable for line in sampled):
        group = [line for line in sampled if line.variable == variable]
        cells = sum(len(line.samples) for line in group)
        yield "<h2>Memory, threads and descriptors of the server</h2>"
        yield '<div class="panels three">'
        for panel in range(len(time_figures.TAKEN)):
            plot = time_figures.taken(group, panel)
            yield placed(plots, f"taken-{variable}-{panel}", plot, height=340)
        yield "</div>"
        for line in group:
            items = "".join(f"<li>{html.escape(joined(text))}</li>" for text in footprint.sentences(line))
            if items:
                label = f", {html.escape(line.label)}" if len(group) > 1 else ""
                yield f"<p>What it takes, medians over the window{label}:</p><ul>{items}</ul>"
        yield "<h2>Over time</h2>"
        yield (
            '<p class="note">The server\'s processes and the load within the measuring window, medians over the runs '
            "of one configuration; the box at the top left chooses which.</p>"
        )
        drawn = placed(plots, f"time-{variable}", time_figures.over_time(group), height=time_figures.HEIGHT)
        shut = f"<details><summary>Show {cells} configurations over time</summary>{drawn}</details>"
        yield shut if cells > FEW else drawn


_LAWS = {"usl": "USL", "amdahl": "Amdahl's law"}


def _quality(sweep: Mapping[str, Any]) -> Iterator[str]:
    """Noise, stopping, the generator's certificate, and what share of the time was measured."""
    yield "<h2>How far these figures can be trusted</h2>"
    items = (f"<li>{html.escape(joined(text))}</li>" for text in trust.sentences(sweep))
    yield f"<ul>{''.join(items)}</ul>"
    parts = {name: sweep[name] for name in QUALITY if sweep.get(name)}
    if parts:
        yield folded("All figures on quality", flat(parts), ("figure", "value"))


def _provenance(sweep: Mapping[str, Any]) -> Iterator[str]:
    rows = flat({name: value for name, value in sweep.items() if name not in (*QUALITY, "warnings")})
    yield "<h2>Where these figures come from</h2>"
    yield folded("Provenance: machine, settings, versions", rows, ("what", "value"))
