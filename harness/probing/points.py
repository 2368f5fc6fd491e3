"""Turns what a user asks for into points: each is one probe in one form at one place, which launches measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from harness import values
from harness.errors import HarnessError
from harness.probing.topology import Topology
from harness.probing.wanted import MOST_CPUS, PLURAL, VARIANT, Request, Wanted, chosen, knob_of, variants_of
from models.knobs import text_of
from pyx import registry

ALONE, FREE = "alone", "free"


@dataclass(frozen=True, slots=True)
class Form:
    """What a probe is with its settings, as pyx.registry.probe_form gives it."""

    unit_of_work: str
    ends: int
    alike: bool
    spins: bool
    together: bool
    unbound: bool
    sized: bool


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
    table = chosen(request)
    try:
        wanted = Wanted.of(request, topology, table)
        drafts = [point for name in table for point in _points(name, table[name], wanted)]
    except ValueError as error:
        raise HarnessError(str(error), usage=True) from error
    judged = [(point, _why_not(point, table[point.probe]["kinds"])) for point in drafts]
    refused = tuple(point.refusal(why) for point, why in judged if why)
    points = tuple(point for point, why in judged if not why)
    if not points or wanted.elsewhere:
        raise HarnessError(f"nothing to measure: {_why_nothing(refused, wanted)}", usage=True)
    return Plan(points, refused)


def _points(name: str, row: Mapping[str, Any], wanted: Wanted) -> Iterator[Point]:
    variants = [word for word in variants_of(row) if wanted.variants is None or word in wanted.variants]
    if wanted.variants is None and wanted.short:
        variants = variants[:1]
    swept = {}
    for knob_name, texts in wanted.settings.items():
        knob = knob_of(row, knob_name)
        if knob:
            swept[knob_name] = [text_of(v) for text in texts for v in values.parse(knob, text)]
    for variant, kind, *picked in product(variants, wanted.kinds or row["kinds"], *swept.values()):
        options = tuple(zip(swept, picked, strict=True))
        native = dict(options) | ({VARIANT: variant} if variant else {})
        form = Form(**registry.probe_form(name, native))
        for size, pairs in product(wanted.sizes if form.sized else (0,), wanted.pairs):
            for position, cpus, bound in _places(form, wanted):
                yield Point(name, variant, kind, position, pairs, size, options, form, cpus, bound)


def _places(form: Form, wanted: Wanted) -> Iterator[tuple[str, tuple[int, ...], bool]]:
    """Position, CPUs, and whether ends are bound. One end has no position but its own; neither have those that roam."""
    topology = wanted.topology
    if form.unbound and not wanted.cores:
        yield FREE, topology.cpus[:MOST_CPUS], False
    elif form.ends == 1 and wanted.positions:
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
    if point.form.together and (point.position == FREE or len(set(point.cpus[: point.form.ends])) > 1):
        return "its ends must share one CPU"
    if point.form.spins and ends > point.cores:
        cpus = "1 CPU" if point.cores == 1 else f"{point.cores} CPUs"
        return f"its ends poll, so that each needs a CPU of its own: {ends} ends, {cpus}"
    return None


def _why_nothing(refused: Sequence[Mapping[str, Any]], wanted: Wanted) -> str:
    if wanted.elsewhere:
        return "; ".join(f"{name} is absent: {wanted.topology.absent[name]}" for name in wanted.positions)
    if refused:
        return f"{refused[0]['probe']}: {refused[0]['why']}"
    return "no probe is left"
