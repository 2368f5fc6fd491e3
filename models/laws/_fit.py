"""Fits a law to throughput over N, with intervals of its constants and of its peak."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from models.laws._law import Array, Law
from models.laws._profile import Limits, Profile
from models.laws._solve import Data, minimise, residuals, standard_errors
from models.metrics import number
from models.wording import figure, interval

ROUNDING = 1e-9
ON_BOUND = 1e-7  # distance to a bound, in standard errors, below which a constant is on it


class TooFewPoints(ValueError):
    """There are fewer different N than the law needs."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A fitted constant with its 95 % interval; `at_bound` when the fit would have gone beyond its bound."""

    value: float
    low: float
    high: float
    unit: str
    at_bound: bool = False


@dataclass(frozen=True, slots=True)
class Peak:
    """The N at which a law is highest, with its 95 % interval; infinite where it never falls."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LawFit:
    """A law fitted to throughput.

    Attributes
    ----------
    law : str
        Its name.
    parameters : mapping of str to Parameter
        By the names of the design's vocabulary.
    n, x : array
        The rows fitted, in the order given; x in 1/s.
    weights : array
        Of each row, with a mean of 1.
    residuals : array
        Measured less fitted, 1/s.
    sigma : float
        Residual standard deviation of a row of weight 1, 1/s.
    df : int
        Its degrees of freedom.
    aicc : float
        Akaike's criterion with the small-sample correction (Hurvich and Tsai 1989); infinite where there are
        too few rows for the correction.
    peak : Peak
    warnings : tuple of str
        What a reader of the result should know first.
    """

    law: str
    parameters: Mapping[str, Parameter]
    n: Array
    x: Array
    weights: Array
    residuals: Array
    sigma: float
    df: int
    aicc: float
    peak: Peak
    warnings: tuple[str, ...]
    _law: Law = field(repr=False)

    @overload
    def throughput(self, n: float) -> float: ...
    @overload
    def throughput(self, n: Sequence[float] | Array) -> Array: ...
    def throughput(self, n: float | Sequence[float] | Array) -> float | Array:
        """Throughput of the law at N, 1/s: a number for a number, an array for an array."""
        values = (parameter.value for parameter in self.parameters.values())
        found = self._law.form.curve(np.asarray(n, dtype=np.float64), *values)
        return float(found) if np.ndim(n) == 0 else np.asarray(found, dtype=np.float64)

    def report(self) -> str:
        """The fit in a few lines of text."""
        lines = [f"{self.law}: {self._law.summary}, {len(self.n)} rows"]
        for name, found in self.parameters.items():
            unit = "" if found.unit == "1" else f" {found.unit}"
            bound = ", at its bound" if found.at_bound else ""
            lines.append(f"  {name} {figure(found.value)}{unit} {interval(found.low, found.high)}{bound}")
        place = "none" if math.isinf(self.peak.value) else figure(self.peak.value)
        lines.append(f"  peak {place} {interval(self.peak.low, self.peak.high)}")
        scatter = f"  scatter {figure(self.sigma)} 1/s, {self.df} degrees of freedom"
        lines.append(f"{scatter}, AICc {figure(self.aicc, 4)}")
        return "\n".join(lines + [f"  warning: {warning}" for warning in self.warnings])

    def to_json(self) -> dict[str, Any]:
        """An element of `fits` as `sweep --json` prints it; null for what is unbounded or not defined."""
        return {
            "law": self.law,
            "parameters": {
                name: {"value": number(p.value), "low": number(p.low), "high": number(p.high)}
                for name, p in self.parameters.items()
            },
            "aicc": number(self.aicc),
        }


def fit(
    law: Law,
    n: ArrayLike,
    x: ArrayLike,
    weights: ArrayLike | None = None,
    replicates: ArrayLike | None = None,
) -> LawFit:
    """Fits a law by weighted least squares.

    Parameters
    ----------
    law : Law
    n : array_like
        Clients, workers, or whatever works side by side: above 0, in any order, fractions allowed. A value
        measured several times has several rows.
    x : array_like
        Throughput of each row, 1/s.
    weights : array_like, optional
        Inverse variance of each row, up to a common factor.
    replicates : array_like, optional
        How many measurements each row is the mean of; multiplies the weights.

    Returns
    -------
    LawFit

    Raises
    ------
    TooFewPoints
        Fewer different N than constants and one more.
    ValueError
        Rows that are no throughputs: of unequal number, not finite, negative, N or a weight not above 0.

    Notes
    -----
    Intervals are profile likelihoods calibrated with F(1, rows − constants) (Bates and Watts 1988, ch. 6);
    near a bound they become one-sided. That of the peak is the profile of the peak itself.
    """
    data = _checked(n, x, weights, replicates)
    needed, different = len(law.form.constants) + 1, len(np.unique(data.n))
    if different < needed:
        raise TooFewPoints(f"{law.name} needs at least {needed} different N, and there are {different}")
    df = len(data.n) - len(law.form.constants)
    starts = np.array(law.starts(data.n, data.x, data.roots**2), dtype=np.float64)
    theta, squares = _best(law, data, starts)
    for _ in range(3):
        profile = Profile(law.form, data, theta, squares, df, starts)
        limits = profile.limits(range(len(theta)))
        if profile.found_squares >= squares * (1 - 1e-6):
            break
        theta, squares = _best(law, data, profile.found[None])
    parameters = _parameters(law, data, theta, squares, limits)
    sigma = math.sqrt(squares / df)
    rest = residuals(law.form, data, theta[None])[0] / data.roots
    peak = _peak(law, data, theta, squares, df, starts)
    return LawFit(
        law=law.name,
        parameters=parameters,
        n=data.n,
        x=data.x,
        weights=data.roots**2,
        residuals=rest,
        sigma=sigma,
        df=df,
        aicc=_aicc(data, squares, len(theta)),
        peak=peak,
        warnings=tuple(_warnings(law, data, parameters, peak, squares)),
        _law=law,
    )


def _checked(n: ArrayLike, x: ArrayLike, weights: ArrayLike | None, replicates: ArrayLike | None) -> Data:
    at, found = _column("n", n), _column("x", x)
    weight = np.ones(len(at)) if weights is None else _column("weights", weights)
    times = np.ones(len(at)) if replicates is None else _column("replicates", replicates)
    if not len(at) == len(found) == len(weight) == len(times):
        lengths = f"{len(at)} n, {len(found)} x, {len(weight)} weights and {len(times)} replicates"
        raise ValueError(f"rows of unequal number: {lengths}")
    for name, column in (("n", at), ("weights", weight), ("replicates", times)):
        if np.any(column <= 0):
            raise ValueError(f"{name} must be above 0, and {figure(float(np.min(column)))} is among them")
    if np.any(found < 0):
        raise ValueError(f"a throughput cannot be negative, and {figure(float(np.min(found)))} is among them")
    if not len(at):
        raise TooFewPoints("there is nothing to fit")
    total = weight * times
    # The curve has to hold from N = 1 on, measured or not, because γ is its value there.
    low, high = min(1.0, float(np.min(at))), max(1.0, float(np.max(at)))
    return Data(at, found, np.sqrt(total / np.mean(total)), low, high)


def _column(name: str, values: ArrayLike) -> Array:
    column = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if column.ndim > 1:
        raise ValueError(f"{name} must be one row of numbers, not {column.ndim}-dimensional")
    if not np.all(np.isfinite(column)):
        raise ValueError(f"{name} has a value that is not a finite number")
    return column


def _best(law: Law, data: Data, starts: Array) -> tuple[Array, float]:
    """The best of the fits from all starts, put on a bound that it has only numerically not reached."""
    found, squares = minimise(law.form, data, starts)
    least = int(np.argmin(squares))
    theta, error = found[least], standard_errors(law.form, data, found[least][None])[0]
    scatter = math.sqrt(squares[least] / len(data.n))
    for place, constant in enumerate(law.form.constants):
        near = ON_BOUND * scatter * (error[place] if math.isfinite(error[place]) else 0.0)
        for bound in (constant.low, constant.high):
            if 0 < abs(theta[place] - bound) <= near:
                theta[place] = bound
    return theta, float(squares[least])


def _parameters(
    law: Law, data: Data, theta: Array, squares: float, limits: Sequence[Limits]
) -> dict[str, Parameter]:
    found = {}
    for constant, value, limit in zip(law.form.constants, theta.tolist(), limits, strict=True):
        low, high = min(limit.low, value), max(limit.high, value)
        if _exact(data, squares):
            # What is left of the interval is rounding, unless the data leave the constant open.
            near = ROUNDING * max(1.0, abs(value))
            low, high = (value if abs(end - value) < near else end for end in (low, high))
        at_bound = value in (constant.low, constant.high)
        found[constant.name] = Parameter(value, low, high, constant.unit, at_bound)
    return found


def _exact(data: Data, squares: float) -> bool:
    return squares <= 1e-24 * data.size


def _peak(law: Law, data: Data, theta: Array, squares: float, df: int, starts: Array) -> Peak:
    """The peak by the law's formula, but not below 1 or the least N measured, and its profile."""
    turning = law.turning
    value = max(law.peak(*theta.tolist()), data.low)
    if turning is None:
        return Peak(value, value, value)
    best = np.array(turning.of(*theta.tolist()))
    every = np.array([turning.of(*start) for start in starts.tolist()])
    ends = Profile(turning.form, data, best, squares, df, every).limits([turning.index])[0]
    low, high = (max(turning.peak(end), data.low) for end in (ends.high, ends.low))
    return Peak(value, min(low, value), max(high, value))


def _aicc(data: Data, squares: float, constants: int) -> float:
    rows, k = len(data.n), constants + 1
    if rows - k - 1 <= 0:
        return math.inf
    mean = max(squares, 1e-24 * data.size, 1e-300) / rows
    return rows * math.log(mean) + 2 * k + 2 * k * (k + 1) / (rows - k - 1)


def _warnings(
    law: Law, data: Data, parameters: Mapping[str, Parameter], peak: Peak, squares: float
) -> list[str]:
    said = []
    sigma, kappa = parameters.get("sigma"), parameters.get("kappa")
    last = float(np.max(data.n))
    if sigma and sigma.value < 0:
        sure = "" if sigma.high < 0 else ", though its interval takes in 0"
        said.append(f"negative contention: super-linear, throughput grows faster than N at first{sure}")
    if not np.any(data.x):
        said.append("no throughput at all: the law says nothing")
    elif _exact(data, squares):
        said.append("the law goes through every row: the intervals know of no scatter")
    for name, found in parameters.items():
        if found.at_bound and not (name == "kappa" or (name == "gamma" and not np.any(data.x))):
            said.append(f"{name} is held at its bound {figure(found.value)}")
    if law.turning and math.isfinite(peak.value) and math.isinf(peak.high):
        said.append("that there is no peak is not excluded (95 %)")
    if kappa and math.isinf(peak.value) and math.isfinite(peak.low):
        said.append(f"no peak is seen, and one from {figure(peak.low)} on is not excluded (95 %)")
    if last < peak.value < math.inf:
        said.append(f"the peak lies beyond the largest N measured, {figure(last)}")
    if float(np.min(data.n)) > 1:
        said.append(f"nothing was measured below N = {figure(float(np.min(data.n)))}: gamma is extrapolated")
    return said
