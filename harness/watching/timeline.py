"""What the server's processes did over time: samples of several replicates made into one set of series.

A replicate's samples are rows of a process tree's accounts (`pyx.sampling.Sampler`). Accounts that only grow (CPU, waiting,
switches) become rates, the others are read as they stand; both are brought onto one grid of equal steps of the measuring
window by linear interpolation, which keeps the total of an account, and at each step the median over replicates is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.metrics import number

NS, MIB = 1e-9, 2.0**-20
GROWING = {  # series -> column and scale of an account that only grows; what it becomes a second
    "cpu": ("cpu", NS),
    "wait": ("wait", NS),
    "switches": ("switches", 1.0),
    "preemptions": ("preemptions", 1.0),
}
STANDING = {  # series -> column and scale of what is read as it stands
    "pss": ("pss", MIB),
    "rss": ("rss", MIB),
    "threads": ("threads", 1.0),
    "descriptors": ("descriptors", 1.0),
    "processes": ("processes", 1.0),
}
UNITS = {
    "cpu": "CPUs",
    "wait": "threads",
    "switches": "1/s",
    "preemptions": "1/s",
    "pss": "MiB",
    "rss": "MiB",
    "threads": "",
    "descriptors": "",
    "processes": "",
}
WORDS = {"cpu": "CPU used", "wait": "waiting for a CPU", "pss": "memory (PSS)", "rss": "memory (RSS)"}


@dataclass(frozen=True, slots=True)
class Timeline:
    """Medians over replicates; times are in s since the window's start, what is not known is nan.

    Attributes
    ----------
    replicates : int
        Those that were sampled.
    step : float
        Length of the grid's steps, s.
    server : mapping of str to tuple of float
        `time` (middle of each step) and by name, in the units of `UNITS`: cpu, wait (threads that wait for a CPU at a time),
        switches, preemptions, pss, rss, threads, descriptors, processes.
    load : mapping of str to tuple of float
        `time` (middle of each bin), `throughput` (1/s) and `response` (mean, s), from the generator's own bins.
    """

    replicates: int
    step: float
    server: Mapping[str, tuple[float, ...]]
    load: Mapping[str, tuple[float, ...]]

    def typical(self, name: str) -> float:
        """Median over the window of one of the server's series; nan where it is not known."""
        known = [value for value in self.server[name] if math.isfinite(value)]
        return median(known) if known else math.nan

    def to_json(self) -> dict[str, Any]:
        def plain(table: Mapping[str, tuple[float, ...]]) -> dict[str, list[float | None]]:
            return {name: [number(value) for value in values] for name, values in table.items()}

        return {
            "replicates": self.replicates,
            "step": self.step,
            "server": plain(self.server),
            "load": plain(self.load),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Timeline:
        def table(rows: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
            return {
                name: tuple(math.nan if value is None else float(value) for value in values)
                for name, values in rows.items()
            }

        server, load = table(document["server"]), table(document["load"])
        return cls(int(document["replicates"]), float(document["step"]), server, load)


def cut(samples: Mapping[str, Any], start: int, end: int) -> dict[str, Any]:
    """Samples of a window and the one at or before and after it, their times in ns since the window's start."""
    place = samples["columns"].index("time")
    rows = sorted(samples["rows"], key=lambda row: row[place])
    before = [i for i, row in enumerate(rows) if row[place] <= start]
    after = [i for i, row in enumerate(rows) if row[place] >= end]
    first, last = (before[-1] if before else 0), (after[0] + 1 if after else len(rows))
    kept = [
        [value - start if i == place else value for i, value in enumerate(row)] for row in rows[first:last]
    ]
    return {"columns": list(samples["columns"]), "rows": kept}


def timeline(records: Sequence[Mapping[str, Any]]) -> Timeline | None:
    """The series of a cell's replicates; None when none was sampled."""
    sampled = [record for record in records if len((record.get("samples") or {}).get("rows", ())) > 1]
    if not sampled:
        return None
    window = min(record["window"] for record in sampled) * NS
    steps = max(round(window / median(_distance(record["samples"]) for record in sampled)), 1)
    grid = np.linspace(0, window, steps + 1)
    each = [_server(record["samples"], grid) for record in sampled]
    return Timeline(
        len(sampled), window / steps, {"time": _middles(grid), **_medians(each)}, _load(sampled, window)
    )


def _distance(samples: Mapping[str, Any]) -> float:
    """Median time from one sample to the next, s; the least is what a clock can tell."""
    time = _column(samples, "time", NS)
    return max(float(np.median(np.diff(time))), NS)


def _server(samples: Mapping[str, Any], grid: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """One replicate's series on the grid."""
    time, found = _column(samples, "time", NS), {}
    for name, (column, scale) in GROWING.items():
        rates = np.diff(_at(time, _column(samples, column, scale), grid)) / np.diff(grid)
        # An account that shrinks lost a process that ended between two samples, so that its rate is not known.
        found[name] = np.where(rates >= 0, rates, math.nan)
    middles = (grid[1:] + grid[:-1]) / 2
    for name, (column, scale) in STANDING.items():
        found[name] = _at(time, _column(samples, column, scale), middles)
    return found


def _column(samples: Mapping[str, Any], name: str, scale: float) -> NDArray[np.float64]:
    """A column's values; all nan where there is no such column, and nan where it could not be read (-1)."""
    if name not in samples["columns"]:
        return np.full(len(samples["rows"]), math.nan)
    place = samples["columns"].index(name)
    values = np.array([row[place] for row in samples["rows"]], dtype=float)
    return values * scale if name == "time" else np.where(values >= 0, values * scale, math.nan)


def _at(
    time: NDArray[np.float64], values: NDArray[np.float64], wanted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Linear interpolation between the samples that could be read; nan before the first and after the last."""
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(wanted), math.nan)
    return np.interp(wanted, time[known], values[known], left=math.nan, right=math.nan)


def _medians(each: Sequence[Mapping[str, NDArray[np.float64]]]) -> dict[str, tuple[float, ...]]:
    """By name and step over replicates, those that know nothing there left out."""
    return {
        name: tuple(_median(values) for values in zip(*(one[name] for one in each), strict=True))
        for name in each[0]
    }


def _median(values: Sequence[float]) -> float:
    known = [float(value) for value in values if math.isfinite(value)]
    return median(known) if known else math.nan


def _middles(grid: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(x) for x in (grid[1:] + grid[:-1]) / 2)


def _load(records: Sequence[Mapping[str, Any]], window: float) -> dict[str, tuple[float, ...]]:
    """The generator's bins: each is an equal part of its replicate's window."""
    bins = len(records[0]["bins"]["count"])
    width = window / bins
    counts = np.array([record["bins"]["count"] for record in records], dtype=float)
    sums = np.array([record["bins"]["response"] for record in records], dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where((counts > 0) & (sums > 0), sums / counts * NS, math.nan)
    return {
        "time": tuple((k + 0.5) * width for k in range(bins)),
        "throughput": tuple(float(x) for x in np.median(counts / width, axis=0)),
        "response": tuple(_median(list(column)) for column in means.T),
    }
