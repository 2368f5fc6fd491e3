"""Programs for the simulation's virtual machine, written by hand: an assembler for tests."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from pyx.sim import OPCODES

SCHEDULER = {
    "base_slice": 1.4e-3, "tick": 4e-3, "hot": 5e-4, "balance": 0.064, "stays": 0.1, "search": 1.17**2, "half_life": 0.032,
    "fades": 0.75,
}  # fmt: skip


def word(value: float) -> int:
    """The word of a frame or the store that holds a number."""
    if isinstance(value, float):
        return int(struct.unpack("<q", struct.pack("<d", value))[0])
    return int(value)


class Assembly:
    """Code, one instruction a line: an opcode and its operands, which are registers by name, numbers, or @labels.

    A line that ends in a colon is a label. Every name is one register, the same in every thread; a function's arguments
    are in the registers 0 to 3, which have no names.
    """

    def __init__(self, source: str) -> None:
        self.registers: dict[str, int] = {}
        self.labels: dict[str, int] = {}
        lines = [line.split() for line in source.splitlines() if line.strip()]
        instructions: list[list[str]] = []
        for words in lines:
            if words[0].endswith(":"):
                self.labels[words[0][:-1]] = len(instructions)
            else:
                instructions.append(words)
        self.code = np.array([self._encode(*words) for words in instructions], np.uint16).reshape(-1, 4)

    def _encode(self, name: str, *operands: str) -> list[int]:
        values: list[int] = []
        for operand in operands:
            if operand.startswith("@"):
                target = self.labels[operand[1:]]
                if name == "JMP":
                    values.append(0)
                values += [target] if len(values) == 2 else [target & 0xFFFF, target >> 16]
            else:
                values.append(self.register(operand))
        return [OPCODES[name], *values, *[0] * (3 - len(values))]

    def register(self, operand: str) -> int:
        return (
            int(operand) if operand.isdigit() else self.registers.setdefault(operand, 4 + len(self.registers))
        )

    def image(self, **values: float) -> np.ndarray:
        """A frame's first values by the registers' names."""
        words = [0] * (4 + len(self.registers))
        for name, value in values.items():
            words[self.registers[name]] = word(value)
        return np.array(words, np.int64)

    def thread(
        self, label: str, *, group: int = 0, cpus: int = -1, agent: bool = False, **values: float
    ) -> tuple[int, int, np.ndarray, int, bool]:
        return self.labels[label], group, self.image(**values), cpus, agent

    def function(self, label: str, arguments: int, **values: float) -> tuple[int, int, np.ndarray]:
        return self.labels[label], arguments, self.image(**values)

    def spec(self, *threads: Any, **parts: Any) -> dict[str, Any]:
        scheduler = {**SCHEDULER, **parts.pop("scheduler", {})}
        given = {
            "functions": [], "store": [0], "fifos": [], "tables": [], "samples": 0, "counters": 4, "costs": 4,
            "groups": 2, "cpus": 1,
        }  # fmt: skip
        given["store"] = [word(value) for value in parts.pop("store", [0])]
        return {**given, "code": self.code, "threads": list(threads), "scheduler": scheduler, **parts}
