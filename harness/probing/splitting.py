"""Splits a round trip into what it is made of: system calls, data, switches, wake-ups, and what is left.

For a row of one pair, with every cost measured in the same run between ends of the same kind:

- system calls: variant `calls` of the same probe at the smallest size measured: one end alone makes the calls of both,
- data: `calls` at the row's size, less that,
- switches (same_cpu): those counted in the row × one switch, which is half of `switch` less its `calls`,
- wake-ups: those counted in the row × one wake-up, which is what is left of `wakeup` at the same position after its own
  calls and switches, for each of those that it counted. A wake-up is counted where an end had gone to sleep: on one CPU an
  end that wakes the other often loses the CPU to it before it sleeps, and then has one wake-up and two switches,
- residual: what is left, so that the parts add up to the median. Of `wakeup` itself nothing can be.

What cannot be told apart: between two CPUs a sleeper's switch to idle and back always comes with its wake-up, so these
are one part there; and some calls of one end run while the other is on its way, which makes a wake-up look shorter by
that much and may leave a residual below zero. On one CPU an end often finds the message there, and where that takes no
system call (semaphores, mutexes) `calls` is measured with and without them (knob `sleeps`), and taken as far between as
ends went to sleep. With several pairs a round trip holds turns of the other pairs, and with free placement nobody knows
where it was: such rows are not split.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from models.quantiles import t_quantile
from pyx import registry

CALLS, UNIT, ONE_SIZE = "calls", "round trip", 8
SLEEPS = "sleeps"  # knob of `calls` where an end that need not wait makes fewer calls
MOST_SLEEPS = 2  # its default
SAME, ALONE, FREE = "same_cpu", "alone", "free"
ENDS = 2
LEAST_SLEEPS = 0.1  # of a round trip of `wakeup`, below which it says nothing of waking

Row = Mapping[str, Any]
Form = dict[int, float]  # a sum of medians: factors by the rows' places among the results


class _MissingError(Exception):
    """What a split needs and the results lack."""


def parts(results: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows of a document with `parts` filled in.

    Parameters
    ----------
    results : sequence of rows
        As harness.probing.results makes them. `switches` and `sleeps` (voluntary ones) are those of one end for each unit.

    Returns
    -------
    list of dict
        Copies. parts: a list of {part, ns, low_ns, high_ns} (95 %; null where a row has a single launch), which add up to
        median_ns; or null, with the reason as parts_why where the row is a round trip.
    """
    found = []
    for place, row in enumerate(results):
        split, why = None, None
        if _waits_in_turn(row["probe"], row["variant"]) and row["unit_of_work"] == UNIT:
            try:
                split = _estimates(_split(results, place), results, place)
            except _MissingError as missing:
                why = str(missing)
        found.append({**row, "parts": split, "parts_why": why})
    return found


def needs(points: Sequence[Any]) -> list[Any]:
    """The points (harness.probing.points.Point) that a split of these needs beside them, to be measured in the same run."""
    have = {_key(point) for point in points}
    found = []
    for point in points:
        for other in _companions(point):
            if _key(other) not in have:
                have.add(_key(other))
                found.append(other)
    return found


def _key(point: Any) -> tuple[Any, ...]:
    return tuple(
        getattr(point, n) for n in ("probe", "variant", "kind", "position", "pairs", "size", "options")
    )


def _companions(point: Any) -> Iterator[Any]:
    if (
        not _waits_in_turn(point.probe, point.variant)
        or point.form.unit_of_work != UNIT
        or point.pairs != 1
        or point.position == FREE
    ):
        return
    for size in sorted({min(ONE_SIZE, point.size), point.size}):
        yield _alone(point, size=size)
    if any(knob["name"] == SLEEPS for knob in registry.probes()[point.probe]["knobs"]):
        yield _alone(point, options=(*point.options, (SLEEPS, "0")))
    wakeup = _other(point, "wakeup", "pingpong")
    yield from (wakeup, _alone(wakeup))
    if point.position == SAME:
        switch = _other(point, "switch", "yield")
        yield from (switch, _alone(switch))


def _other(point: Any, probe: str, variant: str) -> Any:
    form = type(point.form)(**registry.probe_form(probe, {"variant": variant}))
    return replace(point, probe=probe, variant=variant, form=form, size=0, options=())


def _alone(point: Any, **changed: Any) -> Any:
    form = type(point.form)(**registry.probe_form(point.probe, {**dict(point.options), "variant": CALLS}))
    where = {"position": ALONE, "cpus": point.cpus[:1], "bound": True}
    return replace(point, variant=CALLS, form=form, **where, **changed)


def _waits_in_turn(probe: str, variant: str) -> bool:
    """Whether `calls` makes the calls of this variant: of the plain ping-pong, which is the default or has that name."""
    row = registry.probes().get(probe)
    knob = next((k for k in row["knobs"] if k["name"] == "variant"), None) if row else None
    return (
        knob is not None
        and CALLS in knob["allowed"].split("|")
        and variant in {"pingpong", knob["default"]} - {CALLS}
    )


def _find(results: Sequence[Row], probe: str, variant: str, kind: str, **wanted: Any) -> list[int]:
    """As `_places`; raises where there are none."""
    places = _places(results, probe, variant, kind, **wanted)
    if not places:
        raise _MissingError(f"it takes {probe} {variant} between ends of the same kind: run {probe} too")
    return places


def _places(results: Sequence[Row], probe: str, variant: str, kind: str, **wanted: Any) -> list[int]:
    """Places of the rows of one pair that can be relied on, the smallest size first."""
    wanted = {"probe": probe, "variant": variant, "kind": kind, "pairs": 1, **wanted}
    places = [
        place
        for place, row in enumerate(results)
        if all(row[name] == value for name, value in wanted.items()) and "rejected" not in row["flags"]
    ]
    return sorted(places, key=lambda place: results[place]["size"])


def _split(results: Sequence[Row], place: int) -> dict[str, Form]:
    row = results[place]
    if row["pairs"] != 1:
        raise _MissingError("with several pairs a round trip holds turns of the others: run one pair")
    if row["position"] == FREE:
        raise _MissingError("the scheduler chose the CPUs: give a position")
    kind, position = row["kind"], row["position"]
    calls = _find(results, row["probe"], CALLS, kind, position=ALONE, options=row["options"])
    slept = min(ENDS * row["sleeps"] / MOST_SLEEPS, 1.0)
    awake = _places(
        results, row["probe"], CALLS, kind, position=ALONE, options={**row["options"], SLEEPS: "0"}
    )
    same_size = [at for at in calls if results[at]["size"] == row["size"]]
    if not same_size:
        raise _MissingError(f"it takes {row['probe']} {CALLS} at {row['size']} bytes")
    system_calls = _sum((slept, calls[0]), (1 - slept, awake[0])) if awake else {calls[0]: 1.0}
    found = {"system calls": system_calls, "data": _sum((1.0, same_size[0]), (-1.0, calls[0]))}
    switch = _switch(results, kind) if position == SAME else None
    if switch is not None:
        found["switches"] = _sum((ENDS * row["switches"], switch))
    wakeup = _wakeup(results, kind, position, switch)
    found["wake-ups"] = _sum((ENDS * row["sleeps"], wakeup))
    found["residual"] = _sum((1.0, place), *((-1.0, form) for form in found.values()))
    return found


def _switch(results: Sequence[Row], kind: str) -> Form:
    """One switch: a unit of `switch` is two yields and two switches, of its `calls` two yields."""
    both = _find(results, "switch", "yield", kind, position=SAME, options={})
    calls = _find(results, "switch", CALLS, kind, position=ALONE, options={})
    return _sum((0.5, both[0]), (-0.5, calls[0]))


def _wakeup(results: Sequence[Row], kind: str, position: str, switch: Form | None) -> Form:
    """One wake-up, with the switches to idle and back where those are not known."""
    whole = _find(results, "wakeup", "pingpong", kind, position=position, options={})[0]
    calls = _find(results, "wakeup", CALLS, kind, position=ALONE, options={})[0]
    slept = ENDS * results[whole]["sleeps"]
    if slept < LEAST_SLEEPS:
        raise _MissingError("the ends of wakeup did not sleep here, so that nothing was woken")
    switches = ENDS * results[whole]["switches"] if switch else 0.0
    return _sum((1 / slept, whole), (-1 / slept, calls), (-switches / slept, switch or {}))


def _sum(*terms: tuple[float, int | Form]) -> Form:
    found: Form = {}
    for factor, term in terms:
        for place, inner in (term if isinstance(term, dict) else {term: 1.0}).items():
            found[place] = found.get(place, 0.0) + factor * inner
    return {place: factor for place, factor in found.items() if abs(factor) > 1e-12}


def _estimates(split: Mapping[str, Form], results: Sequence[Row], place: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"part": name, "ns": _value(form, results)} for name, form in split.items()
    ]
    # As a difference, so that no rounding keeps the parts from adding up.
    found[-1]["ns"] = results[place]["median_ns"] - math.fsum(part["ns"] for part in found[:-1])
    for part, form in zip(found, split.values(), strict=True):
        half = _half_width(form, results)
        part["low_ns"] = None if half is None else part["ns"] - half
        part["high_ns"] = None if half is None else part["ns"] + half
    return found


def _value(form: Form, results: Sequence[Row]) -> float:
    return math.fsum(factor * results[place]["median_ns"] for place, factor in form.items())


def _half_width(form: Form, results: Sequence[Row], level: float = 0.95) -> float | None:
    """Student's, of a sum of medians of launches, with Welch's and Satterthwaite's degrees of freedom (1946, eq. 17).

    A median of n launches varies as π/2 of their variance over n, where those are about normal.
    """
    whole, weighted = 0.0, 0.0
    for place, factor in form.items():
        launches = results[place]["launches"]
        n = len(launches)
        if n < 2:
            return None
        mean = math.fsum(launches) / n
        variance = math.fsum((value - mean) ** 2 for value in launches) / (n - 1)
        part = factor**2 * math.pi / 2 * variance / n
        whole += part
        weighted += part**2 / (n - 1)
    if not whole:
        return 0.0
    return t_quantile(max(1, int(whole**2 / weighted)), level) * math.sqrt(whole)
