"""Probes under way: their processes, and what becomes of a run that is meddled with."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trials

from pyx.probing import EXECUTABLE, ProbeError, launch

Meddle = Callable[[list[int]], None]  # done to the processes of a run's ends

PATIENCE = 10.0  # s in which a run must have ended after something went wrong
CAP_SYS_RESOURCE = 24
CLONE_NEWIPC, CLONE_NEWUSER = 0x08000000, 0x10000000

# One CPU for both ends, and one for each where there are two.
POSITIONS = [(0, 0), *([(0, 1)] if {0, 1} <= os.sched_getaffinity(0) else [])]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> list[int]:
    """The kneepoint-probe processes that a process started, by any of its threads."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, task.read_text().split())
    return sorted(one for one in found if alive(one) and _name(one) == EXECUTABLE.name)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _until(condition: Callable[[], Any]) -> Any:
    for _ in range(1000):
        if found := condition():
            return found
        time.sleep(0.005)
    raise AssertionError("it did not come about")


@contextlib.contextmanager
def under_way(
    probe: str, options: dict[str, str], ends: int = 2, **how: Any
) -> Iterator[tuple[list[int], trials.Background]]:
    """A long launch in the background: its ends when they are at work, and what `finish` ends it with."""
    known = set(children(os.getpid()))
    run = trials.Background(lambda: launch(probe, options, budget=20.0, **how))
    watcher = _until(lambda: set(children(os.getpid())) - known).pop()
    _until(lambda: len(children(watcher)) == ends)
    found = children(watcher)
    time.sleep(0.1)
    try:
        yield found, run
    finally:
        if alive(watcher):
            os.kill(watcher, 9)
        run.join()
    _until(lambda: not any(map(alive, found)))


def error_after(meddle: Meddle, probe: str, options: dict[str, str], **how: Any) -> str:
    """What the run says after something was done to its ends; soon, and with nothing left behind."""
    return errors_after([(meddle, probe, options)], **how)[0]


def errors_after(cases: Sequence[tuple[Meddle, str, dict[str, str]]], **how: Any) -> list[str]:
    """The same of several runs, each meddled with when it is at work, and awaited together: to stand still takes time."""
    said: list[str] = []

    def attempt() -> None:
        said.clear()
        with contextlib.ExitStack() as stack:
            waiting = []
            for meddle, probe, options in cases:
                ends, run = stack.enter_context(under_way(probe, options, **how))
                pids = [*ends, *(one for end in ends for one in children(end))]
                waiting.append((run, time.monotonic(), pids))
                meddle(ends)
            for run, since, pids in waiting:
                with pytest.raises(ProbeError) as caught:
                    run.finish()
                took = time.monotonic() - since
                _until(lambda pids=pids: not any(map(alive, pids)))
                said.append(str(caught.value))
                assert took < PATIENCE

    trials.patiently(attempt)
    return said


def signalled(end: int, number: signal.Signals) -> Meddle:
    """Sends a signal to this one of a run's ends."""
    return lambda ends: os.kill(ends[end], number)


def limited(folder: Path, **limits: int) -> Path:
    """A kneepoint-probe under lower limits (RLIMIT_…=value), and without the right to ignore them."""
    return _wrapped(folder, limits, f"libc.prctl(24, {CAP_SYS_RESOURCE}, 0, 0, 0)")


def limited_alone(folder: Path, **limits: int) -> Path:
    """The same where, if that is allowed, nobody else's queues count: in namespaces of its own."""
    return _wrapped(
        folder,
        limits,
        f"""
user, group = os.geteuid(), os.getegid()
if not libc.unshare({CLONE_NEWUSER | CLONE_NEWIPC}):
    for name, text in ("uid_map", f"{{user}} {{user}} 1"), ("setgroups", "deny"), ("gid_map", f"{{group}} {{group}} 1"):
        with open(f"/proc/self/{{name}}", "w") as file:
            file.write(text)
""",
    )


def _wrapped(folder: Path, limits: dict[str, int], first: str) -> Path:
    program = folder / "kneepoint-probe"
    program.write_text(f"""#!{sys.executable} -IS
import ctypes, os, resource, sys
libc = ctypes.CDLL(None)
{first}
for name, value in {limits}.items():
    resource.setrlimit(getattr(resource, name), (value, value))
os.execv("{EXECUTABLE}", ["kneepoint-probe", *sys.argv[1:]])
""")
    program.chmod(0o755)
    return program
