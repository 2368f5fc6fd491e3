"""When a prediction has enough replications: two stages, whose interval holds the truth as often as it says.

Looking at the interval after every replication, and stopping when it is narrow, prefers samples whose scatter came out
small: intervals then hold the truth less often than they say. Here the first stage alone says what the scatter is, and
from it how many replications there must be; the interval at the end uses that scatter and the mean of all. The number
then depends on the data only through the scatter, of which the mean of normal values is independent: so coverage is
exact, and all of the second stage can run at once. C. Stein, A two-sample test for a linear hypothesis whose power is
independent of the variance, Annals of Mathematical Statistics 16, 1945.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from models.metrics import Estimate, number
from models.quantiles import t_quantile

FIRST, MOST = 10, 200  # replications of the first stage, and of both at most
PRECISION, BUDGET = "precision", "budget"


@dataclass(frozen=True, slots=True)
class Replicated:
    """Replications and what they say of the mean.

    Attributes
    ----------
    values : tuple of float
    mean : Estimate
        With its interval.
    reason : str
        "precision" when the interval is as narrow as it was to be, "budget" when replications ended first.
    """

    values: tuple[float, ...]
    mean: Estimate
    reason: str

    @property
    def precision(self) -> float:
        """Half of the interval, as a share of the mean."""
        return (self.mean.high - self.mean.low) / 2 / abs(self.mean.value) if self.mean.value else math.nan

    def to_json(self) -> dict[str, object]:
        return {"replications": len(self.values), "precision": number(self.precision), "reason": self.reason}


def needed(first: Sequence[float], precision: float, level: float = 0.95) -> float:
    """How many replications make the mean's interval as narrow, by the first stage; infinite by a mean of 0."""
    scatter = statistics.stdev(first)
    wanted = precision * abs(math.fsum(first) / len(first))
    half = t_quantile(len(first) - 1, level) * scatter
    return max(len(first), math.ceil((half / wanted) ** 2)) if wanted > 0 else math.inf


def replicate(
    stream: Iterable[float], precision: float, *, first: int = FIRST, most: int = MOST, level: float = 0.95
) -> Replicated:
    """Takes replications from the stream until half of the interval of their mean is within a share of it.

    Parameters
    ----------
    stream : iterable of float
        Independent results, one by one. It ends when the budget is spent, whatever the results were.
    precision : float
        Half of the interval that is narrow enough, relative to the mean.
    first, most : int
        Replications of the first stage (2 at least; with 10 the interval is 15 % wider than with any number), and of
        both stages at most.
    level : float

    Raises
    ------
    ValueError
        When the stream ends before its first result.
    """
    source: Iterator[float] = iter(stream)
    values = list(islice(source, first))
    if not values:
        raise ValueError("no replication ended within the budget")
    begun = len(values)
    wanted = needed(values, precision, level) if begun >= 2 else math.inf
    values += islice(source, max(int(min(wanted, most)) - begun, 0))
    centre = math.fsum(values) / len(values)
    if begun < 2:
        return Replicated(tuple(values), Estimate(centre), BUDGET)
    half = t_quantile(begun - 1, level) * statistics.stdev(values[:begun]) / math.sqrt(len(values))
    enough = begun >= first and len(values) >= wanted
    return Replicated(
        tuple(values), Estimate(centre, centre - half, centre + half), PRECISION if enough else BUDGET
    )
