"""Scenarios, what they measured or are predicted to measure, and the models that predict. Pure: needs no running server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from models.scenario import Scenario, ScenarioError

if TYPE_CHECKING:
    from models.costs import Costs
    from models.metrics import Metrics

__all__ = ["Scenario", "ScenarioError", "predict"]


def predict(scenario: Scenario, costs: Costs, **settings: Any) -> Metrics:
    """Predicts what measuring the scenario would give; see models.des.predict."""
    from models import des

    return des.predict(scenario, costs, **settings)
