"""perf bench syscall basic: getppid."""

from __future__ import annotations

from collections.abc import Mapping

from harness.probing.peers._reading import perf_bench as read

__all__ = ["read", "words"]

PROGRAM, PACKAGE = "perf", "linux-perf"
PROBE, KIND = "syscall", "process"
OPTIONS: Mapping[str, str] = {}
UNIT, SHARE, SAME = "call", 1.0, True
NOTE = "perf's time holds its loop, too"


def words(cpu: int) -> list[str]:
    """Some tenths of a second."""
    del cpu
    return ["bench", "syscall", "basic", "-l", "2000000"]
