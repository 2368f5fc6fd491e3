"""Measures one scenario."""

from __future__ import annotations

from typing import Any

import click

from harness.cli import OK
from harness.cli._options import AS_JSON, EFFORT, SAMPLE, SYSTEM, check_effort, print_json, scenario_of


@click.command(short_help="Measure one scenario.")
@SYSTEM
@EFFORT
@SAMPLE
@AS_JSON
def command(
    as_json: bool,
    reps: int | None,
    window: float | None,
    warmup: float | None,
    sample: float | None,
    **system: Any,
) -> int:
    """Measures one scenario, each repetition on a fresh server process.

    \b
    Example:
      python -m harness measure --service stock --server sbuf --set clients=50 --set workers=4 --json
    """
    check_effort(reps=reps, window=window, warmup=warmup, sample=sample)
    scenario = scenario_of(**system)
    from harness import measuring
    from harness.plan import REPS, WARMUP, WINDOW
    from harness.progress import Reporting

    count = REPS if reps is None else reps
    timing = {"window": WINDOW if window is None else window, "warmup": WARMUP if warmup is None else warmup}
    replicates = []
    with Reporting() as progress:
        progress.begin("measuring", count)
        for block in range(count):
            replicates.append(measuring.measure_once(scenario, block=block, sample=sample, **timing))
            progress.step(f"{measuring.throughput_of(replicates[-1].record):,.0f} replies/s")
    cell = measuring.cell_of(scenario, replicates).to_json()
    if as_json:
        print_json(cell)
    else:
        from harness import table

        print(table.cell_text(cell))
    return OK
