"""What one replication of a simulation gives, by either engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Usage:
    """What a thread, or a group of threads, did in the window.

    Attributes
    ----------
    used : float
        Processor time, s.
    slept, switched : int
        Times it slept, and times it lost its CPU while it could have run on.
    """

    used: float = 0.0
    slept: int = 0
    switched: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.used + other.used, self.slept + other.slept, self.switched + other.switched)

    @staticmethod
    def by_group(groups: Sequence[str], threads: Sequence[Usage]) -> dict[str, Usage]:
        """The sums over the threads of each group."""
        sums: dict[str, Usage] = {}
        for group, usage in zip(groups, threads, strict=True):
            sums[group] = sums.get(group, Usage()) + usage
        return sums


@dataclass(frozen=True, slots=True)
class Outcome:
    """One replication after its warm-up.

    Attributes
    ----------
    span : float
        Simulated time of the window, s.
    responses, services : array of float
        Of each reply in the window, in their order: response time, and time since it was sent, s.
    operations : array of int
        Its operation.
    counters : mapping of str to float
        What the programs counted in the window.
    groups : mapping of str to Usage
    threads : tuple of Usage
        In the order in which they were started.
    in_system : float
        Mean number of requests in the system.
    finished : bool
        It had as many replies as were asked for.
    """

    span: float
    responses: NDArray[np.float64]
    services: NDArray[np.float64]
    operations: NDArray[np.int32]
    counters: Mapping[str, float]
    groups: Mapping[str, Usage]
    threads: tuple[Usage, ...]
    in_system: float
    finished: bool

    @property
    def throughput(self) -> float:
        """Replies per second."""
        return len(self.responses) / self.span if self.span > 0 else 0.0
