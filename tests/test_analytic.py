"""The analytic models against exact solutions, against each other, and outside their domains."""

from __future__ import annotations

import csv
import importlib
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import markov
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from models.analytic import asymptotic, closed_multiserver, erlang_b, erlang_c, multiserver, naive_bound

DATA = Path(__file__).parent / "data"


def rows(name: str) -> Iterator[dict[str, float]]:
    with open(DATA / name) as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            yield {column: float(value) for column, value in row.items()}


@pytest.mark.parametrize(
    "row", list(rows("closed_multiserver_exact.csv")), ids=lambda r: f"N{r['N']:g}-m{r['m']:g}"
)
def test_closed_multiserver_is_exact(row: dict[str, float]) -> None:
    found = closed_multiserver(clients=int(row["N"]), workers=int(row["m"]), think=row["Z"], demand=row["S"])
    assert type(found.throughput) is float and type(found.response) is float
    assert found.throughput == pytest.approx(row["X_exact"], rel=1e-11)
    assert found.response == pytest.approx(row["R_exact"], rel=1e-11)


def rational(clients: int, workers: int, think: Fraction, demand: Fraction) -> tuple[float, float]:
    """X and R of M/M/m//N by rational arithmetic, straight from the balance equations."""
    weights = [Fraction(1)]
    for n in range(clients):
        weights.append(weights[-1] * (clients - n) * demand / (think * min(n + 1, workers)))
    total = sum(weights)
    throughput = sum((p * min(n, workers) for n, p in enumerate(weights)), Fraction()) / total / demand
    queue = sum((p * n for n, p in enumerate(weights)), Fraction()) / total
    return float(throughput), float(queue / throughput)


@settings(max_examples=60, deadline=None)
@given(
    clients=st.integers(1, 80),
    workers=st.integers(1, 100),
    think=st.fractions(Fraction(1, 1000), 1000, max_denominator=1000),
    demand=st.fractions(Fraction(1, 1000), 10, max_denominator=1000),
)
def test_closed_multiserver_equals_rational_arithmetic(
    clients: int, workers: int, think: Fraction, demand: Fraction
) -> None:
    found = closed_multiserver(clients=clients, workers=workers, think=float(think), demand=float(demand))
    assert (found.throughput, found.response) == pytest.approx(
        rational(clients, workers, think, demand), rel=1e-11
    )


@pytest.mark.parametrize("think", [0.0, 1e-300, 1e-3, 9.0, 1e6])
def test_ten_thousand_clients_and_a_thousand_workers(think: float) -> None:
    found = closed_multiserver(clients=10_000, workers=1_000, think=think, demand=1.0)
    bounds = asymptotic(10_000, [1.0], think, [1_000])
    assert found.throughput * (found.response + think) == pytest.approx(10_000, rel=1e-9)
    assert found.throughput <= bounds.throughput_high * (1 + 1e-12)
    assert 0 <= found.utilisation <= 1 + 1e-12


@settings(max_examples=200, deadline=None)
@given(
    clients=st.integers(1, 2000),
    workers=st.integers(1, 300),
    think=st.floats(0, 1e3),
    demand=st.floats(1e-7, 1e3),
)
def test_closed_multiserver_keeps_its_bounds(clients: int, workers: int, think: float, demand: float) -> None:
    found = closed_multiserver(clients=clients, workers=workers, think=think, demand=demand)
    bounds = asymptotic(clients, [demand], think, [workers])
    slack = 1 + 1e-9
    assert bounds.throughput_low / slack <= found.throughput <= bounds.throughput_high * slack
    assert bounds.response_low / slack <= found.response <= bounds.response_high * slack
    assert found.waiting == pytest.approx(found.response - demand, rel=1e-9, abs=1e-9 * demand)


@pytest.mark.parametrize(
    "wrong",
    [
        {"clients": 0}, {"clients": 2.5}, {"clients": True}, {"workers": 0}, {"workers": -1},
        {"think": -1.0}, {"think": math.nan}, {"think": math.inf}, {"demand": 0.0}, {"demand": math.nan},
    ],
    ids=str,
)  # fmt: skip
def test_closed_multiserver_refuses_what_is_outside_its_domain(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        closed_multiserver(**{"clients": 8, "workers": 2, "think": 1.0, "demand": 1.0, **wrong})


@pytest.mark.parametrize(
    ("clients", "workers", "think"), [(6, 1, 2.0), (12, 3, 2.5), (12, 16, 1.0), (7, 3, 0.0)]
)
def test_quantiles_of_the_closed_system_are_those_of_a_tagged_request(
    clients: int, workers: int, think: float
) -> None:
    """By the chain of what is ahead of a request, from what it finds: the other N − 1 clients at any time. Time is in S."""

    def others(state: int) -> list[tuple[float, int]]:
        back = [(min(state, workers), state - 1)] if state else []
        return back + ([((clients - 1 - state) * 0.2 / think, state + 1)] if state < clients - 1 else [])

    found = markov.steady(0, others) if think else {clients - 1: 1.0}
    ahead = np.zeros(clients + 1)  # [0] answered, [1] in service, [1 + k] k departures to go
    for there, chance in found.items():
        ahead[1 + max(there - workers + 1, 0)] += chance
    rates = np.zeros((clients + 1, clients + 1))
    rates[1, 0], rates[1, 1] = 1.0, -1.0
    for k in range(2, clients + 1):
        rates[k, k - 1], rates[k, k] = workers, -workers
    result = closed_multiserver(clients=clients, workers=workers, think=think, demand=0.2)
    for p in (0.05, 0.5, 0.9, 0.99, 0.9999):
        answered = ahead @ scipy.linalg.expm(rates * result.response_quantile(p) / 0.2)
        assert answered[0] == pytest.approx(p, abs=1e-9)
        waiting = result.waiting_quantile(p)
        begun = ahead @ scipy.linalg.expm(rates * waiting / 0.2)
        assert begun[:2].sum() == pytest.approx(p, abs=1e-9) if waiting else begun[:2].sum() >= p


def test_quantiles_of_ten_thousand_clients() -> None:
    result = closed_multiserver(clients=10_000, workers=1_000, think=9.0, demand=1.0)
    quantiles = [result.response_quantile(p) for p in (0.01, 0.5, 0.99, 1 - 1e-9)]
    assert quantiles == sorted(quantiles)
    assert quantiles[0] < result.response < quantiles[2]
    # Saturated by one server, an answer takes the 10,000 services that are ahead: their sum is nearly normal.
    full = closed_multiserver(clients=10_000, workers=1, think=0.0, demand=1.0)
    assert full.response_quantile(0.99) == pytest.approx(10_000 + 2.3263 * 100, rel=1e-3)


def test_a_solution_that_breaks_littles_law_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = importlib.import_module("models.analytic.closed_multiserver")
    right = closed.probabilities
    monkeypatch.setattr(closed, "probabilities", lambda steps: right(steps * 1.001))
    with pytest.raises(ArithmeticError, match="N = X"):
        closed_multiserver(clients=8, workers=2, think=1.0, demand=1.0)


@pytest.mark.parametrize(
    "row", list(rows("mmc_erlang_exact.csv")), ids=lambda r: f"a{r['erlangs']:.3g}-m{r['c']:g}"
)
def test_erlang_is_exact(row: dict[str, float]) -> None:
    servers = int(row["c"])
    found = multiserver(arrival_rate=row["lambda"], workers=servers, demand=1 / row["mu"])
    assert erlang_b(servers, row["erlangs"]) == pytest.approx(row["erlang_B"], rel=1e-12)
    assert erlang_c(servers, row["erlangs"]) == pytest.approx(row["erlang_C"], rel=1e-12)
    assert (found.waiting, found.response, found.waiting_length, found.queue_length) == pytest.approx(
        (row["Wq"], row["W"], row["Lq"], row["L"]), rel=1e-11
    )


def test_a_closed_system_of_many_rare_clients_is_nearly_open() -> None:
    rate, workers, demand = 3.2, 4, 1.0
    open_ = multiserver(arrival_rate=rate, workers=workers, demand=demand)
    errors = []
    for clients in (1_000, 10_000, 100_000):
        found = closed_multiserver(clients=clients, workers=workers, think=clients / rate, demand=demand)
        errors.append(abs(found.response / open_.response - 1))
    assert errors[0] > errors[1] > errors[2] and errors[2] < 1e-3


@pytest.mark.parametrize(
    ("servers", "offered"), [(-1, 1.0), (1.5, 1.0), (2, -0.1), (2, math.nan), (2, math.inf)]
)
def test_erlang_b_refuses_what_is_outside_its_domain(servers: int, offered: float) -> None:
    with pytest.raises(ValueError):
        erlang_b(servers, offered)


@pytest.mark.parametrize(("servers", "offered"), [(0, 0.0), (2, 2.0), (2, 5.0), (2, -1.0)])
def test_a_queue_without_a_steady_state_is_refused(servers: int, offered: float) -> None:
    with pytest.raises(ValueError):
        erlang_c(servers, offered)
    with pytest.raises(ValueError):
        multiserver(arrival_rate=offered, workers=servers, demand=1.0)


def test_bounds_by_hand() -> None:
    bounds = asymptotic(10, [0.2, 0.6], think=2.0, servers=[1, 2])
    assert bounds.throughput_high == pytest.approx(1 / 0.3)
    assert bounds.throughput_low == pytest.approx(10 / (8 + 2))
    assert (bounds.response_low, bounds.response_high) == pytest.approx((1.0, 8.0))
    assert bounds.knee == pytest.approx(2.8 / 0.3)
    assert asymptotic(2, [0.2, 0.6], think=2.0, servers=[1, 2]).throughput_high == pytest.approx(2 / 2.8)


def test_naive_bound_bends_where_the_cpus_are_full() -> None:
    rates = [naive_bound(n, response_one=1e-3, think=4e-3, cpus=2, demand=5e-4) for n in (1, 10, 20, 40)]
    assert rates == pytest.approx([200.0, 2000.0, 4000.0, 4000.0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"clients": 0},
        {"response_one": 0.0},
        {"think": -1.0},
        {"cpus": 0},
        {"demand": 0.0},
        {"demand": math.nan},
    ],
    ids=str,
)
def test_naive_bound_refuses_what_is_outside_its_domain(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        naive_bound(**{"clients": 8, "response_one": 1.0, "think": 1.0, "cpus": 2, "demand": 1.0, **wrong})


@pytest.mark.parametrize("demands", [[], [0.0], [-1.0, 2.0], [math.inf]])
def test_asymptotic_bounds_refuse_what_is_outside_their_domain(demands: list[float]) -> None:
    with pytest.raises(ValueError, match="demand"):
        asymptotic(8, demands)
    with pytest.raises(ValueError, match="servers"):
        asymptotic(8, [1.0, 2.0], servers=[1])
