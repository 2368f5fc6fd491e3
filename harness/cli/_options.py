"""Options that several commands share, and what is made of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from models.scenario import Scenario

Function = TypeVar("Function", bound=Callable[..., Any])

AS_JSON = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout and nothing else."
)


def _together(*options: Callable[[Any], Any]) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


SYSTEM = _together(
    click.option(
        "--service", metavar="NAME", help="What is asked (default: what suits the server and the knobs)."
    ),
    click.option(
        "--server", metavar="NAME", help="How concurrency is arranged (default: what suits the service)."
    ),
    click.option("--load", metavar="NAME", help="Who asks (default: closed)."),
    click.option(
        "--set", "settings", metavar="KNOB=VALUE", multiple=True, help="A knob; `list` names all. Repeatable."
    ),
    click.option("--seed", type=int, help="Of every random choice (default: 1)."),
)
EFFORT = _together(
    click.option("--reps", type=int, help="Repetitions, each on a fresh server process (default: 5)."),
    click.option("--time", "window", type=float, metavar="S", help="Seconds measured in each (default: 1)."),
    click.option("--warmup", type=float, metavar="S", help="Seconds of load before them (default: 0.15)."),
)
SAMPLE = click.option(
    "--sample",
    type=float,
    metavar="S",
    help="Look at the server's processes this often: CPU, memory, threads, switches over time (default: not).",
)
STOPPING = _together(
    click.option(
        "--precision",
        type=float,
        metavar="SHARE",
        help="Half of the interval of throughput that is narrow enough, relative (default: 0.05).",
    ),
    click.option(
        "--budget",
        type=float,
        metavar="S",
        help="Measuring time within which further blocks must end (default: 1.3 times the planned blocks').",
    ),
)
COLUMNS = _together(
    click.option("--n", metavar="NAME", help="Column of clients, or their number in every row."),
    click.option("--x", metavar="NAME", help="Column of throughput."),
    click.option("--r", metavar="NAME", help="Column of response time; none leaves all such times out."),
    click.option("--think", metavar="NAME", help="Column of think time, or seconds of it in every row."),
)


def scenario_of(
    service: str | None, server: str | None, load: str | None, settings: tuple[str, ...], seed: int | None
) -> Scenario:
    """The one scenario that the options name."""
    from harness import plan, request
    from harness.errors import HarnessError
    from models.scenario import Scenario, ScenarioError

    pairs = request.settings(settings)
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise HarnessError(
                f"--set {name}: given twice; one scenario has one value (sweep takes several)", usage=True
            )
    chosen = request.parts(service, server, load, names)
    options = {name: value for name, value in pairs if name != plan.SEED_KNOB.name}
    try:
        number = plan.SEED if seed is None else seed
        for name, value in pairs:
            if name == plan.SEED_KNOB.name:
                number = int(plan.SEED_KNOB.parse(value))
        return Scenario.of(*chosen, number, options)
    except ScenarioError as error:
        raise HarnessError(str(error), usage=True) from error
    except ValueError as error:
        raise HarnessError(str(error), usage=True) from error


def check_effort(**numbers: float | None) -> None:
    """reps, window and warmup within their limits."""
    from harness.request import Request, check_numbers

    check_numbers(Request(**numbers))  # type: ignore[arg-type]


def print_json(document: Any) -> None:
    """The document on stdout; what is not a number has become null before."""
    print(json.dumps(document, indent=1, allow_nan=False))
