"""Real sweeps that are killed, interrupted or lose their server: what was committed is kept."""

import json
import os
import random
import signal
import time

import pytest
from sizes import sized
from sweeps import Sweep

from harness.plan import CELL
from harness.store import open_store

SYSTEM = ["--service", "synthetic", "--server", "select"]
WORDS = ["--var", "clients", *SYSTEM, "--warmup", "0.02", "--no-predict", "--no-report"]


@pytest.fixture
def sweep(tmp_path):
    made = Sweep(tmp_path / "s.sqlite", WORDS)
    yield made
    made.clean_up()


@sized("times", 4, 10)
def test_kills_lose_nothing_and_repeat_nothing(sweep, times):
    timing = random.Random(20)
    definition = ["--values", "1,2,4,8", "--reps", "9", "--time", "0.05"]
    kept, kills = {}, 0
    while kills < times:
        process = sweep.start(*definition, *(["--resume"] if kills else []))
        sweep.await_rows(len(kept), process)
        time.sleep(timing.uniform(0, 0.15))
        process.kill()
        _, errors = process.communicate()
        assert process.returncode == -signal.SIGKILL, errors  # it was still at work
        sweep.await_no_processes()
        now = sweep.rows()
        assert now.items() >= kept.items()
        kept, kills = now, kills + 1
    process = sweep.start("--resume", "--json")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    found = json.loads(output)
    final = sweep.rows()
    assert final.items() >= kept.items()
    with open_store(sweep.path) as store:
        plan = store.plan()
    blocks = found["sweep"]["stopping"]["blocks"]  # eleven at most fit the budget
    assert 9 <= blocks <= 11
    assert set(final) == {
        (v.kind, v.scenario.key, block) for block in range(blocks) for v in plan.visits(block)
    }
    assert found["sweep"]["complete"] and found["sweep"]["sessions"] == times + 1
    stored = {(key, block): row for (kind, key, block), row in final.items() if kind == CELL}
    shown = {(c["key"], r["block"]): (r["id"], r["started"]) for c in found["cells"] for r in c["replicates"]}
    assert shown == stored and len(shown) == 4 * blocks
    sweep.await_no_processes()


def test_an_interrupt_ends_with_130_and_says_how_to_go_on(sweep):
    process = sweep.start("--values", "1,2", "--reps", "50", "--time", "0.05")
    sweep.await_rows(1, process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and output == ""
    assert f"--resume --out {sweep.path}" in errors.splitlines()[-1] and "Traceback" not in errors
    sweep.await_no_processes()
    assert sweep.rows()


def test_two_sweeps_into_one_store_are_refused(sweep):
    process = sweep.start("--values", "1,2", "--reps", "50", "--time", "0.05")
    sweep.await_rows(0, process)
    before = sweep.rows()
    second = sweep.start("--resume")
    output, errors = second.communicate(timeout=60)
    assert second.returncode == 2 and output == ""
    assert errors == f"error: {sweep.path}: another sweep writes to it; wait for it, or give another --out\n"
    sweep.await_rows(len(before), process)  # the first goes on
    process.kill()
    process.communicate()


def test_a_server_that_dies_is_said_and_the_rest_is_measured(sweep):
    process = sweep.start("--values", "1,2,4", "--reps", "1", "--time", "0.4")
    deadline = time.monotonic() + 20
    while not (servers := sweep.processes("kneepoint-server")) and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(0.15)
    os.kill(servers[0], signal.SIGKILL)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    lines = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "select" in lines[0] and "9" in lines[0] and "Traceback" not in errors
    assert len(sweep.rows()) == 4 and "store: " in output
    again = sweep.start("--resume")
    assert again.communicate(timeout=60) and again.returncode == 0
    assert len(sweep.rows()) == 5
    sweep.await_no_processes()
