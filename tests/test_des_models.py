"""The models of servers and loads: what they conserve, and that each mechanism does what it is there for."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from modelled import COSTS, WAKES, costs_for, demand_of, with_tasks
from queueing import ENGINES, erlang_c

from models import Scenario, ScenarioError
from models.analytic.closed_multiserver import closed_multiserver
from models.costs import Costs, MissingCost
from models.des import conservation, engine, predict, queues
from models.des.model import Model
from models.des.simpy_engine.world import SimpyWorld
from models.metrics import Metrics

Options = dict[str, object]
RULES = ("next", "next_backoff", "random", "richest")
CASES: list[tuple[str, str, str, Options]] = [
    ("stock", "select", "closed", {"clients": 1}),
    ("stock", "select", "closed", {"clients": 40}),
    ("stock", "select", "closed", {"clients": 8, "think": 2e-3}),
    ("stock", "select", "closed", {"clients": 9, "load_threads": 2}),
    ("stock", "select", "closed", {"clients": 9, "connection": "per_request"}),
    ("stock", "poll", "closed", {"clients": 9}),
    ("stock", "epoll", "closed", {"clients": 40}),
    ("stock", "epoll", "closed", {"clients": 9, "connection": "per_request"}),
    ("synthetic", "select", "closed", {"clients": 5, "demand": 5e-5, "demand_dist": "exponential"}),
    ("synthetic", "sbuf", "closed", {"clients": 9, "demand": 5e-5, "demand_kind": "sleep"}),
    ("stock", "sbuf", "closed", {"clients": 3}),
    ("stock", "sbuf", "closed", {"clients": 40, "queue_slots": 4}),
    ("stock", "sbuf", "closed", {"clients": 20, "lock": "global"}),
    ("stock", "sbuf", "closed", {"clients": 4, "workers": 8, "hold": "connection"}),
    ("stock", "sbuf", "closed", {"clients": 9, "workers": 4, "hold": "connection"}),
    ("stock", "sbuf", "closed", {"clients": 9, "hold": "connection", "connection": "per_request"}),
    ("stock", "sbuf", "closed", {"clients": 9, "connection": "per_request", "think": 1e-3}),
    ("prime", "sbuf", "closed", {"clients": 10, "think": 5e-3}),
    ("prime", "queues", "closed", {"clients": 1}),
    ("prime", "queues", "closed", {"clients": 10, "workers": 2, "accept": "thread"}),
    ("prime", "queues", "closed", {"clients": 10, "steal": "next", "accept": "thread"}),
    ("prime", "queues", "closed", {"clients": 10, "steal": "random", "accept": "thread"}),
    ("prime", "queues", "closed", {"clients": 10, "steal": "richest", "accept": "epoll"}),
    ("prime", "queues", "closed", {"clients": 10, "accept": "epoll"}),
    ("prime", "queues", "closed", {"clients": 6, "accept": "epoll", "connection": "per_request"}),
    ("prime", "queues", "closed", {"clients": 6, "connection": "per_request", "accept": "thread"}),
    ("prime", "queues", "closed", {"clients": 3, "workers": 2, "wait": "spin", "accept": "thread"}),
    ("prime", "queues", "closed", {"clients": 3, "workers": 2, "wait": "spin", "accept": "epoll"}),
    (
        "prime",
        "queues",
        "closed",
        {"clients": 3, "workers": 4, "wait": "spin", "steal": "next", "accept": "thread"},
    ),
    (
        "prime",
        "queues",
        "closed",
        {"clients": 3, "workers": 4, "wait": "spin", "steal": "next_backoff", "accept": "thread"},
    ),
    (
        "prime",
        "queues",
        "closed",
        {"clients": 3, "workers": 4, "wait": "spin", "steal": "random", "accept": "thread"},
    ),
    ("stock", "queues", "closed", {"clients": 8, "think": 2e-3}),
    ("stock", "thread", "closed", {"clients": 1}),
    ("stock", "thread", "closed", {"clients": 40, "lock": "global"}),
    ("stock", "thread", "closed", {"clients": 9, "think": 2e-3}),
    ("stock", "thread", "closed", {"clients": 9, "threads": 4}),
    ("prime", "thread", "closed", {"clients": 9, "threads": 4, "connection": "per_request"}),
    ("synthetic", "thread", "closed", {"clients": 9, "demand": 5e-5, "demand_kind": "sleep"}),
    ("stock", "iterative", "closed", {"clients": 1}),
    ("stock", "fork", "closed", {"clients": 9, "think": 2e-3}),
    ("prime", "fork", "closed", {"clients": 9, "children": 4}),
    ("synthetic", "fork", "closed", {"clients": 9, "children": 4, "connection": "per_request"}),
    ("stock", "fork", "forked", {"clients": 10, "requests": 20}),
    ("prime", "iterative", "closed", {"clients": 9}),
    ("stock", "iterative", "closed", {"clients": 9, "connection": "per_request", "think": 1e-3}),
    ("stock", "select", "open", {"arrival_rate": 20_000}),
    ("stock", "thread", "open", {"arrival_rate": 20_000}),
    ("stock", "iterative", "open", {"arrival_rate": 5_000, "connection": "per_request"}),
    ("stock", "iterative", "open", {"arrival_rate": 2_000, "clients": 9}),
    ("stock", "thread", "forked", {"clients": 10, "requests": 20, "threads": 3}),
    ("prime", "iterative", "forked", {"clients": 5, "requests": 20}),
    ("stock", "epoll", "open", {"arrival_rate": 5_000, "connection": "per_request"}),
    ("stock", "sbuf", "open", {"arrival_rate": 20_000, "clients": 2, "arrivals": "constant"}),
    ("prime", "queues", "open", {"arrival_rate": 2_000, "load_threads": 3}),
    ("stock", "sbuf", "open", {"arrival_rate": 5_000, "connection": "per_request"}),
    ("stock", "sbuf", "open", {"arrival_rate": 5_000, "clients": 9, "workers": 4, "hold": "connection"}),
    ("stock", "select", "forked", {"clients": 10, "requests": 50}),
    ("stock", "sbuf", "forked", {"clients": 10, "requests": 20, "hold": "connection"}),
    ("prime", "queues", "forked", {"clients": 5, "requests": 20, "accept": "thread"}),
    (
        "prime",
        "queues",
        "forked",
        {"clients": 5, "requests": 20, "accept": "epoll", "connection": "per_request"},
    ),
]


def ask(
    service: str,
    server: str,
    load: str = "closed",
    options: Options | None = None,
    replies: int = 1500,
    **settings: Any,
) -> Metrics:
    scenario = Scenario.of(service, server, load, options=options)
    costs = settings.pop("costs", None) or costs_for(scenario, **settings.pop("changed", {}))
    return predict(scenario, costs, **{"replications": 1, "replies": replies, "budget": 60.0, **settings})


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("service", "server", "load", "options"), CASES, ids=str)
def test_predictions_conserve_clients_and_time(
    service: str, server: str, load: str, options: Options, name: str
) -> None:
    scenario = Scenario.of(service, server, load, options=options)
    costs = costs_for(scenario)
    replies = 1000 if name == "simpy" else 10_000  # long windows show small breaches
    found = predict(scenario, costs, engine=name, replications=2, replies=replies, budget=60.0)
    rate, use = found.throughput.value, found.utilisation
    if load == "closed" and options.get("connection") != "per_request":
        clients, think = (
            scenario.number("clients") - conservation.unserved(scenario),
            scenario.number("think"),
        )
        # What N exceeds X (R + Z) by is the time that due clients wait for the generator: none when nobody thinks.
        assert rate * (found.response.value + think) == pytest.approx(clients, rel=0.05 if think else 0.02)
    elif load == "open":
        assert rate == pytest.approx(scenario.number("arrival_rate"), rel=0.1)
        assert found.service_time is not None and found.service_time["mean"] <= found.response.value
    assert 0 < use["cpu"] <= 1 + 1e-9
    assert use["server_cpu"] + use["load_cpu"] == pytest.approx(use["cpu"])
    used = found.counters["server_cpu"] + found.counters["load_cpu"]
    together = sum(x for x, _ in found.operations.values())  # over all replications, as the counters are
    assert together * used == pytest.approx(2 * use["cpu"], rel=1e-6)
    assert together == pytest.approx(rate, rel=0.1)
    if scenario.get("demand_kind") != "sleep":
        assert found.counters["server_cpu"] > costs.demand(scenario).mean
    if server == "queues":
        parts = len(costs.demand(scenario).tasks[0])
        assert found.counters["tasks"] == pytest.approx(parts, rel=0.05)


def busy(server: str, clients: int) -> float:
    """Processor time of the server a reply, at 2000 replies a second whatever the connections, s."""
    options = {"clients": clients, "think": clients / 2000 - 1e-4}
    return ask("stock", server, options=options, replies=3000).counters["server_cpu"]


def test_idle_connections_cost_the_select_server_and_not_the_epoll_server() -> None:
    few, many = 20, 400
    assert busy("epoll", many) == pytest.approx(busy("epoll", few), rel=0.1)
    # A poll for nearly every reply, which looks at all connections.
    assert busy("select", many) - busy("select", few) > 0.7 * (many - few) * COSTS["select.poll_connection"]


def throughput(clients: int, **changed: float) -> float:
    return ask("stock", "select", options={"clients": clients}, changed=changed).throughput.value


def test_waking_makes_the_start_super_linear_and_nothing_else_does() -> None:
    assert throughput(4) > 4 * throughput(1) * 1.2
    free = {f"machine_{name}": 0.0 for name in WAKES}
    alone = throughput(1, **free)
    assert all(throughput(n, **free) <= n * alone * 1.001 for n in (2, 3, 4, 8))


def test_who_wakes_a_halted_cpu_pays_each_time() -> None:
    cheap, dear = (
        ask("stock", "select", options={"clients": 1}, replies=1000, changed={"machine_wake_waker": price})
        for price in (0.0, 1e-5)
    )
    # with one client each reply wakes the generator once and each request the server once
    for side in ("server_cpu", "load_cpu"):
        assert dear.counters[side] - cheap.counters[side] == pytest.approx(1e-5, rel=0.01)


def a_world(options: Options, workers: int = 3) -> tuple[SimpyWorld, queues.Pool]:
    """A world of the queues server that has not begun, and a ring of as many queues of its own."""
    scenario = Scenario.of("prime", "queues", options={"workers": workers, **options})
    return SimpyWorld(engine.model_of(scenario, costs_for(scenario)), 1), queues.ring(workers)


def test_a_thief_takes_the_older_half_of_the_next_queue_and_no_other() -> None:
    world, pool = a_world({"steal": "next"})
    thief, victim, third = pool.queues
    connection = world.connections[0]
    victim.tasks.extend((connection, float(i)) for i in range(5))
    assert queues.rob(world, pool, thief, "next") == 2
    assert [seconds for _, seconds in thief.tasks] == [0.0, 1.0]
    assert [seconds for _, seconds in victim.tasks] == [2.0, 3.0, 4.0]
    thief.tasks.clear()
    assert queues.rob(world, pool, third, "next") == 0  # the next after it holds nothing
    victim.tasks.popleft()
    victim.tasks.popleft()
    assert queues.rob(world, pool, thief, "next") == 0  # a single task is never stolen
    assert world.tally.counts["steals"] == 2


def test_the_richest_is_robbed_and_any_that_is_worth_it_at_random() -> None:
    world, pool = a_world({}, 5)
    thief = pool.queues[1]
    for place, tasks in enumerate((3, 0, 1, 4, 4)):
        pool.queues[place].tasks.extend((world.connections[0], 1.0) for _ in range(tasks))
    assert queues.choose(world, pool, thief, "richest") == 3
    assert {queues.choose(world, pool, thief, "random") for _ in range(200)} == {0, 3, 4}
    assert queues.choose(world, pool, thief, "next") == 2
    for queue in pool.queues:
        queue.tasks.clear()
    assert {queues.choose(world, pool, thief, "random") for _ in range(200)} == {0, 2, 3, 4}
    assert all(queues.rob(world, pool, thief, rule) == 0 for rule in RULES)


@pytest.mark.parametrize("spins", [False, True])
@pytest.mark.parametrize("steal", ["none", *RULES])
def test_an_idle_thief_is_woken_when_a_queue_that_it_may_rob_holds_two(spins: bool, steal: str) -> None:
    """The worker before it; where any queue may be robbed, the first idle one after it, or all that spin."""
    woken = {"none": "", "next": "t", "next_backoff": "t", "random": "f", "richest": "f"}[steal]
    if spins and woken == "f":
        woken = "tf"
    world, pool = a_world({}, 4)
    thief, victim, busy, first = pool.queues
    for queue, thread in zip((thief, first), world.machine.threads, strict=False):
        queue.worker = queue.lock.spinner = thread
        queue.idle = True
        pool.idlers += 1
    for number in range(2):
        victim.tasks.append((world.connections[0], float(number)))
        queues.grown(world, pool, victim, world.machine.threads[2], steal, spins)
        assert thief.idle is not (number == 1 and "t" in woken)
        assert first.idle is not (number == 1 and "f" in woken)
    assert pool.idlers == 2 - len(woken) and not busy.idle


@pytest.mark.parametrize("wait", ["block", "spin"])
def test_stealing_empties_one_long_queue_sooner(wait: str) -> None:
    """One client's sixteen tasks on four workers with a CPU each; the two long ones go to one queue, first and second."""
    uneven = (4e-3, 1e-4, 1e-4, 1e-4) * 2 + (1e-4,) * 8
    changed = {"cpus": 6, "demand": with_tasks("prime", (uneven,))}
    response = {}
    for steal in ("none", *RULES):
        options = {"clients": 1, "workers": 4, "steal": steal, "wait": wait}
        found = ask("prime", "queues", options=options, replies=300, changed=changed)
        assert found.counters["tasks"] == pytest.approx(16, rel=0.05)
        response[steal] = found.response.value
    assert response["none"] > 8e-3
    assert all(4e-3 < response[steal] < 5e-3 for steal in RULES)


@pytest.mark.parametrize("name", ENGINES)
def test_split_is_no_faster_than_stealing_and_that_no_faster_than_one_queue(name: str) -> None:
    """With free queues, locks, wakes and steals, and a CPU for each worker: per queue ≤ stealing ≤ shared."""
    free = {f"machine_{wake}": 0.0 for wake in WAKES} | {"queues_worker": 0.0, "queues_connection": 0.0}
    free |= {"sbuf_worker": 0.0, "sbuf_acceptor": 0.0, "load_event": 1e-9, "load_poll": 0.0}
    demand = replace(demand_of("synthetic"), fixed=(0.0,) * 300, client=(0.0,) * 300)
    replies, replications = (800, 3) if name == "simpy" else (4000, 6)
    rates = []
    stealing: list[Options] = [{"steal": rule} for rule in RULES]
    for server, options in (("queues", {}), *(("queues", rule) for rule in stealing), ("sbuf", {})):
        changed = {"cpus": 12, "demand": demand, **free}
        settings: Options = {"clients": 12, "workers": 4, "demand": 5e-5, **options}
        found = ask(
            "synthetic",
            server,
            options=settings,
            replies=replies,
            engine=name,
            replications=replications,
            changed=changed,
        )
        rates.append(found.throughput)
    split, *robbed, shared = rates
    for rule, rate in zip(RULES, robbed, strict=True):
        assert split.high < rate.low, rule
        assert rate.value <= shared.value * 1.01, rule


def free_pool(load: str, options: Options) -> tuple[Metrics, float]:
    """sbuf's workers with a CPU each, and nothing that costs but the demand, of 1 ms; with the mean demand in the sample."""
    free = {f"machine_{wake}": 0.0 for wake in WAKES}
    free |= {"sbuf_worker": 0.0, "sbuf_acceptor": 0.0, "load_event": 0.0, "load_poll": 0.0}
    tasks = tuple((s,) for s in np.random.default_rng(3).exponential(1e-3, 4000))
    nothing = (0.0,) * 4000
    demand = replace(
        demand_of("synthetic"), operations=(0,) * 4000, fixed=nothing, client=nothing, tasks=tasks
    )
    changed = {"cpus": 12, "demand": demand, **free}
    found = ask(
        "synthetic",
        "sbuf",
        load,
        {"workers": 3, "demand": 1e-3, **options},
        2000,
        replications=4,
        changed=changed,
    )
    return found, float(np.mean(tasks))


def test_a_free_pool_under_closed_load_is_a_closed_multiserver_queue() -> None:
    """M/M/m//N."""
    found, demand = free_pool("closed", {"clients": 8, "think": 2e-3})
    exact = closed_multiserver(clients=8, workers=3, think=2e-3, demand=demand)
    assert found.throughput.low * 0.99 <= float(exact.throughput) <= found.throughput.high * 1.01
    assert found.response.value == pytest.approx(float(exact.response), rel=0.05)


def test_a_free_pool_under_open_load_is_a_multiserver_queue() -> None:
    """M/M/m; with as few connections as servers arrivals wait in the generator instead, for as long."""
    for clients in (100, 3):
        found, demand = free_pool("open", {"clients": clients, "arrival_rate": 2000})
        exact = demand + erlang_c(3, 2000 * demand) / (3 / demand - 2000)
        assert found.response.value == pytest.approx(exact, rel=0.1)
        assert found.service_time is not None
        waits = found.response.value - found.service_time["mean"]
        assert waits == pytest.approx(exact - demand if clients == 3 else 0.0, abs=0.1 * demand)


def test_an_open_load_above_what_the_server_can_grows_a_queue_that_responses_show() -> None:
    light, heavy = (
        ask("synthetic", "sbuf", "open", {"arrival_rate": rate, "demand": 5e-5, "clients": 10})
        for rate in (5e3, 5e4)
    )
    assert light.throughput.value == pytest.approx(5e3, rel=0.1)
    assert heavy.throughput.value < 4e4
    assert heavy.response.value > 10 * light.response.value
    assert heavy.service_time is not None and heavy.service_time["mean"] < heavy.response.value / 3


def test_sleeping_demand_takes_time_but_no_processor() -> None:
    burn, sleep = (
        ask("synthetic", "sbuf", options={"clients": 8, "workers": 8, "demand": 5e-4, "demand_kind": kind},
            changed={"demand": with_tasks("synthetic", ((5e-4,),))})
        for kind in ("burn", "sleep")
    )  # fmt: skip
    assert burn.throughput.value < 2 / 5e-4
    assert 0.9 * 8 / 6e-4 < sleep.throughput.value < 8 / 5e-4
    assert sleep.counters["server_cpu"] < 1e-4


def test_one_lock_over_all_makes_long_operations_wait_for_each_other() -> None:
    demand = with_tasks("stock", ((2e-4,),))
    rates = {
        lock: ask("stock", "sbuf", options={"clients": 16, "workers": 8, "lock": lock},
                  changed={"cpus": 8, "demand": demand})
        for lock in ("global", "mutex", "readers_writers")
    }  # fmt: skip
    assert rates["global"].throughput.value < 1 / 2e-4
    assert rates["global"].counters["lock_waits"] > 0.5
    assert rates["mutex"].throughput.value > 3 / 2e-4
    assert rates["mutex"].counters["lock_waits"] < 0.5


def test_connections_for_each_request_cost_either_side_its_own() -> None:
    kept, once = (
        ask("stock", "select", options={"clients": 20, "connection": connection})
        for connection in ("keep", "per_request")
    )
    for side, own in (("server_cpu", 2e-5), ("load_cpu", 3e-5)):
        assert once.counters[side] - kept.counters[side] == pytest.approx(own, rel=0.3)


def test_a_full_accept_queue_sends_connections_away_for_a_second() -> None:
    options: Options = {"clients": 60, "workers": 1, "connection": "per_request", "backlog": 8}
    options |= {"hold": "connection", "queue_slots": 2, "demand": 1e-3}
    found = ask("synthetic", "sbuf", options=options, changed={"demand": with_tasks("synthetic", ((1e-3,),))})
    assert found.counters["syn_retries"] > 0.01
    assert found.p99 < 0.1  # a response runs from when the request is sent, over a connection that stands


def test_forked_clients_take_their_forks_time() -> None:
    cheap, dear = (
        ask(
            "stock",
            "select",
            "forked",
            {"clients": 10, "requests": 20},
            changed={"machine_fork": cost},
            replications=3,
        )
        for cost in (0.0, 2e-3)
    )
    # ten forks of which their parent pays one half, one after another
    assert 200 / dear.throughput.value - 200 / cheap.throughput.value > 0.9 * 10e-3
    assert dear.counters["load_cpu"] > cheap.counters["load_cpu"] + 0.9 * 10e-3 / 200


def test_bound_server_and_load_leave_each_other_alone() -> None:
    options: Options = {"clients": 10, "server_cpus": "0", "load_cpus": "1"}
    bound = ask("prime", "queues", options=options)
    assert bound.utilisation["server_cpu"] <= 0.5 + 1e-9
    assert bound.utilisation["server_cpu"] > 0.48


def test_more_generator_threads_send_more_where_one_is_the_limit() -> None:
    one, two = (
        ask("stock", "sbuf", options={"clients": 32, "load_threads": n}, changed={"cpus": 8}) for n in (1, 2)
    )
    assert two.throughput.value > 1.1 * one.throughput.value
    assert two.utilisation["load_thread"] <= 1 + 1e-9


def test_the_same_seed_gives_the_same_prediction_and_another_seed_another() -> None:
    first, again, other = (Scenario.of("prime", "queues", seed=seed) for seed in (1, 1, 2))
    results = [
        predict(s, costs_for(s), replications=1, replies=500).throughput.value for s in (first, again, other)
    ]
    assert results[0] == results[1] != results[2]


def test_drawn_costs_are_those_of_the_replications() -> None:
    scenario = Scenario.of("stock", "select", options={"clients": 1})
    costs = costs_for(scenario)
    dear = costs_for(scenario, select_event=1e-3)
    mixed = predict(scenario, costs, replications=2, replies=300, drawn=[costs, dear])
    plain = predict(scenario, costs, replications=2, replies=300)
    assert mixed.throughput.high - mixed.throughput.low > 100 * (plain.throughput.high - plain.throughput.low)


def test_a_precise_answer_stops_early() -> None:
    scenario = Scenario.of("stock", "select", options={"clients": 40})
    settings: dict[str, Any] = {"replications": 12, "replies": 300, "budget": 60.0}
    found, about = engine.predict(scenario, costs_for(scenario), precision=0.2, **settings)
    assert about["replications"] < 12
    assert found.throughput.high - found.throughput.low < 2 * 0.2 * found.throughput.value
    assert engine.predict(scenario, costs_for(scenario), **settings)[1]["replications"] == 12


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"server_cpus": "7"}, "server_cpus=7: the simulated machine has CPUs 0 to 1"),
        ({"load_cpus": "0-x"}, "load_cpus=0-x: the simulated machine has CPUs 0 to 1"),
    ],
    ids=str,
)
def test_what_has_no_model_is_refused_in_one_line(options: Options, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        ask("stock", "sbuf", options=options)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_servers_loads_and_engines_without_a_model_are_refused() -> None:
    scenario = replace(Scenario.of("stock", "select"), server="machine")
    with pytest.raises(ScenarioError, match="machine has no simulation model yet"):
        predict(scenario, Costs(2, {}))
    with pytest.raises(ScenarioError, match="prefork has no simulation model yet"):
        predict(replace(scenario, server="prefork"), Costs(2, {}))
    with pytest.raises(ValueError, match="engine=simpi; did you mean simpy"):
        ask("stock", "select", engine="simpi")


def test_a_cost_that_is_missing_is_named() -> None:
    scenario = Scenario.of("stock", "select")
    costs = costs_for(scenario)
    lacking = replace(costs, table={k: v for k, v in costs.table.items() if k != "select.event"})
    with pytest.raises(MissingCost, match=r"no cost select\.event: run python -m harness calibrate"):
        predict(scenario, lacking)


def test_an_answer_that_breaks_a_law_is_an_error() -> None:
    scenario = Scenario.of("stock", "select", options={"clients": 20})
    model: Model = engine.model_of(scenario, costs_for(scenario))
    run = engine.importlib.import_module("models.des.simpy_engine").prepare(model)
    outcome = run.replicate(1, 200, 2000, until=time.perf_counter() + 60)
    conservation.check(scenario, outcome)
    for broken in (
        replace(outcome, responses=outcome.responses * 1.3),
        replace(outcome, in_system=outcome.in_system * 1.1),
        replace(outcome, span=outcome.span * 0.8),
    ):
        with pytest.raises(conservation.ConservationError):
            conservation.check(scenario, broken)


@pytest.mark.parametrize("name", ENGINES)
def test_a_prediction_keeps_to_its_time(name: str) -> None:
    scenario = Scenario.of("prime", "queues")
    begun = time.perf_counter()
    found = predict(scenario, costs_for(scenario), replies=50_000_000, budget=0.6, engine=name)
    assert time.perf_counter() - begun < 20.0  # and not the minutes that so many replies take
    assert found.throughput.value > 0
