"""Finds the highest load at which the response time stays within a limit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from harness.cli import INTERRUPTED, OK
from harness.cli._options import AS_JSON, EFFORT, LIMITS, OUTSIDE, STORE, outside_settings, print_json, system
from harness.limit import FIGURES


@click.command("find-limit", short_help="Find the highest load within a response time.")
@LIMITS
@system(load="open")
@OUTSIDE
@click.option("--low", type=float, metavar="R", help="Where to begin (default: 100/s, or one client).")
@click.option(
    "--high", type=float, metavar="R", help="Where to end at the latest (default: what the load allows)."
)
@EFFORT
@STORE
@AS_JSON
def command(
    as_json: bool,
    out: Path | None,
    resume: bool,
    low: float | None,
    high: float | None,
    settings: tuple[str, ...],
    **given: Any,
) -> int:
    """Finds the highest load at which the response time stays within a limit.

    The load is open unless --load closed is given: its arrival_rate is doubled, then bisected, each value measured on
    fresh server processes until it is told from the limit. A closed load's number of clients is searched alike. A load is
    within the limit only if it was delivered and nothing failed. Killed, a search goes on with --resume, which may ask
    for another limit too.

    \b
    Examples:
      python -m harness find-limit --p99 5ms --service stock --server sbuf --set workers=4
      python -m harness find-limit --mean 1ms --load closed --service prime --high 256
    """
    from harness import durations
    from harness import request as requests
    from harness.errors import HarnessError
    from harness.limit import finding as finding_limit
    from harness.limit.trial import Criterion
    from harness.progress import Reporting

    asked = [(name, text) for name in FIGURES if (text := given.pop(name)) is not None]
    if len(asked) > 1:
        raise HarnessError(f"--{asked[0][0]} and --{asked[1][0]}: one limit at a time", usage=True)
    criterion = Criterion(asked[0][0], durations.parse(asked[0][1], f"--{asked[0][0]}")) if asked else None
    settings += outside_settings(given)
    request = requests.Request(options=requests.settings(settings), **given)
    store, search = finding_limit.open_for(request, criterion, low, high, out, resume)
    with store:
        try:
            with Reporting() as progress:
                words = click.get_current_context().obj
                result = finding_limit.execute(store, search, progress, words)
        except KeyboardInterrupt:
            kept = len(store.done())
            line = f"interrupted: {kept} measurements are kept; go on with"
            print(f"{line}: python -m harness find-limit --resume --out {store.path}", file=sys.stderr)
            return INTERRUPTED
        if as_json:
            print_json(result)
        else:
            print(f"{finding_limit.text(result)}\nstore: {store.path}")
    return OK
