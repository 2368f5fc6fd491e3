"""An event loop: one thread that answers a batch of readable connections, whatever readiness call it waits by."""

from __future__ import annotations

from collections.abc import Callable

from models.des.listening import admit, listen
from models.des.parts import Connection, Inbox, ended, reply, way
from models.des.records import Steps, Thread, World
from models.des.service import Service, serve, service_of


def start(world: World, loop: Callable[..., Steps]) -> None:
    """Spawns the loop over all connections."""
    ready = Inbox()
    for connection in world.connections:
        connection.at_server = ready
    listen(world, ready)
    world.spawn("loop", "server", loop, ready, service_of(world, 1), len(world.connections))


def turn(
    world: World, thread: Thread, ready: Inbox, service: Service, poll: float, watch: float, event: float
) -> Steps:
    """One poll, and what it finds: the readable connections, and one of those that wait to be accepted, with its request.

    Half of what it takes to watch all connections lies before a sleep, half after it.
    """
    yield thread.run(poll)
    world.count("polls")
    if watch > 0.0 and not ready.items:
        yield thread.run(watch / 2)
        yield from ready.wait(world, thread)
        yield thread.run(watch / 2)
    else:
        yield from ready.wait(world, thread)
    taken = False
    for connection in ready.items.drain():
        if connection.accepted:
            if not ended(connection):
                yield from _answer(world, thread, service, connection, event)
        elif taken:
            ready.items.append(connection)
        else:
            taken = True
            yield from admit(world, connection, thread)
            if connection.early:
                connection.early = False
                yield from _answer(world, thread, service, connection, event)


def _answer(world: World, thread: Thread, service: Service, connection: Connection, event: float) -> Steps:
    yield from serve(
        world, thread, service, connection.request, event + way(world, connection, connection.server, thread)
    )
    yield from reply(world, connection, thread)
