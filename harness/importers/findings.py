"""Findings in long format: a file of variable, finding, value, unit, of which throughput and latency are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harness.importers import FormatError, Hints, Row
from harness.importers._fields import SECONDS, positive, table

_HEADS = ("variable", "finding", "value", "unit")
_CLIENTS = ("clients", "users", "connections")
_SIZES = ("array", "batch", "items")  # settings that say how many things one request holds
_REQUESTS = ("requests", "replies", "orders", "1")
_SETTING = re.compile(r"([a-z]+) (\d+)\b|\b(\d+) ([a-z]+)")
_KINDS = {"throughput": "throughput", "latency": "response", "response": "response"}


def recognises(text: str) -> bool:
    """Whether it has these four columns."""
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    return tuple(field.strip().lower() for field in first.split(",")) == _HEADS


def read(text: str, hints: Hints) -> list[Row]:
    """A run for each variable of which a throughput is told; its settings stand in its name or are the defaults."""
    given = [name for name in ("n", "x", "r", "think") if getattr(hints, name) is not None]
    if given:
        raise FormatError(f"--{given[0]}: a file of findings has no columns to name; leave it out")
    found = table(text)
    defaults = _defaults(found.comments)
    runs: dict[str, dict[str, Any]] = {}
    for line, (variable, kind, value, unit) in found.rows:
        if kind not in _KINDS:
            continue
        run = runs.setdefault(variable, {"line": line, "settings": {**defaults, **_settings(variable)}})
        amount = positive(value, kind, line)
        if kind == "throughput":
            run["throughput"], run["things"] = _rate(amount, unit, line)
            run["told"] = f"{value} {unit}"
        else:
            run["response"] = amount * _seconds(unit, line)
    return [_row(name, run) for name, run in runs.items() if "throughput" in run]


def _defaults(comments: str) -> dict[str, float]:
    """Settings from "Defaults: 10 clients, array 50.", what stands in brackets apart."""
    flat = re.sub(r"\([^)]*\)", "", comments.replace("\n", " "))
    said = re.search(r"Defaults?: ([^.]*)", flat)
    return _settings(said.group(1)) if said else {}


def _settings(text: str) -> dict[str, float]:
    """Settings written as "10 clients, array 50" or "clients 13 array 200"."""
    found = {}
    for part in text.split(",") if "," in text else [text]:
        for name, value, number, noun in _SETTING.findall(part):
            found[name or noun] = float(value or number)
    return found


def _rate(amount: float, unit: str, line: int) -> tuple[float, str]:
    """A throughput a second, and of what."""
    things, slash, per = unit.partition("/")
    if not slash or per not in SECONDS:
        raise FormatError(f"line {line}: unit {unit}: not a throughput; write requests/s or numbers/ms")
    return amount / SECONDS[per], things


def _seconds(unit: str, line: int) -> float:
    if unit not in SECONDS:
        raise FormatError(f"line {line}: unit {unit}: not a time; write one of {', '.join(SECONDS)}")
    return SECONDS[unit]


def _row(name: str, run: Mapping[str, Any]) -> Row:
    settings: Mapping[str, float] = run["settings"]
    clients = next((settings[word] for word in _CLIENTS if word in settings), None)
    size, note = 1.0, ""
    if run["things"] not in _REQUESTS:
        held = next((word for word in _SIZES if word in settings), None)
        size = settings[held] if held else float("nan")
        note = f"{run['told']} at {size:g} {run['things']} a request are {run['throughput'] / size:,.0f} requests/s"
    rate = run["throughput"] / size
    summary = {
        "throughput": rate if rate == rate else None,
        "response": run.get("response"),
        "clients": clients,
    }
    variable = "clients" if clients else ""
    return Row(run["line"], variable, clients or float("nan"), summary, name.partition(" (")[0], note)
