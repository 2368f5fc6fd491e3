"""The closed load: its accounts of time, distributions and histogram, what it makes of a faulty server."""

import collections
import math
import os
import resource
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import trials
import wire
from hypothesis import given
from hypothesis import strategies as st
from pyx.load import Load, LoadError, bucket_bounds, bucket_of
from scripted import Scripted, after_one, agreeing, always, asked, cut_short, stall
from trials import run

from models import quantiles
from pyx.server import Server

FLOOR, WIDTH = bucket_bounds()
LIMIT = 2**42
DURATIONS = st.integers(0, LIMIT - 1) | st.integers(0, 5000) | st.integers(0, 41).map(lambda bits: 2**bits)


@pytest.mark.parametrize(
    ("server", "options"),
    [
        ("select", {"clients": 1}),
        ("select", {"clients": 40}),
        ("sbuf", {"clients": 20, "think": 0.001}),
        ("select", {"clients": 20, "think": 0.0005, "think_dist": "hyperexponential"}),
        ("select", {"clients": 10, "connection": "per_request"}),
        ("queues", {"clients": 10, "think": 1.0}),
        ("select", {"clients": 7, "load_threads": 3}),
        ("queues", {"clients": 9, "think": 0.001, "load_threads": 2}),
        ("queues", {"clients": 8, "connection": "per_request", "load_threads": 2}),
        ("select", {"clients": 2, "load_threads": 4}),
    ],
)
def test_states_of_all_clients_add_up_to_their_time(server, options):
    kept = {k: str(v) for k, v in options.items() if k == "connection"}
    with Server("synthetic", server, kept) as running:
        raw = run(running.port, warmup=0.05, window=0.4, **options)
    span = raw["planned_end"] - raw["planned_start"]
    parts = [raw[state] for state in ("think", "response", "generator", "connecting")]
    assert span == pytest.approx(0.4e9, abs=1)
    assert min(parts) >= 0
    assert sum(parts) == options["clients"] * span
    assert raw["threads"] == min(options.get("load_threads", 1), options["clients"])
    assert trials.answered(raw) == raw["client_count"].sum() == raw["bin_count"].sum()
    thinks, connects = "think" in options, "connection" in options
    assert (raw["think"] > 0) == thinks and (raw["connecting"] > 0) == connects


@pytest.mark.parametrize("dist", ["constant", "exponential"])
def test_think_times_have_their_mean(dist):
    with Server("synthetic", "select") as running:
        raw = run(running.port, warmup=0.1, window=1.0, clients=50, think=0.01, think_dist=dist)
    cycles = trials.answered(raw)
    # Four standard errors of the mean of so many exponential times; and each client may think on either edge of the window.
    tolerance = (0 if dist == "constant" else 4 / math.sqrt(cycles)) + 50 / cycles
    assert raw["think"] / cycles == pytest.approx(0.01e9, rel=tolerance)


def test_every_request_has_its_lag():
    with Server("synthetic", "select") as running:
        raw = run(running.port, warmup=0.1, window=0.5, clients=5, think=0.002)
    lag, replies = raw["lag"], trials.answered(raw)
    assert abs(lag["count"] - replies) <= 5
    assert raw["lag"]["buckets"].sum() == lag["count"]
    # The state and the histogram hold the same time, up to the requests on the window's edges.
    assert lag["sum"] == pytest.approx(raw["generator"], abs=5 * lag["max"])


def test_threads_share_the_clients_evenly():
    with Server("synthetic", "queues") as running:
        raw = run(running.port, warmup=0.1, window=0.5, clients=12, think=0.002, load_threads=4)
    assert len(raw["client_count"]) == 12 and raw["client_count"].min() > 0
    assert raw["end"]["load_cpu"] > raw["start"]["load_cpu"] >= 0
    assert raw["end"]["polls"] > raw["start"]["polls"] and raw["end"]["sleeps"] > raw["start"]["sleeps"]


@pytest.mark.parametrize("closer", ["client", "server"])
def test_who_closes_a_connection_after_one_reply(closer):
    endings = []

    def behave(peer, number, stopping):
        asked(peer)
        peer.sendall(b"done 0\n")
        if closer == "client":
            endings.append(peer.recv(64))

    with Scripted(behave) as server:
        raw = run(server.port, clients=2, window=0.3, connection="per_request", closer=closer)
    found = {name for name, count in raw["errors"].items() if count}
    assert not found, raw["errors"]
    assert trials.answered(raw) > 10
    if closer == "client":
        assert len(endings) > 10 and set(endings) == {b""}


def test_ports_do_not_run_out_with_a_connection_for_each_request():
    with Server("synthetic", "queues", {"connection": "per_request", "accept": "epoll"}) as running:
        raw = run(running.port, window=3.0, clients=40, connection="per_request")
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert raw["addresses"] * (last - first + 1) >= 30_000 * 60
    assert not any(raw["errors"].values()) and not any(raw["errors_outside"].values())
    assert raw["client_count"].min() > 0


def test_addresses_off_loopback_are_refused_when_their_ports_cannot_suffice():
    options = {"arrival_rate": "1000000", "connection": "per_request"}
    with pytest.raises(
        LoadError, match=r"^needs 60000100 local ports, one address has \d+ .*ip_local_port_range"
    ):
        Load("open", "synthetic", options, "192.0.2.1", 80, 1, 0.0, 1.0)


@pytest.mark.parametrize(
    ("server", "options"), [("sbuf", {"hold": "request"}), ("queues", {"accept": "epoll"})]
)
def test_ten_thousand_connections(server, options):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 10_100:
        pytest.skip(f"only {limits[1]} descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (10_100, limits[1]))
    try:
        with Server("synthetic", server, options) as running:
            before = memory()
            load = Load("closed", "synthetic", {"clients": "10000"}, running.host, running.port, 1, 0.3, 0.5)
            raw = load.run()
            grown = memory() - before
            del load
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert raw["clients"] == 10_000
    assert not any(raw["errors"].values()) and not any(raw["errors_outside"].values())
    assert trials.answered(raw) > 0
    assert grown < 10_000 * 2048


def memory():
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_generator_time_is_little_when_there_is_time():
    def attempt():
        with Server("synthetic", "select") as running:
            raw = run(running.port, warmup=0.1, window=0.5, clients=5, think=0.02)
        assert raw["generator"] < 0.2 * raw["think"]

    trials.patiently(attempt)


@given(DURATIONS)
def test_a_bucket_holds_its_durations_and_is_narrow(value):
    at = bucket_of(value)
    low, width = int(FLOOR[at]), int(WIDTH[at])
    assert low <= value < low + width
    assert width == 1 or width <= value / 1024


def test_buckets_cover_everything_without_gap_or_overlap():
    assert FLOOR[0] == 0
    assert np.array_equal(FLOOR[1:], FLOOR[:-1] + WIDTH[:-1])
    assert FLOOR[-1] + WIDTH[-1] == LIMIT
    assert bucket_of(LIMIT) == bucket_of(2**63) == len(FLOOR) - 1


def histogram(values):
    counts = collections.Counter(bucket_of(value) for value in values)
    return {
        "count": len(values),
        "sum": sum(values),
        "min": min(values, default=0),
        "max": max(values, default=0),
        "buckets": [list(row) for row in sorted(counts.items())],
    }


@given(st.lists(st.lists(DURATIONS, max_size=40), min_size=1, max_size=4), st.floats(0, 1))
def test_merged_histograms_are_the_histogram_of_all(parts, q):
    every = sorted(value for part in parts for value in part)
    merged = quantiles.merge([histogram(part) for part in parts])
    whole = quantiles.merge([histogram(every)])
    assert merged.count == len(every) and merged.sum == sum(every)
    assert np.array_equal(merged.index, whole.index) and np.array_equal(merged.counts, whole.counts)
    if every:
        true = every[max(1, math.ceil(q * len(every))) - 1] * 1e-9
        assert quantiles.quantile(merged, q) == pytest.approx(true, rel=1 / 1024, abs=1e-15)
        assert quantiles.mean(merged) == pytest.approx(sum(every) / len(every) * 1e-9)


FAULTS = {
    "right": (always(b"done 0\n"), None),
    "wrong": (always(b"gone 0\n"), "wrong"),
    "endless": (always(b"d" * 80), "malformed"),
    "too_much": (always(b"done 0\ndone 0\n"), "malformed"),
    "short": (after_one(cut_short), "closed"),
    "closes": (after_one(lambda peer, stopping: None), "closed"),
    "resets": (after_one(lambda peer, stopping: wire.reset(peer)), "reset"),
    "stalls": (after_one(stall), "timeout"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_counted_as_what_it_is(fault):
    behave, kind = FAULTS[fault]
    with Scripted(behave) as server:
        raw = run(server.port, clients=3, timeout=0.1 if kind == "timeout" else 5, window=0.4, think=0.001)
    found = collections.Counter(raw["errors"]) + collections.Counter(raw["errors_outside"])
    assert set(found) == ({kind} if kind else set()), found
    if kind == "wrong":
        assert found["wrong"] >= trials.answered(raw) > 0
    elif kind != "malformed":
        assert trials.answered(raw) > 0
    span = raw["planned_end"] - raw["planned_start"]
    parts = [raw[state] for state in ("think", "response", "generator", "connecting")]
    assert sum(parts) == pytest.approx(3 * span, rel=1e-3)


def test_a_server_that_goes_away_is_refused_from_then_on():
    gone = threading.Event()

    def behave(peer, number, stopping):
        for _ in range(20):
            asked(peer)
            peer.sendall(b"done 0\n")
        gone.set()

    with Scripted(behave) as server:
        closer = trials.Background(lambda: gone.wait(10) and server.listener.shutdown(socket.SHUT_RDWR))
        raw = run(server.port, clients=1, window=0.5, think=0.0005)
        closer.finish()
    found = {name for name, count in raw["errors"].items() if count}
    assert "refused" in found and found <= {"refused", "closed", "reset"}


def test_nobody_listening_is_one_line_and_soon():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    started = time.monotonic()
    with pytest.raises(LoadError, match=r"^only 0 of 5 clients could connect: connections are refused$"):
        run(port, clients=5)
    assert time.monotonic() - started < 5


def test_stop_ends_a_run_from_another_thread():
    with Server("synthetic", "select") as running:
        load = Load("closed", "synthetic", {"clients": "4"}, running.host, running.port, 1, 0.0, 60.0)
        background = trials.Background(load.run)
        assert wire.eventually(lambda: trials.total(running, "requests") > 10)
        load.stop()
        with pytest.raises(LoadError, match=r"^the load was stopped$"):
            background.finish(10)


@pytest.mark.parametrize("isolate", [False, True])
def test_a_load_runs_once(isolate):
    with Server("synthetic", "select") as running:
        load = Load("closed", "synthetic", {}, "127.0.0.1", running.port, 1, 0.0, 0.05, isolate=isolate)
        load.run()
        with pytest.raises(RuntimeError, match=r"^a load runs once"):
            load.run()


def requests_of(seed):
    """What a load of one client asks a server that says yes to everything."""
    heard = []
    with Scripted(agreeing(heard)) as server:
        raw = run(server.port, "stock", seed=seed, clients=1, mix="buy:1,sell:1", window=0.2)
    assert not any(raw["errors"].values())
    return heard


def test_the_seed_decides_what_is_asked():
    first, again, other = requests_of(7), requests_of(7), requests_of(8)
    common = min(map(len, (first, again, other)))
    assert common > 20
    assert first[:common] == again[:common] != other[:common]


def test_the_ledger_knows_every_order_that_was_answered():
    heard = collections.Counter()

    def behave(peer, number, stopping):
        while line := asked(peer):
            command, identity, amount = line.split()
            heard[command, int(identity)] += int(amount)
            peer.sendall(b"[%s] success\n" % command)

    with Scripted(behave) as server:
        options = {"clients": "5", "mix": "buy:1,sell:1"}
        load = Load("closed", "stock", options, "127.0.0.1", server.port, 1, 0.05, 0.2)
        load.run()
        ledger = load.ledger()
        del load
    assert len(ledger) == 20
    for identity, bought, sold in ledger:
        assert (bought, sold) == (heard[b"buy", identity], heard[b"sell", identity])


def test_clients_that_think_survive_a_server_that_closes():
    def behave(peer, number, stopping):
        asked(peer)
        peer.sendall(b"done 0\n")

    with Scripted(behave) as server:
        raw = run(server.port, clients=40, window=0.5, think=0.02)
    assert {name for name, count in raw["errors"].items() if count} <= {"closed", "reset"}
    assert trials.answered(raw) > 40


@pytest.mark.parametrize("connection", ["keep", "per_request"])
def test_no_connection_outlives_the_run(connection):
    """A server that ends politely would wait for it, as gunicorn does for seconds."""
    with Server("synthetic", "select", {"connection": connection}) as server:
        options = {"clients": "12", "load_threads": "3", "connection": connection}
        load = Load("closed", "synthetic", options, "127.0.0.1", server.port, 1, 0.0, 0.1)
        before = set(os.listdir("/proc/self/fd"))
        load.run()
        assert set(os.listdir("/proc/self/fd")) == before
