"""Results of other tools, of which a few figures are known and no more: made into metrics, and judged.

Such a record has a `summary` {throughput, response, p50, p90, p99, errors, clients, think, duration} in 1/s and s,
null where unknown, and what else a tool prints: min, max, resolution (s, of its times).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from harness.judging import marks
from models import quantiles
from models.metrics import Estimate, Mark, Metrics

Summary = Mapping[str, Any]
FIGURES = ("throughput", "response", "p50", "p90", "p99", "errors", "clients", "think", "duration")


def metrics_of(records: Sequence[Mapping[str, Any]]) -> Metrics:
    """Metrics of all runs; of percentiles the median run's, as there is nothing to merge them from."""
    rows = [record["summary"] for record in records]

    def values(name: str) -> list[float]:
        return [float(row[name]) for row in rows if row.get(name) is not None]

    def middle(name: str) -> float:
        return median(values(name)) if values(name) else math.nan

    rates, means = values("throughput"), values("response")
    return Metrics(
        throughput=quantiles.interval(rates) if rates else Estimate(math.nan),
        response=quantiles.interval(means) if means else Estimate(math.nan),
        p50=middle("p50"),
        p90=middle("p90"),
        p99=middle("p99"),
    )


def judge(records: Sequence[Mapping[str, Any]]) -> tuple[Mark, ...]:
    """The marks of a cell's runs, each with its worst value."""
    worst: dict[str, Mark] = {}
    for record in records:
        for mark in check(record["summary"]):
            if mark.check not in worst or mark.value > worst[mark.check].value:
                worst[mark.check] = mark
    return tuple(worst.values())


def check(summary: Summary) -> tuple[Mark, ...]:
    """The marks of one run, by what is known of it."""
    values = {
        "order_statistics": float(disorders(summary)),
        "replies": _failed(summary),
        "over_unity": 0.0,
        "unattributed": 0.0,
    }
    share = occupied(summary)
    if share is not None:
        values["over_unity"] = share - _edges(summary)
        values["unattributed"] = 1 - share - _edges(summary)
    return tuple(marks.mark(name, value) for name, value in values.items() if value > marks.TABLE[name].limit)


def unknown(summary: Summary) -> str | None:
    """Which figure is missing to hold Little's law against it; None when all are there."""
    names = {"throughput": "throughput", "response": "response time", "clients": "number of clients"}
    missing = [f"no {words}" for name, words in names.items() if summary.get(name) is None]
    return " and ".join(missing) or None


def occupied(summary: Summary) -> float | None:
    """X(R + Z) / N: which share of the clients' time the figures account for; None where one is missing.

    It is 1 for any closed system over a long time (Little 1961; with think time Z, Lazowska et al. 1984, ch. 3).
    """
    if unknown(summary):
        return None
    cycle = summary["response"] + (summary.get("think") or 0.0)
    return float(summary["throughput"] * cycle / summary["clients"])


def _edges(summary: Summary) -> float:
    """What requests under way at the ends of the run can put off: a response of every client."""
    duration = summary.get("duration")
    return min(summary["response"] / duration, 1.0) if duration else 0.0


def _failed(summary: Summary) -> float:
    """Share of the replies that failed; 1 when errors are named, but not how many requests there were."""
    errors = summary.get("errors") or 0
    rate, duration = summary.get("throughput"), summary.get("duration")
    if not errors:
        return 0.0
    return float(min(errors / max(rate * duration, errors), 1.0)) if rate and duration else 1.0


def disorders(summary: Summary) -> int:
    """Impossible orders among the times of a run, beyond what rounding does.

    Whatever the distribution is, the mean is at least 0.4 p50 + 0.09 p90 + 0.01 p99 (each part of the replies
    at its least) and at most 0.5 p50 + 0.4 p90 + 0.09 p99 + 0.01 max (each at its most).
    """
    loose = float(summary.get("resolution") or 0.0)
    ladder = [summary.get(name) for name in ("min", "p50", "p90", "p99", "max")]
    rising = [value for value in ladder if value is not None]
    wrong = sum(not _below(a, b, loose) for a, b in itertools.pairwise(rising))
    mean, (low, p50, p90, p99, high) = summary.get("response"), ladder
    if mean is None:
        return wrong
    wrong += low is not None and not _below(low, mean, loose)
    wrong += high is not None and not _below(mean, high, loose)
    if p50 is not None and p90 is not None and p99 is not None:
        wrong += not _below(0.4 * p50 + 0.09 * p90 + 0.01 * p99, mean, loose)
        if high is not None:
            wrong += not _below(mean, 0.5 * p50 + 0.4 * p90 + 0.09 * p99 + 0.01 * high, loose)
    return int(wrong)


def _below(small: float, large: float, loose: float) -> bool:
    return small <= large * (1 + marks.ROUNDING) + loose
