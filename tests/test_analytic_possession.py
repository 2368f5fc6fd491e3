"""Requests that hold one thing while they wait for another: the analytic models against Markov chains."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import markov
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.analytic import Layer, closed_multiserver, layered, locked_pool, mva

SIZES: dict[str, Any] = {
    "clients": st.integers(1, 14),
    "workers": st.integers(1, 6),
    "cpus": st.integers(1, 4),
    "demand": st.floats(0.05, 3.0),
    "critical": st.floats(0.02, 2.0),
    "think": st.floats(0.05, 20.0),
}


def chain(
    clients: int, workers: int, think: float, running: Callable[[int, int], tuple[float, float]]
) -> tuple[float, float, float]:
    """X, R and the wait for a thread: running(busy threads, those at the lock) gives the rates to the lock and out of it."""

    def moves(state: tuple[int, int]) -> list[tuple[float, tuple[int, int]]]:
        there, at_lock = state
        enter, leave = running(min(there, workers), at_lock)
        found = [((clients - there) / think, (there + 1, at_lock))] if there < clients else []
        found += [(enter, (there, at_lock + 1))] if enter else []
        return found + ([(leave, (there - 1, at_lock - 1))] if leave else [])

    share = markov.steady((0, 0), moves)
    queue = markov.mean(share, lambda state: state[0])
    throughput = (clients - queue) / think
    waiting = markov.mean(share, lambda state: max(state[0] - workers, 0)) / throughput
    return throughput, queue / throughput, waiting


@settings(max_examples=40, deadline=None)
@given(**SIZES)
def test_a_locked_pool_is_its_markov_chain(
    clients: int, workers: int, cpus: int, demand: float, critical: float, think: float
) -> None:
    def running(busy: int, at_lock: int) -> tuple[float, float]:
        ready = busy - max(at_lock - 1, 0)
        each = min(1.0, cpus / ready) if ready else 0.0
        return (busy - at_lock) * each / demand, each / critical if at_lock else 0.0

    found = locked_pool(
        clients=clients, workers=workers, cpus=cpus, demand=demand, critical=critical, think=think
    )
    throughput, response, waiting = chain(clients, workers, think, running)
    assert found.throughput == pytest.approx(throughput, rel=1e-9)
    assert found.response == pytest.approx(response, rel=1e-8)
    assert found.waiting == pytest.approx(waiting, rel=1e-7, abs=1e-12)
    assert found.utilisation == pytest.approx(throughput * (demand + critical) / cpus, rel=1e-9)
    assert found.throughput * critical <= found.lock_utilisation * (1 + 1e-9) <= 1 + 1e-8


@settings(max_examples=30, deadline=None)
@given(**SIZES)
def test_layers_are_near_the_markov_chain(
    clients: int, workers: int, cpus: int, demand: float, critical: float, think: float
) -> None:
    """The lock's holder needs no processor here, so that no station belongs to two layers."""
    found = layered(
        clients=clients, think=think, layers=[Layer(workers, [demand], [cpus]), Layer(1, [critical])]
    )
    throughput, response, _ = chain(
        clients,
        workers,
        think,
        lambda busy, at_lock: (min(busy - at_lock, cpus) / demand, 1 / critical if at_lock else 0.0),
    )
    assert found.throughput == pytest.approx(throughput, rel=0.03)
    assert found.response == pytest.approx(response, rel=0.15)
    assert sum(layer.waiting + sum(layer.residence) for layer in found.layers) == pytest.approx(
        found.response
    )
    assert found.throughput * critical == pytest.approx(found.layers[1].utilisation, rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(**SIZES)
def test_layers_whose_limits_never_bind_are_a_product_form_network(
    clients: int, workers: int, cpus: int, demand: float, critical: float, think: float
) -> None:
    found = layered(
        clients=clients,
        think=think,
        layers=[Layer(math.inf, [demand], [cpus]), Layer(math.inf, [critical], [workers])],
    )
    exact = mva(clients=clients, demands=[demand, critical], servers=[cpus, workers], think=think)
    assert (found.throughput, found.response) == pytest.approx((exact.throughput, exact.response), rel=1e-8)
    residence = (*found.layers[0].residence, *found.layers[1].residence)
    assert residence == pytest.approx(exact.residence, rel=1e-7)


@pytest.mark.parametrize(
    ("clients", "workers", "think"), [(1, 1, 0.0), (20, 4, 3.0), (300, 64, 5.0), (300, 64, 0.0)]
)
def test_a_pool_whose_threads_work_undisturbed_is_a_multi_server(
    clients: int, workers: int, think: float
) -> None:
    exact = closed_multiserver(clients=clients, workers=workers, think=think, demand=0.7)
    found = layered(clients=clients, think=think, layers=[Layer(workers, [0.7], [math.inf])])
    assert (found.throughput, found.response) == pytest.approx((exact.throughput, exact.response), rel=1e-9)
    assert found.layers[0].waiting == pytest.approx(exact.waiting, rel=1e-8, abs=1e-9)
    assert found.layers[0].utilisation == pytest.approx(exact.utilisation, rel=1e-9)


def test_a_small_lock_leaves_a_multi_server() -> None:
    exact = closed_multiserver(clients=20, workers=4, think=3.0, demand=0.7)
    found = locked_pool(clients=20, workers=4, cpus=4, demand=0.7, critical=1e-9, think=3.0)
    assert (found.throughput, found.response) == pytest.approx((exact.throughput, exact.response), rel=1e-6)


def test_without_think_time_the_locked_pool_is_the_limit_of_a_short_one() -> None:
    size: dict[str, Any] = {"clients": 9, "workers": 5, "cpus": 2, "demand": 0.8, "critical": 0.3}
    none, short = locked_pool(**size, think=0.0), locked_pool(**size, think=1e-8)
    assert none.throughput == pytest.approx(short.throughput, rel=1e-6)
    assert none.lock_waiting == pytest.approx(short.lock_waiting, rel=1e-6)


def test_ten_thousand_clients_of_a_locked_pool() -> None:
    found = locked_pool(clients=10_000, workers=16, cpus=2, demand=1e-3, critical=1e-4, think=5.4)
    assert found.throughput * (found.response + 5.4) == pytest.approx(10_000, rel=1e-9)
    assert 0.99 < found.utilisation <= 1


LAYERS: list[Any] = [
    [],
    [Layer(0, [1.0])],
    [Layer(1.5, [1.0])],
    [Layer(math.nan, [1.0])],
    [Layer(2, [])],
    [Layer(2, [0.0])],
    [Layer(2, [-1.0])],
    [Layer(2, [1.0], [0])],
    [Layer(2, [1.0]), Layer(1, [])],
]


@pytest.mark.parametrize("layers", LAYERS, ids=str)
def test_layers_that_make_no_sense_are_refused(layers: list[Layer]) -> None:
    with pytest.raises(ValueError, match=r"layers|limit|demand|servers"):
        layered(clients=4, layers=layers)


@pytest.mark.parametrize("name", ["clients", "workers", "cpus", "demand", "critical", "think"])
@pytest.mark.parametrize(
    "value", [-1, math.nan, math.inf, True, "2", None, 10**400], ids=lambda v: str(v)[:9]
)
def test_a_locked_pool_outside_its_domain_is_refused(name: str, value: Any) -> None:
    right = {"clients": 8, "workers": 2, "cpus": 2, "demand": 1.0, "critical": 0.1, "think": 1.0}
    with pytest.raises(ValueError, match=name):
        locked_pool(**{**right, name: value})


def test_layers_with_room_for_thousands_are_refused() -> None:
    with pytest.raises(ValueError, match="limit=5000"):
        layered(clients=5_000, think=1.0, layers=[Layer(math.inf, [1.0])])


def test_times_that_are_too_far_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="apart"):
        locked_pool(clients=3, workers=2, cpus=1, demand=1.0, critical=1e-14, think=1.0)


def test_a_locked_pool_with_too_many_states_is_refused() -> None:
    with pytest.raises(ValueError, match="too many states"):
        locked_pool(clients=100_000, workers=1_000, cpus=2, demand=1.0, critical=0.1, think=1.0)
