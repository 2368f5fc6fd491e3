"""The simulated machine against exact theory, by intervals over replications: queues, scheduling, conservation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import simpy

from models import Scenario, ScenarioError
from models.analytic.closed_multiserver import closed_multiserver
from models.costs import Cost, Costs, Demand, demand_key
from models.des import engine, predict, queues
from models.des.cpu import Program, Thread
from models.des.machine import Machine, Prices, Scheduler
from models.quantiles import interval

FREE = Prices(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
COSTS = {
    "machine.wake_waker": 8e-6, "machine.wake_sleeper": 7e-6, "machine.wake_latency": 15e-6,
    "machine.wake_socket": 2.5e-6, "machine.wake_futex": 7e-7, "machine.switch": 1.3e-6, "machine.block": 1e-6,
    "load.event": 5e-6, "load.poll": 4e-7, "select.event": 5e-6, "select.poll": 6e-7, "select.poll_connection": 4e-8,
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


def costs_for(scenario: Scenario, cpus: int = 2, **changed: float) -> Costs:
    table = {name: Cost(changed.get(name.replace(".", "_"), value)) for name, value in COSTS.items()}
    return Costs(cpus, table, demands={demand_key(scenario): demand_of(scenario.service)})


def machine(cpus: int, prices: Prices = FREE, scheduler: Scheduler | None = None) -> Machine:
    return Machine(simpy.Environment(), cpus, prices, scheduler)


def burn(thread: Thread) -> Program:
    while True:
        yield thread.run(0.1)


def used(simulated: Machine) -> list[float]:
    for cpu in simulated.cpus:
        cpu.charge()
    return [thread.used for thread in simulated.threads]


class Closed:
    """N threads that think and then need a CPU, on m free CPUs whose queues are one: M/M/m//N."""

    def __init__(self, clients: int, workers: int, think: float, demand: float, seed: int) -> None:
        # A CPU that becomes idle pulls whoever waits, however hot, so that none idles while somebody waits.
        self.machine = machine(workers, scheduler=replace(Scheduler.of(workers), hot=0.0))
        self.random = np.random.default_rng(seed)
        self.think, self.demand = think, demand
        self.responses: list[float] = []
        for number in range(clients):
            self.machine.spawn(str(number), "clients", self.client)

    def client(self, thread: Thread) -> Program:
        simulated, env = self.machine, self.machine.env
        while True:
            due = env.now + self.random.exponential(self.think)
            simulated.at(due - env.now, lambda _: simulated.wake(thread, None))
            yield thread.sleep()
            yield thread.run(self.random.exponential(self.demand))
            self.responses.append(env.now - due)

    def measure(self, warm: float, span: float) -> tuple[float, float]:
        self.machine.env.run(warm)
        self.responses.clear()
        self.machine.env.run(warm + span)
        return len(self.responses) / span, float(np.mean(self.responses))


@pytest.mark.parametrize(("clients", "workers", "ratio"), [(2, 1, 1.0), (8, 2, 4.0), (24, 4, 4.0)])
def test_free_cpus_are_a_closed_multiserver_queue(clients: int, workers: int, ratio: float) -> None:
    demand = 1e-3
    exact = closed_multiserver(clients=clients, workers=workers, think=ratio * demand, demand=demand)
    runs = [
        Closed(clients, workers, ratio * demand, demand, seed).measure(warm=0.1, span=8000 / exact.throughput)
        for seed in range(16)
    ]
    for values, truth in zip(zip(*runs, strict=True), (exact.throughput, exact.response), strict=True):
        found = interval(values, level=0.99)
        assert found.low <= truth <= found.high
        assert found.high - found.low < 0.06 * truth  # narrow enough to tell other queues from this one


def test_two_spinners_on_one_cpu_alternate_at_ticks() -> None:
    simulated = machine(1)
    switches: list[float] = []
    for name in "ab":
        thread = simulated.spawn(name, "spinners", burn)
        simulated.on_dispatch[thread] = lambda: switches.append(simulated.env.now)
    simulated.env.run(2.0)
    tick = simulated.scheduler.tick
    slices = np.diff(switches[1:])
    assert used(simulated) == pytest.approx([1.0, 1.0], abs=tick)
    assert len(slices) > 400 and slices == pytest.approx(tick, rel=1e-6)


@pytest.mark.parametrize(("cpus", "threads"), [(1, 3), (2, 3), (2, 5), (4, 5)])
def test_threads_that_never_sleep_share_the_cpus_equally(cpus: int, threads: int) -> None:
    simulated = machine(cpus)
    for number in range(threads):
        simulated.spawn(str(number), "spinners", burn)
    simulated.env.run(5.0)
    shares = np.array(used(simulated)) / (5.0 * cpus / threads)
    assert shares.sum() == pytest.approx(threads, rel=1e-6)  # no CPU idled
    assert shares == pytest.approx(1.0, abs=0.08)


class Visitor:
    """A thread beside a spinner on one CPU: it computes, sleeps for a moment, and computes again."""

    def __init__(self, first: bool, seconds: float, moment: float) -> None:
        self.machine = machine(1)
        self.seconds, self.moment = seconds, moment
        self.slept = self.woken = self.came = -1.0
        programs = [self.visit, burn] if first else [burn, self.visit]
        for number, program in enumerate(programs):
            self.machine.spawn(str(number), "threads", program)
        self.machine.env.run(0.1)

    def visit(self, thread: Thread) -> Program:
        yield thread.run(self.seconds)
        self.slept = self.machine.env.now
        self.machine.at(self.moment, lambda _: self.wake(thread))
        yield thread.sleep()
        yield thread.run(1e-6)
        self.came = self.machine.env.now

    def wake(self, thread: Thread) -> None:
        self.woken = self.machine.env.now
        self.machine.wake(thread, None)


def test_a_woken_thread_that_is_owed_time_preempts_at_once() -> None:
    # the spinner had a whole slice, until the tick at 4 ms, and the visitor only 0.2 ms
    visit = Visitor(first=False, seconds=2e-4, moment=1e-4)
    assert visit.slept == pytest.approx(4.2e-3, abs=1e-9)
    assert visit.came - visit.woken == pytest.approx(1e-6, abs=1e-12)


def test_a_woken_thread_that_had_more_than_its_share_waits_its_turn() -> None:
    # the visitor had 3 ms and the spinner 0.1 ms when it wakes, and 1 ms at the next tick: its turn is at the
    # second
    visit = Visitor(first=True, seconds=3e-3, moment=1e-4)
    assert visit.slept == pytest.approx(3e-3, abs=1e-9)
    assert visit.came == pytest.approx(8e-3 + 1e-6, abs=1e-9)


SERVERS: list[tuple[str, str, dict[str, object]]] = [
    ("stock", "select", {"clients": 1}),
    ("stock", "select", {"clients": 40}),
    ("stock", "select", {"clients": 8, "think": 2e-3}),
    ("synthetic", "select", {"clients": 5, "demand": 5e-5, "demand_dist": "exponential"}),
    ("stock", "sbuf", {"clients": 3}),
    ("stock", "sbuf", {"clients": 40, "queue_slots": 4}),
    ("stock", "sbuf", {"clients": 4, "workers": 8, "hold": "connection"}),
    ("prime", "sbuf", {"clients": 10, "think": 5e-3}),
    ("prime", "queues", {"clients": 1}),
    ("prime", "queues", {"clients": 10, "workers": 2}),
    ("prime", "queues", {"clients": 10, "steal": "next"}),
    ("prime", "queues", {"clients": 3, "workers": 2, "wait": "spin"}),
    ("prime", "queues", {"clients": 3, "workers": 4, "wait": "spin", "steal": "next"}),
    ("stock", "queues", {"clients": 8, "think": 2e-3}),
]


@pytest.mark.parametrize(("service", "server", "options"), SERVERS, ids=str)
def test_predictions_conserve_clients_and_time(service: str, server: str, options: dict[str, object]) -> None:
    scenario = Scenario.of(service, server, options=options)
    costs = costs_for(scenario)
    found = predict(scenario, costs, replications=2, replies=3000, budget=30.0)
    clients, think = scenario.number("clients"), scenario.number("think")
    rate, response = found.throughput.value, found.response.value
    # What N exceeds X (R + Z) by is the time that due clients wait for the generator: none when nobody
    # thinks.
    assert rate * (response + think) == pytest.approx(clients, rel=0.05)
    if not think:
        assert rate * response == pytest.approx(clients, rel=0.02)
    use = found.utilisation
    assert 0 < use["cpu"] <= 1 + 1e-9
    assert use["server_cpu"] + use["load_cpu"] == pytest.approx(use["cpu"])
    assert rate * (found.counters["server_cpu"] + found.counters["load_cpu"]) == pytest.approx(
        2 * use["cpu"], rel=0.02
    )
    assert sum(x for x, _ in found.operations.values()) == pytest.approx(rate, rel=0.02)
    work = costs.demand(scenario).mean
    assert found.counters["server_cpu"] > work
    if server == "queues":
        parts = len(costs.demand(scenario).tasks[0])
        assert found.counters["tasks"] == pytest.approx(parts, rel=0.05)


def throughput(clients: int, cpus: int = 2, **changed: float) -> float:
    scenario = Scenario.of("stock", "select", options={"clients": clients})
    return predict(
        scenario, costs_for(scenario, cpus, **changed), replications=1, replies=3000
    ).throughput.value


def test_waking_makes_the_start_super_linear_and_nothing_else_does() -> None:
    assert throughput(4) > 4 * throughput(1) * 1.2
    free = {f"machine_{name}": 0.0 for name in WAKES}
    alone = throughput(1, **free)
    assert all(throughput(n, **free) <= n * alone * 1.001 for n in (2, 3, 4, 8))


def test_who_wakes_a_halted_cpu_pays_each_time() -> None:
    scenario = Scenario.of("stock", "select", options={"clients": 1})
    cheap, dear = (
        predict(scenario, costs_for(scenario, machine_wake_waker=price), replications=1, replies=1000)
        for price in (0.0, 1e-5)
    )
    # with one client each reply wakes the generator once and each request the server once
    for side in ("server_cpu", "load_cpu"):
        assert dear.counters[side] - cheap.counters[side] == pytest.approx(1e-5, rel=0.01)


def test_a_thief_takes_the_older_half_of_the_next_queue_and_no_other() -> None:
    scenario = Scenario.of("prime", "queues", options={"workers": 3, "steal": "next"})
    world = engine.World(scenario, costs_for(scenario), np.random.SeedSequence(1))
    thief, victim, third = queues.Pool(world).queues
    request = world.next_request()
    thread = world.machine.threads[0]
    victim.tasks.extend((request, float(i)) for i in range(5))
    assert thief.take(thread) == ((request, 0.0), 0.0)
    assert [seconds for _, seconds in thief.tasks] == [1.0]
    assert [seconds for _, seconds in victim.tasks] == [2.0, 3.0, 4.0]
    assert victim.take(thread) == ((request, 2.0), 0.0)
    assert thief.take(thread) == ((request, 1.0), 0.0)  # its own first
    assert third.take(thread) == (
        None,
        0.0,
    )  # the next after it holds nothing, and a single task is never stolen
    victim.tasks.popleft()
    assert thief.take(thread) == (None, 0.0)
    assert world.counts["steals"] == 2


@pytest.mark.parametrize("wait", ["block", "spin"])
@pytest.mark.parametrize("steal", ["none", "next"])
def test_an_idle_thief_is_woken_when_the_next_queue_holds_two(wait: str, steal: str) -> None:
    scenario = Scenario.of("prime", "queues", options={"workers": 3, "steal": steal, "wait": wait})
    world = engine.World(scenario, costs_for(scenario), np.random.SeedSequence(1))
    thief, victim, third = queues.Pool(world).queues
    for queue, thread in zip((thief, third), world.machine.threads, strict=False):
        queue.worker, queue.idle = thread, True
    for number, woken in enumerate((False, True)):
        victim.tasks.append((world.next_request(), float(number)))
        victim.grown(world.machine.threads[2])
        assert thief.idle is not (woken and steal == "next")
        assert third.idle


@pytest.mark.parametrize("wait", ["block", "spin"])
def test_stealing_empties_one_long_queue_sooner(wait: str) -> None:
    """One client's sixteen tasks on four workers with a CPU each; the two long ones go to one queue, first and second."""
    uneven = ((4e-3, 1e-4, 1e-4, 1e-4) * 2 + (1e-4,) * 8,) * 300
    response = {}
    for steal in ("none", "next"):
        options = {"clients": 1, "workers": 4, "steal": steal, "wait": wait}
        scenario = Scenario.of("prime", "queues", options=options)
        costs = costs_for(scenario, cpus=6)
        costs = costs.with_demands({demand_key(scenario): replace(demand_of("prime"), tasks=uneven)})
        found = predict(scenario, costs, replications=1, replies=300, budget=30.0)
        assert found.counters["tasks"] == pytest.approx(16, rel=0.05)
        response[steal] = found.response.value
    assert response["none"] > 8e-3
    assert 4e-3 < response["next"] < 5e-3


def test_the_same_seed_gives_the_same_prediction_and_another_seed_another() -> None:
    first, again, other = (Scenario.of("prime", "queues", seed=seed) for seed in (1, 1, 2))
    results = [
        predict(s, costs_for(s), replications=1, replies=500).throughput.value for s in (first, again, other)
    ]
    assert results[0] == results[1] != results[2]


@pytest.mark.parametrize(
    ("service", "server", "options", "said"),
    [
        ("prime", "queues", {"accept": "epoll"}, "queues has no model for accept=epoll yet"),
        (
            "stock",
            "select",
            {"connection": "per_request"},
            "closed has no model for connection=per_request yet",
        ),
        ("stock", "sbuf", {"load_threads": 2}, "closed has no model for load_threads=2 yet"),
        ("stock", "sbuf", {"server_cpus": "0"}, "no model for server_cpus=0 yet"),
        ("stock", "sbuf", {"load_cpus": "0-1"}, "no model for load_cpus=0-1 yet"),
        ("synthetic", "sbuf", {"demand": 1e-3, "demand_kind": "sleep"}, "no model for demand_kind=sleep yet"),
    ],
    ids=str,
)
def test_what_has_no_model_is_refused_in_one_line(
    service: str, server: str, options: dict[str, object], said: str
) -> None:
    scenario = Scenario.of(service, server, options=options)
    with pytest.raises(ScenarioError) as caught:
        predict(scenario, Costs(2, {}))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_load_without_a_model_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"^open has no simulation model yet$"):
        predict(Scenario.of("stock", "select", "open"), Costs(2, {}))


def test_a_server_without_a_model_is_refused() -> None:
    scenario = replace(Scenario.of("stock", "select"), server="machine")
    with pytest.raises(ScenarioError, match="machine has no simulation model yet"):
        predict(scenario, Costs(2, {}))
    with pytest.raises(ScenarioError, match="prefork has no simulation model yet"):
        predict(replace(scenario, server="prefork"), Costs(2, {}))


def test_a_prediction_keeps_to_its_time() -> None:
    scenario = Scenario.of("prime", "queues")
    clock: Callable[[], float] = engine.time.perf_counter
    begun = clock()
    found = predict(scenario, costs_for(scenario), replies=10_000_000, budget=0.6)
    assert clock() - begun < 3.0
    assert found.throughput.value > 0
