"""Weights of a birth-death chain, safe from overflow and underflow however long it is."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def weights(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Relative probabilities of the states 0…N, the largest near 1, from steps[n] = ln p(n+1)/p(n).

    Logarithms are added up from the most probable state outwards, so that neither factorials nor powers overflow
    and rounding is least where the probability is.
    """
    rough = np.concatenate([[0.0], np.cumsum(steps)])
    mode = int(np.argmax(rough))
    up = np.cumsum(steps[mode:])
    down = -np.cumsum(steps[:mode][::-1])[::-1]
    return np.asarray(np.exp(np.concatenate([down, [0.0], up])))


def probabilities(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of the states 0…N from steps[n] = ln p(n+1)/p(n)."""
    found = weights(steps)
    return np.asarray(found / found.sum(), dtype=np.float64)


def mean(share: NDArray[np.float64], value: NDArray[np.float64]) -> float:
    """Σ share × value, added up in pairs: one core's work, with less rounding than a dot product."""
    return float((share * value).sum())


def held(flow: NDArray[np.float64], many: int) -> NDArray[np.float64]:
    """flow for 1…N requests; its last value holds for more than it was given for."""
    return np.asarray(flow[np.minimum(np.arange(many), len(flow) - 1)])


def beside(many: int, pause: float, flow: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of 0…N requests at a station that finishes flow[n−1] of them a second when n are there; others think."""
    if pause == 0:
        return np.append(np.zeros(many), 1.0)
    return probabilities(np.log(np.arange(many, 0, -1)) - math.log(pause) - np.log(held(flow, many)))
