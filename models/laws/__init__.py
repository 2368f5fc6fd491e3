"""Scalability laws: one file each, fitted with honest intervals; and the peak as measured, without a law.

A file that declares `LAW` is a law of that name. Files with an underscore are what the laws share.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from models.laws import _fit
from models.laws._fit import LawFit, Parameter, Peak, TooFewPoints
from models.laws._law import Constant, Form, Law, Turning
from models.laws._peak import PeakSet, peak_set

__all__ = [
    "Constant",
    "Form",
    "Law",
    "LawFit",
    "Parameter",
    "Peak",
    "PeakSet",
    "TooFewPoints",
    "Turning",
    "choose",
    "curve",
    "fit",
    "get",
    "names",
    "peak_set",
]

TIE = 1e-6  # differences of AICc below this are rounding


def names() -> tuple[str, ...]:
    """The laws' names; imports none of them."""
    every = (info.name for info in pkgutil.iter_modules(__path__))
    return tuple(sorted(name for name in every if not name.startswith("_")))


def get(name: str) -> Law:
    """The law of that name; ValueError for an unknown one."""
    if name not in names():
        near = get_close_matches(name, names(), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"no law is called {name}: there are {', '.join(names())}{hint}")
    law: Law = importlib.import_module(f"{__name__}.{name}").LAW
    return law


def fit(
    law: str | Law,
    n: ArrayLike,
    x: ArrayLike,
    weights: ArrayLike | None = None,
    replicates: ArrayLike | None = None,
) -> LawFit:
    """Fits a law, by name or one's own, to throughput x (1/s) at n; see models.laws._fit.fit.

    Parameters
    ----------
    law : str or Law
    n, x : array_like
        Rows in any order; an n measured several times has several.
    weights : array_like, optional
        Inverse variance of each row, up to a common factor.
    replicates : array_like, optional
        How many measurements each row is the mean of.

    Raises
    ------
    TooFewPoints
        Fewer different n than the law needs.
    ValueError
        Unknown law, or rows that are no throughputs.
    """
    return _fit.fit(get(law) if isinstance(law, str) else law, n, x, weights, replicates)


def curve(law: str | Law, parameters: Mapping[str, float]) -> Callable[[Any], Any]:
    """The law with these parameters, as a function of N (a number or an array) to throughput in 1/s."""
    form = (get(law) if isinstance(law, str) else law).form
    values = [float(parameters[constant.name]) for constant in form.constants]
    return lambda n: form.curve(np.asarray(n, dtype=np.float64), *values)


def choose(fits: Sequence[LawFit]) -> str:
    """The name of the law with the lowest AICc; of equal ones the one with fewest constants.

    Where no law has rows enough for the correction, the residual scatter decides in its place. Raises
    ValueError if there is nothing to choose from.
    """
    if not fits:
        raise ValueError("no law was fitted: there is nothing to choose from")
    defined = [fit for fit in fits if np.isfinite(fit.aicc)]
    if defined:
        least = min(fit.aicc for fit in defined)
        close = [fit for fit in defined if fit.aicc <= least + TIE]
    else:
        smallest = min(fit.sigma for fit in fits)
        close = [fit for fit in fits if fit.sigma <= smallest * (1 + TIE)]
    return min(close, key=lambda fit: (len(fit.parameters), fit.law)).law
