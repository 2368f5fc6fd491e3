"""Runs a probe in a small native process of its own, kneepoint-probe."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyx.errors import NativeError

EXECUTABLE = Path(__file__).with_name("kneepoint-probe")
PATIENCE = 20.0  # s beyond the budget before it is taken to hang; its own watch is far shorter


class ProbeError(NativeError):
    """A probe could not measure; `usage`: what was asked for cannot be on this machine."""


def launch(
    probe: str,
    options: Mapping[str, str] | None = None,
    *,
    kind: str = "process",
    cpus: Sequence[int] = (0,),
    bound: bool = True,
    pairs: int = 1,
    size: int = 8,
    iterations: int = 0,
    budget: float = 0.1,
    capacity: int = 5000,
    executable: Path | None = None,
) -> dict[str, Any]:
    """One launch of a probe in fresh processes; blocks until it is done.

    Parameters
    ----------
    probe : str
        Name in the registry.
    options : mapping of str to str
        Its knobs; missing ones get their defaults.
    kind : str
        What its ends are: "process" or "thread".
    cpus, bound
        Bound: end e of pair p runs on cpus[(p × ends + e) % len(cpus)]. Else all ends where the scheduler likes among them.
    pairs, size : int
        Pairs of ends; bytes of a message.
    iterations : int
        Units of work of each pair; 0: as many as fit into the budget.
    budget : float
        s of the measured part.
    capacity : int
        Samples kept of each end, spread over the measured part.
    executable : path, optional
        Another build of kneepoint-probe.

    Returns
    -------
    dict
        What pyx/csrc/main_probe.c writes: probe, unit_of_work, kind, pairs, size (as it was run, which may be smaller),
        clock_ns, loop_ns, released, finished (ns), ends: a list of {pair, end, cpu_first, cpu_last, migrations, voluntary,
        involuntary, units, measured, busy_ns, began, ended, batch, stride, sent, received, speed_before, speed_after (ns for
        fixed work), notes, samples (ns a unit)}.

    Raises
    ------
    ProbeError
    """
    words = [str(executable or EXECUTABLE), probe, "--kind", kind, "--cpus", ",".join(map(str, cpus))]
    for name, value in {
        "bound": int(bound),
        "pairs": pairs,
        "size": size,
        "iterations": iterations,
        "budget": round(budget * 1e9),
        "capacity": capacity,
    }.items():
        words += [f"--{name}", str(value)]
    settings = [f"{name}={value}" for name, value in (options or {}).items()]
    # The process ends when this end of the pipe closes, even if that is because we were killed.
    theirs, ours = os.pipe2(os.O_CLOEXEC)
    try:
        limit = None if iterations else budget + PATIENCE
        return _run([*words, "--alive", str(theirs), *settings], theirs, limit)
    finally:
        os.close(ours)
        os.close(theirs)


def _run(words: Sequence[str], alive: int, limit: float | None) -> dict[str, Any]:
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            pass_fds=(alive,),
            process_group=0,
            timeout=limit,
        )
    except OSError as error:
        raise ProbeError(f"cannot start {words[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ProbeError(f"probe {words[1]} hangs") from error
    if done.returncode:
        said = done.stderr.strip().removeprefix("kneepoint-probe: ")
        said = said or f"kneepoint-probe ended with status {done.returncode}"
        raise ProbeError(f"probe {words[1]}: {said}", usage=done.returncode == 2)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
