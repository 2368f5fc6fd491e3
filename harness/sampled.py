"""What samples of a server's processes tell of each reply: switches, waits for a CPU, and how much there was of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Records = Sequence[Mapping[str, Any]]

# Columns of the samples that only grow, with the counter that they make and its scale.
_GROWING = {"switches": ("switches", 1.0), "preemptions": ("preemptions", 1.0), "wait": ("server_wait", 1e-9)}
_LEVELS = {name: f"server_{name}" for name in ("processes", "threads", "descriptors", "pss", "rss")}


def counters(records: Records, replies: Sequence[int]) -> dict[str, float]:
    """Per reply: switches, preemptions, server_wait (s waiting for a CPU); and the highest seen of server_processes,
    server_threads, server_descriptors, server_pss and server_rss (bytes). What no sample tells is left out.

    Parameters
    ----------
    records : sequence of mapping
        Those of a cell's replicates.
    replies : sequence of int
        Answered inside each one's window.
    """
    found: dict[str, float] = {}
    for column, (name, scale) in _GROWING.items():
        rates = [_rate(record, column) for record in records]
        known = [
            (rate * record["window"], count)
            for rate, record, count in zip(rates, records, replies, strict=True)
            if not math.isnan(rate)
        ]
        total = sum(count for _, count in known)
        if total:
            found[name] = scale * sum(amount for amount, _ in known) / total
    for column, name in _LEVELS.items():
        seen = [value for record in records for value in _column(record, column) if value >= 0]
        if seen:
            found[name] = float(max(seen))
    return found


def _column(record: Mapping[str, Any], name: str) -> list[float]:
    samples = record.get("samples")
    if not samples or name not in samples["columns"]:
        return []
    place = samples["columns"].index(name)
    return [float(row[place]) for row in samples["rows"]]


def _rate(record: Mapping[str, Any], name: str) -> float:
    """Growth of a column for each ns, from the first sample to the last; nan where it is not known."""
    times, values = _column(record, "time"), _column(record, name)
    if len(values) < 2 or min(values) < 0 or times[-1] <= times[0]:
        return math.nan
    return max(values[-1] - values[0], 0.0) / (times[-1] - times[0])
