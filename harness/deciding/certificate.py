"""What the load generator was able to do while a sweep ran, from the sweep's own runs against the null server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness import recorded
from models import quantiles
from models.metrics import number

Record = Mapping[str, Any]


def certificate(records: Sequence[Record], key: str | None, clock_cost: float | None) -> dict[str, Any]:
    """The certificate as JSON has it; null for what is not known.

    Parameters
    ----------
    records : sequence of mapping
        Of the null server's replicates.
    key : str or None
        Of the null server's scenario.
    clock_cost : float or None
        Seconds that one reading of the clock costs.

    Returns
    -------
    dict
        ceiling: throughput that the generator reached (1/s, with its interval); cpu_per_request: of the generator's
        own CPU time (s); lag: p50, p99 and max of how late requests were sent (s); clock_cost (s); threads; null_key.
    """
    rates = [recorded.throughput_of(record) for record in records]
    return {
        "ceiling": quantiles.interval(rates).to_json() if rates else None,
        "cpu_per_request": number(_cpu(records)),
        "lag": _lag(records),
        "clock_cost": clock_cost,
        "threads": max((record["threads"] for record in records), default=None),
        "null_key": key if records else None,
    }


def _cpu(records: Sequence[Record]) -> float | None:
    """The generator's CPU time over the requests of its window; both edges of the CPU's reading lie close to it."""
    known = [record for record in records if record["edge"]["load_cpu"] is not None]
    requests = sum(recorded.throughput_of(record) * record["edge"]["time"] * 1e-9 for record in known)
    return sum(record["edge"]["load_cpu"] for record in known) * 1e-9 / requests if requests else None


def _lag(records: Sequence[Record]) -> dict[str, float | None] | None:
    merged = quantiles.merge([record["lag"] for record in records if record.get("lag")])
    if not merged.count:
        return None
    return {
        "p50": number(quantiles.quantile(merged, 0.5)),
        "p99": number(quantiles.quantile(merged, 0.99)),
        "max": merged.max * 1e-9,
    }
