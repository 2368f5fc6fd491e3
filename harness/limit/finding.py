"""Finds the highest load at which a figure of the response time stays within a limit, with replication.

Every value that is tried is a cell of a sweep over the load's variable, each of its replicates a fresh server process,
committed when done. What a value turned out to be is worked out from its replicates alone, so that a search that was
killed goes on where it was, and another limit can be asked of the same measurements.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness import provenance, sweeping
from harness import request as requests
from harness.cell import Replicate
from harness.errors import HarnessError
from harness.limit import FIGURES, bracketing
from harness.limit.bracketing import UNDECIDED, Bracket, Range
from harness.limit.trial import PATIENCE, Criterion, Trial
from harness.outside import contact, outsiders
from harness.plan import CELL, NULL, Plan, Visit, null_scenario
from harness.progress import Progress
from harness.request import Request
from harness.store import Store, create_store, is_blank, open_store
from models.knobs import text_of
from models.scenario import Scenario, ScenarioError
from models.wording import figure, percent, seconds

VARIABLES = {"open": "arrival_rate", "closed": "clients"}
LOWEST = {"arrival_rate": 100.0, "clients": 1.0}
USUAL_TRIALS = 14  # for the progress bar alone
VAGUE = 1e4  # ratio of an interval's ends, of too few runs, from which it tells nothing and is not shown


@dataclass(slots=True)
class Search:
    """A search as far as it is; `refused` says why values over the range's high end cannot be."""

    variable: str
    criterion: Criterion
    within: Range
    plan: Plan
    trials: dict[float, Trial] = field(default_factory=dict)
    refused: str = ""

    def verdicts(self) -> dict[float, str]:
        return {value: trial.verdict(self.criterion) for value, trial in self.trials.items()}

    def scenario(self, value: float) -> Scenario:
        settings = {name: choices[0] for name, choices in self.plan.options}
        return self.plan.scenario({**settings, self.variable: int(value) if self.within.whole else value})

    def terms(self) -> dict[str, Any]:
        """What is searched, as the store keeps it."""
        return {
            "variable": self.variable,
            "criterion": self.criterion.to_json(),
            "range": {"low": self.within.low, "high": self.within.high},
        }


def search_for(
    request: Request, criterion: Criterion | None, low: float | None = None, high: float | None = None
) -> Search:
    """A new search; HarnessError when it cannot be.

    Parameters
    ----------
    request : Request
        The system and the effort; its variables are not used.
    criterion : Criterion
    low, high : float, optional
        Values to begin with and to end at; 100/s or one client, and the knob's own bound, by default.
    """
    if criterion is None:
        raise HarnessError(f"no limit given; give one of {options()}, such as --p99 5ms", usage=True)
    request = outsiders.settled(request)
    load = request.load or "open"
    if load not in VARIABLES:
        raise HarnessError(f"--load {load}: a limit is searched with {' or '.join(VARIABLES)}", usage=True)
    variable, names = VARIABLES[load], [name for name, _ in request.options]
    if variable in names:
        raise HarnessError(
            f"--set {variable}: is what is searched; give --low and --high instead", usage=True
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise HarnessError(f"--set {twice}: given twice; a limit is searched for one scenario", usage=True)
    system = requests.parts(request.service, request.server, load, [*names, variable])
    knob = requests.knob_table(*system, [*names, variable], request.options)[variable]
    ends = [float(bound) for bound in knob.allowed.split(":")]
    first = max(LOWEST[variable], ends[0]) if low is None else low
    last = ends[1] if high is None else high
    try:
        within = Range(float(knob.parse(first)), float(knob.parse(last)), knob.type == "int")
    except ValueError as error:
        raise HarnessError(str(error), usage=True) from error
    if within.high <= within.low:
        raise HarnessError(f"--high {last:g}: not over --low {first:g}", usage=True)
    asked = replace(request, load=load, variables=(variable,), values=(f"{within.low:.12g}",), budget=0.0)
    return Search(variable, criterion, within, requests.make(asked))


def options() -> str:
    """The options that give a limit, as a list in words."""
    return ", ".join(f"--{name}" for name in FIGURES)


def open_for(
    request: Request,
    criterion: Criterion | None,
    low: float | None,
    high: float | None,
    out: Path | None,
    resume: bool,
) -> tuple[Store, Search]:
    """The store of a search, locked, and the search as far as it is stored; wrong requests write nothing."""
    named = replace(request, variables=(VARIABLES.get(request.load or "open", "limit"),))
    path = sweeping.store_path(out, named, resume)
    if resume and not is_blank(path):
        store = open_store(path, write=True)
        try:
            return store, _resumed(store, request, criterion, low, high)
        except BaseException:
            store.close()
            raise
    search = search_for(request, criterion, low, high)
    search.plan = contact.planned(search.plan, request)
    store = create_store(path)
    try:
        _keep(store, search, {"stopped": ""})
    except BaseException:
        store.close()
        raise
    return store, search


def _resumed(
    store: Store, request: Request, criterion: Criterion | None, low: float | None, high: float | None
) -> Search:
    plan, terms = store.plan(), store.meta("search")
    if plan is None or not terms:
        raise HarnessError(f"{store.path}: holds no search for a limit; give another --out", usage=True)
    requests.extend(plan, replace(request, reps=None))
    known = Criterion(**terms["criterion"]) if criterion is None else criterion
    asked = Request(
        service=plan.service,
        server=plan.server,
        load=plan.load,
        options=tuple((name, text_of(choices[0])) for name, choices in plan.options),
        seed=plan.seed,
    )
    bounds = terms["range"]
    search = search_for(
        asked, known, bounds["low"] if low is None else low, bounds["high"] if high is None else high
    )
    search.plan = replace(plan, reps=max(plan.reps, request.reps or 0))
    rows = store.replicates(CELL)
    for planned in plan.cells():
        found = [replicate for _, replicate in rows.get(planned.scenario.key, ())]
        if found:
            search.trials[planned.x] = Trial(planned.x, planned.scenario, found)
    return search


def _keep(store: Store, search: Search, result: Mapping[str, Any]) -> None:
    """Stores the search's terms and result, and its values as the cells of a sweep."""
    values = tuple(
        int(value) if search.within.whole else value for value in sorted({search.within.low, *search.trials})
    )
    # Each value is compared with the limit and not with other values: no control cell.
    search.plan = replace(search.plan, variables=((search.variable, values),), control=None)
    store.set_meta("search", {**search.terms(), **result})
    store.set_plan(search.plan, uuid.uuid4().hex)


def execute(
    store: Store, search: Search, progress: Progress, arguments: Sequence[str] | None = None
) -> dict[str, Any]:
    """Measures until the limit is bracketed, and gives the result.

    Raises
    ------
    HarnessError
        When even the lowest load is beyond the limit, or cannot be measured.
    """
    store.begin_session(time.time(), provenance.collect(arguments))
    progress.begin("searching", search.plan.seconds(USUAL_TRIALS * search.plan.reps))
    _measure_null(store, search.plan, progress)
    while (trial := _next(store, search)) is not None:
        _measure(store, search, trial, progress)
    result = result_of(search)
    _keep(store, search, result)
    if result["limit"]["value"] is None:
        raise HarnessError(result["stopped"])
    return result


def _measure_null(store: Store, plan: Plan, progress: Progress) -> None:
    """The null server, for the generator's certificate, as often as each value is measured."""
    null, done = null_scenario(plan.seed), store.done()
    for block in range(plan.reps):
        if (NULL, null.key, block) not in done:
            found = sweeping.measure_visit(store, plan, Visit(NULL, null), block, 0)
            text = _said(found, lambda replicate: f"{sweeping.rate_of(replicate):,.0f} replies/s")
            progress.step(f"null server: {text}", plan.seconds(1))


def _said(found: Replicate | str, text: Callable[[Replicate], str]) -> str:
    return f"failed: {found}" if isinstance(found, str) else text(found)


def _next(store: Store, search: Search) -> Trial | None:
    """The trial that needs a replicate: one that is not finished, or the next value's."""
    for trial in search.trials.values():
        if trial.needs(search.criterion, search.plan.reps):
            return trial
    value = bracketing.next_value(search.verdicts(), search.within)
    if value is None:
        return None
    try:
        trial = Trial(value, search.scenario(value))
    except ScenarioError as error:  # such as more descriptors than the server can watch
        if not search.trials:
            raise HarnessError(str(error), usage=True) from error
        search.refused = str(error)
        search.within = replace(search.within, high=max(search.trials))
        return _next(store, search)
    search.trials[value] = trial
    _keep(store, search, {"stopped": ""})
    return trial


def _measure(store: Store, search: Search, trial: Trial, progress: Progress) -> None:
    """One more replicate of a trial."""
    block = len(trial.replicates)
    found = sweeping.measure_visit(store, search.plan, Visit(CELL, trial.scenario), block, 0)
    if isinstance(found, str):
        trial.failure = found
        if len(search.trials) == 1 and not trial.replicates:
            raise HarnessError(f"{search.variable}={trial.value:g}: {found}")
    else:
        trial.replicates.append(found)

    def text(replicate: Replicate) -> str:
        return f"{search.criterion.figure} {seconds(search.criterion.of(replicate.record))}"

    name = f"{search.variable}={trial.value:g} run {block + 1}"
    progress.step(f"{name}: {_said(found, text)}", search.plan.seconds(1))


def result_of(search: Search) -> dict[str, Any]:
    """{variable, criterion, range, limit, trials, monotone, stopped}, from the trials."""
    found = bracketing.bracket(search.verdicts())
    return {
        **search.terms(),
        "limit": {"value": found.low, "low": found.low, "high": found.high},
        "trials": [search.trials[value].to_json(search.criterion) for value in sorted(search.trials)],
        "monotone": not found.against,
        "stopped": _stopped(search, found),
    }


def _stopped(search: Search, found: Bracket) -> str:
    """Why no further value was tried."""
    if found.low is None:
        return _nothing_within(search)
    if found.high is None:
        more = f"; more is refused: {search.refused}" if search.refused else ""
        unsure = f"; undecided at {_list(found.between)}" if found.between else ""
        return f"not reached up to {search.variable}={max(search.trials):g}{unsure}{more}"
    return "; ".join(_reasons(search, found, found.low, found.high))


def _nothing_within(search: Search) -> str:
    """Why not even the lowest load is within the limit."""
    criterion, trial = search.criterion, search.trials[min(search.trials)]
    at = f"at {search.variable}={trial.value:g}, the lowest load tried,"
    obstacles = trial.obstacles()
    shown = obstacles[0] if obstacles else f"{criterion.figure} is {seconds(trial.figure(criterion).value)}"
    advice = "give a lower --low or a higher limit"
    if trial.verdict(criterion) == UNDECIDED:
        shown, advice = f"{shown}, which cannot be told from the limit", "give a lower --low or more --reps"
    return f"{criterion.figure} is not within {seconds(criterion.limit)} at all: {at} {shown}; {advice}"


def _reasons(search: Search, found: Bracket, low: float, high: float) -> Iterator[str]:
    if found.against:
        yield (
            f"outcomes are not monotone: {_list(found.against)} was within although {high:g} was beyond, so that the "
            "machine was disturbed, or the response does not depend on the load alone: measure again"
        )
    if found.between:
        runs = PATIENCE * search.plan.reps
        yield f"{_list(found.between)} could not be told from the limit by {runs} runs"
    if search.within.whole and high - low <= 1:
        yield "the two are neighbours"
    elif high / low <= bracketing.NEAR:
        yield f"the bracket is within {percent(bracketing.NEAR - 1)}"
    elif not found.between:
        yield f"{len(search.trials)} values were tried, the most there are to be"
    marked = [value for value, trial in sorted(search.trials.items()) if trial.cell().broken]
    if marked:
        yield f"{len(marked)} of {len(search.trials)} values are broken ({_list(marked)}), so that this is doubtful"


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def text(result: Mapping[str, Any]) -> str:
    """The result as a sentence and a table."""
    from harness import table

    rows = [_row(trial) for trial in result["trials"]]
    heads = (result["variable"], result["criterion"]["figure"], "interval", "runs", "verdict", "findings")
    return "\n".join([sentence(result), result["stopped"], "", *table.lines(rows, heads, words=2)])


def sentence(result: Mapping[str, Any]) -> str:
    """The limit that was found, and what is wrong beyond it."""
    name, limit, criterion = result["variable"], result["limit"], result["criterion"]
    found = (
        f"{criterion['figure']} stays within {seconds(criterion['limit'])} up to {name}={limit['value']:g}"
    )
    if limit["high"] is None:
        return found
    (over,) = (trial for trial in result["trials"] if trial["value"] == limit["high"])
    slow = over["figure"] is not None and over["figure"] > criterion["limit"]
    why = f"{criterion['figure']} {seconds(over['figure'])}" if slow else over["findings"][0]
    return f"{found}, and no longer at {name}={limit['high']:g} ({why})"


def _row(trial: Mapping[str, Any]) -> tuple[str, ...]:
    low, high = trial["low"], trial["high"]
    return (
        f"{trial['value']:g}",
        "–" if trial["figure"] is None else seconds(trial["figure"]),
        "–" if low is None or high > VAGUE * low else f"[{figure(low * 1e3)}, {figure(high * 1e3)}] ms",
        str(trial["replicates"]),
        trial["verdict"],
        "; ".join(trial["findings"]),
    )
