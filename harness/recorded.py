"""What the records of replicates tell: replies, throughput, and the metrics of several together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.judging import summaries
from harness.watching import sampled
from models import quantiles
from models.metrics import Estimate, Metrics

_COUNTED = ("polls", "switches", "preemptions", "lock_waits", "spins", "steals", "steals_tried", "tasks")


def replies(record: Mapping[str, Any]) -> int:
    """Replies completed inside the window."""
    return sum(int(histogram["count"]) for histogram in record["histograms"].values())


def throughput_of(record: Mapping[str, Any]) -> float:
    """Replies per second of one replicate; nan where another tool measured it and did not say."""
    if "summary" in record:
        rate = record["summary"].get("throughput")
        return float("nan") if rate is None else float(rate)
    return replies(record) / (float(record["window"]) * 1e-9)


def metrics_of(records: Sequence[Mapping[str, Any]], level: float = 0.95) -> Metrics:
    """Metrics of all replicates together; intervals are over replicates, quantiles from the merged histograms."""
    if "summary" in records[0]:
        return summaries.metrics_of(records)
    rates = [throughput_of(record) for record in records]
    merged = quantiles.merge([h for record in records for h in record["histograms"].values()])
    p50, p90, p99 = (quantiles.quantile(merged, q) for q in (0.5, 0.9, 0.99))
    means = [
        sum(h["sum"] for h in record["histograms"].values()) / max(replies(record), 1) * 1e-9
        for record in records
    ]
    response = quantiles.mean(merged)
    spread = quantiles.interval(means, level)
    window = sum(record["window"] for record in records) * 1e-9
    operations = {}
    for name in records[0]["histograms"]:
        part = quantiles.merge([record["histograms"][name] for record in records])
        if part.count:
            operations[name] = (part.count / window, quantiles.mean(part))
    return Metrics(
        throughput=quantiles.interval(rates, level),
        response=Estimate(
            response, response + spread.low - spread.value, response + spread.high - spread.value
        ),
        p50=p50,
        p90=p90,
        p99=p99,
        operations=operations,
        utilisation=_utilisation(records),
        counters=_counters(records),
        service_time=_service_time(records),
    )


def _service_time(records: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """Mean and quantiles of send -> reply over all operations, s; None where it was not recorded apart."""
    parts = [h for record in records for h in (record.get("service") or {}).values()]
    if not parts:
        return None
    merged = quantiles.merge(parts)
    found = {f"p{round(q * 100)}": quantiles.quantile(merged, q) for q in (0.5, 0.9, 0.99)}
    return {"mean": quantiles.mean(merged), **found}


def _edge_sum(records: Sequence[Mapping[str, Any]], name: str) -> float:
    values = [record["edge"][name] for record in records]
    return float("nan") if None in values else float(sum(values))


def _role_sum(records: Sequence[Mapping[str, Any]], name: str, roles: Sequence[str] | None = None) -> float:
    return float(
        sum(
            role.get(name, 0)
            for record in records
            for key, role in record["roles"].items()
            if roles is None or key in roles
        )
    )


def _utilisation(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    span = _edge_sum(records, "time")
    cpus = max(record["cpus"] for record in records)
    server, load = _edge_sum(records, "server_cpu"), _edge_sum(records, "load_cpu")
    found = {
        "cpu": (server + load) / (cpus * span),
        "server_cpu": server / (cpus * span),
        "load_cpu": load / (cpus * span),
        "load_thread": load / (span * max(record["threads"] for record in records)),
    }
    threads = max(record.get("workers", 0) for record in records)
    if threads and _counted(records):
        found["worker"] = _role_sum(records, "busy_ns", ["worker"]) / (span * threads)
    return found


def _counted(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the server kept counters for us: one that is not ours does not, and zeros would be false."""
    return any(record["roles"] for record in records)


def _counters(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Per reply, by the rate of each counter over its own edges divided by the throughput."""
    answered = [replies(record) for record in records]
    window = sum(record["window"] for record in records)
    per = window / max(_edge_sum(records, "time"), 1) / max(sum(answered), 1)
    found = {
        "server_cpu": _edge_sum(records, "server_cpu") * 1e-9,
        "load_cpu": _edge_sum(records, "load_cpu") * 1e-9,
        "load_wait": _edge_sum(records, "load_wait") * 1e-9,
        "load_polls": _edge_sum(records, "polls"),
        "load_sleeps": _edge_sum(records, "sleeps"),
    }
    if _counted(records):
        found |= {
            "busy": _role_sum(records, "busy_ns") * 1e-9,
            "lock_wait": _role_sum(records, "lock_wait_ns") * 1e-9,
            "worker_wait": _role_sum(records, "wait_ns", ["worker"]) * 1e-9,
            "demand": _role_sum(records, "demand_ns") * 1e-9,
        }
        found |= {name: _role_sum(records, name) for name in _COUNTED}
    seen = sampled.counters(records, sum(answered) / (window * 1e-9))
    found = {**seen, **{name: value * per for name, value in found.items()}}
    backlogs = [record["backlog"][1] for record in records if record.get("backlog")]
    if backlogs:
        found["backlog"] = sum(backlogs) / len(backlogs)
        found["backlog_peak"] = max(record.get("backlog_peak") or 0 for record in records)
    if _counted(records):
        found["queue_peak"] = max(
            (r.get("queue_peak", 0) for rec in records for r in rec["roles"].values()), default=0
        )
    return found
