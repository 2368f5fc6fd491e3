"""Bounded least squares of many small problems at once: Levenberg–Marquardt with projection, in NumPy alone.

One call fits one set of data from many starts, or with many values of a constant held fixed, or both. SciPy's
solver takes 3 ms a problem, most of it in the interpreter; here the interpreter's share is paid once for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.laws._law import Array, Form

Mask = NDArray[np.bool_]

ROUNDS = 100
DAMPING = 1e-4  # first; relative to the curvature by each constant
LEAST_DAMPING, MOST_DAMPING = 1e-11, 1e9
ROUNDING = 1e-9  # residuals below this share of the data need not shrink to the same tolerance again


@dataclass(frozen=True, slots=True)
class Data:
    """What is fitted: N, X in 1/s, the roots of the weights, and the range in which a curve must be valid."""

    n: Array
    x: Array
    roots: Array
    low: float
    high: float

    @property
    def size(self) -> float:
        """Weighted sum of the squares of X."""
        return float(np.sum((self.roots * self.x) ** 2))


def residuals(form: Form, data: Data, theta: Array) -> Array:
    """Weighted residuals, (problems, rows)."""
    fitted = form.curve(data.n, *theta.T[:, :, None])
    return np.asarray(data.roots * (data.x - fitted), dtype=np.float64)


def loss(form: Form, data: Data, theta: Array) -> tuple[Array, Array]:
    """Weighted sums of squares, (problems,), infinite for invalid curves, and the weighted residuals."""
    sound = form.valid(data.low, data.high, *theta.T)
    rest = np.where(sound[:, None], residuals(form, data, theta), np.inf)
    return np.asarray(np.sum(rest * rest, axis=1)), rest


def jacobian(form: Form, data: Data, theta: Array) -> Array:
    """Weighted slopes of the curve, (problems, rows, constants)."""
    slopes = np.empty((*theta.shape[:1], *data.n.shape, *theta.shape[1:]))
    for place, slope in enumerate(form.slopes(data.n, *theta.T[:, :, None])):
        slopes[..., place] = slope
    return slopes * data.roots[:, None]


def standard_errors(form: Form, data: Data, theta: Array) -> Array:
    """Standard errors at unit scatter, linearised, (problems, constants); infinite where undetermined."""
    slopes = jacobian(form, data, theta)
    information = np.swapaxes(slopes, 1, 2) @ slopes
    scale = np.sqrt(np.einsum("bii->bi", information))
    known = scale > 0
    scale = np.where(known, scale, 1.0)
    found = np.linalg.pinv(information / (scale[:, :, None] * scale[:, None, :]), rcond=1e-14, hermitian=True)
    return np.where(known, np.sqrt(np.maximum(np.einsum("bii->bi", found), 0)) / scale, np.inf)


def minimise(
    form: Form,
    data: Data,
    start: Array,
    fixed: Mask | None = None,
    tolerance: float = 1e-7,
    rounds: int = ROUNDS,
) -> tuple[Array, Array]:
    """Least squares within the form's bounds.

    Parameters
    ----------
    start : array of (problems, constants)
        Clipped to the bounds first.
    fixed : array of bool, (problems, constants), optional
        Constants to be held at their start.
    tolerance : float
        On the cosine between the residuals and each slope (Bates and Watts 1988, ch. 2): the sum of squares
        ends within its square of the minimum.
    rounds : int
        Steps tried at most.

    Returns
    -------
    theta : array of (problems, constants)
    squares : array of (problems,)
        Weighted sums of squares; infinite where the start was invalid, and then `theta` is that start.
    """
    low = np.array([constant.low for constant in form.constants])
    high = np.array([constant.high for constant in form.constants])
    held = np.zeros(start.shape, dtype=np.bool_) if fixed is None else fixed
    floor = ROUNDING**2 * data.size
    theta = np.clip(start, low, high)
    squares, rest = loss(form, data, theta)
    damping = np.full(len(theta), DAMPING)
    active = np.flatnonzero(np.isfinite(squares))
    for _ in range(rounds):
        if not active.size:
            break
        at, now = theta[active], squares[active]
        slopes = jacobian(form, data, at)
        pull = (np.swapaxes(slopes, 1, 2) @ rest[active][:, :, None])[:, :, 0]
        stuck = held[active] | ((at <= low) & (pull < 0)) | ((at >= high) & (pull > 0))
        pull = np.where(stuck, 0.0, pull)
        lengths = np.sqrt(np.sum(slopes * slopes, axis=1))
        unsolved = np.any(np.abs(pull) > tolerance * lengths * np.sqrt(now + floor)[:, None], axis=1)
        step = _step(slopes, pull, stuck, lengths, damping[active])
        trial = np.clip(at + step, low, high)
        after, left = loss(form, data, trial)
        better = unsolved & (after < now)
        moved = active[better]
        theta[moved], squares[moved], rest[moved] = trial[better], after[better], left[better]
        damping[active] *= np.where(better, 0.1, 10.0)
        damping = np.maximum(damping, LEAST_DAMPING)
        stalled = better & (now - after <= tolerance**2 * now)
        active = active[unsolved & ~stalled & (damping[active] < MOST_DAMPING)]
    return theta, squares


def _step(slopes: Array, pull: Array, stuck: Mask, lengths: Array, damping: Array) -> Array:
    """The damped Gauss–Newton step in the free constants, solved for slopes of unit length."""
    free = ~stuck & (lengths > 0)
    scale = np.where(free, lengths, 1.0)
    unit = np.where(free[:, None, :], slopes / scale[:, None, :], 0.0)
    matrix = np.swapaxes(unit, 1, 2) @ unit
    diagonal = np.arange(matrix.shape[1])
    matrix[:, diagonal, diagonal] = 1 + damping[:, None]
    solved = np.linalg.solve(matrix, np.where(free, pull / scale, 0.0)[:, :, None])[:, :, 0]
    return np.asarray(solved / scale)
