"""The compiled engine beside the SimPy engine, for every model, and beside a plain SimPy program of the closed queue.

Both are asked in turn and timed by the processor time of their one thread, which is wall-clock time on a core of its own.
"""

from __future__ import annotations

import importlib.util
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import simpy
from modelled import costs_for
from queueing import closed_network

from models import Scenario, knobs
from models.des import engine
from models.des.machine import Scheduler
from models.des.model import Model

ROUNDS = 7
FASTER = 30  # than the SimPy engine, for every model
FASTER_THAN_PLAIN = 50
ROOM = 0.8  # for what a busy machine takes from one and not from the other; the table has the figure itself
LOADS: dict[str, dict[str, Any]] = {
    "closed": {"clients": 50},
    "open": {"clients": 50, "arrival_rate": 2000},
    "forked": {"clients": 20, "requests": 200},
}


def each(jobs: int, work: Callable[[], object]) -> float:
    """Seconds of processor time that a job takes."""
    begin = time.thread_time()
    work()
    return (time.thread_time() - begin) / jobs


def compare(benchmark: Any, slow: Callable[[], float], fast: Callable[[], float]) -> float:
    """How many times as long the slow one takes: the median, in alternation. The table shows it beside the fast one."""
    fast()
    pairs = [(slow(), fast()) for _ in range(ROUNDS)]
    ratios = sorted(a / b for a, b in pairs)
    benchmark.pedantic(fast, rounds=1)
    benchmark.extra_info |= {
        "times": round(statistics.median(ratios), 1),
        "times_from_to": [round(ratios[0], 1), round(ratios[-1], 1)],
        "jobs_per_second": round(1 / statistics.median(b for _, b in pairs)),
    }
    return statistics.median(ratios)


def modelled() -> list[tuple[str, str]]:
    """Every server with a model, under every load that has one."""
    loads = [name for name in knobs.variants("load") if name in LOADS]
    return [(name, load) for name in knobs.variants("server") for load in loads if has_model(name)]


def has_model(name: str) -> bool:
    return importlib.util.find_spec(f"models.des.{name}") is not None


def timed(run: Any, replies: int) -> Callable[[], float]:
    seeds = iter(range(1, 1000))

    def once() -> float:
        return each(replies, lambda: run.replicate(next(seeds), 0, replies, until=time.perf_counter() + 60))

    return once


@pytest.mark.parametrize(("server", "load"), modelled())
def test_every_model_runs_thirty_times_as_fast_compiled(benchmark: Any, server: str, load: str) -> None:
    service = "prime" if server == "queues" else "stock"
    scenario = Scenario.of(service, server, load, options=LOADS[load])
    model = engine.model_of(scenario, costs_for(scenario))
    slow, fast = (
        timed(importlib.import_module(engine.ENGINES[name]).prepare(model), replies)
        for name, replies in (("simpy", 1500), ("compiled", 4000 if load == "forked" else 60_000))
    )
    assert compare(benchmark, slow, fast) > FASTER


def plain_simpy(clients: int, servers: int, think: float, jobs: int) -> None:
    """The closed queue as one writes it in SimPy at first."""
    env, responses = simpy.Environment(), []
    pool = simpy.Resource(env, servers)

    def client() -> Iterator[Any]:
        while True:
            yield env.timeout(random.expovariate(1 / think))
            begin = env.now
            with pool.request() as turn:
                yield turn
                yield env.timeout(random.expovariate(1.0))
            responses.append(env.now - begin)

    for _ in range(clients):
        env.process(client())
    while len(responses) < jobs:
        env.step()


@pytest.mark.parametrize(("clients", "servers", "think"), [(10, 2, 4.0), (50, 4, 10.0)])
def test_the_closed_queue_runs_fifty_times_as_fast_as_a_plain_simpy_program(
    benchmark: Any, clients: int, servers: int, think: float
) -> None:
    model = Model(closed_network(clients, think, [(servers, 1.0, 0.0)]), 1, Scheduler.of(1))
    fast = timed(importlib.import_module(engine.ENGINES["compiled"]).prepare(model), 400_000)

    def slow() -> float:
        return each(8000, lambda: plain_simpy(clients, servers, think, 8000))

    assert compare(benchmark, slow, fast) > ROOM * FASTER_THAN_PLAIN
