"""Our figures beside those of other tools, where they are installed: one file a peer, found by name.

A peer is a module with

- ``PROGRAM``, ``PACKAGE``: what is run, and the Debian package that has it,
- ``PROBE``, ``OPTIONS``, ``KIND``: the probe of ours that does the same, with its knobs and its kind of ends,
- ``SHARE``: how much of a unit of ours one of theirs is (0.5: one way of a round trip), and ``UNIT``, its name,
- ``SAME``: whether both do the same work, so that they must agree; else ``NOTE`` says what differs,
- ``words(cpu)``: its arguments, so that it runs for some tenths of a second with all of it on that CPU,
- ``read(text)``: ns of its unit, in the mean, from what it prints.

Ours are medians, which others that run on the same CPU meanwhile do not move; peers tell only means, which they do. So the
time of a peer that does the same, and never rests, is multiplied by the share of the CPU that it had.
"""

from __future__ import annotations

import math
import os
import resource
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from harness.registries import modules
from models.quantiles import t_quantile
from pyx import registry
from pyx.probing import ProbeError, launch

REPS = 5
BUDGET = 0.4  # s of each of our launches, about what a peer runs
TOLERANCE = 1.15  # the factor within which those that do the same must agree
PATIENCE = 30.0  # s for one run of a peer

Launch = Callable[..., Mapping[str, Any]]
Run = Callable[[list[str]], tuple[str, float]]
Row = dict[str, Any]


def cross_check(reps: int = REPS, launcher: Launch = launch, run: Run | None = None) -> list[Row]:
    """Runs every installed peer and our probe in turn, under the same pinning, and compares.

    Parameters
    ----------
    reps : int
        Runs of each, at least 2.
    launcher, run : callable
        Of our probes, as pyx.probing.launch; and of a peer's command, which gives what it printed and the share of a CPU
        that it had (OSError or subprocess.SubprocessError when it fails).

    Returns
    -------
    list of dict
        Of each peer: peer, probe, unit, command, runs, ours_ns, peer_ns (medians over runs), ratio (ours to theirs, the
        median of turns), ratio_low and ratio_high (its 95 % interval), agrees (true where all of the interval is within
        15 %, false where none of it is; null where noise leaves that open, or the work is not the same) and note (what
        differs, or why there are no figures).
    """
    cpu = min(os.sched_getaffinity(0))
    return [_row(name, peer, cpu, max(reps, 2), launcher, run or _run) for name, peer in found().items()]


def found() -> dict[str, ModuleType]:
    """The peers' modules by name."""
    return modules(__name__, "PROGRAM")


def _row(name: str, peer: ModuleType, cpu: int, reps: int, launcher: Launch, run: Run) -> Row:
    command = ["taskset", "-c", str(cpu), peer.PROGRAM, *peer.words(cpu)]
    names = ("runs", "ours_ns", "peer_ns", "ratio", "ratio_low", "ratio_high", "agrees", "note")
    empty = dict.fromkeys(names)
    row = {"peer": name, "probe": peer.PROBE, "unit": peer.UNIT, "command": shlex.join(command), **empty}
    if shutil.which(peer.PROGRAM) is None:
        return {**row, "note": f"not installed: apt-get install {peer.PACKAGE}"}
    if peer.PROBE not in registry.probes():
        return {**row, "note": f"there is no probe {peer.PROBE} here"}
    try:
        turns = [(_ours(peer, cpu, launcher), _theirs(peer, *run(command))) for _ in range(reps)]
    except (ProbeError, OSError, ValueError, subprocess.SubprocessError) as error:
        return {**row, "note": f"failed: {_line(error)}"}
    return {**row, **_compared(turns, peer)}


def _ours(peer: ModuleType, cpu: int, launcher: Launch) -> float:
    """The median of a unit, ns, as much of it as one of theirs is; what the clock and the loop cost is subtracted."""
    raw = launcher(peer.PROBE, peer.OPTIONS, kind=peer.KIND, cpus=(cpu,), budget=BUDGET)
    end = raw["ends"][0]
    overhead = raw["clock_ns"] / max(end["batch"], 1) + raw["loop_ns"]
    return float(peer.SHARE * (np.median(end["samples"]) - overhead))


def _theirs(peer: ModuleType, text: str, had: float) -> float:
    return float(peer.read(text)) * (min(had, 1.0) if peer.SAME else 1.0)


def _compared(turns: list[tuple[float, float]], peer: ModuleType) -> Row:
    ours, theirs = np.array(turns).T
    if min(theirs) <= 0:
        return {"note": "failed: it measured nothing"}
    logs = np.log(ours / theirs)
    half = t_quantile(len(logs) - 1) * float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    middle, mean = float(np.median(logs)), float(np.mean(logs))
    low, high = min(mean - half, middle), max(mean + half, middle)
    return {
        "runs": len(turns),
        "ours_ns": float(np.median(ours)),
        "peer_ns": float(np.median(theirs)),
        "ratio": math.exp(middle),
        "ratio_low": math.exp(low),
        "ratio_high": math.exp(high),
        "agrees": _agrees(low, high) if peer.SAME else None,
        "note": peer.NOTE,
    }


def _agrees(low: float, high: float) -> bool | None:
    """Of the interval of a ratio's logarithm."""
    limit = math.log(TOLERANCE)
    if -limit <= low and high <= limit:
        return True
    return False if low > limit or high < -limit else None


def _run(command: list[str]) -> tuple[str, float]:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=True, stdin=subprocess.DEVNULL
    )
    took, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return done.stdout, used / took


def _line(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        said = (error.stderr or error.stdout or "").strip().splitlines()
        return said[-1] if said else f"{error.cmd[3]} ended with status {error.returncode}"
    return str(error).splitlines()[0]
