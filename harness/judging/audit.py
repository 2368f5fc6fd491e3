"""Judges a measured cell: marks that make it broken, and findings that it is there to show.

What each means and from where on it is given stands in harness.judging.marks; here are the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import recorded
from harness.judging import findings, marks, summaries
from models import quantiles
from models.metrics import Finding, Mark, Metrics
from models.scenario import Scenario

Records = Sequence[Mapping[str, Any]]
Bins = NDArray[np.float64]
Check = Callable[[Scenario, Records, Metrics], float]

_STATES = ("think", "response", "generator", "connecting")
_LOST = ("wrong", "malformed")  # failures that are the server's fault at any time, also before the window


def judge(
    scenario: Scenario,
    records: Records,
    measured: Metrics,
    ceiling: float | None = None,
    drift: float = 0.0,
) -> tuple[tuple[Mark, ...], tuple[Finding, ...]]:
    """All marks and findings of a cell's replicates.

    Parameters
    ----------
    scenario : Scenario
    records : sequence of mapping
        Of the replicates, as harness.measuring makes them, or with a `summary` where another tool measured.
    measured : Metrics
        What was made of the records.
    ceiling : float, optional
        Throughput of the same load on the null server, 1/s.
    drift : float
        Relative shift of the machine's speed in the worst block that the figures rest on.
    """
    if any("summary" in record for record in records):
        return summaries.judge(records), ()
    found = [(name, check(scenario, records, measured)) for name, check in CHECKS.items()]
    found.append(("drift", abs(drift)))
    broken = tuple(marks.mark(name, value) for name, value in found if value > marks.TABLE[name].limit)
    return broken, findings.findings(scenario, records, measured, ceiling)


def _accounting(scenario: Scenario, records: Records, measured: Metrics) -> float:
    """Also of an open load's requests: what the queue's length adds up to, and what their sojourns do."""
    off = []
    for record in records:
        whole = max(record["clients"] * record["window"], 1)
        off.append(abs(sum(record[state] for state in _STATES) / whole - 1))
        if record.get("sojourn_ns"):
            off.append(abs(record["in_system_ns"] / record["sojourn_ns"] - 1))
    return float(max(off))


def _connecting(scenario: Scenario, records: Records, measured: Metrics) -> float:
    if scenario.get("connection") == "per_request" or scenario.load == "forked":
        return 0.0
    return float(max(r["connecting"] / max(r["clients"] * r["window"], 1) for r in records))


def _failures(scenario: Scenario, records: Records, measured: Metrics) -> float:
    failed = sum(sum(r["errors"].values()) for r in records)
    failed += sum(r.get("errors_outside", {}).get(kind, 0) for r in records for kind in _LOST)
    answered = sum(map(recorded.replies, records))
    return float(failed / max(failed + answered, 1))


def _silent(scenario: Scenario, records: Records, measured: Metrics) -> float:
    return float(sum(not recorded.replies(record) for record in records))


def _orders(scenario: Scenario, records: Records, measured: Metrics) -> float:
    wrong = 0
    for record in records:
        service = record.get("service") or {}
        for histogram in (*record["histograms"].values(), *service.values()):
            wrong += _disorders(histogram)
        for name, histogram in service.items():
            # From the planned time on a request takes at least what it takes from its sending on.
            response = record["histograms"].get(name, histogram)
            wrong += response["count"] == histogram["count"] and response["sum"] < histogram["sum"]
    return float(wrong)


def _disorders(histogram: Mapping[str, Any]) -> int:
    """Impossible orders in one histogram."""
    if not histogram["count"]:
        return 0
    merged = quantiles.merge([histogram])
    ladder = [
        merged.min * 1e-9,
        *(quantiles.quantile(merged, q) for q in (0.5, 0.9, 0.99)),
        merged.max * 1e-9,
    ]
    wrong = int(ladder != sorted(ladder))
    wrong += not ladder[0] <= quantiles.mean(merged) <= ladder[-1]
    return wrong + (int(merged.counts.sum()) != merged.count)


def _cpu_accounts(scenario: Scenario, records: Records, measured: Metrics) -> float:
    """Both sides' processor time, and with the idle time what the CPUs have: neither can be more than that."""
    used = [findings.known(measured.utilisation.get("cpu"))]
    for record in records:
        edge = record["edge"]
        parts = [edge.get(name) for name in ("idle", "server_cpu", "load_cpu")]
        if None not in parts and edge["time"] > 0:
            loose = marks.RESOLUTION_IDLE * 1e9 / edge["time"]
            used.append(sum(parts) / (edge["time"] * record["cpus"]) - loose)
    return float(max(used))


def _delivered(scenario: Scenario, records: Records, measured: Metrics) -> float:
    """Clients that are missing; in an open load, arrivals that the generator owes though connections were free."""
    return float(max(_undelivered(scenario, record) for record in records))


def _undelivered(scenario: Scenario, record: Mapping[str, Any]) -> float:
    if record.get("planned") is None:
        asked = scenario.get("clients") or record["clients"]
        return float(abs(1 - record["clients"] / asked)) if asked else 0.0
    planned, waiting = record["planned"], record["backlog"][1]
    short = float(max(planned - record["sent"] - waiting, 0) / max(planned, 1))
    wanted = float(scenario.get("arrival_rate") or 0) * record["window"] * 1e-9
    if not wanted:
        return short
    # The plan itself: chance moves a Poisson count by its root, five times which is never seen.
    off = max(abs(planned - wanted) - 5 * math.sqrt(wanted), 0) / wanted
    return float(max(short, off))


def _stationarity(scenario: Scenario, records: Records, measured: Metrics) -> float:
    """Largest of: change from half to half, the same by the slope, and the share of the window that stood still."""
    if scenario.load == "forked":  # it starts, works and ends inside its window by definition
        return 0.0
    bins = np.array([r["bins"]["count"] for r in records], dtype=float)
    if bins.mean() == 0:
        return 0.0
    still = max(_standstill(record, measured) for record in records)
    return max(min(_change(bins), _change(bins - _planned_changes(records))), still)


def _change(bins: Bins) -> float:
    """From half to half, or by the slope."""
    return max(_halves(bins), _slope(bins))


def _planned_changes(records: Records) -> Bins:
    """By how much more than in the mean was asked for in each bin.

    A schedule's chance is not the server's doing: replies may follow it, or stay level because the server gives no more.
    """
    planned = np.array([r["bins"].get("planned", np.zeros(len(r["bins"]["count"]))) for r in records], float)
    changes: Bins = planned - planned.mean(axis=1, keepdims=True)
    return changes


def _halves(bins: Bins) -> float:
    """Relative change from half to half; 0 where chance could have made it."""
    half = bins.shape[1] // 2
    parts = bins[:, : 2 * half].reshape(len(bins), 2, half)
    rest = (parts - parts.mean(axis=2, keepdims=True)).reshape(-1, half)
    variance = float((rest**2).sum()) / (len(rest) * (half - 1))
    changes = parts[:, 1].mean(axis=1) - parts[:, 0].mean(axis=1)
    return _sure(changes, variance * 2 / half, rest) / float(bins.mean())


def _slope(bins: Bins) -> float:
    """Relative change between the halves' middles by the least-squares line; 0 where chance could have made it."""
    count = bins.shape[1]
    place = np.arange(count) - (count - 1) / 2
    square = float((place**2).sum())
    slopes = bins @ place / square
    rest = bins - bins.mean(axis=1, keepdims=True) - slopes[:, None] * place
    variance = float((rest**2).sum()) / (len(rest) * (count - 2))
    far = count / 2
    return _sure(slopes * far, variance * far**2 / square, rest) / float(bins.mean())


def _sure(changes: Bins, variance: float, rest: Bins) -> float:
    """Size of the mean change if it is sure by either error: that of the bins, or that from replicate to replicate.

    Bins that follow each other are alike, which makes a mean of n of them as uncertain as one of n (1 − r)/(1 + r)
    independent ones (for a first-order autoregression with correlation r). The replicates are independent whatever
    the bins are, but few. One alone cannot tell a trend from bins that are alike, and is judged strictly.

    Parameters
    ----------
    changes : array
        Of each replicate.
    variance : float
        Of one replicate's change if the bins were independent.
    rest : array, a row for each stretch of bins
        What the change leaves unexplained.
    """
    change, count = abs(float(changes.mean())), len(changes)
    alike = _correlation(rest) if count > 1 else 0.0
    error = math.sqrt(variance / count * (1 + alike) / (1 - alike))
    if change > marks.SURE * error:
        return change
    if count < 2:
        return 0.0
    between = (
        quantiles.t_quantile(count - 1, marks.SURE_LEVEL) * float(changes.std(ddof=1)) / math.sqrt(count)
    )
    return change if change > between else 0.0


def _correlation(rest: Bins) -> float:
    """Correlation of neighbouring bins, 0 at least; short stretches show (1 + 3r)/n too little (Kendall 1954)."""
    square = float((rest**2).sum())
    if square == 0:
        return 0.0
    length = rest.shape[1]
    shown = float((rest[:, 1:] * rest[:, :-1]).sum()) / square
    return float(min(max((length * shown + 1) / (length - 3), 0.0), marks.MOST_ALIKE))


def _standstill(record: Mapping[str, Any], measured: Metrics) -> float:
    """Share of the window lost in stretches of bins under half the median that outlast the responses."""
    bins = np.array(record["bins"]["count"], dtype=float)
    level = float(np.median(bins))
    if level < marks.FEWEST_REPLIES:
        return 0.0
    length = record["window"] * 1e-9 / len(bins)
    least = marks.LONGEST_PAUSE * findings.known(measured.p50)
    lost, stretch = 0.0, np.zeros(0)
    for count in (*bins, math.inf):
        if count < level / 2:
            stretch = np.append(stretch, count)
            continue
        if len(stretch) * length > least:
            lost += float((1 - stretch / level).sum())
        stretch = np.zeros(0)
    return lost / len(bins)


def _neighbours(scenario: Scenario, records: Records, measured: Metrics) -> float:
    known = [r["neighbours"] for r in records if r.get("neighbours") is not None]
    return float(np.median(known)) if known else 0.0


def taken(record: Mapping[str, Any]) -> float:
    """How much others had the CPUs while a replicate ran: other processes, or other machines on the same host.

    The larger of both shares over their limits: above 1 is too much.
    """
    stolen = (record.get("steal") or 0.0) / record.get("cpus", 1)
    shares = {"neighbours": record.get("neighbours") or 0.0, "steal": stolen}
    return float(max(share / marks.TABLE[name].limit for name, share in shares.items()))


def disturbed(record: Mapping[str, Any]) -> bool:
    """Whether others had more of the CPUs while a replicate ran than a mark allows."""
    return taken(record) > 1


def _steal(scenario: Scenario, records: Records, measured: Metrics) -> float:
    return float(np.mean([r["steal"] / r["cpus"] for r in records]))


CHECKS: Mapping[str, Check] = {
    "accounting": _accounting,
    "connecting": _connecting,
    "replies": _failures,
    "no_replies": _silent,
    "order_statistics": _orders,
    "cpu_accounts": _cpu_accounts,
    "delivered": _delivered,
    "stationarity": _stationarity,
    "neighbours": _neighbours,
    "steal": _steal,
}
