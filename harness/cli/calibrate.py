"""Measures what the models are calibrated with."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from harness.cli import OK
from harness.cli._options import AS_JSON, print_json

if TYPE_CHECKING:
    from models.costs import Cost, Costs, Row

WORST = 5  # rows shown


def _cost(cost: Cost) -> tuple[str, str]:
    """A cost and its interval in words."""
    from models.wording import figure, interval

    scale, unit = (1e2, "%") if cost.unit == "share" else (1e6, "µs")
    return f"{figure(cost.value * scale)} {unit}", f"{interval(cost.low * scale, cost.high * scale)} {unit}"


@click.command(short_help="Measure this machine's costs for the models.")
@click.option("--quick", is_flag=True, help="Under 20 s, as a sweep does by itself; otherwise up to 90 s.")
@click.option("--refresh", is_flag=True, help="Measure anew, even if the costs of this machine are known.")
@AS_JSON
def command(quick: bool, refresh: bool, as_json: bool) -> int:
    """Measures what the models are calibrated with, a ladder of zero-demand servers and probes, and fits all costs to both.

    The costs are kept for this machine until its speed shifts. Those of a quick calibration are measured anew when the
    full one is asked for.

    \b
    Example:
      python -m harness calibrate --refresh
    """
    from harness import calibrate
    from harness.progress import Reporting
    from harness.sweeping import shares

    effort = calibrate.QUICK if quick else calibrate.FULL
    with Reporting() as progress:
        costs = calibrate.costs(shares(progress, "calibrating"), refresh, effort)
    if warning := calibrate.warning(costs.provenance):
        print(f"warning: {warning}", file=sys.stderr)
    if as_json:
        print_json(costs.to_json())
    else:
        print("\n\n".join(_parts(costs)))
    return OK


def _parts(costs: Costs) -> Iterator[str]:
    """The costs, how good their fit is, and the rows that it misses most."""
    from harness import table
    from models.uncertainty import discrepancy_of
    from models.wording import figure, percent

    rows = [(name, *_cost(cost), cost.source) for name, cost in sorted(costs.table.items())]
    yield "\n".join(table.lines(rows, ("cost", "value", "95 %", "source"), words=1))
    quality = costs.quality
    yield (
        f"Fit of {figure(quality['rows'])} rows: condition number {figure(quality['condition'])}; the ladder's rows are "
        f"missed by {percent(quality['residual'])}, of which their equations account for {percent(quality['between'])}."
    )
    if off := discrepancy_of(costs):
        yield (
            f"The models miss the ladder's rungs by {percent(off)}, each predicted with costs fitted without it: intervals "
            "count on as much; it may be more where predictions leave the ladder."
        )
    worst = sorted(costs.rows, key=lambda row: -abs(row.standardised))[:WORST]
    heads = ("measured", "fitted", "missed by", "row that the fit misses most")
    yield "\n".join(table.lines([_missed(row) for row in worst], heads, words=1))


def _missed(row: Row) -> tuple[str, str, str, str]:
    from models.wording import figure

    measured, fitted = (f"{figure(seconds * 1e6)} µs" for seconds in (row.measured, row.fitted))
    return measured, fitted, f"{figure(row.standardised, 2)} errors", row.source
