"""A probe run's document as text: a row for each result, then what is absent, refused, and what the flags mean."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.probing.judging import REJECTED
from harness.probing.points import FREE
from harness.table import lines
from models.wording import change, percent, seconds

WIDTH = 110
FAR = 100  # times, by which the ends of an interval differ so much that each has a unit of its own
SHIFT = 0.05  # of the machine's speed that is worth a word

Row = Mapping[str, Any]


def text(document: Mapping[str, Any]) -> str:
    """The whole result of a run."""
    parts = [
        list(_results(document["results"])),
        list(_parts(document["results"])),
        list(_missing(document)),
        [_filled(f"{name}: {says}") for name, says in document["legend"].items()],
        list(_method(document)),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _results(results: Sequence[Row]) -> Iterator[str]:
    if not results:
        return
    extra = ["cores"] if any(row["position"] == FREE for row in results) else []
    extra += ["size"] if len({row["size"] for row in results} - {0}) > 1 else []
    options = list(dict.fromkeys(name for row in results for name in row["options"]))
    heads = (
        "probe",
        "variant",
        "kind",
        "position",
        "pairs",
        *extra,
        *options,
        "median",
        "95 %",
        "p99",
        "unit",
        "flags",
    )
    rows, last = [], None
    for row in results:
        figures = (_struck(row), _between(row), seconds(row["p99_ns"] * 1e-9), row["unit_of_work"])
        swept = (str(row["pairs"]), *(str(row[name]) for name in extra))
        chosen = (row["options"].get(name, "") for name in options)
        name = row["probe"] if row["probe"] != last else ""
        last = row["probe"]
        shown = " ".join(flag for flag in row["flags"] if flag != REJECTED)
        rows.append((name, row["variant"], row["kind"], row["position"], *swept, *chosen, *figures, shown))
    yield from lines(rows, heads, words=2)


def _struck(row: Row) -> str:
    """The median; that of a rejected row is shown as such."""
    said = seconds(row["median_ns"] * 1e-9)
    return f"REJECTED {said}" if REJECTED in row["flags"] else said


def _between(row: Row) -> str:
    if row["low_ns"] is None:
        return "–"
    low, high = row["low_ns"] * 1e-9, row["high_ns"] * 1e-9
    if high > FAR * low:
        return f"[{seconds(low)}, {seconds(high)}]"
    figures, unit = change(low, high).rsplit(" ", 1)
    return f"[{figures.replace(' → ', ', ')}] {unit}"


def _parts(results: Sequence[Row]) -> Iterator[str]:
    """Where the time of the round trips goes, as far as it can be told."""
    split = [row for row in results if row["parts"]]
    names = list(dict.fromkeys(part["part"] for row in split for part in row["parts"]))
    rows = []
    for row in split:
        known = {part["part"]: part for part in row["parts"]}
        cells = (_part(known[name]) if name in known else "–" for name in names)
        rows.append(
            (
                row["probe"],
                row["variant"],
                row["kind"],
                row["position"],
                str(row["size"]),
                _struck(row),
                *cells,
            )
        )
    if rows:
        yield from lines(rows, ("round trip", "variant", "kind", "position", "size", "median", *names))


def _part(part: Mapping[str, Any]) -> str:
    """A part and half of its interval."""
    value = part["ns"] * 1e-9
    if part["low_ns"] is None:
        return seconds(value)
    half = (part["high_ns"] - part["low_ns"]) / 2 * 1e-9
    return change(value, half).replace(" → ", " ± ") if max(abs(value), half) >= 5e-10 else "0"


def _missing(document: Mapping[str, Any]) -> Iterator[str]:
    for name, place in document["positions"].items():
        if "absent" in place:
            yield f"{name}: absent, {place['absent']}"
    alike: dict[tuple[str, str], list[Row]] = {}
    for row in document["refused"]:
        alike.setdefault((row["probe"], row["why"]), []).append(row)
    for (probe, why), rows in alike.items():
        forms = dict.fromkeys(
            " ".join(filter(None, (row["variant"], row["kind"], row["position"]))) for row in rows
        )
        yield _filled(f"{probe} ({', '.join(forms)}): {why}")


def _method(document: Mapping[str, Any]) -> Iterator[str]:
    several = (
        f"median of {document['reps']} launches of each" if document["reps"] > 1 else "one launch of each"
    )
    launches = f"{several}, in random order"
    yield f"{launches}; {seconds(document['seconds'])} in all; the clock's cost is subtracted"
    if abs(document["yardstick_shift"]) > SHIFT:
        yield f"the machine's speed shifted by {percent(document['yardstick_shift'])} meanwhile (arithmetic)"
    if not document["complete"]:
        yield "interrupted: some points have fewer launches, or none"


def _filled(line: str) -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent="  ")
