"""Both engines against exact queueing theory, by intervals over replications."""

from __future__ import annotations

import math

import pytest
import queueing
from queueing import ENGINES, agrees, mean_responses

from models.analytic.closed_multiserver import closed_multiserver
from models.des.engine import simulate

SQUARED_VARIATION = {"constant": 0.0, "two_point": 2.25, "hyperexponential": 4.0}
UTILISATIONS = (0.5, 0.8, 0.95)
# Replies in each of 16 replications, and the width of the interval, by utilisation: queues near saturation forget slowly.
HEAVY = {0.5: (60_000, 0.02), 0.8: (150_000, 0.04), 0.95: (300_000, 0.14)}
LIGHT = {0.5: (1_500, 0.2)}


def responses(
    engine: str, build: queueing.Build, utilisation: float, heavier: int = 1
) -> tuple[list[float], float]:
    """Mean response times of the replications, and how wide their interval may be; the slow engine does the light ones."""
    table = HEAVY if engine == "compiled" else LIGHT
    if utilisation not in table:
        pytest.skip("too many replies for this engine")
    replies, width = table[utilisation]
    outcomes = simulate(
        build, engine=engine, replications=16, warm=replies // 4, replies=replies * heavier, budget=120.0
    )
    assert all(outcome.finished for outcome in outcomes)
    for outcome in outcomes:  # Little's law, but for those that cross an edge
        found = outcome.in_system * outcome.span
        assert found == pytest.approx(outcome.responses.sum(), abs=50 * outcome.responses.max())
    return mean_responses(outcomes), width


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("utilisation", UTILISATIONS)
@pytest.mark.parametrize("servers", [1, 4])
def test_open_queues_respond_as_erlang_says(engine: str, utilisation: float, servers: int) -> None:
    """M/M/m: R = D + C(m, a) D / (m - a) (Erlang 1917; Kleinrock 1975, vol. 1, section 3.5)."""
    offered = servers * utilisation
    found, width = responses(engine, queueing.open_station(servers, 1 / offered, 1.0), utilisation)
    agrees(found, 1 + queueing.erlang_c(servers, offered) / (servers - offered), width)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("utilisation", UTILISATIONS)
@pytest.mark.parametrize("kind", SQUARED_VARIATION)
def test_open_queues_of_any_demand_respond_as_pollaczek_and_khinchine_say(
    engine: str, utilisation: float, kind: str
) -> None:
    """M/G/1: R = D + U D (1 + c²) / (2 (1 - U)) (Kleinrock 1975, vol. 1, eq. 5.68)."""
    found, width = responses(engine, queueing.open_station(1, 1 / utilisation, 1.0, kind), utilisation)
    squared = SQUARED_VARIATION[kind]
    agrees(found, 1 + utilisation * (1 + squared) / (2 * (1 - utilisation)), width * (1 + squared))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("utilisation", UTILISATIONS)
def test_finite_rooms_lose_what_theory_says(engine: str, utilisation: float) -> None:
    """M/M/m/K: arrivals that find K inside are lost, by the birth and death equations (Kleinrock 1975, section 3.6)."""
    servers, room = 2, 6
    if engine == "simpy" and utilisation < max(UTILISATIONS):
        pytest.skip("once is enough for the slow engine")
    offered = servers * utilisation
    weights = [1.0]
    for n in range(1, room + 1):
        weights.append(weights[-1] * offered / min(n, servers))
    lost = weights[room] / math.fsum(weights)
    replies = 40_000 if engine == "compiled" else 1_500
    outcomes = simulate(
        queueing.open_station(servers, 1 / offered, 1.0, room=room),
        engine=engine, replications=12, warm=1000, replies=replies,
    )  # fmt: skip
    agrees([o.throughput for o in outcomes], offered * (1 - lost), 0.03 if engine == "compiled" else 0.1)
    agrees([o.counters["lost"] / o.counters["arrivals"] for o in outcomes], lost, 0.4)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("clients", "workers", "ratio"), [(2, 1, 1.0), (8, 2, 4.0), (24, 4, 4.0), (40, 4, 8.2)]
)
def test_closed_queues_are_as_theory_says(engine: str, clients: int, workers: int, ratio: float) -> None:
    """M/M/m//N at utilisations from 0.5 to 0.99."""
    exact = closed_multiserver(clients=clients, workers=workers, think=ratio, demand=1.0)
    replies, wider = (60_000, 1) if engine == "compiled" else (1_000, 7)
    build = queueing.closed_network(clients, ratio, [(workers, 1.0, 0.0)])
    outcomes = simulate(build, engine=engine, replications=12, warm=1000, replies=replies)
    agrees([o.throughput for o in outcomes], float(exact.throughput), 0.02 * wider)
    agrees(mean_responses(outcomes), float(exact.response), 0.04 * wider)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("think", [1.0, 6.0, 20.0])
def test_a_network_of_three_stations_has_its_product_form(engine: str, think: float) -> None:
    """The busiest station is used 0.5 to 0.97 of the time."""
    clients, stops = 12, [(2, 0.6, 0.7), (1, 0.9, 0.5), (1, 1.0, 0.0)]
    replies, width = (60_000, 0.02) if engine == "compiled" else (1_000, 0.1)
    outcomes = simulate(
        queueing.closed_network(clients, think, stops),
        engine=engine,
        replications=12,
        warm=1000,
        replies=replies,
    )
    agrees([o.throughput for o in outcomes], queueing.product_form(clients, think, stops), width)
    for outcome in outcomes:
        assert outcome.in_system <= clients


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("clients", "ratio"), [(3, 2.0), (10, 8.0)])
def test_threads_on_a_free_cpu_are_a_closed_queue(engine: str, clients: int, ratio: float) -> None:
    """M/M/1//N: the order in which a CPU serves does not matter to exponential demands, slices of it do not either."""
    demand = 1e-3
    exact = closed_multiserver(clients=clients, workers=1, think=ratio * demand, demand=demand)
    replies, wider = (60_000, 1) if engine == "compiled" else (1_000, 7)
    build = queueing.threads_that_think(clients, ratio * demand, demand)
    outcomes = simulate(build, engine=engine, replications=12, warm=1000, replies=replies)
    agrees([o.throughput for o in outcomes], float(exact.throughput), 0.02 * wider)
    agrees(mean_responses(outcomes), float(exact.response), 0.04 * wider)
