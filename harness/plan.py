"""What a sweep is to measure: its variables, series and cells, and the order of visits in each block."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

from harness.errors import HarnessError
from models.knobs import Knob, Value
from models.scenario import Scenario, ScenarioError

LOAD = "closed"
REPS, WINDOW, WARMUP, SEED = 5, 1.0, 0.15, 1
PRECISION = 0.05
OVERHEAD = 0.08  # s a replicate beside its window and warm-up: starting, connecting, stopping, storing
MOST_CELLS = 10_000
SEED_KNOB = Knob("seed", "int", 1, "0:9007199254740992", "", "scenario", "of every random choice")

CELL, CONTROL, NULL = "cell", "control", "null"


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A scenario, its place on the axis, and the series that it belongs to."""

    scenario: Scenario
    x: float
    fixed: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Visit:
    """One measurement that a block makes: a cell, the control cell once more (A/A), or the null server."""

    kind: str
    scenario: Scenario

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.scenario.key}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A sweep, completely.

    Attributes
    ----------
    service, server, load : str
    variables : tuple of (name, values)
        The first is the axis; the others make a series for each of their values.
    options : tuple of (name, values)
        Settings; more than one value makes a series each.
    reps : int
        Blocks: each visits every cell once, on a fresh server process.
    window, warmup : float
        Of each visit, s.
    seed : int
        Of the scenarios' random choices and of the order of visits.
    control : Scenario
        The cell that each block measures twice: the middle one of the first series as it was planned first.
    precision : float
        Relative half-width of the throughput's interval at which a cell is narrow enough.
    budget : float or None
        Seconds of measuring within which further blocks must end; None: 1.3 times the planned blocks'.
    sample : float or None
        Seconds from one look at the server's process tree to the next; None: it is not sampled.
    """

    service: str
    server: str
    load: str
    variables: tuple[tuple[str, tuple[Value, ...]], ...]
    options: tuple[tuple[str, tuple[Value, ...]], ...] = ()
    reps: int = REPS
    window: float = WINDOW
    warmup: float = WARMUP
    seed: int = SEED
    control: Scenario | None = None
    precision: float = PRECISION
    budget: float | None = None
    sample: float | None = None

    @property
    def axis(self) -> str:
        """The variable that the curves are drawn over."""
        return self.variables[0][0]

    def cells(self) -> tuple[PlannedCell, ...]:
        """Every cell, series by series, each by rising value; HarnessError lists all that cannot be."""
        return _cells(self)

    def with_control(self) -> Plan:
        """The plan with its control cell chosen, if it has none."""
        if self.control is not None:
            return self
        first = [cell for cell in self.cells() if cell.fixed == self.cells()[0].fixed]
        return replace(self, control=first[len(first) // 2].scenario)

    def scenario(self, settings: Mapping[str, Value]) -> Scenario:
        """The scenario with these settings; ScenarioError when it cannot be."""
        options = {name: value for name, value in settings.items() if name != SEED_KNOB.name}
        seed = int(settings.get(SEED_KNOB.name, self.seed))
        return Scenario.of(self.service, self.server, self.load, seed, options)

    def visits(self, block: int) -> tuple[Visit, ...]:
        """A block's visits in its own random order: every cell, the control cell again, and the null server.

        The place of a visit depends on the seed, the block and the visit itself alone, so a sweep that is
        resumed or given more values keeps the order of what it had.
        """
        found = [Visit(CELL, cell.scenario) for cell in self.cells()]
        found.append(Visit(NULL, null_scenario(self.seed)))
        if self.control is not None:
            found.append(Visit(CONTROL, self.control))

        def place(visit: Visit) -> bytes:
            return hashlib.sha256(f"{self.seed}:{block}:{visit.name}".encode()).digest()

        return tuple(sorted(found, key=place))

    def seconds(self, visits: int) -> float:
        """About how long so many visits take, s."""
        return visits * (self.window + self.warmup + OVERHEAD)

    def to_json(self) -> dict[str, Any]:
        return {
            "service": self.service,
            "server": self.server,
            "load": self.load,
            "variables": [{"name": name, "values": list(points)} for name, points in self.variables],
            "options": [{"name": name, "values": list(points)} for name, points in self.options],
            "reps": self.reps,
            "window": self.window,
            "warmup": self.warmup,
            "seed": self.seed,
            "control": None if self.control is None else self.control.to_json(),
            "precision": self.precision,
            "budget": self.budget,
            "sample": self.sample,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Plan:
        """The plan that `to_json` wrote."""

        def lists(name: str) -> tuple[tuple[str, tuple[Value, ...]], ...]:
            return tuple((row["name"], tuple(row["values"])) for row in document[name])

        plain = {
            name: document[name] for name in ("service", "server", "load", "reps", "window", "warmup", "seed")
        }
        control = None if document["control"] is None else Scenario.from_json(document["control"])
        # A plan from before there were rules for stopping measured what was planned, and no more.
        later = {
            "precision": document.get("precision", PRECISION),
            "budget": document.get("budget", None if "precision" in document else 0.0),
            "sample": document.get("sample"),
        }
        return cls(variables=lists("variables"), options=lists("options"), control=control, **plain, **later)


@lru_cache(maxsize=8)
def _cells(plan: Plan) -> tuple[PlannedCell, ...]:
    found, errors = [], {}
    axis, points = plan.variables[0]
    factors = [*plan.options, *plan.variables[1:]]
    count = math.prod(len(choices) for _, choices in (*plan.options, *plan.variables))
    if count > MOST_CELLS:
        raise HarnessError(f"{count} cells: a sweep has {MOST_CELLS} at most; take wider steps", usage=True)
    for chosen in product(*(choices for _, choices in factors)):
        settings = dict(zip((name for name, _ in factors), chosen, strict=True))
        several = {name: settings[name] for name, choices in factors if len(choices) > 1}
        fixed = {**several, "service": plan.service, "server": plan.server, **settings}
        for x in points:
            try:
                scenario = plan.scenario({**settings, axis: x})
            except ScenarioError as error:
                errors.update(dict.fromkeys(str(error).split("\n")))
                continue
            found.append(PlannedCell(scenario, float(x), tuple(fixed.items())))
    if errors:
        raise HarnessError("\n".join(errors), usage=True)
    return tuple(found)


def null_scenario(seed: int) -> Scenario:
    """A server that does nothing: what the load generator can do at most, and how steady the machine is."""
    return Scenario.of("synthetic", "select", LOAD, seed, {"demand": 0, "clients": 16})
