"""Writes a probe run as one HTML page that needs nothing else: heat map, where the time goes, curves, tables, method."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.showing import probe_figures, probe_heat, probe_numbers
from harness.showing.page_tables import facts, flat, folded
from harness.showing.placing import filled, joined, placed, save
from harness.showing.probe_words import (
    KINDS,
    POSITIONS,
    REJECTED,
    Row,
    dimensions,
    meanings,
    name,
    plainest,
    rejected,
    time,
    told,
)
from models.wording import listed, percent, seconds

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Samples = Mapping[str, NDArray[np.float64]]

WIDTH = 1200  # px of the picture
TOP, BAND, CAPTION = 200, 110, 45  # px that the page's head, a figure's heading and a panel's take at most
MOST = 60  # distributions in a page
MOST_NAMED = 6  # results that a warning names
SHIFT = 0.03  # of the yardstick over the run, from which it is said
NOTED = (REJECTED, "two_humped", "unstable")  # flags with which a distribution is shown without a click


def write(document: Mapping[str, Any], samples: Samples | None, path: str | os.PathLike[str]) -> None:
    """Writes the page of a probe run; a page that was there is replaced at once or not at all.

    Parameters
    ----------
    document : mapping
        As `probe --json` prints it.
    samples : mapping of str to array, optional
        ns for a unit, by the place of their result in the document's `results`, as a string.
    path : path
        Of the page. Opened as PATH#picture it shows the part that makes a picture, of the size in its head.

    Raises
    ------
    ReportError
        When the file cannot be written.
    """
    save(path, page(document, samples))


def page(document: Mapping[str, Any], samples: Samples | None = None) -> str:
    """The page as text."""
    plots: dict[str, Figure] = {}
    rows = document["results"]
    picture = [*_picture(document, plots), *_curves(rows, plots)]
    size = f'<meta name="picture" content="{WIDTH}x{_tall(plots)}">\n'
    body = [
        *_warnings(document),
        '<section class="picture">',
        *picture,
        "</section>",
        *_distributions(rows, samples or {}, plots),
        *probe_numbers.table(rows, meanings(document)),
        *probe_numbers.made_of(rows),
        *_missing(document),
        *_method(document),
    ]
    return filled("kneepoint probe", _question(rows), _what(document), "\n".join(body), plots, size)


def _tall(plots: Mapping[str, Figure]) -> int:
    """Height of the picture, px, rather too much than too little: its figures stand below each other, panels in pairs."""
    groups: dict[str, list[int]] = {}
    for place, plot in plots.items():
        groups.setdefault(place.partition("-")[0], []).append(plot.layout.height + CAPTION)
    pairs = (max(group[first : first + 2]) for group in groups.values() for first in range(0, len(group), 2))
    return int(TOP + BAND * len(groups) + sum(pairs))


def _question(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row["probe"] for row in rows))
    if 0 < len(names) < 4:
        return f"What does {listed(names)} cost on this machine?"
    return "What do this machine's primitives cost?"


def _what(document: Mapping[str, Any]) -> str:
    """One line on how much was done."""
    rows = document["results"]
    launches = sum(len(row["launches"]) for row in rows)
    names = len({row["probe"] for row in rows})
    return (
        f"{len(rows)} results of {names} primitive{'s' if names != 1 else ''}, {launches} launches in fresh processes, "
        f"{seconds(document['seconds'])}; {sum(map(rejected, rows)) or 'none'} rejected, "
        f"{len(document['refused']) or 'none'} refused."
    )


def _warnings(document: Mapping[str, Any]) -> Iterator[str]:
    """What to know before reading: an unfinished run, a machine that changed, results that are no good."""
    found = (
        [] if document.get("complete", True) else ["The run was interrupted: what it had finished is here."]
    )
    shift = document.get("yardstick_shift") or 0.0
    if abs(shift) > SHIFT:
        found.append(
            f"A fixed piece of arithmetic took {percent(shift)} longer after the run than before it."
        )
    for flag in NOTED:
        rows = [row for row in document["results"] if flag in row["flags"]]
        if rows:
            named = "; ".join(told(row, document["results"]) for row in rows[:MOST_NAMED])
            more = f"; and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
            found.append(f"{_words(flag)} ({meanings(document).get(flag, flag)}): {named}{more}.")
    if found:
        items = "".join(f"<li>{html.escape(text)}</li>" for text in found)
        yield '<section class="warnings" aria-label="Warnings"><p>Read the figures with this in mind:</p>'
        yield f"<ul>{items}</ul></section>"


def _words(flag: str) -> str:
    return flag.replace("_", " ").capitalize()


def _picture(document: Mapping[str, Any], plots: dict[str, Figure]) -> Iterator[str]:
    """What is read first: what things cost by position, and what that is made of."""
    rows = document["results"]
    yield f"<p><code>{html.escape(document['command'] or '')}</code></p>"
    places = [place for place in POSITIONS if place != "alone" and _has_column(document, place)]
    if any(row["position"] != "alone" for row in rows):
        yield "<h2>What it costs to talk, by where the ends run</h2>"
        yield (
            '<p class="note">Median of a unit of work, which stands beside each name: a round trip goes there and '
            "back. A star: flagged, see the table. Grey: this machine lacks the position, or there is no figure.</p>"
        )
        yield placed(plots, "positions", probe_heat.heat(document, places))
    if any(row["position"] == "alone" and (row["median_ns"] or 0) > 0 for row in rows):
        yield "<h2>What one end alone costs</h2>"
        yield placed(plots, "alone", probe_figures.alone(plainest(rows)))
    if not rows:
        yield "<p>Nothing was measured.</p>"
    yield from _overhead(plainest(rows), plots)


def _has_column(document: Mapping[str, Any], position: str) -> bool:
    return position in document["positions"] or any(
        row["position"] == position for row in document["results"]
    )


def _overhead(rows: Sequence[Row], plots: dict[str, Figure]) -> Iterator[str]:
    split = [row for row in rows if row["parts"] and row["median_ns"] and not rejected(row)]
    if not split:
        return
    yield "<h2>Where the overhead comes from</h2>"
    yield (
        '<p class="note">Each round trip split, with 95 % intervals. System calls: the same calls by one end that never '
        "waits. Residual: what the other parts leave; left of 0 they add up to more than the whole.</p>"
    )
    yield '<div class="panels">'
    for position, words in POSITIONS.items():
        here = [row for row in split if row["position"] == position]
        if here:
            yield placed(plots, f"parts-{position}", probe_figures.parts(here), html.escape(words))
    yield "</div>"


def _curves(rows: Sequence[Row], plots: dict[str, Figure]) -> Iterator[str]:
    for dimension, found in dimensions(rows).items():
        yield f"<h2>Over {html.escape(dimension)}</h2>"
        yield (
            '<p class="note">Medians with 95 % intervals over fresh launches; hollow: rejected and unused.</p>'
        )
        yield '<div class="panels">'
        for probe, unit in dict.fromkeys((curve[0]["probe"], curve[0]["unit_of_work"]) for curve in found):
            group = [c for c in found if (c[0]["probe"], c[0]["unit_of_work"]) == (probe, unit)]
            drawn = probe_figures.curves(dimension, group)
            yield placed(plots, f"{dimension}-{probe}-{unit}", drawn, html.escape(f"{probe}: {unit}"))
        yield "</div>"


def _distributions(rows: Sequence[Row], samples: Samples, plots: dict[str, Figure]) -> Iterator[str]:
    """How samples are spread: of flagged results at once, of the others behind a line to click."""
    known = [(place, row) for place, row in enumerate(rows) if len(samples.get(str(place), ())) > 1]
    flagged = [item for item in known if set(item[1]["flags"]) & set(NOTED)]
    others = [item for item in known if item not in flagged]
    if not known:
        return
    yield "<h2>How the samples are spread</h2>"
    yield (
        '<p class="note">Share of the samples by time; dashed: the median, ticks at the foot: the median of each launch. '
        f"The slowest {percent(1 - probe_figures.TAIL)} lie beyond the right edge.</p>"
    )
    yield from _spread(flagged, rows, samples, plots)
    if others:
        shown = others[: max(MOST - len(flagged), 0)]
        rest = f", the first {len(shown)}" if len(shown) < len(others) else ""
        yield f"<details><summary>{len(others)} results without such flags{rest}</summary>"
        yield from _spread(shown, rows, samples, plots)
        yield "</details>"


def _spread(
    items: Sequence[tuple[int, Row]], rows: Sequence[Row], samples: Samples, plots: dict[str, Figure]
) -> Iterator[str]:
    yield '<div class="panels three">'
    for place, row in items:
        flags = f' <span class="note">{html.escape(" ".join(row["flags"]))}</span>' if row["flags"] else ""
        drawn = probe_figures.distribution(row, samples[str(place)])
        yield placed(plots, f"spread-{place}", drawn, html.escape(told(row, rows)) + flags)
    yield "</div>"


def _missing(document: Mapping[str, Any]) -> Iterator[str]:
    """Positions that the machine lacks and what was not measured, each with its reason."""
    absent = [
        (POSITIONS.get(place, place), about["absent"])
        for place, about in document["positions"].items()
        if "absent" in about
    ]
    refused: dict[tuple[str, str], list[Row]] = {}
    for row in document["refused"]:
        refused.setdefault((name(row), row["why"]), []).append(row)
    if absent or refused:
        yield "<h2>What was not measured, and why</h2>"
    if absent:
        yield facts(absent, ("position that this machine lacks", "why"))
    if refused:
        rows = [(what, *_places(found), why) for (what, why), found in refused.items()]
        yield facts(rows, ("refused", "ends", "position", "why"))


def _places(rows: Sequence[Row]) -> tuple[str, str]:
    """Kinds and positions of rows, each once."""
    kinds = dict.fromkeys(KINDS[row["kind"]] for row in rows)
    return ", ".join(kinds), ", ".join(dict.fromkeys(POSITIONS[row["position"]] for row in rows))


def _method(document: Mapping[str, Any]) -> Iterator[str]:
    rows = document["results"]
    yield "<h2>How these figures were made</h2>"
    spent = [row["overhead_ns"] for row in rows if row["overhead_ns"] is not None]
    texts = [
        "Each figure is the median over launches of the median of a launch, and each launch is made of fresh processes. "
        "All points were visited in random order once before any was visited again, so that a drift of the machine spreads "
        "over all of them. The intervals are those of the median over launches.",
        "Launches in which a yardstick of arithmetic and system calls took over 5 % longer than usual do not count while "
        "three others remain: the table then says 5 of 6.",
        "Both ends are bound to their CPUs before they touch what they share, which lies on fresh pages of each pair; "
        "all are released together, and only samples while all pairs were measuring are kept.",
        "Times are integer nanoseconds of a monotonic clock. What reading it and the loop around it cost is measured and "
        "subtracted"
        + (f", {time(min(spent))} to {time(max(spent))} a unit here" if spent else "")
        + "; where one unit takes less than the clock would allow, a sample is the mean of a batch.",
        "A result whose context switches, processors or messages show that it did not do what its name says is rejected.",
    ]
    yield from (f"<p>{html.escape(joined(text))}</p>" for text in texts)
    where = [
        (POSITIONS.get(place, place), f"CPU {listed([str(cpu) for cpu in about['cpus']])}")
        for place, about in document["positions"].items()
        if "cpus" in about
    ]
    if where:
        yield facts(where, ("position", "measured on"))
    rest = {key: document[key] for key in document if key not in ("results", "refused", "positions")}
    yield folded("Machine, command, versions", flat(rest), ("what", "value"))
