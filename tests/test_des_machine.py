"""The simulated machine's scheduler, in both engines: slices, fair shares, preemption on waking, bound threads, agents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from queueing import ENGINES

from models.des.engine import simulate
from models.des.machine import Scheduler
from models.des.outcome import Outcome
from models.des.records import Record, Steps, Thread, World

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def burn(world: World, thread: Thread) -> Steps:
    while True:
        yield thread.run(0.1)


def once(engine: str, build, span: float = 1.0, cpus: int = 1, **costs: float) -> Outcome:  # type: ignore[no-untyped-def]
    table = {name.replace("_", ".", 1): value for name, value in costs.items()}
    return simulate(build, table, engine=engine, cpus=cpus, span=span)[0]


def test_two_spinners_on_one_cpu_alternate_at_ticks(engine: str) -> None:
    def build(world: World) -> None:
        for name in "ab":
            world.spawn(name, "spinners", burn)

    found = once(engine, build, span=2.0)
    tick = Scheduler.of(1).tick
    assert [thread.used for thread in found.threads] == pytest.approx([1.0, 1.0], abs=tick)
    assert sum(thread.switched for thread in found.threads) == pytest.approx(2.0 / tick, abs=2)


@pytest.mark.parametrize(("cpus", "threads"), [(1, 3), (2, 3), (2, 5), (4, 5)])
def test_threads_that_never_sleep_share_the_cpus_equally(engine: str, cpus: int, threads: int) -> None:
    def build(world: World) -> None:
        for number in range(threads):
            world.spawn(str(number), "spinners", burn)

    found = once(engine, build, span=5.0, cpus=cpus)
    shares = np.array([thread.used for thread in found.threads]) / (5.0 * cpus / threads)
    assert shares.sum() == pytest.approx(threads, rel=1e-6)  # no CPU idled
    assert shares == pytest.approx(1.0, abs=0.08)


def toil(world: World, thread: Thread) -> Steps:
    while True:
        yield thread.run(1e-3)


def doze(world: World, thread: Thread) -> Steps:
    while True:
        yield thread.pause(1e-4)
        yield thread.run(5e-6)


def test_nobody_starves_where_short_sleepers_make_threads_move_often(engine: str) -> None:
    def build(world: World) -> None:
        for number in range(4):
            world.spawn(str(number), "toilers", toil)
        for number in range(4):
            world.spawn(str(number), "dozers", doze)

    found = once(engine, build, span=1.5, cpus=2)
    used = np.array([thread.used for thread in found.threads[:4]])
    assert used.min() > 0.7 * used.mean()


def test_bound_threads_keep_to_their_cpus(engine: str) -> None:
    def build(world: World) -> None:
        for number in range(3):
            world.spawn(str(number), "bound", burn, cpus=[1])
        world.spawn("free", "free", burn)

    found = once(engine, build, span=3.0, cpus=2)
    shares = [thread.used for thread in found.threads]
    assert shares == pytest.approx([1.0, 1.0, 1.0, 3.0], abs=0.02)


def visit(world: World, thread: Thread, seconds: float, moment: float) -> Steps:
    """Computes, sleeps for a moment, and computes again; counts when it slept, and how late it came back."""
    yield thread.run(seconds)
    slept = world.now
    world.count("slept", slept)
    yield thread.pause(moment)
    yield thread.run(1e-6)
    world.count("came", world.now - slept - moment)


def test_a_woken_thread_that_is_owed_time_preempts_at_once(engine: str) -> None:
    # the spinner had a whole slice, until the tick at 4 ms, and the visitor only 0.2 ms
    def build(world: World) -> None:
        world.spawn("spinner", "threads", burn)
        world.spawn("visitor", "threads", visit, 2e-4, 1e-4)

    counters = once(engine, build, span=0.1).counters
    assert counters["slept"] == pytest.approx(4.2e-3, abs=1e-9)
    assert counters["came"] == pytest.approx(1e-6, abs=1e-12)


def test_a_woken_thread_that_had_more_than_its_share_waits_its_turn(engine: str) -> None:
    # the visitor had 3 ms and the spinner 0.1 ms when it wakes, and 1 ms at the next tick: its turn is at the second
    def build(world: World) -> None:
        world.spawn("visitor", "threads", visit, 3e-3, 1e-4)
        world.spawn("spinner", "threads", burn)

    counters = once(engine, build, span=0.1).counters
    assert counters["slept"] == pytest.approx(3e-3, abs=1e-9)
    assert counters["came"] == pytest.approx(8e-3 + 1e-6 - 3.1e-3, abs=1e-9)


@dataclass(eq=False)
class Pair(Record):
    """Two threads that know each other."""

    first: Thread | None = None
    second: Thread | None = None


def wait(world: World, thread: Thread) -> Steps:
    while True:
        yield thread.sleep()
        world.count("woken")


def call(world: World, thread: Thread, pair: Pair) -> Steps:
    assert pair.first is not None
    while True:
        yield thread.pause(0.01)
        price = thread.wake(pair.first, 3e-6)
        world.count("price", price)
        yield thread.run(price)


@pytest.mark.parametrize(("busy", "price"), [(False, 8e-6), (True, 3e-6)])
def test_who_wakes_a_halted_cpu_pays_for_that_and_else_the_local_price(
    engine: str, busy: bool, price: float
) -> None:
    def build(world: World) -> None:
        pair = Pair()
        pair.first = world.spawn("sleeper", "threads", wait, cpus=[0])
        world.spawn("caller", "threads", call, pair, cpus=[1])
        if busy:
            world.spawn("spinner", "threads", burn, cpus=[0])

    counters = once(engine, build, span=1.005, cpus=2, machine_wake_waker=8e-6).counters
    assert counters["price"] == pytest.approx(100 * price, rel=0.02)
    assert counters["woken"] == pytest.approx(100, abs=2)


def spin(world: World, thread: Thread) -> Steps:
    while True:
        yield thread.spin()
        world.count("released")
        yield thread.run(1e-6)


def let_go(world: World, thread: Thread, pair: Pair) -> Steps:
    assert pair.first is not None
    while True:
        yield thread.pause(0.01)
        if pair.first.spinning and pair.first.running:
            thread.release(pair.first)


def test_a_spinner_burns_its_cpu_until_released(engine: str) -> None:
    def build(world: World) -> None:
        pair = Pair()
        pair.first = world.spawn("spinner", "threads", spin)
        world.agent("other", let_go, pair)

    found = once(engine, build, span=1.005)
    assert found.counters["released"] == 100
    assert found.threads[0].used == pytest.approx(1.005, rel=1e-9)


def follow(world: World, thread: Thread, pair: Pair) -> Steps:
    assert pair.first is not None
    while True:
        yield thread.follow(pair.first)
        world.count("followed")


def test_a_follower_wakes_when_the_other_gets_its_cpu_back(engine: str) -> None:
    def build(world: World) -> None:
        pair = Pair()
        pair.first = world.spawn("a", "spinners", burn, cpus=[0])
        world.spawn("b", "spinners", burn, cpus=[0])
        world.spawn("follower", "followers", follow, pair, cpus=[1])

    found = once(engine, build, span=1.0, cpus=2)
    assert found.counters["followed"] == pytest.approx(found.threads[1].switched, abs=2)
    assert found.counters["followed"] > 100


def pause_once(world: World, thread: Thread) -> Steps:
    yield thread.pause(0.5)
    world.count("paused", world.now)
    yield thread.sleep()
    world.count("slept", world.now)


def disturb(world: World, thread: Thread, pair: Pair) -> Steps:
    assert pair.first is not None
    yield thread.run(0.1)
    thread.wake(pair.first, 0.0)


def test_a_pause_ends_at_its_time_and_keeps_a_wake_for_the_next_sleep(engine: str) -> None:
    def build(world: World) -> None:
        pair = Pair()
        pair.first = world.agent("sleeper", pause_once)
        world.agent("other", disturb, pair)

    counters = once(engine, build).counters
    assert counters["paused"] == counters["slept"] == pytest.approx(0.5)


def rest(world: World, thread: Thread, pair: Pair, pause: float) -> Steps:
    """Rests for so long again and again, then wakes the other, and says for how long its CPU has rested."""
    while True:
        yield thread.pause(pause)
        yield thread.run(1e-6)
        world.count("turns")
        world.count("rested", thread.rested())
        if pair.first is not None:
            yield thread.run(thread.wake(pair.first, 0.0))


def follow_up(world: World, thread: Thread) -> Steps:
    while True:
        yield thread.sleep()
        yield thread.run(1e-6)


@pytest.mark.parametrize(("pause", "cold"), [(0.02, 1.0), (0.001, 0.2**0.75)])
def test_a_thread_is_the_colder_the_longer_its_cpu_has_rested_since_it_ran(
    engine: str, pause: float, cold: float
) -> None:
    """Of two that run after each other the first pays for waking the CPU, the second only for having been away."""

    def build(world: World) -> None:
        second = world.spawn("second", "second", follow_up)
        world.spawn("first", "first", rest, Pair(second), pause)

    found = once(engine, build, span=1.0, machine_cold_thread=1e-5, machine_wake_sleeper=3e-6)
    first, second = (found.groups[name].used / found.counters["turns"] for name in ("first", "second"))
    assert first == pytest.approx(1e-6 + 3e-6, rel=0.01)
    assert second == pytest.approx(1e-6 + 1e-5 * cold, rel=0.05)


def test_a_thread_whose_cpu_never_rested_is_not_cold_however_long_it_was_away(engine: str) -> None:
    def build(world: World) -> None:
        world.spawn("now and then", "restr", rest, Pair(), 0.02)
        world.spawn("always", "burner", burn)

    found = once(engine, build, span=1.0, machine_cold_thread=1e-5)
    assert found.groups["restr"].used / found.counters["turns"] == pytest.approx(1e-6, rel=0.01)
    assert found.counters["rested"] == 0
