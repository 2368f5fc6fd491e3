"""ptsematest of rt-tests: a mutex handed over, one way."""

from __future__ import annotations

from collections.abc import Mapping

from harness.probing.peers._reading import RT_NOTE, rt_words
from harness.probing.peers._reading import rt_tests as read

__all__ = ["read", "words"]

PROGRAM, PACKAGE = "ptsematest", "rt-tests"
PROBE, KIND = "mutex", "thread"
OPTIONS: Mapping[str, str] = {"variant": "pingpong"}
UNIT, SHARE, SAME = "one way", 0.5, False
NOTE = f"{RT_NOTE}; and ptsematest unlocks a mutex that another thread locked, which POSIX does not define"


def words(cpu: int) -> list[str]:
    """As all of rt-tests."""
    return rt_words(cpu)
