"""Launches every point several times, in an order that chance decides anew for each round, within the time that there is."""

from __future__ import annotations

import os
import random
import resource
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from harness.probing.points import Point
from harness.probing.samples import SLOWED, pace
from harness.progress import Progress
from pyx.probing import ProbeError

Launch = Callable[..., Mapping[str, Any]]

REPS, QUICK_REPS, FEWEST_REPS = 6, 3, 2
# For all launches. The rest of a minute, or of 10 s, is for judging, drawing and writing.
SECONDS, QUICK_SECONDS = 42.0, 3.0
LEAST, MOST = 0.006, 0.25  # s that one launch measures
COST = 0.02  # s that a launch takes beside what it measures, until some are done
WARMING = 1.25  # time with the warm-up, over the measured part
SAMPLES = 4000  # kept of a launch, over all ends
FEWEST_SAMPLES = 50  # kept of an end
FEWEST_PACES = 9  # launches after which it is known how fast the machine usually is
STEPS = 20  # of which progress is told
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Found:
    """One launch: what it measured, and what went on beside it.

    Attributes
    ----------
    raw : mapping
        As pyx.probing.launch gives it.
    seconds : float
        Time that it took as a whole.
    others, stolen : float
        CPU seconds of other processes, and of the hypervisor's other guests, over all CPUs.
    cpus : int
        CPUs that are online.
    """

    raw: Mapping[str, Any]
    seconds: float
    others: float
    stolen: float
    cpus: int

    @property
    def pace(self) -> float:
        return pace(self.raw)


@dataclass(slots=True)
class Collected:
    """What the launches gave, by the points' places in the plan.

    Attributes
    ----------
    refused, failed : mapping of int to str
        Points that the machine does not allow, and those that failed twice in a row, each with the reason.
    """

    found: dict[int, list[Found]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    interrupted: bool = False
    paces: list[float] = field(default_factory=list)

    def add(self, place: int, found: Found) -> None:
        self.found.setdefault(place, []).append(found)
        self.paces.append(found.pace)

    def slowed(self, found: Found) -> bool:
        """Whether the machine was slower than it usually is in this run; unknown at its beginning."""
        return len(self.paces) >= FEWEST_PACES and found.pace > SLOWED * self.usual

    @property
    def usual(self) -> float:
        """The yardstick's usual time, ns."""
        return median(self.paces) if self.paces else 0.0

    def open(self, points: Sequence[Point]) -> list[int]:
        """Places of the points that can be launched again."""
        return [i for i in range(len(points)) if i not in self.refused and i not in self.failed]


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure.

    Attributes
    ----------
    reps, fewest : int
        Launches of each point, and how many there must be even when the time is over.
    seconds : float
        For all of them, about.
    iterations : int
        Units that a launch measures, instead of a time; 0: as many as fit.
    """

    reps: int
    seconds: float
    fewest: int
    iterations: int = 0

    @classmethod
    def of(cls, points: int, quick: bool, reps: int | None = None, iterations: int | None = None) -> Effort:
        """The usual effort; fewer launches of each where there are too many points for the time."""
        seconds = QUICK_SECONDS if quick else SECONDS
        fit = int(seconds / (points * (COST + LEAST * WARMING)))
        usual = QUICK_REPS if quick else REPS
        wanted = reps or max(min(usual, fit), QUICK_REPS)
        return cls(wanted, seconds, reps or min(wanted, FEWEST_REPS), iterations or 0)


def carry_out(
    points: Sequence[Point],
    effort: Effort,
    progress: Progress,
    launch: Launch,
    asked: Set[int] = frozenset(),
    seed: int | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Collected:
    """Launches every point `effort.reps` times, as far as time allows; each round visits all in an order of its own.

    What a launch measures is as long as leaves time for all that are still to come, so that slow ones shorten those after
    them. Ctrl-C ends it and keeps what is there; it ends early, too, when the machine has refused all points that were
    `asked` for, by their places.
    """
    collected, order = Collected(), random.Random(seed)
    begun, cost = clock(), COST
    total, done = len(points) * effort.reps, 0
    step = max(total // STEPS, 1)
    progress.begin("measuring", total)
    try:
        for round_ in range(effort.reps):
            visits = collected.open(points)
            order.shuffle(visits)
            left = effort.seconds - (clock() - begun)
            if asked and asked <= collected.refused.keys():
                break
            if round_ >= effort.fewest and left < len(visits) * (cost + LEAST * WARMING):
                break
            budget = _budget(left / (effort.reps - round_), len(visits), cost)
            started = clock()
            for place in visits:
                _visit(collected, place, points[place], budget, effort, launch)
                done += 1
                if done % step == 0:
                    progress.step(points[place].label(), step)
            if visits:
                cost = max((clock() - started) / len(visits) - budget * WARMING, 0.0)
    except KeyboardInterrupt:
        collected.interrupted = True
    return collected


def _budget(seconds: float, launches: int, cost: float) -> float:
    """s that each of so many launches may measure."""
    return min(max((seconds / max(launches, 1) - cost) / WARMING, LEAST), MOST)


def _visit(
    collected: Collected, place: int, point: Point, budget: float, effort: Effort, launch: Launch
) -> None:
    for last in (False, True):
        try:
            found = _launch(point, budget, effort.iterations, launch)
            if collected.slowed(found):
                again = _launch(point, budget, effort.iterations, launch)
                found = min(found, again, key=lambda each: each.pace)
            collected.add(place, found)
            return
        except ProbeError as error:
            why = str(error).removeprefix(f"probe {point.probe}: ")
            if error.usage:
                collected.refused[place] = why
                return
            if last:
                collected.failed[place] = why


def _launch(point: Point, budget: float, iterations: int, launch: Launch) -> Found:
    workers = point.pairs * (point.form.ends if point.form.alike else 1)
    before = _accounts()
    raw = launch(
        point.probe,
        point.native,
        kind=point.kind,
        cpus=point.cpus,
        bound=point.bound,
        pairs=point.pairs,
        size=point.size,
        iterations=iterations,
        budget=budget,
        capacity=max(SAMPLES // workers, FEWEST_SAMPLES),
    )
    seconds, busy, stolen, own = (b - a for a, b in zip(before, _accounts(), strict=True))
    return Found(raw, seconds, max(busy - own, 0.0), stolen, os.cpu_count() or 1)


def _accounts() -> tuple[float, float, float, float]:
    """Time, CPU seconds of everybody, stolen ones, and our own with those of all our children that have ended, s."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, soft, steal = (int(word) for word in file.readline().split()[1:9])
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(use.ru_utime + use.ru_stime for use in uses)
    return time.monotonic(), (user + nice + system + irq + soft) / _TICKS, steal / _TICKS, own
