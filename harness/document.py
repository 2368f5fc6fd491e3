"""Makes a sweep's JSON document, the one that other programs rely on, from its store."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from harness import measuring
from harness.cell import Cell, Replicate
from harness.plan import CELL, CONTROL, NULL, Plan, PlannedCell
from harness.store import Failure, Prediction, Store
from models import quantiles
from models.metrics import Estimate, number
from models.series import Point, Series

SCHEMA_VERSION = 1
DRIFT = 0.05  # relative shift of the yardstick from the sweep's median that marks a block
FEWEST_STEADY = 3  # blocks that must remain for drifted ones to be left out

Replicates = Mapping[str, Sequence[tuple[int, Replicate]]]


@dataclass(frozen=True, slots=True)
class Drift:
    """How the machine's speed changed from block to block.

    Attributes
    ----------
    typical : float
        Median time of the yardstick, s; nan without any.
    shifts : mapping of (session, block) to float
        Relative change of the yardstick's time from the typical one.
    drifted : frozenset of (session, block)
        Those beyond `DRIFT`.
    left_out : bool
        Whether their replicates are left out of the figures; they are not when too few blocks would remain.
    """

    typical: float
    shifts: Mapping[tuple[int, int], float]
    drifted: frozenset[tuple[int, int]]
    left_out: bool

    def keeps(self, session: int, replicate: Replicate) -> bool:
        return not self.left_out or (session, replicate.block) not in self.drifted

    def to_json(self) -> dict[str, Any]:
        return {
            "typical": number(self.typical),
            "limit": DRIFT,
            "blocks": [
                {"session": s, "block": b, "shift": shift, "drifted": (s, b) in self.drifted}
                for (s, b), shift in self.shifts.items()
            ],
            "left_out": self.left_out,
        }


def document(store: Store) -> dict[str, Any]:
    """The document of all that is stored so far: {schema_version, sweep, cells, series}."""
    plan = store.plan()
    if plan is None:
        raise LookupError("the store holds no plan")
    sessions = store.sessions()
    drift = drift_of(store.blocks())
    planned = plan.cells()
    replicates = store.replicates(CELL)
    predictions, failures = store.predictions(), store.failures()
    cells = {
        cell.scenario.key: cell_of(cell, replicates.get(cell.scenario.key, ()), predictions, drift)
        for cell in planned
    }
    cpus = int((sessions[-1]["provenance"].get("cpus") if sessions else None) or 1)
    series, rows = [], []
    for index, fixed in enumerate(dict.fromkeys(cell.fixed for cell in planned)):
        members = [cell for cell in planned if cell.fixed == fixed]
        series.append(_series(plan, members, cells, replicates, drift, cpus).to_json())
        rows += [
            _cell_json(plan, cell, index, cells[cell.scenario.key], predictions, failures) for cell in members
        ]
    done = store.done()
    expected = [(v.kind, v.scenario.key, block) for block in range(plan.reps) for v in plan.visits(block)]
    return {
        "schema_version": SCHEMA_VERSION,
        "sweep": {
            "id": store.meta("id"),
            **plan.to_json(),
            "complete": done.issuperset(expected),
            "started": sessions[0]["started"] if sessions else None,
            "sessions": len(sessions),
            "noise": _noise(store, plan, replicates, drift),
            "warnings": _warnings(replicates, drift, failures),
            "provenance": sessions[-1]["provenance"] if sessions else None,
        },
        "cells": rows,
        "series": series,
    }


def drift_of(blocks: Sequence[Mapping[str, Any]]) -> Drift:
    """Which blocks ran while the machine was slower or faster than usual."""
    if not blocks:
        return Drift(math.nan, {}, frozenset(), False)
    typical = median(row["yardstick"] for row in blocks)
    shifts = {(row["session"], row["block"]): row["yardstick"] / typical - 1 for row in blocks}
    drifted = frozenset(name for name, shift in shifts.items() if abs(shift) > DRIFT)
    steady = {block for session, block in shifts if (session, block) not in drifted}
    return Drift(typical, shifts, drifted, bool(drifted) and len(steady) >= FEWEST_STEADY)


def cell_of(
    planned: PlannedCell,
    replicates: Sequence[tuple[int, Replicate]],
    predictions: Mapping[str, Prediction],
    drift: Drift,
) -> Cell:
    """The judged cell: figures from the steady blocks, all replicates listed."""
    known = predictions.get(planned.scenario.key)
    steady = [replicate for session, replicate in replicates if drift.keeps(session, replicate)]
    every = tuple(replicate for _, replicate in replicates)
    cell = measuring.cell_of(planned.scenario, steady or every, known.metrics if known else None)
    return replace(cell, replicates=every)


def _cell_json(
    plan: Plan,
    planned: PlannedCell,
    series: int,
    cell: Cell,
    predictions: Mapping[str, Prediction],
    failures: Sequence[Failure],
) -> dict[str, Any]:
    known = predictions.get(planned.scenario.key)
    failed = [f for f in failures if f.kind == CELL and f.key == planned.scenario.key]
    return {
        **cell.to_json(),
        "series": series,
        "value": planned.scenario.get(plan.axis, planned.x),
        "refusal": known.refusal if known else None,
        "failures": [{"block": f.block, "message": f.message} for f in failed],
    }


def _series(
    plan: Plan,
    members: Sequence[PlannedCell],
    cells: Mapping[str, Cell],
    replicates: Replicates,
    drift: Drift,
    cpus: int,
) -> Series:
    from models import explain

    points = []
    for member in members:
        cell = cells[member.scenario.key]
        rates = [math.nan] * plan.reps
        for session, replicate in replicates.get(member.scenario.key, ()):
            if drift.keeps(session, replicate):
                rates[replicate.block] = measuring.throughput_of(replicate.record)
        points.append(
            Point(member.x, cell.measured, cell.predicted, tuple(rates), cell.broken, cell.findings)
        )
    return explain.analyse(plan.axis, dict(members[0].fixed), points, cpus)


def _noise(store: Store, plan: Plan, replicates: Replicates, drift: Drift) -> dict[str, Any]:
    """How much two measurements of the same thing differ: the control cell against itself, block by block."""
    key = plan.control.key if plan.control else ""
    first = {r.block: measuring.throughput_of(r.record) for _, r in replicates.get(key, ())}
    again = {r.block: measuring.throughput_of(r.record) for _, r in store.replicates(CONTROL).get(key, ())}
    differences = [again[b] / first[b] - 1 for b in sorted(first.keys() & again.keys()) if first[b] > 0]
    null = [measuring.throughput_of(r.record) for rows in store.replicates(NULL).values() for _, r in rows]
    spread = quantiles.interval(differences) if differences else Estimate(math.nan)
    return {
        "control": key,
        "aa": differences,
        "floor": median(map(abs, differences)) if differences else None,
        "mean": spread.to_json(),
        "null": {"throughput": (quantiles.interval(null) if null else Estimate(math.nan)).to_json()},
        "yardstick": drift.to_json(),
    }


def _warnings(replicates: Replicates, drift: Drift, failures: Sequence[Failure]) -> list[str]:
    """What a reader of the figures must know."""
    found = []
    if drift.drifted:
        shifts = ", ".join(f"{drift.shifts[name]:+.0%}" for name in sorted(drift.drifted))
        fate = "left out" if drift.left_out else "kept, as too few others remain"
        found.append(
            f"the machine's speed shifted in {len(drift.drifted)} of {len(drift.shifts)} blocks "
            f"({shifts}): {fate}"
        )
    sessions = [{session for session, _ in rows} for rows in replicates.values()]
    if sessions and not set.intersection(*sessions):
        found.append(
            "some cells were measured in another session than others: their differences include the time "
            "between"
        )
    if failures:
        found.append(f"{len(failures)} measurements failed; --resume tries them again")
    return found
