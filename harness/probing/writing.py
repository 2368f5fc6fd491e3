"""Writes the results of a probe run as CSV, one row each, every figure with its unit in its column's name."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from typing import Any

from harness.showing.placing import save

PARTS = ("system calls", "data", "switches", "wake-ups", "residual")
COLUMNS = (
    "probe",
    "variant",
    "kind",
    "unit_of_work",
    "position",
    "pairs",
    "cores",
    "size_bytes",
    "median_ns",
    "low_ns",
    "high_ns",
    "p99_ns",
    "overhead_ns",
    "samples",
    "flags",
    "options",
    "launches_ns",
    "p10_ns",
    "p50_ns",
    "p90_ns",
    "min_ns",
    "batch_units",
    "elapsed_ns",
    "switches_per_unit_and_end",
    "notes",
    *(
        f"{part.replace(' ', '_').replace('-', '_')}{bound}_ns"
        for part in PARTS
        for bound in ("", "_low", "_high")
    ),
)


def write_csv(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes the results; a file that was there is replaced at once or not at all.

    A figure is written with all its digits; what is not known is empty. Words, times of several launches, settings and
    notes (name=value) are joined by spaces.

    Raises
    ------
    ReportError
        When the file cannot be written.
    """
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(_cells(row) for row in document["results"])
    save(path, text.getvalue(), "table")


def _cells(row: Mapping[str, Any]) -> list[Any]:
    percentiles = row["percentiles"] or {}
    found = {part["part"]: part for part in row["parts"] or ()}
    return [
        *(row[key] for key in ("probe", "variant", "kind", "unit_of_work", "position", "pairs", "cores")),
        *(row[key] for key in ("size", "median_ns", "low_ns", "high_ns", "p99_ns", "overhead_ns", "samples")),
        " ".join(row["flags"]),
        _pairs(row["options"]),
        " ".join("" if ns is None else str(ns) for ns in row["launches"]),
        *(percentiles.get(share) for share in ("p10", "p50", "p90")),
        *(row[key] for key in ("min_ns", "batch", "elapsed_ns", "switches")),
        _pairs(row["notes"]),
        *(found.get(part, {}).get(key) for part in PARTS for key in ("ns", "low_ns", "high_ns")),
    ]


def _pairs(named: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in named.items())
