"""Simulates models: a scenario's, or programs of a user's own, by either engine, in independent replications."""

from __future__ import annotations

import importlib
import math
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from models import knobs, quantiles
from models.costs import FACTORS, Costs, Demand
from models.des import conservation
from models.des.machine import NEEDED, Scheduler
from models.des.model import Model, Run
from models.des.outcome import Outcome, Usage
from models.des.records import World
from models.des.sample import Sample, refuse_service
from models.metrics import Estimate, Metrics
from models.scenario import Scenario, ScenarioError

ENGINES = {"simpy": "models.des.simpy_engine", "compiled": "models.des.compiled_engine"}
DEFAULT = "compiled"
UNWARMED = 200  # replies before the window, at least


def predict(
    scenario: Scenario,
    costs: Costs,
    *,
    engine: str = DEFAULT,
    replications: int = 3,
    replies: int = 4000,
    budget: float = 4.0,
    precision: float = 0.0,
    drawn: Sequence[Costs] = (),
) -> tuple[Metrics, dict[str, Any]]:
    """Simulates the scenario.

    Parameters
    ----------
    scenario : Scenario
    costs : Costs
        With the scenario's demand in it.
    engine : str
        simpy or compiled.
    replications : int
        Independent replications, over which the intervals are taken.
    replies : int
        Replies in each, after a warm-up of a fifth as many.
    budget : float
        Wall-clock seconds at most; shorter runs give wider intervals.
    precision : float
        Stops as soon as the throughput's half-width is such a share of it; 0: makes all replications.
    drawn : sequence of Costs
        Costs of the replications, in turn, in place of the given ones.

    Returns
    -------
    metrics : Metrics
    engine : dict
        {name, jobs_per_second (simulated replies per second of wall clock, once the model is ready), replications}.

    Raises
    ------
    ScenarioError
        When there is no model for a part of the scenario.
    MissingCost
        When the costs lack something that the model needs.
    ConservationError
        When an answer breaks a law that holds for every system: the model is at fault.
    """
    begun = time.perf_counter()
    warm, replies = _window(scenario, replies)
    plan = [
        {
            "seed": seed,
            "warm": warm,
            "replies": replies,
            "costs": drawn[i % len(drawn)].values() if drawn else None,
        }
        for i, seed in enumerate(_seeds(scenario.seed, replications, int(scenario.key, 16) % 2**32))
    ]
    chosen = _engine(engine)
    run: Run = chosen.prepare(model_of(scenario, costs))
    ready = time.perf_counter()
    outcomes = _replicate(run, chosen.PARALLEL, plan, begun + budget, precision)
    simulated = time.perf_counter() - ready
    for outcome in outcomes:
        conservation.check(scenario, outcome)
    total = sum(len(outcome.responses) for outcome in outcomes)
    about = {
        "name": engine,
        "jobs_per_second": total / simulated,
        "replications": len(outcomes),
    }
    return _metrics(scenario, costs, outcomes), about


def _window(scenario: Scenario, replies: int) -> tuple[int, int]:
    """Replies before the window, and in it."""
    load = _module(scenario.load)
    if hasattr(load, "window"):
        warm, replies = load.window(scenario)
        return warm, replies
    return max(UNWARMED, replies // 5, 2 * int(scenario.get("clients", 0))), replies


def prepared(
    scenario: Scenario, costs: Costs, engine: str = DEFAULT
) -> Callable[..., tuple[Metrics, dict[str, Any]]]:
    """Predictions of a scenario with one set of costs after another, its model being made ready only once.

    The result takes costs (of the same demand), number (of its random numbers), replies and budget, and gives what `predict`
    gives of a single replication.
    """
    run: Run = _engine(engine).prepare(model_of(scenario, costs))
    key = int(scenario.key, 16) % 2**32

    def simulate(
        costs: Costs, *, number: int = 0, replies: int = 4000, budget: float = 4.0
    ) -> tuple[Metrics, dict[str, Any]]:
        begun = time.perf_counter()
        warm, wanted = _window(scenario, replies)
        (seed,) = _seeds(scenario.seed, 1, key, number)
        outcome = run.replicate(seed, warm, wanted, until=begun + budget, costs=costs.values())
        simulated = time.perf_counter() - begun
        conservation.check(scenario, outcome)
        about = {"name": engine, "jobs_per_second": len(outcome.responses) / simulated}
        return _metrics(scenario, costs, [outcome]), about

    return simulate


def simulate(
    build: Callable[[World], None],
    costs: Mapping[str, float] | None = None,
    *,
    engine: str = DEFAULT,
    cpus: int = 1,
    seed: int = 1,
    replications: int = 1,
    replies: int = sys.maxsize,
    warm: int = 0,
    span: float = math.inf,
    budget: float = 60.0,
    scheduler: Scheduler | None = None,
    demand: Demand | None = None,
) -> list[Outcome]:
    """Simulates programs of one's own.

    Parameters
    ----------
    build : callable
        build(world) makes the records and starts the threads (models.des.records.World).
    costs : mapping of str to float
        By name; those of the machine (machine.*) that are not given are free.
    engine : str
        simpy or compiled.
    cpus : int
    seed, replications : int
        Of independent runs; the same seed gives the same ones.
    warm, replies : int
        Replies before the window, and in it.
    span : float
        Longest window, in simulated time, s.
    budget : float
        Wall-clock seconds at most.
    scheduler : Scheduler, optional
    demand : Demand, optional
        What world.sample draws from.

    Returns
    -------
    list of Outcome
        One for each replication.
    """
    if replies == sys.maxsize and span == math.inf:
        raise ValueError("simulate: give replies, span, or both, so that it ends")
    sample = None if demand is None else Sample.of(demand)
    model = Model(build, cpus, scheduler or Scheduler.of(cpus), FACTORS | dict(costs or {}), sample)
    plan = [{"seed": s, "warm": warm, "replies": replies, "span": span} for s in _seeds(seed, replications)]
    chosen, until = _engine(engine), time.perf_counter() + budget
    return _replicate(chosen.prepare(model), chosen.PARALLEL, plan, until)


def model_of(scenario: Scenario, costs: Costs) -> Model:
    """The scenario's load and server on the machine that these costs are of."""
    load, server = _module(scenario.load), _module(scenario.server)
    refuse(scenario, load, server)
    refuse_service(scenario)

    def build(world: World) -> None:
        load.build(world)
        server.build(world)

    for name in NEEDED:
        _ = costs[f"machine.{name}"]
    scheduler = Scheduler.of(costs.cpus)
    sample = Sample.of(costs.demand(scenario), scenario)
    places = {group: cpus for group in ("server", "load") if (cpus := _places(scenario, group, costs.cpus))}
    return Model(build, costs.cpus, scheduler, costs.values(), sample, scenario, places)


def _places(scenario: Scenario, group: str, cpus: int) -> list[int]:
    """The CPUs that the threads of that group may use, of a list such as 0,2-3; none: all."""
    text = str(scenario.get(f"{group}_cpus", ""))
    if not text:
        return []
    ranges = [re.fullmatch(r"(\d+)(?:-(\d+))?", part) for part in text.split(",")]
    pairs = [(int(r[1]), int(r[2] or r[1])) for r in ranges if r]
    if not all(ranges) or any(not low <= high < cpus for low, high in pairs):
        raise ScenarioError(
            f"{group}_cpus={text}: the simulated machine has CPUs 0 to {cpus - 1}; name some of them"
        )
    return sorted({cpu for low, high in pairs for cpu in range(low, high + 1)})


def _seeds(seed: int, count: int, *key: int) -> list[int]:
    words = np.random.SeedSequence(seed, spawn_key=key).generate_state(count, np.uint64)
    return [int(word) >> 1 for word in words]


def _engine(name: str) -> ModuleType:
    if name not in ENGINES:
        raise ValueError(f"engine={name}{knobs.offer(name, ENGINES)}")
    return importlib.import_module(ENGINES[name])


def _replicate(
    run: Run, parallel: bool, plan: Sequence[dict[str, Any]], until: float, precision: float = 0.0
) -> list[Outcome]:
    """The plan's replications, in parallel if they may; no further ones once the throughput is precise enough."""
    width = min(len(os.sched_getaffinity(0)), len(plan)) if parallel else 1
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(width) as pool:
        each: Any = map if width == 1 else pool.map  # Ctrl-C is heard in this thread alone
        while len(outcomes) < len(plan) and not _precise(outcomes, precision):
            rounds = math.ceil((len(plan) - len(outcomes)) / width)
            now = time.perf_counter()
            share = now + max(until - now, 0.0) / rounds
            batch = plan[len(outcomes) : len(outcomes) + width]
            outcomes += each(partial(_replication, run, share), batch)
    return outcomes


def _replication(run: Run, until: float, settings: dict[str, Any]) -> Outcome:
    return run.replicate(**settings, until=until)


def _precise(outcomes: Sequence[Outcome], precision: float) -> bool:
    if len(outcomes) < 3 or precision <= 0:
        return False
    found = quantiles.interval([outcome.throughput for outcome in outcomes])
    return found.high - found.low <= 2 * precision * found.value


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
    if errors:
        raise ScenarioError("\n".join(errors))


def _metrics(scenario: Scenario, costs: Costs, outcomes: Sequence[Outcome]) -> Metrics:
    total = sum(len(outcome.responses) for outcome in outcomes)
    if not total:
        return Metrics(Estimate(math.nan), Estimate(math.nan))
    span = math.fsum(outcome.span for outcome in outcomes)
    every = np.concatenate([outcome.responses for outcome in outcomes])
    p50, p90, p99 = (float(q) for q in np.quantile(every, (0.5, 0.9, 0.99)))
    counters = _counters(outcomes)
    return Metrics(
        service_time=_service_time(outcomes) if scenario.load == "open" else None,
        throughput=quantiles.interval([outcome.throughput for outcome in outcomes]),
        response=quantiles.interval([float(np.mean(o.responses)) for o in outcomes if len(o.responses)]),
        p50=p50,
        p90=p90,
        p99=p99,
        operations=_operations(scenario, outcomes, span),
        utilisation=_utilisation(scenario, counters, costs.cpus, span),
        counters={name: value / total for name, value in counters.items()},
    )


def _service_time(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Of an open load: the time since the request was sent."""
    every = np.concatenate([outcome.services for outcome in outcomes])
    p50, p90, p99 = (float(q) for q in np.quantile(every, (0.5, 0.9, 0.99)))
    return {"mean": float(every.mean()), "p50": p50, "p90": p90, "p99": p99}


def _counters(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """What the programs and the machine counted, in all replications."""
    sums: dict[str, float] = {}
    for outcome in outcomes:
        server, load = (outcome.groups.get(group, Usage()) for group in ("server", "load"))
        counted = {
            **outcome.counters,
            "server_cpu": server.used,
            "load_cpu": load.used,
            "switches": float(server.slept),
            "preemptions": float(server.switched),
            "load_sleeps": float(load.slept),
        }
        for name, value in counted.items():
            sums[name] = sums.get(name, 0.0) + value
    return sums


def _utilisation(
    scenario: Scenario, counters: Mapping[str, float], cpus: int, span: float
) -> dict[str, float]:
    server, load = counters["server_cpu"], counters["load_cpu"]
    found = {
        "cpu": (server + load) / (cpus * span),
        "server_cpu": server / (cpus * span),
        "load_cpu": load / (cpus * span),
        "load_thread": load / (span * int(scenario.get("load_threads", 1))),
    }
    workers = scenario.get("workers")
    if workers and "busy" in counters:
        found["worker"] = counters["busy"] / (span * workers)
    return found


def _operations(
    scenario: Scenario, outcomes: Sequence[Outcome], span: float
) -> dict[str, tuple[float, float]]:
    """Throughput and mean response of each operation."""
    names: Any = knobs.variants("service")[scenario.service]["operations"]
    kinds = np.concatenate([outcome.operations for outcome in outcomes])
    every = np.concatenate([outcome.responses for outcome in outcomes])
    return {
        names[k]: (float((kinds == k).sum()) / span, float(every[kinds == k].mean()))
        for k in np.unique(kinds)
    }
