"""The select server: one thread that polls a batch of readable connections and answers each in turn.

A poll that finds nothing puts itself into the queue of every connection's waiters, and takes itself out of them when it
wakes: half of what that costs lies on either side of its sleep.
"""

from __future__ import annotations

from models.des.listening import accept, listen
from models.des.parts import Inbox, ended, reply, way
from models.des.records import Steps, Thread, World
from models.des.service import Service, serve, service_of

COSTS = ("select.event", "select.poll", "select.poll_connection", "select.watch_connection")


def build(world: World) -> None:
    ready = Inbox()
    for connection in world.connections:
        connection.at_server = ready
    listen(world, ready)
    world.spawn("loop", "server", _loop, ready, service_of(world, 1), len(world.connections))


def _loop(world: World, thread: Thread, ready: Inbox, service: Service, connections: int) -> Steps:
    event = world.cost("select.event")
    poll = world.cost("select.poll") + world.cost("select.poll_connection") * connections
    watch = world.cost("select.watch_connection") * connections / 2
    while True:
        yield thread.run(poll)
        world.count("polls")
        if not ready.items:
            yield thread.run(watch)
            yield from ready.wait(world, thread)
            yield thread.run(watch)
        else:
            yield from ready.wait(world, thread)
        for connection in ready.items.drain():
            if not connection.accepted:
                yield from accept(world, connection, thread)
            elif not ended(connection):
                yield from serve(
                    world,
                    thread,
                    service,
                    connection.request,
                    event + way(world, connection, connection.server, thread),
                )
                yield from reply(world, connection, thread)
