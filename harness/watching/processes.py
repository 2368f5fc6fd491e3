"""Samples a server's process tree while it is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def watched(pid: int, interval: float | None) -> Iterator[dict[str, Any]]:
    """Samples the tree of processes below `pid` while the block runs; the mapping is filled at the block's end.

    Parameters
    ----------
    pid : int
        Root of the tree; 0 where it is not known, so that nothing can be sampled.
    interval : float or None
        s from one sample to the next; None to sample nothing.

    Yields
    ------
    dict
        {columns, rows} as `pyx.sampling.Sampler.stop` gives them; it stays empty where nothing is sampled.
    """
    found: dict[str, Any] = {}
    if not pid or interval is None:
        yield found
        return
    from pyx.sampling import Sampler

    sampler = Sampler(pid, interval)
    sampler.start()
    try:
        yield found
    finally:
        found |= sampler.stop()
