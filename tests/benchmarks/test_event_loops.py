"""The epoll server beside nginx, and what idle connections cost each event loop."""

from __future__ import annotations

import re
import resource
import socket
import statistics
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import nginx_peer
import pytest
from pyx.load import Load

from pyx import registry
from pyx.server import Server

CPU = 0
PAGE = 1024  # bytes
ALTERNATIONS = 7
SECONDS = 1

# Least ratio of throughputs and most ratio of the server's processor time a request, ours to nginx's.
KEPT = (1.05, 0.9)
ONCE = (1.0, 1.0)


class Run(NamedTuple):
    """Requests a second, and the server's processor time for each, s."""

    rate: float
    cpu: float


def processor_time(pid: int) -> float:
    """Of all threads of a process, s."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) * 1e-9


def wrk(pid: int, port: int, connections: int, words: tuple[str, ...]) -> Run:
    """On the server's CPU; every reply must be a 200."""
    pinned = ["taskset", "-c", str(CPU), "wrk", "-t1", f"-c{connections}", f"-d{SECONDS}s"]
    before = processor_time(pid)
    output = subprocess.run(
        [*pinned, *words, f"http://127.0.0.1:{port}/"], capture_output=True, text=True, check=True
    ).stdout
    used = processor_time(pid) - before
    assert "Non-2xx" not in output and "Socket errors" not in output, output
    found = re.search(r"(\d+) requests in ([\d.]+)s", output)
    assert found, output
    replies = int(found[1])
    return Run(replies / float(found[2]), used / replies)


def reply_size(port: int) -> int:
    """Bytes of a whole reply."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        return len(b"".join(iter(lambda: peer.recv(65536), b"")))


@pytest.fixture
def peers(tmp_path: Path) -> Any:
    """nginx and the epoll server on one CPU, with replies of one size."""
    with ExitStack() as running:
        theirs = running.enter_context(nginx_peer.nginx(tmp_path, "x" * PAGE, CPU))
        whole = reply_size(theirs[1])
        settings = {"server_cpus": str(CPU)}
        with Server("http", "epoll", {**settings, "message": str(PAGE)}) as trial:
            page = PAGE + whole - reply_size(trial.port)
        ours = running.enter_context(Server("http", "epoll", {**settings, "message": str(page)}))
        assert abs(reply_size(ours.port) / whole - 1) < 0.01
        yield (ours.pid, ours.port), theirs


@pytest.mark.parametrize(
    ("connections", "words", "goals"),
    [
        pytest.param(16, (), KEPT, id="16 kept"),
        pytest.param(256, (), KEPT, id="256 kept"),
        pytest.param(16, ("-H", "Connection: close"), ONCE, id="a connection a request"),
    ],
)
def test_epoll_beside_nginx(
    benchmark: Any, peers: Any, connections: int, words: tuple[str, ...], goals: tuple[float, float]
) -> None:
    """Medians of pairs, `throughput_to_nginx` and `cpu_to_nginx`; each pair begins with the other."""
    pairs: list[tuple[Run, Run]] = []

    def pair() -> None:
        first = len(pairs) % 2
        runs = [wrk(*peers[(first + i) % 2], connections, words) for i in range(2)]
        pairs.append((runs[first], runs[1 - first]))

    benchmark.pedantic(pair, rounds=ALTERNATIONS)
    throughput = statistics.median(ours.rate / theirs.rate for ours, theirs in pairs)
    cpu = statistics.median(ours.cpu / theirs.cpu for ours, theirs in pairs)
    benchmark.extra_info |= {
        "throughput_to_nginx": round(throughput, 3),
        "cpu_to_nginx": round(cpu, 3),
        "requests_per_second": round(statistics.median(ours.rate for ours, _ in pairs)),
        "cpu_us_per_request": round(statistics.median(ours.cpu for ours, _ in pairs) * 1e6, 2),
    }
    print(f"\n{connections} {' '.join(words) or 'kept'}: {benchmark.extra_info}")
    least, most = goals
    assert throughput >= least and cpu <= most, pairs


def requests_cpu(name: str) -> Callable[[int], float]:
    """Server's processor time for a request of 8 clients, by how many idle connections there are beside, s."""

    def measure(idle: int) -> float:
        with ExitStack() as opened:
            server = opened.enter_context(Server("synthetic", name))
            for _ in range(idle):
                opened.enter_context(socket.create_connection((server.host, server.port)))
            found = []
            for seed in range(3):
                load = Load(
                    "closed", "synthetic", {"clients": "8"}, server.host, server.port, seed, 0.05, 0.3
                )
                before = processor_time(server.pid), int(server.counters["requests"].sum())
                load.run()
                requests = int(server.counters["requests"].sum()) - before[1]
                found.append((processor_time(server.pid) - before[0]) / requests)
            return statistics.median(found)

    return measure


@pytest.mark.parametrize("name", ["select", "poll", "epoll"])
def test_what_idle_connections_cost(benchmark: Any, name: str) -> None:
    limit = registry.servers()[name]["max_connections"] or 4096
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    try:
        counts = [n for n in (0, 64, 250, 1000, 4000) if n + 8 <= min(limit, hard - 500)]
        measure = requests_cpu(name)
        found = benchmark.pedantic(lambda: {n: measure(n) for n in counts}, rounds=1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    benchmark.extra_info |= {f"us_beside_{n}": round(cpu * 1e6, 2) for n, cpu in found.items()}
    print(f"\n{name}: {benchmark.extra_info}")
    growth = found[counts[-1]] / found[0]
    assert growth < 1.3 if name == "epoll" else growth > 1.3
