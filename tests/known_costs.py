"""Costs of a machine that never was, with intervals: for predictions that need no calibration."""

from __future__ import annotations

import numpy as np

from models.costs import Cost, Costs, Covariance, Demand, demand_key
from models.scenario import Scenario

VALUES = {
    "machine.wake_waker": 7e-6, "machine.wake_sleeper": 6e-6, "machine.wake_latency": 8e-6,
    "machine.wake_socket": 1e-6, "machine.wake_futex": 7e-7, "machine.switch": 1.3e-6, "machine.block": 1.2e-6,
    "machine.fork": 8e-5, "machine.accept": 2.2e-5, "load.connect": 3e-5, "load.poll": 4e-7, "load.timer": 6e-6,
    "load.event": 5e-6, "select.event": 5e-6,
    "select.poll": 6e-7,
    "select.poll_connection": 4e-8, "select.watch_connection": 2e-7,
    "sbuf.acceptor": 1.3e-6, "sbuf.worker": 6.5e-6, "queues.connection": 9.5e-6,
    "queues.worker": 2.7e-6, "queues.spin_held": 0.4,
}  # fmt: skip
FITTED = ("load.event", "select.event", "sbuf.worker", "machine.wake_waker")
CORRELATION = -0.4


def costs(scenario: Scenario, error: float = 0.1, cpus: int = 2) -> Costs:
    """Costs whose standard errors are such a share of them; those that were fitted together are correlated."""
    scale = np.array([VALUES[name] * error for name in FITTED])
    matrix = np.outer(scale, scale) * (CORRELATION / 3 + (1 - CORRELATION / 3) * np.eye(len(FITTED)))
    table = {
        name: Cost(
            value,
            value * (1 - 1.96 * error),
            value * (1 + 1.96 * error),
            unit="share" if name.endswith("held") else "s",
        )
        for name, value in VALUES.items()
    }
    work = np.random.default_rng(7).exponential(2e-6, 200)
    demand = Demand(
        tuple(i % 3 if scenario.service == "stock" else 0 for i in range(200)),
        (3e-7,) * 200,
        (4e-7,) * 200,
        tuple((seconds,) for seconds in work.tolist()),
        0,
    )
    covariance = Covariance(FITTED, tuple(tuple(row) for row in matrix.tolist()))
    return Costs(cpus, table, demands={demand_key(scenario): demand}, covariance=covariance)
