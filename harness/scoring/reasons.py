"""Why a prediction is off: what each reply cost and did, predicted beside measured, the largest difference first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from models.metrics import Metrics
from models.wording import figure, seconds

# Figure of a reply: its words, and what of it is too little to matter (s, or a number).
FIGURES: Mapping[str, tuple[str, float]] = {
    "server_cpu": ("server CPU", 0.5e-6),
    "load_cpu": ("generator CPU", 0.5e-6),
    "polls": ("polls", 0.05),
    "switches": ("switches", 0.05),
    "load_polls": ("generator's polls", 0.05),
    "load_sleeps": ("generator's sleeps", 0.05),
    "lock_wait": ("lock wait", 1e-6),
    "lock_waits": ("locks found held", 0.05),
    "steals": ("steals", 0.05),
}
SHOWN = 3  # differences that a sentence names
WORTH = math.log(1.1)  # of a ratio's logarithm, from which a difference is named


def differences(predicted: Metrics | None, measured: Metrics | None) -> list[dict[str, Any]]:
    """What differs of a reply, the largest ratio first: name, predicted, measured (s or number), ratio.

    The ratio is of both figures with what is too little to matter added, so that two small ones do not differ.
    """
    if predicted is None or measured is None:
        return []
    found = []
    for name, (_, little) in FIGURES.items():
        pair = [metrics.counters.get(name, math.nan) for metrics in (predicted, measured)]
        if not all(map(math.isfinite, pair)):
            continue
        ratio = (pair[0] + little) / (pair[1] + little)
        found.append({"name": name, "predicted": pair[0], "measured": pair[1], "ratio": ratio})
    return sorted(found, key=lambda row: -abs(math.log(row["ratio"])))


def sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    """What differs most, in words: each figure of a reply, predicted against measured."""
    worth = [row for row in rows if abs(math.log(row["ratio"])) >= WORTH][:SHOWN]
    if not worth:
        return "a reply costs and does what was predicted: what differs is who waits, and how long"
    parts = [
        f"{FIGURES[row['name']][0]} {_shown(row, 'predicted')} predicted, {_shown(row, 'measured')} measured"
        for row in worth
    ]
    return f"a reply's {'; '.join(parts)}"


def _shown(row: Mapping[str, Any], side: str) -> str:
    return seconds(row[side]) if FIGURES[row["name"]][1] < 1e-3 else figure(row[side], 2)
