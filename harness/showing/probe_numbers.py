"""The numbers of a probe run's page: all results by primitive, and what round trips are made of."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence

from harness.showing.page_tables import facts, folded, head, plain
from harness.showing.probe_words import KINDS, POSITIONS, Row, bounds, form, rejected, settings, time, told
from models.wording import figure, percent

_HEADS = {
    "form": "",
    "ends": "",
    "position": "",
    "pairs": "",
    "cores": "",
    "size": "bytes",
    "median": "a unit",
    "95 %": "of the median",
    "p99": "a unit",
    "settings, flags": "",
    "subtracted": "a unit",
    "switches": "a unit and end",
    "samples": "",
    "launches": "",
    "notes": "",
}
_SAME = ("pairs", "size", "launches")  # said once where all have the same
_WORDS = {"settings, flags", "notes"}


def table(rows: Sequence[Row], about: Mapping[str, str]) -> Iterator[str]:
    """All results by primitive, and what their flags mean."""
    yield "<h2>Numbers</h2>"
    shown = _shown(rows)
    heads = "".join(head(column, _HEADS[column]) for column in shown)
    yield '<div class="scroll"><table class="results">'
    yield f"<thead><tr>{heads}</tr></thead>"
    for probe, unit in dict.fromkeys((row["probe"], row["unit_of_work"]) for row in rows):
        title = f"{html.escape(probe)} <small>a unit is: {html.escape(unit)}</small>"
        yield f'<tbody><tr class="group"><th scope="rowgroup" colspan="{len(shown)}">{title}</th></tr>'
        yield from (_row(row, shown) for row in rows if (row["probe"], row["unit_of_work"]) == (probe, unit))
        yield "</tbody>"
    yield "</table></div>"
    same = [f"{key}: {_texts(rows[0])[key]}" for key in _SAME if rows and key not in shown]
    if same:
        yield f'<p class="note">For all of these: {html.escape(", ".join(same))}.</p>'
    seen = list(dict.fromkeys(flag for row in rows for flag in row["flags"]))
    if seen:
        yield facts([(flag, about.get(flag, "–")) for flag in seen], ("flag", "what it means"))


def _shown(rows: Sequence[Row]) -> list[str]:
    """The columns that tell rows apart, and those that always stand there."""
    bare = {key for key in _SAME if len({_texts(row)[key] for row in rows}) < 2}
    bare |= set() if any(row["position"] == "free" for row in rows) else {"cores"}
    bare |= set() if any(row["notes"] for row in rows) else {"notes"}
    return [column for column in _HEADS if column not in bare]


def _row(row: Row, shown: Sequence[str]) -> str:
    struck = {"median", "95 %", "p99"} if rejected(row) else set()
    cells = _texts(row)
    body = "".join(
        f"<td{' class=words' if column in _WORDS else ''}>"
        + (f"<s>{html.escape(cells[column])}</s>" if column in struck else html.escape(cells[column]))
        + "</td>"
        for column in shown
    )
    return f'<tr class="{"rejected" if rejected(row) else ""}">{body}</tr>'


def _texts(row: Row) -> dict[str, str]:
    """A row's cells by column."""
    settled = [f"{knob} = {value}" for knob, value in settings(row).items()]
    return {
        "form": form(row),
        "ends": KINDS[row["kind"]],
        "position": POSITIONS[row["position"]],
        **{key: figure(row[key], 9) for key in ("pairs", "cores", "size", "samples")},
        "median": time(row["median_ns"]),
        "95 %": bounds(row),
        "p99": time(row["p99_ns"]),
        "settings, flags": "; ".join([*settled, " ".join(row["flags"])]).strip("; "),
        "subtracted": time(row["overhead_ns"]),
        "switches": _count(row["switches"]),
        "launches": _launches(row),
        "notes": "; ".join(f"{key} {plain(value)}" for key, value in row["notes"].items()),
    }


def _launches(row: Row) -> str:
    """How many count; of how many, where some met a slower machine."""
    count, left_out = len(row["launches"]), row.get("left_out", 0)
    return f"{count} of {count + left_out}" if left_out else figure(count, 9)


def _count(value: float | None) -> str:
    """A mean count; one that hardly ever happened is not written in many digits."""
    if value is None:
        return "–"
    return "< 0.001" if 0 < value < 0.001 else figure(value)


def made_of(rows: Sequence[Row]) -> Iterator[str]:
    """The parts as figures, behind a line to click."""
    split = [
        (
            told(row, rows),
            part["part"],
            time(part["ns"]),
            f"{time(part['low_ns'])} – {time(part['high_ns'])}",
            percent(part["ns"] / row["median_ns"] if part["ns"] is not None else math.nan),
        )
        for row in rows
        for part in (row["parts"] or ())
        if row["median_ns"]
    ]
    if split:
        yield folded("What each round trip is made of", split, ("of", "part", "time", "95 %", "share"))
