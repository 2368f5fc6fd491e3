"""Runs an experiment: its sweeps and probes, then its answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from harness.cli import FAILED, INTERRUPTED, OK
from harness.cli._options import AS_JSON, print_json


@click.command(short_help="Run an experiment.")
@click.argument("name")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Of its stores (default: a new one in results/).",
)
@click.option("--resume", is_flag=True, help="Go on with --out, or with the newest run of this experiment.")
@click.option("--quick", is_flag=True, help="Short windows and two blocks: a first look.")
@click.option("--no-predict", is_flag=True, help="Measure only.")
@AS_JSON
def command(name: str, out: Path | None, resume: bool, quick: bool, no_predict: bool, as_json: bool) -> int:
    """Runs the sweeps and the probes of experiment NAME and answers its question.

    \b
    Examples:
      python -m harness run prime_workers --quick
      python -m harness run signal_pairs
    """
    from harness import document, experiments, sweeping
    from harness.cli.sweep import carry_out

    experiment = experiments.find(name, quick)
    place = experiments.folder(name, out, resume)
    if not as_json:
        print(f"{experiment.question}\n")
    results: dict[str, Any] = {}
    worst = OK
    for key, request in experiment.requests.items():
        path = place / f"{key}{sweeping.SUFFIX}"
        # A run killed before this sweep's turn has no store for it yet.
        with sweeping.open_for(request, path, resume) as store:
            status = carry_out(store, not no_predict, report=True, show=None if as_json else "text")
            if status >= 128:
                return status
            worst = max(worst, status)
            results[key] = document.document(store)
    for key, wanted in experiment.probes.items():
        status, results[key] = _probe(wanted, place / f"{key}.json", resume, show=not as_json)
        if status >= 128:
            return status
        worst = max(worst, status)
    answer = experiment.answer(results)
    if as_json:
        print_json(
            {"experiment": name, "question": experiment.question, "answer": answer, "results": results}
        )
    else:
        print(f"\n{answer}")
    return worst


def _probe(wanted: Mapping[str, Any], path: Path, resume: bool, show: bool) -> tuple[int, Mapping[str, Any]]:
    """One run of probes, or what is kept of it; gives the exit code and the document."""
    from harness.probing import running, table
    from harness.probing.wanted import Request
    from harness.progress import Reporting

    if resume and path.exists() and (kept := json.loads(path.read_text()))["complete"]:
        return OK, kept
    request = Request(**wanted)
    path = running.path_for(path, ())
    with Reporting() as progress:
        outcome = running.run(request, progress, click.get_current_context().obj)
    for line in (*running.write(outcome, path, report=True), *(f"error: {said}" for said in outcome.failed)):
        print(line, file=sys.stderr)
    if outcome.interrupted:
        print(f"interrupted: what was finished is in {path}", file=sys.stderr)
        return INTERRUPTED, outcome.document
    if show:
        print(table.text(outcome.document))
        print(f"document: {path}")
    return FAILED if outcome.failed else OK, outcome.document
