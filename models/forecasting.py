"""A prediction with the interval that holds the truth: simulated with one draw of the costs after another.

The truth is a measured cell, the mean over several fresh processes on one machine. All of them have the same costs, which
are one draw; each has its own places for its threads, so that each replication here is dealt its own too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from models import replicating, sensitivity, uncertainty, what_if
from models.costs import Costs, demand_key
from models.metrics import Metrics
from models.scenario import Scenario, ScenarioError
from models.sensitivity import Sensitivity
from models.uncertainty import Spread
from models.wording import figure, percent

Simulate = Callable[..., tuple[Metrics, dict[str, Any]]]
Prepare = Callable[..., Simulate]

EACH = 2  # replications with each draw: they tell a simulation's noise from what the draw does
FIRST, MOST = 20, 64  # draws of the first stage, and at most
REPLIES = 4000
SPAN = (
    0.3  # simulated s that a replication lasts, within so many replies: threads are moved some times a second
)
FEWEST, MANY = 500, 20_000
REPLICATES = 5  # fresh processes that a measured cell is the mean of
PRECISION, BUDGET = 0.02, 10.0
ENOUGH = 1.0  # precision that a first stage always reaches
LEAST = 1.0  # s for one simulation, whatever the budget: that a busy machine begins it late is not to end it
SHORT = 200  # replies that show whether a cost is used at all
PILOT = 2**31  # number of the replication that tells the throughput and the speed


@dataclass(frozen=True, slots=True)
class Forecast:
    """A prediction.

    Attributes
    ----------
    metrics : Metrics
        Medians of what is possible; the intervals of throughput and mean response hold what is measured. Quantiles are those
        of single draws, not of all replies together, which would be those of a machine whose costs change all the time.
    spreads : mapping of str to Spread
        throughput, response (its mean), p50, p90 and p99, with what their intervals are made of.
    draws : int
    engine : mapping
        {name, jobs_per_second}.
    reason : str
        Why there are not more draws: precision or budget.
    replicates : int
        Measured runs whose mean the intervals hold.
    """

    metrics: Metrics
    spreads: Mapping[str, Spread]
    draws: int
    engine: Mapping[str, Any]
    reason: str
    replicates: int = REPLICATES

    def to_json(self) -> dict[str, Any]:
        spreads = {name: spread.to_json() for name, spread in self.spreads.items()}
        return {
            "draws": self.draws,
            "reason": self.reason,
            "replicates": self.replicates,
            "figures": spreads,
        }


def alone(costs: Costs, scenario: Scenario) -> Costs:
    """The costs with the scenario's demand and no other."""
    return replace(costs, demands={demand_key(scenario): costs.demand(scenario)})


def stream(scenario: Scenario, *purpose: int) -> np.random.SeedSequence:
    """Random numbers of a scenario's own: the same for the same scenario."""
    return np.random.SeedSequence(scenario.seed, spawn_key=(int(scenario.key, 16) % 2**32, *purpose))


@dataclass(slots=True)
class _Runs:
    """Simulates draw after draw while the budget lasts, and keeps what came."""

    simulate: Simulate
    draws: Iterator[Costs]
    budget: float
    replies: int
    found: list[list[Metrics]] = field(default_factory=list)
    about: list[dict[str, Any]] = field(default_factory=list)

    def throughputs(self) -> Iterator[float]:
        begun = time.perf_counter()
        for drawn in self.draws:
            if len(self.found) >= 2 and time.perf_counter() - begun > self.budget:
                return
            row = []
            for _ in range(EACH):
                number = len(self.about)
                metrics, about = _replication(self.simulate, drawn, number, self.replies, self.budget)
                row.append(metrics)
                self.about.append(about)
            self.found.append(row)
            yield math.fsum(metrics.throughput.value for metrics in row) / EACH


def _replication(
    simulate: Simulate, costs: Costs, number: int, replies: int, budget: float
) -> tuple[Metrics, dict[str, Any]]:
    """One of those that share the budget, s."""
    share = max(budget / FIRST / EACH, LEAST)
    metrics, about = simulate(costs, number=number, replies=replies, budget=share)
    if not metrics.throughput.value > 0:
        raise ScenarioError(f"no reply was simulated within {share:g} s: raise the budget")
    return metrics, about


def _replies(simulate: Simulate, costs: Costs, budget: float) -> int:
    """Replies of a replication: SPAN's worth, within limits, or the half of it, or … that the first stage has time for."""
    metrics, about = _replication(simulate, costs, PILOT, REPLIES, budget)
    wanted = min(max(math.ceil(SPAN * metrics.throughput.value), FEWEST), MANY)
    while wanted > FEWEST and FIRST * EACH * wanted > about["jobs_per_second"] * budget:
        wanted = max(wanted // 2, FEWEST)
    return wanted


def _endless(costs: Costs, seed: np.random.SeedSequence, discrepancy: float) -> Iterator[Costs]:
    """Draws, made a first stage's worth at a time."""
    for _ in count():
        yield from uncertainty.draws(costs, FIRST, seed.spawn(1)[0], discrepancy)


def forecast(
    prepare: Prepare,
    scenario: Scenario,
    costs: Costs,
    *,
    precision: float = PRECISION,
    budget: float = BUDGET,
    replicates: int = REPLICATES,
    **settings: Any,
) -> Forecast:
    """Predicts the scenario with costs as uncertain as they are.

    The costs, the model's discrepancy and what simulating leaves open make the interval as wide for one measured run as for
    many; the lottery of a run, which replications with the same draw show, is divided by the root of the replicates.

    Parameters
    ----------
    prepare : callable
        models.des.prepared, or another like it.
    scenario : Scenario
    costs : Costs
        With the scenario's demand; the model's discrepancy is taken from their provenance.
    precision : float
        Half of the interval of the mean over draws, as a share, at which there are enough of them. The prediction's own
        interval stays as wide as the costs' errors make it.
    budget : float
        Wall-clock seconds after which no draw is begun; two are simulated in any case. Where a first stage would need more,
        its replications are shorter.
    replicates : int
        Fresh processes that the measurement is the mean of.
    settings
        Passed on to `prepare`.
    """
    lean = alone(costs, scenario)
    drawn = _endless(lean, stream(scenario, 2), uncertainty.discrepancy_of(costs))
    begun = time.perf_counter()
    simulate = prepare(scenario, lean, **settings)
    replies = _replies(simulate, lean, budget)
    runs = _Runs(simulate, drawn, budget - (time.perf_counter() - begun), replies)
    done = replicating.replicate(runs.throughputs(), precision, first=FIRST, most=MOST)
    spreads = {
        name: uncertainty.combine(
            [[of(m) for m in row] for row in runs.found], first=FIRST, replicates=replicates
        )
        for name, of in FIGURES.items()
    }
    speeds = [about["jobs_per_second"] for about in runs.about]
    about = {**runs.about[0], "jobs_per_second": float(np.median(speeds))}
    every = [metrics for row in runs.found for metrics in row]
    return Forecast(_merged(every, spreads), spreads, len(runs.found), about, done.reason, replicates)


FIGURES: dict[str, Callable[[Metrics], float]] = {
    "throughput": lambda metrics: metrics.throughput.value,
    "response": lambda metrics: metrics.response.value,
    "p50": lambda metrics: metrics.p50,
    "p90": lambda metrics: metrics.p90,
    "p99": lambda metrics: metrics.p99,
}


def _merged(every: Sequence[Metrics], spreads: Mapping[str, Spread]) -> Metrics:
    pairs = [metrics.operations for metrics in every]
    kinds = dict.fromkeys(name for row in pairs for name in row)
    served = [metrics.service_time for metrics in every if metrics.service_time]
    return Metrics(
        throughput=spreads["throughput"].estimate,
        response=spreads["response"].estimate,
        **{name: spreads[name].estimate.value for name in ("p50", "p90", "p99")},
        operations={
            name: (
                _mean([row[name][0] for row in pairs if name in row]),
                _mean([row[name][1] for row in pairs if name in row]),
            )
            for name in kinds
        },
        utilisation=_means([metrics.utilisation for metrics in every]),
        counters=_means([metrics.counters for metrics in every]),
        service_time=_means(served) if served else None,
    )


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each name, over the rows; where a row lacks it, nothing was counted."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: _mean([row.get(name, 0.0) for row in rows]) for name in names}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def sensitivities(
    prepare: Prepare, scenario: Scenario, costs: Costs, replies: int = REPLIES, **settings: Any
) -> list[Sensitivity]:
    """What each cost that the scenario's model uses does to the throughput; see models.sensitivity."""
    lean = alone(costs, scenario)
    simulate = prepare(scenario, lean, **settings)

    def throughput(changed: Costs, replies: int = replies) -> float:
        return simulate(changed, replies=replies)[0].throughput.value

    names = sensitivity.used(lambda changed: throughput(changed, SHORT), lean)
    return sensitivity.sensitivities(throughput, lean, names, uncertainty.discrepancy_of(costs))


def bounded(near: Forecast, distant: Forecast) -> Forecast:
    """Both forecasts' intervals together, about the nearer one: bounds."""

    def both(name: str) -> Spread:
        a, b = near.spreads[name], distant.spreads[name]
        low, high = min(a.estimate.low, b.estimate.low), max(a.estimate.high, b.estimate.high)
        return replace(a, estimate=replace(a.estimate, low=low, high=high))

    spreads = {name: both(name) for name in near.spreads}
    metrics = replace(
        near.metrics, throughput=spreads["throughput"].estimate, response=spreads["response"].estimate
    )
    return replace(near, metrics=metrics, spreads=spreads)


def supposed(
    prepare: Prepare, scenario: Scenario, costs: Costs, question: what_if.WhatIf, **settings: Any
) -> tuple[Forecast, list[str]]:
    """The forecast for a machine that is supposed, and what it is extrapolated in, if anything: then it is bounds."""
    changed, beyond = question.costs(costs), question.extrapolated(costs)
    found = forecast(prepare, scenario, changed, **settings)
    if beyond:
        found = bounded(found, forecast(prepare, scenario, what_if.far(changed), **settings))
    return found, beyond


def words(
    spread: Spread,
    rows: Sequence[Sensitivity] = (),
    beyond: Sequence[str] = (),
    unit: str = "/s",
    scale: float = 1.0,
) -> str:
    """The interval in words: between 9,800 and 11,200/s (95 %: 60 % of it from machine.wake_futex)."""
    estimate = spread.estimate
    if not math.isfinite(estimate.low):
        return f"about {figure(estimate.value * scale)}{unit} (no interval: too few draws)"
    said = f"between {figure(estimate.low * scale)} and {figure(estimate.high * scale)}{unit}"
    if beyond:
        return f"{said} (bounds, extrapolated)"
    total = spread.variance
    parts = [(row.share * spread.costs**2 / total, row.name) for row in rows] if total > 0 else []
    others = {"the simulation": spread.simulation, "where threads happen to begin": spread.lottery}
    parts += [(value**2 / total if total > 0 else 0.0, name) for name, value in others.items()]
    share, name = max(parts)
    known = bool(rows) and share >= 0.1
    return f"{said} (95 %{f': {percent(share)} of it from {name}' if known else ''}){_regimes(spread, unit, scale)}"


def _regimes(spread: Spread, unit: str, scale: float) -> str:
    """; two regimes: about 41,000/s in 30 % of runs, about 52,000/s in the others."""
    if not spread.regimes:
        return ""
    low, high = spread.regimes
    return (
        f"; two regimes: about {figure(low.value * scale)}{unit} in {percent(low.share)} of runs, "
        f"about {figure(high.value * scale)}{unit} in the others"
    )
