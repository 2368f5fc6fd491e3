"""What a cell is there to show: which resource is at its limit, and what clients, queues and network went through."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from harness import recorded
from harness.judging import marks
from models import quantiles
from models.metrics import Finding, Metrics
from models.scenario import Scenario

Records = Sequence[Mapping[str, Any]]


def findings(
    scenario: Scenario, records: Records, measured: Metrics, ceiling: float | None
) -> tuple[Finding, ...]:
    """All findings of a cell's replicates; harness.judging.audit.judge says what the parameters are."""
    use = {name: known(value) for name, value in measured.utilisation.items()}
    values = {
        "load_limited": max(use.get("load_thread", 0.0), _share_of(ceiling, scenario, measured)),
        "cpu_limited": _busy(use.get("cpu", 0.0)),
        "worker_limited": use.get("worker", 0.0),
        "lock_limited": _ratio(measured.counters.get("lock_wait"), measured.response.value),
        "think_limited": _thinking(records),
        "overloaded": _growth(records),
        "refused": _network(records, "listen_overflows", "syn_retransmissions"),
        "late": _lateness(records, measured),
        "retransmissions": _again(records),
    }
    found = [marks.finding(name, value) for name, value in values.items() if value > marks.TABLE[name].limit]
    starved = max((_starved(record) for record in records), default=0)
    return (*found, marks.finding("starved", float(starved), "clients")) if starved else tuple(found)


def known(value: float | None) -> float:
    """The value, or 0 where it is missing: what is not known shows nothing."""
    return 0.0 if value is None or math.isnan(value) else float(value)


def _busy(share: float) -> float:
    """Use of all CPUs, if it can be: what is more than there is shows nothing."""
    return share if share <= marks.TABLE["cpu_accounts"].limit else 0.0


def _ratio(part: float | None, whole: float | None) -> float:
    return known(part) / max(known(whole), 1e-12)


def _open(record: Mapping[str, Any]) -> bool:
    return record.get("planned") is not None


def _share_of(ceiling: float | None, scenario: Scenario, measured: Metrics) -> float:
    """Throughput over what the same generator does on the null server: with one thread, on kept connections."""
    several = scenario.get("load_threads", 1) != 1
    if not ceiling or several or scenario.load == "forked" or scenario.get("connection") == "per_request":
        return 0.0
    share = known(measured.throughput.value) / ceiling
    return share if share <= marks.EXCEEDED else 0.0


def _thinking(records: Records) -> float:
    """Of a closed load: a connection of an open one that waits for an arrival does not think."""
    closed = [record for record in records if not _open(record)]
    total = sum(record["clients"] * record["window"] for record in closed)
    return float(sum(record["think"] for record in closed) / total) if total else 0.0


def _starved(record: Mapping[str, Any]) -> int:
    """Clients far below the mean; few replies could do that by chance, and an open load chooses by itself."""
    counts = record["client_counts"]
    if _open(record) or not len(counts):
        return 0
    level = sum(counts) / len(counts)
    return (
        sum(count < marks.TABLE["starved"].limit * level for count in counts)
        if level >= marks.FEWEST_EACH
        else 0
    )


def _growth(records: Records) -> float:
    """Arrivals that piled up over those planned, where that is more than chance makes of a steady queue."""
    rows = [record for record in records if _open(record)]
    planned = sum(record["planned"] for record in rows)
    if not planned:
        return 0.0
    waiting = sum(record["backlog"][1] - record["backlog"][0] for record in rows)
    answered = sum(map(recorded.replies, rows))
    failed = sum(sum(record["errors"].values()) for record in rows)
    # With connections to spare, the queue is in the server: then its growth is in the response too.
    behind = planned - answered - failed if _slowing(rows) else 0
    grown = max(waiting, behind)
    chance = marks.SURE * math.sqrt(planned + answered)
    return grown / planned if grown > chance and answered < planned else 0.0


def _slowing(rows: Records) -> bool:
    """Whether the mean response of the window's second half is much above that of the first."""
    halves: list[float] = []
    for part in (slice(None, 10), slice(10, None)):
        count = sum(sum(record["bins"]["count"][part]) for record in rows)
        halves.append(sum(sum(record["bins"]["response"][part]) for record in rows) / max(count, 1))
    return halves[1] > marks.GROWTH * halves[0] > 0


def _network(records: Records, *names: str) -> float:
    """Sum of counters of the host's network over the replicates; 0 where they are not known."""
    rows = [record.get("net") or {} for record in records]
    return float(sum(row.get(name) or 0 for row in rows for name in names))


def _again(records: Records) -> float:
    """Segments sent again, those that open a connection apart, for each reply."""
    again = _network(records, "retransmissions") - _network(records, "syn_retransmissions")
    answered = sum(map(recorded.replies, records))
    return float(max(again, 0.0) / max(answered, 1))


def _lateness(records: Records, measured: Metrics) -> float:
    lags = [record["lag"] for record in records if record.get("lag") and record["lag"]["count"]]
    if not lags:
        return 0.0
    return _ratio(quantiles.quantile(quantiles.merge(lags), 0.99), measured.response.value)
