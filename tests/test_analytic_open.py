"""Open queues of the analytic models: textbooks, exact tables, and distributions found in another way."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.analytic import constant_demand, finite_queue, multiserver, single_server

DATA = Path(__file__).parent / "data"
LEVELS = (0.1, 0.5, 0.9, 0.99, 0.999999)


def rows(name: str) -> Iterator[dict[str, float]]:
    with open(DATA / name) as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            yield {column: float(value) for column, value in row.items()}


@pytest.mark.parametrize("row", list(rows("mmck_exact.csv")), ids=lambda r: f"m{r['c']:g}-K{r['K']:g}")
def test_a_queue_with_few_places_is_exact(row: dict[str, float]) -> None:
    found = finite_queue(
        arrival_rate=row["lambda"], workers=int(row["c"]), places=int(row["K"]), demand=1 / row["mu"]
    )
    assert (found.empty, found.blocked, found.throughput) == pytest.approx(
        (row["p0"], row["pK_block"], row["X"]), rel=1e-12
    )
    assert (found.queue_length, found.response, found.waiting) == pytest.approx(
        (row["L"], row["R"], row["Wq"]), rel=1e-12
    )


def test_the_eye_clinic() -> None:
    """D. Gross and C. M. Harris, Fundamentals of Queueing Theory, 1998, chapter 2: six an hour, three doctors."""
    found = multiserver(arrival_rate=6 / 3600, workers=3, demand=1200)
    assert found.waiting_length == pytest.approx(8 / 9)
    assert found.waiting == pytest.approx(4 / 27 * 3600)
    assert found.response / 60 == pytest.approx(28.9, abs=0.05)


def test_the_car_inspection_station() -> None:
    """D. Gross and C. M. Harris, Fundamentals of Queueing Theory, 1998, chapter 2: three stalls, four places to wait."""
    found = finite_queue(arrival_rate=1 / 60, workers=3, places=7, demand=360)
    assert found.waiting_length == pytest.approx(3.09, abs=0.005)
    assert found.queue_length == pytest.approx(6.06, abs=0.005)
    assert 60 * found.blocked == pytest.approx(30.3, abs=0.1)


def test_the_five_terminals() -> None:
    """R. Jain, The Art of Computer Systems Performance Analysis, 1991, section 31.3: ten students an hour."""
    found = multiserver(arrival_rate=10 / 3600, workers=5, demand=1200)
    assert found.delayed == pytest.approx(0.33, abs=0.005)
    assert found.queue_length == pytest.approx(4.0, abs=0.05)
    assert found.response / 60 == pytest.approx(24, abs=0.1)
    assert found.waiting_quantile(0.9) / 60 == pytest.approx(14, abs=0.5)


@pytest.mark.parametrize(
    ("workers", "offered"), [(1, 0.5), (1, 0.95), (4, 3.0), (4, 3.8), (16, 12.0), (64, 60.0)]
)
def test_quantiles_of_an_open_queue_are_those_of_one_with_places_for_all(
    workers: int, offered: float
) -> None:
    """The closed form and the uniformised chain agree; 4 − 3 is the case of two equal rates."""
    closed = multiserver(arrival_rate=offered / 0.3, workers=workers, demand=0.3)
    chain = finite_queue(arrival_rate=offered / 0.3, workers=workers, places=workers + 3000, demand=0.3)
    for p in LEVELS:
        assert closed.waiting_quantile(p) == pytest.approx(chain.waiting_quantile(p), rel=1e-7, abs=1e-12)
        assert closed.response_quantile(p) == pytest.approx(chain.response_quantile(p), rel=1e-7)


def area(tail: Callable[[float], float], scale: float) -> float:
    """The mean, as the area under the tail, by the trapezoidal rule with Richardson's step."""
    edges = np.linspace(0.0, 60 * scale, 4001)
    heights = np.array([tail(float(t)) for t in edges])
    fine, coarse = np.trapezoid(heights, edges), np.trapezoid(heights[::2], edges[::2])
    return float((4 * fine - coarse) / 3)


@pytest.mark.parametrize("places", [3, 6, 20])
def test_the_tails_of_a_full_queue_have_its_means(places: int) -> None:
    found = finite_queue(arrival_rate=4.0, workers=3, places=places, demand=1.0)
    assert area(found.times.waiting_tail, 1.0) == pytest.approx(found.waiting, rel=1e-6, abs=1e-12)
    assert area(found.times.response_tail, 1.0) == pytest.approx(found.response, rel=1e-6)


def test_one_server_with_exponential_demands_is_the_same_by_either_formula() -> None:
    for load in (0.01, 0.5, 0.99):
        one = single_server(arrival_rate=load / 0.2, demand=0.2, variation=1.0)
        other = multiserver(arrival_rate=load / 0.2, workers=1, demand=0.2)
        assert one.response == pytest.approx(other.response, rel=1e-12)
        assert one.queue_length == pytest.approx(load / (1 - load), rel=1e-12)


def test_waiting_of_constant_demands_is_half_of_that_of_exponential_ones() -> None:
    """L. Kleinrock, Queueing Systems I, 1975, section 5.5."""
    constant = single_server(arrival_rate=4.0, demand=0.2, variation=0.0)
    exponential = single_server(arrival_rate=4.0, demand=0.2, variation=1.0)
    assert constant.waiting == pytest.approx(exponential.waiting / 2)


@pytest.mark.parametrize("load", [1e-3, 0.1, 0.5, 0.8, 0.95])
def test_constant_demands_wait_as_erlang_said(load: float) -> None:
    """P(W ≤ t) = (1 − λD) Σ_k (−y_k)^k exp(y_k)/k!, y_k = λ(t − kD), kD ≤ t: A. K. Erlang, 1909; here with 200 digits."""
    from decimal import Decimal, getcontext

    getcontext().prec = 200
    found = constant_demand(arrival_rate=load, demand=1.0).times
    for t in (0.0, 0.3, 0.999, 1.0, 1.7, 4.2, 11.5, 30.25):
        total, factorial = Decimal(0), Decimal(1)
        for k in range(int(t) + 1):
            factorial *= max(k, 1)
            y = Decimal(load) * (Decimal(t) - k)
            total += ((-y) ** k if k else 1) * y.exp() / factorial
        assert found.waiting_tail(t) == pytest.approx(
            float(1 - (1 - Decimal(load)) * total), rel=1e-9, abs=1e-300
        )
        assert found.response_tail(t + 1) == pytest.approx(found.waiting_tail(t), rel=1e-9)


@pytest.mark.parametrize("load", [0.3, 0.9, 0.999999])
def test_constant_demands_have_quantiles_up_to_saturation(load: float) -> None:
    found = constant_demand(arrival_rate=load / 2e-3, demand=2e-3)
    quantiles = [found.response_quantile(p) for p in LEVELS]
    assert quantiles == sorted(quantiles) and quantiles[0] >= 2e-3
    for p, quantile in zip(LEVELS, quantiles, strict=True):
        assert found.times.response_tail(quantile) <= 1 - p + 1e-12
    # In heavy traffic the waiting time is exponential (J. F. C. Kingman, 1961).
    if load > 0.999:
        assert found.waiting_quantile(0.99) == pytest.approx(math.log(100) * found.waiting, rel=1e-3)


@settings(max_examples=100, deadline=None)
@given(
    rate=st.floats(1e-6, 1e6),
    demand=st.floats(1e-6, 1e3),
    workers=st.integers(1, 200),
    more=st.integers(0, 200),
)
def test_a_full_queue_keeps_the_laws(rate: float, demand: float, workers: int, more: int) -> None:
    found = finite_queue(arrival_rate=rate, workers=workers, places=workers + more, demand=demand)
    assert found.queue_length == pytest.approx(found.throughput * found.response, rel=1e-9)
    assert found.utilisation == pytest.approx(found.throughput * demand / workers, rel=1e-9)
    assert found.throughput == pytest.approx(rate * (1 - found.blocked), rel=1e-9, abs=1e-9 * rate)
    assert 0 <= found.waiting <= (more + 1) * demand
    assert found.waiting_quantile(0.5) <= found.response_quantile(0.5)


WRONG: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (function, {name: value})
    for function, names in (
        (multiserver, ("arrival_rate", "demand", "workers")),
        (finite_queue, ("arrival_rate", "demand", "workers", "places")),
        (single_server, ("arrival_rate", "demand", "variation")),
        (constant_demand, ("arrival_rate", "demand")),
    )
    for name in names
    for value in (-1.0, math.nan, math.inf, -math.inf, True, "2", None, 1 + 2j, 10**400)
]
RIGHT: dict[Callable[..., Any], dict[str, Any]] = {
    multiserver: {"arrival_rate": 1.0, "workers": 2, "demand": 1.0},
    finite_queue: {"arrival_rate": 1.0, "workers": 2, "places": 3, "demand": 1.0},
    single_server: {"arrival_rate": 1.0, "demand": 0.5, "variation": 1.0},
    constant_demand: {"arrival_rate": 1.0, "demand": 0.5},
}


@pytest.mark.parametrize(
    ("function", "wrong"), WRONG, ids=lambda value: getattr(value, "__name__", str(value)[:40])
)
def test_what_is_outside_the_domain_is_refused_by_name(
    function: Callable[..., Any], wrong: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        function(**{**RIGHT[function], **wrong})


@pytest.mark.parametrize(
    "wrong", [{"places": 1}, {"workers": 0}, {"workers": 1.5}, {"arrival_rate": 0}, {"demand": 0}]
)
def test_a_queue_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        finite_queue(**{**RIGHT[finite_queue], **wrong})


def test_a_single_server_that_cannot_keep_up_is_refused() -> None:
    for function in (single_server, constant_demand):
        right = {**RIGHT[function], "arrival_rate": 2.0}
        with pytest.raises(ValueError, match="grows for ever"):
            function(**right)


@pytest.mark.parametrize("p", [-0.1, 1.0, 2.0, math.nan, True, "0.5"])
def test_a_quantile_outside_0_to_1_is_refused(p: Any) -> None:
    found = multiserver(arrival_rate=1.0, workers=2, demand=1.0)
    for quantile in (found.waiting_quantile, found.response_quantile):
        with pytest.raises(ValueError, match="p="):
            quantile(p)
