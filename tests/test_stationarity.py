"""Whether a change of throughput is told from chance: simulated servers, steady and not, whose speed wanders."""

import math

import fakes
import numpy as np
import pytest

from harness.judging import audit
from harness.judging.marks import TABLE


def wandering(generator, alike, sweeps, replicates=5, spread=0.3):
    """Bins of steady servers whose speed wanders: each like the one before it."""
    step = spread * math.sqrt(1 - alike**2)
    level = generator.normal(0, spread, (sweeps, replicates))
    bins = []
    for _ in range(fakes.BINS):
        bins.append(1000 * np.maximum(1 + level, 0))
        level = alike * level + generator.normal(0, step, level.shape)
    return np.stack(bins, axis=2)


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.8])
def test_steady_replicates_whose_speed_wanders_are_seldom_called_otherwise(alike):
    limit, sweeps = TABLE["stationarity"].limit, wandering(np.random.default_rng(1), alike, 500)
    assert sum(audit._change(bins) > limit for bins in sweeps) <= 0.1 * len(sweeps)


@pytest.mark.parametrize(
    "shape", [np.linspace(0, 0.3, 20), np.arange(20) // 16 * 0.5, -np.exp(-np.arange(20) / 4)]
)
def test_a_change_that_all_replicates_make_is_seen_though_their_speed_wanders(shape):
    sweeps = wandering(np.random.default_rng(2), 0.5, 100, spread=0.05) * (1 + shape)
    limit = TABLE["stationarity"].limit
    assert sum(audit._change(bins) > limit for bins in sweeps) >= 0.95 * len(sweeps)
