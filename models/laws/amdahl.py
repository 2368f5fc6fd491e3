"""Amdahl's law: a serial share of the work bounds throughput, which never falls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from models.laws._law import Array, Constant, Form, Law


def curve(n: Any, gamma: Any, sigma: Any) -> Any:
    """Throughput at N, 1/s: γN / (1 + σ(N − 1)) (Amdahl 1967; in this form Gunther 2007, ch. 4)."""
    load = 1 + sigma * (n - 1)
    return gamma * n / np.where(load > 0, load, 1.0)  # 0 at N = 0, where the load vanishes if σ = 1


def slopes(n: Any, gamma: Any, sigma: Any) -> tuple[Any, Any]:
    by_gamma = n / (1 + sigma * (n - 1))
    return by_gamma, -gamma * by_gamma**2 * (n - 1) / n


def linearised(n: Array, x: Array, weights: Array, powers: int) -> Array:
    """N/X fitted by 1, N, N², … with the weights that X's variance gives N/X; zeros in X are harmless."""
    roots = np.sqrt(weights) * x
    columns = np.stack([roots * x / n * n**power for power in range(powers)], axis=1)
    return np.asarray(np.linalg.lstsq(columns, roots, rcond=None)[0], dtype=np.float64)


def starts(n: Array, x: Array, weights: Array) -> list[tuple[float, ...]]:
    rate = float(np.max(x / n))
    found: list[tuple[float, ...]] = [(rate, 0.0), (rate, 0.1), (float(np.mean(x)), 1.0)]
    at_zero, slope = linearised(n, x, weights, 2)
    if at_zero + slope > 0:
        found.append((1 / (at_zero + slope), slope / (at_zero + slope)))
    return found


def peak(gamma: float, sigma: float) -> float:
    """Infinite: the curve rises or is flat."""
    return math.inf


LAW = Law(
    name="amdahl",
    summary="X(N) = γN / (1 + σ(N−1))",
    form=Form(
        constants=(Constant("gamma", "1/s"), Constant("sigma", "1", 0.0, 1.0)),
        curve=curve,
        slopes=slopes,
    ),
    starts=starts,
    peak=peak,
)
