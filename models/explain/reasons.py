"""The rules on what the curve says: where it peaks, which law describes it, and how near the model came.

A rule is a function of the view. It returns one sentence with the figures that it stands on, or None; the
first rule of a question that speaks is the answer. What cannot be told from the figures is said to be so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median

from models.explain.view import Said, View, throughput
from models.series import Evidence, plain
from models.wording import at, figure, interval, percent, rate, set_of

CONCURRENCY = ("clients", "workers", "server_cpus")  # what a law of scaling can be fitted over
LAW_NAMES = {"amdahl": "Amdahl's law", "usl": "The universal scalability law (USL)"}
SYMBOLS = {"sigma": "contention σ", "kappa": "coherency κ"}

TIE = 2.0  # difference in AICc below which two laws describe the data about equally well
SCATTER = 0.10  # residual scatter over the mean from which a law is said to fit loosely
LEVEL_PEAK = 0.99  # share of the highest prediction from which a value belongs to the model's peak

Rule = Callable[[View], Said | None]


def _left_out(view: View) -> tuple[str, tuple[Evidence, ...]]:
    """The clause on broken points, empty when there are none."""
    broken = [point for point in view.points if point.broken]
    if not broken:
        return "", ()
    checks = sorted({mark.check for point in broken for mark in point.broken})
    subject = (
        f"the point at {view.at(broken[0])} is"
        if len(broken) == 1
        else f"{len(broken)} of {len(view.points)} points are"
    )
    items = [Evidence("broken points", len(broken), f"of {len(view.points)}")]
    for point in broken:
        items += [view.evidence(f"broken by {mark.check}", point, mark.value, "1") for mark in point.broken]
    return f"; {subject} broken ({', '.join(checks)}) and left out", tuple(items)


def _nothing_sound(view: View) -> Said | None:
    if view.best:
        return None
    measured = sum(point.measured is not None for point in view.points)
    items: tuple[Evidence, ...] = (Evidence("points measured", measured, f"of {len(view.points)}"),)
    if not measured:
        return Said("Nothing was measured, so that nothing can be said of the peak.", items)
    text, more = _left_out(view)
    return Said(f"Nothing can be said of the peak, as no measured point is sound{text}.", items + more)


def _one_value(view: View) -> Said | None:
    if not view.best or len(view.sound) > 1:
        return None
    text, more = _left_out(view)
    found = view.evidence("throughput", view.best, throughput(view.best), "1/s")
    start = f"The only sound measurement is at {view.at(view.best)}, {rate(found.value)}{text}"
    return Said(f"{start}; a peak needs more values.", (found, *more))


def _highest(view: View) -> Said | None:
    """Where throughput is highest and which other values may be as good."""
    if not view.best:
        return None
    best, others = view.best, tuple(x for x in view.peak.members if view.best and x != view.best.x)
    text, more = _left_out(view)
    items = (
        view.evidence("throughput", best, throughput(best), "1/s"),
        Evidence("values in the peak set", len(others) + 1, f"of {len(view.sound)}"),
        *more,
    )
    start = f"Throughput is highest at {view.at(best)} ({rate(throughput(best))})"
    edge = best is view.sound[-1]
    if not view.decided:
        sure = "; with one run of each value, no difference can be told from chance"
    elif len(others) + 1 == len(view.sound):
        sure = "; no other value is significantly lower (95 %), so that where it peaks cannot be said"
        edge = False
    elif others:
        rest = (
            f"those at {set_of(others)} are"
            if len(others) > 1
            else f"that at {at(view.variable, others[0])} is"
        )
        sure = f"; {rest} not significantly lower (95 %)"
    else:
        sure = "; every other value measured is significantly lower (95 %)"
    if edge:
        sure += f", and as nothing beyond {view.at(best)} was measured, the peak may lie further on"
    return Said(f"{start}{sure}{text}.", items)


def _no_law(view: View) -> Said | None:
    if view.law:
        return None
    items = (Evidence("sound values", len(view.sound), "values"),)
    if view.variable not in CONCURRENCY:
        reason = f"{view.variable} is not a number of things that work side by side"
        return Said(f"No law of scaling is fitted, as {reason}.", items)
    values = "1 sound value is" if len(view.sound) == 1 else f"{len(view.sound)} sound values are"
    return Said(f"No law is fitted: {values} too few.", items)


def _law(view: View) -> Said | None:
    """The chosen law, its constants and its peak."""
    law = view.law
    if not law:
        return None
    items = []
    constants = []
    for name, symbol in SYMBOLS.items():
        if name in law.parameters:
            found = law.parameters[name]
            items += _with_bounds(name, found.value, found.low, found.high, "1")
            constants.append(f"{symbol} = {figure(found.value, 2)} {interval(found.low, found.high, 2)}")
    name = LAW_NAMES.get(law.law, law.law)
    text = f"{name} describes it {_how_well(view)} ({', '.join(constants)}) and {_law_peak(view)}"
    items += _with_bounds("law peak", view.peak.law_value, view.peak.low, view.peak.high, view.variable)
    scatter = law.sigma / (sum(law.x) / len(law.x))
    if scatter > SCATTER:
        text += f"; it fits loosely, with a scatter of {percent(scatter)}"
        items.append(Evidence("scatter about the law", scatter, "of the mean"))
    if law.parameters["sigma"].high < 0:
        text += (
            "; contention below 0 means that throughput grows faster than in proportion, as batching makes it"
        )
    return Said(f"{text}.", tuple(items))


def _with_bounds(name: str, value: float, low: float, high: float, unit: str) -> list[Evidence]:
    return [
        Evidence(name, value, unit),
        Evidence(f"{name} low", low, unit),
        Evidence(f"{name} high", high, unit),
    ]


def _how_well(view: View) -> str:
    others = [fit.aicc - view.law.aicc for fit in view.fits if view.law and fit is not view.law]
    if not others:
        return "as the only law that has enough points"
    if not all(math.isfinite(other) for other in others):
        return "with the least scatter"
    if min(others) < TIE:
        return "hardly better than the other law"
    return "best"


def _law_peak(view: View) -> str:
    peak, last = view.peak, view.sound[-1].x
    if math.isinf(peak.law_value):
        if math.isfinite(peak.low) and view.law and "kappa" in view.law.parameters:
            return f"shows no peak, though one from {figure(peak.low)} on is not excluded"
        return "has no peak"
    text = f"peaks at {figure(peak.law_value)} {interval(peak.low, peak.high)}"
    if peak.law_value <= view.sound[0].x:
        return f"falls from the first value on (its peak is at {figure(peak.law_value)})"
    if peak.law_value > last:
        return f"{text}, beyond the data"
    if peak.low > peak.members[-1] or peak.high < peak.members[0]:
        return f"{text}, which leaves out what was measured as highest (trust the measurement)"
    return text


def _model(view: View) -> Said | None:
    """How far the predictions are off, and whether they put the peak in the same place."""
    pairs = [(p, p.predicted.throughput.value) for p in view.sound if p.predicted]
    pairs = [(point, value) for point, value in pairs if math.isfinite(value)]
    if not pairs:
        return None
    errors = {point.x: value / throughput(point) - 1 for point, value in pairs}
    worst = max(errors, key=lambda x: abs(errors[x]))
    middle = median(abs(error) for error in errors.values())
    items: tuple[Evidence, ...] = (
        Evidence("median error of predicted throughput", middle, "of measured"),
        Evidence(f"worst error, at {view.variable}={plain(worst)}", errors[worst], "of measured"),
        Evidence("points predicted and measured", len(pairs), f"of {len(view.points)}"),
    )
    text = f"The model predicts throughput with a median error of {percent(middle)}"
    if len(errors) > 1:
        text += f" (worst {percent(errors[worst])} at {at(view.variable, worst)})"
    if len(errors) >= 3 and len({error > 0 for error in errors.values()}) == 1:
        text += f", always too {'high' if errors[worst] > 0 else 'low'}"
    if len(pairs) < 2:
        return Said(f"{text}.", items)
    top = max(value for _, value in pairs)
    near = tuple(point.x for point, value in pairs if value >= LEVEL_PEAK * top)
    highest = next(point.x for point, value in pairs if value == top)
    items = (*items, Evidence("peak predicted", highest, view.variable))
    place = at(view.variable, highest)
    if set(near) & set(view.peak.members):
        return Said(f"{text}, and its peak, at {place}, agrees with what was measured.", items)
    return Said(f"{text}, but it puts the peak at {place}, where the measured one is not.", items)


def _model_alone(view: View) -> Said | None:
    """What the model says where there is nothing sound to hold it against."""
    pairs = [(p.predicted.throughput.value, p) for p in view.points if p.predicted]
    if view.sound or not pairs:
        return None
    top, point = max(pairs, key=lambda pair: pair[0])
    text = f"The model alone, held against nothing, puts the peak at {view.at(point)} ({rate(top)})."
    return Said(text, (view.evidence("predicted throughput", point, top, "1/s"),))


WHERE: tuple[Rule, ...] = (_nothing_sound, _one_value, _highest)
LAW: tuple[Rule, ...] = (_no_law, _law)
MODEL: tuple[Rule, ...] = (_model, _model_alone)
