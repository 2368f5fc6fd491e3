"""What a user asks of a probe run, and how it is read: names checked, values listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness import request as requests
from harness import values
from harness.errors import HarnessError
from harness.probing.topology import POSITIONS, Topology
from models.knobs import Knob, offer
from pyx import registry

ALL, VARIANT = "all", "variant"
MOST_CPUS = 64  # that a launch is told to use
PLURAL = {"process": "processes", "thread": "threads"}
MOST_PAIRS, MOST_REPS, MOST_ITERATIONS = 512, 1000, 10**12
PAIRS = Knob("--pairs", "int", 1, f"1:{MOST_PAIRS}", "", "probe", "pairs of ends that run at once")
SIZE = Knob("--size", "int", 8, "0:67108864", "bytes", "probe", "size of a message")


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
class Wanted:
    """A request that was read: what every probe is measured over; None where a probe's own are meant.

    Attributes
    ----------
    settings : mapping of str to tuple of str
        Texts of the values of each knob.
    short : bool
        Only default variants.
    """

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
    def of(cls, request: Request, topology: Topology, table: Mapping[str, Any]) -> Wanted:
        here = len(topology.cpus)
        cores = Knob(
            "--cores", "int", 1, f"1:{min(here, MOST_CPUS)}", "(the CPUs of this process)", "probe", ""
        )
        free = () if request.cores is None else _numbers(cores, request.cores.replace("N", str(here)))
        position = ALL if request.position is None else request.position
        only_free = request.cores is not None and request.position is None
        return cls(
            topology,
            () if only_free else _words("position", position, POSITIONS),
            free,
            _numbers(PAIRS, request.pairs),
            _numbers(SIZE, request.size),
            _words("kind", request.kind, tuple(PLURAL)) if request.kind is not None else None,
            _variants(request, table),
            _settings(request, table),
            request.quick and not request.probes,
        )


def chosen(request: Request) -> dict[str, Any]:
    """The probes' rows in the registry, by name."""
    every = registry.probes()
    for name in request.probes:
        if name not in every:
            raise HarnessError(f"{name}: no such probe{offer(name, every)}", usage=True)
    return {name: every[name] for name in request.probes or sorted(every)}


def _variants(request: Request, table: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The variants that are wanted; probes that were named must each have one of them."""
    if request.variant is None:
        return None
    known = {name: [word for word in variants_of(row) if word] for name, row in table.items()}
    found = _words("variant", request.variant, sorted({word for words in known.values() for word in words}))
    for name in request.probes:
        if not set(known[name]) & set(found):
            those = f"; there are: {', '.join(known[name])}" if known[name] else ": it comes in one form"
            raise ValueError(f"--variant {request.variant}: not one of probe {name}{those}")
    return found


def _numbers(knob: Knob, text: str) -> tuple[int, ...]:
    return tuple(int(value) for value in values.parse(knob, text))


def _words(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in found:
        if word not in (ALL, *known):
            raise ValueError(f"--{option} {word}: not known{offer(word, (ALL, *known))}")
    return tuple(known) if ALL in found else found


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


def knob_of(row: Mapping[str, Any], name: str) -> Knob | None:
    return next((Knob(**knob) for knob in row["knobs"] if knob["name"] == name), None)


def variants_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A probe's variants, the default first; one without a name where it comes in one form."""
    knob = knob_of(row, VARIANT)
    return tuple(dict.fromkeys([str(knob.default), *knob.allowed.split("|")])) if knob else ("",)
