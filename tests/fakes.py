"""A measurement that measures nothing: replicates as the real one records them, from a known throughput."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness import calibrate, measuring, predicting
from harness.cell import Replicate
from harness.errors import MeasureError
from models.scenario import Scenario

BINS = 20
CPUS = 2


def usl(scenario: Scenario) -> float:
    """A throughput that peaks between 4 and 5 (sigma 0.05, kappa 0.045), 1/s."""
    n = float(scenario.get("workers", 0) or scenario.number("clients"))
    return 10_000 * n / (1 + 0.05 * (n - 1) + 0.045 * n * (n - 1))


def record(scenario: Scenario, rate: float, window: float) -> dict[str, Any]:
    """What harness.measuring records, every account consistent, at `rate` replies a second."""
    from pyx.load import bucket_of

    clients = int(scenario.get("clients", 1))
    span = int(window * 1e9)
    count = max(int(rate * window), BINS)
    response = int(clients * span / count)
    bucket = bucket_of(response)
    histogram = {
        "count": count,
        "sum": response * count,
        "min": response,
        "max": response,
        "buckets": [[bucket, count]],
    }
    edge = {
        "time": span,
        "server_cpu": span // 2,
        "load_cpu": span // 3,
        "load_wait": 0,
        "polls": count,
        "sleeps": 1,
    }
    return {
        "clients": clients,
        "threads": 1,
        "workers": int(scenario.get("workers", 0)),
        "connect": 0,
        "connect_max": 0,
        "think": 0,
        "response": clients * span,
        "generator": 0,
        "connecting": 0,
        "errors": {},
        "errors_outside": {},
        "window": span,
        "edge": edge,
        "roles": {"worker": {"busy_ns": span // 4, "requests": count}},
        "histograms": {"work": histogram},
        "bins": {"count": [count // BINS] * BINS, "response": [0] * BINS},
        "client_counts": [count // clients] * clients,
        "steal": 0.0,
        "cpus": 2,
        "seconds": {"start": 0.01, "load": window + 0.02, "stop": 0.01, "whole": window + 0.05},
    }


def samples(
    window: float, interval: float, phase: float = 0.0, pss: float = 4.0, cpu: float = 0.5
) -> dict[str, Any]:
    """What a sampler of a steady server records: CPU at `cpu` CPUs, `pss` MiB, 6 threads; ns since the window's start."""
    columns = [
        "time",
        "processes",
        "threads",
        "descriptors",
        "cpu",
        "wait",
        "pss",
        "rss",
        "switches",
        "preemptions",
    ]
    rows = []
    for k in range(-1, int(window / interval) + 2):
        time = int((k * interval + phase) * 1e9)
        memory = int(pss * 2**20)
        rows.append([time, 1, 6, 20, int(time * cpu) + 10**10, 10**9 + time // 10, memory, 2 * memory])
        rows[-1] += [10**6 + time // 1000, 10**5 + time // 10**6]
    return {"columns": columns, "rows": rows}


def clean(scenario: Scenario, rate: float = 10_000) -> dict[str, Any]:
    """A record of one second that nothing can be held against, everything in it known."""
    found = record(scenario, rate, 1.0)
    found["edge"] |= {"idle": found["edge"]["time"] * CPUS // 4}
    found |= {"cpus": CPUS, "neighbours": 0.0, "steal": 0.0}
    found["net"] = dict.fromkeys(
        ("listen_overflows", "listen_drops", "retransmissions", "syn_retransmissions", "timeouts"), 0
    )
    return found


@dataclass
class Fake:
    """Stands in for harness.measuring.measure_once, and remembers what it was asked.

    Attributes
    ----------
    fail : callable
        Gives the message of a failure for a scenario and block, or None.
    before : callable
        Called first; may raise.
    """

    throughput: Callable[[Scenario], float] = usl
    noise: float = 0.01
    fail: Callable[[Scenario, int], str | None] = lambda scenario, block: None
    before: Callable[[Scenario, int], None] = lambda scenario, block: None
    asked: list[tuple[str, int]] = field(default_factory=list)
    sampled: dict[str, float | None] = field(default_factory=dict)

    def __call__(
        self, scenario: Scenario, *, window: float, warmup: float, block: int = 0, sample: float | None = None
    ) -> Replicate:
        self.before(scenario, block)
        self.asked.append((scenario.key, block))
        self.sampled[scenario.key] = sample
        message = self.fail(scenario, block)
        if message:
            raise MeasureError(message)
        scatter = random.Random(f"{scenario.key}:{block}:{len(self.asked)}").gauss(1, self.noise)
        rate = self.throughput(scenario) * scatter
        return Replicate(uuid.uuid4().hex, time.time(), block, record(scenario, rate, window))


def predicted(scenario: Scenario, costs: Any, **settings: Any) -> Any:
    """A prediction five per cent over the truth."""
    from models.metrics import Estimate, Metrics

    rate = usl(scenario) * 1.05
    return Metrics(Estimate(rate), Estimate(scenario.number("clients") / rate), 0.001, 0.002, 0.003)


class NoCosts:
    """Costs for models that need none."""

    def to_json(self) -> dict[str, Any]:
        return {"cpus": 2, "table": {}, "demands": {}, "quality": {}, "provenance": {}}


def install(monkeypatch):
    """Puts the stand-ins in place of measuring, calibrating, predicting and the yardstick."""
    stand_in = Fake()
    monkeypatch.setattr(measuring, "measure_once", stand_in)
    monkeypatch.setattr(calibrate, "costs_for", lambda scenarios, progress=None: NoCosts())
    monkeypatch.setattr(
        predicting,
        "predict_all",
        lambda scenarios, costs, **told: ((s, predicted(s, costs), None) for s in scenarios),
    )
    monkeypatch.setattr(calibrate, "yardstick", lambda: 0.001)
    return stand_in
