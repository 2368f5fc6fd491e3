"""All that touches the machine: measuring, calibrating, sweeping, storing, reporting; and the CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.cell import Cell
    from models.scenario import Scenario

__all__ = ["measure", "sweep"]


def measure(scenario: Scenario, **settings: Any) -> Cell:
    """Measures one scenario on fresh server processes; see harness.measuring.measure."""
    from harness import measuring

    return measuring.measure(scenario, **settings)


def sweep(*variables: str, **settings: Any) -> dict[str, Any]:
    """Measures, predicts, fits and explains over one variable or more; see harness.sweeping.sweep."""
    from harness import sweeping

    return sweeping.sweep(*variables, **settings)
