"""Asks the models what they predict with this machine's costs, and puts the answer in words."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from harness import calibrate, table
from harness.cell import Cell
from harness.errors import HarnessError
from harness.progress import Reporting
from harness.sweeping import shares
from harness.table import lines
from models import des, forecasting, what_if
from models.analytic.bounds import asymptotic
from models.costs import Costs, MissingCost, demand_key
from models.forecasting import EACH, MOST, Forecast, Prepare, Simulate
from models.metrics import Metrics, number
from models.outside import NO_MODEL
from models.scenario import Scenario, ScenarioError
from models.sensitivity import Sensitivity
from models.what_if import WhatIf
from models.wording import figure, percent, rate


@contextmanager
def refusing() -> Iterator[None]:
    """Turns what a model refuses into the line that the user is told."""
    try:
        yield
    except ScenarioError as error:  # a scenario that can be measured, but that no model covers
        raise HarnessError(str(error)) from error
    except MissingCost as error:
        raise HarnessError(str(error.args[0])) from error


def taken(settings: Sequence[str]) -> tuple[WhatIf, tuple[str, ...]]:
    """What --set supposes of a machine that is not there, and the settings that are left."""
    try:
        return what_if.taken(settings)
    except ScenarioError as error:
        raise HarnessError(str(error), usage=True) from error


def costs_for(scenarios: Sequence[Scenario]) -> Costs:
    """This machine's costs with these scenarios' demands, calibrated first if they are not known."""
    if any(scenario.outside for scenario in scenarios):
        raise HarnessError(NO_MODEL)
    with Reporting() as progress:
        known = calibrate.costs_for(scenarios, progress=shares(progress, "calibrating"))
    if warning := calibrate.warning(known.provenance):
        print(f"warning: {warning}", file=sys.stderr)
    return known


@contextmanager
def simulating(about: int) -> Iterator[Prepare]:
    """The engine, with a bar in a terminal that moves with each simulation; about as many as are expected."""
    with Reporting(quiet=not sys.stderr.isatty()) as progress:
        progress.begin("simulating", about)

        def prepare(scenario: Scenario, costs: Costs, **settings: Any) -> Simulate:
            simulate = des.prepared(scenario, costs, **settings)

            def stepping(drawn: Costs, **told: Any) -> tuple[Metrics, dict[str, Any]]:
                found = simulate(drawn, **told)
                progress.step("")
                return found

            return stepping

        yield prepare


@dataclass(frozen=True, slots=True)
class Answer:
    """What is predicted of a scenario, under what is supposed; `forecast` is None where costs are missing for it."""

    scenario: Scenario
    question: WhatIf
    forecast: Forecast | None
    beyond: Sequence[str]
    rows: Sequence[Sensitivity] | None = None
    most: float = float("nan")

    @property
    def words(self) -> str:
        if self.forecast is None:
            return f"at most {rate(self.most)} (a bound by the demand alone, extrapolated)"
        return forecasting.words(self.forecast.spreads["throughput"], self.rows or (), self.beyond)

    def to_json(self) -> dict[str, Any]:
        """The cell, with engine, uncertainty, words, what_if, and sensitivity if it was asked for."""
        found = self.forecast
        cell = Cell(self.scenario, predicted=found.metrics if found else None).to_json()
        return {
            **cell,
            "engine": dict(found.engine) if found else None,
            "uncertainty": found.to_json() if found else None,
            "words": self.words,
            "what_if": {
                **self.question.to_json(),
                "extrapolated": list(self.beyond),
                "bounds": self._bounds() if self.beyond else None,
            },
            **({} if self.rows is None else {"sensitivity": [row.to_json() for row in self.rows]}),
        }

    def _bounds(self) -> dict[str, float | None]:
        """Of the throughput, 1/s."""
        if self.forecast is None:
            return {"low": None, "high": number(self.most)}
        estimate = self.forecast.metrics.throughput
        return {"low": number(estimate.low), "high": number(estimate.high)}

    def text(self) -> str:
        document = self.to_json()
        rows = [
            table.cell_text(document) if self.forecast else _title(self.scenario),
            "",
            f"throughput {self.words}{self._drawn()}",
        ]
        supposed = [f"cores={self.question.cores}"] if self.question.cores else []
        supposed += [f"{name}=none" for name in self.question.ideal]
        if supposed:
            rows.append(f"supposed, not of this machine: {' '.join(supposed)}")
        rows += [f"extrapolated: {line}" for line in self.beyond]
        return "\n".join([*rows, *self._sensitivities()])

    def _drawn(self) -> str:
        return f", from {self.forecast.draws} draws of the costs" if self.forecast else ""

    def _sensitivities(self) -> Iterator[str]:
        if not self.rows:
            return
        yield ""
        shown = [
            (figure(row.elasticity, 2), f"± {figure(2 * row.error, 1)}", percent(row.share), row.name)
            for row in self.rows
        ]
        yield from lines(shown, ("∂lnX/∂lnD", "95 %", "of the variance", "cost"), words=1)


def _title(scenario: Scenario) -> str:
    return f"{scenario.service} on {scenario.server} under {scenario.load}, seed {scenario.seed}"


def ask(scenario: Scenario, question: WhatIf, sensitivity: bool = False, **settings: Any) -> Answer:
    """Predicts the scenario under what is supposed.

    Raises
    ------
    HarnessError
        When no model covers the scenario.
    """
    with refusing():
        costs = costs_for([scenario])
        with simulating(EACH * MOST) as prepare:
            try:
                found, beyond = forecasting.supposed(prepare, scenario, costs, question, **settings)
            except MissingCost as error:
                most = _most(scenario, question.costs(costs))
                if most is None:
                    raise
                return Answer(scenario, question, None, [str(error.args[0])], most=most)
            engine = {name: value for name, value in settings.items() if name == "engine"}
            supposed = question.costs(costs)
            rows = forecasting.sensitivities(prepare, scenario, supposed, **engine) if sensitivity else None
    return Answer(scenario, question, found, beyond, rows)


def _most(scenario: Scenario, costs: Costs) -> float | None:
    """What no arrangement can beat, 1/s: by the demand alone; None where there is none."""
    demand = costs.demands.get(demand_key(scenario))
    if demand is None or demand.mean <= 0 or scenario.load != "closed":
        return None
    think = scenario.number("think")
    return asymptotic(int(scenario.number("clients")), [demand.mean], think, [costs.cpus]).throughput_high
