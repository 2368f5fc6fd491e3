"""Makes a sweep's JSON document, the one that other programs rely on, from its store."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from harness import calibrate
from harness.cell import Cell
from harness.deciding import state, stopping
from harness.deciding.comparing import compare
from harness.deciding.state import State
from harness.plan import CELL, CONTROL, NULL, Plan, PlannedCell
from harness.store import Failure, Prediction, Store
from models import quantiles
from models.metrics import Estimate
from models.series import Point, Series

SCHEMA_VERSION = 1


def document(store: Store) -> dict[str, Any]:
    """The document of all that is stored so far: {schema_version, sweep, cells, series}."""
    now = state.read(store)
    plan, planned = now.plan, now.plan.cells()
    sessions, failures = store.sessions(), store.failures()
    cpus = int((sessions[-1]["provenance"].get("cpus") if sessions else None) or 1)
    series, rows = [], []
    for index, fixed in enumerate(dict.fromkeys(cell.fixed for cell in planned)):
        members = [cell for cell in planned if cell.fixed == fixed]
        series.append(_series(now, members, cpus).to_json())
        rows += [
            _cell_json(plan, cell, index, now.cells[cell.scenario.key], now.predictions, failures)
            for cell in members
        ]
    search = store.meta("search")
    return {
        "schema_version": SCHEMA_VERSION,
        "sweep": {
            "id": store.meta("id"),
            **plan.to_json(),
            **({"search": search} if search else {}),
            "complete": _complete(store, now),
            "started": sessions[0]["started"] if sessions else None,
            "sessions": len(sessions),
            "stopping": _stopping(now, search),
            "efficiency": dict(now.efficiency),
            "certificate": dict(now.certificate),
            "noise": _noise(now),
            "warnings": [*_costs_warnings(store, sessions), *_warnings(now, failures)],
            "provenance": sessions[-1]["provenance"] if sessions else None,
        },
        "cells": rows,
        "series": series,
    }


def _complete(store: Store, now: State) -> bool:
    """Whether all that the plan, the further blocks and the stopping rule ask for is there."""
    search = store.meta("search")
    if search:
        return bool(search["stopped"])
    blocks = range(now.blocks)
    expected = [(v.kind, v.scenario.key, block) for block in blocks for v in now.plan.visits(block)]
    return now.decision.reason is not None and store.done().issuperset(expected)


def _stopping(now: State, search: Mapping[str, Any] | None) -> dict[str, Any]:
    """Why no further block was measured; a search stops by a rule of its own."""
    found = now.decision.to_json()
    if search:
        from harness.limit.finding import sentence

        stopped = search["stopped"]
        said = (
            f"{sentence(search)}; {stopped}" if search.get("limit", {}).get("value") is not None else stopped
        )
        return {**found, "rule": "search", "reason": stopped or None, "coverage": None, "says": said}
    return {**found, "says": stopping.text(found, now.plan.precision)}


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


def _series(now: State, members: Sequence[PlannedCell], cpus: int) -> Series:
    from models import explain

    points = []
    for member in members:
        cell, rates = now.cells[member.scenario.key], [math.nan] * now.blocks
        for block, rate in now.throughputs(CELL, member.scenario.key).items():
            rates[block] = rate
        points.append(
            Point(member.x, cell.measured, cell.predicted, tuple(rates), cell.broken, cell.findings)
        )
    return explain.analyse(now.plan.axis, dict(members[0].fixed), points, cpus)


def _noise(now: State) -> dict[str, Any]:
    """How much two measurements of the same thing differ: the control cell against itself, block by block."""
    key = now.plan.control.key if now.plan.control else ""
    first, again = now.throughputs(CELL, key), now.throughputs(CONTROL, key)
    differences = [again[b] / first[b] - 1 for b in sorted(first.keys() & again.keys()) if first[b] > 0]
    null = [rate for name in now.replicates[NULL] for rate in now.throughputs(NULL, name).values()]
    spread = quantiles.interval(differences) if differences else Estimate(math.nan)
    same = compare(first, again)
    return {
        "control": key,
        "aa": differences,
        "aa_different": same.different,
        "aa_ratio": same.ratio.to_json(),
        "floor": median(map(abs, differences)) if differences else None,
        "mean": spread.to_json(),
        "null": {"throughput": (quantiles.interval(null) if null else Estimate(math.nan)).to_json()},
        "yardstick": now.drift.to_json(),
    }


def _costs_warnings(store: Store, sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Once each, what the costs that the sessions predicted with say of themselves."""
    kept = [costs for row in sessions if (costs := store.costs(row["session"]))]
    found = (calibrate.warning(costs.get("provenance", {})) for costs in kept)
    return [words for words in dict.fromkeys(found) if words]


def _warnings(now: State, failures: Sequence[Failure]) -> list[str]:
    """What a reader of the figures must know."""
    found, drift = [], now.drift
    replicates = now.replicates[CELL]
    if drift.drifted:
        shifts = ", ".join(drift.shown(name) for name in sorted(drift.drifted))
        fate = "left out" if drift.left_out else "kept, as too few others remain"
        found.append(
            f"the machine's speed shifted in {len(drift.drifted)} of {len(drift.shifts)} blocks "
            f"({shifts}): {fate}"
        )
    disturbed = 0
    for key, rows in replicates.items():
        counted = now.throughputs(CELL, key)
        disturbed += sum(drift.keeps(session, r) and r.block not in counted for session, r in rows)
    if disturbed:
        runs = "1 run" if disturbed == 1 else f"{disturbed} runs"
        found.append(f"{runs} left out, as others had the CPUs meanwhile (steal, neighbours)")
    sessions = [{session for session, _ in rows} for rows in replicates.values()]
    if sessions and not set.intersection(*sessions):
        found.append(
            "some cells were measured in another session than others: their differences include the time "
            "between"
        )
    if failures:
        found.append(f"{len(failures)} measurements failed; --resume tries them again")
    return found
