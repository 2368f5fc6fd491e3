"""Other tools beside our probes: what they print is read right, and a ratio says no more than the turns allow."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.probing import peers
from harness.probing.peers import _reading
from pyx.probing import ProbeError

PERF = """# Running 'sched/pipe' benchmark:
# Executed 20000 pipe operations between two processes

     Total time: 0.052 [sec]

       2.630400 usecs/op
         380170 ops/sec
"""
RECEIVER = {"thread": {"0": {"sender": {}, "receiver": {"min": 1, "avg": 1.95, "max": 34}}}}
RT = f"{json.dumps(RECEIVER)}\n#0: ID31715, P0, CPU0, I100; #1: ID31717, P0, CPU0, Cycles 4000\n"


def ours(ns: float) -> Callable[..., dict[str, Any]]:
    """Launches whose units take so long, with 20 ns of clock in each batch of two."""

    def launch(probe: str, options: object, **how: Any) -> dict[str, Any]:
        assert len(how["cpus"]) == 1
        samples = [ns + 10.0 + 0.5] * 8
        return {"clock_ns": 20.0, "loop_ns": 0.5, "ends": [{"batch": 2, "samples": samples}]}

    return launch


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every peer, and every probe of ours."""
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/bin/{program}")
    every = {peer.PROBE: {} for peer in peers.found().values()}
    monkeypatch.setattr(peers, "registry", SimpleNamespace(probes=lambda: every))


def printed(times: dict[str, list[float]], had: float = 1.0) -> Callable[[list[str]], tuple[str, float]]:
    """What peers print that take so many ns, run after run, with so much of their CPU."""
    turns = {program: iter(values) for program, values in times.items()}

    def run(command: list[str]) -> tuple[str, float]:
        program = command[3]
        ns = next(turns[program])
        if program == "perf":
            return PERF.replace("2.630400", f"{ns / 1e3:.6f}"), had
        return RT.replace("1.95", f"{ns / 1e3:.3f}"), had

    return run


def steady(perf: list[float], reps: int, had: float = 1.0) -> Callable[[list[str]], tuple[str, float]]:
    rt = {program: [2000.0] * reps for program in ("sigwaittest", "pmqtest", "ptsematest")}
    return printed({"perf": perf, **rt}, had)


def test_what_peers_print_is_read() -> None:
    assert _reading.perf_bench(PERF) == pytest.approx(2630.4)
    assert _reading.rt_tests(RT) == pytest.approx(1950)


@pytest.mark.parametrize("text", ["", "{}", "perf: no such bench", '{"thread": {"0": {}}}'])
def test_what_cannot_be_read_is_an_error(text: str) -> None:
    for read in (_reading.perf_bench, _reading.rt_tests):
        with pytest.raises(ValueError, match=r"printed no|has no"):
            read(text)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, True), (1.1, True), (0.9, True), (1.3, False), (0.7, False)]
)
def test_those_that_do_the_same_must_agree(factor: float, verdict: bool) -> None:
    rows = peers.cross_check(3, ours(1000 * factor), steady([1000.0, 1001.0, 999.0] * 2, 3))
    for row in rows:
        if row["command"].split()[3] == "perf":
            assert row["agrees"] is verdict and row["ratio"] == pytest.approx(factor, rel=0.01)
            assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"] and row["runs"] == 3


@pytest.mark.usefixtures("installed")
def test_noise_leaves_it_open() -> None:
    rows = peers.cross_check(3, ours(1000), steady([600.0, 1000.0, 1700.0] * 2, 3))
    assert {row["agrees"] for row in rows} == {None}


@pytest.mark.usefixtures("installed")
def test_others_on_the_cpu_are_taken_out() -> None:
    """Only of those that never rest: a time of rt-tests is a latency."""
    for row in peers.cross_check(3, ours(1000), steady([4000.0] * 6, 3, had=0.25)):
        wanted = 2000 if row["unit"] == "one way" else 1000
        assert row["peer_ns"] == pytest.approx(wanted)


@pytest.mark.usefixtures("installed")
def test_one_way_is_half_of_a_round_trip() -> None:
    rows = peers.cross_check(2, ours(3000), steady([3000.0] * 4, 2))
    one_way = [row for row in rows if row["unit"] == "one way"]
    assert {row["peer"] for row in one_way} == {"rt_signal", "rt_mqueue", "rt_mutex"}
    for row in one_way:
        assert row["ours_ns"] == pytest.approx(1500) and row["ratio"] == pytest.approx(0.75)
        assert row["agrees"] is None and "round trip" in row["note"]


def test_a_peer_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    rows = peers.cross_check(2, ours(1), pytest.fail)
    assert {row["note"] for row in rows} == {
        "not installed: apt-get install linux-perf",
        "not installed: apt-get install rt-tests",
    }
    assert all(row["ratio"] is None for row in rows)


FAILURES = [
    (
        subprocess.CalledProcessError(1, ["taskset", "-c", "0", "perf"], stderr="a\nno permission\n"),
        "no permission",
    ),
    (subprocess.CalledProcessError(3, ["taskset", "-c", "0", "perf"], stderr=""), "perf ended with status 3"),
    (subprocess.TimeoutExpired(["taskset"], 30), "timed out"),
    (PermissionError(13, "Permission denied"), "Permission denied"),
]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("error", "said"), FAILURES, ids=[said for _, said in FAILURES])
def test_a_peer_that_fails(error: Exception, said: str) -> None:
    def run(command: list[str]) -> tuple[str, float]:
        raise error

    for row in peers.cross_check(2, ours(1), run):
        assert row["note"].startswith("failed: ") and said in row["note"] and row["ratio"] is None


@pytest.mark.usefixtures("installed")
def test_a_probe_that_fails() -> None:
    def launch(*_: object, **__: object) -> dict[str, Any]:
        raise ProbeError("pair 0 has stood still")

    assert all("stood still" in row["note"] for row in peers.cross_check(2, launch, pytest.fail))


@pytest.mark.parametrize("name", peers.found())
def test_the_real_peer_is_understood(name: str) -> None:
    peer = peers.found()[name]
    if shutil.which(peer.PROGRAM) is None:
        pytest.skip(f"{peer.PROGRAM} is not installed (make peers)")
    cpu = min(os.sched_getaffinity(0))
    text, had = peers._run(["taskset", "-c", str(cpu), peer.PROGRAM, *peer.words(cpu)])
    assert 10 < peer.read(text) < 1e7 and 0 < had < 1.1
