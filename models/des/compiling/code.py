"""Instructions and registers of one program while it is compiled."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from models.des.compiling.types import FLOAT, ProgramError, Type

REGISTERS = 512  # of a thread, at most
INVERSE = {"JT": "JF", "JF": "JT"}
LEAVES = ("JMP", "END", "RET")


@dataclass(frozen=True, slots=True)
class Reg:
    """A register: its place among those of the frame's image when negative (-1 - place), else among the others."""

    number: int
    kind: Type

    @property
    def constant(self) -> bool:
        return self.number < 0


@dataclass(eq=False, slots=True)
class Label:
    """A place in the code."""


@dataclass(frozen=True, slots=True)
class Input:
    """What differs between the threads of one program: an argument, by number, or the thread itself (-1)."""

    number: int


@dataclass(slots=True)
class Instruction:
    op: str
    operands: tuple[Reg | int, ...]
    target: Label | None
    place: str


def word(value: float | int, kind: Type) -> int:
    """The 64 bits of a number, as a signed integer."""
    if kind == FLOAT:
        return int(struct.unpack("<q", struct.pack("<d", value))[0])
    return int(value)


@dataclass(slots=True)
class Code:
    """One program's code.

    Attributes
    ----------
    image : list of int or Input
        First values of the first registers: constants, and what differs between threads.
    size : int
        Registers in use beyond those, at most.
    """

    items: list[Instruction | Label] = field(default_factory=list)
    image: list[int | Input] = field(default_factory=list)
    size: int = 0
    _free: set[int] = field(default_factory=set)

    def constant(self, value: float | int, kind: Type) -> Reg:
        return self._fixed(word(value, kind), kind)

    def input(self, number: int, kind: Type) -> Reg:
        return self._fixed(Input(number), kind)

    def _fixed(self, entry: int | Input, kind: Type) -> Reg:
        if entry not in self.image:
            self.image.append(entry)
        return Reg(-1 - self.image.index(entry), kind)

    def block(self, kinds: Sequence[Type]) -> tuple[Reg, ...]:
        """Registers side by side."""
        width = len(kinds)
        starts = (n for n in sorted(self._free) if all(n + i in self._free for i in range(width)))
        first = next(starts, self.size)
        self._free -= set(range(first, first + width))
        self.size = max(self.size, first + width)
        return tuple(Reg(first + i, kind) for i, kind in enumerate(kinds))

    def release(self, registers: Iterable[int]) -> None:
        self._free |= set(registers)

    def emit(self, place: str, op: str, *operands: Reg | int, target: Label | None = None) -> None:
        self.items.append(Instruction(op, operands, target, place))

    def put(self, label: Label) -> None:
        self.items.append(label)

    def finish(self, start: int) -> list[tuple[tuple[str, int, int, int], str]]:
        """The instructions, as they stand from address `start`, each with its place in the source."""
        if len(self.image) + self.size > REGISTERS:
            where = next((i.place for i in self.items if isinstance(i, Instruction)), "")
            raise ProgramError(
                f"{where}: the program needs {len(self.image) + self.size} registers, {REGISTERS} are allowed: "
                "split it between threads"
            )
        self._shorten()
        addresses: dict[Label, int] = {}
        address = start
        for item in self.items:
            if isinstance(item, Label):
                addresses[item] = address
            else:
                address += 1
        return [(self._encoded(i, addresses), i.place) for i in self.items if isinstance(i, Instruction)]

    def _encoded(self, item: Instruction, addresses: dict[Label, int]) -> tuple[str, int, int, int]:
        numbers = [self._number(o) if isinstance(o, Reg) else o for o in item.operands]
        if item.target is not None:
            address = addresses[item.target]
            if len(numbers) == 2:
                numbers.append(address)
            else:
                numbers = [*numbers, *[0] * (1 - len(numbers)), address & 0xFFFF, address >> 16]
        if any(not 0 <= n < 65536 for n in numbers):
            raise ProgramError(f"{item.place}: the programs are too long: 65,536 instructions are allowed")
        a, b, c = (*numbers, 0, 0, 0)[:3]
        return item.op, a, b, c

    def _number(self, register: Reg) -> int:
        return -1 - register.number if register.constant else len(self.image) + register.number

    def _shorten(self) -> None:
        """Leaves out what cannot be reached, and jumps to what follows anyway."""
        before = -1
        while len(self.items) != before:
            before = len(self.items)
            used = {i.target for i in self.items if isinstance(i, Instruction)}
            kept: list[Instruction | Label] = []
            reachable = True
            for item in self.items:
                if isinstance(item, Label):
                    if item in used:
                        _drop_jumps(kept, item)
                        kept.append(item)
                        reachable = True
                elif reachable:
                    kept.append(item)
                    reachable = item.op not in LEAVES
            self.items = kept


def _drop_jumps(items: list[Instruction | Label], target: Label) -> None:
    """Takes away a jump to `target` that stands right before it."""
    end = len(items)
    while end and isinstance(items[end - 1], Label):
        end -= 1
    last = items[end - 1] if end else None
    if isinstance(last, Instruction) and last.op == "JMP" and last.target is target:
        del items[end - 1]
