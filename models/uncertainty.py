"""How far a prediction can be off: draws of the costs it stands on, and the interval that those make of it.

A predicted figure differs from the truth by three things, which are kept apart and combined in logarithms:

- the costs are known within intervals (`draws`: one possible truth after another, as calibration leaves them);
- a simulation is finite, and so is a measurement: where threads begin is a lottery that each process draws for itself (two
  replications for each draw tell what it does from what the costs do);
- the model leaves things out (`discrepancy`: a share of all times, learnt where nothing is scored, such as on the
  calibration's own rungs). It is drawn as a factor of all times, so that it widens what times decide and leaves alone
  what they do not: a throughput that think times limit hardly moves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from models.costs import CLIENT, FACTORS, SERVICE, Cost, Costs, Demand
from models.metrics import Estimate, number
from models.regimes import Regime, regimes

Array = NDArray[np.float64]
Seed = int | np.random.SeedSequence

SWEEPS = 60  # of the Gibbs sampler, each begun at a draw that is right but for its clipping at 0
NORMAL = 1.96
POSSIBLE = 20_000  # variances that the observed ones leave possible, drawn for an interval
SMOOTHING = 1.06  # width of a kernel, in standard deviations, over the fifth root of the number of values
NORMAL_FROM = 12  # runs from which on their mean is normal enough
FACTOR = "factor"  # unit of the demand's factors
DISCREPANCY = "discrepancy"  # the entry of Costs.provenance that holds the model's


def draws(costs: Costs, n: int, seed: Seed, discrepancy: float = 0.0) -> list[Costs]:
    """Possible truths: n complete Costs, each drawn from what calibration knows, independent of each other.

    Costs that were fitted together are jointly normal with their covariance, cut off at 0. The others are normal by
    halves, so that each half of an interval holds what it says. The service's demand varies by a factor (demand.service), by
    the error of a mean of so many sampled requests. Where nothing is known of an error, there is none.

    Parameters
    ----------
    costs : Costs
        With the demand of one scenario, or of none.
    n : int
    seed : int or SeedSequence
        The same seed gives the same draws; models.forecasting.stream makes one of a scenario.
    discrepancy : float
        Standard deviation of ln(truth/model) of all times, a share.

    Notes
    -----
    J. Geweke, Efficient simulation from the multivariate normal and Student-t distributions subject to linear
    constraints, Computing Science and Statistics 23, 1991.
    """
    own, joint, demand, model = (
        np.random.default_rng(s)
        for s in (seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)).spawn(4)
    )
    columns: dict[str, Array] = dict(zip(*_joint(costs, n, joint), strict=True))
    for name, cost in costs.table.items():
        if name not in columns:
            columns[name] = _alone(cost, own.random(n))
    factors = np.exp(discrepancy * model.standard_normal(n))
    columns[SERVICE] = np.exp(sampling_error(_only(costs)) * demand.standard_normal(n))
    columns[CLIENT] = np.ones(n)
    kinds = {name: cost.unit for name, cost in costs.table.items()} | dict.fromkeys(FACTORS, FACTOR)
    return [
        replace(
            costs,
            table={
                name: Cost(float(columns[name][i] * (1.0 if unit == "share" else factors[i])), unit=unit)
                for name, unit in kinds.items()
            },
        )
        for i in range(n)
    ]


def _only(costs: Costs) -> Demand | None:
    if len(costs.demands) > 1:
        raise ValueError(
            "draws are of one scenario: give costs with its demand alone (models.forecasting.alone)"
        )
    return next(iter(costs.demands.values()), None)


def _joint(costs: Costs, n: int, random: np.random.Generator) -> tuple[list[str], list[Array]]:
    """The costs that were fitted together: their names, and n draws of each."""
    known = [i for i, name in enumerate(costs.covariance.names) if name in costs.table]
    matrix = np.array([[costs.covariance.matrix[i][j] for j in known] for i in known]).reshape(
        2 * (len(known),)
    )
    known = [i for place, i in enumerate(known) if matrix[place, place] > 0]
    if not known:
        return [], []
    matrix = np.array([[costs.covariance.matrix[i][j] for j in known] for i in known])
    names = [costs.covariance.names[i] for i in known]
    scale = np.sqrt(np.diag(matrix))
    mean = np.array([costs.table[name].value for name in names])
    above = _above(-mean / scale, matrix / np.outer(scale, scale), n, random)
    return names, list(np.maximum(mean[:, None] + scale[:, None] * above, 0.0))


def _above(least: Array, correlation: Array, n: int, random: np.random.Generator) -> Array:
    """n standard normal vectors with that correlation, each component above its least; by Gibbs sampling."""
    size = len(least)
    steady = correlation + 1e-9 * np.eye(size)
    found = np.maximum(np.linalg.cholesky(steady) @ random.standard_normal((size, n)), least[:, None])
    inverse = np.linalg.inv(steady)
    for _ in range(SWEEPS):
        for i in range(size):
            spread = 1 / math.sqrt(inverse[i, i])
            middle = found[i] - spread**2 * (inverse[i] @ found)
            tail = ndtri(ndtr((middle - least[i]) / spread) * (1 - random.random(n)))
            found[i] = np.maximum(middle - spread * np.maximum(tail, -40.0), least[i])
    return found


def _alone(cost: Cost, uniform: Array) -> Array:
    """Draws of one cost: half of them below its value, half above, 95 % inside its interval, none below 0."""
    if not (math.isfinite(cost.low) and math.isfinite(cost.high)):
        return np.full(len(uniform), cost.value)
    above = max(cost.high - cost.value, 0.0) / NORMAL
    # An interval that reaches 0 was cut off there, and says nothing of its lower half.
    below = max(cost.value - cost.low, 0.0) / NORMAL if cost.low > 0 else above
    least = float(ndtr(-cost.value / below)) if below > 0 else 0.5
    z = ndtri(least + (1 - least) * uniform)
    found = np.maximum(cost.value + z * np.where(z > 0, above, below), 0.0)
    return np.asarray(np.minimum(found, 1.0) if cost.unit == "share" else found)


def sampling_error(demand: Demand | None) -> float:
    """Relative standard error of the service's mean time, from the scatter of the sampled requests."""
    if demand is None:
        return 0.0
    work = [a + math.fsum(b) for a, b in zip(demand.fixed, demand.tasks, strict=True)]
    mean = math.fsum(work) / len(work)
    if len(work) < 2 or mean <= 0:
        return 0.0
    return float(np.std(work, ddof=1)) / mean / math.sqrt(len(work))


def discrepancy_of(costs: Costs) -> float:
    """What calibration found the model to be off by, a share; 0 where it has not looked."""
    return float(costs.provenance.get(DISCREPANCY) or 0.0)


def learnt(
    measured: Sequence[float], predicted: Sequence[float], noise: float | Sequence[float] = 0.0
) -> float:
    """The model's discrepancy, from configurations that are not scored: what ln(predicted/measured) is off by.

    Parameters
    ----------
    measured, predicted : sequence of float
        The same figure of each configuration, positive.
    noise : float or sequence of float
        Relative standard error of each such pair that is no fault of the model: measuring and simulating.

    Returns
    -------
    float
        Root mean square of the logarithms beyond the noise, 0 at least: that with which the squares are as large as their
        variances say, so that pairs known well count for more (R. C. Paule and J. Mandel, Consensus values and weighting
        factors, Journal of Research of the National Bureau of Standards 87, 1982).
    """
    if not len(measured):
        return 0.0
    squares = np.log(np.asarray(predicted) / np.asarray(measured)) ** 2
    chance = np.broadcast_to(np.asarray(noise, dtype=float) ** 2, squares.shape)
    low, high = 0.0, float(squares.max())
    for _ in range(60):
        middle = (low + high) / 2
        more = middle > 0 and float((squares / (middle + chance)).sum()) > len(squares)
        low, high = (middle, high) if more else (low, middle)
    return math.sqrt(low)


@dataclass(frozen=True, slots=True)
class Spread:
    """A predicted figure with its interval, and the standard deviations of its logarithm that make it up.

    Attributes
    ----------
    estimate : Estimate
        The median of what is possible, and the interval that holds the truth.
    costs : float
        What the draws do to it, the discrepancy drawn with them included.
    simulation : float
        What is not known of the middle and of a draw's own figure because simulations are finite.
    model : float
        The discrepancy that was not drawn.
    lottery : float
        What is left of the differences between runs in the mean of as many as are measured.
    regimes : tuple of Regime
        The two groups that single runs fall into, if they do.
    """

    estimate: Estimate
    costs: float = math.nan
    simulation: float = math.nan
    model: float = 0.0
    lottery: float = 0.0
    regimes: tuple[Regime, ...] = ()

    @property
    def variance(self) -> float:
        """Of the figure's logarithm."""
        return self.costs**2 + self.simulation**2 + self.model**2 + self.lottery**2

    def to_json(self) -> dict[str, Any]:
        parts = {name: number(getattr(self, name)) for name in ("costs", "simulation", "model", "lottery")}
        return {
            **self.estimate.to_json(),
            **parts,
            "regimes": [{"value": one.value, "share": one.share} for one in self.regimes],
        }


def combine(
    runs: Sequence[Sequence[float]],
    discrepancy: float = 0.0,
    level: float = 0.95,
    first: int | None = None,
    replicates: int | None = None,
) -> Spread:
    """The interval for the true figure, from replications of several draws of the costs.

    Parameters
    ----------
    runs : sequence of sequence of float
        Of each draw, the figure in each of its replications, as many for every draw. One alone cannot tell noise from
        spread: all counts as spread, and the interval is too wide rather than too narrow.
    discrepancy : float
        Standard deviation of ln(truth/model) that is not in the draws, a share.
    level : float
        Share of such intervals that hold the truth.
    first : int, optional
        Draws of the first stage, where their scatter decided how many there are (models.replicating): it alone then says
        what variances are.
    replicates : int, optional
        The truth is what a measurement gives: the mean of so many runs, each a fresh process with a lottery of its own,
        on one machine, whose costs are the same in all. So the costs' part of the interval stays whatever is measured,
        and the lottery's shrinks with the root of the replicates. A simulated run is taken to scatter as a measured one; it
        is rather shorter, and scatters rather more. None: the truth is the mean of endlessly many runs.

    Returns
    -------
    Spread
        Without an interval from fewer than two draws, or where a figure is not above 0.

    Notes
    -----
    One-way analysis of variance with random effects, in logarithms: of n draws with r replications, variance B of the
    draws' means and W within draws, a truth drawn alike is off the middle by a variance of B(1 + 1/n) − W/r, and the mean
    of m measured runs by W/m more. How well B and W are known is carried along by drawing both from what their estimates
    leave possible, which is Student's interval when r = 1: S. Weerahandi, Generalized confidence intervals, Journal of the
    American Statistical Association 88, 1993.

    The interval's ends are quantiles: draws and runs may fall into two regimes, or have one long tail. Deviations of that
    variance have the shape of the simulated ones, smoothed (B. W. Silverman and G. A. Young, The bootstrap: to smooth or not
    to smooth?, Biometrika 74, 1987).
    """
    values = np.asarray(runs, dtype=float)
    if values.ndim != 2 or not values.size:
        raise ValueError("runs: give every draw the same number of replications, at least one")
    if not np.all(values > 0) or len(values) < 2:
        return Spread(Estimate(float(values.mean())))
    middles, logs = np.log(values.mean(axis=1)), np.log(values)
    own = logs - logs.mean(axis=1, keepdims=True)
    n, r = logs[:first].shape
    between = float(middles[:first].var(ddof=1))
    single = float(logs[:first].var(axis=1, ddof=1).mean()) if r > 1 else 0.0
    means = between / _possible(n - 1, 1)
    noise = single / _possible(n * (r - 1), 2) if r > 1 else np.zeros(POSSIBLE)
    known = means / len(logs) + discrepancy**2
    off = np.sqrt(np.maximum(means - noise / r, 0.0)) * _shaped(middles - middles.mean(), 1, 3)
    off += np.sqrt(known) * np.random.default_rng(0).standard_normal(POSSIBLE)
    if replicates:
        off += np.sqrt(noise / replicates) * _shaped(own.ravel(), replicates, 4)
    ends = ((1 - level) / 2, 0.5, (1 + level) / 2)
    low, value, high = np.exp(middles.mean() + np.clip(np.quantile(off, ends), -100, 100)).tolist()
    return Spread(
        Estimate(value, low, high),
        math.sqrt(max(between - single / r, 0.0)),
        math.sqrt(between / len(logs)),
        discrepancy,
        math.sqrt(single / replicates) if replicates else 0.0,
        regimes(values.ravel().tolist()),
    )


def _shaped(deviations: Array, count: int, purpose: int) -> Array:
    """Standardised means of so many deviations drawn from those given, smoothed; normal where all are 0."""
    random = np.random.default_rng(purpose)
    normal = random.standard_normal(POSSIBLE)
    scale = float(deviations.std())
    if scale <= 0 or count > NORMAL_FROM:
        return normal
    width = SMOOTHING * len(deviations) ** -0.2
    drawn = random.choice(deviations, (POSSIBLE, count)).mean(axis=1) * math.sqrt(count) / scale
    return np.asarray((drawn + width * normal) / math.sqrt(1 + width**2))


@cache
def _possible(df: int, purpose: int) -> Array:
    """Ratios of estimated to true variances; the same each time, so that the same runs have the same interval."""
    return np.random.default_rng(purpose).chisquare(df, POSSIBLE) / df


def shares(
    gradient: Mapping[str, float], costs: Costs, others: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Share of a prediction's variance that each cost brings in, to first order; with the others' they add up to 1.

    Parameters
    ----------
    gradient : mapping of str to float
        Change of the figure's logarithm for each s (or unit) of a cost.
    costs : Costs
    others : mapping of str to float, optional
        Standard deviations of the figure's logarithm that come from elsewhere, independent of the costs.

    Notes
    -----
    Costs that were fitted together are correlated, so that no share of a single one exists by itself. These are squares
    of the CAR scores: each cost is replaced by the uncorrelated variable that is closest to it. V. Zuber and K. Strimmer,
    High-dimensional regression and variable selection using CAR scores, Statistical Applications in Genetics and
    Molecular Biology 10:34, 2011.
    """
    names = [name for name in gradient if deviation(costs, name) > 0]
    squares = {name: value**2 for name, value in (others or {}).items()}
    if names:
        weight = np.array([gradient[name] * deviation(costs, name) for name in names])
        value, vector = np.linalg.eigh(_correlation(costs, names))
        scores = (vector * np.sqrt(np.maximum(value, 0.0))) @ vector.T @ weight
        squares |= dict(zip(names, (scores**2).tolist(), strict=True))
    total = math.fsum(squares.values())
    return {name: square / total for name, square in squares.items()} if total > 0 else {}


def deviation(costs: Costs, name: str) -> float:
    """Standard deviation of a cost, in its unit; 0 where none is known."""
    if name in costs.covariance.names:
        return math.sqrt(max(costs.covariance.of({name: 1.0}), 0.0))
    cost = costs.table[name]
    width = cost.high - (cost.low if cost.low > 0 else 2 * cost.value - cost.high)
    return max(width, 0.0) / 2 / NORMAL if math.isfinite(width) else 0.0


def _correlation(costs: Costs, names: Sequence[str]) -> Array:
    found = np.eye(len(names))
    place = {name: i for i, name in enumerate(costs.covariance.names)}
    matrix = costs.covariance.matrix
    for i, one in enumerate(names):
        for j, other in enumerate(names):
            if i != j and one in place and other in place:
                covariance = matrix[place[one]][place[other]]
                found[i, j] = covariance / (deviation(costs, one) * deviation(costs, other))
    return found
