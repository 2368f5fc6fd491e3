"""A service's sampled requests as columns of numbers, from which both engines' requests are drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models import knobs
from models.costs import Demand
from models.des.records import COLUMNS
from models.scenario import Scenario, ScenarioError

Column = NDArray[np.float64]
HELD = ("readers_writers", "rwlock")  # locks of stock that stay with a process that is killed
SHOW = 0  # the number of stock's operation that only reads


@dataclass(frozen=True, slots=True)
class Sample:
    """Sampled requests.

    Attributes
    ----------
    columns : dict of str to array of float
        By the names in records.COLUMNS, a row for each request.
    seconds : array of float
        Processor time of all their tasks, s.
    rounds : int
        Exchanges before the one that brings the reply.
    locks : int
        How many the column lock tells apart.
    """

    columns: dict[str, Column]
    seconds: Column
    rounds: int
    locks: int = 0

    def __len__(self) -> int:
        return len(self.columns["fixed"])

    @classmethod
    def of(cls, demand: Demand, scenario: Scenario | None = None) -> Sample:
        """The demand, with the locks that the scenario's service works under."""
        counts = np.array([len(tasks) for tasks in demand.tasks], dtype=float)
        lock, shared = _locks(demand, scenario)
        known = {
            "operation": demand.operations,
            "fixed": demand.fixed,
            "client": demand.client,
            "first": np.concatenate(([0.0], np.cumsum(counts)))[:-1],
            "tasks": counts,
            "lock": lock,
            "shared": shared,
        }
        columns = {name: np.asarray(known[name], dtype=float) for name in COLUMNS}
        seconds = np.array([s for tasks in demand.tasks for s in tasks], dtype=float)
        return cls(columns, seconds, demand.rounds, int(lock.max(initial=-1)) + 1)


def refuse_service(scenario: Scenario) -> None:
    """Raises ScenarioError where the service does not work as the models take it to, or not at all."""
    lock = scenario.get("lock")
    if lock in HELD and knobs.declared("server", scenario.server).get("processes"):
        raise ScenarioError(
            f"lock={lock}: server processes refuse it, as one that is killed would hold it for ever"
        )
    if lock == "none":
        raise ScenarioError(
            "stock has no model for lock=none, which loses orders; "
            "python -m harness predict --set lock=none supposes a lock that nobody ever waits for"
        )


def _locks(demand: Demand, scenario: Scenario | None) -> tuple[Column, Column]:
    """Which lock each request works under (-1: none), and whether with others.

    A stock's lock is held for a part of an order that is not measured apart: all of it is taken to be under the lock, which
    is the most there can be. A show holds one stock's lock after another, each too briefly to be waited for.
    """
    rows = len(demand.operations)
    none, alone = np.full(rows, -1.0), np.zeros(rows)
    if scenario is None or scenario.service != "stock" or not demand.locks:
        return none, alone
    if scenario["lock"] == "global":
        return np.zeros(rows), alone
    stocks = np.random.default_rng(scenario.seed).integers(int(scenario.number("stocks")), size=rows)
    orders = np.asarray(demand.operations) != SHOW
    lock = np.full(rows, -1.0)
    lock[orders] = np.unique(stocks[orders], return_inverse=True)[1]
    return lock, alone
