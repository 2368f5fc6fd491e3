"""What launches say about the cost of a unit of work: samples without the clock's own cost, medians and their interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.quantiles import t_quantile

PERCENTILES = (10, 50, 90, 99)
SLOWED = 1.05  # times the usual time of the yardstick, above which a launch met a slower machine
FEWEST_KEPT = 3  # launches of a point below which slowed ones count too


@dataclass(frozen=True, slots=True)
class Reading:
    """One launch.

    Attributes
    ----------
    samples : array of float
        ns of a unit, of all ends that work, the overhead subtracted.
    overhead : float
        ns that were subtracted from each, in the mean.
    batch : int
        The most units between two readings of the clock.
    elapsed : float
        ns from the first end's first measured unit to the last end's last.
    switches, sleeps : float
        Of an end, for each unit that it takes part in: all, and the voluntary ones.
    notes : mapping of str to float
        The probe's own figures, each the mean over the ends that have it; and `fairness` between ends that work.
    """

    samples: NDArray[np.float64]
    overhead: float
    batch: int
    elapsed: float
    switches: float
    sleeps: float
    notes: Mapping[str, float]

    @property
    def median(self) -> float:
        return float(np.median(self.samples))


def read(raw: Mapping[str, Any]) -> Reading | None:
    """A launch as pyx.probing.launch gives it; None when it was too short for a single sample."""
    ends = raw["ends"]
    workers = [end for end in ends if end["units"]]
    overheads = [overhead(raw, end) for end in workers]
    each = [np.asarray(end["samples"]) - less for end, less in zip(workers, overheads, strict=True)]
    samples = np.concatenate(each) if each else np.empty(0)
    if not len(samples):
        return None
    units = sum(end["units"] for end in workers)
    # An end that answers takes part in as many units as the one that it answers.
    shares = units * len(ends) / len(workers)
    sleeps, interrupted = (sum(end[name] for end in ends) for name in ("voluntary", "involuntary"))
    return Reading(
        np.maximum(samples, 0.0),
        float(np.mean(overheads)),
        max(end["batch"] for end in workers),
        float(raw["finished"] - min(end["began"] for end in workers)),
        (sleeps + interrupted) / shares,
        sleeps / shares,
        _notes(ends) | _fairness(workers),
    )


def pace(raw: Mapping[str, Any]) -> float:
    """ns of the yardstick that the ends run before and after they are measured, each on its CPU; the least slow end's.

    Half arithmetic, half system calls. 0 where it is not known.
    """
    found = [max(end["speed_before"], end["speed_after"]) for end in raw["ends"] if end["units"]]
    return float(min(found, default=0.0))


def kept(paces: Sequence[float], usual: float) -> list[int]:
    """Places of the launches that count: those of a machine that was as fast as usual, where there are enough of them.

    They are chosen by the yardstick, never by what was measured.
    """
    steady = [place for place, each in enumerate(paces) if each <= SLOWED * usual]
    return steady if len(steady) >= FEWEST_KEPT else list(range(len(paces)))


def overhead(raw: Mapping[str, Any], end: Mapping[str, Any]) -> float:
    """ns of each unit that are the instrument's: a clock reading for each batch and a turn of the loop."""
    return float(raw["clock_ns"]) / max(int(end["batch"]), 1) + float(raw["loop_ns"])


def _notes(ends: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    names = dict.fromkeys(name for end in ends for name in end["notes"])
    return {
        name: float(np.mean([end["notes"][name] for end in ends if name in end["notes"]])) for name in names
    }


def _fairness(workers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of ends that work side by side: 1 where all did as much, 1/n where one of n did all (Jain, Chiu and Hawe, 1984)."""
    done = [end["measured"] for end in workers]
    squares = sum(units * units for units in done)
    return {"fairness": sum(done) ** 2 / (len(done) * squares)} if len(done) > 1 and squares else {}


def spread(medians: Sequence[float]) -> float:
    """How far apart the medians of launches lie, in parts of their own median."""
    middle = median(medians)
    return (max(medians) - min(medians)) / middle if middle else 0.0


def interval(medians: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """The interval of the median over launches; None from fewer than two.

    From six launches on it is the exact one of the sign test (Conover, Practical Nonparametric Statistics, section 3.2):
    between order statistics, whatever the distribution is, so that one launch that lies far off does no harm beyond itself.
    Five would give 94 % at most. Fewer have Student's, about the mean of their logarithms, since they differ by factors and
    are each the median of many samples, which leaves no heavy tails; it is widened to hold the median itself.
    """
    middle, count = median(medians), len(medians)
    if count < 2 or min(medians) <= 0:
        return None
    ordered, outside = sorted(medians), _outside(count, (1 - level) / 2)
    if outside:
        return ordered[outside - 1], ordered[-outside]
    logs = [math.log(value) for value in medians]
    mean = math.fsum(logs) / len(logs)
    variance = math.fsum((value - mean) ** 2 for value in logs) / (len(logs) - 1)
    half = min(t_quantile(len(logs) - 1, level) * math.sqrt(variance / len(logs)), 100.0)
    return min(math.exp(mean - half), middle), max(math.exp(mean + half), middle)


def _outside(count: int, most: float) -> int:
    """The largest k such that fewer than k of `count` lie below their median with a probability of at most `most`."""
    below, k = 0.0, 0
    while (below := below + math.comb(count, k) * 0.5**count) <= most:
        k += 1
    return k
