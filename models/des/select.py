"""The select server: an event loop whose poll looks at every connection.

A poll that finds nothing puts itself into the queue of every connection's waiters, and takes itself out of them when it
wakes.
"""

from __future__ import annotations

from models.des.eventloop import start, turn
from models.des.parts import Inbox
from models.des.records import Steps, Thread, World
from models.des.service import Service

COSTS = ("select.event", "select.poll", "select.poll_connection", "select.watch_connection")


def build(world: World) -> None:
    start(world, scan)


def scan(world: World, thread: Thread, ready: Inbox, service: Service, connections: int) -> Steps:
    poll = world.cost("select.poll") + world.cost("select.poll_connection") * connections
    watch = world.cost("select.watch_connection") * connections
    while True:
        yield from turn(world, thread, ready, service, poll, watch, world.cost("select.event"))
