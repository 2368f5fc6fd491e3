"""The epoll server: an event loop whose poll does not see idle connections.

All but the poll is the select server's code, and costs the same (select.event); the poll is the generator's (load.poll).
"""

from __future__ import annotations

from models.des.eventloop import start, turn
from models.des.parts import Inbox
from models.des.records import Steps, Thread, World
from models.des.service import Service

COSTS = ("select.event", "load.poll")


def build(world: World) -> None:
    start(world, _loop)


def _loop(world: World, thread: Thread, ready: Inbox, service: Service, connections: int) -> Steps:
    while True:
        yield from turn(
            world, thread, ready, service, world.cost("load.poll"), 0.0, world.cost("select.event")
        )
