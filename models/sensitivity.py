"""Which costs decide a prediction: the change of its logarithm with that of each cost, and who brings in its uncertainty.

Every cost is moved at once, up or down, by the rows of a Hadamard matrix and by the same rows with all signs turned, both
of a pair with the same random numbers. So every run tells of every cost, where moving one after the other spends two runs
on each and a regression on random draws spends runs on what the design has by itself, that costs are moved independently;
and what curves or interacts cancels in a pair. Root mean square error of the elasticities for the same replies (32,000):

    stock on select, 8 clients     0.004, one cost after the other 0.008, regression on draws 0.025
    stock on sbuf, 16 clients      0.022, one cost after the other 0.073, regression on draws 0.045

tests/test_sensitivity.py repeats it on a queue whose elasticities are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import hadamard

from models import uncertainty
from models.costs import CLIENT, FACTORS, SERVICE, Cost, Costs
from models.metrics import number

STEP = 0.1  # by which a cost is moved, as a share, or by its standard deviation where that is more
SPARE = 4  # rows over the costs, which say how well the rest is known
MODEL = "model"  # share of the variance that the discrepancy brings in

Figure = Callable[[Costs], float]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What one cost does to a prediction.

    Attributes
    ----------
    name : str
        Of a cost; demand.service and demand.client, all times that were sampled of the service and of its clients;
        model, all times at once, which the model's discrepancy is a factor of.
    elasticity : float
        ∂lnX/∂lnD: per cent of the figure for each per cent of the cost.
    error : float
        Standard error of the elasticity, of the simulation.
    share : float
        Of the variance that costs, demand and discrepancy bring in, 0 to 1.
    """

    name: str
    elasticity: float
    error: float
    share: float

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name} | {
            key: number(getattr(self, key)) for key in ("elasticity", "error", "share")
        }


def used(figure: Figure, costs: Costs) -> list[str]:
    """The costs that a prediction uses: a change of any other leaves a simulation as it was, to the last digit.

    Parameters
    ----------
    figure : callable
        Of a short simulation, always with the same random numbers.
    """
    before = figure(costs)
    return [
        name
        for name in costs.table
        if figure(_moved(costs, [name], [costs[name] * (1 + STEP) or 1e-7])) != before
    ]


def sensitivities(
    figure: Figure, costs: Costs, names: Sequence[str], discrepancy: float = 0.0
) -> list[Sensitivity]:
    """Each cost's elasticity and share of the variance, the largest share first.

    Parameters
    ----------
    figure : callable
        The predicted figure for costs, positive, with the same random numbers each time.
    costs : Costs
        With one demand, the scenario's.
    names : sequence of str
        The costs to move; the demand's times are moved too.
    discrepancy : float
        The model's own, a share of all times.
    """
    every = [*names, SERVICE, CLIENT]
    values = {name: costs[name] for name in every}
    gradient, error = gradients(figure, costs, every)
    times = [name for name in every if name in FACTORS or costs.table[name].unit == "s"]
    whole = math.fsum(gradient[name] * values[name] for name in times)
    others = {SERVICE: gradient[SERVICE] * _sampling(costs), MODEL: whole * discrepancy}
    found = uncertainty.shares({name: gradient[name] for name in names}, costs, others)
    rows = [
        Sensitivity(name, gradient[name] * values[name], error[name] * values[name], found.get(name, 0.0))
        for name in every
    ]
    doubt = math.hypot(*(error[name] * values[name] for name in times))
    rows.append(Sensitivity(MODEL, whole, doubt, found.get(MODEL, 0.0)))
    return sorted(rows, key=lambda row: (-row.share, -abs(row.elasticity)))


def gradients(
    figure: Figure, costs: Costs, names: Sequence[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """∂ln(figure)/∂cost in 1/s (or 1/unit) of each cost, and its standard error, from a folded-over two-level design.

    Notes
    -----
    R. L. Plackett and J. P. Burman, The design of optimum multifactorial experiments, Biometrika 33, 1946; fold-over:
    G. E. P. Box and K. B. Wilson, On the experimental attainment of optimum conditions, Journal of the Royal Statistical
    Society B 13, 1951.
    """
    values = np.array([costs[name] for name in names])
    steps = np.array([_step(costs, name, value) for name, value in zip(names, values, strict=True)])
    # A cost that would fall below 0 is moved between 0 and twice its step.
    centre = np.maximum(values, steps)
    signs = hadamard(1 << math.ceil(math.log2(len(names) + SPARE)))[:, : len(names)].astype(float)
    halves = []
    for row in signs * steps:
        up, down = (figure(_moved(costs, names, (centre + way * row).tolist())) for way in (1, -1))
        halves.append(math.log(up / down) / 2)
    effects = signs.T @ halves / len(signs)
    missed = halves - signs @ effects
    error = math.sqrt(float(missed @ missed) / (len(signs) - len(names)) / len(signs))
    return (
        dict(zip(names, (effects / steps).tolist(), strict=True)),
        dict(zip(names, (error / steps).tolist(), strict=True)),
    )


def _sampling(costs: Costs) -> float:
    return uncertainty.sampling_error(next(iter(costs.demands.values()), None))


def _step(costs: Costs, name: str, value: float) -> float:
    if name in FACTORS:
        return max(STEP, _sampling(costs))
    step = max(STEP * value, uncertainty.deviation(costs, name))
    return min(step, STEP) if costs.table[name].unit == "share" else step or 1e-9


def _moved(costs: Costs, names: Sequence[str], values: Sequence[float]) -> Costs:
    """The costs with these values of some."""
    changed = {
        name: replace(costs.table.get(name, Cost(1.0, unit=uncertainty.FACTOR)), value=value)
        for name, value in zip(names, values, strict=True)
    }
    return replace(costs, table={**costs.table, **changed})
