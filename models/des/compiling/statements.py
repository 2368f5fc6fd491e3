"""Statements: conditions, loops, returns, and what takes time."""

from __future__ import annotations

import ast
from collections.abc import Callable

from models.des.compiling.assignments import Assignments
from models.des.compiling.code import Label, Reg
from models.des.compiling.frames import Loop, Operand
from models.des.compiling.intrinsics import NOTHING
from models.des.compiling.statics import Static
from models.des.compiling.types import (
    INT,
    NONE,
    FifoType,
    ListType,
    join,
)

ALLOWED = "allowed are assignments, if, while, for, break, continue, return, pass, assert, yield, yield from, and calls"


class Statements(Assignments):
    """Translates statements. Each gives whether it never goes on to the next."""

    def block(self, body: list[ast.stmt]) -> bool:
        for node in body:
            method = getattr(self, f"_{type(node).__name__}", None)
            if method is None:
                self.refuse(node, f"{type(node).__name__.lower()} cannot be compiled: {ALLOWED}")
            self.at(node)
            with self.statement():
                if method(node):
                    return True
        return False

    def _Pass(self, node: ast.Pass) -> None:
        """Nothing."""

    def _Assert(self, node: ast.Assert) -> None:
        """It is for type checkers only."""

    def _Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def _Yield(self, node: ast.Yield, into: Reg | None) -> Operand:
        if not isinstance(node.value, ast.Call):
            self.refuse(node, "a program yields thread.run(s), sleep(), pause(s), spin() or follow(other)")
        self.step(node.value)
        return NOTHING

    def _YieldFrom(self, node: ast.YieldFrom, into: Reg | None) -> Operand:
        if not isinstance(node.value, ast.Call):
            self.refuse(node, "yield from calls another program")
        return self.call(node.value, into, steps=True)

    def _If(self, node: ast.If) -> bool:
        known = self.fold(node.test)
        if known is not None and known.plain:
            return self.block(node.body if known.value else node.orelse)
        otherwise, end = Label(), Label()
        with self.statement():
            self.branch(node.test, otherwise, False)
        self.scope.depth += 1
        first = self.block(node.body)
        if node.orelse and not first:
            self.emit("JMP", target=end)
        self.code.put(otherwise)
        second = self.block(node.orelse)
        self.scope.depth -= 1
        self.code.put(end)
        return first and second

    def _While(self, node: ast.While) -> bool:
        if node.orelse:
            self.refuse(node, "else after while cannot be compiled")
        known = self.fold(node.test)
        for_ever = known is not None and known.plain
        if known is not None and for_ever and not known.value:
            return False
        start = Label()
        loop = self._enter()
        if not for_ever:
            self.emit("JMP", target=loop.again)
        self.code.put(start)
        if for_ever:
            self.code.put(loop.again)
        ended = self.block(node.body)
        self.at(node)
        if for_ever:
            if not ended:
                self.emit("JMP", target=start)
        else:
            self.code.put(loop.again)
            with self.statement():
                self.branch(node.test, start, True)
        self._leave(loop)
        return for_ever and not loop.left

    def _enter(self) -> Loop:
        loop = Loop()
        self.scope.loops.append(loop)
        self.scope.depth += 1
        return loop

    def _leave(self, loop: Loop) -> None:
        self.code.put(loop.end)
        self.scope.loops.pop()
        self.scope.depth -= 1

    def _Break(self, node: ast.Break) -> bool:
        loop = self.scope.loops[-1]
        loop.left = True
        self.emit("JMP", target=loop.end)
        return True

    def _Continue(self, node: ast.Continue) -> bool:
        self.emit("JMP", target=self.scope.loops[-1].again)
        return True

    def _For(self, node: ast.For) -> bool:
        if node.orelse:
            self.refuse(node, "else after for cannot be compiled")
        items = node.iter
        if isinstance(items, ast.Call) and isinstance(items.func, ast.Name) and items.func.id == "range":
            self._for_range(node, items)
        elif (
            isinstance(items, ast.Call)
            and isinstance(items.func, ast.Attribute)
            and items.func.attr == "drain"
        ):
            self._for_drain(node, items.func)
        else:
            operand = self.value(items)
            kind = self.kind_of(operand, items)
            if not isinstance(kind, ListType):
                self.refuse(items, "for goes through range(…), fifo.drain() or a list of a Record")
            self._for_list(node, self._stable(operand, items), kind)
        return False

    def _stable(self, operand: Operand, node: ast.AST) -> Reg:
        """A register that keeps its value through a loop."""
        register = self.reg(operand, node)
        if register.constant or self.temporary(register):
            return register
        copy = self.fresh(register.kind)[0]
        self.emit("MOV", copy, register)
        return copy

    def _for_range(self, node: ast.For, call: ast.Call) -> None:
        arguments = self._take(call, 1, 3)
        step = self.fold(arguments[2]) if len(arguments) == 3 else Static(1)
        if step is None or not isinstance(step.value, int) or not step.value:
            self.refuse(call, "the step of range must be a constant")
        if not isinstance(node.target, ast.Name):
            self.refuse(node, "for … in range(…) counts with one name")
        low: Operand = Static(0) if len(arguments) == 1 else self.value(arguments[0])
        stop = self._stable(self.typed(arguments[min(1, len(arguments) - 1)], INT), call)
        counter = self.fresh(INT)[0]
        self.move(low, counter, call)
        loop, start, test = self._enter(), Label(), Label()
        self.emit("JMP", target=test)
        self.code.put(start)
        self._count(node, counter)
        self.block(node.body)
        self.at(node)
        self.code.put(loop.again)
        self.emit("IADD", counter, counter, self.code.constant(step.value, INT))
        self.code.put(test)
        self.emit("JILT", *((counter, stop) if step.value > 0 else (stop, counter)), target=start)
        self._leave(loop)

    def _count(self, node: ast.For, counter: Reg) -> None:
        """Gives the loop's name the count: the counter's own register if nobody sets the name or reads it later."""
        text, name = self.scope.source.text, node.target
        assert isinstance(name, ast.Name)
        inside = sum(
            isinstance(n, ast.Name) and n.id == name.id and isinstance(n.ctx, ast.Load)
            for statement in node.body
            for n in ast.walk(statement)
        )
        if text.stores[name.id] == 1 and text.loads[name.id] == inside:
            self.scope.names[name.id] = counter
        else:
            with self.statement():
                self.assign(name, counter)

    def _for_drain(self, node: ast.For, called: ast.Attribute) -> None:
        operand = self.value(called.value)
        kind = self.kind_of(operand, called)
        if not isinstance(kind, FifoType):
            self.refuse(
                node,
                f"a {kind} has no drain(): for goes through range(…), fifo.drain() or a list of a Record",
            )
        fifo = self._stable(operand, called)
        left = self.fresh(INT)[0]
        self.emit("FLEN", left, fifo)
        one = self.code.constant(1, INT)
        loop, start = self._enter(), Label()
        self.emit("JMP", target=loop.again)
        self.code.put(start)
        self.emit("ISUB", left, left, one)
        self._next(node, lambda into: self.item("FTAKE", fifo, kind, into))
        self.block(node.body)
        self.at(node)
        self.code.put(loop.again)
        self.emit("JT", left, target=start)
        self._leave(loop)

    def _for_list(self, node: ast.For, values: Reg, kind: ListType) -> None:
        place, length = self.fresh(INT, INT)
        self.emit("LOAD", length, values, 0)
        self.emit("MOV", place, self.code.constant(0, INT))
        loop, start = self._enter(), Label()
        self.emit("JMP", target=loop.again)
        self.code.put(start)

        def load(into: Reg | None) -> Reg:
            result = self.target(into, kind.item)
            self.emit("LOADX", result, values, place)
            self.emit("IADD", place, place, self.code.constant(1, INT))
            return result

        self._next(node, load)
        self.block(node.body)
        self.at(node)
        self.code.put(loop.again)
        self.emit("JILT", place, length, target=start)
        self._leave(loop)

    def _next(self, node: ast.For, take: Callable[[Reg | None], Operand]) -> None:
        bound = self.scope.names.get(node.target.id) if isinstance(node.target, ast.Name) else None
        with self.statement():
            self.assign(node.target, take(bound if isinstance(bound, Reg) else None))

    def _Return(self, node: ast.Return) -> bool:
        scope = self.scope
        if len(self.scopes) == 1:
            if node.value is not None:
                self.value(node.value)
            self.emit("JMP", target=scope.end)
            return True
        into = scope.result if isinstance(scope.result, Reg) else scope.into
        operand = NOTHING if node.value is None else self.value(node.value, into)
        if scope.depth == 0 and not scope.jumped:
            scope.result = self.hand_out(operand)
            return True
        self._deliver(operand, node)
        self.emit("JMP", target=scope.end)
        scope.jumped = True
        return True

    def _deliver(self, operand: Operand, node: ast.Return) -> None:
        """Puts one of several results where the caller finds it."""
        scope, operand = self.scope, self.parts(operand)
        parts = operand if isinstance(operand, tuple) else (operand,)
        kinds = [self.kind_of(part, node) for part in parts]
        keys = [(*scope.path, "return", i) for i in range(len(parts))]
        if scope.result is None:
            known = [self.widened.get(key, kind) for key, kind in zip(keys, kinds, strict=True)]
            if len(parts) == 1 and known == [NONE]:
                scope.result = NOTHING
            elif len(parts) == 1 and scope.into is not None and scope.into.kind == known[0]:
                scope.result = scope.into
            else:
                registers = self.code.block(known)
                self.temporaries[scope.outer] |= {r.number for r in registers}
                scope.result = registers if isinstance(operand, tuple) else registers[0]
        wanted = scope.result if isinstance(scope.result, tuple) else (scope.result,)
        if len(wanted) != len(parts):
            self.refuse(node, f"{scope.source.text.node.name} returns {len(wanted)} values elsewhere")
        for key, register, kind in zip(keys, wanted, kinds, strict=True):
            held = NONE if register is NOTHING else register.kind
            joined = join(held, kind)
            if joined is not None and joined != held:
                self.widen(key, joined)
        for part, register in zip(parts, wanted, strict=True):
            if register is not NOTHING:
                self.move(part, register, node)
