"""What the rules of an explanation look at: a series cut to its sound points, and what a reply costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from models import outside
from models.knobs import Value
from models.series import Evidence, Peak, Point, plain
from models.wording import at

if TYPE_CHECKING:
    from models.laws import LawFit


@dataclass(frozen=True, slots=True)
class Said:
    """One sentence and the figures that back it."""

    text: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A series as the rules see it; no rule takes a figure from a broken point.

    Attributes
    ----------
    points, sound : tuple of Point
        All points, and those that are measured and not broken and have a run to compare, by rising x.
    best : Point or None
        The sound point with the highest throughput.
    end : Point or None
        The last sound point beyond the best, where its throughput is significantly lower.
    decided : bool
        Whether there were runs enough to compare the values at all.
    cpus : int
        CPUs that server and load generator share.
    """

    variable: str
    fixed: Mapping[str, Value]
    points: tuple[Point, ...]
    sound: tuple[Point, ...]
    best: Point | None
    end: Point | None
    peak: Peak
    fits: tuple[LawFit, ...]
    law: LawFit | None
    decided: bool
    cpus: int

    @property
    def outside(self) -> bool:
        """Whether the server is not ours, so that it keeps no counters for us."""
        return self.fixed.get("server") in outside.KINDS

    def at(self, point: Point) -> str:
        """The point's value of the variable, as a noun phrase."""
        return at(self.variable, point.x)

    def evidence(self, name: str, point: Point, value: float, unit: str) -> Evidence:
        """A figure of one point."""
        return Evidence(f"{name} at {self.variable}={plain(point.x)}", value, unit)

    def pair(
        self, name: str, points: Sequence[Point], values: Sequence[float], unit: str
    ) -> tuple[Evidence, ...]:
        """The same figure of several points."""
        return tuple(self.evidence(name, *row, unit) for row in zip(points, values, strict=True))


@dataclass(frozen=True, slots=True)
class Bill:
    """CPU that a reply costs, s.

    Attributes
    ----------
    server, load : float
        Of the server and of the load generator.
    work, other : float
        The server's, in the service's own work and outside it (system calls, switches, locks, spinning).
        Both nan where the work took longer by the clock than the server's CPU time: it slept or was
        pre-empted, and the two cannot be told apart.
    """

    server: float
    load: float
    work: float
    other: float

    @property
    def total(self) -> float:
        return self.server + self.load

    @property
    def split(self) -> bool:
        """Whether the server's part is known by purpose."""
        return not math.isnan(self.other)


def bill(point: Point) -> Bill | None:
    """The measured CPU of a reply, or None where it was not recorded."""
    server, load, busy = (count(point, name) for name in ("server_cpu", "load_cpu", "busy"))
    if math.isnan(server + load) or server + load <= 0:
        return None
    known = busy <= server
    return Bill(server, load, busy if known else math.nan, server - busy if known else math.nan)


def use(point: Point, name: str) -> float:
    """Utilisation of a resource as measured; nan where it is not known."""
    return float(point.measured.utilisation.get(name, math.nan)) if point.measured else math.nan


def count(point: Point, name: str) -> float:
    """A counter a reply as measured; nan where it is not known."""
    return float(point.measured.counters.get(name, math.nan)) if point.measured else math.nan


def throughput(point: Point) -> float:
    """Measured throughput, 1/s; nan where it was not measured."""
    return point.measured.throughput.value if point.measured else math.nan


def spins(point: Point) -> bool:
    """Whether threads wait by spinning: at least one turn a reply."""
    return count(point, "spins") >= 1
