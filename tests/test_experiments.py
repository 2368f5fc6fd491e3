"""Experiments: each can be planned, and its answer says what the figures say and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from experiments import prime_workers, stock_clients, stock_forked
from experiments.reading import CONFIRMED, CONTRADICTED, UNDECIDED, above, curve
from harness import experiments, request
from harness.registries import modules

NAMES = sorted(modules("experiments", "SWEEPS"))


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
