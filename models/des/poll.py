"""The poll server: an event loop whose poll looks at every connection, which costs what it costs select.

Measured beside 1000 idle connections, each of them made a request 42 ns dearer on poll and 40 ns on select.
"""

from __future__ import annotations

from models.des.eventloop import start
from models.des.records import World
from models.des.select import COSTS as SELECT_COSTS
from models.des.select import scan

COSTS = SELECT_COSTS


def build(world: World) -> None:
    start(world, scan)
