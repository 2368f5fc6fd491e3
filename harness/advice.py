"""The marks and findings that occur in a sweep, each once, with what it means and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.wording import amount, named


@dataclass(frozen=True, slots=True)
class Advice:
    """A mark or finding that some cells carry.

    Attributes
    ----------
    name : str
        As harness.marks lists it.
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
    def rule(self) -> str:
        """Kind and limit: makes a cell broken, limit 10 %."""
        kind = "makes a configuration broken" if self.broken else "a finding"
        return kind if math.isnan(self.limit) else f"{kind}, limit {amount(self.limit, self.unit)}"

    @property
    def advice(self) -> str:
        """What it means and what to do, one sentence each."""
        return " ".join(
            f"{text[0].upper()}{text[1:].rstrip('.')}." for text in (self.says, self.todo) if text
        )


def advice(cells: Sequence[Mapping[str, Any]]) -> tuple[Advice, ...]:
    """All that occur in a document's cells: marks first, then findings, each by how many cells carry it."""
    found: dict[tuple[bool, str], Advice] = {}
    for cell in cells:
        rows = [(True, row["check"], row) for row in cell["broken"]]
        rows += [(False, row["name"], row) for row in cell["findings"]]
        for broken, name, row in rows:
            before = found.get((broken, name))
            found[broken, name] = Advice(
                name,
                broken,
                math.nan if row.get("limit") is None else float(row["limit"]),
                str(row.get("unit") or ""),
                str(row.get("says") or ""),
                str(row.get("todo") or ""),
                (before.cells if before else 0) + 1,
            )
    return tuple(sorted(found.values(), key=lambda item: (not item.broken, -item.cells, item.name)))


def mark_text(row: Mapping[str, Any], sign: str = ">") -> str:
    """A mark with figure and limit: stationarity 14 % > 10 %.

    Parameters
    ----------
    row : mapping
        A mark as a document holds it.
    sign : str
        What stands between figure and limit.
    """
    unit = str(row.get("unit") or "")
    value, limit = (math.nan if row[name] is None else float(row[name]) for name in ("value", "limit"))
    return f"{named(str(row['check']))} {amount(value, unit)} {sign} {amount(limit, unit)}"
