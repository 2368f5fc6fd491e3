"""Runs in which others had the CPUs: made again at once, and left out of the figures while enough remain."""

import fakes

from harness import measuring, sweeping
from harness.cell import Replicate
from harness.deciding import drift, state
from harness.plan import CELL, Plan, Visit
from models.scenario import Scenario


def test_runs_in_which_others_had_the_cpus_are_left_out_while_enough_remain():
    scenario = Scenario.of("stock", "select")

    def rows(steals):
        for block, steal in enumerate(steals):
            yield 1, Replicate(str(block), 0.0, block, {**fakes.clean(scenario), "steal": steal * fakes.CPUS})

    def counted(*steals):
        return [replicate.block for replicate in state.counted_of(tuple(rows(steals)), drift.drift_of([]))]

    assert counted(0, 0.01, 0.2, 0, 0.03) == [0, 1, 3]
    assert counted(0, 0.2, 0.2, 0, 0.03) == [0, 1, 2, 3, 4], "too few would be left: the cell's mark says so"


def test_a_run_in_which_others_had_the_cpus_is_made_again_at_once(monkeypatch):
    scenario, steals, asked = Scenario.of("stock", "select"), [0.3, 0.1, 0.0], []

    def measure_once(scenario, **settings):
        record = {**fakes.clean(scenario), "steal": steals[len(asked)] * fakes.CPUS}
        asked.append(record)
        return Replicate(str(len(asked)), 0.0, settings["block"], record)

    monkeypatch.setattr(measuring, "measure_once", measure_once)
    plan, visit = Plan("stock", "select", "closed", (("clients", (1,)),)), Visit(CELL, scenario)
    assert sweeping._calm(plan, visit, 4).id == "2", "the calmer of two"
    assert sweeping._calm(plan, visit, 4).id == "3" and len(asked) == 3, "a calm one stands"
