"""How much of a sweep's measuring time lay inside measuring windows, and where the rest went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.cell import Replicate
from models.metrics import number

ROUND = ("start", "stop")


def efficiency(
    blocks: Iterable[Mapping[str, Any]], replicates: Iterable[tuple[int, Replicate]]
) -> dict[str, Any]:
    """Seconds inside windows over wall seconds of all sessions, without calibration and prediction.

    Parameters
    ----------
    blocks : iterable of mapping
        session and started (Unix time, s) of every block.
    replicates : iterable of (session, Replicate)
        Of every kind.

    Returns
    -------
    dict
        windows, wall (s), share; and of the wall time: start and stop of the servers, load (connecting and warm-up),
        other (reading counters, storing, the yardstick). Null where nothing was recorded.
    """
    rows = [(session, r) for session, r in replicates if "window" in r.record]  # not what was imported
    begun: dict[int, float] = {}
    ended: dict[int, float] = {}
    for row in blocks:
        begun[row["session"]] = min(row["started"], begun.get(row["session"], row["started"]))
    for session, replicate in rows:
        begun[session] = min(replicate.started, begun.get(session, replicate.started))
        end = replicate.started + (seconds_of(replicate.record) or replicate.record["window"] * 1e-9)
        ended[session] = max(end, ended.get(session, end))
    windows = sum(replicate.record["window"] for _, replicate in rows) * 1e-9
    wall = sum(ended[session] - begun[session] for session in ended)
    parts: dict[str, float | None] = dict.fromkeys((*ROUND, "load", "other"))
    timed = [replicate.record["seconds"] for _, replicate in rows if replicate.record.get("seconds")]
    if timed and len(timed) == len(rows):
        found = {name: sum(row[name] for row in timed) for name in ROUND}
        found["load"] = sum(row["load"] for row in timed) - windows
        parts = {**found, "other": wall - windows - sum(found.values())}
    return {
        "windows": windows,
        "wall": wall,
        "share": number(windows / wall if wall > 0 else None),
        "parts": parts,
    }


def seconds_of(record: Mapping[str, Any]) -> float | None:
    """Wall time of one whole replicate, s; None where it was not recorded."""
    known = record.get("seconds")
    return None if known is None else float(known["whole"])
