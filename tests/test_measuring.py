"""What is made of a measurement: each mark and finding appears on its own evidence and on no other."""

import copy
import math
import statistics
import time

import fakes
import pytest
import wire
from pyx.load import bucket_of

from harness import audit, measuring
from harness.cell import Replicate
from models import quantiles
from models.scenario import Scenario

SCENARIO = Scenario.of("synthetic", "sbuf", options={"clients": 8, "workers": 2})
CPUS = 2


def clean(rate=10_000):
    """A record that nothing can be held against."""
    record = fakes.record(SCENARIO, rate, 1.0)
    record["edge"] |= {"idle": record["edge"]["time"] * CPUS // 4}
    record |= {"cpus": CPUS, "neighbours": 0.0, "steal": 0.0}
    return record


def cell(*records):
    replicates = [Replicate(f"r{i}", 0.0, i, record) for i, record in enumerate(records)]
    return measuring.cell_of(SCENARIO, replicates)


def marks(*records):
    return {mark.check for mark in cell(*records).broken}


def findings(*records):
    return {finding.name for finding in cell(*records).findings}


def lost_time(record):
    record["response"] = int(record["response"] * 0.95)


def invented_time(record):
    record["think"] = int(0.02 * record["clients"] * record["window"])


def unconnected(record):
    moved = int(0.02 * record["response"])
    record["response"] -= moved
    record["connecting"] += moved


def one_wrong(record):
    record["errors"] = {"wrong": 1, "reset": 0}


def one_timeout(record):
    record["errors"] = {"timeout": 1}


def silence(record):
    record["histograms"]["work"] = {"count": 0, "sum": 0, "min": 0, "max": 0, "buckets": []}


def mean_above_maximum(record):
    record["histograms"]["work"]["sum"] *= 2


def missing_in_buckets(record):
    record["histograms"]["work"]["buckets"][0][1] -= 1


def slows_down(record):
    record["bins"]["count"] = [600] * 10 + [400] * 10


def impossible_processor_time(record):
    record["edge"]["server_cpu"] = 2 * record["edge"]["time"] * CPUS
    record["edge"]["load_cpu"] = 0


def neighbours(record):
    record["neighbours"] = 0.2


def stolen(record):
    record["steal"] = 0.05 * CPUS


BREAKS = [
    (lost_time, {"accounting"}),
    (invented_time, {"accounting"}),
    (unconnected, {"connecting"}),
    (one_wrong, {"replies"}),
    (one_timeout, {"replies"}),
    (silence, {"no_replies"}),
    (mean_above_maximum, {"order_statistics"}),
    (missing_in_buckets, {"order_statistics"}),
    (slows_down, {"stationarity"}),
    (impossible_processor_time, {"cpu_accounts"}),
    (neighbours, {"neighbours"}),
    (stolen, {"steal"}),
]


def test_a_clean_cell_has_no_marks_and_no_findings():
    found = cell(clean(), clean(), clean())
    assert not found.broken and not found.findings


@pytest.mark.parametrize(("spoil", "expected"), BREAKS, ids=[spoil.__name__ for spoil, _ in BREAKS])
def test_each_mark_fires_on_its_evidence_only(spoil, expected):
    spoilt = clean()
    spoil(spoilt)
    assert marks(spoilt) == expected
    others = [clean(), spoilt, clean()]
    if spoil not in (neighbours, slows_down, stolen, impossible_processor_time):
        assert marks(*others) == expected, "one bad replicate of three is enough"


def test_every_mark_is_tried():
    assert set().union(*(expected for _, expected in BREAKS)) == set(audit.LIMITS)


def test_marks_say_what_was_found_and_the_limit():
    spoilt = clean()
    lost_time(spoilt)
    (mark,) = cell(spoilt).broken
    assert mark.value == pytest.approx(0.05) and mark.limit == audit.LIMITS["accounting"]


def test_connecting_is_work_where_each_request_has_its_connection():
    scenario = SCENARIO.with_options(connection="per_request")
    spoilt = clean()
    unconnected(spoilt)
    assert not measuring.cell_of(scenario, [Replicate("r", 0.0, 0, spoilt)]).broken


def test_scatter_alone_is_not_drift():
    noisy = clean()
    noisy["bins"]["count"] = [700, 300] * 5 + [600, 300] * 5
    assert "stationarity" not in marks(noisy)


def busy_generator(record):
    record["edge"]["load_cpu"] = int(0.97 * record["edge"]["time"])
    record["edge"]["server_cpu"] = 0


def busy_machine(record):
    record["edge"]["load_cpu"] = int(0.49 * record["edge"]["time"])
    record["edge"]["server_cpu"] = int((0.98 * CPUS - 0.49) * record["edge"]["time"])


def busy_workers(record):
    record["roles"]["worker"]["busy_ns"] = int(0.98 * 2 * record["edge"]["time"])


def waiting_for_locks(record):
    record["roles"]["worker"]["lock_wait_ns"] = int(0.3 * record["response"])


def thoughtful(record):
    moved = int(0.95 * record["response"])
    record["response"] -= moved
    record["think"] += moved


def one_starved(record):
    record["client_counts"][3] = 10


SHOWS = [
    (busy_generator, {"load_limited"}),
    (busy_machine, {"cpu_limited"}),
    (busy_workers, {"worker_limited"}),
    (waiting_for_locks, {"lock_limited"}),
    (thoughtful, {"think_limited"}),
    (one_starved, {"starved"}),
]


@pytest.mark.parametrize(("change", "expected"), SHOWS, ids=[change.__name__ for change, _ in SHOWS])
def test_each_finding_appears_on_its_evidence_only(change, expected):
    record = clean()
    change(record)
    assert findings(record) == expected
    assert not marks(record)


def test_every_finding_is_tried():
    assert set().union(*(expected for _, expected in SHOWS)) == set(audit.FINDINGS)


def test_few_replies_name_nobody_starved():
    record = clean()
    record["client_counts"] = [20] * 7 + [0]
    assert "starved" not in findings(record)


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
    measured = measuring.metrics_of([clean(rate) for rate in rates])
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
    measured = measuring.metrics_of([record])
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
    assert sum(record["bins"]["count"]) == sum(record["client_counts"]) == measuring.replies(record)
    assert record["roles"]["loop"]["requests"] == pytest.approx(
        measuring.replies(record) * record["edge"]["time"] / record["window"], rel=0.05, abs=50
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
