"""Locks and semaphores of the models, in both engines: who gets them, who waits, and what is shared."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from queueing import ENGINES

from models.des.engine import simulate
from models.des.parts import Mutex, ReadersWriters, Semaphore
from models.des.records import Record, Steps, Thread, World

pytestmark = pytest.mark.parametrize("engine", ENGINES)


@dataclass(eq=False)
class Shared(Record):
    """What the threads of a test have in common."""

    mutex: Mutex = field(default_factory=Mutex)
    lock: ReadersWriters = field(default_factory=ReadersWriters)
    places: Semaphore = field(default_factory=lambda: Semaphore(3))
    inside: int = 0


def hold(world: World, thread: Thread, shared: Shared, seconds: float) -> Steps:
    while True:
        waited = yield from shared.mutex.acquire(thread)
        if waited:
            world.count("waits")
        shared.inside += 1
        world.count("together", float(shared.inside))
        world.count("turns")
        yield thread.run(seconds)
        shared.inside -= 1
        price = shared.mutex.release(world, thread)
        yield thread.run(price)


@pytest.mark.parametrize("handoff", [False, True])
def test_a_mutex_lets_one_in_at_a_time_and_only_handing_off_is_fair(engine: str, handoff: bool) -> None:
    """Two threads that want nothing but the lock, a CPU each; to be woken takes time, which a barger does not wait for."""

    def build(world: World) -> None:
        shared = Shared(Mutex(handoff))
        for number in range(2):
            world.spawn(str(number), "threads", hold, shared, 1e-5, cpus=[number])

    found = simulate(build, {"machine.wake_latency": 2e-5}, engine=engine, cpus=2, span=0.1)[0].counters
    assert found["together"] == found["turns"]
    if handoff:
        assert found["waits"] == pytest.approx(found["turns"], abs=2)
        assert found["turns"] == pytest.approx(0.1 / 3e-5, rel=0.02)
    else:
        assert found["turns"] > 0.9 * 0.1 / 1e-5
        assert found.get("waits", 0.0) < 0.1 * found["turns"]


def look(world: World, thread: Thread, shared: Shared, reads: bool) -> Steps:
    while True:
        yield from shared.lock.acquire(world, thread, reads)
        shared.inside += 1 if reads else 100
        world.count("readers" if reads else "writers")
        if shared.inside > 1:
            world.count("together")
        if shared.inside > 100:
            world.count("broken")
        yield thread.run(1e-4)
        shared.inside -= 1 if reads else 100
        yield from shared.lock.release(world, thread, reads)
        yield thread.pause(2e-4)


def test_readers_share_a_lock_and_writers_do_not(engine: str) -> None:
    def build(world: World) -> None:
        shared = Shared()
        for number in range(6):
            world.spawn(str(number), "threads", look, shared, number < 4, cpus=[number])

    found = simulate(build, engine=engine, cpus=6, span=0.5)[0].counters
    assert found["readers"] > found["writers"] > 10
    assert found["together"] > 0.5 * found["readers"]
    assert found.get("broken", 0.0) == 0


def enter(world: World, thread: Thread, shared: Shared) -> Steps:
    while True:
        yield from shared.places.acquire(thread)
        shared.inside += 1
        if shared.inside > 3:
            world.count("broken")
        if shared.inside == 3:
            world.count("full")
        yield thread.run(1e-4)
        shared.inside -= 1
        shared.places.release(world, thread)
        yield thread.run(1e-5)


def test_a_semaphore_lets_as_many_in_as_it_counts(engine: str) -> None:
    def build(world: World) -> None:
        shared = Shared()
        for number in range(6):
            world.agent(str(number), enter, shared)

    found = simulate(build, engine=engine, span=0.1)[0].counters
    assert found["full"] > 100
    assert found.get("broken", 0.0) == 0
