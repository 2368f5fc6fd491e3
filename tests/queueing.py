"""Queueing stations as programs that both engines run, for tests against exact theory."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from models.des.parts import Semaphore
from models.des.records import Distribution, Fifo, Record, Steps, Thread, World
from models.quantiles import interval

COMPILED = importlib.util.find_spec("models.des.compiled_engine") is not None
ENGINES = [
    "simpy",
    pytest.param("compiled", marks=pytest.mark.skipif(not COMPILED, reason="not built yet")),
]
Build = Callable[[World], None]


def agrees(values: Sequence[float], truth: float, width: float) -> None:
    """The interval of replications holds the truth, and is narrow enough to tell other systems from this one.

    The truth may lie in the 99.9 % interval, as some fifty are looked at; the width is that of the 99 % interval.
    """
    wide, found = interval(values, level=0.999), interval(values, level=0.99)
    assert wide.low <= truth <= wide.high, f"{wide} lacks {truth}"
    assert found.high - found.low < width * truth, f"{found} is too wide"


def mean_responses(outcomes: Sequence[object]) -> list[float]:
    return [float(np.mean(outcome.responses)) for outcome in outcomes]  # type: ignore[attr-defined]


@dataclass(eq=False)
class Station(Record):
    """A queue before so many servers; room: places in all, those in service included."""

    demand: Distribution
    arrivals: Distribution
    room: int
    inside: int = 0
    waiting: Fifo[float] = field(default_factory=Fifo)
    idle: Fifo[Thread] = field(default_factory=Fifo)


def open_station(
    servers: int, gap: float, demand: float, kind: str = "exponential", room: int = 1_000_000
) -> Build:
    """Poisson arrivals at servers with one queue: M/M/m, M/M/m/K, or M/G/1 by the kind of demand."""

    def build(world: World) -> None:
        station = Station(world.distribution(kind, demand), world.distribution("exponential", gap), room)
        for number in range(servers):
            world.agent(f"server {number}", serve, station)
        world.agent("source", arrive, station)

    return build


def arrive(world: World, thread: Thread, station: Station) -> Steps:
    while True:
        yield thread.run(station.arrivals.draw())
        world.count("arrivals")
        if station.inside >= station.room:
            world.count("lost")
            continue
        world.entered()
        station.inside += 1
        station.waiting.append(world.now)
        if station.idle:
            thread.wake(station.idle.popleft(), 0.0)


def serve(world: World, thread: Thread, station: Station) -> Steps:
    while True:
        while not station.waiting:
            station.idle.append(thread)
            yield thread.sleep()
        came = station.waiting.popleft()
        yield thread.run(station.demand.draw())
        station.inside -= 1
        world.completed(0, world.now - came)


@dataclass(eq=False)
class Stop(Record):
    """A station of a closed network: servers, its demand, and where customers go from it: to the next one or the first."""

    servers: Semaphore
    demand: Distribution
    onward: float


@dataclass(eq=False)
class Network(Record):
    think: Distribution
    stops: list[Stop]


def closed_network(clients: int, think: float, stops: Sequence[tuple[int, float, float]]) -> Build:
    """Clients that think and then visit stations: servers, mean demand, share that goes on to the next one."""

    def build(world: World) -> None:
        rows = [Stop(Semaphore(m), world.distribution("exponential", d), p) for m, d, p in stops]
        network = Network(world.distribution("exponential", think), rows)
        for number in range(clients):
            world.agent(f"client {number}", visit, network)

    return build


def visit(world: World, thread: Thread, network: Network) -> Steps:
    while True:
        yield thread.pause(network.think.draw())
        due = world.now
        world.entered()
        at = 0
        while at < len(network.stops):
            stop = network.stops[at]
            yield from stop.servers.acquire(thread)
            yield thread.run(stop.demand.draw())
            stop.servers.release(world, thread)
            at = at + 1 if world.uniform() < stop.onward else len(network.stops)
        world.completed(0, world.now - due)


def threads_that_think(clients: int, think: float, demand: float) -> Build:
    """Threads of the machine that think, which needs no CPU, and then compute."""

    def build(world: World) -> None:
        network = Network(world.distribution("exponential", think), [])
        for number in range(clients):
            world.spawn(str(number), "clients", compute, network, world.distribution("exponential", demand))

    return build


def compute(world: World, thread: Thread, network: Network, demand: Distribution) -> Steps:
    while True:
        seconds = network.think.draw()
        due = world.now + seconds  # a CPU may come later
        world.at(seconds, enter)
        yield thread.pause(seconds)
        yield thread.run(demand.draw())
        world.completed(0, world.now - due)


def enter(world: World) -> None:
    world.entered()


def product_form(clients: int, think: float, stops: Sequence[tuple[int, float, float]]) -> float:
    """Throughput of that network by convolution (Buzen 1973, eq. 8, with queue-dependent servers)."""
    visits, constants = 1.0, [think**n / math.factorial(n) for n in range(clients + 1)]
    for servers, demand, onward in stops:
        load = visits * demand
        factors = [1.0]
        for n in range(1, clients + 1):
            factors.append(factors[-1] * load / min(n, servers))
        constants = [
            math.fsum(constants[n - k] * factors[k] for k in range(n + 1)) for n in range(clients + 1)
        ]
        visits *= onward
    return constants[clients - 1] / constants[clients]


def erlang_c(servers: int, offered: float) -> float:
    """Share of arrivals that wait in M/M/m."""
    terms = [1.0]
    for n in range(1, servers + 1):
        terms.append(terms[-1] * offered / n)
    last = terms[servers] * servers / (servers - offered)
    return last / (math.fsum(terms[:servers]) + last)
