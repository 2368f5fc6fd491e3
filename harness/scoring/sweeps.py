"""Scores sweeps' predictions against their measurements, beside the naive bound that needs no model at all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from harness import measuring, table
from harness.progress import Progress
from models.analytic.bounds import naive_bound
from models.metrics import number
from models.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Score:
    """One cell's throughput, 1/s: measured with its interval, predicted, and the naive bound; nan where unknown."""

    scenario: Scenario
    label: str
    measured: float
    low: float
    high: float
    predicted: float
    naive: float
    broken: tuple[str, ...]

    @property
    def error(self) -> float:
        """predicted / measured − 1."""
        return self.predicted / self.measured - 1 if self.measured else math.nan

    @property
    def naive_error(self) -> float:
        """naive / measured − 1."""
        return self.naive / self.measured - 1 if self.measured else math.nan

    @property
    def counted(self) -> bool:
        """Whether it enters the summary: measured, predicted and not broken."""
        return not self.broken and math.isfinite(self.error) and math.isfinite(self.naive_error)


@dataclass(frozen=True, slots=True)
class Summary:
    """Median absolute errors over the counted cells, and how many there are of all."""

    model: float
    naive: float
    counted: int
    cells: int


def score(documents: Iterable[Mapping[str, Any]], progress: Progress) -> list[Score]:
    """Scores every cell of some sweeps' documents.

    The naive bound min(N / (R₁ + Z), CPUs / D) takes R₁ and D from one client on the same configuration, which is
    measured now, once for each.
    """
    cells = [(document, cell) for document in documents for cell in document["cells"] if cell["measured"]]
    progress.begin("one client alone", len(cells))
    found = []
    for document, cell in cells:
        scenario = Scenario.from_json(cell["scenario"])
        cpus = int(document["sweep"]["provenance"]["cpus"])
        found.append(_score(cell, scenario, _naive(scenario, cpus)))
        progress.step(found[-1].label)
    progress.end()
    return found


def _naive(scenario: Scenario, cpus: int) -> float:
    """The naive bound of a scenario, from one client measured alone."""
    alone = measuring.measure(scenario.with_options(clients=1), reps=1, window=0.3, warmup=0.1).measured
    assert alone is not None
    demand = alone.counters["server_cpu"] + alone.counters["load_cpu"]
    return naive_bound(
        clients=int(scenario.number("clients")),
        response_one=alone.response.value,
        think=scenario.number("think"),
        cpus=cpus,
        demand=demand,
    )


def _score(cell: Mapping[str, Any], scenario: Scenario, naive: float) -> Score:
    def real(value: float | None) -> float:
        return math.nan if value is None else value

    rate = cell["measured"]["throughput"]
    predicted = cell["predicted"]["throughput"]["value"] if cell["predicted"] else None
    fixed = {
        name: scenario.get(name) for name in ("wait", "workers", "clients") if scenario.get(name) is not None
    }
    return Score(
        scenario,
        f"{scenario.service} on {scenario.server}: "
        + " ".join(f"{name}={value}" for name, value in fixed.items()),
        rate["value"],
        real(rate["low"]),
        real(rate["high"]),
        real(predicted),
        naive,
        tuple(mark["check"] for mark in cell["broken"]),
    )


def summarise(scores: Sequence[Score]) -> Summary:
    """The median absolute errors; nan when no cell counts."""
    counted = [one for one in scores if one.counted]
    if not counted:
        return Summary(math.nan, math.nan, 0, len(scores))
    return Summary(
        median(abs(one.error) for one in counted),
        median(abs(one.naive_error) for one in counted),
        len(counted),
        len(scores),
    )


def to_json(scores: Sequence[Score], floors: Sequence[float | None]) -> dict[str, Any]:
    """Every cell, and the median errors; `floors` are the sweeps' A/A differences."""
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
    summary = summarise(scores)
    return {
        "cells": rows,
        "median_error": {"predicted": number(summary.model), "naive": number(summary.naive)},
        "counted": summary.counted,
        "noise_floors": list(floors),
    }


def text(scores: Sequence[Score], floors: Sequence[float | None]) -> str:
    """The cells as a table, and the median errors."""
    heads = ("measured/s", "95 %", "predicted/s", "error", "naive/s", "error", "cell")
    lines, summary = list(table.lines([_row(one) for one in scores], heads, words=1)), summarise(scores)
    if not math.isnan(summary.model):
        lines.append(
            f"\nmedian absolute error over {summary.counted} of {summary.cells} cells: "
            f"model {summary.model:.1%}, naive bound {summary.naive:.1%}"
        )
    known = ", ".join(f"{floor:.1%}" for floor in floors if floor is not None) or "unknown"
    lines.append(
        f"A/A noise floor of each sweep (median difference of two measurements of one cell): {known}"
    )
    return "\n".join(lines)


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
