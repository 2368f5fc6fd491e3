"""The fork server: a process for each connection, which receives, works and answers with blocking calls.

What it does for a request is what the thread server does, at the same costs; a connection costs a process more. Of
machine.fork, which is the making and the end of one, the acceptor pays one half and the process the other when its
connection has ended.

children: so many connections are served at once, and the acceptor leaves further ones in the accept queue until one ends.
"""

from __future__ import annotations

from models.des.blocking import accept_all, attend, start
from models.des.parts import Connection, Inbox, Semaphore
from models.des.records import Steps, Thread, World
from models.des.service import Service

COSTS = ("select.event", "select.poll", "machine.fork")


def build(world: World) -> None:
    start(world, "process", int(world.scenario.number("children")), _accept, _attend)


def _accept(world: World, thread: Thread, ready: Inbox, free: Semaphore) -> Steps:
    yield from accept_all(
        world, thread, ready, free, world.cost("select.poll") + world.cost("machine.fork") / 2
    )


def _attend(world: World, thread: Thread, connection: Connection, service: Service, free: Semaphore) -> Steps:
    yield from attend(world, thread, connection, service, free, world.cost("machine.fork") / 2)
