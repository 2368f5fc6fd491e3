"""The forked load: processes that connect, send their requests one after another, and exit; the clock runs over all of it.

A process that is made and waited for (machine.fork) is taken to cost its parent half of that when it begins, and itself the
other half when it exits. The window ends with the last reply, the last exit is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.des.generator import ask, crew, deliver, go_on
from models.des.listening import connect
from models.des.parts import Connection, Inbox, way
from models.des.records import Record, Steps, Thread, World
from models.scenario import Scenario

COSTS = ("load.event", "load.connect", "machine.fork", "machine.accept")
SETTLED = 1.0  # s after which all threads of the model sleep


def window(scenario: Scenario) -> tuple[int, int]:
    """Replies before the window and in it: one that nobody sent, when the first process is forked, and all."""
    return 1, int(scenario.number("clients") * scenario.number("requests"))


@dataclass(eq=False, slots=True)
class Child(Record):
    """A client's process, which sleeps until it is forked."""

    connection: Connection
    thread: Thread | None = None


@dataclass(eq=False, slots=True)
class Family(Record):
    """All of them."""

    children: list[Child]


def build(world: World) -> None:
    crew(world)
    family = Family([Child(connection) for connection in world.connections])
    requests = int(world.scenario.number("requests"))
    for child in family.children:
        connection = child.connection
        connection.connected = connection.accepted = False
        connection.at_client = Inbox()
        child.thread = world.spawn(f"client {connection.index}", "load", _live, child, requests)
    world.spawn("parent", "load", _fork, family)


def _fork(world: World, thread: Thread, family: Family) -> Steps:
    cost = world.cost("machine.fork") / 2
    yield thread.pause(SETTLED)
    world.entered()
    world.completed(0, 0.0)
    for child in family.children:
        assert child.thread is not None
        yield thread.run(cost)
        price = thread.wake(child.thread, 0.0)
        if price > 0.0:
            yield thread.run(price)


def _live(world: World, thread: Thread, child: Child, requests: int) -> Steps:
    event, connection = world.cost("load.event"), child.connection
    request, inbox = connection.request, connection.at_client
    assert inbox is not None
    yield thread.sleep()
    for _ in range(requests):
        if not connection.connected:
            yield from connect(world, connection, thread)
            yield from inbox.wait(world, thread)
            inbox.items.clear()
        world.entered()
        yield from ask(world, connection, thread, event / 2)
        yield from inbox.wait(world, thread)
        inbox.items.clear()
        while request.rounds > 0:
            yield from go_on(world, connection, thread, event)
            yield from inbox.wait(world, thread)
            inbox.items.clear()
        yield thread.run(event / 2 + request.client + way(world, connection, connection.client, thread))
        world.completed(request.operation, world.now - request.sent)
        request.under_way = False
    if connection.connected:
        connection.connected = False
        yield from deliver(world, connection, thread)
    yield thread.run(world.cost("machine.fork") / 2)
