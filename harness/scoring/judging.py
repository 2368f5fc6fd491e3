"""Judges each configuration of a score: its errors, its regime, the naive bound beside it, and whether it is dropped.

The measurement decides which regime a configuration is in, not the prediction: a model must not choose the class that its
errors are counted in. R₁ and D of the naive bound are those of one client alone, measured in the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness import measuring, recorded
from harness.cell import Cell
from harness.deciding import state
from harness.deciding.drift import Drift, drift_of
from harness.plan import CELL, CONTROL, NULL
from harness.scoring.coverage import standard_score
from harness.scoring.exam import ALONE, Exam, alone_of
from harness.store import Prediction, Store
from models.analytic.bounds import naive_bound
from models.metrics import Metrics
from models.scenario import Scenario

SATURATED, THINKING, BETWEEN = "saturated", "think-limited", "between"
REGIMES = (SATURATED, THINKING, BETWEEN)
BUSY = 0.95  # share of its capacity from which on a resource is saturated
CLOSE = 0.10  # relative distance from N/(R₁ + Z) within which the clients' thinking limits
MOST_DROPPED = 0.25  # share of the configurations; more than that is no score
FEWEST = 2  # replicates of a configuration that is scored
QUANTITIES: Mapping[str, Callable[[Metrics], float]] = {
    "throughput": lambda metrics: metrics.throughput.value,
    "response": lambda metrics: metrics.response.value,
    "p99": lambda metrics: metrics.p99,
}


@dataclass(frozen=True, slots=True)
class Judged:
    """A configuration: what was predicted and measured, and what was made of them.

    Attributes
    ----------
    naive : mapping of str to float
        Throughput (1/s) and mean response time (s) by the naive bound; empty where one client alone is unknown.
    again : Metrics or None
        Of the second measurement, where there is one.
    dropped : str or None
        Why it is not scored.
    """

    scenario: Scenario
    predicted: Metrics | None
    measured: Metrics | None
    naive: Mapping[str, float] = field(default_factory=dict)
    again: Metrics | None = None
    regime: str | None = None
    dropped: str | None = None

    def error(self, quantity: str) -> float:
        """predicted / measured − 1; nan where either is unknown."""
        return _error(self.predicted, self.measured, quantity)

    def naive_error(self, quantity: str) -> float:
        """naive / measured − 1; nan where either is unknown."""
        if self.measured is None or not QUANTITIES[quantity](self.measured) > 0:
            return math.nan
        return self.naive.get(quantity, math.nan) / QUANTITIES[quantity](self.measured) - 1

    def floor(self, quantity: str) -> float:
        """Second measurement / first − 1; nan where there is none."""
        return _error(self.again, self.measured, quantity)

    def score(self) -> float:
        """How many standard deviations (of its logarithm) the measured throughput lies from the predicted one."""
        if self.predicted is None or self.measured is None:
            return math.nan
        return standard_score(self.measured.throughput.value, self.predicted.throughput)


def _error(one: Metrics | None, other: Metrics | None, quantity: str) -> float:
    if one is None or other is None:
        return math.nan
    value, reference = QUANTITIES[quantity](one), QUANTITIES[quantity](other)
    return value / reference - 1 if reference > 0 else math.nan


def drift_in(store: Store) -> Drift:
    """Which stretches ran while the machine's speed had shifted."""
    rows = [row for several in store.replicates(NULL).values() for row in several]
    return drift_of(store.blocks(), {(s, r.block): recorded.throughput_of(r.record) for s, r in rows})


def judge(store: Store, exam: Exam) -> list[Judged]:
    """Every configuration of the score, in the order of the draw."""
    evidence = _Evidence(store)
    return [evidence.judged(scenario) for scenario in exam.scenarios]


class _Evidence:
    """What a store holds of the configurations."""

    def __init__(self, store: Store) -> None:
        self._drift = drift_in(store)
        self._replicates = {kind: store.replicates(kind) for kind in (CELL, CONTROL, ALONE)}
        self._failures = {(failure.kind, failure.key): failure.message for failure in store.failures()}
        self._predictions = store.predictions()

    def judged(self, scenario: Scenario) -> Judged:
        rows = self._replicates[CELL].get(scenario.key, [])
        used = state.counted_of(rows, self._drift)
        off = max((self._drift.off(session, r) for session, r in rows if r in used), default=0.0)
        cell = measuring.cell_of(scenario, used, drift=off)
        prediction = self._predictions.get(scenario.key, Prediction(None, "it was never tried"))
        alone = self._metrics(ALONE, alone_of(scenario))
        cpus = max((int(replicate.record["cpus"]) for replicate in used), default=1)
        return Judged(
            scenario,
            prediction.metrics,
            cell.measured,
            naive_of(scenario, alone, cpus),
            self._metrics(CONTROL, scenario),
            regime_of(scenario, cell.measured, alone, cpus) if cell.measured else None,
            self._dropped(cell, len(used), prediction),
        )

    def _metrics(self, kind: str, scenario: Scenario) -> Metrics | None:
        used = state.counted_of(self._replicates[kind].get(scenario.key, ()), self._drift)
        return recorded.metrics_of([replicate.record for replicate in used]) if used else None

    def _dropped(self, cell: Cell, replicates: int, prediction: Prediction) -> str | None:
        """Why a configuration is not scored."""
        if replicates < FEWEST:
            failed = self._failures.get((CELL, cell.scenario.key))
            return failed or "not measured often enough within the budget"
        if cell.broken:
            return f"broken: {', '.join(mark.check for mark in cell.broken)}"
        if prediction.metrics is None:
            return f"not predicted: {prediction.refusal}"
        known = math.isfinite(prediction.metrics.throughput.value)
        return None if known else "not predicted: the model gave no throughput"


def naive_of(scenario: Scenario, alone: Metrics | None, cpus: int) -> dict[str, float]:
    """Throughput min(N/(R₁ + Z), CPUs/D), 1/s, and by Little's law the response time N/X − Z, s."""
    if alone is None:
        return {}
    clients, think = int(scenario.number("clients")), scenario.number("think")
    demand = alone.counters["server_cpu"] + alone.counters["load_cpu"]
    if not (demand > 0 and alone.response.value > 0):
        return {}
    rate = naive_bound(clients, alone.response.value, think, cpus, demand)
    return {"throughput": rate, "response": clients / rate - think}


def regime_of(scenario: Scenario, measured: Metrics, alone: Metrics | None, cpus: int) -> str:
    """saturated: a resource is busy; think-limited: the clients' thinking says the throughput; between: neither.

    Where threads spin, busy CPUs alone say nothing, and the clients' thinking is asked first.
    """
    think, rate = scenario.number("think"), measured.throughput.value
    freely = scenario.number("clients") / (alone.response.value + think) if alone and think > 0 else math.nan
    thinking = abs(rate / freely - 1) <= CLOSE
    use = measured.utilisation
    shares = [use.get(name, math.nan) for name in ("cpu", "load_thread", "worker")]
    if "worker" not in use:  # an event loop has one thread; several threads would use more than one CPU
        loop = use.get("server_cpu", math.nan) * cpus
        shares.append(loop if loop <= 2 - BUSY else math.nan)
    if any(share >= BUSY for share in shares) and not (thinking and scenario.get("wait") == "spin"):
        return SATURATED
    return THINKING if thinking else BETWEEN
