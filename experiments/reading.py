"""How experiments read a sweep's document: curves, peaks and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CONFIRMED, CONTRADICTED, UNDECIDED = "confirmed", "contradicted", "cannot be said on this machine"

Curve = dict[float, tuple[float, float, float]]


def curve(document: Mapping[str, Any], **fixed: object) -> Curve:
    """The measured throughput (value, low, high), 1/s, by the axis's value, of the cells with these settings.

    Cells that were not measured or are broken are left out.
    """
    found: Curve = {}
    for cell in document["cells"]:
        options = cell["scenario"]["options"]
        if cell["measured"] is None or cell["broken"] or any(options.get(k) != v for k, v in fixed.items()):
            continue
        rate = cell["measured"]["throughput"]
        low, high = (rate["value"] if rate[bound] is None else rate[bound] for bound in ("low", "high"))
        found[float(cell["value"])] = (rate["value"], low, high)
    return dict(sorted(found.items()))


def series(document: Mapping[str, Any], **fixed: object) -> Mapping[str, Any] | None:
    """The first series with these settings."""
    for one in document["series"]:
        if all(one["fixed"].get(name) == value for name, value in fixed.items()):
            return one  # type: ignore[no-any-return]
    return None


def above(first: tuple[float, float, float], second: tuple[float, float, float]) -> str:
    """Whether the first is above the second, judged by their intervals."""
    if first[1] > second[2]:
        return CONFIRMED
    return CONTRADICTED if first[2] < second[1] else UNDECIDED


def claim(text: str, verdict: str, evidence: str) -> str:
    """One line of an answer."""
    return f"- {text}: {verdict}. {evidence}"
