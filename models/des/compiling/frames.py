"""Operands, registers and scopes: what every part of the translator stands on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from models.des.compiling.code import Code, Label, Reg
from models.des.compiling.linking import Linker
from models.des.compiling.sources import Source
from models.des.compiling.statics import OWN, Folder, Static, kind_of
from models.des.compiling.types import (
    FLOAT,
    NUMBERS,
    Type,
    join,
    of_annotation,
)
from models.des.records import Fifo

Operand = Any  # Static | Reg | tuple[Operand, ...]


class Restart(Exception):
    """A type turned out wider than supposed: translate again, with what is known now."""


@dataclass(eq=False, slots=True)
class Scope:
    """A function while it is translated in place of its call.

    Attributes
    ----------
    path : tuple
        The calls that lead here: one function called twice has two sets of names.
    outer : int
        Which temporaries are the caller's statement's: results are handed out to them.
    into : Reg or None
        Where the caller would like the result.
    depth : int
        Conditions and loops around the statement in hand.
    """

    source: Source
    path: tuple[ast.AST, ...]
    outer: int
    into: Reg | None = None
    names: dict[str, Operand] = field(default_factory=dict)
    locals: set[int] = field(default_factory=set)
    end: Label = field(default_factory=Label)
    result: Operand = None
    jumped: bool = False
    depth: int = 0
    loops: list[Loop] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Loop:
    again: Label = field(default_factory=Label)
    end: Label = field(default_factory=Label)
    left: bool = False  # by a break


class Frames:
    """Registers and names of one program.

    Parameters
    ----------
    linker : Linker
    widened : dict
        Types found wider than their first value; kept from one attempt to the next.
    """

    def __init__(self, linker: Linker, widened: dict[Any, Type]) -> None:
        self.linker, self.widened = linker, widened
        self.code = Code()
        self.scopes: list[Scope] = []
        self.temporaries: list[set[int]] = []
        self.place = ""
        self.folder = Folder(self._static)

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    def refuse(self, node: ast.AST, message: str) -> NoReturn:
        self.scope.source.refuse(node, message)

    def at(self, node: ast.AST) -> None:
        """What is emitted from here on belongs to this line."""
        self.place = self.scope.source.place(getattr(node, "lineno", 0))

    def emit(self, op: str, *operands: Reg | int, target: Label | None = None) -> None:
        self.code.emit(self.place, op, *operands, target=target)

    @contextmanager
    def statement(self) -> Iterator[None]:
        """Registers of values in between live until its end."""
        self.temporaries.append(set())
        yield
        self.code.release(self.temporaries.pop())

    def fresh(self, *kinds: Type) -> tuple[Reg, ...]:
        """Temporaries side by side."""
        registers = self.code.block(kinds)
        self.temporaries[-1] |= {r.number for r in registers}
        return registers

    def target(self, into: Reg | None, kind: Type) -> Reg:
        """Where a result of that type goes."""
        return into if into is not None and into.kind == kind else self.fresh(kind)[0]

    def parts(self, operand: Operand) -> Operand:
        """An operand, or those of a tuple, constants among them."""
        if isinstance(operand, Static) and isinstance(operand.value, tuple):
            return tuple(Static(value) for value in operand.value)
        return operand

    def temporary(self, operand: Operand) -> bool:
        return isinstance(operand, Reg) and operand.number in self.temporaries[-1]

    def local(self, operand: Reg, kind: Type) -> Reg:
        """A register for a name, the operand's own if nothing else needs it."""
        if self.temporary(operand) and operand.kind == kind:
            self.temporaries[-1].remove(operand.number)
            register = operand
        else:
            register = self.code.block((kind,))[0]
        self.scope.locals.add(register.number)
        return register

    def hand_out(self, operand: Operand) -> Operand:
        """Lets the registers of a result outlive the function that made it."""
        scope = self.scope
        for register in operand if isinstance(operand, tuple) else (operand,):
            if isinstance(register, tuple):
                self.hand_out(register)
            elif isinstance(register, Reg):
                for owners in (scope.locals, *self.temporaries[scope.outer + 1 :]):
                    if register.number in owners:
                        owners.remove(register.number)
                        self.temporaries[scope.outer].add(register.number)
        return operand

    def look_up(self, name: str, node: ast.AST) -> Operand:
        scope = self.scope
        if name in scope.names:
            return scope.names[name]
        if name in scope.source.text.stores:
            self.refuse(node, f"{name} has no value yet: set it further up in the function")
        try:
            return Static(scope.source.outside(name))
        except (KeyError, ValueError):
            self.refuse(node, f"{name} is not defined")

    def _static(self, name: str) -> Static | None:
        found = self.scope.names.get(name)
        if found is None and name not in self.scope.source.text.stores:
            try:
                found = Static(self.scope.source.outside(name))
            except (KeyError, ValueError):
                return None
        return found if isinstance(found, Static) else None

    def kind_of(self, operand: Operand, node: ast.AST) -> Type:
        if isinstance(operand, Reg):
            return operand.kind
        if isinstance(operand, tuple):
            self.refuse(node, "a tuple is only returned, unpacked or put into a Fifo of tuples")
        kind = kind_of(operand)
        if kind is None:
            what = type(operand.value).__name__
            self.refuse(
                node,
                f"a {what} is no value of a program: allowed are numbers, None, Threads, Records, their Fifos and lists",
            )
        return kind

    def reg(self, operand: Operand, node: ast.AST) -> Reg:
        """The register that holds an operand; constants get one in the frame's image."""
        kind = self.kind_of(operand, node)
        if isinstance(operand, Reg):
            return operand
        value = operand.value
        if operand.value is OWN.value:
            return self.code.input(-1, kind)
        return self.code.constant(value if kind in NUMBERS else self.linker.handle(value, kind), kind)

    def convert(self, operand: Operand, kind: Type, node: ast.AST, into: Reg | None = None) -> Reg:
        """An operand as a value of that type; ints become floats, nothing else changes."""
        found = self.kind_of(operand, node)
        joined = join(found, kind)
        if joined != kind:
            self.refuse(node, f"a value of type {found} where {kind} is needed")
        if found == kind:
            return self.reg(operand, node)
        if kind != FLOAT:
            return Reg(self.reg(operand, node).number, kind)
        if isinstance(operand, Static):
            return self.code.constant(float(operand.value), FLOAT)
        result = self.target(into, FLOAT)
        self.emit("I2F", result, operand)
        return result

    def move(self, operand: Operand, register: Reg, node: ast.AST) -> None:
        source = self.convert(operand, register.kind, node, register)
        if source.number != register.number:
            self.emit("MOV", register, source)

    def widen(self, key: Any, kind: Type) -> NoReturn:
        self.widened[key] = kind
        raise Restart

    def hinted(self, value: Any, name: str, source: Source) -> Static:
        """An argument known while compiling; a bare queue or list gets its type from the parameter's annotation."""
        if isinstance(value, (Fifo, list)):
            try:
                return Static(value, of_annotation(source.hint(name)))
            except TypeError:
                return Static(value)
        return OWN if value is OWN.value else Static(value)
