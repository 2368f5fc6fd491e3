"""What a sweep's store holds so far, judged: drift, cells, the load generator's certificate, and whether it is enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness import measuring, recorded
from harness.cell import Cell, Replicate
from harness.deciding import stopping
from harness.deciding.certificate import certificate
from harness.deciding.drift import FEWEST_STEADY, Drift, drift_of
from harness.deciding.efficiency import efficiency, seconds_of
from harness.judging import audit
from harness.plan import CELL, CONTROL, NULL, Plan
from harness.store import Prediction, Store

Rows = Sequence[tuple[int, Replicate]]
Replicates = Mapping[str, Rows]


@dataclass(frozen=True, slots=True)
class State:
    """A sweep as far as it is measured.

    Attributes
    ----------
    replicates : mapping of str to (mapping of str to sequence of (session, Replicate))
        By kind of visit, then by cell.
    blocks : int
        Those begun, or planned if that is more: the blocks that each cell is to have a replicate in.
    """

    plan: Plan
    blocks: int
    replicates: Mapping[str, Replicates]
    predictions: Mapping[str, Prediction]
    drift: Drift
    cells: Mapping[str, Cell]
    certificate: Mapping[str, Any]
    efficiency: Mapping[str, Any]
    decision: stopping.Decision

    def throughputs(self, kind: str, key: str) -> dict[int, float]:
        """By block, 1/s, of the replicates that count."""
        counted = counted_of(self.replicates[kind].get(key, ()), self.drift)
        return {replicate.block: recorded.throughput_of(replicate.record) for replicate in counted}


def blocks_of(plan: Plan, done: Iterable[tuple[str, str, int]]) -> int:
    """How many blocks there are to be so far: the planned ones, and the further ones that were begun."""
    return max([plan.reps, *(block + 1 for _, _, block in done)])


def read(store: Store) -> State:
    """Reads and judges all that is stored.

    Raises
    ------
    LookupError
        When the store holds no plan.
    """
    plan = store.plan()
    if plan is None:
        raise LookupError("the store holds no plan")
    replicates = {kind: store.replicates(kind) for kind in (CELL, CONTROL, NULL)}
    every = [row for rows in replicates.values() for row in _flat(rows)]
    nulls, blocks = _flat(replicates[NULL]), store.blocks()
    drift = drift_of(blocks, {(s, r.block): recorded.throughput_of(r.record) for s, r in nulls})
    sessions = store.sessions()
    proof = certificate(
        [replicate.record for replicate in counted_of(nulls, drift)],
        next(iter(replicates[NULL]), None),
        sessions[-1]["provenance"].get("clock_cost") if sessions else None,
    )
    spent, block = _pace(plan, every)
    level, _ = stopping.level_of(plan.reps, stopping.most_blocks(plan.reps, plan.budget, block))
    predictions = store.predictions()
    ceiling = proof["ceiling"]["value"] if proof["ceiling"] else None
    counted = {key: counted_of(rows, drift) for key, rows in replicates[CELL].items()}
    cells = {}
    for scenario in (planned.scenario for planned in plan.cells()):
        rows, known = replicates[CELL].get(scenario.key, ()), predictions.get(scenario.key)
        predicted = known.metrics if known else None
        used = counted.get(scenario.key, [])
        off = max((drift.off(s, r) for s, r in rows if r in used), default=0.0)
        cell = measuring.cell_of(scenario, used, predicted, level, ceiling, off)
        cells[scenario.key] = replace(cell, replicates=tuple(replicate for _, replicate in rows))
    begun = {replicate.block for _, replicate in every}
    evidence = stopping.Evidence(
        rates={
            key: [recorded.throughput_of(replicate.record) for replicate in used]
            for key, used in counted.items()
            if key in cells and not cells[key].broken
        },
        blocks=max(begun, default=-1) + 1,
        steady=len(begun - {block for _, block in drift.drifted}),
        spent=spent,
        block=block,
    )
    decision = stopping.decide(evidence, plan.reps, plan.precision, plan.budget)
    every_block = max(plan.reps, evidence.blocks)
    spared = efficiency(blocks, every)
    return State(plan, every_block, replicates, predictions, drift, cells, proof, spared, decision)


def counted_of(rows: Rows, drift: Drift) -> list[Replicate]:
    """The replicates that figures rest on: of steady blocks, and without those during which others had the CPUs.

    Where too few of either are left, the rest counts too, and the cell's marks say so.
    """
    steady = [replicate for session, replicate in rows if drift.keeps(session, replicate)]
    quiet = [replicate for replicate in steady if not audit.disturbed(replicate.record)]
    if len(quiet) >= FEWEST_STEADY:
        return quiet
    return steady or [replicate for _, replicate in rows]


def _pace(plan: Plan, every: Rows) -> tuple[float, float]:
    """Measuring time so far, and of one whole block, s."""
    usual = plan.seconds(1)
    known = [seconds_of(replicate.record) for _, replicate in every]
    taken = [usual if seconds is None else seconds for seconds in known]
    spent = sum(taken)
    return spent, (spent / len(taken) if taken else usual) * len(plan.visits(0))


def _flat(rows: Replicates) -> list[tuple[int, Replicate]]:
    return [row for several in rows.values() for row in several]
