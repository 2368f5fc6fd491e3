"""How fast the instrument itself is: a server's round trip, the load generator, the SimPy engine, a fit."""

import math

import numpy as np
import pytest
from pyx.load import Load

from models import des, laws
from models.costs import Cost, Costs, Demand, demand_key
from models.scenario import Scenario
from pyx.server import Server

COSTS = {
    "machine.wake_waker": 8e-6,
    "machine.wake_sleeper": 7e-6,
    "machine.wake_latency": 15e-6,
    "machine.wake_socket": 2.5e-6,
    "machine.wake_futex": 7e-7,
    "machine.switch": 1.3e-6,
    "machine.block": 1e-6,
    "load.event": 5e-6,
    "load.poll": 4e-7,
    "select.event": 5e-6,
    "select.poll": 6e-7,
    "select.poll_connection": 4e-8,
}


@pytest.fixture
def server():
    with Server("synthetic", "select") as running:
        yield running


def test_round_trip(benchmark, server):
    """One client, one request at a time, through a raw socket."""
    import socket

    with socket.create_connection((server.host, server.port)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def trip():
            peer.send(b"work\n")
            return peer.recv(64)

        assert benchmark(trip) == b"done 0\n"


def test_generator(benchmark, server):
    """Requests that the load makes and checks in a second of its own processor time: `per_cpu_second`."""
    rates = []

    def generate():
        load = Load("closed", "synthetic", {"clients": "32"}, server.host, server.port, 1, 0.02, 0.2)
        raw = load.run()
        replies = sum(histogram["count"] for histogram in raw["histograms"].values())
        rates.append(replies / ((raw["end"]["load_cpu"] - raw["start"]["load_cpu"]) * 1e-9))

    benchmark.pedantic(generate, rounds=5)
    benchmark.extra_info["per_cpu_second"] = float(np.median(rates))
    assert min(rates) > 0


def test_simpy_model(benchmark):
    """Simulated replies in a second of wall clock: `jobs_per_second`."""
    scenario = Scenario.of("synthetic", "select", options={"clients": 10})
    table = {name: Cost(value) for name, value in COSTS.items()}
    draws = tuple((seconds,) for seconds in np.random.default_rng(7).exponential(5e-5, 300))
    demand = Demand((0,) * 300, (3e-7,) * 300, (4e-7,) * 300, draws, 0)
    costs = Costs(2, table, demands={demand_key(scenario): demand})
    speeds = []

    def simulate():
        predicted, engine = des.predict_with_engine(
            scenario, costs, replications=1, replies=2000, budget=60.0
        )
        speeds.append(engine["jobs_per_second"])
        return predicted

    predicted = benchmark.pedantic(simulate, rounds=3)
    benchmark.extra_info["jobs_per_second"] = float(np.median(speeds))
    assert predicted.throughput.value > 0


def test_usl_fit(benchmark):
    """Twelve points with one per cent of scatter; the peak lies at 10."""
    n = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
    sigma, kappa = 0.05, 0.0095
    exact = 1000 * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))
    x = exact * np.random.default_rng(3).normal(1, 0.01, n.size)
    fitted = benchmark(laws.fit, "usl", n, x)
    found = {name: parameter.value for name, parameter in fitted.parameters.items()}
    assert math.sqrt((1 - found["sigma"]) / found["kappa"]) == pytest.approx(10, rel=0.1)
