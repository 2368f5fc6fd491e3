"""The iterative server: one thread that serves one connection until it ends, then the next of the accept queue.

What it does for a request is what the select loop does for one, and costs the same (select.event). Where connections are kept,
all but the first wait for ever.
"""

from __future__ import annotations

from models.des.listening import accept, listen
from models.des.parts import Inbox, ended, reply, way
from models.des.records import Steps, Thread, World
from models.des.service import Service, serve, service_of

COSTS = ("select.event", "select.poll")


def build(world: World) -> None:
    ready = Inbox()
    listen(world, ready)
    for connection in world.connections:
        connection.at_server = Inbox()
        if connection.accepted:  # it stood before the run
            ready.items.append(connection)
    world.spawn("loop", "server", _loop, ready, service_of(world, 1))


def _loop(world: World, thread: Thread, ready: Inbox, service: Service) -> Steps:
    poll, event = world.cost("select.poll"), world.cost("select.event")
    while True:
        yield thread.run(poll)
        world.count("polls")
        yield from ready.wait(world, thread)
        connection = ready.items.popleft()
        inbox = connection.at_server
        assert inbox is not None
        if not connection.accepted:
            yield from accept(world, connection, thread)
        while connection.accepted:
            yield from inbox.wait(world, thread)
            inbox.items.clear()
            if not ended(connection):
                cost = event + way(world, connection, thread)
                yield from serve(world, thread, service, connection.request, cost)
                yield from reply(world, connection, thread)
