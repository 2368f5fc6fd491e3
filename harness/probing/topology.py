"""How far apart two CPUs are, as the system describes it, and which pairs of CPUs stand for each distance."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

SYSTEM = Path("/sys/devices/system")
POSITIONS = ("same_cpu", "smt", "l2", "l3", "socket", "numa")

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Topology:
    """The allowed CPUs and their distances.

    Attributes
    ----------
    cpus : tuple of int
        CPUs that this process may use, in order.
    pairs : mapping of str to tuple of (int, int)
        For each position that is there, pairs of CPUs that stand for it and share no CPU with each other.
    absent : mapping of str to str
        The other positions, each with the reason.
    """

    cpus: tuple[int, ...]
    pairs: Mapping[str, tuple[Pair, ...]]
    absent: Mapping[str, str]

    def to_json(self) -> dict[str, dict[str, object]]:
        """By position, in order of distance: {cpus: the first pair} or {absent: why}."""
        return {
            name: {"cpus": list(self.pairs[name][0])} if name in self.pairs else {"absent": self.absent[name]}
            for name in POSITIONS
        }


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a CPU is: the CPUs that it shares its core and caches with (empty: unknown), its socket and node."""

    core: frozenset[int]
    l2: frozenset[int]
    l3: frozenset[int]
    package: int
    node: int


def read(system: Path = SYSTEM, allowed: Iterable[int] | None = None) -> Topology:
    """The topology as sysfs has it.

    Positions are distances: `smt` shares a core, `l2` and `l3` the nearest cache shared by two cores, `socket` a socket
    but no cache, `numa` nothing: another node, or another socket where nodes are not described.

    Parameters
    ----------
    system : path
        The folder that holds cpu/ and node/.
    allowed : iterable of int, optional
        CPUs to use; those of this process by default.
    """
    cpus = tuple(sorted(os.sched_getaffinity(0) if allowed is None else allowed))
    nodes = _nodes(system)
    places = {cpu: _place(system / f"cpu/cpu{cpu}", cpu, nodes) for cpu in cpus}
    found: dict[str, list[Pair]] = {"same_cpu": [(cpu, cpu) for cpu in cpus]}
    taken: dict[str, set[int]] = {}
    for a, b in combinations(cpus, 2):
        position = _position(places[a], places[b], b)
        used = taken.setdefault(position, set())
        if used.isdisjoint((a, b)):
            used.update((a, b))
            found.setdefault(position, []).append((a, b))
    absent = {name: _why(name, places) for name in POSITIONS if name not in found}
    return Topology(cpus, {name: tuple(found[name]) for name in POSITIONS if name in found}, absent)


def _position(a: _Place, b: _Place, other: int) -> str:
    if other in a.core:
        return "smt"
    if other in a.l2:
        return "l2"
    if other in a.l3:
        return "l3"
    return "socket" if a.node == b.node and a.package == b.package else "numa"


def _why(position: str, places: Mapping[int, _Place]) -> str:
    if len(places) == 1:
        return "only one CPU may be used"
    every = list(places.values())
    if position == "smt":
        single = all(len(place.core) < 2 for place in every)
        return (
            "each core has one hardware thread" if single else "a core's other hardware thread is not allowed"
        )
    if position in ("l2", "l3"):
        known = any(getattr(place, position) for place in every)
        cache = position.upper()
        return (
            f"no two cores share an {cache} cache"
            if known
            else f"the system does not describe an {cache} cache"
        )
    if position == "socket":
        return "all CPUs of a socket share a cache"
    return "all CPUs are on one NUMA node"


def _place(folder: Path, cpu: int, nodes: Mapping[int, int]) -> _Place:
    shared: dict[int, frozenset[int]] = {}
    for cache in sorted(folder.glob("cache/index*")):
        if _text(cache / "type") != "Instruction":
            level = min(int(_text(cache / "level") or 0), 3)  # what lies beyond counts as the last
            shared[level] = shared.get(level, frozenset()) | _list(_text(cache / "shared_cpu_list"))
    package = _text(folder / "topology/physical_package_id")
    core = _list(_text(folder / "topology/thread_siblings_list")) or frozenset((cpu,))
    nothing: frozenset[int] = frozenset()
    return _Place(
        core, shared.get(2, nothing), shared.get(3, nothing), int(package or -1), nodes.get(cpu, -1)
    )


def _nodes(system: Path) -> dict[int, int]:
    """The NUMA node of each CPU."""
    folders = system.glob("node/node[0-9]*")
    return {cpu: int(folder.name[4:]) for folder in folders for cpu in _list(_text(folder / "cpulist"))}


def _list(text: str) -> frozenset[int]:
    """CPUs as the kernel lists them: 0-3,8."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return frozenset(found)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
