"""A score as the JSON document that other programs rely on: errors by regime, coverage and widths, every configuration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from harness.scoring import reasons
from harness.scoring.coverage import half_width, median_interval, quantile
from harness.scoring.exam import Exam
from harness.scoring.judging import QUANTITIES, REGIMES, Judged, drift_in, judge
from harness.store import Store
from models.metrics import number

LEVELS = (50, 80, 95)


def document(store: Store, exam: Exam, sealed: Mapping[str, Any]) -> dict[str, Any]:
    """The score as JSON: summary figures, and every configuration under `cells`."""
    judged = judge(store, exam)
    kept = [one for one in judged if not one.dropped]
    sessions = store.sessions()
    return {
        "schema_version": 1,
        "id": store.meta("id"),
        "seed": exam.seed,
        "configurations": len(judged),
        "dropped": len(judged) - len(kept),
        "started": sessions[0]["started"],
        "predictions": sealed,
        "rounds": (store.meta("rounds") or {}).get("planned"),
        "window": exam.window,
        "finished": store.meta("finished"),
        "git": sessions[-1]["provenance"].get("git"),
        "cpus": sessions[-1]["provenance"].get("cpus"),
        "slower": slower(store),
        **summary(kept),
        "regimes": {name: regime([one for one in kept if one.regime == name]) for name in REGIMES},
        "cells": [_cell(one) for one in judged],
    }


def slower(store: Store) -> float | None:
    """How much slower the machine was than when the costs were measured, by the yardstick: 0.05 is 5 %."""
    costs = (store.costs(session["session"]) for session in store.sessions())
    known = [one["provenance"].get("yardstick") for one in costs if one]
    typical = drift_in(store).typical
    return number(typical / known[-1] - 1) if known and known[-1] else None


def summary(kept: Sequence[Judged]) -> dict[str, Any]:
    """What all regimes together say: errors of each quantity, how often intervals hold, and how wide they are."""
    scores = [one.score() for one in kept]
    predicted = [one.predicted.throughput for one in kept if one.predicted]
    return {
        **{name: errors(kept, name) for name in QUANTITIES},
        "response_thinking": errors([one for one in kept if one.scenario.number("think") > 0], "response"),
        "coverage": {str(n): _mean([score <= quantile(n) for score in scores]) for n in LEVELS},
        "half_width": {str(n): _middle([half_width(one, n) for one in predicted]) for n in LEVELS},
    }


def regime(members: Sequence[Judged]) -> dict[str, Any]:
    """One regime's share of the score."""
    return {"cells": len(members), **{name: errors(members, name) for name in QUANTITIES}}


def errors(members: Sequence[Judged], quantity: str) -> dict[str, float | None]:
    """Of the absolute relative error: median with its 95 % interval, 90th percentile; and other medians.

    Those are the naive bound's, and that of the difference between two measurements of the same (A/A).
    """
    model = _known(one.error(quantity) for one in members)
    low, high = median_interval(model)
    return {
        "median": _middle(model),
        "low": number(low),
        "high": number(high),
        "p90": number(np.quantile(model, 0.9)) if model else None,
        "naive_median": _middle([one.naive_error(quantity) for one in members]),
        "floor_median": _middle([one.floor(quantity) for one in members]),
    }


def _known(values: Iterable[float]) -> list[float]:
    return [abs(value) for value in values if math.isfinite(value)]


def _middle(values: Iterable[float]) -> float | None:
    """The median of the absolute values that are known; None where there is none."""
    known = _known(values)
    return number(np.median(known)) if known else None


def _mean(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None


def _cell(one: Judged) -> dict[str, Any]:
    shown = {"measured": one.measured, "predicted": one.predicted, "again": one.again}
    return {
        "key": one.scenario.key,
        "scenario": one.scenario.to_json(),
        "regime": one.regime,
        "dropped": one.dropped,
        **{name: metrics.to_json() if metrics else None for name, metrics in shown.items()},
        "naive": dict(one.naive),
        "error": {name: number(one.error(name)) for name in QUANTITIES},
        "naive_error": {name: number(one.naive_error(name)) for name in QUANTITIES},
        "floor": {name: number(one.floor(name)) for name in QUANTITIES},
        "score": number(one.score()),
        "differences": reasons.differences(one.predicted, one.measured),
    }
