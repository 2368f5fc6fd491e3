"""Carries out a sweep: predicts every cell, measures all in randomised blocks, commits each when done."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from harness import request as requests
from harness.cell import Replicate
from harness.errors import HarnessError
from harness.outside import contact
from harness.plan import CELL, CONTROL, NULL, Plan, Visit
from harness.progress import Progress, Silent
from harness.request import Request
from harness.store import Store, create_store, is_blank, open_store
from models.outside import NO_MODEL
from models.scenario import Scenario

RESULTS = Path("results")
SUFFIX = ".sqlite"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a sweep went.

    Attributes
    ----------
    measured : int
        Visits that were measured now.
    failed : tuple of (visit, message)
        Visits that could not be, each with why.
    unpredicted : str or None
        Why there are no predictions at all, where they were wanted.
    """

    measured: int
    failed: tuple[tuple[Visit, str], ...]
    unpredicted: str | None


def sweep(
    *variables: str,
    values: Sequence[str] | str = (),
    options: Mapping[str, object] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    predict: bool = True,
    progress: Progress | None = None,
    **request: Any,
) -> dict[str, Any]:
    """Measures, predicts, fits and explains, and gives the JSON document.

    Parameters
    ----------
    *variables : str
        Knobs to vary; the first is the axis.
    values : str, or sequence of str
        Of each variable, as in "1,2,4", "1:16" or "1:64:x2"; the standard ones by default.
    options : mapping of str to value or sequence of values
        Settings; more than one value makes a series each.
    out : path, optional
        The store; a new one in results/ by default.
    resume : bool
        Go on with the store.
    predict : bool
        Whether to predict every cell before it is measured.
    **request
        service, server, load, reps, window (s), warmup (s), seed, quick, precision, budget (s), sample (s): see
        harness.request.Request.

    Raises
    ------
    HarnessError
        When the request is wrong, or the store cannot be used.
    """
    from harness import auditing, document

    wanted = request_for(variables, values, options, **request)

    with open_for(wanted, Path(out) if out else None, resume) as store:
        execute(store, progress or Silent(), predict)
        result = document.document(store)
        auditing.keep(store, result["cells"])
        return result


def request_for(
    variables: Sequence[str] | str,
    values: Sequence[str] | str = (),
    options: Mapping[str, object] | None = None,
    **request: Any,
) -> Request:
    """A request as Python code writes it; `sweep` says what the parameters are."""
    pairs = []
    for name, many in (options or {}).items():
        pairs += [(name, str(one)) for one in (many if isinstance(many, (list, tuple)) else [many])]
    names = (variables,) if isinstance(variables, str) else tuple(variables)
    return Request(
        names, (values,) if isinstance(values, str) else tuple(values), options=tuple(pairs), **request
    )


def store_path(out: Path | None, request: Request, resume: bool) -> Path:
    """Where the store is: as given, or the newest (to resume), or a new one named by time and variables."""
    if out is not None and out.suffix == ".html":
        raise HarnessError(f"{out}: the store's name; its page gets .html beside it", usage=True)
    return place(out, resume, "store", end=f"-{'-'.join(request.variables)}")


def place(out: Path | None, resume: bool, kind: str, begin: str = "", end: str = "") -> Path:
    """Where a store of that kind is: as given, or the newest whose name begins so (to resume), or a new one by time."""
    if out is not None:
        return out if out.suffix else out.with_suffix(SUFFIX)
    if resume:
        found = sorted(RESULTS.glob(f"{begin}*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise HarnessError(
                f"{RESULTS}: no {kind} to resume; give --out, or start without --resume", usage=True
            )
        return found[-1]
    stem = f"{begin}{time.strftime('%Y%m%d-%H%M%S')}{end}"
    names = [stem, *(f"{stem}-{n}" for n in range(2, 1000))]
    return next(path for path in (RESULTS / f"{name}{SUFFIX}" for name in names) if not path.exists())


def open_for(request: Request, out: Path | None, resume: bool) -> Store:
    """The store for a request, locked, with its plan; a wrong request fails before anything is written."""
    path = store_path(out, request, resume)
    fresh = None
    if resume and not is_blank(path):
        store = open_store(path, write=True)
    elif resume and not request.variables:
        raise HarnessError(f"{path}: nothing to resume there; give --var to start a sweep", usage=True)
    else:
        fresh = contact.planned(requests.make(request), request)
        store = create_store(path)
    try:
        stored = store.plan()
        if store.meta("search"):
            raise HarnessError(
                f"{path}: holds a search for a limit; go on with find-limit --resume", usage=True
            )
        if store.meta("score"):
            raise HarnessError(f"{path}: holds a score; go on with score --resume", usage=True)
        if stored is None and not request.variables:
            raise HarnessError(
                f"{path}: ended before its plan was stored; give --var to start again", usage=True
            )
        if stored is None:
            plan = fresh or contact.planned(requests.make(request), request)
        else:
            plan = requests.extend(stored, request)
        store.set_plan(plan, uuid.uuid4().hex)
    except BaseException:
        store.close()
        raise
    return store


def execute(
    store: Store, progress: Progress, predict: bool = True, arguments: Sequence[str] | None = None
) -> Outcome:
    """Does all that the store's plan asks for and that is not in it yet.

    Parameters
    ----------
    store : Store
        With a plan, open for writing.
    progress : Progress
    predict : bool
        Whether to predict cells that were never measured.
    arguments : sequence of str, optional
        Of the command, for the provenance.
    """
    from harness import provenance

    plan = store.plan()
    assert plan is not None
    if not any(missing(plan, store.done()).values()) and _enough(store):
        return Outcome(0, (), None)
    store.begin_session(time.time(), provenance.collect(arguments))
    unpredicted = _predict(store, plan, progress) if predict else None
    measured, failed = _measure(store, plan, progress)
    return Outcome(measured, tuple(failed), unpredicted)


def missing(plan: Plan, done: set[tuple[str, str, int]]) -> dict[int, list[Visit]]:
    """What each block, planned or begun, still has to measure, in its order."""
    from harness.deciding.state import blocks_of

    return {
        block: [visit for visit in plan.visits(block) if (visit.kind, visit.scenario.key, block) not in done]
        for block in range(blocks_of(plan, done))
    }


def _predict(store: Store, plan: Plan, progress: Progress) -> str | None:
    """Predicts what was neither predicted nor measured, and commits it; says why if nothing could be."""
    from harness import calibrate, predicting
    from models.costs import demand_key

    known, measured = store.predictions(), {key for kind, key, _ in store.done() if kind == CELL}
    wanted = [cell.scenario for cell in plan.cells() if cell.scenario.key not in measured]
    wanted = [scenario for scenario in wanted if not (scenario.key in known and known[scenario.key].metrics)]
    for scenario in wanted:
        if scenario.outside:
            store.set_prediction(scenario, None, NO_MODEL)
    wanted = [scenario for scenario in wanted if not scenario.outside]
    if not wanted:
        return None
    try:
        costs = calibrate.costs_for(wanted, progress=shares(progress, "calibrating")).to_json()
        needed = {demand_key(scenario) for scenario in wanted}
        costs["demands"] = {key: demand for key, demand in costs["demands"].items() if key in needed}
    except (RuntimeError, OSError, LookupError, ValueError) as error:
        reason = f"cannot calibrate: {error}"
        for scenario in wanted:
            store.set_prediction(scenario, None, reason)
        return reason
    store.set_costs(costs)
    progress.begin("predicting", len(wanted))
    with closing(predicting.predict_all(wanted, costs, replicates=plan.reps)) as answers:
        for scenario, metrics, refusal in answers:
            store.set_prediction(scenario, metrics, refusal)
            progress.step(label(plan, scenario))
    return None


def shares(progress: Progress, title: str) -> Callable[[str, float], None]:
    """A stage of the progress that is told how much of it is done, 0 to 1, rather than each step."""
    begun, done = False, 0.0

    def report(text: str, share: float) -> None:
        nonlocal begun, done
        if not begun:
            begun = True
            progress.begin(title, 1.0)
        progress.step(text, max(share - done, 0.0))
        done = max(share, done)

    return report


def _enough(store: Store) -> bool:
    """Whether no further block is to be measured; what is stored says so, so that a resumed sweep agrees."""
    from harness.deciding import state

    return state.read(store).decision.reason is not None


def _measure(store: Store, plan: Plan, progress: Progress) -> tuple[int, list[tuple[Visit, str]]]:
    """Measures what is missing in the blocks that there are, then further blocks until it is enough."""
    todo = missing(plan, store.done())
    progress.begin("measuring", plan.seconds(sum(map(len, todo.values()))))
    measured, failed = 0, []
    for block in count():
        if block not in todo and _enough(store):
            break
        if block not in todo:
            progress.begin("measuring further", plan.seconds(len(plan.visits(block))))
        visits = todo.get(block, plan.visits(block))
        if not visits:
            continue
        successes, failures = _measure_block(store, plan, block, visits, progress)
        measured += successes
        failed += failures
        if not successes:
            break  # nothing works: the other blocks would only repeat it
    return measured, failed


def _measure_block(
    store: Store, plan: Plan, block: int, visits: Sequence[Visit], progress: Progress
) -> tuple[int, list[tuple[Visit, str]]]:
    """Measures a block's visits between two readings of the yardstick; how many it could, and what it could not."""
    from harness import calibrate

    store.add_block(block, time.time(), calibrate.yardstick())
    failed = []
    for slot, visit in enumerate(visits):
        found = measure_visit(store, plan, visit, block, slot)
        if isinstance(found, str):
            failed.append((visit, found))
        said = f"failed: {found}" if isinstance(found, str) else f"{rate_of(found):,.0f} replies/s"
        text = f"block {block + 1}/{max(plan.reps, block + 1)} {name_of(plan, visit)}: {said}"
        progress.step(text, plan.seconds(1))
    store.add_block(block, time.time(), calibrate.yardstick())
    return len(visits) - len(failed), failed


class Timing(Protocol):
    """How long each visit is measured, and how often the server is looked at meanwhile, s: a plan is one."""

    @property
    def window(self) -> float: ...
    @property
    def warmup(self) -> float: ...
    @property
    def sample(self) -> float | None: ...


def measure_visit(store: Store, plan: Timing, visit: Visit, block: int, slot: int) -> Replicate | str:
    """Measures one visit and commits it: its replicate, or why there is none."""
    from harness.errors import MeasureError

    started = time.time()
    try:
        replicate = _calm(plan, visit, block)
    except (MeasureError, OSError) as error:
        message = one_line(error)
        store.add_failure(visit, block, slot, uuid.uuid4().hex, started, message)
        return message
    store.add_replicate(visit, slot, replicate)
    return replicate


def _calm(plan: Timing, visit: Visit, block: int) -> Replicate:
    """One run; if others had the CPUs meanwhile, another at once, in its place if it was disturbed less.

    What decides is who else ran, never what was measured, so that it favours no figure.
    """
    from harness import measuring
    from harness.judging import audit

    def run() -> Replicate:
        return measuring.measure_once(
            visit.scenario,
            window=plan.window,
            warmup=plan.warmup,
            block=block,
            sample=None if visit.kind == NULL else plan.sample,
        )

    first = run()
    return (
        min(first, run(), key=lambda made: audit.taken(made.record))
        if audit.disturbed(first.record)
        else first
    )


def rate_of(replicate: Replicate) -> float:
    """Replies per second of a replicate."""
    from harness import recorded

    return recorded.throughput_of(replicate.record)


def one_line(error: BaseException) -> str:
    """An error's message without line breaks; that of the operating system for its own errors."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()) or type(error).__name__


def label(plan: Plan, scenario: Scenario) -> str:
    """A cell in few words: what it differs in from the sweep's others."""
    several = [name for name, choices in (*plan.options, *plan.variables[1:]) if len(choices) > 1]
    values = {**dict(scenario.options), "seed": scenario.seed}
    return " ".join(f"{name}={values[name]}" for name in [plan.axis, *several] if name in values)


def name_of(plan: Plan, visit: Visit) -> str:
    """A visit in few words."""
    if visit.kind == NULL:
        return "null server"
    return label(plan, visit.scenario) + (" (control)" if visit.kind == CONTROL else "")
