"""From a ladder and probes to an interval: with a truth that is known, intervals hold it as often as they say."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from calibrated import LATENCY, TRUE, Machine
from known_costs import costs as known_costs
from sizes import fewest, sized

from harness import calibrate
from models import forecasting, uncertainty
from models.costs import Costs
from models.metrics import Estimate, Metrics
from models.scenario import Scenario

OFF = 0.04  # what the models leave out, of all times
LOTTERY = 0.1  # between runs, by where their threads begin
RUNS, RUNGS = 5, 16


def cycle(costs: Any, scenario: Scenario) -> float:
    """What makes a client's cycle, s: costs that were fitted together, one that is the rest of them, and some alone."""
    fitted = costs["load.event"] + costs["sbuf.worker"] + 0.3 * costs["machine.wake_waker"]
    return (
        fitted
        + costs["machine.switch"]
        + 0.3 * (costs["machine.wake_sleeper"] + costs["machine.wake_latency"])
    )


def held(seed: int) -> bool:
    """Whether the interval of one calibration and one prediction holds one measured cell."""
    random, machine = np.random.default_rng(seed), Machine(seed, noise=0.01, equation=0.03, method=0.05)
    scenario = Scenario.of("synthetic", "sbuf", seed=seed, options={"clients": 16})
    missed = np.exp(OFF * random.standard_normal(RUNGS)).tolist()
    costs: Costs = replace(
        calibrate._fitted(machine.climb(), machine.probes()),
        demands=known_costs(scenario).demands,
        provenance={uncertainty.DISCREPANCY: uncertainty.learnt([1.0] * RUNGS, missed)},
    )

    def run(seconds: float) -> float:
        return math.exp(LOTTERY * random.standard_normal()) / seconds

    def prepare(scenario: Scenario, costs: Costs, **settings: Any) -> Any:
        def simulate(drawn: Costs, **told: Any) -> tuple[Metrics, dict[str, Any]]:
            rate = run(cycle(drawn, scenario))
            return Metrics(Estimate(rate), Estimate(1 / rate)), {"name": "none", "jobs_per_second": 1e6}

        return simulate

    found = forecasting.forecast(prepare, scenario, costs, precision=forecasting.ENOUGH, replicates=RUNS)
    truth = cycle(TRUE | {"machine.wake_latency": LATENCY}, scenario) * math.exp(
        OFF * random.standard_normal()
    )
    measured = sum(run(truth) for _ in range(RUNS)) / RUNS
    rate = found.metrics.throughput
    return rate.low <= measured <= rate.high


@sized("trials", 40, 100)
def test_the_whole_chain_holds_what_is_measured(trials: int) -> None:
    assert sum(map(held, range(trials))) >= fewest(trials)
