"""Predicts one scenario with its simulation model."""

from __future__ import annotations

from typing import Any

import click

from harness.cli import OK
from harness.cli._options import AS_JSON, EFFORT, ENGINE, SYSTEM, check_effort, print_json, scenario_of


@click.command(short_help="Predict one scenario, also on a machine that is not there.")
@SYSTEM
@ENGINE
@click.option("--sensitivity", is_flag=True, help="How much each cost changes the throughput.")
@click.option(
    "--precision",
    type=float,
    metavar="SHARE",
    help="Half-width of the mean at which to stop (default: 0.02).",
)
@click.option("--budget", type=float, metavar="S", help="Seconds of simulating at most (default: 10).")
@EFFORT
@AS_JSON
def command(
    as_json: bool,
    reps: int | None,
    window: float | None,
    warmup: float | None,
    engine: str | None,
    sensitivity: bool,
    precision: float | None,
    budget: float | None,
    settings: tuple[str, ...],
    **system: Any,
) -> int:
    """Predicts what measuring the scenario would give, by simulating the same server.

    Takes the options of `measure`; of those of effort, --reps alone says something to a simulation: the interval is that of
    the mean of so many runs (5). It holds what is not known of the costs, what the models are known to miss, and how
    differently single runs come out. Calibrates this machine first if its costs are not known.

    What if: --set cores=16 simulates a machine with so many CPUs, and lock=none, switches=none, wakeups=none or
    generator=none one on which these cost nothing. Where costs were never measured for what is asked, the answer is
    bounds, and says that it is extrapolated.

    \b
    Examples:
      python -m harness predict --service stock --server sbuf --set clients=50 --set workers=4 --json
      python -m harness predict --set workers=8 --set cores=16 --sensitivity
      python -m harness predict --service stock --server sbuf --set lock=none --set wakeups=none
      python -m harness predict --set clients=50 --engine simpy --budget 30
    """
    from harness import asking_models

    check_effort(reps=reps, window=window, warmup=warmup, precision=precision, budget=budget)
    question, left = asking_models.taken(settings)
    scenario = scenario_of(settings=left, **system)
    told = {"engine": engine, "precision": precision, "budget": budget, "replicates": reps}
    answer = asking_models.ask(
        scenario, question, sensitivity, **{name: value for name, value in told.items() if value is not None}
    )
    if as_json:
        print_json(answer.to_json())
    else:
        print(answer.text())
    return OK
