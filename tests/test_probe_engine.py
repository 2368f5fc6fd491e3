"""The engine that runs probes: whatever goes wrong ends soon, with a line that names it, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import resource
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trials

from pyx.probing import EXECUTABLE, ProbeError, launch

ROOT = Path(__file__).parents[1]
CSRC = ROOT / "pyx" / "csrc"
PATIENCE = 10.0  # s in which every failure must have ended


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """kneepoint-probe with a probe that goes wrong, linked from the objects of the last build."""
    built = max(ROOT.glob("build/temp.*/core"), key=lambda path: path.stat().st_mtime)
    sources = [*CSRC.glob("*/*.c"), CSRC / "main_probe.c"]
    objects = [built / path.relative_to(CSRC).with_suffix(".o") for path in sources]
    program = tmp_path_factory.mktemp("faulty") / "kneepoint-probe"
    words = ["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-pthread", "-I", CSRC]
    words += [ROOT / "tests" / "native" / "faulty_probe.c", *objects, "-lm", "-o", program]
    subprocess.run([str(word) for word in words], check=True)
    return program


def ends_of(watcher: int) -> list[int]:
    """The processes whose parent is this one."""
    text = Path(f"/proc/{watcher}/task/{watcher}/children").read_text()
    return [int(word) for word in text.split()]


def gone(pid: int) -> bool:
    """Whether a process is no more, or is dead and only not yet waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for(condition: Callable[[], Any], limit: float = PATIENCE) -> Any:
    until = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(0.005)
    return found


@pytest.fixture
def started(faulty: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], list[int]]]]:
    """Starts a long run by hand: gives its watcher and its ends."""
    watchers = []

    def start(*words: str, ends: int = 2, **how: Any) -> tuple[subprocess.Popen[str], list[int]]:
        command = [str(faulty), *words, "--budget", "30000000000"]
        watcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)
        watchers.append(watcher)
        wait_for(lambda: len(ends_of(watcher.pid)) == ends)
        time.sleep(0.1)  # so that they are at work
        return watcher, ends_of(watcher.pid)

    yield start
    for watcher in watchers:
        watcher.kill()
        watcher.communicate()


FAULTS = {
    "drop": "pair 0 has stood still",
    "exit": "end 1 of pair 0 ended by itself with status 3",
    "crash": "end 1 of pair 0 was killed by signal 11",
    "leave": "end [01] of pair 0",
    "prepare": "cannot make what the ends share: No space left",
    "open": "end 1 of pair 0 cannot begin: No space left",
    "work": "end 0 of pair 0 failed: Input/output error",
    "serve": "end 1 of pair 0 failed: Protocol error",
    "stay": "end 1 of pair 0 does not leave",
    "stay_closed": "pair 0 has stood still",
}
IN_A_PROCESS = {
    "exit": "the process of the ends ended by itself with status 3",
    "crash": "the process of the ends was killed by signal 11",
    "leave": "the process of the ends was killed by signal 9",
}


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_whatever_goes_wrong_is_named_soon(faulty: Path, kind: str) -> None:
    """All side by side, as to stand still takes time."""

    def attempt(fault: str, said: str) -> None:
        started = time.monotonic()
        with pytest.raises(ProbeError, match=said) as caught:
            launch("faulty", {"variant": fault}, kind=kind, budget=0.05, executable=faulty)
        assert not caught.value.usage
        assert time.monotonic() - started < PATIENCE

    faults = FAULTS | (IN_A_PROCESS if kind == "thread" else {})
    patient = [trials.Background(trials.patiently, partial(attempt, *fault)) for fault in faults.items()]
    for run in patient:
        run.finish()


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_fault_in_one_pair_of_many(faulty: Path, kind: str) -> None:
    with pytest.raises(ProbeError, match=r"end 1 of pair \d+ failed: Protocol error"):
        launch("faulty", {"variant": "serve"}, kind=kind, pairs=32, executable=faulty)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize(("kind", "ends"), [("process", 8), ("thread", 1)])
def test_ends_die_with_their_watcher(started: Any, kind: str, ends: int, sent: signal.Signals) -> None:
    watcher, pids = started("faulty", "--kind", kind, "--pairs", "4", ends=ends)
    watcher.send_signal(sent)
    wait_for(lambda: all(map(gone, pids)))


def test_stopped_ends_die_with_their_watcher(started: Any) -> None:
    watcher, pids = started("faulty")
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    watcher.kill()
    wait_for(lambda: all(map(gone, pids)))


@pytest.mark.parametrize("end", [0, 1])
def test_a_killed_end_is_named(started: Any, end: int) -> None:
    watcher, pids = started("faulty")
    os.kill(pids[end], signal.SIGKILL)
    _, said = watcher.communicate(timeout=PATIENCE)
    assert (watcher.returncode, said) == (
        1,
        f"kneepoint-probe: end {end} of pair 0 was killed by signal 9\n",
    )
    assert all(map(gone, pids))


@pytest.mark.parametrize("end", [0, 1])
def test_a_stopped_end_is_told(started: Any, end: int) -> None:
    watcher, pids = started("faulty")
    os.kill(pids[end], signal.SIGSTOP)
    _, said = watcher.communicate(timeout=PATIENCE)
    assert watcher.returncode == 1 and "pair 0 has stood still" in said
    assert all(map(gone, pids))


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_it_ends_when_its_starter_is_gone(started: Any, kind: str) -> None:
    theirs, ours = os.pipe()
    words = ["faulty", "--kind", kind, "--alive", str(theirs)]
    watcher, pids = started(*words, ends=2 if kind == "process" else 1, pass_fds=(theirs,))
    os.close(theirs)
    assert watcher.poll() is None
    os.close(ours)
    _, said = watcher.communicate(timeout=PATIENCE)
    assert (watcher.returncode, said) == (1, "kneepoint-probe: stopped\n")
    assert all(map(gone, pids))


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """The usual limit, below what hundreds of pairs take."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 4096:
        pytest.skip(f"no more than {before[1]} descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_descriptors")
@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("fault", ["none", "burn"])
def test_as_many_pairs_as_there_can_be(faulty: Path, kind: str, fault: str) -> None:
    """More than two thousand descriptors; or hundreds of ends that take turns on one CPU."""
    found = launch(
        "faulty", {"variant": fault}, kind=kind, pairs=512, iterations=5, capacity=8, executable=faulty
    )
    workers = [end for end in found["ends"] if end["end"] == 0]
    assert len(workers) == 512 and all(end["measured"] == 5 for end in workers)
    assert len({end["pair"] for end in found["ends"]}) == 512


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_sixty_four_ends_alike(faulty: Path, kind: str) -> None:
    found = launch(
        "faulty", {"variant": "alike", "ends": "64"}, kind=kind, iterations=50, capacity=20, executable=faulty
    )
    assert [end["end"] for end in found["ends"]] == list(range(64))
    assert all(end["measured"] == 50 and end["units"] >= 50 for end in found["ends"])


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_an_end_may_take_its_time_to_begin(faulty: Path, kind: str) -> None:
    found = launch("faulty", {"variant": "dawdle"}, kind=kind, iterations=20, executable=faulty)
    assert found["ends"][0]["measured"] == 20


@pytest.mark.parametrize("iterations", [1, 7, 1000])
def test_exactly_so_many_units_are_measured(iterations: int) -> None:
    """Also where a batch would be larger; a last batch that is shorter than the others is no sample."""
    found = launch("syscall", iterations=iterations, capacity=2000)["ends"][0]
    assert found["measured"] == iterations and found["batch"] <= iterations
    assert 1 <= len(found["samples"]) <= iterations / found["batch"]


def test_a_few_long_units_do_not_shorten_the_batches(faulty: Path) -> None:
    """Units of some tens of ns, and one in a thousand of a millisecond: the clock is read between many all the same."""
    batches = [
        launch("faulty", {"variant": "uneven"}, executable=faulty)["ends"][0]["batch"] for _ in range(5)
    ]
    assert statistics.median(batches) > 10


def test_units_with_a_clock_of_their_own(faulty: Path) -> None:
    """Their samples are of one unit each, and as many as the time allows, not as their short times would have it."""
    found = launch("faulty", {"variant": "own"}, budget=0.1, capacity=500, executable=faulty)["ends"][0]
    assert found["batch"] == 1 and set(found["samples"]) == {500.0}
    assert len(found["samples"]) > found["measured"] / 30


def test_samples_are_taken_while_all_measure() -> None:
    found = launch("pipe", pairs=4, budget=0.1, capacity=100_000)
    workers = [end for end in found["ends"] if end["end"] == 0]
    together = min(end["ended"] for end in workers) - max(end["began"] for end in workers)
    for end in workers:
        assert end["stride"] == 1
        # What lies outside may be a batch at either side.
        assert sum(end["samples"][1:]) * end["batch"] <= max(together, 0) + 1e6


def test_a_figure_that_is_none_is_left_out(faulty: Path) -> None:
    found = launch("faulty", budget=0.01, executable=faulty)
    assert [end["notes"] for end in found["ends"]] == [{"answer": 42}] * 2


ODD = [
    [],
    ["nothing"],
    ["pipe", "syscall"],
    ["pipe", "--kind", "coroutine"],
    ["pipe", "--pairs", "0"],
    ["pipe", "--pairs", "513"],
    ["pipe", "--pairs", "-1"],
    ["pipe", "--pairs", "two"],
    ["pipe", "--pairs"],
    ["pipe", "--size", "1e3"],
    ["pipe", "--cpus", ""],
    ["pipe", "--cpus", "0,"],
    ["pipe", "--cpus", "0;1"],
    ["pipe", "--cpus", "-1"],
    ["pipe", "--cpus", "1023"],
    ["pipe", "--cpus", "1024"],
    ["pipe", "--bound", "2"],
    ["pipe", "--budget", "99999999999999999999"],
    ["pipe", "--capacity", "0"],
    ["pipe", "--alive", "999"],
    ["pipe", "--unknown", "1"],
    ["pipe", "variant=other"],
    ["pipe", "colour=red"],
    ["pipe", "=1"],
]


@pytest.mark.parametrize("words", ODD, ids=" ".join)
def test_odd_words_are_refused_in_one_line(words: list[str]) -> None:
    done = subprocess.run([EXECUTABLE, *words], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2 and not done.stdout
    assert re.fullmatch(r"kneepoint-probe: [^\n]+\n", done.stderr)


def test_no_more_processes_are_allowed() -> None:
    """That is said, and those that were started are gone."""
    who = {"user": 65534} if os.geteuid() == 0 else {}  # the limit does not hold for root

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (20, 20))

    words = [EXECUTABLE, "pipe", "--pairs", "100"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, preexec_fn=limit, **who)
    except PermissionError:
        pytest.skip("the user that is tried may not run programs that lie here")
    assert done.returncode == 1 and "cannot start a process" in done.stderr
