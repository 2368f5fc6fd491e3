"""The scores of the past: a line of JSON each in a file beside the stores, so that it outlives them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = "scores.jsonl"
KEPT = (
    "id",
    "finished",
    "git",
    "cpus",
    "seed",
    "configurations",
    "dropped",
    "throughput",
    "response",
    "response_thinking",
    "p99",
    "coverage",
    "half_width",
    "regimes",
)


def append(folder: Path, document: Mapping[str, Any]) -> None:
    """Adds a finished score's date, revision, seed and summary figures, unless they are there."""
    if any(row["id"] == document["id"] for row in read(folder)):
        return
    with (folder / FILE).open("a") as file:
        file.write(json.dumps({name: document[name] for name in KEPT}) + "\n")


def read(folder: Path) -> list[dict[str, Any]]:
    """Every score that is kept there, oldest first; a line that a kill cut short is left out."""
    try:
        lines = (folder / FILE).read_text().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return sorted(found, key=lambda row: float(row["finished"]))
