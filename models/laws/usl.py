"""The universal scalability law: contention bounds throughput, and coherency makes it fall beyond a peak."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from models.laws import amdahl
from models.laws._law import Array, Constant, Form, Law, Turning

POLE = 0.01  # least denominator; a curve that passes 100 times the linear one is taken to have a pole


def _load(n: Any, sigma: Any, kappa: Any) -> Any:
    return 1 + (n - 1) * (sigma + kappa * n)


def curve(n: Any, gamma: Any, sigma: Any, kappa: Any) -> Any:
    """Throughput at N, 1/s: γN / (1 + σ(N − 1) + κN(N − 1)) (Gunther 2007, ch. 4); infinite past a pole.

    There is a pole only where σ < 0, as super-linear data make it, and never among the data.
    """
    load = _load(n, sigma, kappa)
    sound = load >= POLE
    return np.where(sound, gamma * n / np.where(sound, load, 1.0), np.where(n * gamma > 0, np.inf, 0.0))


def slopes(n: Any, gamma: Any, sigma: Any, kappa: Any) -> tuple[Any, Any, Any]:
    by_gamma = n / _load(n, sigma, kappa)
    by_sigma = -gamma * by_gamma**2 * (n - 1) / n
    return by_gamma, by_sigma, by_sigma * n


def valid(low: float, high: float, gamma: Any, sigma: Any, kappa: Any) -> Any:
    """Whether there is no pole from `low` to `high`: by the least denominator there, which is a parabola."""
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = np.where(kappa > 0, (kappa - sigma) / (2 * kappa), low)
    least = np.minimum(_load(np.clip(vertex, low, high), sigma, kappa), _load(high, sigma, kappa))
    return least >= POLE


def starts(n: Array, x: Array, weights: Array) -> list[tuple[float, ...]]:
    rate, most = float(np.max(x / n)), float(np.max(n))
    found = [(*start, 0.0) for start in amdahl.starts(n, x, weights)]
    found += [(rate, 0.05, 1 / most**2), (float(np.max(x)), 1.0, 1 / most)]
    # N/X = (1 + σ(N − 1) + κN(N − 1))/γ, a parabola in N.
    a, b, c = (float(value) for value in amdahl.linearised(n, x, weights, 3))
    unit = a + b + c
    if unit > 0:
        found.append((1 / unit, (b + c) / unit, max(c / unit, 0.0)))
    return found


def peak(gamma: float, sigma: float, kappa: float) -> float:
    """N* = √((1 − σ)/κ) (Gunther 2007, ch. 4); infinite without coherency, or where a pole comes first."""
    if kappa <= 0:
        return math.inf
    place = math.sqrt(max(1 - sigma, 0.0) / kappa)
    return place if place <= 1 or valid(1.0, place, gamma, sigma, kappa) else math.inf


# The turning form: 1 − σ = r cos φ and κ = r sin φ, so that N* = √(cot φ) whatever r and γ. The angle takes
# in both ends: 0 for no peak at all, π/2 for throughput that falls from the start (σ = 1).


def _untwisted(r: Any, angle: Any) -> tuple[Any, Any]:
    return 1 - r * np.cos(angle), r * np.sin(angle)


def _turning_curve(n: Any, gamma: Any, r: Any, angle: Any) -> Any:
    return curve(n, gamma, *_untwisted(r, angle))


def _turning_slopes(n: Any, gamma: Any, r: Any, angle: Any) -> tuple[Any, Any, Any]:
    by_gamma, by_sigma, by_kappa = slopes(n, gamma, *_untwisted(r, angle))
    cos, sin = np.cos(angle), np.sin(angle)
    return by_gamma, by_kappa * sin - by_sigma * cos, r * (by_sigma * sin + by_kappa * cos)


def _turning_valid(low: float, high: float, gamma: Any, r: Any, angle: Any) -> Any:
    return valid(low, high, gamma, *_untwisted(r, angle))


def _twisted(gamma: float, sigma: float, kappa: float) -> tuple[float, ...]:
    return gamma, math.hypot(1 - sigma, kappa), math.atan2(kappa, 1 - sigma)


def _place(angle: float) -> float:
    return math.inf if angle <= 0 else math.sqrt(max(math.cos(angle), 0.0) / math.sin(angle))


LAW = Law(
    name="usl",
    summary="X(N) = γN / (1 + σ(N−1) + κN(N−1))",
    form=Form(
        constants=(
            Constant("gamma", "1/s"),
            Constant("sigma", "1", -math.inf, 1.0),
            Constant("kappa", "1"),
        ),
        curve=curve,
        slopes=slopes,
        valid=valid,
    ),
    starts=starts,
    peak=peak,
    turning=Turning(
        form=Form(
            constants=(
                Constant("gamma", "1/s"),
                Constant("r", "1"),
                Constant("angle", "1", 0.0, math.pi / 2),
            ),
            curve=_turning_curve,
            slopes=_turning_slopes,
            valid=_turning_valid,
        ),
        of=_twisted,
        index=2,
        peak=_place,
    ),
)
