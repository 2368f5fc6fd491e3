"""wrk: what it prints, of one run or of several after each other, also with --latency."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from harness.importers import FormatError, Hints, Row
from harness.importers._fields import SECONDS, constant

_START = re.compile(r"Running (\S+) test @ (\S+)")
_LOAD = re.compile(r"\s+(\d+) threads? and (\d+) connections?$")
_TIME = r"([\d.]+)(us|ms|s|m|h)"
_LATENCY = re.compile(rf"\s+Latency\s+{_TIME}\s+{_TIME}\s+{_TIME}\s")
_QUANTILE = re.compile(rf"\s+(50|90|99)(?:\.0+)?%\s+{_TIME}$")
_DONE = re.compile(r"\s+(\d+) requests in ([\d.]+)(us|ms|s|m|h),")
_SOCKETS = re.compile(r"\s+Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)")
_STATUS = re.compile(r"\s+Non-2xx or 3xx responses: (\d+)")
_RATE = re.compile(r"Requests/sec:\s+([\d.]+)$")
_DIGITS = 1e-5  # s: times are printed to two decimals, those of milliseconds to 10 µs
_NEAR = 0.05  # to which the rate must be requests over duration, which is printed to 10 ms


def recognises(text: str) -> bool:
    """Whether wrk printed it."""
    return bool(re.search(rf"^{_START.pattern}", text, re.MULTILINE)) and "threads and" in text


def read(text: str, hints: Hints) -> list[Row]:
    """The runs of the text; FormatError for one that is cut off."""
    for option, given in (("--n", hints.n), ("--x", hints.x)):
        if given is not None:
            raise FormatError(f"{option} {given}: wrk says that itself; leave it out")
    think = constant(hints.think, "--think", "wrk's output")
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if _START.match(line)]
    return [
        _run(lines[start:end], start + 1, think, hints.r == "none")
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    ]


def _run(lines: Sequence[str], first: int, think: float | None, without_times: bool) -> Row:
    summary: dict[str, Any] = {"errors": 0, "think": think, "resolution": _DIGITS}
    requests = 0
    for line in lines:
        if found := _LOAD.match(line):
            summary["clients"] = int(found[2])
        elif (found := _LATENCY.match(line)) and not without_times:
            summary["response"] = float(found[1]) * SECONDS[found[2]]
            summary["max"] = float(found[5]) * SECONDS[found[6]]
        elif (found := _QUANTILE.match(line)) and not without_times:
            summary[f"p{found[1]}"] = float(found[2]) * SECONDS[found[3]]
        elif found := _DONE.match(line):
            summary["duration"] = float(found[2]) * SECONDS[found[3]]
            requests = int(found[1])
        elif found := (_SOCKETS.match(line) or _STATUS.match(line)):
            summary["errors"] += sum(map(int, found.groups()))
        elif found := _RATE.match(line):
            summary["throughput"] = float(found[1])
    wanted = {"clients": "threads and connections", "duration": "requests in", "throughput": "Requests/sec"}
    where = f"line {first}: the run that begins here"
    for name, words in wanted.items():
        if not summary.get(name):
            raise FormatError(f"{where} has no {words!r} above 0, so it was cut off or failed; leave it out")
    rate, counted = summary["throughput"], requests / summary["duration"]
    if abs(rate / counted - 1) > _NEAR:
        raise FormatError(f"{where} has {rate:g} requests/s where it counted {counted:.4g}; leave it out")
    return Row(first, "clients", float(summary["clients"]), summary)
