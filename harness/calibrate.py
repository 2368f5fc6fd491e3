"""Measures what the models are calibrated with: a ladder on the zero-demand service, probes, and services called natively.

No cost comes from the service × server pair that it will predict: the ladder runs the synthetic service only.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness import measuring
from harness.calibrating import checking, joint, ladder, probes
from models.costs import Costs, Demand, demand_key
from models.scenario import Scenario
from models.uncertainty import DISCREPANCY
from models.wording import percent
from pyx import bench, probing
from pyx.server import EXECUTABLE

Progress = Callable[[str, float], None]

WINDOW, WARMUP = 0.1, 0.03
NULL_RUNS = 4
DEMAND_BUDGET, DEMAND_REQUESTS = 1.0, 4000
SHIFT, NULL_SHIFT = 0.05, 0.10
PATIENCE = 4.0  # s into the ladder up to which disturbed rungs are run again
NOISY = 0.15  # share of the CPUs that others may use while a rung is measured (10 ms ticks in 100 ms)
FORMAT = 7
YARDSTICKS = 15


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: passes over ladder and probes, fewer when so many seconds have gone, never fewer than least."""

    passes: int
    seconds: float
    least: int = 3


QUICK, FULL = Effort(4, 12.0), Effort(20, 75.0)


class CalibrationError(RuntimeError):
    """Costs that cannot be told apart, or a machine too noisy; the message is one line for the user."""


def costs(progress: Progress | None = None, refresh: bool = False, effort: Effort = QUICK) -> Costs:
    """The costs of this machine: the cached ones, or freshly measured when there are none or its speed has shifted.

    Parameters
    ----------
    progress : callable, optional
        Called with what is being done and the share done.
    refresh : bool
        Measure anew in any case.
    effort : Effort
        How much to measure; cached costs that took less are not enough.

    Raises
    ------
    CalibrationError
    """
    path = cache_path()
    if not refresh:
        cached = _read(path)
        if cached is not None and _suffices(cached, effort) and not shifted(cached):
            return cached
    fresh = measure(progress, effort)
    save(fresh)
    return fresh


def _suffices(cached: Costs, effort: Effort) -> bool:
    return disturbance(cached.provenance) <= NOISY and int(cached.provenance["asked"]) >= effort.passes


def costs_for(
    scenarios: Iterable[Scenario], progress: Progress | None = None, refresh: bool = False
) -> Costs:
    """The costs of this machine with the demands of these scenarios in them, measured where they are missing."""
    known = costs(progress, refresh)
    missing = {demand_key(s): s for s in scenarios if demand_key(s) not in known.demands}
    for done, scenario in enumerate(missing.values()):
        if progress:
            progress(f"demand of {scenario.service}", done / len(missing))
        known = known.with_demands({demand_key(scenario): demand_of(scenario)})
    if missing:
        save(known)
    return known


def shift(known: Costs) -> float:
    """How much slower this machine is now than when the costs were measured: 0.05 is 5 %."""
    return yardstick() / float(known.provenance["yardstick"]) - 1


def shifted(known: Costs) -> bool:
    """Whether the machine is no longer as it was: by the yardstick, or by a zero-demand server (a second each).

    Arithmetic and system calls do not slow down together: neighbours on the host can halve the one and spare the other.
    """
    if abs(shift(known)) > SHIFT:
        return True
    return abs(null_throughput() / float(known.provenance["null"]) - 1) > NULL_SHIFT


def null_throughput() -> float:
    """Replies per second of the zero-demand service on the ladder's null rung, the median of several short runs."""
    return statistics.median(_reading(ladder.null(), seed, False).throughput for seed in range(NULL_RUNS))


def disturbance(provenance: Mapping[str, Any]) -> float:
    """Share of the CPUs that other processes used while costs of this provenance were measured (median over the ladder)."""
    return float(provenance.get("neighbours") or 0.0)


def warning(provenance: Mapping[str, Any]) -> str | None:
    """What a reader of such costs must know: that others had too much of the CPUs when they were measured."""
    share = disturbance(provenance)
    if share <= NOISY:
        return None
    return (
        f"other processes used {percent(share)} of the CPUs while the costs were measured: they and what is predicted from "
        "them are off, and the next command that needs them measures anew"
    )


def yardstick() -> float:
    """Seconds for a fixed piece of arithmetic, the best of several: the machine's speed, not who else wanted it."""
    return min(float(bench.yardstick()) for _ in range(YARDSTICKS))


def cache_path() -> Path:
    """Where this machine's costs are kept: one file for each CPU model, kernel, number of CPUs and native build."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kneepoint"
    with open("/proc/cpuinfo") as file:
        model = next((line for line in file if line.startswith("model name")), "")
    builds = [path.stat().st_size for path in (EXECUTABLE, probing.EXECUTABLE) if path.exists()]
    identity = [FORMAT, model, platform.release(), os.sched_getaffinity(0), builds]
    return base / f"costs-{hashlib.sha256(repr(identity).encode()).hexdigest()[:12]}.json"


def save(known: Costs) -> None:
    """Writes the cache in one step; a cache that cannot be written is not an error."""
    path = cache_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(known.to_json()))
        partial.replace(path)
    except OSError:
        pass


def _read(path: Path) -> Costs | None:
    try:
        return Costs.from_json(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def measure(progress: Progress | None = None, effort: Effort = QUICK) -> Costs:
    """Measures everything but the services' demands: about 17 s, or about 80 s with the full effort.

    Raises
    ------
    CalibrationError
        When the measurements do not identify the costs, or a probe fails.
    """
    speed, started = yardstick(), time.time()
    try:
        readings, rows, passes = _climb(progress, effort)
        known = _fitted(readings, rows)
    except joint.Singular as error:
        raise CalibrationError(f"the costs are not identified ({error}); run calibrate again") from error
    except probing.ProbeError as error:
        raise CalibrationError(f"cannot calibrate: {error}") from error
    checked = checking.checks(readings, lambda rung, scenario: _without(rung, scenario, readings, rows))
    provenance: dict[str, Any] = {
        "yardstick": min(speed, yardstick()),
        "started": started,
        "seconds": time.time() - started,
        "kernel": platform.release(),
        "passes": passes,
        "asked": effort.passes,
        "null": statistics.median(reading.throughput for reading in readings[ladder.null()]),
        "neighbours": statistics.median(r.neighbours for several in readings.values() for r in several),
        DISCREPANCY: checking.discrepancy(checked),
        "checks": [check.to_json() for check in checked],
    }
    return replace(known, provenance=provenance)


def _fitted(readings: Readings, rows: Sequence[joint.Equation], without: ladder.Rung | None = None) -> Costs:
    """The costs of these readings and probes; those of one rung left out of the equations."""
    used = {rung: several for rung, several in readings.items() if rung != without}
    found = ladder.complete(readings, joint.fit([*probes.steady(rows), *ladder.equations(used)]))
    cpus = len(os.sched_getaffinity(0))
    return Costs(cpus, found.table, quality=found.quality, covariance=found.covariance, rows=found.rows)


def _without(
    rung: ladder.Rung, scenario: Scenario, readings: Readings, rows: Sequence[joint.Equation]
) -> Costs:
    """Costs fitted without a rung, or with it where the others do not tell all costs apart."""
    try:
        known = _fitted(readings, rows, without=rung)
    except joint.Singular:
        known = _fitted(readings, rows)
    return known.with_demands({demand_key(scenario): demand_of(scenario)})


Readings = dict[ladder.Rung, list[ladder.Reading]]


def _climb(progress: Progress | None, effort: Effort) -> tuple[Readings, list[joint.Equation], int]:
    """All rungs and probes in each pass, in a new order: the readings, the probes' equations, and how many passes.
    A probe may fail now and then, and a rung get no reply while others have the CPUs, but not each time."""
    started, order = time.time(), random.Random(1)
    steps: list[ladder.Rung | probes.Probe] = [*ladder.available(), *probes.available()]
    readings: Readings = {rung: [] for rung in ladder.available()}
    rows: list[joint.Equation] = []
    passes = 0
    failed: dict[str, probing.ProbeError] = {}
    for done in range(effort.passes):
        spent = (time.time() - started) / effort.seconds
        if done >= effort.least and spent * (done + 1) / done > 1:
            break
        if progress:
            progress("calibration", max(spent, done / effort.passes))
        for step in order.sample(steps, len(steps)):
            if isinstance(step, ladder.Rung):
                with suppress(joint.Singular):
                    readings[step].append(_reading(step, done, time.time() - started < PATIENCE))
                continue
            try:
                rows += probes.measure(step)
            except probing.ProbeError as error:
                failed[step.source] = error
        passes += 1
    for source, why in failed.items():
        if not why.usage and not any(row.source == source for row in rows):
            raise why
    silent = [rung.name for rung, several in readings.items() if not several]
    if silent:
        raise joint.Singular(f"no replies on {', '.join(silent)}")
    return readings, rows, passes


def _reading(rung: ladder.Rung, seed: int, patient: bool) -> ladder.Reading:
    """One run of a rung; with patience, once more when other processes were in the way."""
    record = measuring.measure_once(rung.scenario(seed), window=WINDOW, warmup=WARMUP).record
    if patient and (record["neighbours"] or 0.0) > NOISY:
        again = measuring.measure_once(rung.scenario(seed), window=WINDOW, warmup=WARMUP).record
        record = min(record, again, key=lambda r: r["neighbours"] or 0.0)
    return ladder.read(record)


def demand_of(scenario: Scenario) -> Demand:
    """What the scenario's requests cost the service, called natively with the scenario's own seed."""
    chunk = scenario.get("chunk")
    times = bench.service_times(
        scenario.service,
        scenario.native_options("service"),
        measuring.replicate_seed(scenario, 0),
        DEMAND_REQUESTS,
        DEMAND_BUDGET,
        **({"chunk": chunk} if chunk else {}),
    )
    clock = bench.clock_cost()

    def seconds(ns: Any, readings: int) -> Any:
        return np.maximum(np.asarray(ns) * 1e-9 - readings * clock, 0.0)

    rounds = int(times["rounds"])
    return Demand(
        tuple(times["operation"].tolist()),
        tuple(seconds(times["fixed"], rounds + 2).tolist()),
        tuple(seconds(times["client"], rounds + 2).tolist()),
        tuple(tuple(row) for row in seconds(times["tasks"], 1).tolist()),
        rounds,
    )
