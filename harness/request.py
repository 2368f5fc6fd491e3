"""Turns what a user asks for into a plan: names and values checked, everything that was not said chosen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from harness import values
from harness.errors import HarnessError
from harness.outside import outsiders
from harness.plan import LOAD, SEED_KNOB, Plan
from models import imported, knobs, outside
from models.knobs import Knob, Value
from models.scenario import Scenario, table_of

# Service and server that suit each other, best first: the first with every named knob fills in what is not.
PAIRS = (
    ("prime", "queues"),
    ("stock", "sbuf"),
    ("stock", "select"),
    ("synthetic", "queues"),
    ("synthetic", "sbuf"),
)
QUICK = {"reps": 2, "window": 0.2, "warmup": 0.05}
LIMITS = {
    "reps": (1, 1000),
    "window": (0.01, 3600.0),
    "warmup": (0.0, 3600.0),
    "precision": (0.0001, 1.0),
    "budget": (0.0, 1e6),
    "sample": (0.01, 3600.0),
}
PURE_NUMBERS = ("reps", "precision")
CHANGEABLE = ("precision", "budget")  # when to stop, which a sweep may be told anew when it goes on


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asked for; None where nothing was said.

    Attributes
    ----------
    variables, values : tuple of str
        Names of variables, and the values of each as text in the same order; there may be fewer values.
    options : tuple of (name, text)
        Settings; a name given more than once makes a series for each value.
    target, command, protocol : str or None
        Of a server that is not ours: where it listens, what starts it, and which service it speaks.
    """

    variables: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    service: str | None = None
    server: str | None = None
    load: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    reps: int | None = None
    window: float | None = None
    warmup: float | None = None
    seed: int | None = None
    quick: bool = False
    precision: float | None = None
    budget: float | None = None
    sample: float | None = None
    target: str | None = None
    command: str | None = None
    protocol: str | None = None


def make(request: Request) -> Plan:
    """The plan for a request, defaults filled in; HarnessError lists all that is wrong."""
    check_numbers(request)
    request = outsiders.settled(request)
    if not request.variables:
        raise HarnessError(
            "nothing to vary: give --var NAME, such as --var workers (python -m harness list)", usage=True
        )
    names = [*request.variables, *(name for name, _ in request.options)]
    _check_names(request.variables, {name for name, _ in request.options})
    service, server, load = parts(request.service, request.server, request.load, names)
    table = knob_table(service, server, load, names, request.options)
    texts = _texts(request.variables, request.values)
    try:
        variables = tuple((name, values.parse(table[name], texts.get(name))) for name in request.variables)
    except values.ValuesError as error:
        raise HarnessError(str(error), usage=True) from error
    options = _options(request.options, table)
    if (
        request.service is None
        and request.server is None
        and "workers" in request.variables
        and "wait" in table
    ):
        # The published way of waiting beside the mended one, unless the user has chosen.
        options = options if "wait" in names else (*options, ("wait", ("spin", "block")))
    return _finished(request, Plan(service, server, load, _axis_first(variables, table), options))


def _finished(request: Request, plan: Plan) -> Plan:
    changes: dict[str, Any] = {}
    if request.quick:
        changes |= QUICK
    given = {name: getattr(request, name) for name in (*LIMITS, "seed")}
    changes |= {name: value for name, value in given.items() if value is not None}
    return replace(plan, **changes).with_control()


def extend(plan: Plan, request: Request) -> Plan:
    """A stored plan with what a resuming request adds: more values, more blocks, another budget or precision.

    Raises
    ------
    HarnessError
        When the request says anything else than the plan, which would mix two experiments in one store.
    """
    check_numbers(request)
    request = outsiders.settled(request)
    differ = []
    for name, shown in (
        ("service", "--service"),
        ("server", "--server"),
        ("load", "--load"),
        ("window", "--time"),
        ("warmup", "--warmup"),
        ("seed", "--seed"),
        ("sample", "--sample"),
    ):
        asked = getattr(request, name)
        if asked is not None and asked != getattr(plan, name):
            differ.append(f"{shown} {getattr(plan, name)}, not {asked}")
    stored = dict(plan.options)
    names = [*request.variables, *(n for n, _ in request.options), *stored, *(n for n, _ in plan.variables)]
    known = [(name, str(value)) for name, points in plan.options for value in points]
    table = knob_table(plan.service, plan.server, plan.load, names, known)
    for name, points in _options(request.options, table):
        if stored.get(name) != points:
            was = ",".join(knobs.text_of(value) for value in stored[name]) if name in stored else "not set"
            differ.append(f"--set {name}: {was}, not {','.join(knobs.text_of(value) for value in points)}")
    if request.variables and set(request.variables) != {name for name, _ in plan.variables}:
        shown = " ".join(f"--var {name}" for name, _ in plan.variables)
        differ.append(f"{shown}, not {' '.join(f'--var {name}' for name in request.variables)}")
    if differ:
        raise HarnessError(
            f"the store holds another sweep ({'; '.join(differ)}); give another --out", usage=True
        )
    texts = _texts(request.variables or [name for name, _ in plan.variables], request.values)
    variables = []
    for name, points in plan.variables:
        try:
            added = values.parse(table[name], texts[name]) if name in texts else ()
        except values.ValuesError as error:
            raise HarnessError(str(error), usage=True) from error
        variables.append((name, _ordered((*points, *added), table.get(name))))
    told = {name: getattr(request, name) for name in CHANGEABLE if getattr(request, name) is not None}
    longer = replace(plan, variables=tuple(variables), reps=max(plan.reps, request.reps or 0), **told)
    longer.cells()
    return longer


def parts(
    service: str | None, server: str | None, load: str | None, names: Iterable[str]
) -> tuple[str, str, str]:
    """Service, server and load, those that are not given chosen so that all named knobs exist."""
    load = load or LOAD
    wanted = {name for name in names if name != SEED_KNOB.name}
    known = {kind: knobs.variants(kind) for kind in ("service", "server", "load")}
    pairs = [*PAIRS, *product(known["service"], known["server"])]
    fitting = [
        (a, b)
        for a, b in pairs
        if a in known["service"]
        and b in known["server"]
        and service in (None, a)
        and (server == b or (server is None and b not in outside.KINDS))
    ]
    if load in known["load"]:
        for a, b in fitting:
            if wanted <= knobs.of_parts(a, b, load).keys():
                return a, b, load
    first = fitting[0] if fitting else PAIRS[0]
    return service or first[0], server or first[1], load


def knob_table(
    service: str, server: str, load: str, names: Iterable[str], given: Iterable[tuple[str, str]] = ()
) -> dict[str, Knob]:
    """The knobs of a scenario's parts by name; HarnessError says which of the names they do not have.

    `given` are settings: of a server that is not ours, its command and its target say what knobs there are.
    """
    if imported.NAME in (service, server, load):
        raise HarnessError(
            "imported: results of another tool cannot be measured on; start a sweep of a server with another --out",
            usage=True,
        )
    named = dict.fromkeys(names)
    reach = {n: text for n, text in given if n in ("command", "target")} if server in outside.KINDS else {}
    try:
        for kind, name in (("service", service), ("server", server), ("load", load)):
            if name not in knobs.variants(kind):
                Scenario.of(service, server, load)  # says what there is instead
        table = {**table_of(service, server, load, reach), SEED_KNOB.name: SEED_KNOB}
        free = {name: "1" for name in named if name in table and table[name].type == "any"}
        unknown = {name: None for name in named if name not in table}
        Scenario.of(service, server, load, options={**reach, **free, **unknown})
    except ValueError as error:
        raise HarnessError(str(error), usage=True) from error
    return table


def settings(pairs: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """name=value words as pairs."""
    found = []
    for word in pairs:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise HarnessError(f"--set {word}: write it as name=value, such as --set workers=4", usage=True)
        found.append((name.strip(), value.strip()))
    return tuple(found)


def _texts(variables: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """The values of each variable as text, where they were given."""
    if len(given) > len(variables):
        raise HarnessError(
            f"--values given {len(given)} times for {len(variables)} --var; give one each", usage=True
        )
    return dict(zip(variables, given, strict=False))


def _options(
    given: Iterable[tuple[str, str]], table: Mapping[str, Knob]
) -> tuple[tuple[str, tuple[Value, ...]], ...]:
    found: dict[str, dict[Value, None]] = {}
    errors = []
    for name, text in given:
        try:
            found.setdefault(name, {})[table[name].parse(text)] = None
        except ValueError as error:
            errors.append(str(error))
    if errors:
        raise HarnessError("\n".join(errors), usage=True)
    return tuple((name, tuple(points)) for name, points in found.items())


def _axis_first(
    variables: tuple[tuple[str, tuple[Value, ...]], ...], table: Mapping[str, Knob]
) -> tuple[tuple[str, tuple[Value, ...]], ...]:
    """The first numeric variable moved to the front, its values in rising order."""
    ordered = [(name, _ordered(points, table[name])) for name, points in variables]
    for index, (name, points) in enumerate(ordered):
        if _numeric(points, table[name]):
            return ((name, points), *ordered[:index], *ordered[index + 1 :])
    name, points = ordered[0]
    series = " ".join(f"--set {name}={knobs.text_of(point)}" for point in points)
    raise HarnessError(
        f"--var {name}: not a number, so there is no axis; give {series} for a series each", usage=True
    )


def _ordered(points: tuple[Value, ...], knob: Knob | None) -> tuple[Value, ...]:
    unique = tuple(dict.fromkeys(points))
    return tuple(sorted(unique, key=float)) if knob and _numeric(unique, knob) else unique


def _numeric(points: Iterable[Value], knob: Knob) -> bool:
    """Whether the values can be an axis."""
    if knob.type == "any":
        return not any(isinstance(point, str) for point in points)
    return knob.type in ("int", "real")


def _check_names(variables: Sequence[str], options: set[str]) -> None:
    for name in variables:
        if variables.count(name) > 1:
            raise HarnessError(f"--var {name}: given twice; put all its values into one --values", usage=True)
        if name in options:
            raise HarnessError(f"{name}: both --var and --set; choose one", usage=True)


def check_numbers(request: Request) -> None:
    """HarnessError when an effort or the seed is outside its limits."""
    for name, (low, high) in LIMITS.items():
        value = getattr(request, name)
        if value is not None and not (math.isfinite(value) and low <= value <= high):
            shown = "time" if name == "window" else name
            raise HarnessError(
                f"--{shown} {value}: outside {low:g}:{high:g}{'' if name in PURE_NUMBERS else ' s'}",
                usage=True,
            )
    if request.seed is not None and not 0 <= request.seed < 2**53:
        raise HarnessError(f"--seed {request.seed}: outside 0:{2**53 - 1}", usage=True)
