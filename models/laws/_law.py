"""What a file of this package declares: a law's constants, its curve, where it starts and where it peaks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of a law, with its bounds.

    Attributes
    ----------
    name, unit : str
        As in the design's vocabulary; unit "1" for a pure number.
    low, high : float
        The values that make sense, bounds included.
    """

    name: str
    unit: str
    low: float = 0.0
    high: float = math.inf


def _everywhere(low: float, high: float, *values: Array) -> NDArray[np.bool_]:
    return np.ones(np.broadcast_shapes(*(np.shape(value) for value in values)), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Form:
    """A curve written in some constants. All functions broadcast, so that many curves are fitted at once.

    Attributes
    ----------
    constants : tuple of Constant
        In the order in which the functions take them.
    curve : function of (n, *values) to array
        Throughput, 1/s: never nan, never negative, and infinite where the curve has no meaning.
    slopes : function of (n, *values) to tuple of arrays
        Its derivatives by each constant.
    valid : function of (low, high, *values) to bool array
        Whether the curve is finite for each N from `low` to `high`.
    """

    constants: tuple[Constant, ...]
    curve: Callable[..., Any]
    slopes: Callable[..., tuple[Any, ...]]
    valid: Callable[..., Any] = _everywhere


@dataclass(frozen=True, slots=True)
class Turning:
    """The same curve written with a constant that alone says where it peaks, for profiling the peak.

    Attributes
    ----------
    form : Form
        The curve in these constants.
    of : function of (*values) to tuple of float
        From the law's constants to these.
    index : int
        Which of these constants places the peak.
    peak : function of float to float
        The N of the peak by that constant; falls as the constant rises.
    """

    form: Form
    of: Callable[..., tuple[float, ...]]
    index: int
    peak: Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Law:
    """A scalability law.

    Attributes
    ----------
    name, summary : str
        The file's name, and the law in one line.
    form : Form
        Its curve.
    starts : function of (n, x, weights) to sequence of tuples
        Where the fit may start: rough solutions, at least one of which is valid for any data.
    peak : function of (*values) to float
        The N at which throughput is highest; infinite where it never falls.
    turning : Turning or None
        For the peak's interval; None for a law that never falls.
    """

    name: str
    summary: str
    form: Form
    starts: Callable[[Array, Array, Array], Sequence[tuple[float, ...]]]
    peak: Callable[..., float]
    turning: Turning | None = None
