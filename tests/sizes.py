"""Simulations of two sizes: one that a wrong interval cannot pass; with -m long, one that a nearly right one cannot."""

from __future__ import annotations

import math

import pytest


def sized(name: str, small: float, full: float) -> pytest.MarkDecorator:
    """Runs a test with the small size, and with the full one behind -m long."""
    return pytest.mark.parametrize(name, [small, pytest.param(full, marks=pytest.mark.long)])


def fewest(trials: int, share: float = 0.95, chance: float = 0.01) -> int:
    """So many of the trials come out at least, but for such a chance, if that share of all does."""
    below = 0.0
    for count in range(trials + 1):
        below += math.comb(trials, count) * share**count * (1 - share) ** (trials - count)
        if below > chance:
            return count
    return trials
