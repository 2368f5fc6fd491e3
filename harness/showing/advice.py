"""The marks and findings that occur in a sweep, each once, with what it means and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.metrics import Finding, Mark
from models.wording import amount, bare, is_share, named


@dataclass(frozen=True, slots=True)
class Advice:
    """A mark or finding that some cells carry.

    Attributes
    ----------
    name : str
        As harness.judging.marks lists it.
    broken : bool
        Whether it makes a cell broken; a finding does not.
    limit : float
        The figure from which it is given, in `unit`; nan where it is not stored.
    says, todo : str
        What it means, and what to do; empty where the document does not say.
    cells : int
        How many cells carry it.
    """

    name: str
    broken: bool
    limit: float
    unit: str
    says: str
    todo: str
    cells: int

    @property
    def limit_text(self) -> str:
        """The limit with its unit: 10 % of the throughput; a dash where it is not stored."""
        # A finding's value may be counted in another unit than its limit, which is a plain number then.
        return amount(self.limit, self.unit if self.broken or is_share(self.unit) else "")

    @property
    def rule(self) -> str:
        """What kind it is and from which figure on: broken, limit 10 % of the throughput."""
        kind = "broken" if self.broken else "finding"
        return kind if math.isnan(self.limit) else f"{kind}, limit {self.limit_text}"

    @property
    def advice(self) -> str:
        """What it means and what to do, one sentence each."""
        return " ".join(
            f"{text[0].upper()}{text[1:].rstrip('.')}." for text in (self.says, self.todo) if text
        )


def advice(cells: Sequence[Mapping[str, Any]]) -> tuple[Advice, ...]:
    """All that occur in a document's cells and have words: marks, then findings, each by how many cells carry it."""
    given: dict[tuple[bool, str], list[Mark | Finding]] = {}
    for cell in cells:
        for mark in map(Mark.from_json, cell["broken"]):
            given.setdefault((True, mark.check), []).append(mark)
        for finding in map(Finding.from_json, cell["findings"]):
            given.setdefault((False, finding.name), []).append(finding)
    found = [
        Advice(name, broken, rows[0].limit, rows[0].unit, rows[0].says, rows[0].todo, len(rows))
        for (broken, name), rows in given.items()
        if rows[0].says or rows[0].todo
    ]
    return tuple(sorted(found, key=lambda item: (not item.broken, -item.cells, item.name)))


def mark_text(mark: Mark) -> str:
    """A mark with its figure and its limit: stationarity 14 % (limit 10 %)."""
    return f"{named(mark.check)} {bare(mark.value, mark.unit)} (limit {bare(mark.limit, mark.unit)})"
