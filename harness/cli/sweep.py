"""Measures, predicts, fits and explains over one variable or more."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli import FAILED, INTERRUPTED, OK
from harness.cli._options import (
    AS_JSON,
    EFFORT,
    OUTSIDE,
    SAMPLE,
    STOPPING,
    STORE,
    SYSTEM,
    outside_settings,
    print_json,
)

if TYPE_CHECKING:
    from harness.plan import Plan
    from harness.request import Request
    from harness.store import Store
    from harness.sweeping import Outcome


@click.command(short_help="Measure, predict, fit and explain over a variable.")
@click.option(
    "--var",
    "variables",
    metavar="KNOB",
    multiple=True,
    help="What to vary; repeatable: a grid, the first its axis.",
)
@click.option(
    "--values",
    metavar="VALUES",
    multiple=True,
    help="1,2,4 or 1:16 or 1:100:10 or 1:64:x2; one for each --var in order.",
)
@SYSTEM
@OUTSIDE
@EFFORT
@STOPPING
@SAMPLE
@STORE
@click.option("--quick", is_flag=True, help="Short windows and two blocks: a first look.")
@click.option("--dry-run", is_flag=True, help="Print what would be measured and how long it takes.")
@click.option("--no-predict", is_flag=True, help="Measure only.")
@click.option("--no-report", is_flag=True, help="Write no page.")
@AS_JSON
def command(
    as_json: bool,
    out: Path | None,
    resume: bool,
    dry_run: bool,
    no_predict: bool,
    no_report: bool,
    settings: tuple[str, ...],
    **given: Any,
) -> int:
    """Measures, predicts, fits and explains over one variable or more.

    A knob that --set gives twice makes a series for each value. Interrupted or killed, a sweep goes on with
    --resume; a finished one takes more --values the same way and measures only those.

    \b
    Examples:
      python -m harness sweep --var workers
      python -m harness sweep --var clients --values 1:100 --service stock --server sbuf --set workers=4
      python -m harness sweep --var workers --values 1:8 --set steal=none --set steal=next
      python -m harness sweep --var clients --target http://127.0.0.1:8000/
      python -m harness sweep --var workers --command 'gunicorn -w {workers} app:app -b 127.0.0.1:{port}' \\
          --target http://127.0.0.1:{port}/
    """
    from harness import request as requests
    from harness import sweeping

    settings += outside_settings(given)
    request = requests.Request(options=requests.settings(settings), **given)
    if dry_run:
        return _dry_run(requests.make(request), request, as_json, not no_predict)
    with sweeping.open_for(request, out, resume) as store:
        if not resume:
            _say_chosen(store, request)
        return carry_out(store, not no_predict, not no_report, "json" if as_json else "text")


def _say_chosen(store: Store, request: Request) -> None:
    """What the first contact with a server that is not ours chose."""
    from models import outside

    plan = store.plan()
    assert plan is not None
    if _chooses_window(plan, request):
        print(
            f"window: {plan.window:g} s, by how long starting and stopping the server takes", file=sys.stderr
        )
    options = dict(plan.options)
    if plan.server in outside.KINDS and "connection" in options and "connection" not in dict(request.options):
        print("connection=per_request: the server ends each connection after its reply", file=sys.stderr)


def _chooses_window(plan: Plan, request: Request) -> bool:
    return plan.server == "command" and request.window is None and not request.quick


def carry_out(store: Store, predict: bool, report: bool, show: str | None) -> int:
    """Executes the store's plan, shows its result (json, text or None), and gives the exit code."""
    from harness import auditing, document, sweeping
    from harness.progress import Reporting

    try:
        with Reporting() as progress:
            outcome = sweeping.execute(store, progress, predict, click.get_current_context().obj)
        result = document.document(store)
        auditing.keep(store, result["cells"])
    except KeyboardInterrupt:
        kept = len(store.done())
        print(
            f"interrupted: {kept} measurements are kept; go on with: {_resuming(store)}",
            file=sys.stderr,
        )
        return INTERRUPTED
    if show == "json":
        print_json(result)
    elif show == "text":
        from harness import table

        print(f"{table.text(result)}\nstore: {store.path}")
    status = _judge(store, outcome)
    if report:  # last, so that a page that cannot be written takes nothing else with it
        from harness import report as reporting

        page = store.path.with_suffix(".html")
        reporting.write(result, page)
        if show == "text":
            print(f"page:  {page}")
    return status


def _resuming(store: Store) -> str:
    return f"python -m harness sweep --resume --out {store.path}"


def _judge(store: Store, outcome: Outcome) -> int:
    """Names what failed, each cause once, and gives the exit code."""
    from harness import sweeping

    plan = store.plan()
    assert plan is not None
    causes: dict[str, list[str]] = {}
    for visit, message in outcome.failed:
        name = sweeping.name_of(plan, visit)
        # The same cause names another process or moment each time.
        causes.setdefault(f"{name} {re.sub('[0-9]', '', message)}", []).append(f"{name}: {message}")
    for lines in causes.values():
        print(f"error: {lines[0]}{f' ({len(lines)} times)' if len(lines) > 1 else ''}", file=sys.stderr)
    if causes:
        print(
            f"what was measured is kept; try the rest again with: {_resuming(store)}",
            file=sys.stderr,
        )
    if outcome.unpredicted:
        print(f"error: no predictions: {outcome.unpredicted}", file=sys.stderr)
    return FAILED if causes or outcome.unpredicted else OK


def _dry_run(plan: Plan, request: Request, as_json: bool, predict: bool) -> int:
    from harness import predicting
    from harness.deciding import stopping
    from harness.outside import contact
    from models import outside

    predict = predict and plan.server not in outside.KINDS
    visits = sum(len(plan.visits(block)) for block in range(plan.reps))
    most = stopping.most_blocks(plan.reps, plan.budget, plan.seconds(visits) / plan.reps)
    chosen = _chooses_window(plan, request)
    longest = replace(plan, window=contact.LONGEST) if chosen else plan
    seconds = longest.seconds(visits) * most / plan.reps + (predicting.BUDGET if predict else 0.0)
    if as_json:
        cells = [cell.scenario.to_json() for cell in plan.cells()]
        print_json({**plan.to_json(), "cells": cells, "visits": visits, "seconds_at_most": seconds})
        return OK
    print(f"{plan.service} on {plan.server} under {plan.load}, seed {plan.seed}")
    for fixed in dict.fromkeys(cell.fixed for cell in plan.cells()):
        shown = " ".join(f"{name}={value}" for name, value in fixed if name not in ("service", "server"))
        points = [f"{cell.x:g}" for cell in plan.cells() if cell.fixed == fixed]
        print(f"  {plan.axis}={','.join(points)}{f' with {shown}' if shown else ''}")
    shown = f" to {longest.window:g}" if chosen else ""
    print(
        f"{len(plan.cells())} cells in {plan.reps} blocks, each with its control and its null server: "
        f"{visits} measurements of {plan.window:g}{shown} s\n"
        f"{f'up to {most} blocks until the intervals are narrow; ' if most > plan.reps else ''}"
        f"about {seconds:.0f} s at most{' with predictions' if predict else ''}, calibration apart"
    )
    return OK
