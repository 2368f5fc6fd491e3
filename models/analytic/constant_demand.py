"""Open queue with one server and constant demand, M/D/1, with the distribution of its times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from models.analytic._domain import positive
from models.analytic._open import TimedResult
from models.analytic._times import Times, falling
from models.analytic.single_server import single_server

STATES = 64  # from here on the probabilities of M/D/1 fall geometrically, to the last digit


def constant_demand(*, arrival_rate: float, demand: float) -> TimedResult:
    """Solves M/D/1.

    Parameters
    ----------
    arrival_rate : float
        λ of a Poisson stream, 1/s, positive.
    demand : float
        Service time D of every request, s, positive.

    Raises
    ------
    ValueError
        When an argument is outside its domain, λD < 1 included.
    ArithmeticError
        When the solution breaks Little's law, which no valid one does.

    Notes
    -----
    Means by `single_server`. For (k−1)D ≤ t < kD, P(W ≤ t) is the chance that at most k−1 requests wait after as many
    arrivals as come in kD − t: G. J. Franx, "A simple solution for the M/D/c waiting time distribution", Operations
    Research Letters 29, 2001, with sums of positive terms only, unlike A. K. Erlang's of 1909.
    """
    rate, service = positive("arrival_rate", arrival_rate, "1/s"), positive("demand", demand)
    means = single_server(arrival_rate=rate, demand=service, variation=0.0)
    return TimedResult(
        throughput=rate,
        response=means.response,
        waiting=means.waiting,
        delayed=means.delayed,
        queue_length=means.queue_length,
        waiting_length=means.waiting_length,
        utilisation=means.utilisation,
        times=_Constant(means.utilisation, service),
    )


@dataclass(frozen=True, eq=False)
class _Constant(Times):
    load: float
    unit: float

    @cached_property
    def _ratio(self) -> float:
        """P(more than n+1 there) / P(more than n there) for many n: 1/τ with τ > 1 and exp(λD (τ − 1)) = τ."""
        return 1 / (1 + falling(lambda x: math.log1p(x) / x if x else 1.0, self.load, 1.0))

    @cached_property
    def _more(self) -> NDArray[np.float64]:
        """Probability that more than n requests are there, n = 0…STATES−1.

        By the balance of arrivals during a service: p(j) = (B(j−1) p(0) + Σ B(j−k) p(k)) / (1 − B(0)), 0 < k < j,
        B(n) being the probability of more than n arrivals (H. C. Tijms, Stochastic Models, 1994, chapter 4).
        """
        number = np.arange(2 * STATES)
        arrivals = np.exp(number * math.log(self.load) - self.load - [math.lgamma(n + 1) for n in number])
        above = np.cumsum(arrivals[:0:-1])[::-1]
        share = np.zeros(STATES + 1)
        share[0] = 1 - self.load
        for j in range(1, STATES + 1):
            share[j] = (above[j - 1] * share[0] + above[j - 1 : 0 : -1] @ share[1:j]) / arrivals[0]
        last = share[STATES] / (1 - self._ratio)
        return np.asarray(np.cumsum(np.append(last, share[STATES - 1 : 0 : -1]))[::-1])

    def _waiting(self, most: int) -> float:
        """Probability that more than so many wait."""
        if most < 0:
            return 1.0
        found = float(self._more[min(most + 1, STATES - 1)])
        return found * self._ratio ** max(most + 2 - STATES, 0)

    def waiting_tail(self, seconds: float) -> float:
        turns = math.floor(seconds / self.unit) + 1
        mean = self.load * (turns - seconds / self.unit)
        total, term = 0.0, math.exp(-mean)
        for arrivals in range(STATES):
            total += term * self._waiting(turns - 1 - arrivals)
            term *= mean / (arrivals + 1)
        return total

    def response_tail(self, seconds: float) -> float:
        return 1.0 if seconds < self.unit else self.waiting_tail(seconds - self.unit)


predict = constant_demand
