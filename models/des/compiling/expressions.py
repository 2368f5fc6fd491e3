"""Expressions: values into registers, conditions into jumps."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from models.des.compiling.code import Label, Reg
from models.des.compiling.frames import Frames, Operand
from models.des.compiling.statics import Static
from models.des.compiling.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBERS,
    THREAD,
    FifoType,
    ListType,
    RecordType,
    Type,
    fields,
    is_reference,
    join,
)
from models.des.compiling.world import PRICES, BuildWorld

ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "ADD", ast.Sub: "SUB", ast.Mult: "MUL", ast.Div: "DIV", ast.FloorDiv: "DIV", ast.Mod: "MOD",
}  # fmt: skip
# The instruction, whether its operands change places, whether it asks for the contrary.
COMPARISONS: dict[type[ast.cmpop], tuple[str, bool, bool]] = {
    ast.Lt: ("LT", False, False), ast.LtE: ("LE", False, False), ast.Gt: ("LT", True, False),
    ast.GtE: ("LE", True, False), ast.Eq: ("EQ", False, False), ast.NotEq: ("EQ", False, True),
    ast.Is: ("EQ", False, False), ast.IsNot: ("EQ", False, True),
}  # fmt: skip
STATES = {"spinning": "SPINNING", "running": "RUNNING", "sleeping": "SLEEPING"}


class Expressions(Frames):
    """Translates expressions."""

    def value(self, node: ast.expr, into: Reg | None = None) -> Operand:
        """Evaluates an expression, if possible into that register; gives where the value is."""
        found = self.fold(node)
        if found is not None:
            return found
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            self.refuse(
                node,
                f"{ast.unparse(node)[:60]} cannot be compiled: allowed are names, numbers, + - * / // %, comparisons, "
                "and/or/not, if else, min, max, int, float, len, abs, attributes, list[i], and calls",
            )
        return method(node, into)

    def fold(self, node: ast.expr) -> Static | None:
        try:
            return self.folder.fold(node)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            self.refuse(node, f"{ast.unparse(node)[:60]}: {error}")

    def typed(self, node: ast.expr, kind: Type, into: Reg | None = None) -> Reg:
        return self.convert(self.value(node, into), kind, node, into)

    def call(self, node: ast.Call, into: Reg | None, steps: bool = False) -> Operand:
        raise NotImplementedError

    def apply(self, function: Any, arguments: list[Operand], node: ast.AST, into: Reg | None) -> Operand:
        raise NotImplementedError

    def _Name(self, node: ast.Name, into: Reg | None) -> Operand:
        return self.look_up(node.id, node)

    def _Call(self, node: ast.Call, into: Reg | None) -> Operand:
        return self.call(node, into)

    def _Tuple(self, node: ast.Tuple, into: Reg | None) -> Operand:
        return tuple(self.value(part) for part in node.elts)

    def _BinOp(self, node: ast.BinOp, into: Reg | None) -> Operand:
        return self.binary(node.op, self.value(node.left), self.value(node.right), node, into)

    def binary(
        self, operator: ast.operator, left: Operand, right: Operand, node: ast.AST, into: Reg | None
    ) -> Reg:
        kinds = self.kind_of(left, node), self.kind_of(right, node)
        if type(operator) not in ARITHMETIC or not all(kind in NUMBERS for kind in kinds):
            self.refuse(node, f"{ast.unparse(node)[:60]}: only + - * / // % of numbers can be compiled")
        whole = FLOAT not in kinds and not isinstance(operator, ast.Div)
        kind = INT if whole else FLOAT
        a, b = self.convert(left, kind, node), self.convert(right, kind, node)
        if not whole and isinstance(operator, ast.FloorDiv):
            return self._floored(a, b, into)
        result = self.target(into, kind)
        self.emit(("I" if whole else "F") + ARITHMETIC[type(operator)], result, a, b)
        return result

    def _floored(self, a: Reg, b: Reg, into: Reg | None) -> Reg:
        """a // b of floats: (a - a % b) / b, which is whole but for its rounding."""
        rest = self.fresh(FLOAT)[0]
        self.emit("FMOD", rest, a, b)
        self.emit("FSUB", rest, a, rest)
        self.emit("FDIV", rest, rest, b)
        self.emit("FADD", rest, rest, self.code.constant(0.5, FLOAT))
        result = self.target(into, FLOAT)
        self.emit("FFLOOR", result, rest)
        return result

    def extreme(self, name: str, left: Operand, right: Operand, node: ast.AST, into: Reg | None) -> Reg:
        """min or max of two."""
        kind = join(self.kind_of(left, node), self.kind_of(right, node))
        if kind not in (INT, FLOAT):
            self.refuse(node, f"{name} takes two numbers")
        a, b = self.convert(left, kind, node), self.convert(right, kind, node)
        result = self.target(into, kind)
        self.emit(("I" if kind == INT else "F") + name.upper(), result, a, b)
        return result

    def _UnaryOp(self, node: ast.UnaryOp, into: Reg | None) -> Operand:
        if isinstance(node.op, ast.Not):
            return self._decided(node)
        operand = self.value(node.operand)
        kind = self.kind_of(operand, node)
        if isinstance(node.op, ast.Invert) or kind not in NUMBERS:
            self.refuse(node, f"{ast.unparse(node)[:60]}: only - and + of a number, and not, can be compiled")
        kind = INT if kind == BOOL else kind
        source = self.convert(operand, kind, node)
        if isinstance(node.op, ast.UAdd):
            return source
        result = self.target(into, kind)
        self.emit("INEG" if kind == INT else "FNEG", result, source)
        return result

    def _Compare(self, node: ast.Compare, into: Reg | None) -> Operand:
        if len(node.ops) > 1 or type(node.ops[0]) not in COMPARISONS:
            return self._decided(node)
        name, exchanged, contrary = COMPARISONS[type(node.ops[0])]
        a, b, prefix = self._comparable(self.value(node.left), self.value(node.comparators[0]), name, node)
        result = self.target(into, BOOL)
        self.emit(prefix + name, result, *((b, a) if exchanged else (a, b)))
        if contrary:
            self.emit("NOT", result, result)
        return result

    def _BoolOp(self, node: ast.BoolOp, into: Reg | None) -> Operand:
        """Its parts must be bool: and/or of other values give one of them in Python."""
        result = self.fresh(BOOL)[0]
        end = Label()
        for i, part in enumerate(node.values):
            operand = self.value(part, result)
            if self.kind_of(operand, part) != BOOL:
                self.refuse(part, "and/or give a value only of comparisons and bools: write x if … else y")
            self.move(operand, result, part)
            if i < len(node.values) - 1:
                self.emit("JF" if isinstance(node.op, ast.And) else "JT", result, target=end)
        self.code.put(end)
        return result

    def _decided(self, node: ast.expr) -> Reg:
        """The value of a condition."""
        result = self.fresh(BOOL)[0]
        end = Label()
        self.emit("MOV", result, self.code.constant(1, BOOL))
        self.branch(node, end, True)
        self.emit("MOV", result, self.code.constant(0, BOOL))
        self.code.put(end)
        return result

    def _IfExp(self, node: ast.IfExp, into: Reg | None) -> Operand:
        test = self.fold(node.test)
        if test is not None and test.plain:
            return self.value(node.body if test.value else node.orelse, into)
        otherwise, end = Label(), Label()
        key = (*self.scope.path, node)
        self.branch(node.test, otherwise, False)
        first = self.value(node.body, into)
        kind = self.widened.get(key) or self.kind_of(first, node.body)
        reused = self.temporary(first) and first.kind == kind and (into is None or into.kind != kind)
        result = first if reused else self.target(into, kind)
        self.move(first, result, node.body)
        self.emit("JMP", target=end)
        self.code.put(otherwise)
        second = self.value(node.orelse, result)
        joined = join(kind, self.kind_of(second, node.orelse))
        if joined is not None and joined != kind:
            self.widen(key, joined)
        self.move(second, result, node.orelse)
        self.code.put(end)
        return result

    def _Attribute(self, node: ast.Attribute, into: Reg | None) -> Operand:
        base = self.value(node.value)
        if isinstance(base, Static) and (found := self._of_world(base.value, node, into)) is not None:
            return found
        kind = self.kind_of(base, node)
        if kind == THREAD and node.attr in STATES:
            result = self.target(into, BOOL)
            self.emit(STATES[node.attr], result, self.reg(base, node))
            return result
        if not isinstance(kind, RecordType):
            self.refuse(node, f"a {kind} has no {node.attr} that a program could read")
        if node.attr in fields(kind.cls):
            place, held = fields(kind.cls)[node.attr]
            result = self.target(into, held)
            self.emit("LOAD", result, self.reg(base, node), place)
            return result
        found = inspect.getattr_static(kind.cls, node.attr, None)
        if isinstance(found, property):
            return self.apply(found.fget, [base], node, into)
        if isinstance(found, (int, float, str)):
            return Static(found)
        self.refuse(node, f"{kind} has no field {node.attr}: annotate it in the class")

    def _of_world(self, base: Any, node: ast.Attribute, into: Reg | None) -> Operand:
        """world.now and world.prices.NAME."""
        if base is PRICES:
            return self.cost(f"machine.{node.attr}", into)
        if isinstance(base, BuildWorld) and node.attr == "now":
            result = self.target(into, FLOAT)
            self.emit("NOW", result)
            return result
        if isinstance(base, BuildWorld):
            self.refuse(node, f"world.{node.attr} is not known in programs")
        return None

    def cost(self, name: str, into: Reg | None) -> Reg:
        result = self.target(into, FLOAT)
        self.emit("COST", result, self.linker.cost(name))
        return result

    def _Subscript(self, node: ast.Subscript, into: Reg | None) -> Operand:
        base = self.value(node.value)
        kind = self.kind_of(base, node)
        if isinstance(kind, FifoType):
            index = self.fold(node.slice)
            if index is None or index.value != 0:
                self.refuse(node, "of a Fifo only [0] can be read, its next item")
            return self.item("FPEEK", self.reg(base, node), kind, into)
        if not isinstance(kind, ListType):
            self.refuse(node, f"a {kind} has no items: [i] is for lists, [0] also for a Fifo")
        where = self.index(node)
        result = self.target(into, kind.item)
        self.emit("LOADX", result, self.reg(base, node), where)
        return result

    def index(self, node: ast.Subscript) -> Reg:
        found = self.fold(node.slice)
        if found is not None and isinstance(found.value, int) and found.value < 0:
            self.refuse(node, "lists are not indexed from their end in programs: write list[len(list) - 1]")
        return self.typed(node.slice, INT)

    def item(self, op: str, fifo: Reg, kind: FifoType, into: Reg | None) -> Operand:
        """Takes or reads an item of a fifo."""
        if len(kind.items) == 1:
            result = self.target(into, kind.items[0])
            self.emit(op, fifo, result)
            return result
        registers = self.fresh(*kind.items)
        self.emit(op, fifo, registers[0])
        return registers

    def branch(self, node: ast.expr, label: Label, sense: bool) -> None:
        """Jumps if the condition is `sense`, else goes on."""
        known = self.fold(node)
        if known is not None and known.plain:
            if bool(known.value) == sense:
                self.emit("JMP", target=label)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.branch(node.operand, label, not sense)
        elif isinstance(node, ast.BoolOp):
            self._branch_parts(node, label, sense)
        elif isinstance(node, ast.Compare):
            self._branch_compare(node, label, sense)
        else:
            self._branch_truth(self.value(node), node, label, sense)

    def _branch_parts(self, node: ast.BoolOp, label: Label, sense: bool) -> None:
        decisive = isinstance(node.op, ast.Or)  # the value of a part that decides the whole
        past = Label()
        for i, part in enumerate(node.values):
            known = self.fold(part)
            last = i == len(node.values) - 1 or (
                known is not None and known.plain and bool(known.value) == decisive
            )
            if last:
                self.branch(part, label, sense)
                break
            self.branch(part, label if sense == decisive else past, decisive)
        self.code.put(past)

    def _branch_compare(self, node: ast.Compare, label: Label, sense: bool) -> None:
        past = Label()
        left = self.value(node.left)
        for i, (operator, part) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self.value(part)
            last = i == len(node.ops) - 1
            if last:
                self._jump(operator, left, right, node, label, sense)
            else:
                self._jump(operator, left, right, node, past if sense else label, False)
            left = right
        self.code.put(past)

    def _jump(
        self, operator: ast.cmpop, left: Operand, right: Operand, node: ast.AST, label: Label, sense: bool
    ) -> None:
        if type(operator) not in COMPARISONS:
            self.refuse(node, "in and not in are for constants only")
        name, exchanged, contrary = COMPARISONS[type(operator)]
        a, b, prefix = self._comparable(left, right, name, node)
        if name == "EQ" and NONE in (a.kind, b.kind):
            return self.emit("JT" if sense == contrary else "JF", a if b.kind == NONE else b, target=label)
        if exchanged:
            a, b = b, a
        self.emit(("J" if sense != contrary else "JN") + prefix + name, a, b, target=label)
        return None

    def _comparable(self, left: Operand, right: Operand, name: str, node: ast.AST) -> tuple[Reg, Reg, str]:
        kinds = self.kind_of(left, node), self.kind_of(right, node)
        joined = join(*kinds)
        if joined is None or (is_reference(joined) and name != "EQ"):
            self.refuse(node, f"a {kinds[0]} and a {kinds[1]} cannot be compared so")
        if joined == FLOAT:
            return self.convert(left, FLOAT, node), self.convert(right, FLOAT, node), "F"
        return self.reg(left, node), self.reg(right, node), "I"

    def _branch_truth(self, operand: Operand, node: ast.expr, label: Label, sense: bool) -> None:
        kind, register = self.kind_of(operand, node), self.reg(operand, node)
        if kind == FLOAT:
            zero = self.code.constant(0.0, FLOAT)
            return self.emit("JNFEQ" if sense else "JFEQ", register, zero, target=label)
        if isinstance(kind, (FifoType, ListType)):
            register = self.length(register, kind, None)
        return self.emit("JT" if sense else "JF", register, target=label)

    def length(self, register: Reg, kind: Type, into: Reg | None) -> Reg:
        result = self.target(into, INT)
        if isinstance(kind, FifoType):
            self.emit("FLEN", result, register)
        else:
            self.emit("LOAD", result, register, 0)
        return result
