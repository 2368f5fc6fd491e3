"""Ends of a running probe: struck by a signal while they work, and what the probe says of it."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from pyx.probing import EXECUTABLE


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def strike(words: Sequence[str], end: int, by: signal.Signals, ends: int = 2) -> tuple[str, float]:
    """Signals one end, a process, of a probe that would work for long.

    Returns
    -------
    tuple
        What the probe wrote to standard error, and the s that it took from the signal to its end.
    """
    probe = subprocess.Popen(
        [str(EXECUTABLE), *words, "--budget", "60000000000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while len(found := _children(probe.pid)) < ends:
            assert probe.poll() is None
            time.sleep(0.01)
        time.sleep(0.2)  # by then they work
        struck = time.monotonic()
        os.kill(found[end], by)
        said = probe.communicate(timeout=20)[1]
        took = time.monotonic() - struck
    finally:
        probe.kill()
    assert not any(Path(f"/proc/{pid}").exists() for pid in found)
    return said, took
