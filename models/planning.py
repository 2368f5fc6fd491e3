"""How many workers and cores are enough for a load and a response time, with the confidence that the costs allow.

Every configuration is simulated under the open load with the same draws of the costs. Fewest cores come first, then fewest
workers. More of either can be worse, so that nothing is taken from one number to the next but this: a number that fails
with the costs as they are is not tried with draws. Whichever is the first to hold in enough of them may owe that to luck,
as several were looked at; so it must hold in fresh draws as well, and their share is the confidence.

Overload shows slowly: a backlog that grows by a hundredth of what arrives is no long queue after some thousand replies.
What a system gives when it is pressed with more than it can do is its capacity, known at once and without the scatter of
arrivals; it keeps up with every rate below that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from models.costs import Costs
from models.metrics import Metrics, number
from models.scenario import Scenario

FIGURES: dict[str, Callable[[Metrics], float]] = {
    "p50": lambda metrics: metrics.p50,
    "p90": lambda metrics: metrics.p90,
    "p99": lambda metrics: metrics.p99,
    "mean": lambda metrics: metrics.response.value,
}
CHANCE = 3.0  # standard deviations by which a count of arrivals may fall short of its mean
PRESSED = 1.25  # times the rate, which shows whether the capacity is above the rate
BUSY = 0.9  # use of a resource from which on it is named as the limit


@dataclass(frozen=True, slots=True)
class Target:
    """What is to hold: replies keep up with so many requests a second, with response times within limits.

    Attributes
    ----------
    rate : float
        1/s.
    limits : tuple of (figure, s)
        Figures are p50, p90, p99 and mean.
    """

    rate: float
    limits: tuple[tuple[str, float], ...] = ()

    def missed(self, metrics: Metrics, replies: int) -> str:
        """What does not hold in a simulation of so many replies: "rate", a figure's name, or nothing."""
        if not metrics.throughput.value >= self.rate * (1 - CHANCE / math.sqrt(replies)):
            return "rate"
        return next((name for name, limit in self.limits if not FIGURES[name](metrics) <= limit), "")

    def to_json(self) -> dict[str, Any]:
        return {"rate": self.rate, "limits": dict(self.limits)}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration that was tried.

    Attributes
    ----------
    scenario : Scenario
    workers : int or None
        None where the server has no such knob.
    cores : int
    metrics : Metrics
        With the costs as they are.
    missed : str
        What did not hold then; empty if all did.
    confidence : float
        Share of the fresh draws in which the target held, or of the first ones where those were too few; nan where none was
        made.
    """

    scenario: Scenario
    workers: int | None
    cores: int
    metrics: Metrics
    missed: str
    confidence: float = math.nan

    @property
    def limit(self) -> str:
        """The resource that was used up, or the one that was used most."""
        used = {name: share for name, share in self.metrics.utilisation.items() if name in RESOURCES}
        busiest = max(used, key=lambda name: used[name], default="")
        if busiest and used[busiest] >= BUSY:
            return f"{RESOURCES[busiest]}, {used[busiest]:.0%} in use"
        return "its response time alone, with no resource used up"

    def to_json(self) -> dict[str, Any]:
        return {
            "service": self.scenario.service,
            "server": self.scenario.server,
            "workers": self.workers,
            "cores": self.cores,
            "confidence": number(self.confidence),
            "missed": self.missed or None,
            "predicted": self.metrics.to_json(),
        }


RESOURCES = {"load_thread": "the load generator's thread", "worker": "the workers", "cpu": "the CPUs"}


@dataclass(frozen=True, slots=True)
class Search:
    """What was looked for and where.

    Attributes
    ----------
    target : Target
    cores, workers : sequence of int
        Numbers to try, rising; workers only where the server has that knob.
    confidence : float
        Share of the draws in which the target must hold.
    replies : int
        Of each simulation.
    """

    target: Target
    cores: Sequence[int]
    workers: Sequence[int]
    confidence: float = 0.95
    replies: int = 4000


@dataclass(slots=True)
class Planned:
    """The result for one scenario.

    Attributes
    ----------
    needs : float
        CPUs that the service's own work keeps busy at the target's rate.
    found : Candidate or None
        The smallest configuration that is enough.
    tried : list of Candidate
    """

    search: Search
    needs: float = 0.0
    found: Candidate | None = None
    tried: list[Candidate] = field(default_factory=list)

    @property
    def limit(self) -> str:
        """What keeps the best of those that were tried from being enough."""
        if not self.tried:
            return f"the CPUs: the service's own work alone keeps {self.needs:.3g} of them busy"
        best = max(self.tried, key=lambda one: (_known(one.confidence), one.metrics.throughput.value))
        return best.limit

    def to_json(self) -> dict[str, Any]:
        return {
            "found": self.found.to_json() if self.found else None,
            "limit": None if self.found else self.limit,
            "tried": [candidate.to_json() for candidate in self.tried],
        }


def plan(
    scenario: Scenario,
    search: Search,
    simulate: Callable[[Scenario, Costs, int, int], Metrics],
    costs: Costs,
    drawn: Sequence[Costs],
    fresh: Sequence[Costs],
) -> Planned:
    """The fewest cores, and then workers, that are enough.

    Parameters
    ----------
    scenario : Scenario
        Under an open load with the target's rate.
    search : Search
    simulate : callable
        The prediction for a scenario, with costs, on so many cores, with random numbers of that number.
    costs : Costs
        As they were calibrated.
    drawn : sequence of Costs
        Draws of them; the same for every configuration, so that they are compared fairly.
    fresh : sequence of Costs
        Further ones, in which a configuration that holds in those must hold too.
    """
    result = Planned(search, needs=search.target.rate * costs.demand(scenario).mean)
    for cores in search.cores:
        if result.needs > cores:
            continue  # the service alone uses more than that
        for workers in search.workers if scenario.get("workers") is not None else (None,):
            asked = scenario if workers is None else scenario.with_options(workers=workers)
            trial = _Trial(search, asked, cores, simulate)
            metrics, missed = trial.at(costs, 0)
            share = math.nan if missed else trial.confidence(drawn, fresh)
            result.tried.append(Candidate(asked, workers, cores, metrics, missed, share))
            if _known(share) >= search.confidence:
                result.found = result.tried[-1]
                return result
    return result


@dataclass(frozen=True, slots=True)
class _Trial:
    search: Search
    scenario: Scenario
    cores: int
    simulate: Callable[[Scenario, Costs, int, int], Metrics]

    def at(self, costs: Costs, number: int) -> tuple[Metrics, str]:
        """What the costs give with random numbers of that number, and what does not hold."""
        metrics = self.simulate(self.scenario, costs, self.cores, number)
        missed = self.search.target.missed(metrics, self.search.replies)
        return metrics, missed or ("rate" if self._overloaded(costs, number) else "")

    def _overloaded(self, costs: Costs, number: int) -> bool:
        rate = self.search.target.rate
        pressed = self.scenario.with_options(arrival_rate=PRESSED * rate)
        return not self.simulate(pressed, costs, self.cores, number).throughput.value >= rate

    def confidence(self, drawn: Sequence[Costs], fresh: Sequence[Costs]) -> float:
        share = self._share(drawn, 1)
        return self._share(fresh, 1 + len(drawn)) if share >= self.search.confidence else share

    def _share(self, draws: Sequence[Costs], first: int) -> float:
        """Share of the draws in which the target holds; of those so far, as soon as it cannot be enough any more."""
        failed = 0
        for done, costs in enumerate(draws, 1):
            failed += bool(self.at(costs, first + done - 1)[1])
            if failed > (1 - self.search.confidence) * len(draws) + 1e-9:
                return 1 - failed / done
        return 1 - failed / len(draws) if draws else math.nan


def _known(share: float) -> float:
    return -1.0 if math.isnan(share) else share
