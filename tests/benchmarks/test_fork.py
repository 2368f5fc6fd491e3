"""What a connection costs the server `fork`, beside the barest loop that forks for each connection."""

import statistics
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyx.load import Load
from pyx.sampling import tree_cpu

from pyx.server import Server

ALTERNATIONS = 9
SECONDS = 1.0
MOST = 1.2
SOURCE = Path(__file__).parents[1] / "native" / "fork_accept.c"


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    """The bare loop, compiled as our core is."""
    program = tmp_path_factory.mktemp("bare") / "fork_accept"
    subprocess.run(["gcc", "-std=gnu11", "-O2", str(SOURCE), "-o", str(program)], check=True)
    return program


@contextmanager
def bare(program):
    with subprocess.Popen(["taskset", "-c", "0", str(program)], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


@contextmanager
def ours(_):
    with Server("synthetic", "fork", {"connection": "per_request", "server_cpus": "0"}) as running:
        yield running.pid, running.port


def measure(server, program, clients):
    """Processor seconds of the server for each connection, and connections a second."""
    options = {"clients": str(clients), "connection": "per_request", "load_cpus": "1"}
    with server(program) as (pid, port):
        load = Load("closed", "synthetic", options, "127.0.0.1", port, 1, 0.1, SECONDS, pid, None, True)
        raw = load.run()
        assert not any(raw["errors"].values()), raw["errors"]
        assert tree_cpu(pid) > 0
    first, last = raw["start"], raw["end"]
    replies = sum(histogram["count"] for histogram in raw["histograms"].values())
    rate = replies / ((raw["planned_end"] - raw["planned_start"]) * 1e-9)
    return (last["server_cpu"] - first["server_cpu"]) / (last["time"] - first["time"]) / rate, rate


@pytest.mark.parametrize("clients", [1, 16])
def test_a_connection_beside_a_bare_loop(benchmark, loop, clients):
    """The median ratio of pairs, `cost_to_bare`; each pair begins with the other."""
    costs, ratios, rates = [], [], []

    def pair():
        order = [bare, ours] if len(ratios) % 2 else [ours, bare]
        found = {server: measure(server, loop, clients) for server in order}
        costs.append(found[ours][0])
        ratios.append(found[ours][0] / found[bare][0])
        rates.append(found[ours][1] / found[bare][1])

    benchmark.pedantic(pair, rounds=ALTERNATIONS)
    benchmark.extra_info |= {
        "cost_to_bare": statistics.median(ratios),
        "rate_to_bare": statistics.median(rates),
        "cost": statistics.median(costs),
    }
    assert statistics.median(ratios) <= MOST, ratios
