"""The instrument against theory: known demands show what theory says, a held-up server that it was."""

import signal
import time

import pytest
import trials
from pyx.load import Load

from harness import measuring, recorded
from models.scenario import Scenario
from pyx.server import Server


def repairmen(clients, servers, think, demand):
    """Throughput and mean response of the closed M/M/m//N queue, by its birth-death balance (Kleinrock 1975,
    Queueing Systems I, section 3.9): p[k+1] / p[k] = (N − k) / Z · D / min(k + 1, m)."""
    weight = [1.0]
    for k in range(clients):
        weight.append(weight[-1] * (clients - k) / think * demand / min(k + 1, servers))
    total = sum(weight)
    throughput = sum(w * min(k, servers) / demand for k, w in enumerate(weight)) / total
    return throughput, clients / throughput - think


def test_the_theory_knows_its_own_limits():
    assert repairmen(1, 1, 0.3, 0.1) == (pytest.approx(2.5), pytest.approx(0.1))
    assert repairmen(100, 2, 0.1, 0.1)[0] == pytest.approx(20)
    assert repairmen(3, 3, 0.2, 0.1) == (pytest.approx(10), pytest.approx(0.1))


@pytest.mark.parametrize(
    ("workers", "clients", "think"),
    [(1, 3, 0.012), pytest.param(2, 6, 0.010, marks=pytest.mark.long), (4, 10, 0.012)],
    ids=["1of3", "2of6", "4of10"],
)
def test_sleeping_workers_are_a_repairmen_queue(workers, clients, think):
    trials.patiently(lambda: check_repairmen(workers, clients, think))


def check_repairmen(workers, clients, think):
    demand, window = 0.006, 2.5
    options = {"workers": workers, "demand": demand, "demand_dist": "exponential", "demand_kind": "sleep"}
    options |= {"clients": clients, "think": think, "think_dist": "exponential"}
    record = measuring.measure_once(
        Scenario.of("synthetic", "sbuf", options=options), window=window, warmup=0.3
    ).record
    replies = recorded.replies(record)
    worker = record["roles"]["worker"]
    # What came about, rather than from what it was drawn: most of the chance in the result is that of the draws.
    drawn, thought = worker["demand_ns"] * 1e-9 / worker["tasks"], record["think"] * 1e-9 / replies
    assert drawn == pytest.approx(demand, rel=4 / replies**0.5)
    assert thought == pytest.approx(think, rel=4 / replies**0.5)
    throughput, response = repairmen(clients, workers, thought, worker["busy_ns"] * 1e-9 / worker["tasks"])
    assert replies / window == pytest.approx(throughput, rel=0.04)
    # Response is a difference of two close figures where clients mostly think: its error is theirs, enlarged.
    assert record["response"] * 1e-9 / replies == pytest.approx(response, rel=0.10)


def test_a_server_held_up_in_the_window_shows():
    held = 0.3
    with Server("synthetic", "select") as server:
        load = Load("closed", "synthetic", {"clients": "4"}, server.host, server.port, 1, 0.05, 1.0)
        running = trials.Background(load.run)
        time.sleep(0.45)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(held)
        server.process.send_signal(signal.SIGCONT)
        raw = running.finish()
    histogram = raw["histograms"]["work"]
    assert histogram["max"] >= 0.8 * held * 1e9
    silent = [int(count) for count in raw["bin_count"]].count(0)
    assert silent >= 4, "twentieths of the window without a reply"
    assert not any(raw["errors"].values())
    span = raw["planned_end"] - raw["planned_start"]
    parts = [raw[state] for state in ("think", "response", "generator", "connecting")]
    assert sum(parts) == pytest.approx(4 * span, rel=1e-3)
    assert histogram["sum"] >= 0.95 * 4 * held * 1e9
