"""Assignments: to names, fields of records, elements of lists, and several at once."""

from __future__ import annotations

import ast

from models.des.compiling.calls import Calls
from models.des.compiling.code import Reg
from models.des.compiling.frames import Operand
from models.des.compiling.statics import Static
from models.des.compiling.types import ListType, RecordType, Type, fields, join, of_annotation
from models.des.records import Distribution


class Assignments(Calls):
    """Translates assignments."""

    def _Assign(self, node: ast.Assign) -> None:
        only = node.targets[0] if len(node.targets) == 1 else None
        into = self.scope.names.get(only.id) if isinstance(only, ast.Name) else None
        operand = self.value(node.value, into if isinstance(into, Reg) else None)
        for target in node.targets:
            self.assign(target, operand)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name) or node.value is None:
            self.refuse(node, "only a name that gets its value here can be annotated")
        try:
            namespace = {n: self.scope.source.outside(n) for n in _names(node.annotation)}
            text = compile(ast.Expression(node.annotation), "annotation", "eval")
            self.widened.setdefault(
                (*self.scope.path, node.target.id), of_annotation(eval(text, {}, namespace))
            )
        except KeyError:
            pass  # imported for type checkers only: the value's own type stands
        except TypeError:
            self.refuse(node, f"{ast.unparse(node.annotation)} is no type of the language")
        self.assign(node.target, self.value(node.value))

    def assign(self, target: ast.expr, operand: Operand) -> None:
        """Gives a target an operand's value."""
        operand = self.parts(operand) if isinstance(target, ast.Tuple) else operand
        if isinstance(target, ast.Name):
            self._assign_name(target, operand)
        elif isinstance(target, ast.Attribute):
            base, place, kind = self._field(target)
            self.emit("STORE", base, place, self.convert(operand, kind, target))
        elif isinstance(target, ast.Subscript):
            base, kind = self._element(target)
            where = self.index(target)
            self.emit("STOREX", base, where, self.convert(operand, kind, target))
        elif (
            isinstance(target, ast.Tuple) and isinstance(operand, tuple) and len(target.elts) == len(operand)
        ):
            for part, value in zip(target.elts, [self._apart(o, target) for o in operand], strict=True):
                self.assign(part, value)
        else:
            self.refuse(
                target,
                f"{ast.unparse(target)[:60]} cannot take it: names, fields, list[i], or as many as values can",
            )

    def _apart(self, operand: Operand, node: ast.AST) -> Operand:
        """A copy of what might be a name's own register: a, b = b, a."""
        if not isinstance(operand, Reg) or operand.constant or self.temporary(operand):
            return operand
        copy = self.fresh(operand.kind)[0]
        self.move(operand, copy, node)
        return copy

    def _assign_name(self, target: ast.Name, operand: Operand) -> None:
        scope, name = self.scope, target.id
        bound = scope.names.get(name)
        once = scope.source.text.stores[name] == 1
        key = (*scope.path, name)
        if isinstance(operand, tuple):
            self._assign_tuple(target, operand)
        elif isinstance(bound, Reg):
            joined = join(bound.kind, self.kind_of(operand, target))
            if joined is not None and joined != bound.kind:
                self.widen(key, joined)
            self.move(operand, bound, target)
        elif isinstance(operand, Static) and (
            (once and key not in self.widened) or isinstance(operand.value, str)
        ):
            if bound is not None and bound.value != operand.value:
                self.refuse(target, f"{name} is text and changes: a program's texts are constants")
            scope.names[name] = operand
        else:
            kind = self.widened.get(key) or self.kind_of(operand, target)
            register = self.local(operand, kind)
            self.move(operand, register, target)
            scope.names[name] = register

    def _assign_tuple(self, target: ast.Name, operand: tuple[Operand, ...]) -> None:
        if self.scope.source.text.stores[target.id] != 1:
            self.refuse(
                target, f"{target.id} is a tuple and is set more than once: unpack it where it is made"
            )
        parts: list[Operand] = []
        for part in operand:
            if isinstance(part, Reg) and not part.constant:
                register = self.local(part, part.kind)
                self.move(part, register, target)
                part = register
            parts.append(part)
        self.scope.names[target.id] = tuple(parts)

    def _field(self, node: ast.Attribute) -> tuple[Reg, int, Type]:
        base = self.value(node.value)
        kind = self.kind_of(base, node)
        if not isinstance(kind, RecordType) or node.attr not in fields(kind.cls):
            self.refuse(node, f"{ast.unparse(node)} is no annotated field of a Record: only those can be set")
        if kind.cls is Distribution:
            self.refuse(node, "a Distribution stays as it was made")
        place, held = fields(kind.cls)[node.attr]
        return self.reg(base, node), place, held

    def _element(self, node: ast.Subscript) -> tuple[Reg, Type]:
        base = self.value(node.value)
        kind = self.kind_of(base, node)
        if not isinstance(kind, ListType):
            self.refuse(node, f"a {kind} has no items that can be set")
        return self.reg(base, node), kind.item

    def _AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Name):
            held = self.look_up(target.id, target)
            into = held if isinstance(held, Reg) else None
            self.assign(target, self.binary(node.op, held, self.value(node.value), node, into))
        elif isinstance(target, ast.Attribute):
            base, place, kind = self._field(target)
            old = self.fresh(kind)[0]
            self.emit("LOAD", old, base, place)
            new = self.binary(node.op, old, self.value(node.value), node, old)
            self.emit("STORE", base, place, self.convert(new, kind, node))
        else:
            base, kind = self._element(target)
            where = self.index(target)
            old = self.fresh(kind)[0]
            self.emit("LOADX", old, base, where)
            new = self.binary(node.op, old, self.value(node.value), node, old)
            self.emit("STOREX", base, where, self.convert(new, kind, node))


def _names(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
