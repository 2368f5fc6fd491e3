"""sigwaittest of rt-tests: a signal to a process that waits for it with sigwait, one way."""

from __future__ import annotations

from collections.abc import Mapping

from harness.probing.peers._reading import RT_NOTE, rt_words
from harness.probing.peers._reading import rt_tests as read

__all__ = ["read", "words"]

PROGRAM, PACKAGE = "sigwaittest", "rt-tests"
PROBE, KIND = "signal", "process"
OPTIONS: Mapping[str, str] = {}
UNIT, SHARE, SAME = "one way", 0.5, False
NOTE = RT_NOTE


def words(cpu: int) -> list[str]:
    """As processes."""
    return [*rt_words(cpu), "-f"]
