"""One program, or one function that a timer calls, from its source to code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from models.des.compiling.code import Code, Input
from models.des.compiling.frames import Operand, Restart, Scope
from models.des.compiling.linking import Linker
from models.des.compiling.sources import Source
from models.des.compiling.statements import Statements
from models.des.compiling.statics import OWN, Static
from models.des.compiling.types import Type
from models.des.compiling.world import BuildWorld

# Gives the number of the function that timers call with such arguments.
Register = Callable[[FunctionType, list[Operand]], int]


@dataclass(frozen=True, slots=True)
class Unit:
    """Translated code, at its place among all the others'.

    Attributes
    ----------
    entry : int
        Address of its first instruction.
    image : tuple of int or Input
        First values of the frame.
    code : list of ((op, a, b, c), place in the source)
    """

    entry: int
    image: tuple[int | Input, ...]
    code: list[tuple[tuple[str, int, int, int], str]]


class _Translator(Statements):
    def __init__(self, linker: Linker, widened: dict[Any, Type], own: bool, register: Register) -> None:
        super().__init__(linker, widened)
        self.own, self._register = own, register

    def function(self, function: FunctionType, arguments: list[Operand]) -> int:
        return self._register(function, arguments)

    def run(self, function: FunctionType, world: BuildWorld, arguments: Sequence[Static | Type]) -> Code:
        source = Source.of(function)
        self.scopes.append(Scope(source, (), -1))
        operands: list[Operand] = [Static(world), OWN] if self.own else [Static(world)]
        moving = iter(range(len(arguments)))
        for argument in arguments:
            operands.append(
                argument if isinstance(argument, Static) else self.code.input(next(moving), argument)
            )
        node = source.text.node
        self.at(node)
        self.receive(self.bound(source, operands, {}, node))
        self.block(node.body)
        self.code.put(self.scope.end)
        self.emit("END" if self.own else "RET")
        return self.code


def translate(
    function: FunctionType,
    arguments: Sequence[Static | Type],
    *,
    world: BuildWorld,
    linker: Linker,
    own: bool,
    start: int,
    register: Register,
) -> Unit:
    """Translates a function with those arguments (after the world and, with `own`, the thread).

    Parameters
    ----------
    arguments : sequence of Static or Type
        What is known of each; those of which only the type is known come in the first registers.
    start : int
        Address of the code.
    """
    widened: dict[Any, Type] = {}
    while True:
        try:
            code = _Translator(linker, widened, own, register).run(function, world, arguments)
        except Restart:
            continue
        lines = code.finish(start)
        return Unit(start, tuple(code.image), lines)
