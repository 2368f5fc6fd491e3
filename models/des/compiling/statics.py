"""What is known of an expression while it is compiled: settings, module-level names, lengths of lists."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from types import FunctionType, ModuleType
from typing import Any

from models.des.compiling.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBERS,
    THREAD,
    ListType,
    RecordType,
    Type,
    of_record,
)
from models.des.compiling.world import BuildWorld, Spawned
from models.des.records import Distribution, Fifo, Record
from models.scenario import Scenario

OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Not: operator.not_,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
OF_WORLD = ("scenario", "connections", "cpus", "locks", "prices")
FOLDED: tuple[Any, ...] = (min, max, int, float, bool, len, abs)


class Own:
    """The thread that runs the program."""


class Static:
    """A value known while compiling. `kind` says what a queue or list holds."""

    __slots__ = ("kind", "value")

    def __init__(self, value: Any, kind: Type | None = None) -> None:
        self.value, self.kind = value, kind

    @property
    def plain(self) -> bool:
        """It stays what it is while the simulation runs."""
        return not isinstance(self.value, Fifo)


OWN = Static(Own())


class Folder:
    """Evaluates what can be known; gives None for all the rest.

    Parameters
    ----------
    name : callable
        The static value of a name, or None.
    """

    def __init__(self, name: Callable[[str], Static | None]) -> None:
        self.name = name

    def fold(self, node: ast.expr) -> Static | None:
        method = getattr(self, f"_{type(node).__name__}", None)
        found: Static | None = method(node) if method else None
        return found

    def _plain(self, *nodes: ast.expr) -> list[Any] | None:
        found = [self.fold(node) for node in nodes]
        return [f.value for f in found if f] if all(f is not None and f.plain for f in found) else None

    def _Constant(self, node: ast.Constant) -> Static:
        return Static(node.value)

    def _Name(self, node: ast.Name) -> Static | None:
        return self.name(node.id)

    def _Tuple(self, node: ast.Tuple) -> Static | None:
        values = self._plain(*node.elts)
        return None if values is None else Static(tuple(values))

    def _Attribute(self, node: ast.Attribute) -> Static | None:
        base = self.fold(node.value)
        if base is None:
            return None
        if isinstance(base.value, BuildWorld):
            return Static(getattr(base.value, node.attr)) if node.attr in OF_WORLD else None
        if _fixed(base.value) and hasattr(base.value, node.attr):
            return Static(getattr(base.value, node.attr))
        if isinstance(base.value, Record):
            value = getattr(type(base.value), node.attr, None)
            if value is not None and node.attr not in vars(type(base.value)).get("__annotations__", {}):
                return Static(value) if isinstance(value, (int, float, str)) else None
        return None

    def _Subscript(self, node: ast.Subscript) -> Static | None:
        found = self._plain(node.value, node.slice)
        if found and isinstance(found[0], (Scenario, tuple, dict)):
            return Static(found[0][found[1]])
        return None

    def _Call(self, node: ast.Call) -> Static | None:
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            return None
        values = self._plain(*node.args)
        if values is None or any(isinstance(v, (Record, Own, Spawned)) for v in values):
            return None
        if isinstance(node.func, ast.Name) and (called := self.name(node.func.id)) is not None:
            return Static(called.value(*values)) if called.value in FOLDED else None
        if isinstance(node.func, ast.Attribute) and (base := self.fold(node.func.value)) is not None:
            if isinstance(base.value, Scenario):
                return Static(getattr(base.value, node.func.attr)(*values))
            if isinstance(base.value, BuildWorld) and base.value.sample is not None:
                return Static(base.value.sample.rounds) if node.func.attr == "demand_rounds" else None
        return None

    def _BinOp(self, node: ast.BinOp) -> Static | None:
        values = self._plain(node.left, node.right)
        if values is None or not all(isinstance(v, (int, float, str)) for v in values):
            return None
        return Static(OPERATORS[type(node.op)](*values)) if type(node.op) in OPERATORS else None

    def _UnaryOp(self, node: ast.UnaryOp) -> Static | None:
        values = self._plain(node.operand)
        return Static(OPERATORS[type(node.op)](*values)) if values and type(node.op) in OPERATORS else None

    def _Compare(self, node: ast.Compare) -> Static | None:
        values = self._plain(node.left, *node.comparators)
        if values is None:
            return None
        pairs = zip(node.ops, values, values[1:], strict=False)
        return Static(all(OPERATORS[type(op)](a, b) for op, a, b in pairs))

    def _BoolOp(self, node: ast.BoolOp) -> Static | None:
        decisive = isinstance(node.op, ast.Or)
        last: Static | None = None
        for part in node.values:
            last = self.fold(part)
            if last is None or not last.plain:
                return None
            if bool(last.value) == decisive:
                return last
        return last

    def _IfExp(self, node: ast.IfExp) -> Static | None:
        test = self.fold(node.test)
        if test is None or not test.plain:
            return None
        return self.fold(node.body if test.value else node.orelse)


def _fixed(value: Any) -> bool:
    """Its attributes never change: a module, a frozen dataclass, a class, a distribution."""
    if isinstance(value, (ModuleType, type, FunctionType, Distribution)):
        return True
    return is_dataclass(value) and bool(vars(type(value))["__dataclass_params__"].frozen)


def kind_of(operand: Static) -> Type | None:
    """The type of a value known while compiling; None when it is none of the language's."""
    value = operand.value
    if operand.kind is not None:
        return operand.kind
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, (int, float)):
        return INT if isinstance(value, int) else FLOAT
    if value is None:
        return NONE
    if isinstance(value, (Own, Spawned)):
        return THREAD
    if isinstance(value, Record):
        return of_record(type(value))
    if isinstance(value, list):
        return _list_kind(value)
    return None


def _list_kind(values: Sequence[Any]) -> Type | None:
    kinds = {kind_of(Static(value)) for value in values}
    kind = kinds.pop() if len(kinds) == 1 else None
    scalar = kind in NUMBERS or kind == THREAD or isinstance(kind, RecordType)
    return ListType(f"list[{kind}]", kind) if kind is not None and scalar else None
