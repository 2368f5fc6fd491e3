"""One value that a search for a limit tries: its replicates, and which side of the limit they show it to be on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness import measuring, recorded
from harness.cell import Cell, Replicate
from harness.deciding import stopping
from harness.judging import marks
from harness.limit.bracketing import BEYOND, UNDECIDED, WITHIN
from models import quantiles
from models.metrics import Estimate, number
from models.scenario import Scenario
from models.wording import named, percent

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
DELIVERED = 1 - marks.TABLE["overloaded"].limit  # share of the planned requests that must have been sent
PATIENCE = 3  # replicates at most over planned ones, for a value that cannot be told from the limit


@dataclass(frozen=True, slots=True)
class Criterion:
    """A figure of the response time (p50, p90, p99 or mean) and its limit, s."""

    figure: str
    limit: float

    def of(self, *records: Mapping[str, Any]) -> float:
        """The figure of these replicates' replies together, s; nan without a reply."""
        merged = quantiles.merge(h for record in records for h in record["histograms"].values())
        if self.figure == "mean":
            return quantiles.mean(merged)
        return quantiles.quantile(merged, QUANTILES[self.figure])

    def to_json(self) -> dict[str, Any]:
        return {"figure": self.figure, "limit": self.limit}


@dataclass(slots=True)
class Trial:
    """A value, its replicates so far, and the first failure to measure one."""

    value: float
    scenario: Scenario
    replicates: list[Replicate] = field(default_factory=list)
    failure: str = ""

    def figure(self, criterion: Criterion) -> Estimate:
        """The criterion's figure of all replies, with what the replicates' own ones scatter by about it.

        Quantiles are of merged histograms: a mean of short runs' quantiles comes out low where queues are long.
        The level of the interval allows for looking after each replicate.
        """
        records = [replicate.record for replicate in self.replicates]
        figures = [figure for record in records if (figure := criterion.of(record)) > 0]
        if not figures:
            return Estimate(math.nan)
        spread, whole = quantiles.interval(figures, stopping.LEVELS[-1][1]), criterion.of(*records)
        return Estimate(whole, whole * spread.low / spread.value, whole * spread.high / spread.value)

    def obstacles(self) -> list[str]:
        """What puts the value beyond the limit whatever the response time was."""
        records = [replicate.record for replicate in self.replicates]
        found = [f"failed: {self.failure}"] if self.failure else []
        errors = sum(sum(record["errors"].values()) for record in records)
        if errors:
            found.append(f"{errors} errors")
        planned = sum(record.get("planned") or 0 for record in records)
        sent = sum(record.get("sent") or 0 for record in records)
        if planned and sent < DELIVERED * planned:
            found.append(f"only {percent(sent / planned)} of the planned requests were sent in time")
        silent = sum(not recorded.replies(record) for record in records)
        if silent:
            found.append(f"no replies in {silent} of {len(records)} runs")
        return found

    def verdict(self, criterion: Criterion) -> str:
        """Within the limit, beyond it, or not to be told from it by these replicates."""
        if self.obstacles():
            return BEYOND
        figure = self.figure(criterion)
        if figure.high <= criterion.limit:
            return WITHIN
        return BEYOND if figure.low > criterion.limit else UNDECIDED

    def needs(self, criterion: Criterion, reps: int) -> bool:
        """Whether another replicate is to be measured."""
        if self.failure:
            return False
        count = len(self.replicates)
        return count < reps or (count < PATIENCE * reps and self.verdict(criterion) == UNDECIDED)

    def cell(self) -> Cell:
        """The value as the cell of a sweep, judged."""
        return measuring.cell_of(self.scenario, self.replicates)

    def to_json(self, criterion: Criterion) -> dict[str, Any]:
        figure, cell = self.figure(criterion), self.cell()
        judged = [f"broken: {named(mark.check)}" for mark in cell.broken]
        judged += [named(finding.name) for finding in cell.findings]
        return {
            "value": self.value,
            "replicates": len(self.replicates),
            "figure": number(figure.value),
            "low": number(figure.low),
            "high": number(figure.high),
            "verdict": self.verdict(criterion),
            "findings": [*self.obstacles(), *judged],
        }
