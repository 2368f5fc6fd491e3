"""Two regimes are told where runs fall in two, and nowhere else."""

import numpy as np
import pytest

from models.regimes import regimes


@pytest.mark.parametrize("count", [20, 40, 130])
def test_what_scatters_about_one_middle_has_one(count):
    random = np.random.default_rng(count)
    for _ in range(300):
        assert regimes(np.exp(0.1 * random.standard_normal(count)).tolist()) == ()
    assert regimes(np.linspace(1, 2, count).tolist()) == ()


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_two_groups_are_found_with_their_shares(share):
    random = np.random.default_rng(1)
    few = round(40 * share)
    values = np.repeat([40_000.0, 52_000.0], [few, 40 - few]) * np.exp(0.01 * random.standard_normal(40))
    low, high = regimes(random.permutation(values).tolist())
    assert low.value == pytest.approx(40_000, rel=0.01) and high.value == pytest.approx(52_000, rel=0.01)
    assert (low.share, high.share) == pytest.approx((share, 1 - share))


def test_groups_that_are_close_or_a_stray_run_are_none():
    assert regimes([100.0] * 20 + [103.0] * 20) == ()
    assert regimes([100.0] * 39 + [200.0]) == ()
    assert regimes([5.0] * 40) == regimes([1.0, 2.0]) == regimes([]) == ()
