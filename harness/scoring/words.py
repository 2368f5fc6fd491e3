"""A score as text: errors by regime, coverage, goals, the worst configurations with the reason, what was dropped."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

from harness import table
from harness.scoring import goals, reasons
from harness.scoring.document import LEVELS
from harness.scoring.judging import QUANTITIES, REGIMES
from harness.scoring.running import label
from models.scenario import Scenario
from models.wording import percent, rate

WORST = 5
FIGURES = ("median", "p90", "naive_median", "floor_median")
HEADS = ("cells", "median", "its 95 %", "90 %", "naive", "A/A", "")


def text(document: Mapping[str, Any]) -> str:
    """The whole score."""
    parts = [_title(document), *_errors(document), _intervals(document), *_goals(document), *_worst(document)]
    return "\n".join([*parts, *_dropped(document)])


def _title(document: Mapping[str, Any]) -> str:
    sealed = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(document["predictions"]["at"]))
    return (
        f"{document['configurations']} configurations drawn with seed {document['seed']}, {document['dropped']} "
        f"dropped; predictions sealed {sealed} ({document['predictions']['digest'][:12]}), measured after that "
        f"in {document['rounds']} rounds\n{_speed(document['slower'])}"
    )


def _speed(slower: float | None) -> str:
    if slower is None:
        return ""
    how = "slower" if slower > 0 else "faster"
    return f"the machine was {percent(abs(slower))} {how} than when the costs were measured\n"


def _errors(document: Mapping[str, Any]) -> Iterator[str]:
    """Absolute relative errors of each quantity, by regime and over all."""
    for quantity in QUANTITIES:
        rows = [_row(document["regimes"][name], quantity, name) for name in REGIMES]
        cells = sum(document["regimes"][name]["cells"] for name in REGIMES)
        rows.append(_row({"cells": cells, quantity: document[quantity]}, quantity, "all"))
        yield from table.lines(rows, (*HEADS[:-1], f"error of {quantity}"), words=1)
        yield ""


def _row(part: Mapping[str, Any], quantity: str, name: str) -> tuple[str, ...]:
    found = part[quantity]
    spread = "" if found["low"] is None else f"{_percent(found['low'])} to {_percent(found['high'])}"
    median, *others = (_percent(found[figure]) for figure in FIGURES)
    return (str(part["cells"]), median, spread, *others, name)


def _intervals(document: Mapping[str, Any]) -> str:
    """How often intervals hold the measured throughput, and how wide they are."""
    rows = [
        (
            f"{level} %",
            _percent(document["coverage"][str(level)]),
            f"±{_percent(document['half_width'][str(level)])}",
        )
        for level in LEVELS
    ]
    heads = ("interval", "holds the measured throughput", "median half-width")
    return "\n".join(table.lines(rows, heads)) + "\n"


def _goals(document: Mapping[str, Any]) -> Iterator[str]:
    words = {True: "reached", False: "not reached", None: "unknown"}
    for goal in goals.goals(document):
        low = f"{_percent(goal['low'])} to " if goal["low"] else "at most "
        yield f"{words[goal['reached']]:>11}: {goal['goal']} {_percent(goal['value'])} ({low}{_percent(goal['high'])})"
    yield ""


def _worst(document: Mapping[str, Any]) -> Iterator[str]:
    """The configurations that throughput was missed most on, and which figures of a reply differ."""
    cells = [
        cell for cell in document["cells"] if not cell["dropped"] and cell["error"]["throughput"] is not None
    ]
    cells.sort(key=lambda cell: -abs(cell["error"]["throughput"]))
    if cells:
        yield "worst:"
    for cell in cells[:WORST]:
        name = label(Scenario.from_json(cell["scenario"]))
        rates = [cell[side]["throughput"]["value"] for side in ("predicted", "measured")]
        yield _filled(
            f"{cell['error']['throughput']:+.0%} {name} ({cell['regime']}): predicted {rate(rates[0])}, "
            f"measured {rate(rates[1])}",
            "  ",
        )
        yield _filled(reasons.sentence(cell["differences"]), "       ")


def _filled(text: str, indent: str) -> str:
    return fill(text, table.WIDTH, initial_indent=indent, subsequent_indent="       ", break_on_hyphens=False)


def _dropped(document: Mapping[str, Any]) -> Iterator[str]:
    """Why configurations were dropped, each reason once."""
    why = Counter(cell["dropped"] for cell in document["cells"] if cell["dropped"])
    if why:
        yield "dropped:"
    for reason, count in why.most_common():
        yield f"  {count}: {reason}"


def history(rows: Sequence[Mapping[str, Any]]) -> str:
    """How scores changed, a line each."""
    heads = (
        "date",
        "revision",
        "seed",
        "cells",
        "median",
        "90 %",
        "naive",
        "A/A",
        "response",
        "p99",
        "95 % holds",
        "±",
    )
    lines = []
    for row in rows:
        git, errors = row["git"] or {}, row["throughput"]
        lines.append(
            (
                time.strftime("%Y-%m-%d %H:%M", time.localtime(row["finished"])),
                (git.get("revision") or "–")[:9] + ("" if git.get("clean", True) else "+"),
                str(row["seed"]),
                f"{row['configurations'] - row['dropped']}/{row['configurations']}",
                *(_percent(errors[figure]) for figure in FIGURES),
                _percent(row["response"]["median"]),
                _percent(row["p99"]["median"]),
                _percent(row["coverage"]["95"]),
                _percent(row["half_width"]["95"]),
            )
        )
    return "\n".join(table.lines(lines, heads))


def _percent(value: float | None) -> str:
    return "–" if value is None else percent(value)
