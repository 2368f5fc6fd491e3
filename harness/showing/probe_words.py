"""How a probe's results are named and which of them stand for the others, in tables and figures alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from models.wording import seconds

Row = Mapping[str, Any]

POSITIONS = {
    "same_cpu": "same CPU",
    "smt": "SMT sibling",
    "l2": "shared L2",
    "l3": "shared L3",
    "socket": "same socket",
    "numa": "other node",
    "free": "free",
    "alone": "alone",
}
KINDS = {"process": "processes", "thread": "threads"}
PLAIN = "pingpong"  # the variant that a probe's name alone stands for
REJECTED = "rejected"


def meanings(document: Mapping[str, Any]) -> dict[str, str]:
    """What the flags of a document's results mean, by flag."""
    about = {REJECTED: "it did not do what its name says: the figure is struck out and must not be used"}
    return about | dict(document.get("legend") or {})


def name(row: Row) -> str:
    """A primitive: pipe; signal · handler."""
    return row["probe"] if row["variant"] in ("", PLAIN) else f"{row['probe']} · {row['variant']}"


def time(ns: float | None) -> str:
    """Nanoseconds in the unit that suits their size; a dash where they are not known."""
    return "–" if ns is None else seconds(ns * 1e-9)


def bounds(row: Row) -> str:
    """The interval of a row's median, both ends with their units."""
    low, high = row["low_ns"], row["high_ns"]
    return "–" if low is None or high is None else f"{time(low)} – {time(high)}"


def rejected(row: Row) -> bool:
    """Whether its figure must not be used."""
    return REJECTED in row["flags"]


def settings(row: Row) -> dict[str, Any]:
    """A row's knobs beside its variant."""
    return {knob: value for knob, value in row["options"].items() if knob != "variant"}


def told(row: Row, rows: Sequence[Row]) -> str:
    """What tells a row from the others, in words."""
    parts = [name(row), KINDS[row["kind"]], POSITIONS[row["position"]]]
    if len({other["pairs"] for other in rows}) > 1:
        parts.append(f"{row['pairs']} pair{'s' if row['pairs'] != 1 else ''}")
    parts += [f"{row['cores']} cores"] if row["position"] == "free" else []
    parts += [f"{row['size']} bytes"] if len({other["size"] for other in rows}) > 1 else []
    return ", ".join([*parts, *(f"{knob} = {value}" for knob, value in settings(row).items())])


def form(row: Row) -> str:
    """A primitive's variant; a dash where it comes in one form."""
    return "ping-pong" if row["variant"] == PLAIN else row["variant"] or "–"


def plainest(rows: Iterable[Row]) -> list[Row]:
    """One row of each primitive, kind and position: that with the fewest pairs, the least message, the most cores."""
    found: dict[tuple[str, ...], Row] = {}
    for row in rows:
        key = (row["probe"], row["variant"], row["kind"], row["position"])
        if key not in found or _size(row) < _size(found[key]):
            found[key] = row
    return list(found.values())


def _size(row: Row) -> tuple[int, int, int]:
    return row["pairs"], row["size"], -row["cores"]


def dimensions(rows: Sequence[Row]) -> dict[str, list[list[Row]]]:
    """What was swept: for pairs, cores, size or a knob, the curves over it, each of rows that differ in nothing else.

    Cores belong to a position that binds: they are a dimension of their own only where the scheduler was free.
    """
    names = ["pairs", "cores", "size", *dict.fromkeys(knob for row in rows for knob in settings(row))]
    found: dict[str, list[list[Row]]] = {}
    for dimension in names:
        curves: dict[tuple[Any, ...], dict[Any, Row]] = {}
        for row in rows:
            if dimension == "cores" and row["position"] != "free":
                continue
            if (x := at(row, dimension)) is not None:
                curves.setdefault(_rest(row, dimension), {})[x] = row
        many = [list(curve.values()) for curve in curves.values() if len(curve) > 1]
        if many:
            found[dimension] = [sorted(curve, key=lambda row: order(at(row, dimension))) for curve in many]
    return found


def at(row: Row, dimension: str) -> Any:
    """A row's value of a dimension; None where it does not have it."""
    return row[dimension] if dimension in ("pairs", "cores", "size") else settings(row).get(dimension)


def order(value: Any) -> tuple[float, str]:
    """Numbers by size, words after them."""
    try:
        return float(value), ""
    except (TypeError, ValueError):
        return math.inf, str(value)


def _rest(row: Row, dimension: str) -> tuple[Any, ...]:
    fixed = {
        **{key: row[key] for key in ("probe", "variant", "kind", "position", "pairs", "size")},
        "cores": row["cores"] if row["position"] == "free" else None,
        **settings(row),
    }
    fixed.pop(dimension, None)
    return tuple(sorted((key, str(value)) for key, value in fixed.items()))
