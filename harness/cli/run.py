"""Runs an experiment: its sweeps, then its answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.cli import OK
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
    """Runs the sweeps of experiment NAME and answers its question.

    \b
    Example:
      python -m harness run prime_workers --quick
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
    answer = experiment.answer(results)
    if as_json:
        print_json(
            {"experiment": name, "question": experiment.question, "answer": answer, "results": results}
        )
    else:
        print(f"\n{answer}")
    return worst
