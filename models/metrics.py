"""What a scenario did or is predicted to do: one shape for both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its 95 % interval; nan bounds where no interval is known."""

    value: float
    low: float = math.nan
    high: float = math.nan

    def to_json(self) -> dict[str, float | None]:
        return {"value": number(self.value), "low": number(self.low), "high": number(self.high)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Estimate:
        return cls(
            *(
                math.nan if document.get(key) is None else float(document[key])
                for key in ("value", "low", "high")
            )
        )


def number(value: float | None) -> float | None:
    """A number as JSON has it: null for what is missing or not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Throughput, response time and what the resources did.

    Attributes
    ----------
    throughput : Estimate
        Replies per second.
    response : Estimate
        Mean response time, s.
    p50, p90, p99 : float
        Quantiles of the response time, s.
    operations : mapping of str to (throughput, mean response)
        By operation, 1/s and s.
    utilisation : mapping of str to float
        Share of its capacity that each resource used, 0 to 1: cpu (of all CPUs), server_cpu and load_cpu
        (either side's processor time over the window times the CPUs), load_thread, worker (busy share of the
        worker threads).
    counters : mapping of str to float
        Per reply: server_cpu and load_cpu (s), polls, switches, lock_wait (s), steals, spins, …; and
        queue_depth (mean or last seen), queue_peak, backlog and backlog_peak (arrivals of an open load that
        wait for a connection: at the window's end, mean over replicates, and at most). The same names in
        measured and predicted results where both know them.
    service_time : mapping of str to float, or None
        Of an open load: mean, p50, p90 and p99 of the time from sending to the reply, s, where the response time
        runs from the moment the request was planned for. None where the two are the same.
    """

    throughput: Estimate
    response: Estimate
    p50: float = math.nan
    p90: float = math.nan
    p99: float = math.nan
    operations: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    utilisation: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    service_time: Mapping[str, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """The shape that `measure` and `predict` print; seconds and 1/s."""
        return {
            "throughput": self.throughput.to_json(),
            "response": {
                "mean": self.response.to_json(),
                "p50": number(self.p50),
                "p90": number(self.p90),
                "p99": number(self.p99),
            },
            "utilisation": {name: number(value) for name, value in self.utilisation.items()},
            "operations": {
                name: {"throughput": number(rate), "response": number(mean)}
                for name, (rate, mean) in self.operations.items()
            },
            "counters": {name: number(value) for name, value in self.counters.items()},
            "service": {name: number(value) for name, value in self.service_time.items()}
            if self.service_time
            else None,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Metrics:
        response, service = document["response"], document.get("service")
        return cls(
            throughput=Estimate.from_json(document["throughput"]),
            response=Estimate.from_json(response["mean"]),
            p50=_real(response["p50"]),
            p90=_real(response["p90"]),
            p99=_real(response["p99"]),
            operations={
                name: (_real(row["throughput"]), _real(row["response"]))
                for name, row in document.get("operations", {}).items()
            },
            utilisation={name: _real(value) for name, value in document["utilisation"].items()},
            counters={name: _real(value) for name, value in document.get("counters", {}).items()},
            service_time={name: _real(value) for name, value in service.items()} if service else None,
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that makes a cell broken.

    Attributes
    ----------
    check : str
        Its name.
    value, limit : float
        What was found, and above what it is a mark.
    unit : str
        Of both.
    says, todo : str
        What it means, and what to do, half a sentence each.
    """

    check: str
    value: float
    limit: float
    unit: str = ""
    says: str = ""
    todo: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "value": number(self.value),
            "limit": number(self.limit),
            "unit": self.unit,
            "says": self.says,
            "todo": self.todo,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Mark:
        """The mark that `to_json` wrote, also before it had unit and words."""
        words = (str(document.get(name) or "") for name in ("unit", "says", "todo"))
        return cls(str(document["check"]), _real(document["value"]), _real(document["limit"]), *words)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a cell shows and that the explanation uses; the attributes are those of a mark.

    The value may be counted in another unit than the limit, as starved clients are.
    """

    name: str
    value: float
    unit: str
    limit: float = math.nan
    says: str = ""
    todo: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": number(self.value),
            "unit": self.unit,
            "limit": number(self.limit),
            "says": self.says,
            "todo": self.todo,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Finding:
        """The finding that `to_json` wrote, also before it had a limit and words."""
        words = (str(document.get(name) or "") for name in ("says", "todo"))
        name, unit = str(document["name"]), str(document["unit"])
        return cls(name, _real(document["value"]), unit, _real(document.get("limit")), *words)


def _real(value: float | None) -> float:
    return math.nan if value is None else float(value)
