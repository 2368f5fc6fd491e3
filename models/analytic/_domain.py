"""The domains that the analytic models share: a whole number, a time, a rate; each refused in one line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 1_000_000  # clients or servers: beyond, tables of the states no longer fit
SMALL, LARGE = 1e-100, 1e100  # times and rates: products and quotients of a few of them stay within a double
ROUNDING = 1e-9  # how far a conservation law may be off


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def whole(name: str, value: Any, least: int = 1) -> int:
    """The value as an int, from `least` to a million."""
    number = _number(value)
    if number > MOST:
        raise ValueError(f"{name}={number:g}: above {MOST:,}, the most that is solved")
    if not (number >= least and number == int(number)):
        raise ValueError(f"{name}={value!s:.40}: not a whole number of at least {least}")
    return int(number)


def servers(name: str, value: Any) -> float:
    """Parallel servers of a station: a whole number, or inf for a delay."""
    return math.inf if _number(value) == math.inf else float(whole(name, value))


def time(name: str, value: Any) -> float:
    """A time in seconds, 0 or more; one below SMALL is as good as none."""
    number = _number(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name}={value!s:.40}: not a time of at least 0 s")
    return _sane(name, number, "s") if number >= SMALL else 0.0


def positive(name: str, value: Any, unit: str = "s") -> float:
    """A time, a rate or a load above 0."""
    number = _number(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name}={value!s:.40}: not a number above 0 {unit}")
    return _sane(name, number, unit)


def _sane(name: str, number: float, unit: str) -> float:
    if not SMALL <= number <= LARGE:
        raise ValueError(f"{name}={number}: not from {SMALL:g} to {LARGE:g} {unit}")
    return number


def level(p: Any) -> float:
    """The level of a quantile, from 0 to below 1."""
    number = _number(p)
    if not 0 <= number < 1:
        raise ValueError(f"p={p}: not a level from 0 to below 1")
    return number


def counts(name: str, values: Sequence[Any] | None, many: int) -> list[float]:
    """The servers of every station; one each where none are named."""
    if values is None:
        return [1.0] * many
    if len(values) != many:
        raise ValueError(f"{name}: {len(values)} numbers for {many} demands")
    return [servers(name, value) for value in values]


def by_station(name: str, values: Sequence[Any]) -> NDArray[np.float64]:
    """Demands in seconds, one for each station."""
    found = np.array([time(name, value) for value in values], dtype=np.float64)
    if not found.any():
        raise ValueError(f"{name}: none is above 0 s")
    return found


def conserve(law: str, left: float, right: float) -> None:
    """Stops an answer whose two sides of a conservation law differ by more than rounding."""
    if not abs(left - right) <= ROUNDING * max(abs(left), abs(right)):
        raise ArithmeticError(f"{law} does not hold: {left!r} and {right!r}")
