"""The fast engine: the models' programs as code for a small machine in C, which runs without the GIL."""

from __future__ import annotations

import time
from collections.abc import Mapping, Set
from dataclasses import astuple, dataclass, replace
from math import inf
from typing import Any

import numpy as np

from models.des.compiling.program import Compiled, compile_model
from models.des.compiling.world import BuildWorld
from models.des.machine import PRICES, Prices
from models.des.model import Model, ProgramFault, first_places
from models.des.outcome import Outcome, Usage
from models.scenario import ScenarioError
from pyx import sim

PARALLEL = True
MACHINE = tuple(f"machine.{name}" for name in PRICES)  # free where they are not given


def prepare(model: Model) -> CompiledRun:
    """Builds and compiles a model.

    Raises
    ------
    ProgramError
        When a program is not in the subset of Python that can be compiled.
    ScenarioError
        When the model is beyond a limit of this engine.
    """
    world = BuildWorld(model.cpus, model.scenario, model.sample, model.places)
    compiled = compile_model(model.build, world, model.scheduler, sim.OPCODES)
    _fail_without(compiled, {*MACHINE, *model.costs})
    try:
        return CompiledRun(model, compiled, sim.Program(compiled.spec))
    except ValueError as error:
        raise ScenarioError(
            f"the compiled engine cannot simulate this: {error}; the simpy engine can"
        ) from error


def _fail_without(compiled: Compiled, known: Set[str]) -> None:
    """To ask for a cost that is not known ends a run; a program may name one on a way that its run never takes."""
    code = compiled.spec["code"]
    missing = [number for number, name in enumerate(compiled.costs) if name not in known]
    asks = (code[:, 0] == sim.OPCODES["COST"]) & np.isin(code[:, 2], missing)
    code[asks, 1] = code[asks, 2]
    code[asks, 0] = sim.OPCODES["FAIL"]


@dataclass(frozen=True, slots=True)
class CompiledRun:
    """See models.des.model.Run. Several threads may replicate at once."""

    model: Model
    compiled: Compiled
    program: Any

    def replicate(
        self,
        seed: int,
        warm: int,
        replies: int,
        *,
        until: float,
        span: float = inf,
        costs: Mapping[str, float] | None = None,
    ) -> Outcome:
        table = self.model.costs if costs is None else costs
        prices, values = np.array(astuple(Prices.of(table))), self._costs(table)
        left = max(0.0, until - time.perf_counter())
        try:
            first = first_places(self.compiled.on_cpus, seed)
            found = self.program.run(prices, values, seed, warm, replies, first=first, until=left, span=span)
        except sim.SimulationError as error:
            if error.number is not None:
                self.model.cost(self.compiled.costs[error.number])
            raise ProgramFault(f"{self.compiled.places[error.at]}: {error.reason}") from error
        return self._outcome(found)

    def _costs(self, costs: Mapping[str, float]) -> Any:
        given = replace(self.model, costs=costs)
        free = {*MACHINE, *self.compiled.costs} - set(self.model.costs)
        names = self.compiled.costs
        return np.array(
            [costs.get(name, 0.0) if name in free else given.cost(name) for name in names], dtype=float
        )

    def _outcome(self, found: dict[str, Any]) -> Outcome:
        names = self.compiled
        threads = found["threads"]
        return Outcome(
            span=found["span"],
            responses=found["responses"],
            services=found["services"],
            operations=found["operations"],
            counters=dict(zip(names.counters, found["counters"].tolist(), strict=True)),
            groups=_usages(names.groups, found),
            threads=tuple(_usages(range(len(threads["used"])), threads).values()),
            in_system=found["in_system"],
            finished=found["finished"],
        )


def _usages(names: Any, found: dict[str, Any]) -> dict[Any, Usage]:
    columns = (found[key].tolist() for key in ("used", "slept", "switched"))
    return {name: Usage(*row) for name, *row in zip(names, *columns, strict=True)}
