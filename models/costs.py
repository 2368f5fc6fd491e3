"""What the models are calibrated with: each cost with its interval and where it came from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from models.metrics import number
from models.scenario import Scenario

# Factors of all times that were sampled of the service, and of its clients: costs like others, 1 unless they are drawn.
SERVICE, CLIENT = "demand.service", "demand.client"
FACTORS = {SERVICE: 1.0, CLIENT: 1.0}


class MissingCost(LookupError):
    """A model needs a cost that these costs do not have; the message says which, and how to get it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One cost with its 95 % interval, its source (what it was measured on), and its unit: s, or share."""

    value: float
    low: float = math.nan
    high: float = math.nan
    source: str = ""
    unit: str = "s"

    def to_json(self) -> dict[str, Any]:
        return {
            "value": number(self.value),
            "low": number(self.low),
            "high": number(self.high),
            "unit": self.unit,
            "source": self.source,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Cost:
        value, low, high = (
            math.nan if document[name] is None else float(document[name]) for name in ("value", "low", "high")
        )
        return cls(value, low, high, str(document["source"]), str(document["unit"]))


@dataclass(frozen=True, slots=True)
class Covariance:
    """Of the costs that were fitted together: their names, and the matrix in that order, s²."""

    names: tuple[str, ...] = ()
    matrix: tuple[tuple[float, ...], ...] = ()

    def of(self, weights: Mapping[str, float]) -> float:
        """Variance of a sum of these costs with such weights, s²."""
        size = range(len(self.names))
        weight = [weights.get(name, 0.0) for name in self.names]
        return math.fsum(weight[i] * self.matrix[i][j] * weight[j] for i in size for j in size)

    def to_json(self) -> dict[str, Any]:
        return {"names": self.names, "matrix": self.matrix}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Covariance:
        return cls(tuple(document["names"]), tuple(tuple(row) for row in document["matrix"]))


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the fit: the source, the time measured and that which the costs make of it, and its standard error, s."""

    source: str
    measured: float
    fitted: float
    error: float

    @property
    def standardised(self) -> float:
        """What the fit misses the row by, in its standard errors."""
        return (self.measured - self.fitted) / self.error

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "measured": self.measured,
            "fitted": self.fitted,
            "error": self.error,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Row:
        return cls(
            str(document["source"]),
            *(float(document[name]) for name in ("measured", "fitted", "error")),
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """What a service's requests cost, each from client to service and back in memory, without any server.

    Attributes
    ----------
    operations : tuple of int
        Number of each sampled request's operation.
    fixed, client : tuple of float
        Time to parse and answer it, and time of the client's side, s.
    tasks : tuple of tuple of float
        Time of each of its tasks, s.
    rounds : int
        Exchanges before the one that brings the reply.
    locks : bool
        Whether the service's locks are real; False supposes ones that nobody ever waits for (models.what_if).
    """

    operations: tuple[int, ...]
    fixed: tuple[float, ...]
    client: tuple[float, ...]
    tasks: tuple[tuple[float, ...], ...]
    rounds: int
    locks: bool = True

    @property
    def mean(self) -> float:
        """Mean processor time of the service for a request, s."""
        return (math.fsum(self.fixed) + math.fsum(map(math.fsum, self.tasks))) / len(self.fixed)

    def to_json(self) -> dict[str, Any]:
        return {
            "operations": self.operations,
            "fixed": self.fixed,
            "client": self.client,
            "tasks": self.tasks,
            "rounds": self.rounds,
            "locks": self.locks,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Demand:
        return cls(
            tuple(document["operations"]),
            tuple(document["fixed"]),
            tuple(document["client"]),
            tuple(tuple(row) for row in document["tasks"]),
            int(document["rounds"]),
            bool(document.get("locks", True)),
        )


def demand_key(scenario: Scenario) -> str:
    """What a scenario's demand depends on: the service, its knobs, how the server cuts requests, and the seed."""
    options: dict[str, Any] = dict(scenario.native_options("service"))
    return json.dumps([scenario.service, scenario.seed, scenario.get("chunk"), options], sort_keys=True)


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of one machine at one time.

    Attributes
    ----------
    cpus : int
    table : mapping of str to Cost
        machine.* (waking and switching), load.* (the generator), NAME.* (a server), as the models name them
        in COSTS.
    demands : mapping of str to Demand
        By `demand_key`.
    quality : mapping of str to float
        Of the fit: condition (number), residual and between (shares), rows (how many).
    provenance : mapping
        When, where and how they were measured; the yardstick.
    covariance : Covariance
    rows : tuple of Row
        Of the fit.
    """

    cpus: int
    table: Mapping[str, Cost]
    demands: Mapping[str, Demand] = field(default_factory=dict)
    quality: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    covariance: Covariance = Covariance()
    rows: tuple[Row, ...] = ()

    def __getitem__(self, name: str) -> float:
        if name not in self.table and name in FACTORS:
            return FACTORS[name]
        if name not in self.table:
            raise MissingCost(f"no cost {name}: run python -m harness calibrate --refresh")
        return self.table[name].value

    def values(self) -> dict[str, float]:
        """Every cost by name, the demand's factors among them."""
        return FACTORS | {name: cost.value for name, cost in self.table.items()}

    def demand(self, scenario: Scenario) -> Demand:
        key = demand_key(scenario)
        if key not in self.demands:
            raise MissingCost(
                f"the demand of service {scenario.service} with these settings was not calibrated: "
                "use harness.calibrate.costs_for([scenario])"
            )
        return self.demands[key]

    def with_demands(self, demands: Mapping[str, Demand]) -> Costs:
        return replace(self, demands={**self.demands, **demands})

    def to_json(self) -> dict[str, Any]:
        return {
            "cpus": self.cpus,
            "table": {name: cost.to_json() for name, cost in self.table.items()},
            "demands": {key: demand.to_json() for key, demand in self.demands.items()},
            "quality": {name: number(value) for name, value in self.quality.items()},
            "provenance": dict(self.provenance),
            "covariance": self.covariance.to_json(),
            "rows": [row.to_json() for row in self.rows],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Costs:
        return cls(
            int(document["cpus"]),
            {name: Cost.from_json(row) for name, row in document["table"].items()},
            {key: Demand.from_json(row) for key, row in document["demands"].items()},
            {name: math.nan if value is None else value for name, value in document["quality"].items()},
            document["provenance"],
            Covariance.from_json(document["covariance"]),
            tuple(Row.from_json(row) for row in document["rows"]),
        )
