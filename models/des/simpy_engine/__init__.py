"""The readable engine: the models' programs as they stand, each thread a SimPy process."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import numpy as np
import simpy
from simpy.core import EmptySchedule

from models.costs import MissingCost
from models.des import records
from models.des.model import Model, ProgramFault
from models.des.outcome import Outcome, Usage
from models.des.simpy_engine import events
from models.des.simpy_engine.events import Timer
from models.des.simpy_engine.world import SimpyWorld
from models.scenario import ScenarioError

PARALLEL = False  # Python's own steps would only take turns
WARMUP_SHARE = 0.25  # of the wall-clock time, at most
LOOK = 4096  # steps between two looks at the clock
OURS = tuple(str(Path(module.__file__ or "").parent) for module in (simpy, events))


def prepare(model: Model) -> SimpyRun:
    """A model ready to be run."""
    return SimpyRun(model)


@dataclass(frozen=True, slots=True)
class SimpyRun:
    """See models.des.model.Run."""

    model: Model

    def replicate(
        self,
        seed: int,
        warm: int,
        replies: int,
        *,
        until: float,
        span: float = inf,
        costs: Mapping[str, float] | None = None,
    ) -> Outcome:
        model = self.model if costs is None else replace(self.model, costs=costs)
        world = SimpyWorld(model, seed)
        now = time.perf_counter()
        _advance(world, warm, now + (until - now) * WARMUP_SHARE)
        before = _Reading(world)
        ends: list[Timer] = []
        if span < inf:
            Timer(world.env, span, ends.append)
        finished = _advance(world, warm + replies, until, ends)
        return before.until(_Reading(world), finished)


def _advance(world: SimpyWorld, replies: int, until: float, ends: Sequence[object] = ()) -> bool:
    """Simulates until there are so many replies in all, or `ends` holds something; False when there are not."""
    step, responses = world.env.step, world.tally.responses
    try:
        while len(responses) < replies:
            for _ in range(LOOK):
                step()
                if len(responses) >= replies or ends:
                    break
            if ends or time.perf_counter() > until:
                break
    except EmptySchedule:
        pass
    except (ScenarioError, MissingCost):
        raise
    except Exception as error:
        raise _fault(error) from error
    return len(responses) >= replies or bool(ends)


def _fault(error: Exception) -> ProgramFault:
    """Says where in a program it happened, and what. SimPy raises a process's error again, from the first one."""
    steps = traceback.extract_tb((error.__cause__ or error).__traceback__)
    places = [s for s in steps if not s.filename.startswith(OURS) and s.filename != records.__file__]
    where = f"{Path(places[-1].filename).name}:{places[-1].lineno}: " if places else ""
    return ProgramFault(where + str(error).strip().rpartition("\n")[2])


class _Reading:
    """All accounts at a moment."""

    def __init__(self, world: SimpyWorld) -> None:
        for cpu in world.machine.cpus:
            cpu.charge()
        self.world, self.now, self.area = world, world.env.now, world.tally.area_now()
        self.counts = dict(world.tally.counts)
        self.replies = len(world.tally.responses)
        self.threads = [Usage(t.used, t.slept, t.switched) for t in world.machine.threads]

    def until(self, end: _Reading, finished: bool) -> Outcome:
        """What happened from here to there."""
        tally, span = end.world.tally, end.now - self.now
        threads = tuple(
            Usage(b.used - a.used, b.slept - a.slept, b.switched - a.switched)
            for a, b in zip(self.threads, end.threads, strict=True)
        )
        return Outcome(
            span=span,
            responses=np.array(tally.responses[self.replies :]),
            services=np.array(tally.services[self.replies :]),
            operations=np.array(tally.operations[self.replies :], dtype=np.int32),
            counters={name: value - self.counts.get(name, 0.0) for name, value in end.counts.items()},
            groups=Usage.by_group([t.group for t in end.world.machine.threads], threads),
            threads=threads,
            in_system=(end.area - self.area) / span if span > 0 else 0.0,
            finished=finished,
        )
