"""Judges a measured cell: marks that make it broken, and findings that it is there to show. All thresholds are here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from models import quantiles
from models.metrics import Finding, Mark, Metrics
from models.scenario import Scenario

Records = Sequence[Mapping[str, Any]]

LIMITS = {
    "accounting": 0.01,  # share of the clients' time that no state accounts for
    "connecting": 0.01,  # share of the clients' time without a connection, where connections are kept
    "replies": 0.0,  # wrong, malformed or missing replies, share of all
    "no_replies": 0.0,  # replicates in which nothing was answered
    "order_statistics": 0.0,  # impossible orders found
    "stationarity": 0.10,  # relative change from the first half to the second, if also beyond three standard errors
    "cpu_accounts": 1.02,  # processor time of both sides over what the CPUs have
    "neighbours": 0.15,  # share of all CPUs that went to other processes
    "steal": 0.02,  # share of one CPU's time taken by the hypervisor
}
FINDINGS = {
    "load_limited": 0.95,  # utilisation of the generator's thread, or throughput over the null-server ceiling
    "cpu_limited": 0.95,  # utilisation of all CPUs
    "worker_limited": 0.95,  # busy share of the worker threads
    "lock_limited": 0.20,  # lock wait over response time
    "think_limited": 0.90,  # thinking share of the clients' time
    "starved": 0.2,  # a client below this share of the mean count
}
_STATES = ("think", "response", "generator", "connecting")


def judge(
    scenario: Scenario, records: Records, measured: Metrics, ceiling: float | None = None
) -> tuple[tuple[Mark, ...], tuple[Finding, ...]]:
    """All marks and findings of a cell's replicates; ceiling: replies/s that the load generator can do at most."""
    marks = []
    for check, measure in _CHECKS.items():
        value = measure(scenario, records, measured)
        if value > LIMITS[check]:
            marks.append(Mark(check, value, LIMITS[check]))
    return tuple(marks), tuple(_findings(records, measured, ceiling))


def _accounting(scenario: Scenario, records: Records, measured: Metrics) -> float:
    shares = (sum(r[state] for state in _STATES) / (r["clients"] * r["window"]) for r in records)
    return float(max(abs(share - 1) for share in shares))


def _connecting(scenario: Scenario, records: Records, measured: Metrics) -> float:
    if scenario.get("connection") == "per_request":
        return 0.0
    return float(max(r["connecting"] / (r["clients"] * r["window"]) for r in records))


def _failures(scenario: Scenario, records: Records, measured: Metrics) -> float:
    failed = sum(sum(r["errors"].values()) for r in records)
    answered = sum(h["count"] for r in records for h in r["histograms"].values())
    return float(failed / max(failed + answered, 1))


def _silent(scenario: Scenario, records: Records, measured: Metrics) -> float:
    return float(sum(not any(h["count"] for h in r["histograms"].values()) for r in records))


def _orders(scenario: Scenario, records: Records, measured: Metrics) -> float:
    wrong = 0
    for record in records:
        for histogram in record["histograms"].values():
            if not histogram["count"]:
                continue
            merged = quantiles.merge([histogram])
            ladder = [
                merged.min * 1e-9,
                *(quantiles.quantile(merged, q) for q in (0.5, 0.9, 0.99)),
                merged.max * 1e-9,
            ]
            wrong += ladder != sorted(ladder)
            wrong += not ladder[0] <= quantiles.mean(merged) <= ladder[-1]
            wrong += int(merged.counts.sum()) != merged.count
    return float(wrong)


def _drift(scenario: Scenario, records: Records, measured: Metrics) -> float:
    """Change from half to half; 0 while it is within three standard errors of the bins' own scatter."""
    bins = np.array([r["bins"]["count"] for r in records], dtype=float)
    level = bins.mean()
    if level == 0:
        return 0.0
    half = bins.shape[1] // 2
    change = (bins[:, half:].mean() - bins[:, :half].mean()) / level
    scatter = np.concatenate([bins[:, :half], bins[:, half:]]).std(axis=1, ddof=1)
    error = math.sqrt(float((scatter**2).mean()) * 2 / (half * len(records))) / level
    return float(abs(change)) if abs(change) > 3 * error else 0.0


def _cpu_accounts(scenario: Scenario, records: Records, measured: Metrics) -> float:
    return _number(measured.utilisation.get("cpu"))


def _neighbours(scenario: Scenario, records: Records, measured: Metrics) -> float:
    known = [r["neighbours"] for r in records if r.get("neighbours") is not None]
    return float(np.median(known)) if known else 0.0


def _steal(scenario: Scenario, records: Records, measured: Metrics) -> float:
    return float(np.mean([r["steal"] / r["cpus"] for r in records]))


_CHECKS: dict[str, Callable[[Scenario, Records, Metrics], float]] = {
    "accounting": _accounting,
    "connecting": _connecting,
    "replies": _failures,
    "no_replies": _silent,
    "order_statistics": _orders,
    "stationarity": _drift,
    "cpu_accounts": _cpu_accounts,
    "neighbours": _neighbours,
    "steal": _steal,
}


def _number(value: float | None) -> float:
    return 0.0 if value is None or math.isnan(value) else value


def _findings(records: Records, measured: Metrics, ceiling: float | None) -> list[Finding]:
    use, found = measured.utilisation, []
    for name, resource in (
        ("load_limited", "load_thread"),
        ("cpu_limited", "cpu"),
        ("worker_limited", "worker"),
    ):
        if _number(use.get(resource)) > FINDINGS[name]:
            found.append(Finding(name, use[resource], "of capacity"))
    reached = measured.throughput.value / ceiling if ceiling else 0.0
    if reached > FINDINGS["load_limited"] and not any(finding.name == "load_limited" for finding in found):
        found.append(Finding("load_limited", reached, "of the null server's ceiling"))
    lock = _number(measured.counters.get("lock_wait")) / max(_number(measured.response.value), 1e-12)
    if lock > FINDINGS["lock_limited"]:
        found.append(Finding("lock_limited", lock, "lock wait over response"))
    total = sum(r["clients"] * r["window"] for r in records)
    think = sum(r["think"] for r in records) / total
    if think > FINDINGS["think_limited"]:
        found.append(Finding("think_limited", think, "of the clients' time"))
    starved = max(_starved(r["client_counts"]) for r in records)
    if starved:
        found.append(Finding("starved", float(starved), "clients"))
    return found


def _starved(counts: Sequence[int]) -> int:
    """Clients far below the mean; with a mean under 25 chance alone could do that, so none are named."""
    level = sum(counts) / len(counts)
    return sum(count < FINDINGS["starved"] * level for count in counts) if level >= 25 else 0
