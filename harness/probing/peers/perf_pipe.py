"""perf bench sched pipe: a round trip through two pipes between processes."""

from __future__ import annotations

from collections.abc import Mapping

from harness.probing.peers._reading import perf_bench as read

__all__ = ["read", "words"]

PROGRAM, PACKAGE = "perf", "linux-perf"
PROBE, KIND = "pipe", "process"
OPTIONS: Mapping[str, str] = {}
UNIT, SHARE, SAME = "round trip", 1.0, True
NOTE = "perf's time holds starting its process, too"


def words(cpu: int) -> list[str]:
    """So many loops that its start, which is in its time, does not count."""
    del cpu
    return ["bench", "sched", "pipe", "-l", "100000"]
