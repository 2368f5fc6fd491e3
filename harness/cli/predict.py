"""Predicts one scenario with its simulation model."""

from __future__ import annotations

from typing import Any

import click

from harness.cli import OK
from harness.cli._options import AS_JSON, EFFORT, SYSTEM, check_effort, print_json, scenario_of


@click.command(short_help="Predict one scenario.")
@SYSTEM
@EFFORT
@AS_JSON
def command(
    as_json: bool, reps: int | None, window: float | None, warmup: float | None, **system: Any
) -> int:
    """Predicts what measuring the scenario would give, by simulating the same server.

    Takes the options of `measure`; those of effort say nothing to a simulation. Calibrates this machine first
    if its costs are not known.

    \b
    Example:
      python -m harness predict --service stock --server sbuf --set clients=50 --set workers=4 --json
    """
    check_effort(reps=reps, window=window, warmup=warmup)
    scenario = scenario_of(**system)
    from harness import calibrate
    from harness.cell import Cell
    from harness.errors import HarnessError
    from harness.progress import Reporting
    from harness.sweeping import shares
    from models import des
    from models.costs import MissingCost
    from models.outside import NO_MODEL
    from models.scenario import ScenarioError

    if scenario.outside:
        raise HarnessError(NO_MODEL)
    with Reporting() as progress:
        costs = calibrate.costs_for([scenario], progress=shares(progress, "calibrating"))
    try:
        metrics, engine = des.predict_with_engine(scenario, costs)
    except ScenarioError as error:  # a scenario that can be measured, but that no model covers
        raise HarnessError(str(error)) from error
    except MissingCost as error:
        raise HarnessError(str(error.args[0])) from error
    cell = {**Cell(scenario, predicted=metrics).to_json(), "engine": engine}
    if as_json:
        print_json(cell)
    else:
        from harness import table

        print(table.cell_text(cell))
    return OK
