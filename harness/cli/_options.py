"""Options that several commands share, and what is made of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.limit import FIGURES

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


def system(load: str = "closed") -> Callable[[Function], Function]:
    """The parts of a scenario and their knobs; `load` is the one that is taken without --load."""
    return _together(
        click.option(
            "--service", metavar="NAME", help="What is asked (default: what suits the server and the knobs)."
        ),
        click.option(
            "--server", metavar="NAME", help="How concurrency is arranged (default: what suits the service)."
        ),
        click.option("--load", metavar="NAME", help=f"Who asks (default: {load})."),
        click.option(
            "--set",
            "settings",
            metavar="KNOB=VALUE",
            multiple=True,
            help="A knob; `list` names all. Repeatable.",
        ),
        click.option("--seed", type=int, help="Of every random choice (default: 1)."),
    )


SYSTEM = system()
EFFORT = _together(
    click.option("--reps", type=int, help="Repetitions, each on a fresh server process (default: 5)."),
    click.option("--time", "window", type=float, metavar="S", help="Seconds measured in each (default: 1)."),
    click.option("--warmup", type=float, metavar="S", help="Seconds of load before them (default: 0.15)."),
)
OUT = click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The store (default: a new one in results/).",
)
STORE = _together(
    OUT,
    click.option("--resume", is_flag=True, help="Go on with --out, or with the newest store in results/."),
)
COLUMNS = _together(
    click.option("--n", metavar="NAME", help="Column of clients, or their number in every row."),
    click.option("--x", metavar="NAME", help="Column of throughput."),
    click.option("--r", metavar="NAME", help="Column of response time; none leaves all such times out."),
    click.option("--think", metavar="NAME", help="Column of think time, or seconds of it in every row."),
)
OUTSIDE = _together(
    click.option(
        "--target", metavar="ADDRESS", help="A server not ours: http://HOST:PORT/PATH or HOST:PORT."
    ),
    click.option(
        "--command",
        metavar="WORDS",
        help="Starts it for each measurement; {NAME} is a knob, {port} a free port.",
    ),
    click.option("--protocol", metavar="NAME", help="The service that it speaks (default: http for a URL)."),
    click.option("--request", "request_text", metavar="TEXT", help="What is asked, with --protocol lines."),
    click.option("--allow-remote", is_flag=True, help="The target may lie off this machine's loopback."),
    click.option(
        "--ready-timeout", metavar="S", help="Time in which it must answer for the first time (default: 15)."
    ),
)
ENGINE = click.option(
    "--engine",
    type=click.Choice(["simpy", "compiled"]),
    help="What simulates (default: the fastest there is).",
)
LIMITS = _together(
    *(
        click.option(
            f"--{name}",
            metavar="TIME",
            help=f"{'Mean' if name == 'mean' else f'{name[1:]}th percentile'} of the response that is allowed: 5ms, 200us.",
        )
        for name in FIGURES
    )
)
SAMPLE = click.option(
    "--sample",
    type=float,
    metavar="S",
    help="Look at the server's processes this often: CPU, memory, threads, switches over time "
    "(default: not; twice in each window where the server is not ours).",
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


def outside_settings(given: dict[str, Any]) -> tuple[str, ...]:
    """The options of OUTSIDE that are settings, taken out of what was given, as --set has them."""
    found = []
    text, allowed, timeout = (given.pop(name) for name in ("request_text", "allow_remote", "ready_timeout"))
    if text is not None:
        found.append(f"request={text}")
    if allowed:
        found.append("remote=allow")
    if timeout is not None:
        found.append(f"ready_timeout={timeout}")
    return tuple(found)


def scenario_of(settings: tuple[str, ...], seed: int | None = None, **system: str | None) -> Scenario:
    """The one scenario that the options name; `system` is service, server, load, target, command, protocol."""
    from harness import plan, request
    from harness.errors import HarnessError
    from harness.outside import outsiders
    from models.scenario import Scenario, ScenarioError

    asked = outsiders.settled(request.Request(options=request.settings(settings), **system))  # type: ignore[arg-type]
    pairs = asked.options
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise HarnessError(
                f"--set {name}: given twice; one scenario has one value (sweep takes several)", usage=True
            )
    chosen = request.parts(asked.service, asked.server, asked.load, names)
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
