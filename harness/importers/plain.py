"""Plain CSV: a column of clients, one of throughput, and what else is there; any delimiter, units in the names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from harness.importers import FormatError, Hints, Row
from harness.importers._fields import Table, number, positive, separator, table, unit
from models.knobs import offer

LAST = True  # it takes whatever has a line of names

_CLIENTS = {
    "clients",
    "client",
    "users",
    "user_count",
    "n",
    "concurrency",
    "connections",
    "conns",
    "vus",
    "c",
}
_RATES = {"throughput", "x", "rps", "qps", "tps", "ops", "requests", "reqs", "req", "replies", "orders"}
_PER = {"s": 1.0, "sec": 1.0, "second": 1.0, "ms": 1e3, "min": 1 / 60, "minute": 1 / 60}
_BARE_RATES = {"throughput", "x", "rps", "qps", "tps"}  # of which the name alone says "a second"
_RESPONSES = {"response", "latency", "rt", "rtt", "r", "mean", "avg", "average"}
_FILLING = {"time", "reply", "ns", "us", "µs", "ms", "s", "sec", "seconds", *_RESPONSES}
_QUANTILES = {
    "p50": "p50",
    "median": "p50",
    "50": "p50",
    "p90": "p90",
    "90": "p90",
    "p99": "p99",
    "99": "p99",
}
_ENDS = {"min": "min", "max": "max"}
_THINKS = {"think", "z"}
_ERRORS = {"errors", "failures", "failed"}
# Settings of a server or service: runs that differ in one are no repetitions of each other.
_FACTORS = {
    "workers",
    "threads",
    "processes",
    "cores",
    "cpus",
    "array",
    "chunk",
    "batch",
    "size",
    "depth",
    "backlog",
}
_NO_AXIS = {"sd", "std", "stdev", "var", "pct", "kib", "mib", "bytes", *_ERRORS, *_ENDS, *_QUANTILES}
_REPETITION = re.compile(r"(rep|run|trial)_?\d+(_\w+)?")


def recognises(text: str) -> bool:
    """Whether its first line could be names of columns."""
    first = next(
        (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), ""
    )
    heads = first.split(separator(first))
    return len(heads) > 1 and all(re.search(r"[^\W\d]", head) or re.search(r"\d%", head) for head in heads)


def read(text: str, hints: Hints) -> list[Row]:
    """A run for each line, of what its columns are known to hold."""
    found = table(text)
    columns = _Columns(found, hints)
    return [columns.row(line, fields) for line, fields in found.rows]


def _words(name: str) -> list[str]:
    """A column's name as words: mean_response_ms, "Latency (ms)", "Requests/s"."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word for word in re.split(r"[^\w%µ]+|_", spaced.lower().replace("%", "")) if word]


def _is_rate(words: Sequence[str]) -> bool:
    if not words or words[0] not in _RATES:
        return False
    rest = [word for word in words[1:] if word != "per"]
    return (not rest and words[0] in _BARE_RATES) or (len(rest) == 1 and rest[0] in _PER)


def _is_time(words: Sequence[str], names: set[str]) -> bool:
    """Whether the name says one of these times and nothing beside it that would make it another."""
    return bool(names & set(words)) and set(words) <= names | _FILLING


class _Columns:
    """Which column holds what."""

    def __init__(self, found: Table, hints: Hints) -> None:
        self.heads = found.heads
        self.words = [_words(name) for name in found.heads]
        repeated = any(_REPETITION.fullmatch(name.lower()) for name in found.heads)
        # Beside single repetitions a bare "mean_us" is their mean, of whatever they are.
        bare = set() if not repeated else {"mean", "avg", "average"}
        times = [w for w in self.words if _is_time(w, _RESPONSES) and not set(w) & _RESPONSES <= bare]
        means = [w for w in times if {"mean", "avg", "average"} & set(w)]
        self.think_value = _fixed(hints.think)
        self.n_value = _fixed(hints.n)
        self.places = {
            "clients": self._place(hints.n, self.n_value, lambda w: "_".join(w) in _CLIENTS),
            "throughput": self._place(hints.x, None, _is_rate),
            "response": self._place(
                None if hints.r == "none" else hints.r, None, lambda w: w in (means or times)
            ),
            "think": self._place(hints.think, self.think_value, lambda w: _is_time(w, _THINKS)),
            "errors": self._place(None, None, lambda w: len(w) == 1 and w[0] in _ERRORS),
            "duration": self._place(None, None, lambda w: w[0] == "duration" and set(w[1:]) <= _FILLING),
        }
        for name, key in (*_QUANTILES.items(), *_ENDS.items()):
            place = self._place(None, None, lambda w, name=name: name in w and set(w) <= {name, *_FILLING})
            if place is not None:
                self.places[key] = place
        if hints.r == "none":
            self.places = {k: v for k, v in self.places.items() if k not in ("response", *_QUANTILES, *_ENDS)}
        self.axis = self._axis(found)
        self.texts = [i for i in range(len(self.heads)) if i != self.axis and not _numeric(found, i)]
        self.factors = [
            i for i, words in enumerate(self.words) if i != self.axis and words and words[-1] in _FACTORS
        ]

    def _place(self, named: str | None, value: float | None, fits: Any) -> int | None:
        if named is not None and value is None:
            if named not in self.heads:
                raise FormatError(f"{named}: no such column{offer(named, self.heads)}")
            return self.heads.index(named)
        if value is not None:
            return None
        return next((i for i, words in enumerate(self.words) if words and fits(words)), None)

    def _axis(self, found: Table) -> int | None:
        """The column of clients, or the first that holds numbers and nothing known: workers, chunk."""
        if self.places["clients"] is not None:
            return self.places["clients"]
        taken = {place for place in self.places.values() if place is not None}
        for i, words in enumerate(self.words):
            known = set(words) & (_FILLING | _RATES | _NO_AXIS) or _REPETITION.fullmatch(
                self.heads[i].lower()
            )
            if i not in taken and not known and _numeric(found, i):
                return i
        return None

    def row(self, line: int, fields: Sequence[str]) -> Row:
        summary: dict[str, Any] = {}
        for name, place in self.places.items():
            if place is None:
                continue
            head = self.heads[place]
            if name in ("clients", "throughput"):
                summary[name] = positive(fields[place], head, line) * self._scale(name, place)
                continue
            value = number(fields[place], head, line)
            if name == "response" and value == 0:
                raise FormatError(f"line {line}: {head} is 0; give a number above 0")
            summary[name] = value if value is None or name == "errors" else value * self._scale(name, place)
        if self.n_value is not None:
            summary["clients"] = self.n_value
        if self.think_value is not None:
            summary["think"] = self.think_value
        variable, x = self._at(line, fields, summary)
        told = [fields[i] for i in self.texts]
        told += [f"{self.heads[i]}={fields[i]}" for i in self.factors if i not in self.texts]
        return Row(line, variable, x, summary, " ".join(told))

    def _at(self, line: int, fields: Sequence[str], summary: Mapping[str, Any]) -> tuple[str, float]:
        """What varies, and its value in a row."""
        if self.n_value is not None:
            return "clients", self.n_value
        if self.axis is None:
            return "", math.nan
        if self.axis == self.places["clients"]:
            return "clients", summary["clients"]
        name = self.heads[self.axis]
        x = number(fields[self.axis], name, line)
        if x is None:
            raise FormatError(f"line {line}: {name} is empty; give a number")
        return name, x

    def _scale(self, name: str, place: int) -> float:
        words = self.words[place]
        if name == "throughput":
            return _PER.get(words[-1], 1.0) if len(words) > 1 else 1.0
        return 1.0 if name == "clients" else unit(words)


def _fixed(text: str | None) -> float | None:
    """The number that an option gives for all rows; None where it names a column."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    if not (math.isfinite(value) and value >= 0):
        raise FormatError(f"{text}: give the name of a column, or a finite number of 0 or more")
    return value


def _numeric(found: Table, place: int) -> bool:
    """Whether a column holds numbers, by its first row: what is wrong further down is named there."""
    return bool(found.rows) and bool(re.fullmatch(r"-?[\d.,]+(e[+-]?\d+)?", found.rows[0][1][place].lower()))
