"""Runs a scenario's model: the threads of server and load on a simulated machine, and what they recorded."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import simpy
from simpy.core import EmptySchedule

from models import quantiles
from models.costs import Costs, Demand
from models.des.machine import Machine, Prices, Scheduler
from models.des.parts import Connection, Request
from models.metrics import Estimate, Metrics
from models.scenario import Scenario, ScenarioError

MACHINE_COSTS = ("wake_waker", "wake_sleeper", "wake_latency", "wake_socket", "wake_futex", "switch", "block")
WARMUP_SHARE = 0.25  # of the time for a replication, at most


class World:
    """One replication: the clock, the machine, the requests and the tallies."""

    def __init__(self, scenario: Scenario, costs: Costs, seed: np.random.SeedSequence) -> None:
        load, server = _module(scenario.load), _module(scenario.server)
        refuse(scenario, load, server)
        self.scenario, self.costs = scenario, costs
        self.env = simpy.Environment()
        prices = Prices(*(costs[f"machine.{name}"] for name in MACHINE_COSTS))
        scheduler = Scheduler.of(costs.cpus, packs=costs.packs, pull=costs.pull)
        self.machine = Machine(self.env, costs.cpus, prices, scheduler)
        self.connections: list[Connection] = []
        self.random = np.random.default_rng(seed)
        self._requests = self._draw(costs.demand(scenario))
        self.counts: dict[str, float] = {}
        self.responses: list[tuple[int, float]] = []
        load.build(self)
        server.build(self)

    def cost(self, name: str) -> float:
        return self.costs[name]

    def _draw(self, demand: Demand) -> Iterator[Request]:
        """Sampled requests in a random order, over and over: the sample's mean is kept exactly."""
        while True:
            for i in self.random.permutation(len(demand.fixed)):
                yield Request(
                    demand.operations[i],
                    demand.fixed[i],
                    list(demand.tasks[i]),
                    demand.client[i],
                    demand.rounds,
                )

    def next_request(self) -> Request:
        return next(self._requests)

    def think(self) -> Iterator[float] | None:
        """Think times, s; None when clients do not think."""
        mean = self.scenario.number("think")
        return _thinks(self.random, str(self.scenario["think_dist"]), mean) if mean > 0 else None

    def count(self, name: str, amount: float = 1.0) -> None:
        self.counts[name] = self.counts.get(name, 0.0) + amount

    def completed(self, request: Request, now: float) -> None:
        """A client has its reply."""
        self.responses.append((request.operation, now - request.sent))

    def used(self, group: str) -> float:
        """Processor time that the threads of a group have used, s."""
        for cpu in self.machine.cpus:
            cpu.charge()
        return sum(thread.used for thread in self.machine.threads if thread.group == group)

    def slept(self, group: str) -> int:
        return sum(t.slept + t.switched for t in self.machine.threads if t.group == group)


def _thinks(random: np.random.Generator, kind: str, mean: float) -> Iterator[float]:
    while True:
        yield from draw(random, kind, mean, 1024).tolist()


def draw(random: np.random.Generator, kind: str, mean: float, size: int) -> Any:
    """Durations of the named distribution, as pyx/csrc/core/distribution.h defines them."""
    if kind == "constant":
        return np.full(size, mean)
    if kind == "two_point":
        return np.where(random.random(size) < 0.9, 0.5, 5.5) * mean
    if kind == "lognormal":
        variance = np.log1p(4.0)
        return mean * random.lognormal(-variance / 2, np.sqrt(variance), size)
    if kind == "hyperexponential":
        p = (1 + np.sqrt(3 / 5)) / 2
        share = np.where(random.random(size) < p, p, 1 - p)
        return mean / (2 * share) * random.standard_exponential(size)
    return mean * random.standard_exponential(size)


def _module(name: str) -> Any:
    """The model of a server or load: a file with `build`, and optionally UNMODELLED, values of its knobs to refuse."""
    path = f"models.des.{name}"
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise ScenarioError(f"{name} has no simulation model yet") from error
    if not hasattr(module, "build"):
        raise ScenarioError(f"{name} has no simulation model yet")
    return module


def refuse(scenario: Scenario, *modules: Any) -> None:
    """Raises ScenarioError, a line for each setting that would change the measured result but not the predicted one."""
    errors = [
        f"{module.__name__.rpartition('.')[2]} has no model for {knob}={scenario[knob]} yet"
        for module in modules
        for knob, values in getattr(module, "UNMODELLED", {}).items()
        if scenario.get(knob) in values
    ]
    errors += [
        f"the simulated machine has no model for {knob}={scenario[knob]} yet: leave it empty"
        for knob in ("server_cpus", "load_cpus")
        if scenario.get(knob)
    ]
    if scenario.get("demand_kind") == "sleep" and scenario["demand"]:
        errors.append("the simulated machine has no model for demand_kind=sleep yet")
    if errors:
        raise ScenarioError("\n".join(errors))


def _replicate(
    scenario: Scenario, costs: Costs, seed: np.random.SeedSequence, replies: int, until: float
) -> Any:
    """One replication: a warm-up, then `replies` replies, or as many as come before the wall clock says stop."""
    world = World(scenario, costs, seed)
    step = max(64, replies // 20)
    warm = max(200, replies // 5, 2 * len(world.connections))
    now = time.perf_counter()
    _advance(world, warm, now + (until - now) * WARMUP_SHARE)
    start, before = world.env.now, _snapshot(world)
    world.responses.clear()
    while len(world.responses) < replies and time.perf_counter() < until:
        if not _advance(world, len(world.responses) + step, until):
            break
    span = world.env.now - start
    after = _snapshot(world)
    return world, span, {name: after[name] - before.get(name, 0.0) for name in after}


def _advance(world: World, replies: int, until: float) -> bool:
    """Simulates up to so many replies, or a few more; False when nothing more happens or time is up."""
    step, responses = world.env.step, world.responses
    rounds = 0
    try:
        while len(responses) < replies:
            for _ in range(16):
                step()
            rounds += 1
            if rounds % 256 == 0 and time.perf_counter() > until:
                return False
    except EmptySchedule:
        return False
    return True


def _snapshot(world: World) -> dict[str, float]:
    return {
        **world.counts,
        "server_cpu": world.used("server"),
        "load_cpu": world.used("load"),
        "switches": world.slept("server"),
        "load_sleeps": world.slept("load"),
    }


def predict(
    scenario: Scenario, costs: Costs, *, replications: int = 3, replies: int = 4000, budget: float = 4.0
) -> tuple[Metrics, dict[str, Any]]:
    """Simulates the scenario.

    Parameters
    ----------
    scenario : Scenario
    costs : Costs
        With the scenario's demand in it.
    replications : int
        Independent replications, over which the intervals are taken.
    replies : int
        Replies in each, after a warm-up of a fifth as many.
    budget : float
        Wall-clock seconds at most; shorter runs give wider intervals.

    Returns
    -------
    metrics : Metrics
    engine : dict
        {name, jobs_per_second}: simulated replies per second of wall clock.

    Raises
    ------
    ScenarioError
        When there is no model for a part of the scenario.
    MissingCost
        When the costs lack something that the model needs.
    """
    begun = time.perf_counter()
    seeds = np.random.SeedSequence(scenario.seed, spawn_key=(int(scenario.key, 16) % 2**32,)).spawn(
        replications
    )
    runs = []
    for i, seed in enumerate(seeds):
        share = begun + budget * (i + 1) / replications
        runs.append(_replicate(scenario, costs, seed, replies, share))
    total = sum(len(world.responses) for world, _, _ in runs)
    engine = {"name": "simpy", "jobs_per_second": total / (time.perf_counter() - begun)}
    return _metrics(scenario, costs, runs), engine


def _metrics(scenario: Scenario, costs: Costs, runs: list[Any]) -> Metrics:
    rates = [len(world.responses) / span if span > 0 else 0.0 for world, span, _ in runs]
    total = sum(len(world.responses) for world, _, _ in runs)
    if not total:
        return Metrics(Estimate(float("nan")), Estimate(float("nan")))
    every = np.array([time for world, _, _ in runs for _, time in world.responses])
    kinds = np.array([kind for world, _, _ in runs for kind, _ in world.responses])
    means = [float(np.mean([time for _, time in world.responses])) for world, _, _ in runs if world.responses]
    span = sum(span for _, span, _ in runs)
    sums: dict[str, float] = {}
    for _, _, difference in runs:
        for name, value in difference.items():
            sums[name] = sums.get(name, 0.0) + value
    server, load = sums["server_cpu"], sums["load_cpu"]
    p50, p90, p99 = (float(q) for q in np.quantile(every, (0.5, 0.9, 0.99)))
    utilisation = {
        "cpu": (server + load) / (costs.cpus * span),
        "server_cpu": server / (costs.cpus * span),
        "load_cpu": load / (costs.cpus * span),
        "load_thread": load / span,
    }
    workers = scenario.get("workers")
    if workers and "busy" in sums:
        utilisation["worker"] = sums["busy"] / (span * workers)
    names = _operation_names(scenario.service)
    return Metrics(
        throughput=quantiles.interval(rates),
        response=quantiles.interval(means),
        p50=p50,
        p90=p90,
        p99=p99,
        operations={
            names[k]: (float((kinds == k).sum()) / span, float(every[kinds == k].mean()))
            for k in np.unique(kinds)
        },
        utilisation=utilisation,
        counters={name: value / total for name, value in sums.items()},
    )


def _operation_names(service: str) -> list[str]:
    from models import knobs

    names = knobs.variants("service")[service]["operations"]
    assert isinstance(names, list)
    return names
