"""What the engine does itself: the methods of the world, of threads, fifos and distributions, and Python's few functions."""

from __future__ import annotations

import ast
from types import FunctionType

from models.des.compiling.code import Reg
from models.des.compiling.expressions import Expressions
from models.des.compiling.frames import Operand
from models.des.compiling.linking import column_type
from models.des.compiling.statics import OWN, Static
from models.des.compiling.types import BOOL, FLOAT, INT, NUMBERS, THREAD, FifoType, ListType, fields
from models.des.records import Distribution

NOTHING = Static(None)
STEPS = {"run": "RUN", "sleep": "SLEEP", "pause": "PAUSE", "spin": "SPIN", "follow": "FOLLOW"}
TAKES = {"popleft": "FTAKE", "pop": "FPOP"}
PUTS = {"append": "FPUT", "appendleft": "FPUTL"}


class Intrinsics(Expressions):
    """Translates calls of what the engine does itself."""

    own = True  # whether there is a thread that runs this program

    def function(self, function: FunctionType, arguments: list[Operand]) -> int:
        """The number of a function that timers call with such arguments."""
        raise NotImplementedError

    def _take(self, node: ast.Call, least: int, most: int | None = None) -> list[ast.expr]:
        """The arguments, checked in number."""
        if node.keywords or not least <= len(node.args) <= (least if most is None else most):
            self.refuse(node, f"{ast.unparse(node)[:60]}: the arguments' number is wrong, or they are named")
        return node.args

    def _literal(self, node: ast.expr) -> str:
        found = self.fold(node)
        if found is None or not isinstance(found.value, str):
            self.refuse(node, "the name must be written out")
        return found.value

    def _builtin(self, name: str, node: ast.Call, into: Reg | None) -> Operand:
        if name in ("min", "max"):
            left, right = (self.value(a) for a in self._take(node, 2))
            return self.extreme(name, left, right, node, into)
        (argument,) = self._take(node, 1)
        if name == "bool":
            return self._decided(argument)
        operand = self.value(argument)
        kind = self.kind_of(operand, node)
        if name == "len" and isinstance(kind, (FifoType, ListType)):
            return self.length(self.reg(operand, node), kind, into)
        if kind not in NUMBERS or name == "len":
            self.refuse(node, f"{name} of a {kind} cannot be compiled")
        if name == "float" or (name == "int" and kind != FLOAT):
            return self.convert(operand, FLOAT if name == "float" else INT, node, into)
        result = self.target(into, INT if name == "int" or kind != FLOAT else FLOAT)
        op = "F2I" if name == "int" else ("FABS" if kind == FLOAT else "IABS")
        self.emit(op, result, self.reg(operand, node))
        return result

    def _fifo(self, fifo: Reg, kind: FifoType, name: str, node: ast.Call, into: Reg | None) -> Operand:
        if name in TAKES:
            self._take(node, 0)
            return self.item(TAKES[name], fifo, kind, into)
        if name in PUTS:
            (argument,) = self._take(node, 1)
            self.emit(PUTS[name], fifo, self._packed(argument, kind))
            return NOTHING
        if name == "clear":
            self._take(node, 0)
            self.emit("FCLEAR", fifo)
            return NOTHING
        self.refuse(
            node,
            f"a Fifo has no {name} in programs: allowed are append, appendleft, popleft, pop, clear, drain, len, [0]",
        )

    def _packed(self, node: ast.expr, kind: FifoType) -> Reg:
        """An item in registers side by side; gives the first."""
        if len(kind.items) == 1:
            return self.typed(node, kind.items[0])
        registers = self.fresh(*kind.items)
        parts = node.elts if isinstance(node, ast.Tuple) else None
        operand = self.parts(self.value(node)) if parts is None else None
        if len(parts if parts is not None else operand if isinstance(operand, tuple) else ()) != len(
            registers
        ):
            self.refuse(node, f"an item of {kind} has {len(registers)} parts")
        for i, register in enumerate(registers):
            part = operand[i] if parts is None else self.value(parts[i], register)  # type: ignore[index]
            self.move(part, register, node)
        return registers[0]

    def _shape(self, base: Operand, node: ast.AST) -> tuple[Reg, Reg]:
        """Kind and mean of a distribution."""
        if isinstance(base, Static):
            return self.code.constant(base.value.kind, INT), self.code.constant(float(base.value.mean), FLOAT)
        kind, mean = self.fresh(INT, FLOAT)
        self.emit("LOAD", kind, base, fields(Distribution)["kind"][0])
        self.emit("LOAD", mean, base, fields(Distribution)["mean"][0])
        return kind, mean

    def step(self, node: ast.Call) -> None:
        """What a thread yields."""
        self.at(node)
        base = self.value(node.func.value) if isinstance(node.func, ast.Attribute) else None
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if not self.own:
            self.refuse(node, "a function that a timer calls must not yield")
        if base is not OWN or name not in STEPS:
            self.refuse(
                node,
                "a program yields only thread.run(s), sleep(), pause(s), spin() or follow(other) of its own thread",
            )
        kinds = {"run": [FLOAT], "pause": [FLOAT], "follow": [THREAD]}.get(name, [])
        arguments = self._take(node, len(kinds))
        operands = [self.typed(a, kind) for a, kind in zip(arguments, kinds, strict=True)]
        self.at(node)
        self.emit(STEPS[name], *operands)

    def _thread(self, base: Operand, name: str, node: ast.Call, into: Reg | None) -> Operand:
        if base is not OWN:
            self.refuse(
                node,
                f"thread.{name} is for the program's own thread; a timer's function uses world.wake(thread)",
            )
        if name == "wake":
            other, local = self._take(node, 2)
            woken, price = self.typed(other, THREAD), self.typed(local, FLOAT)
            result = self.target(into, FLOAT)
            self.emit("WAKE", result, woken, price)
            return result
        if name == "apart":
            (other,) = self._take(node, 1)
            result = self.target(into, BOOL)
            self.emit("APART", result, self.typed(other, THREAD))
            return result
        if name == "rested":
            self._take(node, 0)
            result = self.target(into, FLOAT)
            self.emit("RESTED", result)
            return result
        if name == "release":
            (other,) = self._take(node, 1)
            self.emit("RELEASE", self.typed(other, THREAD))
            return NOTHING
        if name in STEPS:
            self.refuse(node, f"thread.{name} takes time: write yield thread.{name}(…)")
        self.refuse(node, f"a thread has no {name}")

    def _world(self, name: str, node: ast.Call, into: Reg | None) -> Operand:
        if name.startswith("demand_"):
            return self._demand(name.removeprefix("demand_"), node, into)
        method = getattr(self, f"_world_{name}", None)
        if method is None:
            self.refuse(node, f"world.{name} cannot be called in programs")
        found: Operand = method(node, into)
        return found

    def _world_cost(self, node: ast.Call, into: Reg | None) -> Operand:
        (name,) = self._take(node, 1)
        return self.cost(self._literal(name), into)

    def _world_cooled(self, node: ast.Call, into: Reg | None) -> Operand:
        idle = self.typed(self._take(node, 1)[0], FLOAT)
        result = self.target(into, FLOAT)
        self.emit("COOLED", result, idle)
        return result

    def _world_uniform(self, node: ast.Call, into: Reg | None) -> Operand:
        self._take(node, 0)
        result = self.target(into, FLOAT)
        self.emit("UNIFORM", result)
        return result

    def _world_below(self, node: ast.Call, into: Reg | None) -> Operand:
        limit = self.typed(self._take(node, 1)[0], INT)
        result = self.target(into, INT)
        self.emit("BELOW", result, limit)
        return result

    def _world_sample(self, node: ast.Call, into: Reg | None) -> Operand:
        self._take(node, 0)
        self._sampled(node)
        result = self.target(into, INT)
        self.emit("SAMPLE", result)
        return result

    def _sampled(self, node: ast.AST) -> None:
        if self.linker.sample is None:
            self.refuse(node, "the model draws requests, but there is no sample of a service's demand")

    def _demand(self, column: str, node: ast.Call, into: Reg | None) -> Operand:
        self._sampled(node)
        try:
            kind = column_type(column)
        except KeyError:
            self.refuse(node, f"the sampled demand has no {column}")
        row = self.typed(self._take(node, 1)[0], INT)
        result = self.target(into, kind)
        found = result if kind == FLOAT else self.fresh(FLOAT)[0]
        self.emit("TABLE", found, self.linker.table(column), row)
        if kind != FLOAT:
            self.emit("F2I", result, found)
        return result

    def _world_count(self, node: ast.Call, into: Reg | None) -> Operand:
        name, *amount = self._take(node, 1, 2)
        register = self.typed(amount[0], FLOAT) if amount else self.code.constant(1.0, FLOAT)
        self.emit("COUNT", self.linker.counter(self._literal(name)), register)
        return NOTHING

    def _world_entered(self, node: ast.Call, into: Reg | None) -> Operand:
        self._take(node, 0)
        self.emit("ENTER")
        return NOTHING

    def _world_completed(self, node: ast.Call, into: Reg | None) -> Operand:
        operation, response, *service = self._take(node, 2, 3)
        number, time = self.typed(operation, INT), self.typed(response, FLOAT)
        self.emit("DONE", number, time, self.typed(service[0], FLOAT) if service else time)
        return NOTHING

    def _world_wake(self, node: ast.Call, into: Reg | None) -> Operand:
        self.emit("WAKEN", self.typed(self._take(node, 1)[0], THREAD))
        return NOTHING

    def _world_at(self, node: ast.Call, into: Reg | None) -> Operand:
        if len(node.args) < 2 or node.keywords:
            self.refuse(node, "world.at takes seconds, a function, and its arguments")
        delay = self.typed(node.args[0], FLOAT)
        called = self.fold(node.args[1])
        if called is None or not isinstance(called.value, FunctionType):
            self.refuse(node, "world.at calls a function made by def")
        operands = [self.value(a) for a in node.args[2:]]
        operands = [self.reg(o, node) if o is OWN else o for o in operands]
        number = self.function(called.value, operands)
        moving = [o for o in operands if isinstance(o, Reg)]
        first: Reg | int = 0
        if len(moving) == 1:
            first = moving[0]
        elif moving:
            registers = self.fresh(*(o.kind for o in moving))
            first = registers[0]
            for operand, register in zip(moving, registers, strict=True):
                self.move(operand, register, node)
        self.at(node)
        self.emit("AT", delay, number, first)
        return NOTHING
