"""All that touches the machine: measuring, calibrating, sweeping, probing, storing, reporting; and the CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.cell import Cell
    from models.scenario import Scenario

__all__ = ["measure", "probe", "sweep"]


def measure(scenario: Scenario, **settings: Any) -> Cell:
    """Measures one scenario on fresh server processes; see harness.measuring.measure."""
    from harness import measuring

    return measuring.measure(scenario, **settings)


def probe(*probes: str, **settings: Any) -> dict[str, Any]:
    """Measures what primitives cost on this machine, all or those named.

    The settings are the fields of harness.probing.wanted.Request, in the words of `python -m harness probe`; the document
    is the one that command writes, and points that failed stand in its `refused`.
    """
    from harness.probing import running
    from harness.probing.wanted import Request

    return running.run(Request(probes, **settings)).document


def sweep(*variables: str, **settings: Any) -> dict[str, Any]:
    """Measures, predicts, fits and explains over one variable or more; see harness.sweeping.sweep."""
    from harness import sweeping

    return sweeping.sweep(*variables, **settings)
