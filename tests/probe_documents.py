"""Documents of probe runs as the tests of pages, tables and pictures want them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

LAUNCHES = 5
MACHINE = {"cpu": "a CPU", "cpus": 2, "kernel": "6.18", "smt": None, "versions": {"numpy": "2.4"}}
POSITIONS = {
    "same_cpu": {"cpus": [0, 0]},
    "smt": {"absent": "each core has one hardware thread"},
    "l2": {"absent": "no two CPUs share a level 2 cache"},
    "l3": {"cpus": [0, 1]},
    "socket": {"absent": "all CPUs share a level 3 cache"},
    "numa": {"absent": "one memory node"},
}
TWO_ENDED = {  # ns of a round trip on one CPU and across a cache, and how many system calls it has
    ("signal", "sigwaitinfo", "round trip"): (9800, 61000, 4),
    ("signal", "handler", "round trip"): (11900, 64000, 6),
    ("mqueue", "pingpong", "round trip"): (6100, 36000, 4),
    ("mqueue", "spsc", "message"): (720, 5200, 2),
    ("semaphore", "pingpong", "round trip"): (4300, 33500, 4),
    ("mutex", "shared", "lock and unlock"): (18, 37, 0),
    ("mutex", "pingpong", "round trip"): (5200, 41000, 4),
    ("pipe", "pingpong", "round trip"): (5110, 34900, 4),
    ("tcp", "loopback", "round trip"): (18200, 77000, 4),
    ("tcp", "veth", "round trip over veth, not a wire"): (21500, 84000, 4),
    ("wakeup", "pingpong", "round trip"): (3900, 31800, 4),
    ("accept", "connect", "connection"): (41000, 98000, 0),
}
ALONE = {
    ("syscall", "getppid", "call"): 173,
    ("clock", "monotonic", "reading"): 22.7,
    ("clock", "tsc", "reading"): 11.2,
    ("pipe", "calls", "write and read, twice"): 1450,
    ("fork", "fork", "process made and waited for"): 121000,
    ("thread_create", "joined", "thread made and joined"): 31000,
    ("working_set", "migrate", "migration and first walk"): 1.9e6,
}
LEGEND = {
    "lost": "what was sent is not what was received",
    "switches": "ends on one CPU switched less than once a hop",
    "unstable": "launches differ by more than 3 % of their median",
    "two_humped": "samples come from two things",
    "batched": "p99 is that of batches",
}
HOSTILE = "</script><img src=x onerror=alert(1)>&amp;{{$}}"


def result(probe: str, variant: str, unit: str, median: float, **changed: Any) -> dict[str, Any]:
    """One result with figures that belong together; `changed` replaces some."""
    row = {
        "probe": probe,
        "variant": variant,
        "kind": "process",
        "unit_of_work": unit,
        "position": "same_cpu",
        "pairs": 1,
        "cores": 1,
        "size": 8,
        "median_ns": median,
        "low_ns": median * 0.985,
        "high_ns": median * 1.02,
        "p99_ns": median * 1.9,
        "overhead_ns": 23.1 / (1 if median > 2000 else 256),
        "samples": 4000,
        "flags": [] if median > 2000 else ["batched"],
        "options": {},
        "launches": [median * (1 + share) for share in (-0.015, -0.004, 0.0, 0.006, 0.02)],
        "percentiles": {"p10": median * 0.97, "p50": median, "p90": median * 1.12, "p99": median * 1.9},
        "min_ns": median * 0.93,
        "batch": 1 if median > 2000 else 256,
        "elapsed_ns": 480_000_000,
        "switches": 1.0,
        "notes": {},
        "parts": None,
    }
    return json.loads(json.dumps(row | changed))


def parts(median: float, calls: int, position: str) -> list[dict[str, Any]]:
    """How a round trip is made up; on one CPU the measured parts add up to a little more than the whole."""
    across = position != "same_cpu"
    shares = {"system calls": calls * 180 / median, "data": 0.04, "switches": 0.05 if across else 0.5}
    shares["wake-ups"] = 0.7 if across else 1.02 - sum(shares.values())
    shares["residual"] = 1 - sum(shares.values())
    return [
        {"part": name, "ns": median * s, "low_ns": median * (s - 0.02), "high_ns": median * (s + 0.02)}
        for name, s in shares.items()
    ]


def results() -> list[dict[str, Any]]:
    """The families, of processes and threads, on one CPU and across a cache; one rejected, one of two humps."""
    rows = []
    for (probe, variant, unit), (same, across, calls) in TWO_ENDED.items():
        for kind, slower in (("process", 1.0), ("thread", 1.06)):
            for position, median in (("same_cpu", same * slower), ("l3", across * slower)):
                found = parts(median, calls, position) if calls > 2 and variant != "spsc" else None
                at = {"kind": kind, "position": position, "cores": 1 if position == "same_cpu" else 2}
                rows.append(result(probe, variant, unit, median, parts=found, **at))
    for (probe, variant, unit), median in ALONE.items():
        rows.append(result(probe, variant, unit, median, position="alone", switches=0.0))
    rows.append(result("syscall", "getppid", "call", 181, kind="thread", position="alone", switches=0.0))
    _flag(rows, "semaphore", "l3", "unstable", "two_humped")
    _flag(rows, "tcp", "same_cpu", "rejected", "switches")
    return rows


def _flag(rows: Sequence[dict[str, Any]], probe: str, position: str, *flags: str) -> None:
    row = next(row for row in rows if (row["probe"], row["position"]) == (probe, position))
    row["flags"] = list(flags)


def swept(over: Mapping[str, Sequence[Any]], base: float = 5000.0) -> list[dict[str, Any]]:
    """A pipe's results over pairs, cores, size or a knob, at both positions (over cores: free)."""
    rows = []
    for name, values in over.items():
        for place, value in enumerate(values):
            for position in ("free",) if name == "cores" else ("same_cpu", "l3"):
                median = base * (place + 1) * (1 if position == "same_cpu" else 6)
                changed = {name: value} if name in ("pairs", "cores", "size") else {"options": {name: value}}
                flags = ["rejected", "lost"] if place == 2 and position == "l3" else []
                changed |= {"position": position, "flags": flags}
                rows.append(result("pipe", "pingpong", "round trip", median, **changed))
    return rows


def document(rows: Sequence[dict[str, Any]] | None = None, label: str = "") -> dict[str, Any]:
    """What `probe --json` would print; `label` stands wherever a text comes from elsewhere."""
    refused = [
        {
            "probe": "cacheline",
            "variant": "one_line",
            "kind": "thread",
            "position": "same_cpu",
            "why": f"its ends wait by polling and share a CPU {label}".strip(),
        }
    ]
    made = {
        "schema": 1,
        "command": f"python -m harness probe {label}".strip(),
        "started": 1.78e9,
        "seconds": 54.2,
        "machine": {**MACHINE, "kernel": f"6.18 {label}".strip()},
        "positions": {**POSITIONS, "numa": {"absent": f"one memory node {label}".strip()}},
        "results": list(results() if rows is None else rows),
        "refused": refused,
        "legend": LEGEND,
        "samples_file": None,
    }
    return json.loads(json.dumps(made))


def samples(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Samples of each result by its place: of one hump, or of two where the result says so."""
    rng = random.Random(1)
    return {
        str(place): [
            row["median_ns"]
            * rng.lognormvariate(0, 0.05)
            * (1 if "two_humped" not in row["flags"] or rng.random() < 0.6 else 4)
            for _ in range(800)
        ]
        for place, row in enumerate(rows)
    }
