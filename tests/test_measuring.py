"""What is made of a measurement: metrics with intervals, from records whose figures are known."""

import copy
import math
import statistics
import time

import fakes
import pytest
import wire
from pyx.load import bucket_of

from harness import measuring, recorded
from harness.cell import Replicate
from models import quantiles
from models.scenario import Scenario

SCENARIO = Scenario.of("synthetic", "sbuf", options={"clients": 8, "workers": 2})
CPUS = fakes.CPUS


def clean(rate=10_000):
    return fakes.clean(SCENARIO, rate)


def cell(*records):
    replicates = [Replicate(f"r{i}", 0.0, i, record) for i, record in enumerate(records)]
    return measuring.cell_of(SCENARIO, replicates)


def test_metrics_of_a_known_record():
    measured = cell(clean()).measured
    assert measured.throughput.value == pytest.approx(10_000)
    assert math.isnan(measured.throughput.low)
    assert measured.response.value == pytest.approx(8 / 10_000)
    assert measured.p50 == pytest.approx(8 / 10_000, rel=1e-3)
    assert measured.utilisation["server_cpu"] == pytest.approx(0.5 / CPUS)
    assert measured.utilisation["load_thread"] == pytest.approx(1 / 3)
    assert measured.utilisation["worker"] == pytest.approx(0.125)


def test_intervals_are_over_replicates():
    rates = [9_000, 10_000, 11_000]
    measured = recorded.metrics_of([clean(rate) for rate in rates])
    # Student's 97.5 % quantile with 2 degrees of freedom is 4.302653 (any table).
    factor = math.exp(4.302653 * statistics.stdev(map(math.log, rates)) / math.sqrt(3))
    assert measured.throughput.high == pytest.approx(10_000 * factor, rel=1e-6)
    assert measured.throughput.low == pytest.approx(10_000 / factor, rel=1e-6)


def spread(*values):
    counts = {}
    for value in values:
        counts[bucket_of(value)] = counts.get(bucket_of(value), 0) + 1
    rows = [list(row) for row in sorted(counts.items())]
    return {"count": len(values), "sum": sum(values), "min": min(values), "max": max(values), "buckets": rows}


def test_quantiles_by_nearest_rank():
    merged = quantiles.merge([spread(*range(1, 51)), spread(*range(51, 101))])
    for q, rank in ((0.5, 50), (0.9, 90), (0.99, 99), (1.0, 100), (0.001, 1)):
        assert quantiles.quantile(merged, q) == pytest.approx(rank * 1e-9)
    nothing = quantiles.merge([])
    assert math.isnan(quantiles.quantile(nothing, 0.5)) and math.isnan(quantiles.mean(nothing))


def test_operations_are_told_apart():
    record = clean()
    record["histograms"] = {
        "buy": spread(1000, 3000),
        "sell": spread(*[5000] * 6),
        "show": {**spread(1), "count": 0},
    }
    measured = recorded.metrics_of([record])
    assert measured.operations == {
        "buy": (pytest.approx(2.0), pytest.approx(2e-6)),
        "sell": (pytest.approx(6.0), pytest.approx(5e-6)),
    }


def test_a_real_replicate_keeps_its_accounts():
    before = wire.descriptors().keys()
    started = time.time()
    replicate = measuring.measure_once(
        Scenario.of("stock", "select", options={"clients": 5}), window=0.2, warmup=0.05, block=3
    )
    record = copy.deepcopy(replicate.record)
    assert replicate.block == 3 and started <= replicate.started <= time.time()
    assert set(record["histograms"]) == {"show", "buy", "sell"}
    assert record["window"] == 200_000_000 and record["clients"] == 5
    assert sum(record["bins"]["count"]) == sum(record["client_counts"]) == recorded.replies(record)
    assert record["roles"]["loop"]["requests"] == pytest.approx(
        recorded.replies(record) * record["edge"]["time"] / record["window"], rel=0.05, abs=50
    )
    broken = {mark.check for mark in measuring.cell_of(SCENARIO, [replicate]).broken}
    assert not broken & {
        "accounting",
        "connecting",
        "replies",
        "no_replies",
        "order_statistics",
        "cpu_accounts",
    }
    assert wire.descriptors().keys() == before
