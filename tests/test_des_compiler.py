"""The compiled engine: constructs do what Python does, and what cannot be compiled is refused."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from modelled import COSTS

from models.costs import MissingCost
from models.des.compiled_engine import ProgramFault
from models.des.compiling.types import ProgramError
from models.des.engine import simulate
from models.des.records import KINDS, Distribution, Fifo, Record, Steps, Thread, World

STEP = 3
PAIR = (4, 0.5)
SCALE = 0.5


@dataclass(eq=False)
class Cell(Record):
    """What the constructs work on."""

    a: int
    b: int
    x: float
    y: float
    flag: bool = False
    next: Cell | None = None
    numbers: list[float] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    queue: Fifo[Cell] = field(default_factory=Fifo)
    pairs: Fifo[tuple[Cell, float, int]] = field(default_factory=Fifo)

    def sum(self, times: int = 1) -> float:
        return (self.a + self.b) * times + self.x

    @property
    def larger(self) -> float:
        return max(self.x, self.y)


def arithmetic(world: World, c: Cell) -> None:
    world.count("whole", c.a + c.b * 2 - c.a * c.b)
    world.count("share", c.a / 7 + c.x / 3.0 - SCALE)
    world.count("signs", -c.a + abs(c.b) - +c.x + abs(-c.y))
    world.count("mixed", c.a * c.x + c.b - c.y)
    world.count("constant", STEP * 2 + 2**3 - 7 // 2)


def floors(world: World, c: Cell) -> None:
    for divisor in range(-5, 6):
        if divisor != 0:
            world.count("quotient", c.a // divisor * (divisor + 11))
            world.count("rest", c.a % divisor * (divisor + 11))
            world.count("floats", c.x // (divisor * 0.3) + c.y % divisor)
            world.count("tenths", (c.a / 10) // 0.1 + (c.a / 10) % 0.1)


def conversions(world: World, c: Cell) -> None:
    world.count("cut", int(c.x) + int(-c.y) + float(c.a))
    world.count("extremes", min(c.a, c.b) + max(c.x, c.y) - min(c.a, c.x) + max(3, c.b))
    world.count("truth", int(bool(c.a)) + int(c.a < c.b) * 2)


def comparisons(world: World, c: Cell) -> None:
    if c.a < c.b or c.x >= c.y:
        world.count("first")
    if c.a <= c.b and not c.x > c.y:
        world.count("second")
    if c.a == c.b or (c.a != 3 and c.x < 1e3):
        world.count("third")
    if -5 < c.a <= c.b < 20:
        world.count("chained")
    if not (-5 < c.a < c.b):
        world.count("unchained")
    same = c.a == c.b
    other = c.x < c.y and c.flag
    either = same or other or not c.flag
    world.count("values", int(same) + 2 * int(other) + 4 * int(either) + 8 * int(-5 < c.a < 5))


def truth(world: World, c: Cell) -> None:
    if c.a:
        world.count("whole")
    if not c.x:
        world.count("zero")
    if c.next:
        world.count("object")
    if c.next is not None and c.next.a > 0:
        world.count("reached")
    if c is c.next or c.next is None:
        world.count("alone")
    c.flag = not c.flag
    world.count("flag", 1.0 if c.flag else 2)


def choices(world: World, c: Cell) -> None:
    world.count("widened", 1 if c.a > 0 else 0.5)
    value = c.x if c.a > c.b else c.y if c.a else -1
    world.count("nested", value)
    if c.a > 5:
        world.count("branch", 1)
    elif c.a > 0:
        world.count("branch", 2)
    elif c.a == 0:
        world.count("branch", 3)
    else:
        world.count("branch", 4)
    found = None
    if c.a > 0:
        found = c.next
    world.count("found", 0.0 if found is None else found.x)


def loops(world: World, c: Cell) -> None:
    total = 0
    for i in range(10):
        if i == c.a:
            continue
        if i > c.b:
            break
        total += i
    world.count("total", total)
    for k in range(c.a, c.b, 2):
        total = total * 3 % 1009 + k
    for k in range(c.b, c.a, -3):
        total = total * 5 % 1009 + k
    for i in range(4):
        i += c.a
        total += i
    world.count("last", i)
    n = 0
    while n < 20 and total > n:
        n += 1
        if n % 7 == 6:
            break
    while True:
        n += 2
        if n > 30:
            break
    world.count("steps", n + total)


def names(world: World, c: Cell) -> None:
    a, b = c.a, c.b
    a, b = b, a
    world.count("swapped", a - 2 * b)
    a, b, n = 1, PAIR[0], 2.5
    a, b, n = b, n, a
    world.count("turned", a + 10 * b + 100 * n)
    b, n = PAIR
    world.count("pair", b - n)
    first = second = c.x
    first += 1
    first *= 2
    world.count("chained", first - second)
    total = 0
    total += c.x
    world.count("widened", total)
    exact: float = 1
    exact = exact / 4
    world.count("annotated", exact)


def fields(world: World, c: Cell) -> None:
    c.a += 2
    c.x *= 2
    c.y = c.a
    c.b = -c.b
    world.count("fields", c.a + 3 * c.b + c.x - c.y)
    c.next = c
    c.next.next.a = 7
    world.count("cycle", c.a)
    world.count("property", c.larger)


def lists(world: World, c: Cell) -> None:
    for i in range(len(c.numbers)):
        c.numbers[i] += i * 0.25
        c.numbers[i] = c.numbers[i] * 2
    total = 0.0
    for number in c.numbers:
        total = total * 0.5 + number
    for cell in c.cells:
        cell.a += 1
        total += cell.a
    world.count("total", total)
    world.count("one", c.cells[abs(c.a) % len(c.cells)].x if c.cells else -1.0)


def queues(world: World, c: Cell) -> None:
    for cell in c.cells:
        c.queue.append(cell)
        if cell.a > 0:
            c.queue.appendleft(cell)
    world.count("length", len(c.queue))
    place = 1
    for cell in c.queue.drain():
        if cell.flag:
            c.queue.append(cell)
            cell.flag = False
        world.count("order", place * cell.x)
        place += 1
    if c.queue:
        world.count("left", c.queue[0].x + len(c.queue))
        world.count("right", c.queue.pop().x)
    c.queue.clear()
    world.count("empty", 1 if not c.queue else 2)


def tuples(world: World, c: Cell) -> None:
    c.pairs.append((c, c.x, c.a))
    c.pairs.append((c, 2, c.b))
    kept = (c, c.y, 5)
    c.pairs.appendleft(kept)
    cell, seconds, number = c.pairs[0]
    world.count("peeked", cell.b + seconds + number)
    for cell, seconds, number in c.pairs.drain():
        world.count("sum", cell.a * seconds + number)
    lower, upper = _ordered(c.x, c.y)
    world.count("ordered", lower - 2 * upper)
    upper, lower = _ordered(upper, lower)
    world.count("again", lower - 2 * upper)
    number, share = _shares(c.a)
    world.count("shares", number + share)


def _ordered(a: float, b: float) -> tuple[float, float]:
    if a < b:
        return a, b
    return b, a


def _shares(n: int) -> tuple[int, float]:
    if n > 2:
        return 0, 0.25
    if n < 0:
        return n, 1
    return PAIR


def helpers(world: World, c: Cell) -> None:
    world.count("method", c.sum() + c.sum(2) + c.sum(times=3))
    world.count("early", _early(c.a) + 10 * _early(c.b))
    a = _clamped(c.a, low=-2)
    a = _clamped(a + _clamped(c.b), high=c.a)
    world.count("nested", a)
    none = _first(c, 0)
    some = _first(c, -100)
    world.count("none", 1 if none is None else 2)
    world.count("some", -1.0 if some is None else some.x)
    _grow(c, 3)
    world.count("grown", c.a)


def _early(n: int) -> float:
    if n < 0:
        return 0
    for i in range(n):
        if i * i > n:
            return i + 0.5
    return 2


def _clamped(n: int, low: int = 0, high: int = 4) -> int:
    if n < low:
        n = low
    n = min(n, high)
    return n


def _first(c: Cell, least: int) -> Cell | None:
    for cell in c.cells:
        if cell.a > least:
            return cell
    return None


def _grow(c: Cell, by: int) -> None:
    if by > 100:
        return
    c.a += by


def statics(world: World, c: Cell) -> None:
    kind = "left"
    if kind == "right":
        c.nothing.of.the.kind()  # type: ignore[attr-defined]
    elif kind in ("left", "middle"):
        world.count(kind)
    world.count("cpus", world.cpus + len(world.connections))
    world.count("infinite", 1.0 if c.x < math.inf else 0.0)


def closures(world: World, c: Cell) -> None:
    world.count("first", RATE(c))


def _rate(factor: float, low: int) -> Callable[[Cell], float]:
    def rate(c: Cell) -> float:
        return c.a * factor if c.a > low else factor

    return rate


RATE = _rate(2.5, -3)
CONSTRUCTS = (
    arithmetic, floors, conversions, comparisons, truth, choices, loops, names, fields, lists, queues, tuples, helpers,
    statics, closures,
)  # fmt: skip


def cells(numbers: list[int], floats: list[float]) -> Cell:
    """A cell with others in its lists, all from those numbers."""
    made = [Cell(n, -n, x, 1.0 - x, n % 2 == 0) for n, x in zip(numbers[2:], floats[2:], strict=False)]
    return Cell(numbers[0], numbers[1], floats[0], floats[1], numbers[0] > 3, made[0], floats[:4], made)


def counted(engine: str, construct: Callable[[World, Cell], None], *values: Any) -> Any:
    """What an agent counts that does this once."""

    def build(world: World) -> None:
        world.agent("agent", once, cells(*values))

    def once(world: World, thread: Thread, cell: Cell) -> Steps:
        yield thread.run(1.0)
        construct(world, cell)
        world.entered()
        world.completed(0, 1.0)

    (outcome,) = simulate(build, engine=engine, replies=1)
    return {name: value for name, value in outcome.counters.items() if value}


WHOLE = st.integers(-9, 9)
FRACTION = st.integers(-40, 40).map(lambda n: n / 8)


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda c: c.__name__)
@settings(max_examples=20, deadline=None)
@given(st.lists(WHOLE, min_size=4, max_size=7), st.lists(FRACTION, min_size=7, max_size=7))
def test_a_construct_does_what_it_does_in_python(
    construct: Callable[[World, Cell], None], numbers: list[int], floats: list[float]
) -> None:
    assert counted("compiled", construct, numbers, floats) == pytest.approx(
        counted("simpy", construct, numbers, floats), rel=1e-12, abs=1e-12
    )


def recursion(world: World, c: Cell) -> None:
    if c.next is not None:
        recursion(world, c.next)


def allocation(world: World, c: Cell) -> None:
    c.next = Cell(1, 2, 3.0, 4.0)


def text(world: World, c: Cell) -> None:
    kind = "left"
    if c.a > 0:
        kind = "right"
    world.count(kind)


def unknown(world: World, c: Cell) -> None:
    world.count("n", missing + c.a)  # type: ignore[name-defined]  # noqa: F821


def unset(world: World, c: Cell) -> None:
    while c.a > 0:
        c.b = total  # noqa: F821
        total = 1
        c.a -= total


def unannotated(world: World, c: Cell) -> None:
    c.colour = 3  # type: ignore[attr-defined]


def narrowed(world: World, c: Cell) -> None:
    c.a = c.x  # type: ignore[assignment]


def dictionary(world: World, c: Cell) -> None:
    c.a = {1: 2}[c.a]


def nested(world: World, c: Cell) -> None:
    def inner() -> int:
        return 1

    c.a = inner()


def guarded(world: World, c: Cell) -> None:
    try:
        c.a = 1
    finally:
        c.a = 2


def untimed(world: World, c: Cell) -> Steps:
    yield c


def timed(world: World, c: Cell) -> None:
    untimed(world, c)


def power(world: World, c: Cell) -> None:
    c.a = c.a**2


def values(world: World, c: Cell) -> None:
    c.a = c.a or c.b


def mixed(world: World, c: Cell) -> None:
    world.count("n", 1.0 if c.next == c.a else 0.0)


def halves(world: World, c: Cell) -> None:
    world.count("n", _half(c))


def _half(c: Cell) -> int:  # type: ignore[return]
    if c.a > 0:
        return 1


REFUSED = (
    (recursion, "recursion calls itself"),
    (allocation, "Cell cannot be made here"),
    (text, "kind is text and changes"),
    (unknown, "missing is not defined"),
    (unset, "total has no value yet"),
    (unannotated, "no annotated field"),
    (narrowed, "a value of type float where int is needed"),
    (dictionary, "cannot be compiled: allowed are"),
    (nested, "no functions or classes inside"),
    (guarded, "try cannot be compiled: allowed are"),
    (timed, "untimed takes time: write yield from"),
    (power, "only [+] - [*]"),
    (values, "write x if … else y"),
    (mixed, "a Cell and a int cannot be compared"),
    (halves, "_half must return a value whichever way it ends"),
)


@pytest.mark.parametrize(("construct", "words"), REFUSED, ids=lambda c: getattr(c, "__name__", ""))
def test_what_cannot_be_compiled_is_refused_with_its_line(construct: Any, words: str) -> None:
    with pytest.raises(ProgramError, match=rf"^test_des_compiler\.py:\d+: .*{words}"):
        counted("compiled", construct, [1, 2, 3, 4], [1.0, 2.0, 3.0, 4.0])


@dataclass(eq=False)
class Floor(Record):
    """Where threads meet."""

    waiting: Fifo[Thread] = field(default_factory=Fifo)
    spinner: Thread | None = None
    turns: int = 0


def _dance(world: World, thread: Thread, floor: Floor, steps: int, length: float) -> Steps:
    """Sleeps until another has a turn, in rounds of different length."""
    for step in range(steps):
        world.entered()
        begun = world.now
        yield thread.run(length * (1 + step % 3))
        if floor.waiting:
            price = thread.wake(floor.waiting.popleft(), world.cost("dance"))
            yield thread.run(price)
        elif floor.spinner is not None and floor.spinner.spinning:
            thread.release(floor.spinner)
        world.at(length / 2, _turn, floor, thread, step + 1)
        floor.waiting.append(thread)
        yield thread.sleep()
        if step % 4 == 3:
            yield thread.pause(length)
        world.completed(step % 2, world.now - begun, length)


def _turn(world: World, floor: Floor, dancer: Thread, weight: int) -> None:
    floor.turns += weight
    world.count("turns", weight)
    if dancer.sleeping:
        world.count("asleep")
    if floor.turns % 3 == 0 and floor.waiting:
        world.wake(floor.waiting.popleft())


def _spin(world: World, thread: Thread, floor: Floor) -> Steps:
    floor.spinner = thread
    while True:
        yield thread.spin()
        yield thread.run(1e-5)
        if floor.waiting:
            world.wake(floor.waiting.popleft())


def _follow(world: World, thread: Thread, floor: Floor) -> Steps:
    yield thread.run(1e-6)
    while floor.spinner is not None:
        yield thread.follow(floor.spinner)
        world.count("followed")
        if floor.spinner.running:
            world.count("running")


def floor_of(world: World) -> None:
    floor = Floor()
    world.spawn("spinner", "spin", _spin, floor)
    for number in range(4):
        world.spawn(f"dancer {number}", "dance", _dance, floor, 200, 3e-5 * (1 + number), cpus=[number % 2])
    world.agent("agent", _dance, floor, 200, 1e-4)
    world.spawn("follower", "dance", _follow, floor, cpus=[1])


def test_threads_agents_and_timers_do_the_same_in_both_engines() -> None:
    costs = {"dance": 2e-6} | {name: value for name, value in COSTS.items() if name.startswith("machine.")}
    slow, fast = (
        simulate(floor_of, costs, engine=engine, cpus=2, replies=600)[0] for engine in ("simpy", "compiled")
    )
    np.testing.assert_allclose(fast.responses, slow.responses, rtol=1e-9)
    np.testing.assert_array_equal(fast.operations, slow.operations)
    assert len(slow.responses) == 600
    assert fast.counters == pytest.approx(slow.counters)
    assert fast.counters["followed"] > 0


def test_a_program_from_a_notebook_cell_compiles() -> None:
    text = "def program(world, thread):\n    yield thread.run(0.5)\n    world.entered()\n    world.completed(0, 0.25)\n"
    linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(True), "<cell 1>")
    space: dict[str, Any] = {}
    exec(compile(text, "<cell 1>", "exec"), space)
    (outcome,) = simulate(
        lambda world: world.agent("a", space["program"]) and None, engine="compiled", replies=1
    )
    assert (outcome.span, list(outcome.responses)) == (0.5, [0.25])


def test_a_program_without_source_is_refused_with_what_to_do() -> None:
    space: dict[str, Any] = {}
    exec("def program(world, thread):\n    yield thread.run(1.0)\n", space)
    with pytest.raises(ProgramError, match=r"program has no source text .* a file or in a notebook cell"):
        simulate(lambda world: world.agent("a", space["program"]) and None, engine="compiled", replies=1)


@dataclass(eq=False)
class Odd(Record):
    """A field that no record can hold."""

    words: dict[str, int]


@dataclass(eq=False)
class Special(Cell):
    """Another class than the field's."""


def _nothing(world: World, thread: Thread, cell: Record) -> Steps:
    yield thread.run(1.0)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (Odd({}), r"Odd: field words is dict.*: a field is an int"),
        (Cell(1, 2, 3.0, 4.0, next=Special(1, 2, 3.0, 4.0)), r"Cell.next holds a Special"),
        (Cell(1, 2, "no", 4.0), r"Cell.x holds 'no', but its type is float"),  # type: ignore[arg-type]
    ],
)
def test_records_hold_what_they_are_annotated_with(record: Record, words: str) -> None:
    with pytest.raises(ProgramError, match=words):
        simulate(lambda world: world.agent("a", _nothing, record) and None, engine="compiled", replies=1)


def _empty(world: World, thread: Thread, cell: Cell) -> Steps:
    yield thread.run(1.0)
    cell.a = 1
    cell.queue.popleft()


def _none(world: World, thread: Thread, cell: Cell) -> Steps:
    yield thread.run(1.0)
    assert cell.next is not None
    cell.next.a = 1


def _beyond(world: World, thread: Thread, cell: Cell) -> Steps:
    yield thread.run(1.0)
    cell.a = 4
    cell.numbers[cell.a] = 1.0


def _endless(world: World, thread: Thread, cell: Cell) -> Steps:
    yield thread.run(1.0)
    while cell.a > 0:
        cell.b += 1


@pytest.mark.parametrize("program", [_empty, _none, _beyond, _endless])
def test_a_fault_of_a_running_program_is_told_with_its_line(program: Any) -> None:
    line = program.__code__.co_firstlineno + 3
    lines = f"({line - 1}|{line})" if program is _endless else str(line)
    with pytest.raises(ProgramFault, match=rf"^test_des_compiler\.py:{lines}: "):
        simulate(
            lambda world: world.agent("a", program, Cell(5, 2, 3.0, 4.0)) and None,
            engine="compiled",
            replies=1,
        )


def _draws(world: World, thread: Thread, number: int, durations: Distribution) -> Steps:
    while True:
        begun = world.now
        world.entered()
        yield thread.run(durations.draw())
        world.completed(number, world.now - begun)


@pytest.mark.parametrize("kind", KINDS)
def test_each_thread_draws_from_its_own_distribution(kind: str) -> None:
    means = (0.5, 2.0, 3.0)

    def build(world: World) -> None:
        for number, mean in enumerate(means):
            world.agent("agent", _draws, number, world.distribution(kind, mean))

    (outcome,) = simulate(build, engine="compiled", replies=60_000)
    for number, mean in enumerate(means):
        times = outcome.responses[outcome.operations == number]
        # 1 in 15,000, were the times normal.
        assert abs(times.mean() - mean) <= 4 * times.std() / math.sqrt(len(times)) + 1e-9


def test_a_cost_that_is_not_known_is_missed_only_where_it_is_asked_for() -> None:
    def build(world: World) -> None:
        world.agent("agent", _costly, Cell(1, 2, 3.0, 4.0))

    assert len(simulate(build, {"known": 1.0}, engine="compiled", replies=1)[0].responses) == 1
    with pytest.raises(MissingCost, match="unknown"):
        simulate(build, {"known": 1.0}, engine="compiled", replies=3)


def _costly(world: World, thread: Thread, cell: Cell) -> Steps:
    while True:
        world.entered()
        yield thread.run(world.cost("known") if cell.a < 3 else world.cost("unknown"))
        cell.a += 1
        world.completed(0, 1.0)


@pytest.mark.parametrize(
    "ask", [lambda world: world.cost("any"), lambda world: world.prices.switch, lambda world: world.now]
)
def test_what_only_programs_may_ask_is_refused_while_building(ask: Any) -> None:
    with pytest.raises(ProgramError, match=r"^world\..* is for programs"):
        simulate(ask, engine="compiled", replies=1)
