"""A built model as one program for the simulation engine in C."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import FunctionType
from typing import Any

import numpy as np

from models.des.compiling.code import Input
from models.des.compiling.frames import Operand
from models.des.compiling.functions import Unit, translate
from models.des.compiling.linking import Linker
from models.des.compiling.statics import Static, kind_of
from models.des.compiling.types import NUMBERS, ProgramError, RecordType, Type
from models.des.compiling.world import BuildWorld, Spawned
from models.des.machine import FADES, HALF_LIFE, SEARCH, Scheduler


@dataclass(frozen=True, slots=True)
class Compiled:
    """What pyx.sim.Program is made from, and the names that its numbers stand for.

    Attributes
    ----------
    spec : dict
    places : list of str
        Of each instruction, file:line.
    costs, counters, groups : tuple of str
    """

    spec: dict[str, Any]
    places: list[str]
    costs: tuple[str, ...]
    counters: tuple[str, ...]
    groups: tuple[str, ...]

    @property
    def on_cpus(self) -> int:
        """How many threads need a CPU."""
        return sum(not agent for *_, agent in self.spec["threads"])


def compile_model(
    build: Callable[[Any], None], world: BuildWorld, scheduler: Scheduler, opcodes: dict[str, int]
) -> Compiled:
    """Builds a model in that world and compiles its threads' programs.

    Raises
    ------
    ProgramError
        When a program is not in the language.
    """
    build(world)
    return _Programs(world).compiled(scheduler, opcodes)


class _Programs:
    """All code of a model. Threads that run the same function on arguments of the same types share it."""

    def __init__(self, world: BuildWorld) -> None:
        self.world = world
        self.linker = Linker(world.sample)
        self.code: list[tuple[str, int, int, int]] = []
        self.places: list[str] = []
        self.functions: dict[Any, int] = {}
        self.waiting: list[tuple[FunctionType, list[Static | Type]]] = []

    def compiled(self, scheduler: Scheduler, opcodes: dict[str, int]) -> Compiled:
        groups: dict[str, int] = {}
        threads = {}
        for members in self._alike():
            unit, moving = self._threads(members)
            for thread in members:
                image = self._image(unit, [thread.arguments[i] for i in moving], thread)
                group = groups.setdefault(thread.group, len(groups))
                threads[thread.number] = (unit.entry, group, image, self._mask(thread), thread.agent)
        functions = self._functions()
        self.linker.finish()
        linker = self.linker
        spec = {
            "code": np.array([(opcodes[op], a, b, c) for op, a, b, c in self.code], np.uint16).reshape(-1, 4),
            "functions": functions,
            "threads": [threads[thread.number] for thread in self.world.threads],
            "store": np.array(linker.store, np.int64),
            "fifos": [(width, np.array(words, np.int64)) for width, words in linker.fifos],
            "tables": linker.tables,
            "samples": len(self.world.sample) if self.world.sample is not None else 0,
            "counters": len(linker.counters),
            "costs": len(linker.costs),
            "groups": len(groups),
            "cpus": self.world.cpus,
            "scheduler": {**asdict(scheduler), "search": SEARCH, "half_life": HALF_LIFE, "fades": FADES},
        }
        return Compiled(spec, self.places, tuple(linker.costs), tuple(linker.counters), tuple(groups))

    def _mask(self, thread: Spawned) -> int:
        if thread.cpus is None:
            return -1
        mask = sum(1 << cpu for cpu in set(thread.cpus))
        return mask - (mask >> 63 << 64)  # CPU 63 is the word's sign

    def _alike(self) -> list[list[Spawned]]:
        """The threads by the code that they can share."""
        groups: dict[Any, list[Spawned]] = defaultdict(list)
        for thread in self.world.threads:
            if not isinstance(thread.program, FunctionType):
                raise ProgramError(f"thread {thread.name}: its program is a function made by def")
            groups[thread.program, *(_shape(a) for a in thread.arguments)].append(thread)
        return list(groups.values())

    def _threads(self, members: list[Spawned]) -> tuple[Unit, list[int]]:
        """Their code, and which of their arguments differ."""
        first = members[0]
        arguments: list[Static | Type] = []
        moving = []
        for i, value in enumerate(first.arguments):
            kind = kind_of(Static(value))
            if kind is not None and any(not _same(m.arguments[i], value) for m in members):
                moving.append(i)
                arguments.append(kind)
            else:
                arguments.append(Static(value))
                if isinstance(kind, RecordType):
                    self.linker.handle(value, kind)
        assert isinstance(first.program, FunctionType)
        return self._add(first.program, arguments, own=True), moving

    def _add(self, function: FunctionType, arguments: list[Static | Type], own: bool) -> Unit:
        unit = translate(
            function,
            arguments,
            world=self.world,
            linker=self.linker,
            own=own,
            start=len(self.code),
            register=self._number,
        )
        self.code += [instruction for instruction, _ in unit.code]
        self.places += [place for _, place in unit.code]
        return unit

    def _number(self, function: FunctionType, operands: list[Operand]) -> int:
        arguments = [o if isinstance(o, Static) else o.kind for o in operands]
        key = (function, *((_identity(a.value) if isinstance(a, Static) else a) for a in arguments))
        if key not in self.functions:
            self.functions[key] = len(self.functions)
            self.waiting.append((function, arguments))
        return self.functions[key]

    def _functions(self) -> list[tuple[int, int, Any]]:
        """What timers call: entry, number of arguments, frame. Translating one can ask for more."""
        found = []
        done = 0
        while done < len(self.waiting):
            function, arguments = self.waiting[done]
            unit = self._add(function, arguments, own=False)
            count = sum(not isinstance(a, Static) for a in arguments)
            image = [0 if isinstance(entry, Input) else entry for entry in unit.image]
            found.append((unit.entry, count, np.array(image, np.int64)))
            done += 1
        return found

    def _image(self, unit: Unit, values: list[Any], thread: Spawned) -> Any:
        words = [self._word(value) for value in values]
        image = [
            entry if isinstance(entry, int) else thread.number if entry.number < 0 else words[entry.number]
            for entry in unit.image
        ]
        return np.array(image, np.int64)

    def _word(self, value: Any) -> int:
        kind = kind_of(Static(value))
        assert kind is not None
        return self.linker.word(value, kind, "an argument of spawn")


def _shape(value: Any) -> Any:
    """What threads must have in common to share code: constants, or their types."""
    kind = kind_of(Static(value))
    if kind is None or value is None or isinstance(value, (bool, str)):
        return _identity(value)
    return kind


def _identity(value: Any) -> Any:
    return (type(value), value) if isinstance(value, (bool, int, float, str, type(None))) else id(value)


def _same(a: Any, b: Any) -> bool:
    return a == b if kind_of(Static(a)) in NUMBERS else a is b
