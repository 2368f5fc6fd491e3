"""Plans with this machine's costs: what is tried, the open scenario, and the answer in words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness import asking_models, values
from harness.errors import HarnessError
from harness.table import lines
from models import forecasting, knobs, planning, uncertainty, what_if
from models.costs import Costs
from models.forecasting import Prepare, Simulate
from models.knobs import Knob
from models.metrics import Metrics
from models.planning import Planned, Search, Target
from models.scenario import Scenario
from models.what_if import CORES, WhatIf
from models.wording import at, percent, rate, seconds

LOAD = "open"
DRAWS = 40  # with which configurations are looked for
FRESH = 100  # with which the one that is found is confirmed
WORKERS = "1:16"
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Answer:
    """A plan, and the CPUs whose costs were calibrated."""

    planned: Planned
    question: WhatIf
    cpus: int

    @property
    def beyond(self) -> list[str]:
        found = self.planned.found
        return (
            [f"cores={found.cores}: costs were measured on {self.cpus} CPUs"]
            if found and found.cores > self.cpus
            else []
        )

    def to_json(self) -> dict[str, Any]:
        search = self.planned.search
        return {
            "target": search.target.to_json(),
            "confidence": search.confidence,
            "draws": DRAWS,
            "fresh": FRESH,
            "cores": list(search.cores),
            "workers": list(search.workers),
            "what_if": {"ideal": list(self.question.ideal), "extrapolated": self.beyond},
            **self.planned.to_json(),
        }

    def text(self) -> str:
        rows = [self._verdict(), *(f"extrapolated: {line}" for line in self.beyond)]
        rows += [f"supposed, not of this machine: {name}=none" for name in self.question.ideal]
        if self.planned.tried:
            heads = ("cores", "workers", "replies", "p99", "confidence", "missed")
            rows += ["", *lines(list(self._tried()), heads, words=1)]
        return "\n".join(rows)

    def _verdict(self) -> str:
        search, found = self.planned.search, self.planned.found
        limits = "".join(f", {name} within {seconds(limit)}" for name, limit in search.target.limits)
        asked = f"{rate(search.target.rate)}{limits}"
        if found is None:
            return f"{asked}: no number of {self._searched()} is enough: {self.planned.limit}"
        workers = "" if found.workers is None else f"{at('workers', found.workers)} on "
        cores = f"{found.cores} core{'' if found.cores == 1 else 's'}"
        held = f"enough in {percent(found.confidence)} of {FRESH} fresh draws of the costs"
        return f"{asked}: {found.scenario.service} on {found.scenario.server} needs {workers}{cores} ({held})"

    def _searched(self) -> str:
        """What was varied: workers, where the server has them."""
        if any(candidate.workers is not None for candidate in self.planned.tried):
            return f"workers up to {self.planned.search.workers[-1]} on cores up to {self.planned.search.cores[-1]}"
        return f"cores up to {self.planned.search.cores[-1]}"

    def _tried(self) -> Iterator[tuple[str, ...]]:
        for one in self.planned.tried:
            share = "–" if one.missed else percent(one.confidence)
            workers = "–" if one.workers is None else str(one.workers)
            p99 = seconds(one.metrics.p99)
            yield (str(one.cores), workers, rate(one.metrics.throughput.value), p99, share, one.missed)


def answer(
    scenario: Scenario,
    question: WhatIf,
    target: Target,
    *,
    workers: str | None = None,
    cores: str | None = None,
    confidence: float = CONFIDENCE,
    **settings: Any,
) -> Answer:
    """The plan for a scenario under an open load.

    Parameters
    ----------
    scenario : Scenario
    question : WhatIf
        Mechanisms that are supposed to cost nothing.
    target : Target
    workers, cores : str, optional
        Numbers to try, as the values of a variable are written.
    confidence : float
    settings
        Of the engine.

    Raises
    ------
    HarnessError
        When numbers cannot be tried, or no model covers the scenario.
    """
    _check(question, confidence)
    numbers = _numbers(
        knobs.of_parts(scenario.service, scenario.server, LOAD).get("workers"), workers or WORKERS
    )
    if workers and not numbers:
        raise HarnessError(f"--workers: {scenario.server} has no such knob; leave it out", usage=True)
    tried = _numbers(CORES, cores or f"1:{len(os.sched_getaffinity(0))}")
    with asking_models.refusing():
        known = asking_models.costs_for([scenario])
        lean = question.costs(forecasting.alone(known, scenario))
        drawn, fresh = (
            uncertainty.draws(
                lean, count, forecasting.stream(scenario, purpose), uncertainty.discrepancy_of(lean)
            )
            for purpose, count in ((3, DRAWS), (4, FRESH))
        )
        search = Search(target, tried, numbers, confidence, forecasting.REPLIES)
        with asking_models.simulating(2 * (DRAWS + FRESH + len(tried))) as prepare:
            simulate = _Simulate(prepare, known.cpus, settings)
            planned = planning.plan(scenario, search, simulate, lean, drawn, fresh)
    return Answer(planned, question, known.cpus)


def check_left(settings: Sequence[str]) -> None:
    """HarnessError where a setting says what a plan is to find."""
    for word in settings:
        name, _, value = (part.strip() for part in word.partition("="))
        if name == "workers":
            raise HarnessError(
                f"--set workers={value}: a plan tries several; write --workers {value}", usage=True
            )


def _check(question: WhatIf, confidence: float) -> None:
    if question.cores is not None:
        raise HarnessError(
            f"--set cores={question.cores}: a plan tries several; write --cores {question.cores}", usage=True
        )
    if not 0 < confidence < 1:
        raise HarnessError(f"--confidence {confidence}: not between 0 and 1", usage=True)


def _numbers(knob: Knob | None, text: str) -> tuple[int, ...]:
    if knob is None:
        return ()
    try:
        return tuple(int(value) for value in values.parse(knob, text))
    except values.ValuesError as error:
        raise HarnessError(str(error), usage=True) from error


@dataclass(slots=True)
class _Simulate:
    """Predicts; on more CPUs than were calibrated, as if these were as far apart as can be."""

    prepare: Prepare
    cpus: int
    settings: dict[str, Any]
    ready: dict[tuple[Scenario, int], Simulate] = field(default_factory=dict)

    def __call__(self, scenario: Scenario, costs: Costs, cores: int, number: int) -> Metrics:
        known = WhatIf(cores).costs(what_if.far(costs) if cores > self.cpus else costs)
        place = scenario, cores
        if place not in self.ready:
            self.ready[place] = self.prepare(scenario, known, **self.settings)
        return self.ready[place](known, number=number, replies=forecasting.REPLIES)[0]
