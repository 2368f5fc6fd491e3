"""Two event loops on two CPUs: a server that answers a few bytes, and wrk with one thread, as programs; and what they were
measured to do (tests/data/two_loops.csv). Also a server with a thread for each connection.

wrk takes two turns for a reply: it reads what is readable and asks to be told when it can write, which the next poll does,
and then sends. A plain loop would answer each reply at once.
"""

from __future__ import annotations

import csv
import importlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.des.engine import ENGINES
from models.des.machine import Scheduler
from models.des.model import Model, Run
from models.des.outcome import Outcome
from models.des.parts import Connection, Inbox, send
from models.des.records import Fifo, Record, Steps, Thread, World

DATA = Path(__file__).parent / "data" / "two_loops.csv"
SCATTER = 0.4  # between an event's shortest and longest time, as a share: no two are quite alike
RATE_ERROR, CPU_ERROR = 0.03, 0.04


@dataclass(frozen=True, slots=True)
class Row:
    """A measured configuration; CPU in s a request, 0: not measured; error: of the median, a share."""

    server_name: str
    connections: int
    demand: float
    throughput: float
    low: float
    high: float
    server: float
    load: float
    switches: float
    error: float


def measured(server: str = "epoll") -> list[Row]:
    """The rows of one server."""
    with DATA.open() as file:
        lines = csv.DictReader(line for line in file if not line.startswith("#"))
        return [_row(line) for line in lines if line["server"] == server]


def _row(line: Mapping[str, str]) -> Row:
    def number(name: str) -> float:
        return float(line[name] or 0.0)

    rate = number("throughput")
    # The range of 8 normal values is 2.85 standard deviations; a median's error is 1.25 of a mean's.
    error = (number("throughput_high") - number("throughput_low")) / rate / 2.85 * 1.25 / 8**0.5
    return Row(
        line["server"],
        int(line["connections"]),
        number("demand_us") * 1e-6,
        rate,
        number("throughput_low"),
        number("throughput_high"),
        number("server_cpu_us") * 1e-6,
        number("load_cpu_us") * 1e-6,
        number("server_switches"),
        error,
    )


@dataclass(eq=False, slots=True)
class Wrk(Record):
    """The generator: replies to read, and connections that it can write to."""

    replies: Inbox = field(default_factory=Inbox)
    writable: Fifo[Connection] = field(default_factory=Fifo)


class System:
    """The rows' configurations, made ready for an engine."""

    def __init__(self, rows: Sequence[Row], costs: Mapping[str, float], engine: str) -> None:
        module = importlib.import_module(ENGINES[engine])
        scheduler = Scheduler.of(2)
        self.runs: list[Run] = [
            module.prepare(Model(_builder(row), 2, scheduler, dict(costs))) for row in rows
        ]

    def outcomes(self, costs: Mapping[str, float], replies: int) -> list[Outcome]:
        """Of each row with these costs, s."""
        until = time.perf_counter() + 60.0
        return [run.replicate(1, 500, replies, until=until, costs=costs) for run in self.runs]


def residuals(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> NDArray[np.float64]:
    """Of throughput, CPU a request on either side and switches a request, in standard errors.

    Those are the measurement's own, and what a model of so few costs is allowed.
    """
    found = []
    for row, outcome in zip(rows, outcomes, strict=True):
        replies, groups = len(outcome.responses), outcome.groups
        cpu = math.hypot(0.7 * row.error, CPU_ERROR)
        found += [
            math.log(replies / outcome.span / row.throughput) / math.hypot(row.error, RATE_ERROR),
            math.log(groups["server"].used / replies / row.server) / cpu,
            math.log(groups["load"].used / replies / row.load) / cpu,
            (groups["server"].slept / replies - row.switches) / (0.03 + 0.1 * row.switches),
        ]
    return np.array(found)


def _builder(row: Row) -> Callable[[World], None]:
    def build(world: World) -> None:
        wrk, requests = Wrk(), Inbox()
        for index in range(row.connections):
            inbox = requests if row.server_name == "epoll" else Inbox()
            connection = Connection(index, at_client=wrk.replies, at_server=inbox)
            wrk.writable.append(connection)
            if row.server_name == "thread":
                world.spawn(f"server {index}", "server", _serve_one, connection, inbox)
        if row.server_name == "epoll":
            world.spawn("server", "server", _serve, requests, row.demand)
        world.spawn("wrk", "load", _wrk, wrk)

    return build


def _scattered(world: World) -> float:
    return 1.0 + SCATTER * (world.uniform() - 0.5)


def _serve(world: World, thread: Thread, requests: Inbox, demand: float) -> Steps:
    poll, event = world.cost("server.poll"), world.cost("server.event")
    while True:
        yield thread.run(poll)
        yield from requests.wait(world, thread)
        for connection in requests.items.drain():
            yield thread.run(event * _scattered(world) + demand)
            yield from send(world, connection, connection.at_client, thread)


def _serve_one(world: World, thread: Thread, connection: Connection, requests: Inbox) -> Steps:
    event = world.cost("server.event")
    while True:
        yield from requests.wait(world, thread)
        requests.items.clear()
        yield thread.run(event * _scattered(world))
        yield from send(world, connection, connection.at_client, thread)


def _wrk(world: World, thread: Thread, wrk: Wrk) -> Steps:
    poll, half = world.cost("wrk.poll"), world.cost("wrk.event") / 2
    while True:
        yield thread.run(poll)
        if not wrk.writable:
            yield from wrk.replies.wait(world, thread)
        readable = len(wrk.replies.items)
        for connection in wrk.writable.drain():
            yield thread.run(half * _scattered(world))
            connection.request.sent = world.now
            yield from send(world, connection, connection.at_server, thread)
        for _ in range(readable):
            connection = wrk.replies.items.popleft()
            yield thread.run(half * _scattered(world))
            world.completed(0, world.now - connection.request.sent)
            wrk.writable.append(connection)
