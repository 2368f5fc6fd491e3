"""Calls: functions and methods are translated in place, with registers of their own."""

from __future__ import annotations

import ast
import inspect
from types import FunctionType, MethodType, ModuleType
from typing import Any

from models.des.compiling.code import Reg
from models.des.compiling.frames import Operand, Scope
from models.des.compiling.intrinsics import NOTHING, Intrinsics
from models.des.compiling.sources import Source
from models.des.compiling.statics import Static
from models.des.compiling.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    THREAD,
    FifoType,
    RecordType,
    is_reference,
    of_annotation,
)
from models.des.compiling.world import BuildWorld
from models.des.records import Distribution


class Calls(Intrinsics):
    """Translates calls."""

    def block(self, body: list[ast.stmt]) -> bool:
        raise NotImplementedError

    def call(self, node: ast.Call, into: Reg | None, steps: bool = False) -> Operand:
        self.at(node)
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            self.refuse(node, "calls with * or ** cannot be compiled")
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value)
            found = self._method(base, node.func.attr, node, into, steps)
        else:
            called = self.value(node.func)
            if not isinstance(called, Static):
                self.refuse(node, "only functions and methods known by name can be called")
            found = self._named(called.value, [], node, into, steps)
        self.at(node)
        return found

    def _method(self, base: Operand, name: str, node: ast.Call, into: Reg | None, steps: bool) -> Operand:
        if isinstance(base, Static) and isinstance(base.value, BuildWorld):
            return self._world(name, node, into)
        if isinstance(base, Static) and isinstance(base.value, ModuleType):
            return self._named(getattr(base.value, name, None), [], node, into, steps)
        kind = self.kind_of(base, node)
        if kind == THREAD:
            return self._thread(base, name, node, into)
        if isinstance(kind, FifoType):
            return self._fifo(self.reg(base, node), kind, name, node, into)
        if isinstance(kind, RecordType) and kind.cls is Distribution and name == "draw":
            result = self.target(into, FLOAT)
            self.emit("DRAW", result, *self._shape(base, node))
            return result
        found = inspect.getattr_static(kind.cls, name, None) if isinstance(kind, RecordType) else None
        if not isinstance(found, FunctionType):
            self.refuse(node, f"a {kind} has no method {name} that programs can call")
        return self._named(found, [base], node, into, steps)

    def _named(
        self, called: Any, first: list[Operand], node: ast.Call, into: Reg | None, steps: bool
    ) -> Operand:
        if isinstance(called, (FunctionType, MethodType)):
            if isinstance(called, MethodType):
                first, called = [Static(called.__self__)], called.__func__
            arguments = first + [self.value(a) for a in node.args]
            keywords = {str(k.arg): self.value(k.value) for k in node.keywords}
            return self.inline(called, arguments, keywords, node, into, steps)
        if called in (min, max, int, float, bool, len, abs) and not node.keywords:
            return self._builtin(called.__name__, node, into)
        shown = ast.unparse(node.func)
        if isinstance(called, type):
            self.refuse(node, f"{shown} cannot be made here: all records are made while the model is built")
        self.refuse(
            node,
            f"{shown} cannot be called here: allowed are functions made by def, min, max, int, float, len, abs",
        )

    def apply(self, function: Any, arguments: list[Operand], node: ast.AST, into: Reg | None) -> Operand:
        return self.inline(function, arguments, {}, node, into, False)

    def inline(
        self,
        function: FunctionType,
        arguments: list[Operand],
        keywords: dict[str, Operand],
        node: ast.AST,
        into: Reg | None,
        steps: bool,
    ) -> Operand:
        """Translates a function's body here; gives its result."""
        source = Source.of(function)
        if any(s.source.function.__code__ is function.__code__ for s in self.scopes):
            self.refuse(node, f"{function.__name__} calls itself: programs have no recursion, write a loop")
        if source.text.yields != steps:
            rule = (
                "takes time: write yield from"
                if source.text.yields
                else "takes no time: call it without yield from"
            )
            self.refuse(node, f"{function.__name__} {rule}")
        scope = Scope(source, (*self.scope.path, node), len(self.temporaries) - 1, into)
        bound = self.bound(source, arguments, keywords, node)
        self.scopes.append(scope)
        self.receive(bound)
        ended = self.block(source.text.node.body)
        result = self._result(ended, node)
        self.code.put(scope.end)
        self.scopes.pop()
        self.code.release(scope.locals)
        return result

    def _result(self, ended: bool, node: ast.AST) -> Operand:
        scope = self.scope
        if scope.result is None:
            return NOTHING
        if not ended and scope.result is not NOTHING:
            if not isinstance(scope.result, Reg) or not is_reference(scope.result.kind):
                self.refuse(node, f"{scope.source.text.node.name} must return a value whichever way it ends")
            self.emit("MOV", scope.result, self.code.constant(0, NONE))
        return scope.result

    def bound(
        self, source: Source, arguments: list[Operand], keywords: dict[str, Operand], node: ast.AST
    ) -> dict[str, Operand]:
        """The parameters' operands, by name."""
        wanted = source.text.node.args
        function = source.function
        if wanted.vararg or wanted.kwarg:
            source.refuse(source.text.node, "functions with *args or **kwargs cannot be compiled")
        names = [a.arg for a in (*wanted.posonlyargs, *wanted.args)]
        defaults = function.__defaults__ or ()
        table: dict[str, Operand] = {
            name: Static(value)
            for name, value in zip(names[len(names) - len(defaults) :], defaults, strict=True)
        }
        table |= {name: Static(value) for name, value in (function.__kwdefaults__ or {}).items()}
        table |= dict(zip(names, arguments, strict=False)) | keywords
        every = names + [a.arg for a in wanted.kwonlyargs]
        if len(arguments) > len(names) or set(table) != set(every):
            self.refuse(node, f"{function.__name__} takes {', '.join(every)}")
        return {
            name: self.hinted(o.value, name, source) if isinstance(o, Static) and o.kind is None else o
            for name, o in table.items()
        }

    def receive(self, bound: dict[str, Operand]) -> None:
        """Binds the parameters; those that the function sets get registers of their own."""
        scope = self.scope
        for name, operand in bound.items():
            if not scope.source.text.stores[name]:
                scope.names[name] = operand
                continue
            node = scope.source.text.node
            kind = (
                self.widened.get((*scope.path, name)) or self._declared(name) or self.kind_of(operand, node)
            )
            register = self.code.block((kind,))[0]
            scope.locals.add(register.number)
            self.move(operand, register, node)
            scope.names[name] = register

    def _declared(self, name: str) -> Any:
        """A parameter's type, if it is annotated with one of the language's."""
        try:
            kind = of_annotation(self.scope.source.hint(name))
        except TypeError:
            return None
        return kind if kind in (FLOAT, INT, BOOL, THREAD) or isinstance(kind, RecordType) else None
