"""The fork server: a process for each connection, which receives, works and answers with blocking calls.

What it does for a request is what the thread server does, at the same costs; a connection costs a process more. Of
machine.fork, which is the making and the end of one, the acceptor pays one half and the process the other when its
connection has ended.

children: so many connections are served at once, and the acceptor leaves further ones in the accept queue until one ends.
"""

from __future__ import annotations

from models.des.listening import accept, listen
from models.des.parts import Connection, Inbox, Semaphore, ended, reply, way
from models.des.records import Steps, Thread, World
from models.des.service import Service, serve, service_of

COSTS = ("select.event", "select.poll", "machine.fork")


def build(world: World) -> None:
    service, ready = service_of(world, len(world.connections)), Inbox()
    free = Semaphore(int(world.scenario.number("children")))
    listen(world, ready)
    for connection in world.connections:
        connection.at_server = Inbox()
        if connection.accepted and free.count == 0:  # it waits for one to end that never does
            continue
        if connection.accepted:
            free.count -= 1
        world.spawn(f"process {connection.index}", "server", _attend, connection, service, free)
    if any(not connection.accepted for connection in world.connections):
        world.spawn("acceptor", "server", _accept, ready, free)


def _accept(world: World, thread: Thread, ready: Inbox, free: Semaphore) -> Steps:
    """Forks for each new connection; the process has been waiting here, as none can be made while the model runs."""
    cost = world.cost("select.poll") + world.cost("machine.fork") / 2
    while True:
        yield from free.acquire(thread)
        yield from ready.wait(world, thread)
        connection = ready.items.popleft()
        yield thread.run(cost)
        yield from accept(world, connection, thread)


def _attend(world: World, thread: Thread, connection: Connection, service: Service, free: Semaphore) -> Steps:
    cost, inbox = world.cost("select.event"), connection.at_server
    assert inbox is not None
    while True:
        yield from inbox.wait(world, thread)
        inbox.items.clear()
        if not ended(connection):
            price = cost + way(world, connection, connection.server, thread)
            yield from serve(world, thread, service, connection.request, price)
            yield from reply(world, connection, thread)
        if not connection.accepted:
            yield thread.run(world.cost("machine.fork") / 2)
            price = free.release(world, thread)
            if price > 0.0:
                yield thread.run(price)
