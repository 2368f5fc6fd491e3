"""Measures one scenario."""

from __future__ import annotations

from typing import Any

import click

from harness.cli import OK
from harness.cli._options import (
    AS_JSON,
    EFFORT,
    OUTSIDE,
    SAMPLE,
    SYSTEM,
    check_effort,
    outside_settings,
    print_json,
    scenario_of,
)


@click.command(short_help="Measure one scenario.")
@SYSTEM
@OUTSIDE
@EFFORT
@SAMPLE
@AS_JSON
def command(
    as_json: bool,
    reps: int | None,
    window: float | None,
    warmup: float | None,
    settings: tuple[str, ...],
    sample: float | None,
    **system: Any,
) -> int:
    """Measures one scenario, each repetition on a fresh server process.

    \b
    Example:
      python -m harness measure --service stock --server sbuf --set clients=50 --set workers=4 --json
      python -m harness measure --target 127.0.0.1:6379 --protocol lines --request 'PING\\r\\n' --set clients=20
    """
    check_effort(reps=reps, window=window, warmup=warmup, sample=sample)
    settings += outside_settings(system)
    scenario = scenario_of(settings, **system)
    from harness import measuring, recorded
    from harness.outside import contact
    from harness.plan import REPS, WARMUP
    from harness.progress import Reporting

    count = REPS if reps is None else reps
    named = [word.partition("=")[0] for word in settings]
    warmup = WARMUP if warmup is None else warmup
    scenario, window = contact.met(scenario, named, window, warmup)
    replicates = []
    with Reporting() as progress:
        progress.begin("measuring", count)
        for block in range(count):
            replicates.append(
                measuring.measure_once(scenario, block=block, window=window, warmup=warmup, sample=sample)
            )
            progress.step(f"{recorded.throughput_of(replicates[-1].record):,.0f} replies/s")
    cell = measuring.cell_of(scenario, replicates).to_json()
    if as_json:
        print_json(cell)
    else:
        from harness import table

        print(table.cell_text(cell))
    return OK
