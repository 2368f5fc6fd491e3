"""Scores the predictions: of a validation set that is drawn, predicted and measured now, or of sweeps that were made."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli import FAILED, INTERRUPTED, OK
from harness.cli._options import AS_JSON, STORE, check_effort, print_json

if TYPE_CHECKING:
    from harness.scoring.exam import Exam
    from harness.store import Store


@click.command(short_help="Score the predictions on a validation set.")
@click.argument("results", type=click.Path(path_type=Path), nargs=-1)
@click.option(
    "--draw",
    "seed",
    type=click.IntRange(0, 2**53 - 1),
    metavar="SEED",
    help="Of the validation set (default: the published one).",
)
@click.option(
    "--configurations", type=click.IntRange(4, 1000), metavar="N", help="How many are drawn (default: 60)."
)
@click.option("--budget", type=float, metavar="S", help="Time for everything, costs included (default: 720).")
@click.option(
    "--time", "window", type=float, metavar="S", help="Seconds measured in each visit (default: 0.5)."
)
@STORE
@click.option("--history", is_flag=True, help="Every score that is kept, and how it changed.")
@AS_JSON
def command(
    results: tuple[Path, ...], out: Path | None, resume: bool, history: bool, as_json: bool, **asked: Any
) -> int:
    """Draws configurations, predicts all of them from costs alone, then measures them and compares.

    The service that costs are measured with is not among them. No prediction can change once measuring begins.
    Errors stand beside the A/A floor (the same configuration measured twice) and the naive bound min(N/(R1+Z),
    CPUs/D) of one client alone. Killed, it goes on with --resume. With RESULTS, stores of scores are shown anew, and
    sweeps' predictions are scored, for which one client alone is measured now.

    \b
    Examples:
      python -m harness score
      python -m harness score --draw 7 --configurations 80 --budget 900
      python -m harness score --history
      python -m harness score results/20260801-120000-workers.sqlite
    """
    from harness import sweeping
    from harness.scoring import running

    if history:
        return _history(out.parent if out else sweeping.RESULTS, as_json)
    if results:
        return _results(results, as_json)
    given = {name: value for name, value in asked.items() if value is not None}
    with running.open_for(_exam(given, resume), out, resume) as store:
        return _carry_out(store, as_json)


def _exam(given: Mapping[str, Any], resume: bool) -> Exam | None:
    """What the options ask for; None where a score only goes on."""
    from harness.errors import HarnessError
    from harness.scoring import drawing
    from harness.scoring.exam import Exam

    if resume:
        if given:
            raise HarnessError(
                "--resume: goes on with what its store holds; give no other options", usage=True
            )
        return None
    check_effort(**{name: given.get(name) for name in ("window", "budget")})
    seed = given.get("seed", drawing.SEED)
    drawn = drawing.draw(seed, given.get("configurations", drawing.CONFIGURATIONS))
    return Exam(seed, drawn, **{name: given[name] for name in ("window", "budget") if name in given})


def _carry_out(store: Store, as_json: bool) -> int:
    """Executes the store's score, shows it, and gives the exit code."""
    from harness.progress import Reporting
    from harness.scoring import running

    try:
        with Reporting() as progress:
            running.execute(store, progress, click.get_current_context().obj)
    except KeyboardInterrupt:
        print(
            f"interrupted: what was done is kept; go on with: python -m harness score --resume --out {store.path}",
            file=sys.stderr,
        )
        return INTERRUPTED
    return _show(store, as_json, keep=True)


def _show(store: Store, as_json: bool, keep: bool = False) -> int:
    """Shows a score, keeps its summary for --history, and says if too much was dropped for it to be one."""
    from harness.scoring import document, goals, history, judging, running, words

    found = document.document(store, running.exam_of(store), running.check_sealed(store))
    if as_json:
        print_json({**found, "goals": goals.goals(found)})
    else:
        print(f"{words.text(found)}\nstore: {store.path}")
    dropped, drawn = found["dropped"], found["configurations"]
    if dropped > judging.MOST_DROPPED * drawn:
        why = Counter(cell["dropped"] for cell in found["cells"] if cell["dropped"])
        print(
            f"error: {dropped} of {drawn} configurations dropped, {judging.MOST_DROPPED:.0%} are allowed "
            f"({'; '.join(f'{count}: {reason}' for reason, count in why.most_common(3))}); "
            "score again when the machine is quieter, or with a longer --budget",
            file=sys.stderr,
        )
        return FAILED
    if keep:
        history.append(store.path.parent, found)
    return OK


def _history(folder: Path, as_json: bool) -> int:
    from harness.scoring import history, words

    rows = history.read(folder)
    if as_json:
        print_json(rows)
    else:
        print(words.history(rows) if rows else f"{folder}: no score is kept there yet")
    return OK


def _results(results: tuple[Path, ...], as_json: bool) -> int:
    """A store of a score, shown anew; or sweeps, whose predictions are scored."""
    from harness import document
    from harness.progress import Reporting
    from harness.scoring import sweeps
    from harness.store import open_store

    documents = []
    for path in results:
        with open_store(path) as store:
            if store.meta("score"):
                return _show(store, as_json)
            documents.append(document.document(store))
    with Reporting() as progress:
        scores = sweeps.score(documents, progress)
    floors = [one["sweep"]["noise"]["floor"] for one in documents]
    if as_json:
        print_json(sweeps.to_json(scores, floors))
    else:
        print(sweeps.text(scores, floors))
    return OK
