"""Analyses one series of a sweep: fits the laws, finds the peak, and says why it is there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from models.explain import limits, outside, reasons
from models.explain.view import View
from models.knobs import Value
from models.series import Explanation, Peak, Point, Series

if TYPE_CHECKING:
    from models.laws import LawFit

LEVEL = 0.95
LAWS = ("amdahl", "usl")
QUESTIONS: Mapping[str, tuple[reasons.Rule, ...]] = {
    "where it peaks": reasons.WHERE,
    "which law": reasons.LAW,
    "what limits it": limits.LIMIT,
    "what is lost beyond": limits.LOSS,
    "what is unseen": outside.UNSEEN,
    "how near the model came": reasons.MODEL,
}


def analyse(variable: str, fixed: Mapping[str, Value], points: Sequence[Point], cpus: int) -> Series:
    """Fits the laws, finds the peak and explains it.

    Parameters
    ----------
    variable : str
        The knob that the points differ in.
    fixed : mapping
        What distinguishes this series from the others of its sweep.
    points : sequence of Point
        In any order. Broken ones stay in the series, but are neither fitted nor used as evidence.
    cpus : int
        CPUs that server and load generator share.
    """
    from models import laws

    ordered = tuple(sorted(points, key=lambda point: point.x))
    sound = tuple(point for point in ordered if point.sound and any(map(math.isfinite, _throughputs(point))))
    fits = _fits(variable, sound)
    chosen = laws.choose(fits) if fits else None
    law = next((fit for fit in fits if fit.law == chosen), None)
    peak, decided = _peak(sound, law)
    best = next((point for point in sound if point.x == peak.value), None)
    beyond = [point for point in sound if best and point.x > best.x]
    end = beyond[-1] if beyond and beyond[-1].x not in peak.members else None
    view = View(variable, fixed, ordered, sound, best, end, peak, fits, law, decided, cpus)
    return Series(dict(fixed), variable, ordered, fits, chosen, peak, explain(view))


def explain(view: View) -> Explanation:
    """The answers to the questions in turn, each by the first of its rules that has something to say."""
    answers = [next(filter(None, (rule(view) for rule in rules)), None) for rules in QUESTIONS.values()]
    said = [answer for answer in answers if answer]
    return Explanation(" ".join(s.text for s in said), tuple(item for s in said for item in s.evidence))


def _throughputs(point: Point) -> tuple[float, ...]:
    assert point.measured is not None
    return point.replicates or (point.measured.throughput.value,)


def _fits(variable: str, sound: Sequence[Point]) -> tuple[LawFit, ...]:
    """Every law that the sound runs are enough for; none over what is not a number of things side by side."""
    from models import laws

    if variable not in reasons.CONCURRENCY:
        return ()
    rows = [(point.x, x) for point in sound if point.x > 0 for x in _throughputs(point) if math.isfinite(x)]
    found = []
    for name in LAWS:
        try:
            found.append(laws.fit(name, [n for n, _ in rows], [x for _, x in rows]))
        except laws.TooFewPoints:
            continue
    return tuple(found)


def _peak(sound: Sequence[Point], law: LawFit | None) -> tuple[Peak, bool]:
    """The measured peak and the law's, and whether there were runs enough to compare the values."""
    from models import laws

    bounds = (law.peak.value, law.peak.low, law.peak.high) if law else (math.nan, math.nan, math.nan)
    if not sound:
        return Peak(), False
    found = laws.peak_set({point.x: _throughputs(point) for point in sound}, level=LEVEL)
    return Peak(found.best, found.members, *bounds), not found.undecided
