"""Carries out a score: costs, then every prediction, sealed, then measurements in rounds; each is committed when done.

No prediction can see a measurement: the store holds costs alone until the last prediction is in it. Then a digest of all
predictions and the time are stored, the file refuses their change from then on, and whoever reads it checks the digest.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.plan import CELL, CONTROL, NULL, Visit
from harness.progress import Progress
from harness.scoring.exam import ALONE, STRIDE, Exam
from harness.store import Store, create_store, is_blank, open_store
from models.outside import NO_MODEL
from models.scenario import Scenario

PREFIX = "score-"
EACH, SHARE = 4.0, 0.25  # s a prediction takes at most, on one CPU; share of the budget that all may take
FEWEST_ALONE = 1  # undisturbed measurements of one client alone
MOST_AGAIN = 5  # times that disturbed measurements are made again
KINDS = (CELL, CONTROL, ALONE, NULL)


def open_for(exam: Exam | None, out: Path | None, resume: bool) -> Store:
    """The store of a score, locked, with what it is to measure.

    Parameters
    ----------
    exam : Exam or None
        What to measure; None where only a store that is there goes on.
    out : path, optional
        A new one in results/ by default, or the newest there where a score goes on.

    Raises
    ------
    HarnessError
        When the budget is too small, nothing is there to go on with, or the store holds something else.
    """
    from harness.sweeping import place

    path = place(out, resume, "score", begin=PREFIX)
    if resume and not is_blank(path):
        store = open_store(path, write=True)
        if not store.meta("score"):
            store.close()
            raise HarnessError(
                f"{path}: holds no score; give one's store, or start without --resume", usage=True
            )
        return store
    if exam is None:
        raise HarnessError(f"{path}: nothing to resume there; start without --resume", usage=True)
    exam.check()
    store = create_store(path)
    alone = [visit.scenario for visit in exam.visits(0) if visit.kind == ALONE]
    store.set_cells("score", exam.to_json(), [*exam.scenarios, *alone], uuid.uuid4().hex)
    return store


def exam_of(store: Store) -> Exam:
    """What the store's score is to measure."""
    return Exam.from_json(store.meta("score"))


def execute(store: Store, progress: Progress, arguments: Sequence[str] | None = None) -> None:
    """Does all that is not in the store yet.

    Raises
    ------
    HarnessError
        When the costs cannot be measured, or predictions were changed after they were sealed.
    """
    from harness import provenance

    exam, begun = exam_of(store), time.monotonic()
    if store.meta("finished"):
        check_sealed(store)
        return
    store.begin_session(time.time(), provenance.collect(arguments))
    if not store.meta("sealed"):
        _predict(store, exam, progress)
        _seal(store)
        progress.note(f"all is predicted and sealed: SHA-256 {store.meta('sealed')['digest']}")
    check_sealed(store)
    if not store.meta("rounds"):
        left = exam.budget - (time.monotonic() - begun)
        store.set_meta("rounds", {"planned": exam.rounds(left), "seconds": left})
    _measure(store, exam, progress)
    store.set_meta("finished", time.time())


def _predict(store: Store, exam: Exam, progress: Progress) -> None:
    """Predicts every configuration that has no prediction yet, from the store's costs."""
    from harness import predicting
    from harness.sweeping import shares

    if store.done():
        raise HarnessError(f"{store.path}: holds measurements but no seal; measure into another --out")
    known = store.predictions()
    wanted = [one for one in exam.scenarios if not (one.key in known and known[one.key].metrics)]
    costs = _costs(store, exam.scenarios, shares(progress, "calibrating"))
    progress.begin("predicting", len(wanted))
    budget = min(SHARE * exam.budget, EACH * len(wanted))
    with closing(predicting.predict_all(wanted, costs, budget)) as answers:
        for scenario, metrics, refusal in answers:
            store.set_prediction(scenario, metrics, refusal)
            progress.step(label(scenario))


def _costs(store: Store, scenarios: Sequence[Scenario], progress: Any) -> Mapping[str, Any]:
    """The costs that a session of this score has predicted with already, or this machine's."""
    from harness import calibrate
    from models.costs import demand_key

    for session in store.sessions():
        if kept := store.costs(session["session"]):
            store.set_costs(kept)
            return dict(kept)
    try:
        calibrate.costs(progress, effort=calibrate.FULL)
        costs = calibrate.costs_for(scenarios, progress=progress).to_json()
    except (RuntimeError, OSError, LookupError, ValueError) as error:
        raise HarnessError(f"cannot calibrate, so nothing is predicted or measured: {error}") from error
    needed = {demand_key(scenario) for scenario in scenarios}
    costs["demands"] = {key: demand for key, demand in costs["demands"].items() if key in needed}
    store.set_costs(costs)
    return dict(costs)


def _seal(store: Store) -> None:
    if not any(prediction.metrics for prediction in store.predictions().values()):
        reason = next((p.refusal for p in store.predictions().values() if p.refusal), NO_MODEL)
        raise HarnessError(f"{store.path}: nothing could be predicted, so nothing is measured: {reason}")
    store.seal()
    store.set_meta("sealed", {"at": time.time(), "digest": store.predictions_digest()})


def check_sealed(store: Store) -> dict[str, Any]:
    """When the predictions were sealed and their digest; HarnessError unless they are as they were, and came first."""
    sealed: dict[str, Any] | None = store.meta("sealed")
    if sealed is None:
        raise HarnessError(f"{store.path}: ended before all was predicted; go on with --resume --out FILE")
    if store.predictions_digest() != sealed["digest"]:
        raise HarnessError(
            f"{store.path}: its predictions were changed after they were sealed; measure into another --out"
        )
    started = [
        r.started for kind in (CELL, ALONE) for rows in store.replicates(kind).values() for _, r in rows
    ]
    if min(started, default=sealed["at"]) < sealed["at"]:
        raise HarnessError(
            f"{store.path}: holds measurements older than its predictions; measure into another --out"
        )
    return sealed


def _measure(store: Store, exam: Exam, progress: Progress) -> None:
    """The planned rounds, then what drift or others disturbed, while time is left."""
    planned, limit = store.meta("rounds")["planned"], store.meta("rounds")["seconds"]
    deadline = time.monotonic() + limit - _spent(store)
    done = store.done()
    todo = [(b, visits) for r in range(planned) for b, visits in exam.stretches(r)]
    missing = [(b, [v for v in visits if (v.kind, v.scenario.key, b) not in done]) for b, visits in todo]
    progress.begin("measuring", exam.seconds(sum(len(visits) for _, visits in missing)))
    _stretches(store, exam, missing, deadline, progress)
    for _ in range(MOST_AGAIN):
        again = _again(store, exam, planned)[: max(int((deadline - time.monotonic()) / exam.seconds(1)), 0)]
        number = max(planned, max((block for *_, block in store.done()), default=0) // STRIDE + 1)
        progress.begin("measuring again", exam.seconds(len(again)))
        if not again or not _stretches(store, exam, exam.stretches(number, again), deadline, progress):
            return


def _stretches(
    store: Store,
    exam: Exam,
    stretches: Iterable[tuple[int, Sequence[Visit]]],
    deadline: float,
    progress: Progress,
) -> int:
    """Measures one after the other until the deadline; how many visits could be measured, null servers apart."""
    good = 0
    for block, visits in stretches:
        if visits and time.monotonic() < deadline:
            good += _stretch(store, exam, block, visits, progress)
    return good


def _stretch(store: Store, exam: Exam, block: int, visits: Sequence[Visit], progress: Progress) -> int:
    """Measures visits between two readings of the yardstick; how many could be, null servers apart."""
    from harness import calibrate, sweeping

    store.add_block(block, time.time(), calibrate.yardstick())
    good = 0
    for slot, visit in enumerate(visits):
        found = sweeping.measure_visit(store, exam, visit, block, slot)
        failed = isinstance(found, str)
        good += not failed and visit.kind != NULL
        said = f"failed: {found}" if isinstance(found, str) else f"{sweeping.rate_of(found):,.0f} replies/s"
        progress.step(f"{label(visit.scenario)} ({visit.kind}): {said}", exam.seconds(1))
    store.add_block(block, time.time(), calibrate.yardstick())
    return good


def _again(store: Store, exam: Exam, planned: int) -> list[Visit]:
    """The configurations with fewer undisturbed replicates than planned, those with the fewest first."""
    from harness.judging import audit
    from harness.scoring.judging import drift_in

    drift = drift_in(store)
    lacking = []
    for kind, scenarios, least in (
        (CELL, exam.scenarios, planned),
        (ALONE, [visit.scenario for visit in exam.visits(0) if visit.kind == ALONE], FEWEST_ALONE),
    ):
        replicates = store.replicates(kind)
        for scenario in scenarios:
            rows = replicates.get(scenario.key, ())
            good = sum((s, r.block) not in drift.drifted and not audit.disturbed(r.record) for s, r in rows)
            if good < least:
                lacking.append((good, scenario.key, Visit(kind, scenario)))
    return [visit for *_, visit in sorted(lacking, key=lambda row: row[:2])]


def _spent(store: Store) -> float:
    """Wall time of measuring so far, s, of all sessions."""
    from harness.deciding.efficiency import efficiency

    every = [row for kind in KINDS for rows in store.replicates(kind).values() for row in rows]
    return float(efficiency(store.blocks(), every)["wall"])


def label(scenario: Scenario) -> str:
    """A configuration in few words."""
    words = ("clients", "think", "workers", "chunk", "array", "steal", "wait", "hold", "lock", "index")
    shown = {name: scenario.get(name) for name in words if scenario.get(name) not in (None, 0.0)}
    return f"{scenario.service} on {scenario.server} " + " ".join(f"{k}={v}" for k, v in shown.items())
