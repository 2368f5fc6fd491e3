"""Stations of closed product-form networks: how probable so many requests at one are, and what all the others do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from models.analytic._chain import weights

Vector = NDArray[np.float64]
Item = TypeVar("Item")
State = TypeVar("State")


def parallel(most: int, servers: float) -> Vector:
    """Requests being served with 1…most of them at a station of so many servers."""
    return np.asarray(np.minimum(np.arange(1.0, most + 1), servers))


def occupancy(demands: Vector, rate: float) -> Vector:
    """Relative probabilities of 0…N requests at a station alone with a Poisson stream of that rate, the largest near 1.

    demands[n−1] is the mean time between departures with n of them there, s.
    """
    if not demands[0] > 0:
        return np.append(1.0, np.zeros(len(demands)))
    return weights(np.log(demands) + np.log(rate))


def leave_one_out(
    items: Sequence[Item], state: State, apply: Callable[[State, Item], State]
) -> Iterator[State]:
    """For each item the state after all the others were applied, halving so that few are applied twice."""
    if len(items) == 1:
        yield state
        return
    half = len(items) // 2
    for mine, others in ((items[:half], items[half:]), (items[half:], items[:half])):
        reached = state
        for item in others:
            reached = apply(reached, item)
        yield from leave_one_out(mine, reached, apply)
