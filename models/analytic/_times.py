"""Distributions of the waiting and the response time, first come first served, and their quantiles."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from models.analytic._chain import mean, probabilities
from models.analytic._domain import level


def falling(function: Callable[[float], float], target: float, start: float) -> float:
    """Where a falling function of a number above 0 meets the target, within 1e-13 of it; 0 when it never exceeds it."""
    if function(0.0) <= target:
        return 0.0
    low, high = 0.0, start
    while function(high) > target:
        low, high = high, 2 * high
    while low == 0.0 and high > 1e-300:
        half = high / 16
        low, high = (half, high) if function(half) > target else (0.0, half)
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if function(middle) > target else (low, middle)
    return high


class Times(ABC):
    """Two distributions by their tails; `unit` is a time of their order, s."""

    unit: float

    @abstractmethod
    def waiting_tail(self, seconds: float) -> float:
        """Probability that service begins later than so long after the arrival."""

    @abstractmethod
    def response_tail(self, seconds: float) -> float:
        """Probability that the answer comes later than so long after the arrival."""


class Timed:
    """What every result with known distributions can be asked. Service is first come first served."""

    __slots__ = ()
    times: Times

    def waiting_quantile(self, p: float) -> float:
        """The p-quantile of the time before service begins, s; ValueError unless 0 ≤ p < 1."""
        return falling(self.times.waiting_tail, 1 - level(p), self.times.unit)

    def response_quantile(self, p: float) -> float:
        """The p-quantile of the response time, s; ValueError unless 0 ≤ p < 1."""
        return falling(self.times.response_tail, 1 - level(p), self.times.unit)


@dataclass(frozen=True, eq=False)
class Departures(Times):
    """An arrival that waits for k departures from m busy exponential servers with probability ahead[k].

    By uniformisation (A. Jensen, 1953): while it waits, departures are ticks of a Poisson process of rate m/S; once
    it is served, each tick is its own with probability 1/m. All terms are positive, so no digits are lost.
    """

    ahead: NDArray[np.float64]
    workers: int
    demand: float

    @property
    def unit(self) -> float:  # type: ignore[override]
        return self.demand

    @cached_property
    def _waits(self) -> NDArray[np.float64]:
        """Probability of still waiting after j ticks: more than j departures were ahead."""
        return np.append(np.cumsum(self.ahead[:0:-1])[::-1], 0.0)

    @cached_property
    def _served(self) -> NDArray[np.float64]:
        """Probability of being in service after j ticks."""
        stays = 1 - 1 / self.workers
        return np.fromiter(
            accumulate(self.ahead.tolist(), lambda served, begins: served * stays + begins), float
        )

    def waiting_tail(self, seconds: float) -> float:
        return self._after(seconds, self._waits, 0.0)

    def response_tail(self, seconds: float) -> float:
        return self._after(seconds, self._waits + self._served, 1 - 1 / self.workers)

    def _after(self, seconds: float, share: NDArray[np.float64], ratio: float) -> float:
        """The mean of share[j] over a Poisson number j of ticks; beyond its end, share falls by ratio each tick."""
        due = seconds / self.demand * self.workers
        if due == 0:
            return float(share[0])
        most = int(due + 12 * math.sqrt(due)) + 40
        ticks = probabilities(math.log(due) - np.log(np.arange(1.0, most + 1)))
        beyond = max(most + 1 - len(share), 0)
        longer = np.append(share, share[-1] * ratio ** np.arange(1.0, beyond + 1))
        return mean(ticks, longer[: most + 1])


@dataclass(frozen=True, slots=True, eq=False)
class Exponentials(Times):
    """Waiting is 0, or with probability `delayed` exponential of rate `free`; service is exponential of mean `unit`."""

    delayed: float
    free: float
    unit: float

    def waiting_tail(self, seconds: float) -> float:
        return self.delayed * math.exp(-self.free * seconds)

    def response_tail(self, seconds: float) -> float:
        # exp(−t/S) + C (exp(−t/S) − exp(−free t)) / (S free − 1), written so that equal rates need no special case
        rate = 1 / self.unit
        gap = abs(self.free - rate) * seconds
        both = -math.expm1(-gap) / gap if gap > 0 else 1.0
        return math.exp(-rate * seconds) + self.delayed * rate * seconds * both * math.exp(
            -min(rate, self.free) * seconds
        )
