"""A thread or process for each connection, as programs: it receives, works and answers by blocking calls until that ends.

So many connections are served at once; the acceptor leaves further ones in the accept queue until one ends.
"""

from __future__ import annotations

from collections.abc import Callable

from models.des.listening import accept, listen
from models.des.parts import Connection, Inbox, Semaphore, ended, reply, way
from models.des.records import Steps, Thread, World
from models.des.service import Service, serve, service_of


def start(
    world: World, kind: str, places: int, acceptor: Callable[..., Steps], attendant: Callable[..., Steps]
) -> None:
    """Spawns an attendant, called `kind` and a number, for each connection, and who accepts those that do not stand yet."""
    service, ready, free = service_of(world, len(world.connections)), Inbox(), Semaphore(places)
    listen(world, ready)
    for connection in world.connections:
        connection.at_server = Inbox()
        if connection.accepted and free.count == 0:  # it waits for one to end that never does
            continue
        if connection.accepted:
            free.count -= 1
        world.spawn(f"{kind} {connection.index}", "server", attendant, connection, service, free)
    if any(not connection.accepted for connection in world.connections):
        world.spawn("acceptor", "server", acceptor, ready, free)


def accept_all(world: World, thread: Thread, ready: Inbox, free: Semaphore, cost: float) -> Steps:
    """Accepts at that cost each; the attendant has been waiting here, as none can be made while the model runs."""
    while True:
        yield from free.acquire(thread)
        yield from ready.wait(world, thread)
        connection = ready.items.popleft()
        yield thread.run(cost)
        yield from accept(world, connection, thread)


def attend(
    world: World, thread: Thread, connection: Connection, service: Service, free: Semaphore, ending: float
) -> Steps:
    """Answers until the connection ends, which costs `ending`; then there is room for another.

    Whether a reply is the last is asked before it is sent: by the time that is done the client may have connected again.
    """
    cost, inbox = world.cost("select.event"), connection.at_server
    assert inbox is not None
    while True:
        yield from inbox.wait(world, thread)
        inbox.items.clear()
        last = ended(connection)
        if not last:
            last = connection.once and connection.request.rounds == 0
            price = cost + way(world, connection, connection.server, thread)
            yield from serve(world, thread, service, connection.request, price)
            yield from reply(world, connection, thread)
        if last:
            if ending > 0.0:
                yield thread.run(ending)
            price = free.release(world, thread)
            if price > 0.0:
                yield thread.run(price)
