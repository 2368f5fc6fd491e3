"""pmqtest of rt-tests: a message through a POSIX message queue, one way."""

from __future__ import annotations

from collections.abc import Mapping

from harness.probing.peers._reading import RT_NOTE, rt_words
from harness.probing.peers._reading import rt_tests as read

__all__ = ["read", "words"]

PROGRAM, PACKAGE = "pmqtest", "rt-tests"
PROBE, KIND = "mqueue", "thread"
OPTIONS: Mapping[str, str] = {}
UNIT, SHARE, SAME = "one way", 0.5, False
NOTE = RT_NOTE


def words(cpu: int) -> list[str]:
    """As all of rt-tests."""
    return rt_words(cpu)
