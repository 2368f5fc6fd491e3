"""The measured peak as a set: critical values against tables, coverage by simulation, missing blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats import t as student

from models.laws import peak_set
from models.laws._peak import dunnett

# One-sided 95 % points, Dunnett 1955: (comparisons, df) to critical value.
TABLE = {(2, 5): 2.44, (3, 5): 2.68, (2, 10): 2.15, (3, 10): 2.34, (4, 10): 2.47, (3, 20): 2.19}


@pytest.mark.parametrize(("place", "value"), TABLE.items())
def test_critical_values_of_the_table(place: tuple[int, int], value: float) -> None:
    assert dunnett(*place) == pytest.approx(value, abs=0.0051)


@pytest.mark.parametrize("df", [1, 2, 4, 9, 30])
def test_one_comparison_is_students(df: int) -> None:
    assert dunnett(1, df) == pytest.approx(student.ppf(0.95, df), rel=3e-3)


def test_clear_differences_decide() -> None:
    found = peak_set(
        {1: [10, 11, 10.5, 10], 2: [20, 21, 20.4, 20.2], 3: [20.1, 21.2, 20, 20.3], 8: [15, 15, 14, 15]}
    )
    assert (found.best, found.members, found.undecided) == (2, (2, 3), False)


def test_blocks_that_differ_do_not_hide_what_each_of_them_shows() -> None:
    """Machine speed changes threefold between blocks, in each of which 4 is 3 % better than 2."""
    speed = [1.0, 3.0, 0.5, 1.7, 2.2]
    jitter = [1.001, 0.999, 1.0, 1.002, 0.998]
    blocks = {2: [100 * s for s in speed], 4: [103 * s * j for s, j in zip(speed, jitter, strict=True)]}
    assert peak_set(blocks).members == (4,)
    assert peak_set({**blocks, 4: list(reversed(blocks[4]))}).members == (2, 4)


def test_one_block_decides_nothing() -> None:
    found = peak_set({1: [10.0], 4: [30.0], 2: [20.0]})
    assert (found.best, found.members, found.undecided) == (4, (1, 2, 4), True)
    assert peak_set({3: [5.0, 6.0]}).undecided
    apart = peak_set({1: [10.0, math.nan], 2: [math.nan, 20.0]})
    assert (apart.members, apart.undecided) == ((1, 2), True)


def test_missing_blocks_and_values() -> None:
    nan = math.nan
    found = peak_set(
        {1: [10, 11, nan, 10], 2: [20, nan, 20.4, 20.2], 3: [20.1, 21.2, 20], 8: [nan, 15, 14, 15], 9: [nan]}
    )
    assert (found.best, found.members, found.undecided) == (3, (2, 3), False)
    # Without the last block, which was fast, 2 only looks worse; and what is best by its mean stays in.
    slow = peak_set({1: [50, 52, 49, 102], 2: [52, 54, 51, nan]})
    assert slow.best == 1
    assert slow.members == (1, 2)


def test_zeros_are_throughputs() -> None:
    found = peak_set({1: [0, 0, 0], 2: [20, 21, 20.4], 3: [20.1, 21.2, 20]})
    assert found.members == (2, 3)
    assert peak_set({1: [0, 0], 2: [0, 0]}).members == (1, 2)
    assert peak_set({1: [5, 5, 5], 2: [5, 5, 5], 4: [7, 7, 7]}).members == (4,)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [({}, "nothing was measured"), ({1: [math.nan]}, "nothing was measured"), ({1: [-1.0]}, "not negative")],
)
def test_no_throughputs(blocks: dict[float, list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        peak_set(blocks)
    with pytest.raises(ValueError, match="between 0 and 1"):
        peak_set({1: [1.0, 2.0]}, level=95)


def test_a_higher_level_keeps_more() -> None:
    rng = np.random.default_rng(5)
    blocks = {k: list(100 - 2 * abs(k - 3) + rng.normal(0, 1.5, 4)) for k in range(1, 8)}
    sets = [set(peak_set(blocks, level).members) for level in (0.5, 0.9, 0.99)]
    assert sets[0] <= sets[1] <= sets[2]
    assert len(sets[0]) < len(sets[2])


CASES = {
    "all equal": ((0.0,) * 6, (0.03,) * 6, 3),
    "two blocks": ((0.0,) * 8, (0.03,) * 8, 2),
    "scatter differs": ((0.0,) * 6, (0.09, 0.02, 0.02, 0.09, 0.02, 0.02), 3),
    "two noisy ones lead": ((0.0, 0.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0), (0.1, 0.1) + (0.015,) * 6, 5),
}


@pytest.mark.parametrize("case", CASES)
def test_coverage(case: str) -> None:
    """The best is in the set: not significantly less often than 95 % in 300 draws, with noisy blocks."""
    means, scatter, count = CASES[case]
    rng, draws, hits = np.random.default_rng(8), 300, 0
    for _ in range(draws):
        speed = rng.normal(0, 0.1, count)
        table = np.exp(
            np.add.outer(np.array(means), speed)
            + np.array(scatter)[:, None] * rng.normal(size=(len(means), count))
        )
        found = peak_set({k: list(1000 * row) for k, row in enumerate(table)})
        hits += 0 in found.members
        assert found.best in found.members
    assert binom.cdf(hits, draws, 0.95) > 0.002, hits / draws


def test_the_set_shrinks_with_more_blocks() -> None:
    """A smooth peak at 3 of ten values, 3 % noise: the sets narrow to its nearest neighbours."""
    rng = np.random.default_rng(9)
    sizes = []
    for count in (2, 5, 10):
        draws = [
            {k: list(1000 * np.exp(-0.02 * (k - 3) ** 2 + rng.normal(0, 0.03, count))) for k in range(1, 11)}
            for _ in range(60)
        ]
        sizes.append(np.mean([len(peak_set(blocks).members) for blocks in draws]))
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[2] < 3.5
