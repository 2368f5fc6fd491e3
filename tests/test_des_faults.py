"""What goes wrong in programs and models is said in one line, the same way by both engines; limits, and many CPUs."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from modelled import costs_for
from queueing import ENGINES

from models import Scenario, ScenarioError, analytic, knobs
from models.costs import Demand
from models.des import compiled_engine, predict, simpy_engine
from models.des.compiling.types import ProgramError
from models.des.engine import model_of, simulate
from models.des.model import ProgramFault
from models.des.records import Fifo, Record, Steps, Thread, World
from pyx import registry

MODELS = Path(__file__).parents[1] / "models"


@dataclass(eq=False)
class Box(Record):
    n: int = 0
    x: float = 0.0
    items: Fifo[int] = field(default_factory=Fifo)
    other: Box | None = None


def _empty(world: World, thread: Thread, box: Box) -> Steps:
    yield thread.run(1.0)
    box.items.popleft()


def _none(world: World, thread: Thread, box: Box) -> Steps:
    yield thread.run(1.0)
    box.other.n = 1  # type: ignore[union-attr]


def _zero(world: World, thread: Thread, box: Box) -> Steps:
    yield thread.run(1.0)
    box.n = 1 // box.n


def _negative(world: World, thread: Thread, box: Box) -> Steps:
    box.x -= 1.0
    yield thread.run(box.x)


def _late(world: World, thread: Thread, box: Box) -> Steps:
    yield thread.run(1.0)
    world.at(-1.0, _later, box)


def _later(world: World, box: Box) -> None:
    box.n = 1


def _beyond(world: World, thread: Thread, box: Box) -> Steps:
    yield thread.run(1.0)
    yield from _helped(world, box)


def _helped(world: World, box: Box) -> Steps:
    world.count("n", 1.0 / box.x)
    yield 0


def _recursion(world: World, thread: Thread, box: Box) -> Steps:
    yield thread.run(1.0)
    yield from _recursion(world, thread, box)


def _forgotten(world: World, thread: Thread, box: Box) -> Steps:
    thread.run(1.0)
    yield thread.run(1.0)


def _endless(world: World, thread: Thread, box: Box) -> Steps:
    yield thread.run(1.0)
    while box.n >= 0:
        box.x += 1.0


def run(program: Callable[..., Steps], engine: str, box: Box | None = None, **settings: Any) -> Any:
    def build(world: World) -> None:
        world.spawn("a", "group", program, box or Box())

    return simulate(build, engine=engine, **{"replies": 1, "budget": 20.0, **settings})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("program", [_empty, _none, _zero, _negative, _late, _recursion, _forgotten])
def test_a_fault_of_a_program_is_one_line_with_its_place(engine: str, program: Any) -> None:
    first = program.__code__.co_firstlineno
    with pytest.raises((ProgramFault, ProgramError)) as caught:
        run(program, engine)
    said = str(caught.value)
    assert any(said.startswith(f"test_des_faults.py:{first + k}: ") for k in range(3)) and "\n" not in said


@pytest.mark.parametrize("engine", ENGINES)
def test_a_fault_in_a_helper_is_told_where_it_is(engine: str) -> None:
    line = _helped.__code__.co_firstlineno + 1
    with pytest.raises((ProgramFault, ProgramError), match=rf"^test_des_faults\.py:({line}|{line + 1}): "):
        run(_beyond, engine)


def test_a_program_without_a_yield_is_no_program() -> None:
    with pytest.raises(ProgramFault, match="the program of thread a has no yield"):
        run(_later_of_thread, "simpy")  # type: ignore[arg-type]


def _later_of_thread(world: World, thread: Thread, box: Box) -> None:
    box.n = 1


def test_ctrl_c_ends_a_loop_that_never_waits() -> None:
    """The SimPy engine cannot see such a loop; so it must run where an interrupt is heard."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            run(_endless, "simpy")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_number_of_more_than_64_bits_is_named() -> None:
    with pytest.raises(ProgramError, match=r"Box\.n holds 2361183241434822606848: .* 64 bits"):
        run(_zero, "compiled", Box(n=2**71))


DEMAND = Demand((0,), (3e-7,), (4e-7,), ((5e-5, 2.3e-5),), 1)
WIDE = (
    ("select", {"clients": 11, "load_threads": 2, "server_cpus": "62-63", "load_cpus": "0,63"}),
    ("sbuf", {"clients": 40, "workers": 8, "load_threads": 5, "think": 3e-4}),
    ("sbuf", {"clients": 11, "workers": 20, "server_cpus": "0-1", "load_cpus": "1-63"}),
    ("sbuf", {"clients": 11, "workers": 3, "connection": "per_request", "server_cpus": "0-14"}),
    ("queues", {"clients": 11, "workers": 1, "load_threads": 3, "server_cpus": "2-15"}),
)


@pytest.mark.parametrize("cpus", [16, 64])
@pytest.mark.parametrize(("server", "options"), WIDE)
def test_both_engines_follow_the_same_trajectory_on_many_cpus(
    server: str, options: dict[str, Any], cpus: int
) -> None:
    options = {name: str(value).replace("63", str(cpus - 1)) for name, value in options.items()}
    options = {name: value.replace("62", str(cpus - 2)) for name, value in options.items()}
    scenario = Scenario.of("prime", server, options={"think_dist": "constant", **options})
    model = model_of(scenario, costs_for(scenario, cpus, DEMAND))
    until = time.perf_counter() + 60
    slow, fast = (
        e.prepare(model).replicate(3, 50, 300, until=until) for e in (simpy_engine, compiled_engine)
    )
    np.testing.assert_allclose(fast.responses, slow.responses, rtol=1e-7)
    for name, usage in slow.groups.items():
        assert (fast.groups[name].slept, fast.groups[name].switched) == (usage.slept, usage.switched)


def test_more_cpus_than_an_engine_has_are_refused_with_what_to_do() -> None:
    scenario = Scenario.of("stock", "select", options={"clients": 3})
    costs = costs_for(scenario, cpus=65)
    with pytest.raises(ScenarioError, match=r"1 to 64 CPUs; the simpy engine can$"):
        predict(scenario, costs)
    assert predict(scenario, costs, engine="simpy", replications=1, replies=200).throughput.value > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_arrivals_that_can_never_be_answered_break_no_law(engine: str) -> None:
    """Of four generators only those that hold a worker's connections have any answered."""
    options = {"arrival_rate": 2000, "clients": 40, "workers": 4, "hold": "connection", "load_threads": 4}
    scenario = Scenario.of("stock", "sbuf", "open", options=options)
    found = predict(scenario, costs_for(scenario), engine=engine, replications=1, replies=1000, budget=60.0)
    assert 0 < found.throughput.value < 2000


@pytest.mark.parametrize("kind", ["server", "load"])
def test_every_file_with_a_model_is_found_by_the_name_of_what_it_models(kind: str) -> None:
    ours = {"server": registry.servers(), "load": registry.loads()}[kind]
    files = {path.stem for path in (MODELS / "des").glob("*.py") if "\ndef build(" in path.read_text()}
    assert files <= {*registry.servers(), *registry.loads()}
    for name in files & set(ours):
        scenario = Scenario.of("stock", **{"server": "select", "load": "closed", kind: name})
        assert model_of(scenario, costs_for(scenario)).build
    for name in set(knobs.variants(kind)) & set(ours) - files:
        with pytest.raises(ScenarioError, match=f"{name} has no simulation model yet"):
            scenario = Scenario.of("stock", **{"server": "select", "load": "closed", kind: name})
            model_of(scenario, costs_for(scenario))


def test_every_formula_is_offered_by_the_package() -> None:
    files = {path.stem for path in (MODELS / "analytic").glob("[a-z]*.py")}
    offered = {getattr(analytic, name).__module__.rpartition(".")[2] for name in analytic.__all__}
    assert offered == files


@pytest.mark.parametrize("places", ["2", "a", "1-0", "0-99999999999", "0,,1", "0-1-2"])
def test_cpus_that_are_not_there_are_refused_in_one_line(places: str) -> None:
    scenario = Scenario.of("stock", "select", options={"server_cpus": places})
    with pytest.raises(ScenarioError, match=rf"^server_cpus={places}: .* CPUs 0 to 1; name some of them$"):
        model_of(scenario, costs_for(scenario))


@pytest.mark.parametrize("seed", [121, 123, 137])
def test_equal_deadlines_are_met_in_the_order_of_coming_by_both_engines(seed: int) -> None:
    """They differ by what sums of times round off, which the engines add up in different orders."""
    options = {"clients": 3, "think": 0.001, "think_dist": "constant", "load_threads": 5, "workers": 1}
    scenario = Scenario.of("prime", "queues", seed=seed, options=options)
    demand = Demand((0,), (3.1e-7,), (4.3e-7,), ((5.0317e-5, 2.3711e-5),), 1)
    model, until = model_of(scenario, costs_for(scenario, 2, demand)), time.perf_counter() + 60
    slow, fast = (
        e.prepare(model).replicate(seed, 0, 400, until=until) for e in (simpy_engine, compiled_engine)
    )
    np.testing.assert_allclose(fast.responses, slow.responses, rtol=1e-7)
