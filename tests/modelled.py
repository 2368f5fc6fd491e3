"""Costs and demands that the tests of the models predict with; made up, of the right size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from models.costs import Cost, Costs, Demand, demand_key
from models.scenario import Scenario

COSTS = {
    "machine.wake_waker": 8e-6, "machine.wake_sleeper": 7e-6, "machine.wake_latency": 15e-6,
    "machine.wake_socket": 2.5e-6, "machine.wake_futex": 7e-7, "machine.switch": 1.3e-6, "machine.block": 1e-6,
    "machine.accept": 2e-5, "load.connect": 3e-5, "machine.thread_create": 1e-5, "machine.fork": 1e-4,
    "load.event": 5e-6, "load.poll": 4e-7, "load.timer": 6e-6,
    "select.event": 5e-6, "select.poll": 6e-7, "select.poll_connection": 4e-8, "select.watch_connection": 2e-7,
    "sbuf.acceptor": 1.3e-6, "sbuf.worker": 6.5e-6, "queues.connection": 9.5e-6, "queues.worker": 2.7e-6,
    "queues.spin_held": 0.4,
}  # fmt: skip
WAKES = ("wake_waker", "wake_sleeper", "wake_latency", "wake_socket", "wake_futex", "switch", "block")


def demand_of(service: str) -> Demand:
    """What requests of a service might cost."""
    random = np.random.default_rng(7)
    n = 300
    if service == "prime":
        tasks = tuple(tuple(row) for row in random.gamma(20, 6e-6, (n, 3)))
        return Demand((0,) * n, (2e-7,) * n, (5e-7,) * n, tasks, 1)
    tasks = tuple((seconds,) for seconds in random.exponential(1.5e-6 if service == "stock" else 5e-5, n))
    operations = tuple(i % 3 if service == "stock" else 0 for i in range(n))
    return Demand(operations, (3e-7,) * n, (4e-7,) * n, tasks, 0)


def costs_for(scenario: Scenario, cpus: int = 2, demand: Demand | None = None, **changed: float) -> Costs:
    """All costs, some changed (machine_fork=…), with the demand of the scenario's service."""
    table = {name: Cost(changed.get(name.replace(".", "_"), value)) for name, value in COSTS.items()}
    return Costs(cpus, table, demands={demand_key(scenario): demand or demand_of(scenario.service)})


def with_tasks(service: str, tasks: tuple[tuple[float, ...], ...]) -> Demand:
    """The service's demand with other tasks, repeated to its size."""
    demand = demand_of(service)
    rows = len(demand.fixed)
    return replace(demand, tasks=(tasks * rows)[:rows])
