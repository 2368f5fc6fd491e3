"""When a sweep stops, and how often its intervals then hold the truth: simulated with the rule itself."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sizes import sized

from harness.deciding import stopping
from harness.deciding.stopping import BLOCKS, BUDGET, INTERVAL, Evidence
from models import quantiles

NARROW, WIDE = [100.0, 100.5, 99.5, 100.2, 99.8], [100.0, 120.0, 80.0, 110.0, 90.0]
DONE = Evidence({"a": NARROW, "b": NARROW}, 5, 5, spent=50.0, block=10.0)


def decide(evidence, reps=5, precision=0.05, budget=None):
    return stopping.decide(evidence, reps, precision, budget)


def test_the_planned_blocks_are_measured_in_any_case():
    assert decide(replace(DONE, blocks=4, steady=4)).reason is None
    assert decide(replace(DONE, blocks=4, steady=4), budget=0.0).reason is None


def test_narrow_intervals_end_it_and_wide_ones_go_on_within_the_budget():
    assert decide(DONE).reason == INTERVAL
    wide = replace(DONE, rates={"a": NARROW, "b": WIDE})
    assert decide(wide).reason is None
    assert decide(wide, budget=59.0).reason == BUDGET
    assert decide(wide, budget=60.0).reason is None
    assert decide(replace(wide, blocks=6, steady=6, spent=60.0)).reason == BUDGET
    assert decide(replace(wide, blocks=20, steady=20, spent=200.0), budget=1e6).reason == BLOCKS
    assert decide(replace(wide, blocks=19, steady=19, spent=190.0), budget=1e6).reason is None


def test_drifted_blocks_do_not_count_to_the_planned_ones():
    assert decide(replace(DONE, steady=4)).reason is None
    assert decide(replace(DONE, blocks=6, steady=5)).reason == INTERVAL
    assert decide(replace(DONE, blocks=6, steady=4)).reason == BUDGET


def test_few_planned_blocks_are_not_looked_at_before_there_are_five():
    three = Evidence({"a": NARROW[:3]}, 3, 3, 30.0, 10.0)
    assert (
        decide(three, reps=3).reason == INTERVAL
    )  # the default budget holds no fourth: no look can be chosen
    assert decide(three, reps=3).rule == "fixed"
    assert decide(three, reps=3, budget=100.0).reason is None
    assert decide(Evidence({"a": NARROW}, 5, 5, 50.0, 10.0), reps=3, budget=100.0).reason == INTERVAL


def test_without_a_sound_cell_nothing_asks_for_more():
    found = decide(replace(DONE, rates={}))
    assert found.reason == BLOCKS and math.isnan(found.widest) and found.to_json()["widest"] is None


@pytest.mark.parametrize(
    ("evidence", "budget", "says"),
    [
        (
            DONE,
            None,
            "stopped after 5 blocks: every sound cell's interval of throughput is within ±5.0% (widest",
        ),
        (replace(DONE, rates={"a": WIDE}), 0.0, "stopped after 5 blocks: the budget holds no further block"),
        (
            replace(DONE, blocks=6),
            None,
            "stopped after 6 blocks, 1 of them while the machine's speed had shifted",
        ),
        (replace(DONE, blocks=1, steady=1), None, "1 block: not finished"),
        (replace(DONE, rates={}), None, "stopped after 5 blocks: no cell is sound, which further"),
    ],
)
def test_it_says_why(evidence, budget, says):
    assert says in stopping.text(decide(evidence, budget=budget).to_json(), 0.05)


def coverage(sweeps, cv, cells=1, shared=0.0, budget=1e9, level=None, tails=None):
    """Share of intervals that hold the true mean when the rule has stopped; all sweeps have the same scatter."""
    generator = np.random.default_rng(round(1e4 * cv) + cells + round(100 * shared))
    own, common = (math.sqrt(math.log1p(x**2)) for x in (cv, shared))
    truth = (
        1.0 if tails else math.exp((own**2 + common**2) / 2)
    )  # Student's has no mean logarithmically: about 1
    held = 0
    for _ in range(sweeps):
        drawn = (
            generator.standard_t(tails, (cells, 20)) / math.sqrt(3)
            if tails
            else generator.normal(size=(cells, 20))
        )
        logs = own * drawn + generator.normal(0, common, (1, 20))
        rates = np.exp(logs).tolist()
        for blocks in range(5, 21):
            seen = {str(i): row[:blocks] for i, row in enumerate(rates)}
            found = decide(Evidence(seen, blocks, blocks, float(blocks), 1.0), budget=budget)
            if found.reason:
                break
        for row in seen.values():
            interval = quantiles.interval(row, level or found.level)
            held += interval.low <= truth <= interval.high
    return held / (sweeps * cells), found.coverage


SIZES = 600, 2000  # sweeps


def fair(share, sweeps):
    """Whether intervals of 95 % hold the truth so often, by two standard errors."""
    return share >= 0.95 - 2.1 * math.sqrt(0.95 * 0.05 / sweeps)


@sized("sweeps", *SIZES)
@pytest.mark.parametrize("cv", [0.01, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2])
def test_intervals_of_one_cell_hold_the_truth_with_the_rule_in_force(cv, sweeps):
    for budget in (None, 1e9):
        found, promised = coverage(sweeps, cv, budget=budget)
        assert fair(found, sweeps)
        assert found >= promised - 2.6 * math.sqrt(promised * (1 - promised) / sweeps)


@sized("sweeps", *SIZES)
@pytest.mark.parametrize(("cv", "shared"), [(0.05, 0.0), (0.1, 0.0), (0.05, 0.07), (0.02, 0.15)])
def test_intervals_of_several_cells_hold_the_truth_with_the_rule_in_force(cv, shared, sweeps):
    for budget in (None, 1e9):
        assert fair(coverage(sweeps, cv, cells=4, shared=shared, budget=budget)[0], sweeps)


@sized("sweeps", *SIZES)
@pytest.mark.parametrize("budget", [None, 1e9])
def test_heavier_tails_are_covered_too(budget, sweeps):
    assert fair(coverage(sweeps, 0.09, budget=budget, tails=3)[0], sweeps)


def test_plain_intervals_would_hold_it_less_often():
    assert coverage(2000, 0.09, level=0.95)[0] < 0.935
