"""A/A: the same thing measured as two, two hundred times, is called different no more often than the level says."""

from __future__ import annotations

import random

import pytest
from scipy.stats import binom

from harness import measuring, recorded
from harness.deciding.comparing import compare
from models.scenario import Scenario

PAIRS, BLOCKS, LEVEL = 200, 5, 0.05


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_measurements_of_the_same_are_called_different_as_often_as_the_level_says():
    scenario = Scenario.of("synthetic", "select", options={"clients": 8, "think": 0.0005})
    order = random.Random(1)
    alarms = 0
    for pair in range(PAIRS):
        rates: dict[str, dict[int, float]] = {"a": {}, "b": {}}
        for block in range(BLOCKS):
            for name in order.sample(["a", "b"], 2):
                seed = pair * BLOCKS + block
                record = measuring.measure_once(scenario, window=0.1, warmup=0.03, block=seed).record
                rates[name][block] = recorded.throughput_of(record)
        alarms += compare(rates["a"], rates["b"]).different
    low, high = binom.interval(0.99, PAIRS, LEVEL)
    print(
        f"{alarms} of {PAIRS} pairs called different at the {LEVEL:.0%} level; 99 % interval {low:.0f} to {high:.0f}"
    )
    assert low <= alarms <= high
