"""The open load: its schedule, its accounts, and what it shows of a server that stops or cannot keep up."""

import math
import os
import signal
import time

import numpy as np
import pytest
import trials
from pyx.load import Load, LoadError, schedule
from scipy import stats

from models import quantiles
from pyx.server import Server


def start(running, warmup=0.1, window=0.5, service="synthetic", **options):
    settings = {k: str(v) for k, v in options.items()}
    return Load("open", service, settings, running.host, running.port, 1, warmup, window)


def run(running, **options):
    return start(running, **options).run()


def seconds(raw):
    return (raw["planned_end"] - raw["planned_start"]) * 1e-9


def quantile(histograms, q):
    found = {
        "buckets": [
            (index, int(count))
            for h in histograms.values()
            for index, count in enumerate(h["buckets"])
            if count
        ]
    }
    for name, function in (("count", sum), ("sum", sum), ("min", min), ("max", max)):
        found[name] = function(int(h[name]) for h in histograms.values() if h["count"])
    return quantiles.quantile(quantiles.merge([found]), q)


@pytest.mark.parametrize("threads", [1, 3])
def test_poisson_arrivals_are_exponentially_apart(threads):
    parts = [schedule("poisson", 5000.0, 11, 20_000 // threads, k, threads) for k in range(threads)]
    until = min(part[-1] for part in parts)
    every = np.sort(np.concatenate(parts))
    gaps = np.diff(every[every <= until])
    # The seed is fixed: one of a thousand seeds would fail this.
    assert stats.kstest(gaps, "expon", args=(0, 2e5)).pvalue > 0.001
    assert abs(stats.pearsonr(gaps[1:], gaps[:-1]).statistic) < 4 / math.sqrt(len(gaps))


def test_counts_of_poisson_arrivals_vary_as_much_as_their_mean():
    counts = np.bincount(schedule("poisson", 1000.0, 5, 50_000) // 10_000_000)[:-1]
    index = counts.var(ddof=1) / counts.mean() * (len(counts) - 1)
    assert stats.chi2.ppf(0.001, len(counts) - 1) < index < stats.chi2.ppf(0.999, len(counts) - 1)


def test_constant_arrivals_of_several_threads_interleave_evenly():
    parts = [schedule("constant", 4000.0, 1, 1000, k, 4) for k in range(4)]
    assert np.abs(np.diff(np.sort(np.concatenate(parts))) - 250_000).max() <= 1


def test_the_seed_decides_the_schedule():
    first, again, other = (schedule("poisson", 1000.0, seed, 100) for seed in (3, 3, 4))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.parametrize(
    "options",
    [
        {"arrival_rate": 2000},
        {"arrival_rate": 2000, "arrivals": "constant", "load_threads": 3},
        {"arrival_rate": 1500, "clients": 20, "connection": "per_request", "load_threads": 2},
        {"arrival_rate": 100_000, "clients": 3},
    ],
)
def test_accounts_of_an_open_load_add_up(options):
    kept = {k: v for k, v in options.items() if k == "connection"}
    with Server("synthetic", "select", kept) as running:
        raw = run(running, **options)
    span = raw["planned_end"] - raw["planned_start"]
    states = sum(raw[state] for state in ("think", "response", "generator", "connecting"))
    assert states == raw["clients"] * span
    assert not any(raw["errors"].values())
    replies = trials.answered(raw)
    assert replies == raw["client_count"].sum() == raw["bin_count"].sum()
    assert replies == sum(h["count"] for h in raw["service"].values())
    assert raw["in_system_ns"] == raw["sojourn_ns"] > 0
    assert 0 <= raw["planned"] - raw["sent"] <= raw["backlog"][1] <= raw["backlog_peak"]
    for name, response in raw["histograms"].items():
        assert response["sum"] >= raw["service"][name]["sum"]
        assert response["min"] >= raw["service"][name]["min"]


def test_the_planned_rate_is_delivered():
    with Server("synthetic", "select") as running:
        raw = run(running, window=1.0, arrival_rate=2000)
    # Poisson: four standard deviations.
    assert abs(raw["planned"] - 2000 * seconds(raw)) < 4 * math.sqrt(2000 * seconds(raw))
    assert raw["bin_planned"].sum() == raw["planned"]
    assert raw["lag"]["count"] >= raw["sent"] >= raw["planned"] - raw["backlog"][1]
    ended = raw["planned"] - raw["unfinished"]
    assert ended <= trials.answered(raw) <= ended + raw["backlog"][0] + raw["clients"]


def test_a_stopped_server_shows_in_responses_and_hardly_in_service_times():
    with Server("synthetic", "select") as running:
        load = start(running, warmup=0.2, window=2.0, arrival_rate=500, clients=4)

        def stop_for_a_while():
            time.sleep(0.7)
            os.kill(running.pid, signal.SIGSTOP)
            time.sleep(0.6)
            os.kill(running.pid, signal.SIGCONT)

        stopper = trials.Background(stop_for_a_while)
        raw = load.run()
        stopper.finish()
    # About 300 of 1000 arrivals fall into the pause; 4 requests were under way in it.
    assert quantile(raw["histograms"], 0.99) > 0.3
    assert quantile(raw["service"], 0.99) < 0.1 * quantile(raw["histograms"], 0.99)
    assert raw["backlog_peak"] > 200


def test_a_server_that_never_comes_back_leaves_its_requests_unfinished():
    with Server("synthetic", "select") as running:
        load = start(running, warmup=0.1, window=1.0, arrival_rate=1000, clients=4)

        def stop():
            time.sleep(0.6)
            os.kill(running.pid, signal.SIGSTOP)

        stopper = trials.Background(stop)
        try:
            raw = load.run()
            stopper.finish()
        finally:
            os.kill(running.pid, signal.SIGCONT)
    assert raw["unfinished"] > 300
    # Ages of arrivals that come evenly over the half second: its half on average.
    assert 0.1e9 < raw["unfinished_ns"] / raw["unfinished"] < 0.4e9
    assert raw["in_system_ns"] == raw["sojourn_ns"]


def test_the_backlog_under_overload_grows_by_the_excess_of_the_rate():
    with Server(
        "synthetic", "queues", {"demand": "0.002", "demand_kind": "sleep", "workers": "1"}
    ) as running:
        raw = run(running, window=1.0, arrival_rate=3000, clients=4, demand=0.002, demand_kind="sleep")
    delivered = trials.answered(raw) / seconds(raw)
    assert delivered < 1000
    growth = raw["backlog"][1] - raw["backlog"][0]
    assert growth == pytest.approx((raw["planned"] / seconds(raw) - delivered) * seconds(raw), abs=8)
    assert raw["backlog"][1] == raw["backlog_peak"] or raw["backlog_peak"] - raw["backlog"][1] < 50
    assert quantile(raw["histograms"], 0.99) > 10 * quantile(raw["service"], 0.99)


def test_too_many_waiting_are_counted_as_overload():
    with Server("synthetic", "queues", {"demand": "0.1", "demand_kind": "sleep", "workers": "1"}) as running:
        raw = run(running, warmup=0.0, window=0.8, arrival_rate=10_000_000, clients=1, demand=0.1)
    assert raw["errors"]["overloaded"] > 0
    assert raw["backlog"][1] + raw["errors"]["overloaded"] + raw["sent"] == raw["planned"]
    assert raw["in_system_ns"] == raw["sojourn_ns"]


def test_replies_are_read_however_many_arrivals_are_due():
    with Server("synthetic", "select") as running:
        raw = run(running, warmup=0.0, window=0.6, arrival_rate=10_000_000, clients=1000)
    # At most 256 arrivals in a turn; were all of them taken at once, each turn would double the next one's.
    assert raw["end"]["polls"] - raw["start"]["polls"] > 200
    assert raw["in_system_ns"] == raw["sojourn_ns"]


def test_an_open_load_stops_and_says_so_when_nobody_listens():
    with Server("synthetic", "select") as running:
        load = start(running, window=60.0)
        background = trials.Background(load.run)
        time.sleep(0.2)
        load.stop()
        with pytest.raises(LoadError, match=r"^the load was stopped$"):
            background.finish(10)
        port = running.port
    with pytest.raises(LoadError, match=r"^only 0 of 100 clients could connect: connections are refused$"):
        Load("open", "synthetic", {}, "127.0.0.1", port, 1, 0.0, 0.1).run()
