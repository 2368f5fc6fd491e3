"""Experiments: each can be planned, and its answer says what the figures say and nothing else."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from experiments import (
    core_position,
    growing,
    mutex_threads,
    prime_workers,
    primitives_by_cores,
    signal_pairs,
    stock_clients,
    stock_forked,
)
from experiments.reading import CONFIRMED, CONTRADICTED, UNDECIDED, above, curve
from harness import experiments, request
from harness.registries import EXPERIMENTS, modules
from pyx import registry

NAMES = sorted(modules("experiments", *EXPERIMENTS))


def document(
    cells: list[tuple[float, float, float, dict[str, object]]], members: list[float]
) -> dict[str, Any]:
    """A sweep's document with cells (x, throughput, half-width, options) and one series for each way to wait."""
    waits = list(dict.fromkeys(options.get("wait") for *_, options in cells))
    return {
        "cells": [
            {
                "value": x,
                "broken": [],
                "scenario": {"options": options},
                "measured": {"throughput": {"value": rate, "low": rate - half, "high": rate + half}},
            }
            for x, rate, half, options in cells
        ],
        "series": [
            {
                "fixed": {"wait": wait},
                "peak": {"value": members[0], "set": members},
                "explanation": {"text": "Because."},
            }
            for wait in waits
        ],
    }


def workers(
    wait: str, rates: list[float], half: float = 1.0
) -> list[tuple[float, float, float, dict[str, object]]]:
    return [(m, rate, half, {"wait": wait}) for m, rate in zip((1, 3, 8), rates, strict=True)]


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_asks_a_question_and_plans_its_sweeps(name: str) -> None:
    found = experiments.find(name)
    assert "?" in found.question.split("\n")[0]
    assert found.requests or found.probes
    for wanted in found.requests.values():
        assert request.make(wanted).cells()


def test_intervals_that_overlap_decide_nothing() -> None:
    assert above((10, 9, 11), (5, 4, 6)) == CONFIRMED
    assert above((5, 4, 6), (10, 9, 11)) == CONTRADICTED
    assert above((10, 8, 12), (9, 7, 11)) == UNDECIDED


def test_broken_cells_are_not_read() -> None:
    sound = document(workers("spin", [1.0, 2.0, 3.0]), [3])
    sound["cells"][1]["broken"] = [{"check": "replies"}]
    assert list(curve(sound)) == [1.0, 8.0]


@pytest.mark.parametrize(
    ("members", "verdict"), [([3.0], CONFIRMED), ([1.0], CONTRADICTED), ([1.0, 3.0], UNDECIDED)]
)
def test_the_peak_at_three_workers(members: list[float], verdict: str) -> None:
    rows = workers("spin", [100.0, 120.0, 50.0])
    text = prime_workers.answer(
        {
            "published": document(rows, members),
            "waits": document(rows + workers("block", [200.0, 240.0, 250.0]), members),
        }
    )
    assert f"throughput peaks at 3 workers: {verdict}" in text
    assert f"below one worker's: {CONFIRMED}" in text
    assert "with workers=8, waits that give up the CPU serve 5.0 times" in text


def test_threads_against_select() -> None:
    def clients(rates: list[float]) -> dict[str, Any]:
        return document([(n, rate, 1.0, {}) for n, rate in zip((1, 5, 10, 100), rates, strict=True)], [100.0])

    text = stock_clients.answer({"select": clients([10, 50, 90, 100]), "sbuf": clients([10, 40, 91, 80])})
    assert f"at 10 clients: {UNDECIDED}" in text
    assert f"at 100 clients: {CONTRADICTED}" in text


def test_the_published_clock_beside_a_clean_window() -> None:
    """Clients that cost 1 ms each to make after a start of 5 ms, and whose 20 orders take 0.2 ms."""

    def clocked(factor: float) -> dict[str, Any]:
        rows = [(n, factor * 20 * n / (0.005 + 0.001 * n), 1.0, {}) for n in (1.0, 5.0, 20.0, 100.0)]
        return document(rows, [100.0])

    clean = document([(n, 100_000.0, 10.0, {}) for n in (1.0, 5.0, 20.0, 100.0)], [100.0])
    slower = document([(n, 90_000.0, 10.0, {}) for n in (1.0, 5.0, 20.0, 100.0)], [100.0])
    text = stock_forked.answer(
        {
            "select-forked": clocked(1.0),
            "select-closed": clean,
            "sbuf-forked": clocked(1.1),
            "sbuf-closed": slower,
        }
    )
    assert "select: elapsed time is about 5.00 ms and 1.00 ms for each client" in text
    assert f"select: most of the elapsed time is not spent on orders: {CONFIRMED}" in text
    assert "20: 16%" in text
    # sbuf is faster by the clock, and slower in the window.
    assert f"at 100 clients as the published clock does: {CONTRADICTED}" in text


def test_the_published_runs_lie_on_a_line() -> None:
    for elapsed in stock_forked.PUBLISHED.values():
        start, slope = stock_forked.start_and_slope(elapsed)
        assert all(
            abs(start + slope * clients - time) < 0.15 * time for clients, time in elapsed.items()
        ) and (start > 0 and slope > 0)


def test_nothing_measured_is_said() -> None:
    empty = {"cells": [], "series": []}
    assert "Nothing was measured" in stock_clients.answer({"select": empty, "sbuf": empty})
    assert "Nothing was measured" in stock_forked.answer(dict.fromkeys(stock_forked.SWEEPS, empty))
    assert "Nothing was measured" in prime_workers.answer({"published": empty, "waits": empty})
    nothing = {"results": [], "positions": {}}
    assert "Nothing was measured" in primitives_by_cores.answer({"by_cores": nothing})
    assert "Nothing was measured" in core_position.answer({"position": nothing})
    assert "Too few points" in signal_pairs.answer({"signal": nothing})
    assert "Too few points" in mutex_threads.answer({"threads": nothing})


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_plans_its_probes(name: str) -> None:
    points = pytest.importorskip("harness.probing.points")
    here = importlib.import_module("harness.probing.topology").read()
    for quick in (False, True):
        for wanted in experiments.find(name, quick).probes.values():
            missing = set(wanted["probes"]) - registry.probes().keys()
            if missing:
                pytest.skip(f"there is no probe {', '.join(missing)}")
            assert points.make(points.Request(**wanted), here).points


def probed(times: dict[float, float], over: str, *, noise: float = 0.01, **more: Any) -> list[dict[str, Any]]:
    """Rows of a probe's document whose launches took so many ms, give or take."""
    rng = np.random.default_rng(len(times))
    rows = []
    for value, ms in times.items():
        launches = list(ms * 1e6 * np.exp(noise * rng.standard_normal(5)))
        rows.append(
            {"probe": "signal", "flags": [], "options": {}, "notes": {}, "elapsed_launches": launches, **more}
            | ({"options": {over: str(value)}} if over == "ends" else {over: value})
        )
    return rows


SHAPES = [
    (lambda x: 5 + 3 * x, CONFIRMED),
    (lambda x: 100.0, CONTRADICTED),
    (lambda x: 100 - 5 * x, CONTRADICTED),
    (lambda x: x**2, CONTRADICTED),
    (lambda x: x / (x + 2), CONTRADICTED),
]


@pytest.mark.parametrize(("shape", "verdict"), SHAPES)
def test_growth_with_pairs(shape: Any, verdict: str) -> None:
    rows = probed({x: shape(x) for x in range(1, 11)}, "pairs", noise=1e-3)
    found = growing.linear(growing.line(growing.times({"results": rows}, "pairs")))
    # What stays level may by chance seem to rise a little.
    assert found == verdict or (verdict == CONTRADICTED and shape(1) == shape(2) and found == UNDECIDED)


def test_a_line_through_noise_leaves_its_shape_open() -> None:
    rows = probed({x: 50 + 2 * x for x in range(1, 11)}, "pairs", noise=1.0)
    assert growing.linear(growing.line(growing.times({"results": rows}, "pairs"))) != CONFIRMED


def test_the_slope_of_a_line_is_in_its_interval() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        fit = growing.line({x: (10 + 3 * x + rng.normal(), 0.0, 0.0) for x in range(1, 11)})
        held += fit.low <= 3 <= fit.high
    assert abs(held / 400 - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 400)


def test_signal_pairs() -> None:
    document = {"results": probed({p: 10.0 * p for p in range(1, 11)}, "pairs")}
    text = signal_pairs.answer({"signal": document})
    assert f"signal: time grows linearly with pairs on 2 cores: {CONFIRMED}" in text
    assert "10 pairs take 1" in text and "published (signal): 261" in text


def by_cores(times: list[float], noise: float = 0.01) -> str:
    rows = probed(dict(enumerate(times, 1)), "cores", noise=noise, pairs=6)
    return primitives_by_cores.answer({"by_cores": {"results": rows}})


def test_cores_that_stop_to_help() -> None:
    text = by_cores([100, 50, 33, 25, 40, 26, 40, 27])
    assert f"8 cores are faster than 1: {CONFIRMED}" in text
    assert f"the time stops falling: {CONFIRMED}. From 4 cores on" in text
    assert f"it oscillates from there on: {CONFIRMED}" in text


def test_cores_that_help_to_the_last() -> None:
    text = by_cores([100, 50, 33, 25, 20, 16], noise=1e-4)
    assert f"the time stops falling: {CONTRADICTED}" in text and "oscillates" not in text


def test_cores_that_help_and_then_do_nothing() -> None:
    text = by_cores([100, 50, 25, 25, 25, 25, 25])
    assert f"the time stops falling: {CONFIRMED}. From 3 cores on" in text
    assert f"it oscillates from there on: {CONTRADICTED}" in text


def test_two_cores_say_little() -> None:
    text = by_cores([50, 100])
    assert f"2 cores are faster than 1: {CONTRADICTED}" in text
    assert f"oscillates: {UNDECIDED}. Here are 2 cores" in text


def test_core_position() -> None:
    def row(position: str, median: float, half: float, *flags: str) -> dict[str, Any]:
        times = {"median_ns": median, "low_ns": median - half, "high_ns": median + half}
        return {"probe": "signal", "position": position, "flags": list(flags), **times}

    places = {
        "same_cpu": {"cpus": [0, 0]},
        "smt": {"absent": "each core has one hardware thread"},
        "l2": {"cpus": [0, 1]},
        "l3": {"cpus": [0, 2]},
        "socket": {"cpus": [0, 8]},
    }
    rows = [
        row("same_cpu", 5e3, 50),
        row("l2", 20e3, 500),
        row("l3", 20.5e3, 500),
        row("socket", 1, 0, "rejected"),
    ]
    text = core_position.answer({"position": {"results": rows, "positions": places}})
    assert f"by l2 differs from one by same_cpu: {CONFIRMED}. 20.0 / 5.0 µs = 4.00" in text
    assert f"by l3 differs from one by l2: {CONTRADICTED}" in text
    assert f"smt matters: {UNDECIDED}. It is absent: each core has one" in text
    assert "socket" not in text


@pytest.mark.parametrize(
    ("changes", "verdict"), [([1, 2, 3], CONFIRMED), ([90, 95, 99], CONTRADICTED), ([1, 60, 99], UNDECIDED)]
)
def test_who_gets_the_mutex(changes: list[int], verdict: str) -> None:
    rows = [
        {**row, "probe": "mutex", "notes": {"owner_changes": made, "acquisitions": 100}}
        for row, made in zip(probed({t: 5.0 * t for t in range(1, 5)}, "ends"), [0, *changes], strict=True)
    ]
    text = mutex_threads.answer({"threads": {"results": rows}})
    assert f"time grows linearly with threads: {CONFIRMED}" in text
    assert f"the thread that had the mutex before: {verdict}" in text


def test_an_experiment_runs_its_probes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And goes on with what is kept."""
    from harness.cli import run as command
    from harness.probing import running, table

    asked = []

    def carry_out(request: Any, *_: object) -> Any:
        asked.append(request)
        found = {"results": probed({p: 10.0 * p for p in range(1, 11)}, "pairs"), "complete": True}
        return SimpleNamespace(document=found, samples={}, failed=(), interrupted=False)

    def write(outcome: Any, path: Path, report: bool) -> list[str]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(outcome.document))
        return []

    monkeypatch.setattr(running, "run", carry_out)
    monkeypatch.setattr(running, "write", write)
    monkeypatch.setattr(table, "text", lambda document: "a table")
    words = ["signal_pairs", "--quick", "--out", str(tmp_path)]
    for more in ([], ["--resume"]):
        assert command.command.main([*words, *more], standalone_mode=False) == 0
        said = capsys.readouterr().out
        assert (
            "Does the time of a ping-pong" in said and f"linearly with pairs on 2 cores: {CONFIRMED}" in said
        )
    assert [request.probes for request in asked] == [("signal",), ("mqueue",), ("semaphore",)]
    assert all(request.quick and request.reps is None for request in asked)
