"""Measures what the models are calibrated with."""

from __future__ import annotations

import click

from harness.cli import OK
from harness.cli._options import AS_JSON, print_json


@click.command(short_help="Measure this machine's costs for the models.")
@click.option("--refresh", is_flag=True, help="Measure anew, even if the costs of this machine are known.")
@AS_JSON
def command(refresh: bool, as_json: bool) -> int:
    """Measures what the models are calibrated with; kept for this machine until its speed shifts.

    \b
    Example:
      python -m harness calibrate --refresh
    """
    from harness import calibrate, table
    from harness.progress import Reporting
    from harness.sweeping import shares
    from models.wording import interval, seconds

    with Reporting() as progress:
        costs = calibrate.costs(progress=shares(progress, "calibrating"), refresh=refresh)
    if as_json:
        print_json(costs.to_json())
        return OK
    rows = [
        (name, seconds(cost.value), interval(cost.low * 1e6, cost.high * 1e6), cost.source)
        for name, cost in sorted(costs.table.items())
    ]
    print("\n".join(table.lines(rows, ("cost", "value", "95 % µs", "source"), words=1)))
    return OK
