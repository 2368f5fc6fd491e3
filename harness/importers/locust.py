"""Locust: its _stats.csv (one run) and its _stats_history.csv (a run for each stretch of as many users)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from harness.importers import FormatError, Hints, Row
from harness.importers._fields import constant, number, positive, separator, table

_WHOLE = "Aggregated"
_MILLI = 1e-3
_RESOLUTION = 1e-3  # s: percentiles are whole milliseconds
_FEWEST = 3  # rows of a stretch: it begins at the first of them, and a line is drawn through the others
_STATS = {"Type", "Name", "Request Count", "Failure Count", "Average Response Time", "Requests/s"}
_HISTORY = {
    "Timestamp",
    "User Count",
    "Name",
    "Total Request Count",
    "Total Failure Count",
    "Total Average Response Time",
}


def recognises(text: str) -> bool:
    """Whether Locust wrote it."""
    heads = _heads(text)
    return heads >= _STATS or heads >= _HISTORY


def _heads(text: str) -> set[str]:
    first = text.splitlines()[0]
    return {field.strip('" ') for field in first.split(separator(first))}


def read(text: str, hints: Hints) -> list[Row]:
    """The runs; a _stats.csv does not say how many users there were: --n does."""
    if hints.x is not None or hints.r not in (None, "none"):
        raise FormatError(f"--x, --r {hints.x or hints.r}: Locust's columns are known; leave it out")
    think = constant(hints.think, "--think", "Locust's file")
    rows = [
        dict(zip(("line", *found.heads), (str(line), *fields), strict=True))
        for found in [table(text)]
        for line, fields in found.rows
    ]
    whole = [row for row in rows if row["Name"] == _WHOLE]
    if rows and not whole:
        raise FormatError(f"line {rows[-1]['line']}: no {_WHOLE!r} row, so the file was cut off")
    if _heads(text) >= _HISTORY:
        if hints.n is not None:
            raise FormatError(f"--n {hints.n}: the history has the users in a column; leave it out")
        found_rows = list(_stretches(whole, think))
    else:
        found_rows = [_run(row, constant(hints.n, "--n", "Locust's file"), think) for row in whole]
    return [_without_times(row) for row in found_rows] if hints.r == "none" else found_rows


def _without_times(row: Row) -> Row:
    kept = {k: v for k, v in row.summary.items() if k not in ("response", "p50", "p90", "p99", "min", "max")}
    return Row(row.line, row.variable, row.x, kept, row.series, row.note)


def _run(row: dict[str, str], users: float | None, think: float | None) -> Row:
    line = int(row["line"])

    def value(name: str) -> float | None:
        return number(row[name], name, line) if name in row else None

    def time(name: str) -> float | None:
        found = value(name)
        return None if found is None else found * _MILLI

    requests = positive(row["Request Count"], "Request Count", line)
    rate = positive(row["Requests/s"], "Requests/s", line)
    summary: dict[str, Any] = {
        "throughput": rate,
        "response": time("Average Response Time"),
        "p50": time("50%"),
        "p90": time("90%"),
        "p99": time("99%"),
        "min": time("Min Response Time"),
        "max": time("Max Response Time"),
        "errors": value("Failure Count"),
        "clients": users,
        "think": think,
        "duration": requests / rate,
        "resolution": _RESOLUTION,
    }
    return Row(line, "clients" if users else "", users or float("nan"), summary)


def _stretches(rows: Sequence[dict[str, str]], think: float | None) -> Iterator[Row]:
    """Stretches with the same number of users, from the growth of the totals in them.

    The percentiles of the rows are those of the last ten seconds, so only those of the last row can be the
    stretch's, and only if it was as long; they are left out.
    """
    for users, members in groupby(rows, key=lambda row: row["User Count"]):
        part = [_Totals(row) for row in members]
        count = number(users, "User Count", part[0].line)
        if not count or len(part) < _FEWEST or part[-1].requests <= part[0].requests:
            continue
        answered = part[-1].requests - part[0].requests
        span = part[-1].time - part[0].time
        if min(part[-1].time - part[0].time, answered) <= 0 or part[-1].busy < part[0].busy:
            raise FormatError(f"line {part[-1].line}: time or totals run backwards within {users} users")
        summary = {
            "throughput": _slope([row.time for row in part], [row.requests for row in part]),
            "response": (part[-1].busy - part[0].busy) / answered,
            "errors": part[-1].failures - part[0].failures,
            "clients": count,
            "think": think,
            "duration": span,
            "resolution": _RESOLUTION,
        }
        yield Row(part[0].line, "clients", count, summary)


class _Totals:
    """What had been counted by one row: time (s), requests, failures, and the requests' time (s)."""

    def __init__(self, row: dict[str, str]) -> None:
        self.line = int(row["line"])

        def value(name: str) -> float:
            return number(row[name], name, self.line) or 0.0

        self.time = value("Timestamp")
        self.requests = value("Total Request Count")
        self.failures = value("Total Failure Count")
        self.busy = self.requests * value("Total Average Response Time") * _MILLI


def _slope(times: Sequence[float], counts: Sequence[float]) -> float:
    """Requests per second by least squares: time stamps are whole seconds, so two of them say little."""
    middle = sum(times) / len(times)
    square = sum((time - middle) ** 2 for time in times)
    return sum((time - middle) * count for time, count in zip(times, counts, strict=True)) / square
