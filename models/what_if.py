"""Machines and mechanisms that are not there: what a prediction may be asked about, and a measurement may not.

    cores=16                     the simulated machine has so many CPUs
    lock=none                    the service's lock is ideal: never waited for
    switches=none                changing threads, and going to sleep, costs nothing
    wakeups=none                 waking a thread costs nobody anything, and it runs at once
    generator=none               the load generator uses no processor time, as if it ran elsewhere

Values such as these belong to no real server, so that scenarios do not know them: they change the costs that a model is
given. Where costs for what is asked were never measured, the answer is bounds, and is called extrapolated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from models.costs import Costs, Demand
from models.knobs import Knob
from models.scenario import ScenarioError

CORES = Knob("cores", "int", 1, "1:1024", "CPUs", "what if", "CPUs of the simulated machine")
NONE = "none"
REAL = {"lock": "mutex"}  # mechanisms that are settings too, and the value that is nearest to none
FARTHER = 3.0  # taken to be the most that waking costs between distant CPUs, over that between those measured
WAKES = ("machine.wake_", "machine.cooling_", "machine.cold_")
FAR = (*WAKES, "machine.block")


def _zeroed(*prefixes: str) -> Callable[[Costs], Costs]:
    def change(costs: Costs) -> Costs:
        return times(costs, 0.0, *prefixes)

    return change


def times(costs: Costs, factor: float, *prefixes: str) -> Costs:
    """The costs whose names begin so, with their intervals and covariance, multiplied by a factor."""
    chosen = {name: factor if name.startswith(prefixes) else 1.0 for name in costs.table}
    table = {
        name: replace(cost, value=f * cost.value, low=f * cost.low, high=f * cost.high)
        for (name, cost), f in zip(costs.table.items(), chosen.values(), strict=True)
    }
    weights = [chosen.get(name, 1.0) for name in costs.covariance.names]
    matrix = tuple(
        tuple(a * b * value for b, value in zip(weights, row, strict=True))
        for a, row in zip(weights, costs.covariance.matrix, strict=True)
    )
    return replace(costs, table=table, covariance=replace(costs.covariance, matrix=matrix))


def _of_demands(change: Callable[[Demand], Demand]) -> Callable[[Costs], Costs]:
    def changed(costs: Costs) -> Costs:
        return replace(costs, demands={key: change(demand) for key, demand in costs.demands.items()})

    return changed


def _unlocked(demand: Demand) -> Demand:
    return replace(demand, locks=False)


def _unasked(costs: Costs) -> Costs:
    def served(demand: Demand) -> Demand:
        return replace(demand, client=(0.0,) * len(demand.client))

    return _of_demands(served)(times(costs, 0.0, "load."))


IDEAL: dict[str, Callable[[Costs], Costs]] = {
    "lock": _of_demands(_unlocked),
    "switches": _zeroed("machine.switch", "machine.block"),
    "wakeups": _zeroed(*WAKES),
    "generator": _unasked,
}


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What is supposed: a number of CPUs, or None for those of the machine, and the mechanisms that cost nothing."""

    cores: int | None = None
    ideal: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.cores is not None or bool(self.ideal)

    def costs(self, costs: Costs) -> Costs:
        """The costs of the supposed machine."""
        for name in self.ideal:
            costs = IDEAL[name](costs)
        return replace(costs, cpus=self.cores or costs.cpus)

    def extrapolated(self, costs: Costs) -> list[str]:
        """What is asked of that was never measured, a line each; of costs as they were calibrated."""
        if self.cores is None or self.cores <= costs.cpus:
            return []
        return [
            f"cores={self.cores}: costs were measured on {costs.cpus} CPUs; what waking and sharing cost between CPUs "
            f"further apart was not, and is taken to be up to {FARTHER:g} times as much"
        ]

    def to_json(self) -> dict[str, Any]:
        return {"cores": self.cores, "ideal": list(self.ideal)}


def far(costs: Costs) -> Costs:
    """The costs of CPUs as far apart as they are taken to be at most."""
    return times(costs, FARTHER, *FAR)


def taken(pairs: Iterable[str]) -> tuple[WhatIf, tuple[str, ...]]:
    """What is supposed by name=value words, and the words that are left, which are settings of scenarios.

    Raises
    ------
    ScenarioError
        When cores is no number that it may be, or is given twice.
    """
    cores: list[str] = []
    ideal: dict[str, None] = {}
    left = []
    for word in pairs:
        name, _, value = (part.strip() for part in word.partition("="))
        if name == CORES.name:
            cores.append(value)
        elif name in IDEAL and value == NONE:
            ideal[name] = None
            left += [f"{name}={REAL[name]}"] if name in REAL else []
        else:
            left.append(word)
    if len(cores) > 1:
        raise ScenarioError("cores: given twice; one machine has one number of CPUs")
    try:
        number = int(CORES.parse(cores[0])) if cores else None
    except ValueError as error:
        raise ScenarioError(str(error)) from error
    return WhatIf(number, tuple(ideal)), tuple(left)
