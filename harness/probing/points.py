"""Turns what a user asks for into points: each is one probe in one form at one place, which launches measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from harness import request as requests
from harness import values
from harness.errors import HarnessError
from harness.probing.topology import POSITIONS, Topology
from models.knobs import Knob, offer, text_of
from pyx import registry

ALONE, FREE = "alone", "free"
VARIANT = "variant"
MOST_CPUS = 64  # that a launch is told to use
PLURAL = {"process": "processes", "thread": "threads"}
PAIRS = Knob("pairs", "int", 1, "1:512", "", "probe", "pairs of ends that run at once")
SIZE = Knob("size", "int", 8, "0:67108864", "bytes", "probe", "size of a message")


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asked for; None where nothing was said. Texts are as the options of `python -m harness probe`.

    Attributes
    ----------
    probes : tuple of str
        Names; all when there are none.
    settings : tuple of str
        KNOB=VALUES for the probes that have that knob.
    iterations : int or None
        Units of work of each launch, instead of a time.
    reps : int or None
        Launches of each point.
    quick : bool
        Only the default variant of probes that were not named, in a fraction of the time.
    """

    probes: tuple[str, ...] = ()
    pairs: str = "1"
    cores: str | None = None
    position: str | None = None
    kind: str | None = None
    variant: str | None = None
    size: str = "8"
    settings: tuple[str, ...] = ()
    iterations: int | None = None
    reps: int | None = None
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """What a probe is with its settings, as pyx.registry.probe_form gives it."""

    unit_of_work: str
    ends: int
    alike: bool
    spins: bool


@dataclass(frozen=True, slots=True)
class Point:
    """What one launch measures.

    Attributes
    ----------
    options : tuple of (name, text)
        The knobs that are set, the variant apart.
    cpus : tuple of int
        End e of pair p runs on cpus[(p × ends + e) % len(cpus)] where `bound`, else all wherever the scheduler likes among
        them.
    cores : int
        CPUs that the ends can use.
    """

    probe: str
    variant: str
    kind: str
    position: str
    pairs: int
    size: int
    options: tuple[tuple[str, str], ...]
    form: Form
    cpus: tuple[int, ...]
    bound: bool

    @property
    def cores(self) -> int:
        ends = self.pairs * self.form.ends
        return len(set(self.cpus[:ends] if self.bound else self.cpus))

    @property
    def native(self) -> dict[str, str]:
        """All knobs that are set, the variant with them."""
        return dict(self.options) | ({VARIANT: self.variant} if self.variant else {})

    def label(self) -> str:
        """The point in a few words."""
        words = [self.probe, self.variant, self.kind, self.position]
        return " ".join(filter(None, words)) + (f" {self.pairs} pairs" if self.pairs > 1 else "")

    def refusal(self, why: str) -> dict[str, Any]:
        """The row of a point that was not measured."""
        names = ("probe", "variant", "kind", "position", "pairs", "cores", "size")
        return {**{name: getattr(self, name) for name in names}, "options": dict(self.options), "why": why}


@dataclass(frozen=True, slots=True)
class Plan:
    """Points to measure, and those that cannot be, as rows with their reason."""

    points: tuple[Point, ...]
    refused: tuple[dict[str, Any], ...]


def make(request: Request, topology: Topology) -> Plan:
    """The points of a request.

    Raises
    ------
    HarnessError
        When something in it is not known or not allowed, or nothing is left to measure.
    """
    table = _chosen(request)
    try:
        wanted = _Wanted.of(request, topology, table)
        drafts = [point for name in table for point in _points(name, table[name], wanted)]
    except ValueError as error:
        raise HarnessError(str(error), usage=True) from error
    judged = [(point, _why_not(point, table[point.probe]["kinds"])) for point in drafts]
    refused = tuple(point.refusal(why) for point, why in judged if why)
    points = tuple(point for point, why in judged if not why)
    if not points or wanted.elsewhere:
        raise HarnessError(f"nothing to measure: {_why_nothing(refused, wanted, request)}", usage=True)
    return Plan(points, refused)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The request read: what every probe is measured over."""

    topology: Topology
    positions: tuple[str, ...]
    cores: tuple[int, ...]
    pairs: tuple[int, ...]
    sizes: tuple[int, ...]
    kinds: tuple[str, ...] | None
    variants: tuple[str, ...] | None
    settings: Mapping[str, tuple[str, ...]]
    short: bool

    @property
    def elsewhere(self) -> bool:
        """Whether only positions are wanted that this machine does not have."""
        return bool(self.positions) and not self.cores and not set(self.positions) & set(self.topology.pairs)

    @classmethod
    def of(cls, request: Request, topology: Topology, table: Mapping[str, Any]) -> _Wanted:
        here = len(topology.cpus)
        cores = Knob(
            "cores", "int", 1, f"1:{min(here, MOST_CPUS)}", "(the CPUs of this process)", "probe", ""
        )
        free = () if request.cores is None else _numbers(cores, request.cores.replace("N", str(here)))
        only_free = request.cores is not None and request.position is None
        known = {word for row in table.values() for word in _variants(row)}
        return cls(
            topology,
            ()
            if only_free
            else _words("position", "all" if request.position is None else request.position, POSITIONS),
            free,
            _numbers(PAIRS, request.pairs),
            _numbers(SIZE, request.size),
            _words("kind", request.kind, tuple(PLURAL)) if request.kind is not None else None,
            _words("variant", request.variant, sorted(known - {""})) if request.variant is not None else None,
            _settings(request, table),
            request.quick and not request.probes,
        )


def _chosen(request: Request) -> dict[str, Any]:
    """The probes' rows in the registry, by name."""
    every = registry.probes()
    for name in request.probes:
        if name not in every:
            raise HarnessError(f"{name}: no such probe{offer(name, every)}", usage=True)
    return {name: every[name] for name in request.probes or sorted(every)}


def _numbers(knob: Knob, text: str) -> tuple[int, ...]:
    return tuple(int(value) for value in values.parse(knob, text))


def _words(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    if text == "all":
        return tuple(known)
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in found:
        if word not in known:
            raise ValueError(f"--{option} {word}: not known{offer(word, known)}")
    return found


def _settings(request: Request, table: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Texts of the values by knob; repeated ones add up."""
    known = {knob["name"] for row in table.values() for knob in row["knobs"]} - {VARIANT}
    found: dict[str, tuple[str, ...]] = {}
    for name, text in requests.settings(request.settings):
        if name not in known:
            hint = offer(name, known) if known else "; these probes have no knobs"
            raise ValueError(f"--set {name}: no such knob of these probes{hint} (variants: --variant)")
        found[name] = (*found.get(name, ()), text)
    return found


def _knob(row: Mapping[str, Any], name: str) -> Knob | None:
    return next((Knob(**knob) for knob in row["knobs"] if knob["name"] == name), None)


def _variants(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A probe's variants, the default first; one without a name where it comes in one form."""
    knob = _knob(row, VARIANT)
    return tuple(dict.fromkeys([str(knob.default), *knob.allowed.split("|")])) if knob else ("",)


def _points(name: str, row: Mapping[str, Any], wanted: _Wanted) -> Iterator[Point]:
    variants = [word for word in _variants(row) if wanted.variants is None or word in wanted.variants]
    if wanted.variants is None and wanted.short:
        variants = variants[:1]
    swept = {}
    for knob_name, texts in wanted.settings.items():
        knob = _knob(row, knob_name)
        if knob:
            swept[knob_name] = [text_of(v) for text in texts for v in values.parse(knob, text)]
    for variant, kind, *chosen in product(variants, wanted.kinds or row["kinds"], *swept.values()):
        options = tuple(zip(swept, chosen, strict=True))
        native = dict(options) | ({VARIANT: variant} if variant else {})
        form = Form(**registry.probe_form(name, native))
        for size, pairs in product(wanted.sizes, wanted.pairs):
            for position, cpus, bound in _places(form, wanted):
                yield Point(name, variant, kind, position, pairs, size, options, form, cpus, bound)


def _places(form: Form, wanted: _Wanted) -> Iterator[tuple[str, tuple[int, ...], bool]]:
    """Position, CPUs, and whether ends are bound. One end has no position but its own."""
    topology = wanted.topology
    if form.ends == 1 and wanted.positions:
        yield ALONE, topology.cpus[:MOST_CPUS], True
    elif wanted.positions:
        for position in wanted.positions:
            pairs = topology.pairs.get(position, ())[: MOST_CPUS // form.ends]
            if pairs:
                yield position, tuple(pair[end % 2] for pair in pairs for end in range(form.ends)), True
    for cores in wanted.cores:
        yield FREE, topology.cpus[:cores], False


def _why_not(point: Point, kinds: Sequence[str]) -> str | None:
    """Why a point cannot be measured, as far as that is known before a launch."""
    if point.kind not in kinds:
        return f"its ends must be {' or '.join(PLURAL[kind] for kind in kinds)}"
    ends = point.pairs * point.form.ends
    if point.form.spins and ends > point.cores:
        cpus = "1 CPU" if point.cores == 1 else f"{point.cores} CPUs"
        return f"its ends poll, so that each needs a CPU of its own: {ends} ends, {cpus}"
    return None


def _why_nothing(refused: Sequence[Mapping[str, Any]], wanted: _Wanted, request: Request) -> str:
    if wanted.elsewhere:
        return "; ".join(f"{name} is absent: {wanted.topology.absent[name]}" for name in wanted.positions)
    if refused:
        return f"{refused[0]['probe']}: {refused[0]['why']}"
    return f"no probe has variant {request.variant} (python -m harness list probes)"
