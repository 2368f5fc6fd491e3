"""Both engines on the models: one trajectory where nothing is drawn, intervals that agree where it is; how much faster."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from modelled import COSTS as KNOWN

from models import Scenario, ScenarioError, knobs
from models.costs import Cost, Costs, Demand, demand_key
from models.des import compiled_engine, simpy_engine
from models.des.engine import model_of
from models.des.machine import NEEDED
from models.des.model import Model

COSTS = {
    **KNOWN, "queues.spin_held": 0.0,  # nothing is drawn
    "machine.halts": 1e-4, "machine.halted_latency": 3e-6, "machine.cooling_waker": 1e-6, "machine.cooling_sleeper": 4e-6,
    "machine.cooling_latency": 2e-6, "machine.wake_remote": 2e-6, "machine.remote": 1.5e-6, "machine.contact": 8e-7,
    "machine.cools": 4e-4, "machine.cold_thread": 5e-6, "machine.cold_connection": 1.2e-6,
}  # fmt: skip

SERVERS: tuple[tuple[str, dict[str, str]], ...] = (
    ("select", {}),
    ("epoll", {}),
    ("sbuf", {"workers": "3"}),
    ("sbuf", {"hold": "connection"}),
    ("thread", {"threads": "4"}),
    ("thread", {"threads": "9"}),
    ("iterative", {}),
    ("fork", {"children": "9"}),
    ("queues", {"workers": "1", "accept": "thread"}),
    ("queues", {"workers": "1", "accept": "thread", "wait": "spin"}),
    ("queues", {"workers": "1", "accept": "epoll"}),
)


def model(server: str, options: dict[str, str], tasks: Sequence[tuple[float, ...]], **costs: float) -> Model:
    """A scenario's model whose requests have such tasks, s."""
    scenario = Scenario.of("prime", server, "closed", 1, options)
    n = len(tasks)
    demand = Demand((0,) * n, (3e-7,) * n, (4e-7,) * n, tuple(tasks), 1)
    table = {name: Cost(costs.get(name, value)) for name, value in COSTS.items()}
    return model_of(scenario, Costs(2, table, demands={demand_key(scenario): demand}))


@pytest.mark.parametrize(("server", "options"), SERVERS)
@pytest.mark.parametrize(("clients", "think"), [(1, "0.0003"), (3, "0"), (11, "0"), (11, "0.0003")])
def test_both_engines_follow_the_same_trajectory_where_nothing_is_drawn(
    server: str, options: dict[str, str], clients: int, think: str
) -> None:
    load = {"clients": str(clients), "think": think, "think_dist": "constant"}
    given_model = model(server, options | load, [(5e-5, 2e-5)])
    until = time.perf_counter() + 60
    slow, fast = (
        e.prepare(given_model).replicate(1, 50, 500, until=until) for e in (simpy_engine, compiled_engine)
    )
    np.testing.assert_allclose(fast.responses, slow.responses, rtol=1e-9)
    assert len(fast.responses) >= 500
    assert (fast.span, fast.in_system) == pytest.approx((slow.span, slow.in_system), rel=1e-9)
    for name, usage in slow.groups.items():
        assert fast.groups[name].used == pytest.approx(usage.used, rel=1e-9)
        assert (fast.groups[name].slept, fast.groups[name].switched) == (usage.slept, usage.switched)
    assert {n: v for n, v in fast.counters.items() if v} == pytest.approx(
        {n: v for n, v in slow.counters.items() if v}
    )


def replicated(engine: Any, given_model: Model, replications: int, replies: int) -> list[float]:
    run, until = engine.prepare(given_model), time.perf_counter() + 60
    return [
        run.replicate(seed, replies // 5, replies, until=until).throughput for seed in range(replications)
    ]


DRAWN = (
    ("select", {"clients": "5"}),
    ("sbuf", {"workers": "2", "clients": "6", "think": "0.0002"}),
    ("thread", {"clients": "6", "think": "0.0002"}),
    ("iterative", {"clients": "6", "connection": "per_request"}),
    ("fork", {"clients": "6", "children": "4", "connection": "per_request"}),
    ("queues", {"workers": "3", "clients": "4", "steal": "next"}),
    ("queues", {"workers": "2", "clients": "3", "wait": "spin", "accept": "thread"}),
)
STEALING = (
    ("queues", {"workers": "4", "clients": "4", "steal": "random"}),
    ("queues", {"workers": "4", "clients": "4", "steal": "richest"}),
    ("queues", {"workers": "3", "clients": "2", "steal": "random", "wait": "spin"}),
    ("queues", {"workers": "3", "clients": "2", "steal": "next_backoff", "wait": "spin", "accept": "thread"}),
)


@pytest.mark.parametrize(("server", "options"), DRAWN + STEALING)
def test_both_engines_agree_within_their_intervals_where_numbers_are_drawn(
    server: str, options: dict[str, str]
) -> None:
    random = np.random.default_rng(3)
    tasks = [tuple(row) for row in random.gamma(2, 2e-5, (200, 3))]
    given_model = model(server, options, tasks, **{"queues.spin_held": 0.4})
    slow, fast = (
        replicated(simpy_engine, given_model, 6, 600),
        replicated(compiled_engine, given_model, 24, 600),
    )
    spread = math.sqrt(np.var(slow, ddof=1) / len(slow) + np.var(fast, ddof=1) / len(fast))
    # Student's t with 5 degrees of freedom: 1 in 1000.
    assert abs(np.mean(slow) - np.mean(fast)) < 6.87 * spread


def costs_of(scenario: Scenario) -> Costs:
    table = {f"machine.{name}": Cost(1e-6) for name in NEEDED}
    return Costs(2, table, demands={demand_key(scenario): Demand((0,), (0.0,), (0.0,), ((1e-5,),), 0)})


def modelled() -> list[Scenario]:
    """Each server and load, and every word of the knobs of each, as far as there is a model."""
    found = []
    for server, load in itertools.product(knobs.variants("server"), knobs.variants("load")):
        for service in ("prime", "stock"):
            declared = knobs.of_parts(service, server, load)
            plain = (
                knobs.of_parts("prime", server, "closed") if (service, load) != ("prime", "closed") else {}
            )
            chosen = [k for k in declared.values() if k.type == "choice" and k.name not in plain]
            words = [{k.name: word} for k in chosen for word in k.allowed.split("|")]
            for options in ({}, {"workers": 3}, {"clients": 9, "think": 0.01}, *words):
                try:
                    scenario = Scenario.of(service, server, load, options=options)
                    model_of(scenario, costs_of(scenario))
                except ScenarioError:
                    continue
                found.append(scenario)
    return list(dict.fromkeys(found))


def test_every_model_compiles() -> None:
    every = modelled()
    servers = {scenario.server for scenario in every}
    assert servers >= {"iterative", "thread", "select", "poll", "epoll", "sbuf", "queues"}
    for scenario in every:
        compiled_engine.prepare(model_of(scenario, costs_of(scenario)))


@pytest.mark.parametrize(("server", "options"), DRAWN)
def test_how_much_faster_it_is(server: str, options: dict[str, str], capsys: Any) -> None:
    """At least 30 times, by jobs per second of processor time, which other work on the machine does not disturb."""
    given_model = model(server, options, [(5e-5, 2e-5)] * 10, **{"queues.spin_held": 0.4})
    rates: dict[Any, list[float]] = {simpy_engine: [], compiled_engine: []}
    runs = {engine: engine.prepare(given_model) for engine in rates}
    for _ in range(3):
        for engine, replies in ((simpy_engine, 400), (compiled_engine, 20000)):
            begun = time.process_time()
            runs[engine].replicate(1, 100, replies, until=time.perf_counter() + 30)
            rates[engine].append((100 + replies) / (time.process_time() - begun))
    slow, fast = (float(np.median(rates[engine])) for engine in (simpy_engine, compiled_engine))
    with capsys.disabled():
        print(
            f"\n{server} {options}: {fast:,.0f} jobs/s compiled, {slow:,.0f} by SimPy: {fast / slow:.0f} times"
        )
    assert fast >= 30 * slow
