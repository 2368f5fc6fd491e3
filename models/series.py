"""One curve of a sweep: what was measured and predicted, the laws fitted to it, its peak and the reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from models.knobs import Value
from models.metrics import Finding, Mark, Metrics, number

if TYPE_CHECKING:
    from models.laws import LawFit


def plain(value: float) -> float | int | None:
    """A value of the variable as it was written: whole numbers without a fraction, null if missing."""
    return int(value) if math.isfinite(value) and value == int(value) else number(value)


@dataclass(frozen=True, slots=True)
class Point:
    """One value of the variable.

    Attributes
    ----------
    x : float
        The variable's value.
    measured, predicted : Metrics or None
        None where it was not done.
    replicates : tuple of float
        Throughput by block, 1/s; nan where a block is missing.
    broken : tuple of Mark
        Why the point must not be fitted or scored; empty for a sound one.
    findings : tuple of Finding
        What the point shows.
    """

    x: float
    measured: Metrics | None = None
    predicted: Metrics | None = None
    replicates: tuple[float, ...] = ()
    broken: tuple[Mark, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def sound(self) -> bool:
        """Measured, answered something, and not broken."""
        return self.measured is not None and not self.broken and self.measured.throughput.value > 0

    def has(self, finding: str) -> bool:
        """Whether the point shows a finding of that name."""
        return any(found.name == finding for found in self.findings)


@dataclass(frozen=True, slots=True)
class Peak:
    """Where throughput is highest, as measured and by the chosen law.

    Attributes
    ----------
    value : float
        The value of the variable with the highest measured throughput; nan when no point is sound.
    members : tuple of float
        The values that are not significantly below it (95 %), itself among them.
    law_value, low, high : float
        The law's peak and its 95 % interval; infinite for unbounded, nan where no law was fitted.
    """

    value: float = math.nan
    members: tuple[float, ...] = ()
    law_value: float = math.nan
    low: float = math.nan
    high: float = math.nan

    def to_json(self) -> dict[str, Any]:
        return {
            "value": plain(self.value),
            "set": [plain(member) for member in self.members],
            "law_value": number(self.law_value),
            "low": number(self.low),
            "high": number(self.high),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any], fitted: bool) -> Peak:
        """The peak of a document, where null is unbounded if a law was fitted and missing if none was."""
        missing = math.inf if fitted else math.nan
        value = document["value"]
        law, low, high = (
            missing if document[name] is None else float(document[name])
            for name in ("law_value", "low", "high")
        )
        members = tuple(float(member) for member in document["set"])
        return cls(math.nan if value is None else float(value), members, law, low, high)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A figure that a sentence of the explanation stands on."""

    name: str
    value: float
    unit: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "value": number(self.value), "unit": self.unit}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Two to five sentences in plain English, and the figures that back them."""

    text: str
    evidence: tuple[Evidence, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"text": self.text, "evidence": [item.to_json() for item in self.evidence]}


@dataclass(frozen=True, slots=True)
class Series:
    """One curve of a sweep, analysed.

    Attributes
    ----------
    fixed : mapping of str to value
        What distinguishes this curve from the others of its sweep.
    variable : str
        The knob on the horizontal axis.
    points : tuple of Point
        By rising value of the variable.
    fits : tuple of LawFit
        Every law that could be fitted; empty when none could.
    law : str or None
        The chosen law's name.
    """

    fixed: Mapping[str, Value]
    variable: str
    points: tuple[Point, ...]
    fits: tuple[LawFit, ...]
    law: str | None
    peak: Peak
    explanation: Explanation

    def to_json(self) -> dict[str, Any]:
        """An element of `series` as `sweep --json` prints it; the points are the document's cells."""
        return {
            "fixed": dict(self.fixed),
            "variable": self.variable,
            "fits": [fit.to_json() for fit in self.fits],
            "law": self.law,
            "peak": self.peak.to_json(),
            "explanation": self.explanation.to_json(),
        }
