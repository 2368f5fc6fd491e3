"""Measures a scenario: a fresh server process and a load for each replicate, and what they recorded."""

from __future__ import annotations

import os
import resource
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from pyx.load import Load, LoadError

from harness import recorded, subjects
from harness.cell import Cell, Replicate
from harness.errors import MeasureError
from harness.judging import audit
from harness.watching import network, timeline
from harness.watching.processes import watched
from models import imported
from models.metrics import Metrics
from models.scenario import Scenario

SPARE_DESCRIPTORS = 64
_SOME = (  # what only some loads record
    "planned",
    "sent",
    "backlog",
    "backlog_peak",
    "unfinished",
    "unfinished_ns",
    "in_system_ns",
    "sojourn_ns",
    "addresses",
)
_TICKS = os.sysconf("SC_CLK_TCK")


def measure(
    scenario: Scenario,
    *,
    reps: int = 5,
    window: float = 1.0,
    warmup: float = 0.15,
    sample: float | None = None,
) -> Cell:
    """Measures one scenario, each replicate on a fresh server process.

    Parameters
    ----------
    scenario : Scenario
    reps : int
        Replicates; intervals need two at least.
    window, warmup : float
        Seconds measured, and seconds of the same load before them.
    sample : float, optional
        s from one look at the server's process tree to the next; half the window by default for a server that is
        not ours, and never for one that is.

    Raises
    ------
    MeasureError
        When the server cannot be started or dies, or a limit of the system does not allow the load.
    """
    replicates = [
        measure_once(scenario, window=window, warmup=warmup, block=block, sample=sample)
        for block in range(reps)
    ]
    return cell_of(scenario, replicates)


def measure_once(
    scenario: Scenario, *, window: float, warmup: float, block: int = 0, sample: float | None = None
) -> Replicate:
    """One replicate. The record holds what `pyx.load.Load.run` gives, as differences over the window.

    With `sample` (s) it holds `samples` too: the server's process tree over the window, times in ns since its start.
    """
    if scenario.server == imported.NAME:
        raise MeasureError("imported: results of another tool cannot be measured again", True)
    _plan_descriptors(int(scenario.get("clients", 1)))
    started, stolen, net = time.time(), _stolen(), network.counts()
    clock = [time.perf_counter()]
    try:
        with _serving(scenario) as server:
            clock.append(time.perf_counter())
            load = Load(
                scenario.load,
                scenario.service,
                {**scenario.native_options("service", "server", "load"), **server.words},
                server.host,
                server.port,
                replicate_seed(scenario, block),
                warmup,
                window,
                server.pid,
                server.page,
                server.tree,
            )
            # What is not ours keeps no counters: its processes are looked at in any case.
            interval = window / 2 if sample is None and server.tree else sample
            with watched(server.pid, interval) as samples:
                raw = load.run()
            clock.append(time.perf_counter())
            if not server.alive():
                raise MeasureError(server.death())
    except LoadError as error:
        raise MeasureError(f"{scenario.service} on {scenario.server}: {error}") from error
    clock.append(time.perf_counter())
    record = _record(raw)
    if samples:
        record["samples"] = timeline.cut(samples, raw["planned_start"], raw["planned_end"])
    record["cpus"] = len(os.sched_getaffinity(0))
    workers = scenario.get("workers", 0)  # text where a command says it in words
    record["workers"] = 0 if isinstance(workers, str) else int(workers)
    record["neighbours"] = neighbours(record)
    record["steal"] = (_stolen() - stolen) / (time.time() - started)
    record["net"] = network.change(net, network.counts())
    parts = (b - a for a, b in pairwise(clock))
    record["seconds"] = dict(zip(("start", "load", "stop"), parts, strict=True))
    record["seconds"]["whole"] = time.perf_counter() - clock[0]
    return Replicate(uuid.uuid4().hex, started, block, record)


def replicate_seed(scenario: Scenario, block: int) -> int:
    """The seed of one replicate: each draws its own workload, so that intervals hold the workload's chance too."""
    return (scenario.seed * 65_537 + block) % 2**63


@contextmanager
def _serving(scenario: Scenario) -> Iterator[subjects.Subject]:
    """The scenario's server; a failure inside names the server's death if that was the cause."""
    with subjects.open(scenario) as server:
        try:
            yield server
        except LoadError as error:
            time.sleep(0.01)
            if not server.alive():
                raise MeasureError(server.death()) from error
            raise


def _plan_descriptors(clients: int) -> None:
    """Raises the soft limit of descriptors as far as needed and allowed; the server inherits it."""
    need = clients + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if need <= soft:
        return
    if need > hard:
        raise MeasureError(
            f"clients={clients}: needs {need} descriptors, the limit is {hard} (ulimit -n); raise it or use fewer",
            True,
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))


def neighbours(record: Mapping[str, Any]) -> float | None:
    """Share of all CPUs that neither idled nor worked for the server or the load: other processes, and interrupts."""
    edge = record["edge"]
    parts = [edge[name] for name in ("idle", "server_cpu", "load_cpu")]
    if None in parts:
        return None
    return float(1 - sum(parts) / (edge["time"] * record["cpus"]))


def _stolen() -> float:
    """CPU seconds that the hypervisor has given to others so far, of all CPUs."""
    with open("/proc/stat") as file:
        fields = file.readline().split()
    return int(fields[8]) / _TICKS


def _record(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The run as JSON, edges turned into differences, histograms into their non-empty buckets."""
    start, end = raw["start"], raw["end"]

    def difference(name: str) -> int | None:
        return None if min(start[name], end[name]) < 0 else end[name] - start[name]

    def role(name: str) -> dict[str, int]:
        first, last = start["roles"][name], end["roles"][name]
        gauges = ("queue_depth", "queue_peak")
        return {k: (last[k] if k in gauges else last[k] - first[k]) for k in last if last[k]}

    record = {
        name: raw[name]
        for name in (
            "clients",
            "threads",
            "connect",
            "connect_max",
            "think",
            "response",
            "generator",
            "connecting",
        )
    }
    record |= {name: dict(raw[name]) for name in ("errors", "errors_outside")}
    record["window"] = raw["planned_end"] - raw["planned_start"]
    record["edge"] = {
        name: difference(name)
        for name in ("time", "server_cpu", "load_cpu", "load_wait", "idle", "polls", "sleeps")
    }
    record["roles"] = {name: role(name) for name in end["roles"] if any(end["roles"][name].values())}
    record["histograms"] = {name: _sparse(histogram) for name, histogram in raw["histograms"].items()}
    record["bins"] = {"count": raw["bin_count"].tolist(), "response": raw["bin_response"].tolist()}
    if "bin_planned" in raw:
        record["bins"]["planned"] = raw["bin_planned"].tolist()
    record["client_counts"] = raw["client_count"].tolist()
    return record | _open_record(raw)


def _open_record(raw: Mapping[str, Any]) -> dict[str, Any]:
    """What only some loads know: the generator's lateness, and an open load's arrivals and service times."""
    found = {name: raw[name] for name in _SOME if name in raw}
    if "lag" in raw:
        found["lag"] = _sparse(raw["lag"])
    if raw.get("service"):
        found["service"] = {name: _sparse(histogram) for name, histogram in raw["service"].items()}
    return found


def _sparse(histogram: Mapping[str, Any]) -> dict[str, Any]:
    index = np.flatnonzero(histogram["buckets"])
    return {
        **{name: int(histogram[name]) for name in ("count", "sum", "min", "max")},
        "buckets": np.column_stack([index, histogram["buckets"][index]]).tolist(),
    }


def cell_of(
    scenario: Scenario,
    replicates: Sequence[Replicate],
    predicted: Metrics | None = None,
    level: float = 0.95,
    ceiling: float | None = None,
    drift: float = 0.0,
) -> Cell:
    """Makes a cell of its replicates: metrics with intervals, and the judgement of harness.judging.audit.

    Parameters
    ----------
    level : float
        Student level of the intervals: over 0.95 where the number of replicates depended on them
        (harness.deciding.stopping).
    ceiling, drift : float
        The most that the load generator was seen to do (1/s), and the worst shift of the machine's speed, as
        `harness.judging.audit.judge` takes them.
    """
    if not replicates:
        return Cell(scenario, predicted=predicted)
    records = [replicate.record for replicate in replicates]
    measured = recorded.metrics_of(records, level)
    broken, findings = audit.judge(scenario, records, measured, ceiling, drift)
    return Cell(scenario, tuple(replicates), broken, findings, measured, predicted)
