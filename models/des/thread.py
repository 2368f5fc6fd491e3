"""The thread server: a thread for each connection, which receives, works and answers with blocking calls.

What it does for a request is what the select loop does for one: a receive, the service's work, a send. So that costs what it
costs there, select.event, without the readiness call; that the thread slept and had to be switched to, comes out.

threads: so many connections are served at once, and the acceptor leaves further ones in the accept queue until one ends.
"""

from __future__ import annotations

from models.des.blocking import accept_all, attend, start
from models.des.parts import Connection, Inbox, Semaphore
from models.des.records import Steps, Thread, World
from models.des.service import Service

COSTS = ("select.event", "select.poll", "machine.thread_create")


def build(world: World) -> None:
    start(world, "connection", int(world.scenario.number("threads")), _accept, _attend)


def _accept(world: World, thread: Thread, ready: Inbox, free: Semaphore) -> Steps:
    yield from accept_all(
        world, thread, ready, free, world.cost("select.poll") + world.cost("machine.thread_create")
    )


def _attend(world: World, thread: Thread, connection: Connection, service: Service, free: Semaphore) -> Steps:
    yield from attend(world, thread, connection, service, free, 0.0)
