"""The sbuf server: an acceptor hands connections to a pool of threads through a bounded buffer.

hold=request: the acceptor polls idle connections and inserts the ready ones; a worker serves one request and
arms the connection again. hold=connection: a worker keeps its connection until it ends, and connections beyond
the pool wait for that: where none ends, they are never served.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from models.des.listening import accept, listen
from models.des.parts import Connection, Inbox, Semaphore, ended, reply, way
from models.des.records import Fifo, Record, Steps, Thread, World
from models.des.service import Service, serve, service_of

COSTS = ("sbuf.acceptor", "sbuf.worker", "load.poll")


@dataclass(eq=False, slots=True)
class Buffer(Record):
    """The bounded buffer: its mutex is held for nanoseconds and is not modelled."""

    free: Semaphore
    filled: Semaphore = field(default_factory=lambda: Semaphore(0))
    items: Fifo[Connection] = field(default_factory=Fifo)


def build(world: World) -> None:
    workers = int(world.scenario.number("workers"))
    keeps = world.scenario["hold"] == "connection"
    service = service_of(world, workers)
    buffer, ready = Buffer(Semaphore(int(world.scenario.number("queue_slots")))), Inbox()
    listen(world, ready)
    for connection in world.connections:
        connection.at_server = Inbox() if keeps else ready
        if keeps and connection.accepted:
            buffer.items.append(connection)
    buffer.filled.count = len(buffer.items)  # connections that stood before the run
    world.spawn("acceptor", "server", _accept_for_ever if keeps else _acceptor, ready, buffer)
    for number in range(workers):
        world.spawn(f"worker {number}", "server", _keeper if keeps else _worker, buffer, service)


def _acceptor(world: World, thread: Thread, ready: Inbox, buffer: Buffer) -> Steps:
    poll = world.cost("load.poll")
    while True:
        yield thread.run(poll)
        world.count("polls")
        yield from ready.wait(world, thread)
        for connection in ready.items.drain():
            if connection.accepted:
                yield from _insert(world, thread, connection, buffer)
            else:
                yield from accept(world, connection, thread)


def _insert(world: World, thread: Thread, connection: Connection, buffer: Buffer) -> Steps:
    yield from buffer.free.acquire(thread)
    yield thread.run(world.cost("sbuf.acceptor"))
    buffer.items.append(connection)
    price = buffer.filled.release(world, thread)
    if price > 0.0:
        yield thread.run(price)


def _worker(world: World, thread: Thread, buffer: Buffer, service: Service) -> Steps:
    cost = world.cost("sbuf.worker")
    while True:
        yield from buffer.filled.acquire(thread)
        connection = buffer.items.popleft()
        price = buffer.free.release(world, thread)
        if ended(connection):
            yield thread.run(price)
        else:
            price += way(world, connection, connection.server, thread)
            yield from serve(world, thread, service, connection.request, cost + price)
            yield from reply(world, connection, thread)


def _accept_for_ever(world: World, thread: Thread, ready: Inbox, buffer: Buffer) -> Steps:
    while True:
        yield from ready.wait(world, thread)
        connection = ready.items.popleft()
        yield from accept(world, connection, thread)
        yield from _insert(world, thread, connection, buffer)


def _keeper(world: World, thread: Thread, buffer: Buffer, service: Service) -> Steps:
    cost = world.cost("sbuf.worker")
    while True:
        yield from buffer.filled.acquire(thread)
        connection = buffer.items.popleft()
        price = buffer.free.release(world, thread)
        inbox = connection.at_server
        assert inbox is not None
        while connection.accepted:
            yield from inbox.wait(world, thread)
            inbox.items.clear()
            if not ended(connection):
                price += way(world, connection, connection.server, thread)
                yield from serve(world, thread, service, connection.request, cost + price)
                yield from reply(world, connection, thread)
                price = 0.0
