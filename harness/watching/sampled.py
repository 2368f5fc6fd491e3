"""What samples of a server's processes tell of each reply: switches, waits for a CPU, and how much there was of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from harness.watching import timeline

_RATES = {"switches": "switches", "preemptions": "preemptions", "server_wait": "wait"}
_LEVELS = {
    "server_processes": ("processes", 1.0),
    "server_threads": ("threads", 1.0),
    "server_descriptors": ("descriptors", 1.0),
    "server_pss": ("pss", 1 / timeline.MIB),
    "server_rss": ("rss", 1 / timeline.MIB),
}


def counters(records: Sequence[Mapping[str, Any]], throughput: float) -> dict[str, float]:
    """Figures of a cell's samples; what they do not tell is left out.

    Parameters
    ----------
    records : sequence of mapping
        Of the cell's replicates.
    throughput : float
        Of all of them together, 1/s.

    Returns
    -------
    dict of str to float
        Per reply: switches, preemptions, and server_wait (s that its threads waited for a CPU). As they stand:
        server_processes, server_threads, server_descriptors, server_pss and server_rss (bytes).
    """
    found = timeline.timeline(records)
    if found is None:
        return {}
    rates = {name: found.typical(series) / max(throughput, 1e-9) for name, series in _RATES.items()}
    levels = {name: found.typical(series) * scale for name, (series, scale) in _LEVELS.items()}
    return {name: value for name, value in {**rates, **levels}.items() if math.isfinite(value)}
