"""Judges results that are there already: a store by today's thresholds, or a file of another tool."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import document, importers
from harness.errors import HarnessError
from harness.importers import Hints, Row
from harness.judging import marks, summaries
from harness.store import Store, open_store
from harness.sweeping import label
from models.metrics import Finding, Mark
from models.scenario import Scenario
from models.wording import at, figure, seconds

_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of one cell, or of one run of another tool.

    Attributes
    ----------
    name : str
    broken, findings : tuple
    unjudged : str or None
        Why nothing could be held against it.
    reason : str
        How the figures contradict each other, in figures; empty if they do not.
    before : tuple of str or None
        The marks with which a store was judged when its sweep ended; None where that was not kept.
    """

    name: str
    broken: tuple[Mark, ...] = ()
    findings: tuple[Finding, ...] = ()
    unjudged: str | None = None
    reason: str = ""
    before: tuple[str, ...] | None = None

    @property
    def change(self) -> str | None:
        """How the verdict differs from the one that was kept; None when it does not."""
        if self.before is None:
            return None
        now = {mark.check for mark in self.broken}
        new, gone = sorted(now - set(self.before)), sorted(set(self.before) - now)
        words = [f"now {name}" for name in new] + [f"no longer {name}" for name in gone]
        return ", ".join(words) or None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "broken": [mark.to_json() for mark in self.broken],
            "findings": [finding.to_json() for finding in self.findings],
            "unjudged": self.unjudged,
            "reason": self.reason or None,
            "before": None if self.before is None else list(self.before),
        }


@dataclass(frozen=True, slots=True)
class Audit:
    """The verdicts on everything in a file; `source` is "store" or the importer that read it."""

    source: str
    verdicts: tuple[Verdict, ...]

    @property
    def judged(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.unjudged is None or verdict.broken)

    @property
    def broken(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.broken)

    @property
    def sound_share(self) -> float | None:
        """Share of what could be judged that is not broken; None when nothing could be."""
        return 1 - len(self.broken) / len(self.judged) if self.judged else None

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "limits": marks.limits(),
            "cells": [verdict.to_json() for verdict in self.verdicts],
            "judged": len(self.judged),
            "broken": len(self.broken),
            "sound_share": self.sound_share,
            "sound_share_wanted": marks.SOUND_SHARE,
        }


def audit(path: Path, hints: Hints) -> Audit:
    """Judges a store, or a file that an importer knows.

    Raises
    ------
    HarnessError
        When it is neither, is malformed, or holds nothing.
    """
    if path.is_file() and _starts_as_store(path):
        if hints != Hints():
            raise HarnessError(
                f"{path}: is a store, which has no columns to name; leave the options out", True
            )
        with open_store(path) as store:
            return Audit("store", tuple(_of_store(store)))
    tool, rows = importers.read(path, hints)
    return Audit(tool, tuple(_of_row(row) for row in rows))


def _starts_as_store(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror})", usage=True) from error


def _of_store(store: Store) -> list[Verdict]:
    plan = store.plan()
    if plan is None:
        raise HarnessError(f"{store.path}: holds no sweep yet", usage=True)
    stored, found = store.verdicts(), []
    known = {key: runs[0][1].record for key, runs in store.replicates().items()}
    for cell in document.document(store)["cells"]:
        kept = stored.get(cell["key"])
        found.append(
            Verdict(
                label(plan, Scenario.from_json(cell["scenario"])),
                tuple(Mark.from_json(row) for row in cell["broken"]),
                tuple(Finding.from_json(row) for row in cell["findings"]),
                _unjudged(known.get(cell["key"])),
                before=tuple(mark.check for mark in kept.broken) if kept else None,
            )
        )
    return found


def _unjudged(record: Mapping[str, Any] | None) -> str | None:
    if record is None:
        return "not measured"
    return summaries.unknown(record["summary"]) if "summary" in record else None


def _of_row(row: Row) -> Verdict:
    broken = summaries.check(row.summary)
    missing = summaries.unknown(row.summary)
    return Verdict(row.name, broken, unjudged=missing, reason=_reason(row, broken))


def _reason(row: Row, broken: Sequence[Mark]) -> str:
    """Little's law in the run's own figures, where they break it."""
    if not {"over_unity", "unattributed"} & {mark.check for mark in broken}:
        return row.note
    rate, response = row.summary["throughput"], row.summary["response"]
    think, clients = row.summary.get("think") or 0.0, row.summary["clients"]
    cycle = seconds(response) if not think else f"({seconds(response)} + {seconds(think)})"
    under_way = rate * (response + think)
    law = (
        f"{figure(rate, 4)}/s × {cycle} = {figure(under_way)} requests under way, "
        f"where {at('clients', clients)} can have {figure(clients, 6)}"
    )
    return f"{row.note}; {law}" if row.note else law


def keep(store: Store, cells: Sequence[Mapping[str, Any]]) -> None:
    """Stores the verdicts of a document's cells, and the thresholds that they were judged by."""
    judged = {cell["key"]: (cell["broken"], cell["findings"]) for cell in cells if cell["measured"]}
    store.set_verdicts(time.time(), marks.limits(), judged)
