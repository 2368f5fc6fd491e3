"""The world that programs see, on SimPy: clock, machine, requests, random numbers and tallies of one replication."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import simpy

from models.des.machine import Prices, cooled
from models.des.model import Model, first_places
from models.des.records import COLUMNS, KINDS, Distribution, Steps
from models.des.simpy_engine.machine import Machine
from models.des.simpy_engine.thread import Agent, CpuThread, SimpyThread, check
from models.scenario import ScenarioError

if TYPE_CHECKING:
    from models.des.parts import Connection

SQUARED_VARIATION = 4.0  # of lognormal and hyperexponential durations


class SimpyWorld:
    """One replication; models.des.records.World says what its methods are."""

    def __init__(self, model: Model, seed: int) -> None:
        self.scenario, self.cpus, self.cost = model.scenario, model.cpus, model.cost
        self.prices = Prices.of(model.costs)
        self.env = simpy.Environment()
        self.machine = Machine(self.env, model.cpus, self.prices, model.scheduler)
        self.connections: list[Connection] = []
        self.random = random.Random(seed)
        self.tally = Tally(self.env)
        self.entered, self.completed, self.count = self.tally.entered, self.tally.completed, self.tally.count
        self.locks = model.sample.locks if model.sample else 0
        self._places = model.places
        self._order: list[int] = []
        self._rows = len(model.sample) if model.sample else 0
        if model.sample:
            for name, kind in COLUMNS.items():
                setattr(self, f"demand_{name}", list(map(kind, model.sample.columns[name])).__getitem__)
            self.demand_seconds = model.sample.seconds.tolist().__getitem__
            rounds = model.sample.rounds
            self.demand_rounds = lambda: rounds
        model.build(self)  # type: ignore[arg-type]
        threads = sum(isinstance(thread, CpuThread) for thread in self.machine.threads)
        self.machine.deal(first_places(threads, seed))

    def spawn(
        self,
        name: str,
        group: str,
        program: Callable[..., Steps],
        *args: Any,
        cpus: Sequence[int] | None = None,
    ) -> CpuThread:
        allowed = self._places.get(group) if cpus is None else cpus
        return self.machine.spawn(name, group, lambda thread: program(self, thread, *args), allowed)

    def agent(self, name: str, program: Callable[..., Steps], *args: Any) -> Agent:
        return self.machine.agent(name, lambda thread: program(self, thread, *args))

    def distribution(self, kind: str, mean: float) -> Distribution:
        return Durations(KINDS.index(kind), mean, self.random)

    @property
    def now(self) -> float:
        return self.env.now

    def cooled(self, idle: float) -> float:
        return cooled(idle, self.prices.cools)

    def uniform(self) -> float:
        return self.random.random()

    def below(self, n: int) -> int:
        return int(self.random.random() * n)

    def sample(self) -> int:
        if not self._order:
            if not self._rows:
                raise ScenarioError("the model draws requests, but there is no sample of a service's demand")
            self._order = self.random.sample(range(self._rows), self._rows)
        return self._order.pop()

    def at(self, seconds: float, function: Callable[..., None], *args: Any) -> None:
        check(seconds)
        self.machine.at(seconds, lambda _: function(self, *args))

    def wake(self, thread: SimpyThread) -> None:
        self.machine.wake(thread)


class Tally:
    """What programs report.

    Attributes
    ----------
    area : float
        Requests in the system, integrated over time up to the last change, s.
    """

    def __init__(self, env: simpy.Environment) -> None:
        self.env = env
        self.counts: dict[str, float] = {}
        self.responses: list[float] = []
        self.services: list[float] = []
        self.operations: list[int] = []
        self.inside, self.area, self.changed = 0, 0.0, 0.0

    def count(self, name: str, amount: float = 1.0) -> None:
        self.counts[name] = self.counts.get(name, 0.0) + amount

    def entered(self) -> None:
        self._change(1)

    def completed(self, operation: int, response: float, service: float = -1.0) -> None:
        self._change(-1)
        self.responses.append(response)
        self.services.append(response if service < 0 else service)
        self.operations.append(operation)

    def _change(self, by: int) -> None:
        now = self.env.now
        self.area += self.inside * (now - self.changed)
        self.inside += by
        self.changed = now

    def area_now(self) -> float:
        """The integral up to this moment, s."""
        self._change(0)
        return self.area


class Durations(Distribution):
    """A distribution that draws by the world's random numbers, as pyx/csrc/core/distribution.h defines the kinds."""

    def __init__(self, kind: int, mean: float, source: random.Random) -> None:
        super().__init__(kind, mean)
        self.source = source

    def draw(self) -> float:
        source, mean, kind = self.source, self.mean, KINDS[self.kind]
        if kind == "constant":
            return mean
        if kind == "two_point":
            return mean * (0.5 if source.random() < 0.9 else 5.5)
        if kind == "lognormal":
            variance = math.log1p(SQUARED_VARIATION)
            return mean * source.lognormvariate(-variance / 2, math.sqrt(variance))
        if kind == "hyperexponential":
            p = (1 + math.sqrt((SQUARED_VARIATION - 1) / (SQUARED_VARIATION + 1))) / 2
            share = p if source.random() < p else 1 - p
            return mean / (2 * share) * source.expovariate(1.0)
        return mean * source.expovariate(1.0)
