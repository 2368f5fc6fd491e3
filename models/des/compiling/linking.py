"""The records of a built model as the memory that a run starts with: handles, words, and numbered tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.des.compiling.code import word
from models.des.compiling.types import (
    FLOAT,
    NUMBERS,
    SCALARS,
    THREAD,
    FifoType,
    ListType,
    ProgramError,
    RecordType,
    Type,
    fields,
    join,
)
from models.des.compiling.world import Spawned
from models.des.records import COLUMNS, FIFO_LIMIT, Fifo
from models.des.sample import Sample

SECONDS = "seconds"  # the table of all tasks' processor times


class Linker:
    """Gives every object that programs can reach its place, and every name that they use its number.

    Attributes
    ----------
    store : list of int
        The memory, in 64-bit words; the first is nobody's, so that 0 is None.
    fifos : list of (width, words)
        Of each queue: words an item, and the first items.
    costs, counters : dict of str to int
    tables : list of array of float64
    """

    def __init__(self, sample: Sample | None) -> None:
        self.sample = sample
        self.store = [0]
        self.fifos: list[tuple[int, list[int]]] = []
        self.costs: dict[str, int] = {}
        self.counters: dict[str, int] = {}
        self.tables: list[NDArray[np.float64]] = []
        self._tables: dict[str, int] = {}
        self._handles: dict[int, tuple[Any, int, Type]] = {}
        self._unfilled: list[Callable[[], None]] = []

    def cost(self, name: str) -> int:
        return self.costs.setdefault(name, len(self.costs))

    def counter(self, name: str) -> int:
        return self.counters.setdefault(name, len(self.counters))

    def table(self, column: str) -> int:
        """The number of a column of the sampled demand."""
        if column not in self._tables:
            assert self.sample is not None
            values = self.sample.seconds if column == SECONDS else self.sample.columns[column]
            self._tables[column] = len(self.tables)
            self.tables.append(np.ascontiguousarray(values, dtype=float))
        return self._tables[column]

    def handle(self, value: Any, kind: Type, where: str = "an argument") -> int:
        """The handle of an object of that type."""
        if value is None:
            return 0
        if kind == THREAD and isinstance(value, Spawned):
            return value.number
        known = self._handles.get(id(value))
        if known is not None:
            if known[2] != kind:
                raise ProgramError(
                    f"{where} holds the same object as another field, but as {kind}, not {known[2]}"
                )
            return known[1]
        if isinstance(kind, RecordType) and type(value) is kind.cls:
            return self._record(value, kind)
        if isinstance(kind, FifoType) and isinstance(value, Fifo):
            return self._fifo(value, kind)
        if isinstance(kind, ListType) and isinstance(value, list):
            return self._list(value, kind)
        raise ProgramError(
            f"{where} holds a {type(value).__name__}, but its type is {kind}: it must be exactly that"
        )

    def finish(self) -> None:
        """Fills in all that has been given a place, and what can be reached from there."""
        while self._unfilled:
            self._unfilled.pop()()

    def _known(self, value: Any, handle: int, kind: Type, fill: Callable[[], None]) -> int:
        self._handles[id(value)] = (value, handle, kind)
        self._unfilled.append(fill)
        return handle

    def _reserve(self, words: int) -> int:
        self.store += [0] * words
        return len(self.store) - words

    def _record(self, record: Any, kind: RecordType) -> int:
        table = fields(kind.cls)
        start = self._reserve(max(1, len(table)))

        def fill() -> None:
            for name, (place, held) in table.items():
                where = f"{kind}.{name}"
                if not hasattr(record, name):
                    raise ProgramError(f"{where} has no value when the run begins: set it while building")
                self.store[start + place] = self.word(getattr(record, name), held, where)

        return self._known(record, start, kind, fill)

    def _list(self, values: list[Any], kind: ListType) -> int:
        start = self._reserve(1 + len(values))
        self.store[start] = len(values)

        def fill() -> None:
            for i, value in enumerate(values):
                self.store[start + 1 + i] = self.word(value, kind.item, str(kind))

        return self._known(values, start, kind, fill)

    def _fifo(self, fifo: Fifo[Any], kind: FifoType) -> int:
        if len(fifo) > FIFO_LIMIT:
            raise ProgramError(f"a {kind} holds {len(fifo)} items, {FIFO_LIMIT} are allowed")
        words: list[int] = []
        self.fifos.append((len(kind.items), words))

        def fill() -> None:
            for item in fifo:
                parts = item if len(kind.items) > 1 else (item,)
                words.extend(self.word(v, k, str(kind)) for v, k in zip(parts, kind.items, strict=True))

        return self._known(fifo, len(self.fifos), kind, fill)

    def word(self, value: Any, kind: Type, where: str) -> int:
        """A field's value as a word."""
        if kind not in NUMBERS:
            return self.handle(value, kind, where)
        found = SCALARS.get(type(value))
        if isinstance(value, np.generic):
            value = value.item()
            found = SCALARS.get(type(value))
        if found not in NUMBERS or join(found, kind) != kind:
            raise ProgramError(f"{where} holds {value!r}, but its type is {kind}")
        if kind != FLOAT and not -(2**63) <= value < 2**63:
            raise ProgramError(f"{where} holds {value}: a whole number needs more than 64 bits")
        return word(float(value) if kind == FLOAT else value, kind)


def column_type(name: str) -> Type:
    """The type of a column of the sampled demand; KeyError when there is none."""
    return FLOAT if name == SECONDS else SCALARS[COLUMNS[name]]
