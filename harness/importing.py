"""Puts another tool's results into a store, so that laws, page and audit work on them as on a sweep."""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.cell import Replicate
from harness.errors import HarnessError
from harness.importers import FormatError, Hints, Row, read
from harness.plan import CELL, Plan, Visit
from harness.store import create_store
from models import imported
from models.scenario import Scenario


def import_files(
    paths: Sequence[Path], out: Path, hints: Hints, arguments: Sequence[str] | None = None
) -> str:
    """Reads files of one tool into a new store, and gives the tool's name.

    Runs with the same value and series are repetitions. The store appears complete or not at all.

    Parameters
    ----------
    paths : sequence of path
    out : path
        The store.
    hints : Hints
        What the files themselves do not say.
    arguments : sequence of str, optional
        Of the command, for the provenance.

    Raises
    ------
    HarnessError
        When a file is none of a known tool or malformed, files do not belong together, or the store is there.
    """
    from harness import provenance

    if out.exists():
        raise HarnessError(f"{out}: is there already; give another --out", usage=True)
    tool, rows = _rows(paths, hints)
    plan, replicates = _planned(tool, " ".join(path.name for path in paths), rows)
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with create_store(draft) as store:
            store.set_plan(plan, uuid.uuid4().hex)
            origin = {"files": [_origin(path) for path in paths], "tool": tool}
            store.begin_session(time.time(), provenance.elsewhere(arguments) | {"imported": origin})
            for visit, replicate in replicates:
                store.add_replicate(visit, replicate.block, replicate)
        draft.replace(out)
    finally:
        for suffix in ("", "-wal", "-shm"):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)
    return tool


def _rows(paths: Sequence[Path], hints: Hints) -> tuple[str, list[Row]]:
    found = [read(path, hints) for path in paths]
    tools = list(dict.fromkeys(tool for tool, _ in found))
    if len(tools) > 1:
        raise FormatError(f"files of {' and '.join(tools)}: import each into a store of its own")
    rows = [row for _, part in found for row in part]
    for path, (_, part) in zip(paths, found, strict=True):
        for row in part:
            if not row.variable:
                raise FormatError(
                    f"{path}: line {row.line}: no number of clients and no other setting; say it with --n"
                )
            if row.summary.get("throughput") is None:
                raise FormatError(f"{path}: line {row.line}: no throughput; name its column with --x")
    variables = list(dict.fromkeys(row.variable for row in rows))
    if len(variables) > 1:
        raise FormatError(f"files that vary {' and '.join(variables)}: import each into a store of its own")
    return tools[0], rows


def _planned(tool: str, file: str, rows: Sequence[Row]) -> tuple[Plan, list[tuple[Visit, Replicate]]]:
    whole = all(row.x == int(row.x) >= 0 for row in rows)
    axis = rows[0].variable if rows[0].variable in imported.AXES and whole else imported.OTHER
    options: list[tuple[str, tuple[str, ...]]] = [("file", (file,)), ("tool", (tool,))]
    if axis == imported.OTHER:
        options.append(("column", (rows[0].variable,)))
    series = tuple(dict.fromkeys(row.series for row in rows))
    if series != ("",):
        options.append(("series", series))
    durations = [row.summary["duration"] for row in rows if row.summary.get("duration")]
    plan = Plan(
        imported.NAME,
        imported.NAME,
        imported.NAME,
        ((axis, tuple(sorted({row.x for row in rows}))),),
        tuple(options),
        window=max(durations, default=0.0),
        warmup=0.0,
    )
    fixed: dict[str, Any] = {name: values[0] for name, values in options}
    counts: dict[str, int] = {}
    found = []
    for row in rows:
        scenario: Scenario = plan.scenario({**fixed, "series": row.series, axis: row.x})
        block = counts.get(scenario.key, 0)
        counts[scenario.key] = block + 1
        record = {"summary": dict(row.summary), "line": row.line, "note": row.note}
        found.append((Visit(CELL, scenario), Replicate(uuid.uuid4().hex, time.time(), block, record)))
    return replace(plan, reps=max(counts.values())), found


def _origin(path: Path) -> dict[str, Any]:
    return {"name": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
