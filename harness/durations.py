"""Reads durations as people write them: 5ms, 200us, 0.1s."""

from __future__ import annotations

import math

from harness.errors import HarnessError

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def parse(text: str, option: str) -> float:
    """The duration in s; HarnessError when it is none, has no unit, or is not over 0."""
    word = text.strip().replace("µ", "u")
    unit = next((name for name in UNITS if word.endswith(name)), "")
    try:
        number = float(word.removesuffix(unit)) if unit else math.nan
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise HarnessError(
            f"{option} {text}: not a duration; write a number over 0 with its unit: 5ms, 200us or 0.1s",
            usage=True,
        )
    return number * UNITS[unit]
