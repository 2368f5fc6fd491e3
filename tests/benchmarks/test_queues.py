"""The server queues beside servers that do not split requests: published defaults of prime, waits that give up the CPU."""

import statistics

import pytest
from pyx.load import Load

from pyx import registry
from pyx.server import Server

ROUNDS = 7
WINDOW = 0.3  # s
CLIENTS = 10
WORKERS = 4


def rivals(connection: str) -> list[tuple[str, dict[str, str]]]:
    """sbuf with as many workers (one that keeps a connection has to let it go some time), thread with as many clients."""
    found = [("sbuf", {"workers": str(WORKERS)})]
    if connection == "per_request":
        found.append(("sbuf", {"workers": str(WORKERS), "hold": "connection"}))
    if "thread" in registry.servers():
        found.append(("thread", {}))
    return found


def throughput(server: str, options: dict[str, str], connection: str) -> float:
    with Server("prime", server, {**options, "connection": connection}) as running:
        asked = {"clients": str(CLIENTS), "array": "50", "connection": connection}
        raw = Load("closed", "prime", asked, running.host, running.port, 1, 0.1, WINDOW).run()
    assert not any(raw["errors"].values()), raw["errors"]
    return sum(histogram["count"] for histogram in raw["histograms"].values()) / WINDOW


@pytest.mark.parametrize("connection", ["keep", "per_request"])
def test_splitting_costs_little_where_it_does_not_pay(benchmark, capsys, connection):
    """The median of the ratios of rounds, to each other server; a round measures all, in an order that turns round."""
    ours = {
        accept: ("queues", {"workers": str(WORKERS), "chunk": "20", "accept": accept})
        for accept in ("epoll", "thread")
    }
    systems = [*ours.values(), *rivals(connection)]
    rounds: list[list[float]] = []

    def once():
        turned = range(len(systems))[:: 1 if len(rounds) % 2 else -1]
        found = {i: throughput(*systems[i], connection) for i in turned}
        rounds.append([found[i] for i in range(len(systems))])

    benchmark.pedantic(once, rounds=ROUNDS)
    lowest = {}
    for at, accept in enumerate(ours):
        ratios = {
            " ".join([server, *(f"{k}={v}" for k, v in options.items() if k == "hold")]): statistics.median(
                found[at] / found[i] for found in rounds
            )
            for i, (server, options) in enumerate(systems)
            if i >= len(ours)
        }
        lowest[accept] = min(ratios.values())
        words = ", ".join(f"{ratio:.2f} of {name}" for name, ratio in ratios.items())
        words += f", at {statistics.median(found[at] for found in rounds):.0f}/s"
        with capsys.disabled():
            print(f"\nconnection={connection}, accept={accept}: {words}")
    benchmark.extra_info |= lowest
    assert lowest["epoll"] >= 0.9, lowest
