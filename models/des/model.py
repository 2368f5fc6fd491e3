"""What an engine is given to run: how to build the programs, and the machine that they run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from models.costs import MissingCost
from models.des.machine import Scheduler
from models.des.outcome import Outcome
from models.des.records import World
from models.des.sample import Sample
from models.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Model:
    """A model of threads on a machine.

    Attributes
    ----------
    build : callable
        Makes the records and starts the threads in a World.
    cpus : int
    scheduler : Scheduler
    costs : mapping of str to float
        By name, those of the machine (machine.*) among them; what it lacks of those is free.
    sample : Sample or None
        Of the service's requests, where programs draw them.
    scenario : Scenario or None
    places : mapping of str to sequence of int
        CPUs that the threads of a group may use; of groups that are not in it: all.
    """

    build: Callable[[World], None]
    cpus: int
    scheduler: Scheduler
    costs: Mapping[str, float] = field(default_factory=dict)
    sample: Sample | None = None
    scenario: Scenario | None = None
    places: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def cost(self, name: str) -> float:
        """A cost, s; MissingCost where it is not known."""
        if name not in self.costs:
            raise MissingCost(f"no cost {name}: run python -m harness calibrate --refresh")
        return self.costs[name]


def first_places(threads: int, seed: int) -> list[int]:
    """Where each thread begins: 0 to threads - 1 in a random order, to be taken modulo the CPUs that it may use."""
    places = list(range(threads))
    Random(f"first places {seed}").shuffle(places)
    return places


class ProgramFault(RuntimeError):
    """A program did what it must not while it ran; the message says where and what."""


class Run(Protocol):
    """A model made ready by an engine."""

    def replicate(
        self,
        seed: int,
        warm: int,
        replies: int,
        *,
        until: float,
        span: float = ...,
        costs: Mapping[str, float] | None = None,
    ) -> Outcome:
        """One replication, from an empty system: a warm-up of so many replies, then a window.

        Parameters
        ----------
        seed : int
            Equal seeds give equal outcomes.
        warm, replies : int
            Replies before the window, and in it.
        until : float
            When to stop in any case, as time.perf_counter() tells it, s.
        span : float
            Longest window, in simulated time, s.
        costs : mapping, optional
            Those of this replication, in place of the model's.
        """
