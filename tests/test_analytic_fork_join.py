"""Requests that are split into tasks: the analytic models against Markov chains and against each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import markov
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.analytic import (
    closed_multiserver,
    closed_split_fork_join,
    flow_fork_join,
    fork_join,
    fork_join_bounds,
    makespan,
    multiserver,
    mva,
    split_fork_join,
)

Jobs = tuple[tuple[int, int], ...]  # of every request, first come first: tasks in service, tasks waiting


def shared_pool(clients: int, workers: int, tasks: int, think: float) -> tuple[float, float]:
    """X and R in demands of a task, from the requests one by one."""

    def serve(jobs: list[tuple[int, int]]) -> Jobs:
        free = workers - sum(serving for serving, _ in jobs)
        found = []
        for serving, waiting in jobs:
            begin = min(free, waiting)
            free -= begin
            if serving + waiting:
                found.append((serving + begin, waiting - begin))
        return tuple(found)

    def moves(jobs: Jobs) -> list[tuple[float, Jobs]]:
        found = []
        if len(jobs) < clients:
            found.append(((clients - len(jobs)) / think, serve([*jobs, (0, tasks)])))
        for at, (serving, waiting) in enumerate(jobs):
            if serving:
                found.append((serving, serve([*jobs[:at], (serving - 1, waiting), *jobs[at + 1 :]])))
        return found

    queue = markov.mean(markov.steady((), moves), len)
    throughput = (clients - queue) / think
    return throughput, queue / throughput


@settings(max_examples=25, deadline=None)
@given(
    clients=st.integers(1, 4), workers=st.integers(1, 5), tasks=st.integers(1, 4), think=st.floats(0.05, 30.0)
)
def test_a_shared_pool_is_its_markov_chain(clients: int, workers: int, tasks: int, think: float) -> None:
    throughput, response = shared_pool(clients, workers, tasks, think)
    found = fork_join(clients=clients, workers=workers, tasks=tasks, think=think * 0.3, demand=0.3)
    assert found.throughput == pytest.approx(throughput / 0.3, rel=1e-9)
    assert found.response == pytest.approx(response * 0.3, rel=1e-8)


@settings(max_examples=40, deadline=None)
@given(
    clients=st.integers(1, 12), workers=st.integers(1, 6), tasks=st.integers(1, 5), think=st.floats(0.0, 40.0)
)
def test_a_shared_pool_keeps_its_bounds_and_is_near_its_flow_equivalent(
    clients: int, workers: int, tasks: int, think: float
) -> None:
    size = {"clients": clients, "workers": workers, "tasks": tasks, "think": think, "demand": 1.0}
    found, near, bounds = fork_join(**size), flow_fork_join(**size), fork_join_bounds(**size)  # type: ignore[arg-type]
    slack = 1 + 1e-9
    assert bounds.throughput_low / slack <= found.throughput <= bounds.throughput_high * slack
    assert bounds.response_low / slack <= found.response <= bounds.response_high * slack
    assert found.utilisation <= slack
    assert near.throughput == pytest.approx(
        found.throughput, rel=0.05
    )  # of this whole grid the worst is 4.3 %
    assert near.throughput <= found.throughput * slack


@pytest.mark.parametrize(
    ("clients", "workers", "think"), [(1, 1, 0.0), (9, 4, 2.0), (30, 2, 50.0), (9, 4, 0.0)]
)
def test_one_task_is_a_multi_server(clients: int, workers: int, think: float) -> None:
    size: dict[str, Any] = {"clients": clients, "workers": workers, "think": think, "demand": 0.5}
    exact = closed_multiserver(**size)
    for solve in (fork_join, flow_fork_join):
        found = solve(**size, tasks=1)
        assert (found.throughput, found.response) == pytest.approx(
            (exact.throughput, exact.response), rel=1e-9
        )


@pytest.mark.parametrize(("tasks", "workers"), [(1, 1), (3, 8), (8, 3), (5, 5)])
def test_a_request_alone_takes_the_sum_of_the_gaps_between_ends(tasks: int, workers: int) -> None:
    """k ≤ m tasks at once take S H_k (R. Jain 1991 and others); more take (k − m)/m S before."""
    few = min(tasks, workers)
    expected = 0.2 * (sum(1 / j for j in range(1, few + 1)) + max(tasks - workers, 0) / workers)
    assert makespan(tasks=tasks, workers=workers, demand=0.2) == pytest.approx(expected)
    found = fork_join(clients=1, workers=workers, tasks=tasks, think=1.0, demand=0.2)
    assert found.response == pytest.approx(expected, rel=1e-9)


def split_queues(workers: int, enter: Callable[[tuple[int, ...]], float]) -> dict[tuple[int, ...], float]:
    """Steady state of k queues that get one task of every request each, enter(lengths) a unit of demand."""

    def moves(lengths: tuple[int, ...]) -> list[tuple[float, tuple[int, ...]]]:
        found = [(1.0, (*lengths[:k], here - 1, *lengths[k + 1 :])) for k, here in enumerate(lengths) if here]
        rate = enter(lengths)
        return found + ([(rate, tuple(here + 1 for here in lengths))] if rate else [])

    return markov.steady((0,) * workers, moves)


def test_two_open_queues_are_exact() -> None:
    """R of the requests by Little's law: as tasks stay in order, the longer queue holds one of each request."""
    for load in (0.2, 0.4, 0.55):
        share = split_queues(2, lambda lengths, load=load: load if max(lengths) < 24 else 0.0)
        response = markov.mean(share, max) / load
        found = split_fork_join(arrival_rate=load / 0.4, workers=2, demand=0.4)
        assert found.response == pytest.approx(0.4 * response, rel=1e-3)


def test_three_open_queues_lie_between_the_bounds_and_near_the_formula() -> None:
    for load in (0.1, 0.25):
        share = split_queues(3, lambda lengths, load=load: load if max(lengths) < 7 else 0.0)
        response = markov.mean(share, max) / load
        found = split_fork_join(arrival_rate=load, workers=3, demand=1.0)
        assert found.response_low <= response * 1.001 and response <= found.response_high
        assert found.response == pytest.approx(response, rel=0.05)


@pytest.mark.parametrize("load", [0.01, 0.3, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("workers", [1, 2, 5, 32])
def test_the_formula_lies_between_its_bounds(workers: int, load: float) -> None:
    found = split_fork_join(arrival_rate=load, workers=workers, demand=1.0)
    assert found.response_low <= found.response * (1 + 1e-9) <= found.response_high * (1 + 2e-9)
    if workers == 1:
        assert found.response == pytest.approx(multiserver(arrival_rate=load, workers=1, demand=1.0).response)


@pytest.mark.parametrize(("clients", "workers"), [(1, 4), (2, 3), (4, 2), (4, 3), (8, 2), (7, 3)])
@pytest.mark.parametrize("think", [0.05, 3.0, 12.0])
def test_closed_split_queues_are_near_the_markov_chain(clients: int, workers: int, think: float) -> None:
    share = split_queues(workers, lambda lengths: (clients - max(lengths)) / think)
    queue = markov.mean(share, max)
    throughput = (clients - queue) / think
    found = closed_split_fork_join(clients=clients, workers=workers, think=think, demand=1.0)
    assert found.throughput == pytest.approx(throughput, rel=0.03)
    assert found.response == pytest.approx(queue / throughput, rel=0.05)
    assert found.throughput * (found.response + think) == pytest.approx(clients)


def test_a_split_of_one_is_mean_value_analysis() -> None:
    found = closed_split_fork_join(clients=40, workers=1, think=20.0, demand=0.7)
    assert found.throughput == pytest.approx(mva(clients=40, demands=[0.7], think=20.0).throughput, rel=1e-12)


@pytest.mark.parametrize(("clients", "tasks", "think"), [(4, 3, 2.0), (4, 2, 0.5), (3, 3, 12.0)])
def test_a_shared_pool_is_at_least_as_fast_as_split_queues(clients: int, tasks: int, think: float) -> None:
    share = split_queues(tasks, lambda lengths: (clients - max(lengths)) / think)
    apart = (clients - markov.mean(share, max)) / think
    shared = fork_join(clients=clients, workers=tasks, tasks=tasks, think=think, demand=1.0)
    assert shared.throughput >= apart * (1 - 1e-9)


def test_ten_thousand_clients_of_a_shared_pool() -> None:
    found = flow_fork_join(clients=10_000, workers=8, tasks=4, think=1_000.0, demand=0.1)
    assert found.throughput * (found.response + 1_000) == pytest.approx(10_000, rel=1e-9)
    assert found.utilisation == pytest.approx(found.throughput * 4 * 0.1 / 8)


NOT = [-1, 0, math.nan, math.inf, True, "2", None, 10**400]
CLOSED = {"clients": 4, "workers": 2, "tasks": 2, "think": 1.0, "demand": 1.0}


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("value", NOT, ids=lambda v: str(v)[:9])
@pytest.mark.parametrize(
    "solve", [fork_join, flow_fork_join, fork_join_bounds, closed_split_fork_join, makespan]
)
def test_fork_and_join_outside_its_domain_is_refused(
    solve: Callable[..., Any], name: str, value: Any
) -> None:
    right = {"clients", "workers", "think", "demand"} if solve is closed_split_fork_join else set(CLOSED)
    right = {"tasks", "workers", "demand"} if solve is makespan else right
    if name in right and not (name == "think" and value == 0):
        with pytest.raises(ValueError, match=name):
            solve(**{known: CLOSED[known] for known in right} | {name: value})


@pytest.mark.parametrize(
    "wrong",
    [{"arrival_rate": 0}, {"arrival_rate": 1.0}, {"workers": 33}, {"workers": 0}, {"demand": math.nan}],
    ids=str,
)
def test_split_queues_outside_their_domain_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        split_fork_join(**{"arrival_rate": 0.5, "workers": 2, "demand": 1.0, **wrong})


def test_a_chain_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="states"):
        fork_join(clients=200, workers=16, tasks=16, think=1.0, demand=1.0)
