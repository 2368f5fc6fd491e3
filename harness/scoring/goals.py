"""What a score is to reach, and whether it did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

THROUGHPUT, THROUGHPUT_P90 = 0.05, 0.15
OF_NAIVE = 0.5  # of the naive bound's median error
RESPONSE, RESPONSE_P90 = 0.10, 0.25  # where clients think
COVERAGE = (0.90, 0.99)  # of the 95 % intervals
HALF_WIDTH = 0.10  # of the 95 % intervals, median


def goals(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each goal, the value, the lowest and highest that are allowed, and whether it is reached; null if unknown."""
    rate, response = document["throughput"], document["response_thinking"]
    floor, naive = rate["floor_median"], rate["naive_median"]
    rows = [
        ("throughput, median error", rate["median"], 0.0, max(THROUGHPUT, floor or 0.0)),
        ("throughput, 90th percentile", rate["p90"], 0.0, THROUGHPUT_P90),
        ("throughput, median error, of the naive bound's", rate["median"], 0.0, _times(OF_NAIVE, naive)),
        ("response where clients think, median error", response["median"], 0.0, RESPONSE),
        ("response where clients think, 90th percentile", response["p90"], 0.0, RESPONSE_P90),
        ("coverage of 95 % intervals", document["coverage"]["95"], *COVERAGE),
        ("95 % intervals, median half-width", document["half_width"]["95"], 0.0, HALF_WIDTH),
    ]
    return [
        {"goal": goal, "value": value, "low": low, "high": high, "reached": _within(value, low, high)}
        for goal, value, low, high in rows
    ]


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _within(value: float | None, low: float, high: float | None) -> bool | None:
    if value is None or high is None or not math.isfinite(value):
        return None
    return low <= value <= high
