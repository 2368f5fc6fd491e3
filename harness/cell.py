"""One cell of a sweep: a scenario, what was measured of it, what was predicted, and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.watching import timeline
from models.metrics import Finding, Mark, Metrics, number
from models.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Replicate:
    """One run of a fresh server process.

    Attributes
    ----------
    id : str
        Unique for ever.
    started : float
        Unix time, s.
    block : int
        The block of the sweep that it belongs to.
    record : mapping
        Everything that was recorded, as JSON has it (harness.measure says what); figures derived from it are never stored.
    """

    id: str
    started: float
    block: int
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """A scenario with its results; `measured` or `predicted` is None where it was not done."""

    scenario: Scenario
    replicates: tuple[Replicate, ...] = ()
    broken: tuple[Mark, ...] = ()
    findings: tuple[Finding, ...] = ()
    measured: Metrics | None = None
    predicted: Metrics | None = None

    @property
    def error(self) -> dict[str, float] | None:
        """predicted / measured − 1 of throughput and of mean response; None unless both are known."""
        if self.measured is None or self.predicted is None:
            return None
        pairs = {
            "throughput": (self.predicted.throughput.value, self.measured.throughput.value),
            "response": (self.predicted.response.value, self.measured.response.value),
        }
        return {name: p / m - 1 if m else float("nan") for name, (p, m) in pairs.items()}

    def to_json(self) -> dict[str, Any]:
        """The cell as `measure`, `predict` and `sweep` print it; `samples` only where the server was sampled."""
        error = self.error
        sampled = timeline.timeline([replicate.record for replicate in self.replicates])
        return {
            "key": self.scenario.key,
            "scenario": self.scenario.to_json(),
            "replicates": [{"id": r.id, "started": r.started, "block": r.block} for r in self.replicates],
            "broken": [mark.to_json() for mark in self.broken],
            "findings": [finding.to_json() for finding in self.findings],
            "measured": self.measured.to_json() if self.measured else None,
            "predicted": self.predicted.to_json() if self.predicted else None,
            "error": {name: number(value) for name, value in error.items()} if error else None,
            **({"samples": sampled.to_json()} if sampled else {}),
        }
