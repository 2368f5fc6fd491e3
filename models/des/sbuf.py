"""The sbuf server: an acceptor hands connections to a pool of threads through a bounded buffer.

hold=request: the acceptor polls idle connections and inserts the ready ones; a worker serves one request and
arms the connection again. hold=connection: a worker keeps its connection for ever, and connections beyond the
pool are never served.
"""

from __future__ import annotations

from collections import deque

from models.des.cpu import Thread
from models.des.engine import World
from models.des.parts import Connection, Inbox, Semaphore, Steps, answer

COSTS = ("sbuf.acceptor", "sbuf.worker", "load.poll")


class _Buffer:
    """The bounded buffer: its mutex is held for nanoseconds and is not modelled."""

    def __init__(self, world: World) -> None:
        self.items: deque[Connection] = deque()
        self.filled = Semaphore(world.machine, 0)
        self.free = Semaphore(world.machine, int(world.scenario.number("queue_slots")))


def build(world: World) -> None:
    workers = int(world.scenario.number("workers"))
    if world.scenario["hold"] == "connection":
        _build_keepers(world, workers)
        return
    buffer, ready = _Buffer(world), Inbox(world.machine)
    for connection in world.connections:
        connection.at_server = ready
    world.machine.spawn("acceptor", "server", lambda thread: _acceptor(world, ready, buffer, thread))
    for number in range(workers):
        world.machine.spawn(f"worker {number}", "server", lambda thread: _worker(world, buffer, thread))


def _build_keepers(world: World, workers: int) -> None:
    for connection in world.connections:
        connection.at_server = Inbox(world.machine)
    for number, connection in enumerate(world.connections[:workers]):

        def keeping(thread: Thread, connection: Connection = connection) -> Steps:
            return _keeper(world, connection, thread)

        world.machine.spawn(f"worker {number}", "server", keeping)


def _acceptor(world: World, ready: Inbox, buffer: _Buffer, thread: Thread) -> Steps:
    insert, poll = world.cost("sbuf.acceptor"), world.cost("load.poll")
    while True:
        yield thread.run(poll)
        world.count("polls")
        yield from ready.wait(thread)
        for connection in ready.take_all():
            yield from buffer.free.acquire(thread)
            yield thread.run(insert)
            buffer.items.append(connection)
            price = buffer.filled.release(thread)
            if price:
                yield thread.run(price)


def _demand(world: World, connection: Connection) -> float:
    request = connection.request
    if request is None or request.rounds:
        return 0.0
    demand = request.fixed + sum(request.tasks)
    world.count("busy", sum(request.tasks))
    return demand


def _worker(world: World, buffer: _Buffer, thread: Thread) -> Steps:
    serve = world.cost("sbuf.worker")
    while True:
        yield from buffer.filled.acquire(thread)
        connection = buffer.items.popleft()
        price = buffer.free.release(thread)
        yield from answer(connection, thread, serve + price + _demand(world, connection))


def _keeper(world: World, connection: Connection, thread: Thread) -> Steps:
    serve = world.cost("sbuf.worker")
    inbox = connection.at_server
    assert inbox is not None
    while True:
        yield from inbox.wait(thread)
        inbox.items.clear()
        yield from answer(connection, thread, serve + _demand(world, connection))
