"""95 % intervals of a law's constants: profile likelihood by the F distribution, one-sided near a bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from models.laws._law import Array, Form
from models.laws._solve import Data, loss, minimise, standard_errors

LEVEL = 0.95
TRIES = 30  # steps on the way to one limit
OUTWARDS = 14  # of them until nothing bounds the constant: some 10⁸ standard errors out
ROUNDS = 30  # of a fit at a trial value, which starts near its solution
PRECISE = 1e-4  # in units of the square root of the statistic, about 5e-5 standard errors
GROWTH = 4.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The interval of one constant, and the constants of the best fit seen on the way."""

    low: float
    high: float


@cache
def _criticals(df: int) -> tuple[Array, Array]:
    """Critical values of the profile's statistic by the distance to a bound, in standard errors.

    The statistic at a trial value is the rise of the sum of squares over the fit's mean square. Far from a
    bound it is F(1, df). At a distance d from one, estimates that would lie beyond are put on the bound,
    where y, the standardised deviation towards it, has 2yd − d² instead of y². Accepting the trial value when
    the statistic is at most c then covers it with G(√c) + G((c + d²)/(2d)) − 1, G being Student's
    distribution with df degrees of freedom: solved for c here. At d = 0 this is the one-sided test. (The
    ordering by likelihood ratio of Feldman and Cousins 1998, Student's distribution in place of the normal.)
    """
    from scipy.special import stdtr, stdtrit

    two_sided = float(stdtrit(df, 0.5 + LEVEL / 2))
    distance = np.linspace(1e-6, two_sided, 100)
    low, high = np.full(100, float(stdtrit(df, LEVEL)) ** 2 * 0.999), np.full(100, two_sided**2 * 1.001)
    for _ in range(40):
        middle = (low + high) / 2
        covered = stdtr(df, np.sqrt(middle)) + stdtr(df, (middle + distance**2) / (2 * distance)) - 1
        low, high = np.where(covered < LEVEL, middle, low), np.where(covered < LEVEL, high, middle)
    return distance, (low + high) / 2


def critical(distance: Array, df: int) -> Array:
    """The statistic's 95 % point at a distance to the nearest bound, in standard errors."""
    at, value = _criticals(df)
    return np.interp(distance, at, value)


class Profile:
    """The search for both limits of several constants at once.

    A limit is where the statistic crosses its critical value, or the constant's bound if that comes first.
    Each target (a constant and a side) keeps a value inside the interval, and one outside once known; the
    excess, the root of the statistic less the root of its critical value, is almost straight between them.
    """

    def __init__(self, form: Form, data: Data, best: Array, squares: float, df: int, starts: Array) -> None:
        self.form, self.data, self.best, self.df = form, data, best, df
        self.starts = np.vstack([best, starts])
        self.squares = squares
        # Exact data have no scatter but rounding; data without any throughput not even that.
        self.square = max(squares, 1e-24 * data.size, 1e-300) / df
        self.low = np.array([constant.low for constant in form.constants])
        self.high = np.array([constant.high for constant in form.constants])
        self.found, self.found_squares = best, squares

    def limits(self, places: Sequence[int]) -> list[Limits]:
        """The intervals of the constants at these places."""
        index = np.repeat(np.asarray(places, dtype=np.intp), 2)
        side = np.tile([-1.0, 1.0], len(places))
        ends = self._search(index, side)
        return [Limits(float(ends[k]), float(ends[k + 1])) for k in range(0, len(ends), 2)]

    def _search(self, index: NDArray[np.intp], side: Array) -> Array:
        bound = np.where(side < 0, self.low[index], self.high[index])
        inner = self.best[index]
        inner_excess = np.full(len(index), -math.sqrt(float(critical(np.array([np.inf]), self.df)[0])))
        outer, outer_excess = np.full(len(index), np.nan), np.full(len(index), np.nan)
        reach = self._reach(index) * side
        warm = np.tile(self.best, (len(index), 1))
        open_ = np.flatnonzero(inner != bound)
        end = np.where(inner == bound, bound, np.nan)
        for turn in range(TRIES):
            if not open_.size:
                break
            trial = self._trial(turn, inner, inner_excess, outer, outer_excess, reach)
            trial = np.where(side < 0, np.maximum(trial, bound), np.minimum(trial, bound))
            excess, theta = self._excess(index[open_], trial[open_], warm[open_])
            inside = excess <= 0
            for k, place in enumerate(open_):
                if inside[k]:
                    reach[place] = self._grown(trial[place] - inner[place], excess[k], inner_excess[place])
                    inner[place], inner_excess[place] = trial[place], excess[k]
                    warm[place] = theta[k]
                    if trial[place] == bound[place] or (turn >= OUTWARDS and np.isnan(outer[place])):
                        end[place] = bound[place]
                else:
                    outer[place], outer_excess[place] = trial[place], excess[k]
                width = abs(outer[place] - inner[place])
                if abs(excess[k]) < PRECISE or width <= 1e-9 * abs(inner[place]):
                    end[place] = trial[place] if np.isfinite(excess[k]) else inner[place]
            open_ = open_[np.isnan(end[open_])]
        end[open_] = outer[open_]  # the outer side of what is left of the bracket
        return end

    def _reach(self, index: NDArray[np.intp]) -> Array:
        """The first step: to where a straight line would put the limit."""
        error = standard_errors(self.form, self.data, self.best[None])[0] * math.sqrt(self.square)
        step = error * math.sqrt(float(critical(np.array([np.inf]), self.df)[0]))
        fallback = 0.1 * np.abs(self.best) + 1e-3
        usable = np.isfinite(step) & (step > 0) & (step < 1e6 * fallback)
        return np.where(usable, step, fallback)[index]

    def _trial(
        self, turn: int, inner: Array, inner_excess: Array, outer: Array, outer_excess: Array, reach: Array
    ) -> Array:
        """Where to look next: outwards, by false position, or every third turn and past a pole halfway."""
        with np.errstate(invalid="ignore"):
            share = inner_excess / (inner_excess - outer_excess)
            share = np.where(np.isfinite(share) & (turn % 3 != 2), np.clip(share, 0.01, 0.99), 0.5)
            between = inner + share * (outer - inner)
        return np.where(np.isnan(outer), inner + reach, between)

    @staticmethod
    def _grown(step: float, excess: float, before: float) -> float:
        """The next step outwards: a little beyond the line through the last two, at most GROWTH times."""
        slope = (excess - before) / step if step else 0.0
        needed = -excess / slope * 1.1 if slope * step > 0 else math.inf * step
        return math.copysign(min(max(abs(needed), 0.05 * abs(step)), GROWTH * abs(step)), step)

    def _excess(self, index: NDArray[np.intp], trial: Array, warm: Array) -> tuple[Array, Array]:
        """The excess at trial values of one constant each, the others fitted; and the constants there."""
        rows = np.arange(len(index))
        fixed = np.zeros(warm.shape, dtype=np.bool_)
        fixed[rows, index] = True
        start = self._start(index, trial, warm)
        theta, squares = minimise(self.form, self.data, start, fixed, 1e-5, ROUNDS)
        least = int(np.argmin(squares))
        if squares[least] < self.found_squares:
            self.found, self.found_squares = theta[least], float(squares[least])
        usable = np.isfinite(squares)
        error = np.full(len(index), np.inf)
        if usable.any():
            errors = standard_errors(self.form, self.data, theta[usable])
            error[usable] = errors[np.arange(len(errors)), index[usable]] * math.sqrt(self.square)
        nearest = np.minimum(trial - self.low[index], self.high[index] - trial)
        # In a corner, with another constant on its bound, the one-sided value covers too little.
        cornered = np.any(~fixed & ((theta <= self.low) | (theta >= self.high)), axis=1)
        far = cornered | np.isinf(nearest)
        distance = np.divide(nearest, error, out=np.full(len(index), np.inf), where=~far & (error > 0))
        rise = np.maximum(squares - self.squares, 0.0) / self.square
        return np.sqrt(rise) - np.sqrt(critical(distance, self.df)), theta

    def _start(self, index: NDArray[np.intp], trial: Array, warm: Array) -> Array:
        """The best of the last solution and the law's own starts, each moved to the trial value."""
        every = np.concatenate([warm[None], np.repeat(self.starts[:, None], len(index), axis=1)])
        every[:, np.arange(len(index)), index] = trial
        shape = every.shape
        squares = loss(self.form, self.data, every.reshape(-1, shape[2]))[0].reshape(shape[:2])
        return np.asarray(every[np.argmin(squares, axis=0), np.arange(len(index))])
