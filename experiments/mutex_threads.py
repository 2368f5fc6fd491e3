"""How does the time of adding to a shared variable under a mutex grow with threads, and what is it made of?

Published: threads on a 4-core i7 with 8 hardware threads, 1,000,000 iterations each; the finding, of all primitives, is
that time grows linearly. Here it is asked as well how often the mutex changed hands: where a thread mostly takes it again
before any other can, the time of a lock and unlock says nothing of what handing it over costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.growing import LEAST_POINTS, line, linear, said, times
from experiments.reading import CONFIRMED, CONTRADICTED, UNDECIDED, claim

PROBES = {
    "threads": {
        "probes": ("mutex",),
        "variant": "shared",
        "kind": "thread",
        "settings": ("ends=1:8",),
        "cores": "N",
        "iterations": 500_000,
        "reps": 5,
    }
}
RARE = 0.5  # changes of owner in an acquisition, below which most are by the owner before


def answer(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The line, then who gets the mutex."""
    document = results["threads"]
    curve = times(document, "ends", probe="mutex")
    text = "time grows linearly with threads"
    if len(curve) < LEAST_POINTS:
        return claim(text, UNDECIDED, "Too few points were measured.")
    fit = line(curve)
    lines = [claim(text, linear(fit), f"{said(fit, 'ms a thread')}.")]
    return "\n".join(lines + _owners(document))


def _owners(document: Mapping[str, Any]) -> list[str]:
    shares = {
        int(row["options"]["ends"]): row["notes"]["owner_changes"] / row["notes"]["acquisitions"]
        for row in document["results"]
        if row["options"]["ends"] != "1" and row["notes"].get("acquisitions")
    }
    if not shares:
        return []
    verdict = CONFIRMED if max(shares.values()) < RARE else CONTRADICTED
    if verdict == CONTRADICTED and min(shares.values()) < RARE:
        verdict = UNDECIDED
    listed = ", ".join(f"{threads}: {share:.2g}" for threads, share in sorted(shares.items()))
    return [
        claim(
            "most acquisitions are by the thread that had the mutex before",
            verdict,
            f"Changes of owner in an acquisition, by threads: {listed}.",
        )
    ]
