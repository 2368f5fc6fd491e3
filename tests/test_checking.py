"""What the models are off by is learnt from the ladder's rungs, each predicted with costs that were fitted without it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from calibrated import Machine

from harness import calibrate
from harness.calibrating import checking, ladder
from harness.calibrating.ladder import ALONE, RUNGS, Reading, Rung
from models import des
from models.costs import Costs
from models.metrics import Estimate, Metrics
from models.scenario import Scenario
from models.uncertainty import discrepancy_of

TRUTH = 5e4


def model(monkeypatch: pytest.MonkeyPatch, noise: float = 0.0) -> np.random.Generator:
    """A model that predicts the same cycle of a client everywhere."""
    random = np.random.default_rng(4)

    def prepared(scenario: Scenario, costs: Costs) -> Any:
        cycle = scenario.number("think") + scenario.number("clients") / TRUTH

        def simulate(costs: Costs, **told: Any) -> tuple[Metrics, dict[str, Any]]:
            rate = scenario.number("clients") / cycle * math.exp(noise * random.standard_normal())
            counters = {"server_cpu": 1 / TRUTH, "load_cpu": 1 / TRUTH}
            return Metrics(Estimate(rate), Estimate(cycle), counters=counters), {}

        return simulate

    monkeypatch.setattr(des, "prepared", prepared)
    return random


def reading(rung: Rung, off: float, noise: float = 0.0) -> Reading:
    """A run of a machine that is slower than the model says by that factor, thinking aside."""
    cycle = (rung.think + rung.clients / TRUTH * off) * (1 + noise)
    return Reading(rung.clients / cycle, off / TRUTH, off / TRUTH, 1.0, 1.0, 0.0, {})


def asked(rung: Rung, scenario: Scenario) -> Costs:
    return Costs(2, {})


def test_what_all_rungs_miss_by_is_learnt_in_thinking_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model(monkeypatch)
    found = checking.checks({rung: [reading(rung, 1.08)] * 3 for rung in RUNGS}, asked)
    assert {check.source for check in found} == {r.name for r in RUNGS if not r.spins and r != ALONE}
    for check in found:
        assert check.predicted / check.measured == pytest.approx(1 / 1.08)
    assert checking.discrepancy(found) == pytest.approx(math.log(1.08))
    assert checking.discrepancy([]) == 0.0


def test_chance_is_not_taken_for_the_models_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    random, learnt, plain = model(monkeypatch, noise=0.02), [], []
    saturated = [rung for rung in RUNGS if not rung.think]
    for spread in (0.0, 0.06):
        each = []
        for _ in range(60):
            readings = {
                rung: [
                    reading(rung, factor, 0.05 * random.standard_normal())
                    for factor in [math.exp(spread * random.standard_normal())] * 4
                ]
                for rung in saturated
            }
            found = checking.checks(readings, asked)
            each.append(checking.discrepancy(found) ** 2)
            plain.append(checking.discrepancy([replace(check, error=0.0) for check in found]) ** 2)
        learnt.append(math.sqrt(np.mean(each)))
    assert learnt[0] < 0.02 < math.sqrt(np.mean(plain[:60]))
    assert learnt[1] == pytest.approx(0.06, rel=0.15)


def test_a_rungs_own_readings_have_no_part_in_its_prediction() -> None:
    machine = Machine(1)
    readings, rows = machine.climb(), machine.probes()
    rung = Rung("select", 16, place="two")
    strange = {**readings, rung: [replace(r, load=9 * r.load, server=9 * r.server) for r in readings[rung]]}
    scenario = rung.scenario(0)
    with_it, without = (calibrate._without(rung, scenario, each, rows) for each in (strange, readings))
    assert with_it.values() == without.values()
    assert with_it.demand(scenario).mean < 1e-5


def test_calibration_keeps_what_it_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(1)
    model(monkeypatch)
    monkeypatch.setattr(calibrate, "_climb", lambda *told: (machine.climb(), machine.probes(), 4))
    known = Costs.from_json(calibrate.measure().to_json())
    assert discrepancy_of(known) > 0  # readings of a machine that this model knows nothing of
    assert len(known.provenance["checks"]) == sum(not r.spins for r in RUNGS) - 1
    assert {"source", "measured", "predicted", "error"} == set(known.provenance["checks"][0])
    assert ladder.LATENCY in known.covariance.names
