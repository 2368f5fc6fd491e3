"""Carries out a probe run: plans its points, launches them, judges what came, writes the files."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import provenance
from harness.errors import HarnessError
from harness.probing import launching, picture, results, splitting, topology, writing
from harness.probing.points import Plan, make
from harness.probing.wanted import MOST_ITERATIONS, MOST_REPS, Request
from harness.progress import Progress, Silent
from harness.showing import probe_page
from harness.showing.placing import save
from harness.sweeping import RESULTS
from pyx import bench, probing

YARDSTICKS = 15


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went.

    Attributes
    ----------
    document : dict
        The contract with other programs: see `harness.probing.results`.
    samples : dict of str to array
        Of each result by its place, ns of a unit.
    failed : tuple of str
        Points that failed, each with the reason.
    interrupted : bool
        Ctrl-C ended it; the document holds what was finished.
    """

    document: dict[str, Any]
    samples: results.Samples
    failed: tuple[str, ...]
    interrupted: bool


def run(
    request: Request,
    progress: Progress | None = None,
    arguments: Sequence[str] | None = None,
    launch: launching.Launch | None = None,
    here: topology.Topology | None = None,
) -> Outcome:
    """Measures what a request asks for.

    Parameters
    ----------
    request : Request
    progress : Progress, optional
    arguments : sequence of str, optional
        Of the command `python -m harness`, for the document.
    launch : callable, optional
        Instead of pyx.probing.launch.
    here : Topology, optional
        This machine's by default.

    Raises
    ------
    HarnessError
        When the request is wrong or nothing of it can be measured here; failures of single points are in the outcome.
    """
    check(request)
    here = here or topology.read()
    wanted = make(request, here)
    plan = _with_companions(wanted, request)
    ours = set(wanted.points)
    asked = {place for place, point in enumerate(plan.points) if point in ours}
    effort = launching.Effort.of(len(plan.points), request.quick, request.reps, request.iterations)
    started, before = time.time(), _yardstick()
    machine = provenance.collect(arguments)
    collected = launching.carry_out(
        plan.points, effort, progress or Silent(), launch or probing.launch, asked
    )
    after = _yardstick()
    if asked <= collected.refused.keys():
        first = min(asked)
        why = f"{plan.points[first].probe}: {collected.refused[first]}"
        raise HarnessError(f"nothing to measure: {why}", usage=True)
    rows, refused, samples = results.rows(plan, collected)
    document = results.document(
        splitting.parts(rows),
        refused,
        command=machine.pop("command"),
        started=started,
        seconds=time.time() - started,
        machine=machine,
        positions=here.to_json(),
        reps=max(map(len, collected.found.values()), default=0),
        complete=not collected.interrupted,
        yardstick={"before": before, "after": after},
        yardstick_shift=after / before - 1,
    )
    return Outcome(document, samples, _failures(plan, collected), collected.interrupted)


def _with_companions(plan: Plan, request: Request) -> Plan:
    """With the points that splitting a round trip takes, measured in the same rounds; a quick run of all has no time."""
    if request.quick and not request.probes:
        return plan
    points = (*plan.points, *splitting.needs(plan.points))
    order = list(dict.fromkeys(point.probe for point in points))
    return replace(plan, points=tuple(sorted(points, key=lambda point: order.index(point.probe))))


def check(request: Request) -> None:
    """Raises HarnessError where a number is outside its bounds."""
    for name, most in (("reps", MOST_REPS), ("iterations", MOST_ITERATIONS)):
        value = getattr(request, name)
        if value is not None and not 1 <= value <= most:
            raise HarnessError(f"--{name} {value}: outside 1:{most}", usage=True)


def _failures(plan: Plan, collected: launching.Collected) -> tuple[str, ...]:
    return tuple(f"{plan.points[place].label()}: {why}" for place, why in collected.failed.items())


def _yardstick() -> float:
    """s for a fixed piece of arithmetic, the best of several."""
    return min(float(bench.yardstick()) for _ in range(YARDSTICKS))


def path_for(out: Path | None, probes: Sequence[str]) -> Path:
    """Where the document goes, as given or a new file in results/; refused if no file can be made there."""
    if out is not None and (out.is_dir() or out.suffix not in ("", ".json")):
        raise HarnessError(f"--out {out}: not a document's name, which ends in .json", usage=True)
    path = _new(probes) if out is None else out.with_suffix(".json")
    try:
        with TemporaryFile(dir=next(folder for folder in path.parents if folder.exists())):
            return path
    except OSError as error:
        raise _unwritable(path, error) from error


def _new(probes: Sequence[str]) -> Path:
    what = "-".join(probes) if 0 < len(probes) < 4 else "all" if not probes else "several"
    # With our number, as another run may begin within the same second.
    stem = f"probe-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{what}"
    names = [stem, *(f"{stem}-{n}" for n in range(2, 1000))]
    return next(path for path in (RESULTS / f"{name}.json" for name in names) if not path.exists())


def _unwritable(path: Path, error: OSError) -> HarnessError:
    return HarnessError(f"{path}: cannot be written: {error.strerror}; --out names another place")


def write(outcome: Outcome, path: Path, report: bool) -> list[str]:
    """Writes the document with its samples (.npz) and its table (.csv), and the page with its picture if wanted.

    Returns
    -------
    list of str
        What could not be made, a line each.

    Raises
    ------
    HarnessError, ReportError
        When they cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error
    samples, packed = path.with_suffix(".npz"), io.BytesIO()
    np.savez_compressed(packed, **{name: _packed(values) for name, values in outcome.samples.items()})  # type: ignore[arg-type]
    save(samples, packed.getvalue(), "samples")
    outcome.document["samples_file"] = samples.name
    save(path, json.dumps(outcome.document, indent=1, allow_nan=False) + "\n", "document")
    writing.write_csv(outcome.document, path.with_suffix(".csv"))
    if not report:
        return []
    html = path.with_suffix(".html")
    probe_page.write(outcome.document, outcome.samples, html)
    missing = picture.write_png(html, path.with_suffix(".png"))
    return [missing] if missing else []


def _packed(values: NDArray[np.float64]) -> NDArray[np.generic]:
    """As many digits as a launch writes, and a few more."""
    return values.astype(np.float32) if values.dtype == np.float64 else values
