"""Plans the workers and cores that a load and a response time need."""

from __future__ import annotations

from typing import Any

import click

from harness.cli import FAILED, OK
from harness.cli._options import AS_JSON, ENGINE, LIMITS, print_json, scenario_of, system
from harness.limit import FIGURES


@click.command(short_help="Plan the workers and cores for a load.")
@click.option("--rate", type=float, required=True, metavar="R", help="Requests a second that arrive.")
@LIMITS
@system(load="open")
@click.option("--workers", metavar="VALUES", help="Numbers of workers to try (default: 1:16).")
@click.option("--cores", metavar="VALUES", help="Numbers of CPUs to try (default: 1 to this machine's).")
@click.option(
    "--confidence",
    type=float,
    metavar="SHARE",
    help="Of possible costs for which it must hold (default: 0.95).",
)
@ENGINE
@AS_JSON
def command(
    as_json: bool, rate: float, settings: tuple[str, ...], load: str | None, seed: int | None, **given: Any
) -> int:
    """Plans the workers and cores that are enough, by the model of an open load.

    Tries fewest cores first, then fewest workers. Each is simulated with many draws of the costs from what calibration
    knows of them; it is enough when the target holds in at least 95 % of these, and then of fresh ones that confirm
    it. The target is the rate, and the limits of the response time if there are any. The cores carry the load
    generator too, unless --set generator=none supposes that it runs elsewhere. More cores than were calibrated are
    extrapolated.

    Exit code 1 when no number is enough.

    \b
    Examples:
      python -m harness plan --rate 3000 --p99 5ms
      python -m harness plan --rate 20000 --mean 1ms --service stock --server sbuf --cores 1:8 --json
      python -m harness plan --rate 5000 --p99 2ms --workers 1,2,4,8 --set generator=none --confidence 0.8
    """
    from harness import asking_models, durations, planning_for
    from harness.errors import HarnessError
    from models.planning import Target

    if load not in (None, "open"):
        raise HarnessError(f"--load {load}: a plan is for requests that arrive; leave it out", usage=True)
    limits = tuple(
        (name, durations.parse(text, f"--{name}"))
        for name in FIGURES
        if (text := given.pop(name)) is not None
    )
    question, left = asking_models.taken(settings)
    planning_for.check_left(left)
    parts = {name: given.pop(name) for name in ("service", "server")}
    scenario = scenario_of(settings=(*left, f"arrival_rate={rate!r}"), load="open", seed=seed, **parts)
    told = {name: value for name, value in given.items() if value is not None}
    answer = planning_for.answer(scenario, question, Target(rate, limits), **told)
    if as_json:
        print_json(answer.to_json())
    else:
        print(answer.text())
    return OK if answer.planned.found else FAILED
