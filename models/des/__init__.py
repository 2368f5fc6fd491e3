"""Simulation models: the threads of each server and load, as programs on a simulated machine. One file each."""

from __future__ import annotations

from typing import Any

from models.costs import Costs
from models.metrics import Metrics
from models.scenario import Scenario


def predict_with_engine(scenario: Scenario, costs: Costs, **settings: Any) -> tuple[Metrics, dict[str, Any]]:
    """The prediction, and {name, jobs_per_second} of the engine that made it; see models.des.engine.predict."""
    from models.des import engine

    return engine.predict(scenario, costs, **settings)


def predict(scenario: Scenario, costs: Costs, **settings: Any) -> Metrics:
    """The prediction alone."""
    return predict_with_engine(scenario, costs, **settings)[0]
