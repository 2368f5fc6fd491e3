"""Simulation models: the threads of each server and load, as programs on a simulated machine. One file each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from models.costs import Costs
from models.metrics import Metrics
from models.scenario import Scenario

if TYPE_CHECKING:
    from models.des.outcome import Outcome
    from models.des.records import World


def predict_with_engine(scenario: Scenario, costs: Costs, **settings: Any) -> tuple[Metrics, dict[str, Any]]:
    """The prediction, and {name, jobs_per_second} of the engine that made it; see models.des.engine.predict."""
    from models.des import engine

    return engine.predict(scenario, costs, **settings)


def prepared(
    scenario: Scenario, costs: Costs, **settings: Any
) -> Callable[..., tuple[Metrics, dict[str, Any]]]:
    """Predictions of a scenario with one set of costs after another; see models.des.engine.prepared."""
    from models.des import engine

    return engine.prepared(scenario, costs, **settings)


def predict(scenario: Scenario, costs: Costs, **settings: Any) -> Metrics:
    """The prediction alone."""
    return predict_with_engine(scenario, costs, **settings)[0]


def simulate(build: Callable[[World], None], costs: Any = None, **settings: Any) -> list[Outcome]:
    """Programs of one's own; see models.des.engine.simulate."""
    from models.des import engine

    return engine.simulate(build, costs, **settings)
