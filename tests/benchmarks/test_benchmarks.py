"""How fast the instrument itself is: a server's round trip, the load generator, a fit."""

import math

import numpy as np
import pytest
from pyx.load import Load

from models import laws
from pyx.server import Server


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


def test_usl_fit(benchmark):
    """Twelve points with one per cent of scatter; the peak lies at 10."""
    n = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
    sigma, kappa = 0.05, 0.0095
    exact = 1000 * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))
    x = exact * np.random.default_rng(3).normal(1, 0.01, n.size)
    fitted = benchmark(laws.fit, "usl", n, x)
    found = {name: parameter.value for name, parameter in fitted.parameters.items()}
    assert math.sqrt((1 - found["sigma"]) / found["kappa"]) == pytest.approx(10, rel=0.1)
