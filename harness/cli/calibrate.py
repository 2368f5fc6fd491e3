"""Measures what the models are calibrated with."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from harness.cli import OK
from harness.cli._options import AS_JSON, print_json

if TYPE_CHECKING:
    from models.costs import Cost


def _cost(cost: Cost) -> tuple[str, str]:
    """A cost and its interval in words."""
    from models.wording import interval, percent, seconds

    if cost.unit == "share":
        return percent(cost.value), interval(cost.low * 1e2, cost.high * 1e2) + " %"
    return seconds(cost.value), interval(cost.low * 1e6, cost.high * 1e6) + " µs"


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
    from models.wording import percent

    with Reporting() as progress:
        costs = calibrate.costs(progress=shares(progress, "calibrating"), refresh=refresh)
    if calibrate.disturbance(costs) > calibrate.NOISY:
        share = percent(calibrate.disturbance(costs))
        print(
            f"warning: other processes used {share} of the CPUs meanwhile: these costs are off, and the next "
            "command that needs them measures anew",
            file=sys.stderr,
        )
    if as_json:
        print_json(costs.to_json())
        return OK
    rows = [(name, *_cost(cost), cost.source) for name, cost in sorted(costs.table.items())]
    print("\n".join(table.lines(rows, ("cost", "value", "95 %", "source"), words=1)))
    return OK
