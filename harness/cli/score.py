"""Scores a sweep's predictions against its measurements and against the naive bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli import OK
from harness.cli._options import AS_JSON, print_json

if TYPE_CHECKING:
    from harness.scoring import Score, Summary


@click.command(short_help="Score predictions against measurements.")
@click.argument("stores", type=click.Path(path_type=Path), nargs=-1, required=True)
@AS_JSON
def command(stores: tuple[Path, ...], as_json: bool) -> int:
    """Compares the predictions in STORES with what was measured, beside the naive bound min(N/(R1+Z), CPUs/D).

    R1 and D, the response time and processor time of one client alone, are measured now for each cell.

    \b
    Example:
      python -m harness score results/20260801-120000-workers.sqlite
    """
    from harness import document, scoring, table
    from harness.progress import Reporting
    from harness.store import open_store

    documents = []
    for store in stores:
        with open_store(store) as opened:
            documents.append(document.document(opened))
    with Reporting() as progress:
        scores = scoring.score(documents, progress)
    summary = scoring.summarise(scores)
    floors = [d["sweep"]["noise"]["floor"] for d in documents]
    if as_json:
        print_json(_json(scores, summary, floors))
        return OK
    heads = ("measured/s", "95 %", "predicted/s", "error", "naive/s", "error", "cell")
    print("\n".join(table.lines([_row(one) for one in scores], heads, words=1)))
    if not math.isnan(summary.model):
        print(
            f"\nmedian absolute error over {summary.counted} of {summary.cells} cells: "
            f"model {summary.model:.1%}, naive bound {summary.naive:.1%}"
        )
    known = ", ".join(f"{floor:.1%}" for floor in floors if floor is not None)
    print(
        f"A/A noise floor of each sweep (median difference of two measurements of one cell): {known or 'unknown'}"
    )
    return OK


def _json(scores: Sequence[Score], summary: Summary, floors: Sequence[float | None]) -> dict[str, Any]:
    from models.metrics import number

    rows = [
        {
            "scenario": one.scenario.to_json(),
            "measured": {name: number(getattr(one, key)) for name, key in _MEASURED},
            "predicted": number(one.predicted),
            "naive": number(one.naive),
            "broken": list(one.broken),
        }
        for one in scores
    ]
    return {
        "cells": rows,
        "median_error": {"predicted": number(summary.model), "naive": number(summary.naive)},
        "counted": summary.counted,
        "noise_floors": list(floors),
    }


def _row(one: Score) -> tuple[str, ...]:
    return (
        _shown(one.measured, ",.0f"),
        f"{_shown(one.low, ',.0f')} to {_shown(one.high, ',.0f')}",
        _shown(one.predicted, ",.0f"),
        _shown(one.error, "+.0%"),
        _shown(one.naive, ",.0f"),
        _shown(one.naive_error, "+.0%"),
        one.label + (f" (broken: {', '.join(one.broken)})" if one.broken else ""),
    )


def _shown(value: float, form: str) -> str:
    return "–" if math.isnan(value) else format(value, form)


_MEASURED = (("value", "measured"), ("low", "low"), ("high", "high"))
