"""A sweep's document as the tests of pages and figures want it, and a page taken apart."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

from models.explain import analyse
from models.metrics import Estimate, Finding, Mark, Metrics
from models.series import Point, Series

WORKERS = (1, 2, 3, 4, 6, 8)
HOSTILE = "</script><img src=x onerror=alert(1)>&amp;{{$}}"


def metrics(rate: float, other: float) -> Metrics:
    return Metrics(
        Estimate(rate, rate * 0.97, rate * 1.03),
        Estimate(10 / rate, 9.8 / rate, 10.3 / rate),
        8 / rate,
        16 / rate,
        31 / rate,
        utilisation={"cpu": 0.97, "server_cpu": 0.8, "load_cpu": 0.17, "load_thread": 0.34, "worker": 0.4},
        counters={"server_cpu": 20e-6 + other, "load_cpu": 15e-6, "busy": 20e-6, "spins": 40.0},
    )


def points(extra: float) -> list[Point]:
    """A curve with a peak at 3; the point at 6 is broken, the one at 8 was not predicted."""
    found = []
    for x in WORKERS:
        rate = 10_000 * x / (1 + 0.3 * (x - 1) + extra * x * (x - 1))
        found.append(
            Point(
                float(x),
                metrics(rate, x * 12e-6),
                metrics(rate * 1.1, x * 13e-6) if x != 8 else None,
                tuple(rate * f for f in (0.99, 1.0, 1.01, 0.995, 1.004)),
                (Mark("stationarity", 0.143, 0.1),) if x == 6 else (),
                (Finding("cpu_limited", 0.97, "of capacity"),),
            )
        )
    return found


def analysed(label: str = "spin") -> list[Series]:
    waits = {label: 0.08, "block": 0.02}
    return [
        analyse("workers", {"wait": wait, "service": "prime", "server": "queues"}, points(extra), 2)
        for wait, extra in waits.items()
    ]


def document(label: str = "spin") -> dict[str, Any]:
    """What `sweep --json` would print of two series."""
    series = analysed(label)
    cells = [
        {
            "key": f"{place}-{point.x}",
            "scenario": {
                "service": "prime",
                "server": "queues",
                "load": "closed",
                "seed": 1,
                "options": {"workers": int(point.x), "wait": row.fixed["wait"], "clients": 10},
            },
            "replicates": [{"id": f"{place}-{point.x}-{b}", "started": 1.7e9, "block": b} for b in range(5)],
            "broken": [mark.to_json() for mark in point.broken],
            "findings": [finding.to_json() for finding in point.findings],
            "measured": point.measured.to_json() if point.measured else None,
            "predicted": point.predicted.to_json() if point.predicted else None,
            "refusal": None if point.predicted else f"no model {label}",
            "failures": [{"block": 2, "message": f"server died {label}"}] if point.x == 4 else [],
        }
        for place, row in enumerate(series)
        for point in row.points
    ]
    made = {
        "schema_version": 1,
        "sweep": {
            "id": f"sweep {label}",
            "variables": [{"name": "workers", "values": list(WORKERS)}],
            "noise": {"aa": [0.01, -0.02, None, 0.004], "null": {"throughput": {"value": 91000.0}}},
            "warnings": [f"the machine was slow {label}"],
            "provenance": {"cpus": 2, "smt": None, "kernel": label, "versions": {"numpy": "2.4"}},
        },
        "cells": cells,
        "series": [row.to_json() for row in series],
    }
    return json.loads(json.dumps(made, allow_nan=False))


class Page(HTMLParser):
    """What a page holds: its text outside scripts, its tags, its scripts, its table rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self.rows: list[list[str]] = []
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else ""
        if tag == "script":
            self.scripts.append("")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self._cell = tag in ("td", "th") or (tag in ("small", "s") and self._cell)

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text.append(data)
            if self._cell:
                self.rows[-1][-1] += data

    _cell = False

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).replace("\u00a0", " ").split())
