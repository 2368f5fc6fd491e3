"""One fit of all costs at once: the ladder's and the probes' equations, each weighed by how well it is known.

An equation says that a measured time is a sum of counts times costs. Those of one source (a thread of a rung, a figure of
a probe), taken in several passes, become one row: their mean counts, and the time that goes with these by the pass that
misses the fit by the median, so that some slow passes bend nothing; with a standard error from how the passes scatter about
the fit. Counts that change from pass to pass are no error, since time and counts change together. Errors that come on top:

- the ladder's equations are simplifications: what its rows miss by beyond their scatter is a share of the processor time
  that they explain, the same for all, found where chi-square equals its degrees of freedom (Paule and Mandel 1982);
- a probe's figure is that of its own code, hot in the caches: it is taken to be METHOD_ERROR off;
- an analogy, a probe's figure of something like what a server does, is off by ANALOGY_ERROR, and by what it differs by from
  the prediction of all other rows, beyond the errors of both: disagreeing, it loses its weight instead of bending all costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.costs import Cost, Covariance, Row
from models.quantiles import t_quantile

Array = NDArray[np.float64]

MOST_CONDITION = 1e3
LEAST_ERROR = 1e-3  # of a row's time: none is believed to be better known
SHARED_DF = 4  # passes more in which a row counts as seen, with the scatter of its kind
METHOD_ERROR = 0.05  # of a probe's row, as a share
ANALOGY_ERROR = 0.3  # that of an analogy, at least
ROUNDS = 3
WORTH = 0.1  # share of a cost's estimate from which on a row is named as its source


class Singular(RuntimeError):
    """The rows do not tell the costs apart."""


@dataclass(frozen=True, slots=True)
class Equation:
    """What was counted of each cost in one pass, and the time that it explains.

    Attributes
    ----------
    source, part : str
        The probe or rung; which of its figures.
    kind : str
        "ladder", "probe", or "analogy".
    terms : mapping of str to float
        Counts by name of cost.
    value, whole : float
        The time explained, and that which errors are shares of, s.
    """

    source: str
    part: str
    kind: str
    terms: Mapping[str, float]
    value: float
    whole: float


@dataclass(frozen=True, slots=True)
class Fit:
    """Costs with 95 % intervals, their covariance, the rows behind them, and the fit's quality: condition (number),
    residual (rms of the ladder's rows, a share), between (the ladder's own error, a share), rows."""

    table: dict[str, Cost]
    covariance: Covariance
    rows: tuple[Row, ...]
    quality: dict[str, float]


class _Rows:
    """The equations by source, as shares of their wholes."""

    def __init__(self, equations: Iterable[Equation]) -> None:
        groups: dict[tuple[str, str], list[Equation]] = {}
        for equation in equations:
            groups.setdefault((equation.source, equation.part), []).append(equation)
        self.groups = list(groups.values())
        self.names = list(dict.fromkeys(name for g in self.groups for e in g for name in e.terms))
        kinds = [group[0].kind for group in self.groups]
        self.ladder = np.array([kind == "ladder" for kind in kinds])
        self.analogy = np.array([kind == "analogy" for kind in kinds])
        self.whole = np.array([math.fsum(e.whole for e in group) / len(group) for group in self.groups])
        self._each = [
            self._shares(group, whole) for group, whole in zip(self.groups, self.whole, strict=True)
        ]
        self.counts = np.array([counts.mean(axis=0) for counts, _ in self._each])
        self.value = np.array([value.mean() for _, value in self._each])

    def _shares(self, group: Sequence[Equation], whole: float) -> tuple[Array, Array]:
        counts = np.array([[e.terms.get(name, 0.0) for name in self.names] for e in group])
        return counts / whole, np.array([e.value for e in group]) / whole

    def settle(self, costs: Array) -> None:
        """Takes each row's value from the passes' median distance to the fit."""
        missed = [np.median(value - counts @ costs) for counts, value in self._each]
        self.value = self.counts @ costs + np.array(missed)

    def sampling(self, costs: Array) -> Array:
        """Variance of each row's value, from the scatter of its passes about the fit and that of all rows of its kind.

        A median varies as π/2 of a mean where the passes are about normal.
        """
        df = np.array([len(group) - 1 for group in self.groups])
        squares = np.array([_squares(value - counts @ costs) for counts, value in self._each])
        found = np.empty(len(df))
        for kind in (self.ladder, ~self.ladder):
            shared = squares[kind].sum() / max(df[kind].sum(), 1)
            found[kind] = (SHARED_DF * shared + squares[kind]) / (SHARED_DF + df[kind])
        return np.asarray(np.maximum(math.pi / 2 * found / (df + 1), LEAST_ERROR**2))


def _squares(values: Array) -> float:
    return float(((values - values.mean()) ** 2).sum())


def fit(equations: Iterable[Equation]) -> Fit:
    """All costs that the equations count.

    Raises
    ------
    Singular
        When rows are too few or do not tell costs apart; names the costs.
    """
    rows = _Rows(equations)
    _check(rows)
    variance, between = _variances(rows)
    sigma = np.sqrt(variance)
    weighed, value = rows.counts / sigma[:, None], rows.value / sigma
    condition = _condition(weighed, rows.names)
    solution = _nonnegative(weighed, value)
    covariance = np.linalg.inv(weighed.T @ weighed)
    missed = rows.value - rows.counts @ solution
    sources = _sources(rows, covariance @ weighed.T * weighed.T)
    df = len(value) - len(solution)
    errors = np.sqrt(np.diag(covariance)) * t_quantile(df)
    return Fit(
        {
            name: cost(float(v), float(e), source)
            for name, v, e, source in zip(rows.names, solution, errors, sources, strict=True)
        },
        Covariance(tuple(rows.names), tuple(tuple(row) for row in covariance.tolist())),
        tuple(_row(rows, i, missed, variance) for i in range(len(missed))),
        {
            "condition": condition,
            "residual": math.sqrt(float((missed[rows.ladder] ** 2).mean())) if rows.ladder.any() else 0.0,
            "between": math.sqrt(between),
            "rows": float(len(missed)),
        },
    )


def cost(value: float, error: float, source: str) -> Cost:
    """A cost with its error; one that cannot be told from 0 says so, with its source."""
    doubt = "; at its bound, 0" if value <= 0 else "; may be 0" if error >= value else ""
    return Cost(value, max(value - error, 0.0), value + error, source + doubt)


def _row(rows: _Rows, i: int, missed: Array, variance: Array) -> Row:
    first, whole = rows.groups[i][0], float(rows.whole[i])
    measured = float(rows.value[i]) * whole
    fitted = measured - float(missed[i]) * whole
    return Row(f"{first.source} {first.part}".strip(), measured, fitted, math.sqrt(variance[i]) * whole)


def _check(rows: _Rows) -> None:
    """Refuses what no weights could make regular."""
    counted = np.abs(rows.counts).max(axis=0) > 0
    if not counted.all():
        never = [name for name, seen in zip(rows.names, counted, strict=True) if not seen]
        raise Singular(f"never counted: {', '.join(never)}")
    if len(rows.value) <= len(rows.names):
        raise Singular(f"{len(rows.value)} rows for {len(rows.names)} costs: {', '.join(rows.names)}")
    _condition(rows.counts, rows.names)


def _condition(matrix: Array, names: Sequence[str]) -> float:
    """Condition number with all columns of one length."""
    _, singular, directions = np.linalg.svd(matrix / np.linalg.norm(matrix, axis=0), full_matrices=False)
    condition = float(singular[0] / max(singular[-1], 1e-300))
    if condition > MOST_CONDITION:
        share = np.abs(directions[-1])
        confounded = [name for name, s in zip(names, share, strict=True) if s > 0.2 * share.max()]
        raise Singular(
            f"cannot tell apart {', '.join(confounded)}: condition number {condition:.0f}, "
            f"limit {MOST_CONDITION:.0f}"
        )
    return condition


def _solve(rows: _Rows, variance: Array) -> tuple[Array, Array, Array]:
    """Least squares: the costs, the residuals in standard errors, and each row's leverage."""
    sigma = np.sqrt(variance)
    q, r = np.linalg.qr(rows.counts / sigma[:, None])
    value = rows.value / sigma
    explained = q.T @ value
    return np.linalg.solve(r, explained), value - q @ explained, (q**2).sum(axis=1)


def _variances(rows: _Rows) -> tuple[Array, float]:
    """Variance of each row, with what the ladder's equations and the probes are off by; that of the ladder alone."""
    costs = _solve(rows, np.ones(len(rows.value)))[0]
    own = np.select([rows.ladder, rows.analogy], [0.0, ANALOGY_ERROR**2], METHOD_ERROR**2)
    disagreement = np.zeros(len(own))
    for _ in range(ROUNDS):
        rows.settle(costs)
        known = rows.sampling(costs) + own
        between = _between(rows, known + disagreement)
        variance = known + np.where(rows.ladder, between, 0.0)
        disagreement = _disagreement(rows, variance)
        costs = _solve(rows, variance + disagreement)[0]
    return variance + disagreement, between


def _between(rows: _Rows, variance: Array) -> float:
    """What the ladder's rows have in common beyond their variances: chi-square becomes its degrees of freedom."""
    df = len(rows.value) - len(rows.names)

    def excess(extra: float) -> float:
        standard = _solve(rows, variance + np.where(rows.ladder, extra, 0.0))[1]
        return float(standard @ standard) - df

    if not rows.ladder.any() or excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, 1e-4
    while excess(high) > 0 and high < 1:
        low, high = high, 4 * high
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def _disagreement(rows: _Rows, variance: Array) -> Array:
    """What each analogy misses the prediction of all other rows by, beyond the errors of both, squared."""
    _, standard, leverage = _solve(rows, variance)
    free = np.maximum(1 - leverage, 1e-9)
    excess = np.maximum((standard / free) ** 2 - 1 / free, 0.0)
    return np.where(rows.analogy & (free > 1e-6), excess * variance, 0.0)


def _nonnegative(matrix: Array, right: Array) -> Array:
    from scipy.optimize import nnls

    scale = np.linalg.norm(matrix, axis=0)
    solution: Any = nnls(matrix / scale, right)[0]
    return np.asarray(solution / scale)


def _sources(rows: _Rows, shares: Array) -> list[str]:
    """Who each cost comes from: the rows that carry its estimate, of shares that add up to one for each cost."""
    found = []
    for carried in shares:
        order = np.argsort(-carried)
        worth = [i for i in order if carried[i] >= WORTH] or order[:3]
        found.append(_listed([rows.groups[i][0].source for i in worth]))
    return found


def _listed(sources: Iterable[str]) -> str:
    """Sources, each once, their first words not repeated: probe syscall; ladder select N=1, select N=2."""
    rests: dict[str, list[str]] = {}
    for source in dict.fromkeys(sources):
        kind, _, rest = source.partition(" ")
        rests.setdefault(kind, []).append(rest)
    return "; ".join(f"{kind} {', '.join(rest)}" for kind, rest in rests.items())
