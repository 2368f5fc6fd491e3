"""Intervals of replicates: they cover what they should, and never hold what cannot be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import quantiles


@given(st.lists(st.floats(1e-6, 1e9), min_size=2, max_size=10))
def test_an_interval_of_positive_values_is_positive_and_holds_their_mean(values: list[float]) -> None:
    found = quantiles.interval(values)
    assert 0 < found.low <= found.value * (1 + 1e-12) and found.value <= found.high * (1 + 1e-12)


def test_one_value_has_no_interval() -> None:
    found = quantiles.interval([3.0])
    assert found.value == 3.0 and math.isnan(found.low) and math.isnan(found.high)


@pytest.mark.parametrize("scatter", [0.02, 0.2])
@pytest.mark.parametrize("n", [3, 5])
def test_intervals_cover_the_mean_as_often_as_they_say(n: int, scatter: float) -> None:
    random, draws = np.random.default_rng(7), 4000
    variance = math.log1p(scatter**2)
    values = random.lognormal(-variance / 2, math.sqrt(variance), (draws, n))
    covered = sum(found.low <= 1 <= found.high for found in map(quantiles.interval, values.tolist()))
    assert abs(covered / draws - 0.95) < 4 * math.sqrt(0.95 * 0.05 / draws)


def test_values_with_a_zero_keep_the_plain_interval() -> None:
    found = quantiles.interval([0.0, 2.0])
    assert found.value == 1.0 and found.low < 0 < found.high
