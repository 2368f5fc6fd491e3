"""How far the models are off where nothing is scored: on the ladder's rungs, each predicted with costs fitted without it.

That is less than they can be off elsewhere: servers and mechanisms are those that the costs were measured on, and services
and machines are not varied. It is a lower bound of a model's discrepancy, and all that can be known of it before anything
that is to be predicted has been measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.calibrating.ladder import ALONE, Reading, Rung, calm
from models import des, uncertainty
from models.costs import Costs
from models.metrics import number
from models.scenario import Scenario

REPLICATIONS, REPLIES = 4, 4000
BUDGET = 0.5  # s for one replication, on a machine that others use


@dataclass(frozen=True, slots=True)
class Check:
    """A rung's figure, s, as measured and as predicted; the relative standard error of the pair's ratio that measuring and
    simulating make.

    The figure is the time between two replies, or, where clients think, the processor time of a reply: what is left of a
    cycle beside the thinking is too short to be told from few replies.
    """

    source: str
    measured: float
    predicted: float
    error: float

    def to_json(self) -> dict[str, Any]:
        figures = {"measured": self.measured, "predicted": self.predicted, "error": self.error}
        return {"source": self.source} | {name: number(value) for name, value in figures.items()}


def checks(
    readings: Mapping[Rung, Sequence[Reading]], without: Callable[[Rung, Scenario], Costs]
) -> list[Check]:
    """Every rung that does not spin, but for that of one client, which the wake-up's latency was taken from.

    Parameters
    ----------
    readings : mapping of Rung to sequence of Reading
    without : callable
        Costs that were fitted without a rung, with the demand of its scenario.
    """
    checked = [rung for rung in readings if not rung.spins and rung != ALONE]
    return [_check(rung, calm(readings[rung]), without) for rung in checked]


def _check(rung: Rung, readings: Sequence[Reading], without: Callable[[Rung, Scenario], Costs]) -> Check:
    scenario = rung.scenario(0)
    costs = without(rung, scenario)
    simulate = des.prepared(scenario, costs)
    simulated = [
        simulate(costs, number=number, replies=REPLIES, budget=BUDGET)[0] for number in range(REPLICATIONS)
    ]
    if rung.think:
        measured, error = _mean([reading.server + reading.load for reading in readings])
        predicted, chance = _mean([m.counters["server_cpu"] + m.counters["load_cpu"] for m in simulated])
    else:
        measured, error = _mean([1 / reading.throughput for reading in readings])
        predicted, chance = _mean([1 / metrics.throughput.value for metrics in simulated])
    return Check(rung.name, measured, predicted, math.hypot(error, chance))


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """And its relative standard error."""
    mean = statistics.fmean(values)
    scatter = statistics.stdev(values) / mean if len(values) > 1 else 0.0
    return mean, scatter / math.sqrt(len(values))


def discrepancy(checked: Sequence[Check]) -> float:
    """What the models are off by, a share of all times: the rungs' errors beyond what chance makes."""
    known = [check for check in checked if check.predicted > 0 and check.measured > 0]
    return uncertainty.learnt(
        [check.measured for check in known],
        [check.predicted for check in known],
        [check.error for check in known],
    )
