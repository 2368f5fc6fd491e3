"""Two equal cells are called different as often as the level says, and unequal ones are told apart."""

import math

import numpy as np
import pytest

from harness.deciding.comparing import compare


def blocks(values):
    return dict(enumerate(values))


def alarms(scatter, drift, pairs=2000, n=5):
    """How many of so many pairs of equal cells are called different; whole blocks are faster or slower by `drift`."""
    generator = np.random.default_rng(7)
    found = 0
    for _ in range(pairs):
        level = np.exp(generator.normal(0, drift, n)) * 50_000
        first, second = (level * np.exp(generator.normal(0, scatter, n)) for _ in range(2))
        found += compare(blocks(first), blocks(second)).different
    return found


@pytest.mark.parametrize(
    ("scatter", "drift", "n"), [(0.01, 0.0, 5), (0.05, 0.2, 5), (0.2, 0.05, 3), (0.02, 0.4, 12)]
)
def test_equal_cells_are_called_different_as_often_as_the_level_says(scatter, drift, n):
    count = alarms(scatter, drift, n=n)
    spread = 1.96 * math.sqrt(2000 * 0.05 * 0.95)
    assert 100 - spread <= count <= 100 + spread


def test_drift_of_whole_blocks_hides_no_difference():
    first = blocks([100.0, 50.0, 200.0, 120.0])
    second = {block: rate * x for (block, rate), x in zip(first.items(), (1.1, 1.11, 1.09, 1.1), strict=True)}
    found = compare(first, second)
    assert found.different and found.pairs == 4 and found.ratio.value == pytest.approx(1.1, rel=0.01)
    assert 1 < found.ratio.low < 1.1 < found.ratio.high
    back = compare(second, first)
    assert back.different and back.ratio.low == pytest.approx(1 / found.ratio.high)


def test_blocks_that_lack_either_make_no_pair():
    found = compare({0: 10.0, 1: 11.0, 2: 0.0, 5: 9.0}, {0: 10.0, 2: 7.0, 5: 9.0, 6: 8.0})
    assert found.pairs == 2 and found.different is False
    assert compare({0: 1.0}, {0: 2.0}).different is None
    assert compare({0: 1.0}, {0: 2.0}).ratio.value == pytest.approx(2.0)
    assert compare({}, {0: 2.0}).to_json() == {
        "ratio": {"value": None, "low": None, "high": None},
        "pairs": 0,
        "different": None,
    }
