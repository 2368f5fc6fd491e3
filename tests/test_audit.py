"""Marks and findings: each is given on its own evidence and on no other."""

import copy
import json
import math

import fakes
import numpy as np
import pytest
from pyx.load import bucket_of

from harness import measuring, recorded
from harness.judging import audit, marks
from harness.judging.marks import BROKEN, FINDING, TABLE
from models.metrics import Finding, Mark
from models.scenario import Scenario

SCENARIO = Scenario.of("synthetic", "sbuf", options={"clients": 8, "workers": 2})
RATE = 10_000
# Made by hand, as the audit needs its knobs only: 8 connections at most, 10,000 arrivals a second.
OPEN = Scenario("synthetic", "sbuf", "open", (("arrival_rate", float(RATE)), ("clients", 8), ("workers", 2)))


def closed():
    return fakes.clean(SCENARIO, RATE)


def opened():
    """A clean record of an open load: everything that was planned was sent and answered at once."""
    record = fakes.clean(OPEN, RATE)
    response = 100_000
    row = histogram(response, RATE)
    record |= {"planned": RATE, "sent": RATE, "backlog": [0, 0], "backlog_peak": 1}
    record["bins"]["planned"] = [RATE // fakes.BINS] * fakes.BINS
    record |= {
        "histograms": {"work": row},
        "service": {"work": copy.deepcopy(row)},
        "lag": histogram(2_000, RATE),
    }
    record |= {"response": response * RATE, "think": 8 * record["window"] - response * RATE}
    record["bins"]["response"] = [response * RATE // fakes.BINS] * fakes.BINS
    return record


def histogram(value, count):
    rows = [[bucket_of(value), count]]
    return {"count": count, "sum": value * count, "min": value, "max": value, "buckets": rows}


def judged(scenario, *records, **known):
    """The names of all marks and findings of these replicates."""
    measured = recorded.metrics_of(records)
    broken, findings = audit.judge(scenario, records, measured, **known)
    return {mark.check for mark in broken} | {finding.name for finding in findings}


def lost_time(record):
    state = "think" if record["think"] else "response"
    record[state] = int(record[state] * 0.95)


def invented_time(record):
    record["think"] += int(0.02 * record["clients"] * record["window"])


def lost_sojourns(record):
    record |= {"in_system_ns": 1_000_000, "sojourn_ns": 1_050_000}


def unconnected(record):
    moved = int(0.02 * record["clients"] * record["window"])
    state = "think" if record["think"] else "response"
    record[state] -= moved
    record["connecting"] += moved


def one_wrong(record):
    record["errors"] = {"wrong": 1, "reset": 0}


def one_wrong_before(record):
    record["errors_outside"] = {"wrong": 1}


def one_timeout(record):
    record["errors"] = {"timeout": 1}


def silence(record):
    record["histograms"]["work"] = {"count": 0, "sum": 0, "min": 0, "max": 0, "buckets": []}
    record |= {"planned": 0, "sent": 0} if "planned" in record else {}


def mean_above_maximum(record):
    record["histograms"]["work"]["sum"] *= 2


def missing_in_buckets(record):
    record["histograms"]["work"]["buckets"][0][1] -= 1


def service_above_response(record):
    record["service"]["work"] = histogram(2 * record["histograms"]["work"]["min"], RATE)


def missing_in_all_buckets(record):
    row = record["histograms"]["work"]
    row["buckets"] = [[bucket, 1] for bucket, _ in row["buckets"]]


def slows_down(record):
    record["bins"]["count"] = [600] * 10 + [400] * 10


def climbs(record):
    # So much scatter that the halves alone do not tell, but a straight line through all twenty does.
    record["bins"]["count"] = [434 + 7 * i + (-1) ** i * 50 for i in range(20)]


def stands_still(record):
    record["bins"]["count"] = [625] * 8 + [0] * 4 + [625] * 8


def impossible_processor_time(record):
    record["edge"]["server_cpu"] = 2 * record["edge"]["time"] * fakes.CPUS
    record["edge"]["load_cpu"] = 0


def idle_and_busy_at_once(record):
    record["edge"]["idle"] = int(1.8 * record["edge"]["time"])


def client_missing(record):
    record["clients"] = 7
    record["response"] = 7 * record["window"]


def arrivals_withheld(record):
    record["sent"] = int(0.95 * record["planned"])


def another_rate(record):
    record |= {"planned": int(0.9 * RATE), "sent": int(0.9 * RATE)}
    record["histograms"] = {"work": histogram(100_000, int(0.9 * RATE))}
    record["service"] = copy.deepcopy(record["histograms"])


def neighbours(record):
    record["neighbours"] = 0.2


def stolen(record):
    record["steal"] = 0.05 * fakes.CPUS


def busy_generator(record):
    record["edge"]["load_cpu"] = int(0.97 * record["edge"]["time"])
    record["edge"]["server_cpu"] = 0


def busy_machine(record):
    record["edge"]["load_cpu"] = int(0.49 * record["edge"]["time"])
    record["edge"]["server_cpu"] = int((0.98 * fakes.CPUS - 0.49) * record["edge"]["time"])
    record["edge"]["idle"] = 0


def busy_workers(record):
    record["roles"]["worker"]["busy_ns"] = int(0.98 * 2 * record["edge"]["time"])


def waiting_for_locks(record):
    response = sum(h["sum"] for h in record["histograms"].values())
    record["roles"]["worker"]["lock_wait_ns"] = int(0.3 * response)


def thoughtful(record):
    moved = int(0.95 * record["response"])
    record["response"] -= moved
    record["think"] += moved


def one_starved(record):
    record["client_counts"][3] = 10


def waiting_for_a_connection(record):
    answered = int(0.8 * RATE)
    record |= {
        "sent": answered + 8,
        "backlog": [100, 100 + RATE - answered - 8],
        "backlog_peak": RATE - answered,
    }
    record["histograms"] = {"work": histogram(100_000_000, answered)}
    record["service"] = {"work": histogram(800_000, answered)}


def slowing_server(record):
    """Connections enough that nothing waits for one: the queue is in the server, and responses grow with it."""
    answered = int(0.9 * RATE)
    record["histograms"] = {"work": histogram(50_000_000, answered)}
    record["service"] = copy.deepcopy(record["histograms"])
    record["bins"]["response"] = [1_000_000 * (i + 1) for i in range(fakes.BINS)]


def listen_overflow(record):
    record["net"]["listen_overflows"] = 3


def connection_asked_for_again(record):
    record["net"] |= {"syn_retransmissions": 2, "retransmissions": 2}


def late_generator(record):
    record["lag"] = histogram(2 * record["histograms"]["work"]["min"], RATE)


def sent_again(record):
    record["net"]["retransmissions"] = RATE // 100


FAULTS = [
    (lost_time, "accounting", "both"),
    (invented_time, "accounting", "both"),
    (lost_sojourns, "accounting", "open"),
    (unconnected, "connecting", "both"),
    (one_wrong, "replies", "both"),
    (one_wrong_before, "replies", "both"),
    (one_timeout, "replies", "both"),
    (silence, "no_replies", "closed"),
    (mean_above_maximum, "order_statistics", "closed"),
    (missing_in_buckets, "order_statistics", "closed"),
    (missing_in_all_buckets, "order_statistics", "closed"),
    (service_above_response, "order_statistics", "open"),
    (slows_down, "stationarity", "both"),
    (climbs, "stationarity", "both"),
    (stands_still, "stationarity", "both"),
    (impossible_processor_time, "cpu_accounts", "closed"),
    (idle_and_busy_at_once, "cpu_accounts", "both"),
    (client_missing, "delivered", "closed"),
    (arrivals_withheld, "delivered", "open"),
    (another_rate, "delivered", "open"),
    (neighbours, "neighbours", "both"),
    (stolen, "steal", "both"),
    (busy_generator, "load_limited", "both"),
    (busy_machine, "cpu_limited", "both"),
    (busy_workers, "worker_limited", "both"),
    (waiting_for_locks, "lock_limited", "both"),
    (thoughtful, "think_limited", "closed"),
    (one_starved, "starved", "closed"),
    (waiting_for_a_connection, "overloaded", "open"),
    (slowing_server, "overloaded", "open"),
    (listen_overflow, "refused", "both"),
    (connection_asked_for_again, "refused", "both"),
    (late_generator, "late", "open"),
    (sent_again, "retransmissions", "both"),
]
CASES = [
    pytest.param(spoil, name, load, id=f"{spoil.__name__}-{load}")
    for spoil, name, loads in FAULTS
    for load in (("open", "closed") if loads == "both" else (loads,))
]
OF_ALL = ("stationarity", "neighbours", "steal", "cpu_accounts")  # judged over the replicates together


def test_clean_cells_have_no_marks_and_no_findings():
    assert judged(SCENARIO, closed(), closed(), closed()) == set()
    assert judged(OPEN, opened(), opened(), opened()) == set()


@pytest.mark.parametrize(("spoil", "expected", "load"), CASES)
def test_each_is_given_on_its_evidence_only(spoil, expected, load):
    scenario, make = (OPEN, opened) if load == "open" else (SCENARIO, closed)
    spoilt = make()
    spoil(spoilt)
    assert judged(scenario, spoilt) == {expected}
    if TABLE[expected].kind == BROKEN and expected not in OF_ALL:
        assert judged(scenario, make(), spoilt, make()) == {expected}, "one bad replicate of three is enough"


def test_the_machine_and_the_ceiling_are_told_from_outside():
    assert judged(SCENARIO, closed(), drift=-0.06) == {"drift"}
    assert judged(SCENARIO, closed(), drift=0.04) == set()
    assert judged(SCENARIO, closed(), ceiling=RATE / 0.97) == {"load_limited"}
    assert judged(SCENARIO, closed(), ceiling=RATE / 0.9) == set()
    assert judged(SCENARIO, closed(), ceiling=RATE / 1.3) == set(), "what is exceeded by far is no ceiling"
    per_request = SCENARIO.with_options(connection="per_request")
    assert judged(per_request, closed(), ceiling=RATE) == set(), "the null server's connections are kept"
    threads = SCENARIO.with_options(load_threads=2)
    assert judged(threads, closed(), ceiling=RATE) == set(), "the ceiling is that of one thread"


def test_every_mark_and_finding_is_tried():
    tried = (
        {name for _, name, _ in FAULTS} | {"drift"} | {"over_unity", "unattributed"}
    )  # the last in test_importers
    assert tried == set(TABLE)


def test_the_table_says_what_each_means_and_what_to_do():
    for name, rule in TABLE.items():
        assert rule.kind in (BROKEN, FINDING) and rule.unit and rule.says and rule.todo, name
        assert not rule.says.endswith(".") and math.isfinite(rule.limit)
    assert set(audit.CHECKS) < set(marks.names(BROKEN)) and set(marks.limits()) == set(TABLE)


def test_marks_and_findings_carry_figure_limit_and_words():
    spoilt = closed()
    lost_time(spoilt)
    busy_workers(spoilt)
    broken, findings = audit.judge(SCENARIO, [spoilt], recorded.metrics_of([spoilt]))
    rule = TABLE["accounting"]
    assert broken == (Mark("accounting", pytest.approx(0.05), 0.01, rule.unit, rule.says, rule.todo),)
    assert [finding.name for finding in findings] == ["worker_limited"] and findings[0].limit == 0.95
    for kind, row in ((Mark, broken[0]), (Finding, findings[0])):
        assert kind.from_json(json.loads(json.dumps(row.to_json()))) == row
    old = {"check": "steal", "value": 0.1, "limit": 0.02}
    assert Mark.from_json(old) == Mark("steal", 0.1, 0.02)


def test_what_the_scenario_provokes_is_no_mark():
    spoilt = closed()
    unconnected(spoilt)
    assert judged(SCENARIO.with_options(connection="per_request"), spoilt) == set()
    forked = Scenario("synthetic", "sbuf", "forked", (("clients", 8),))
    spoilt = closed()
    slows_down(spoilt)
    assert judged(forked, spoilt) == set(), "it starts and ends inside its window"


def test_scatter_bursts_and_few_replies_are_no_fault():
    noisy = closed()
    noisy["bins"]["count"] = [700, 300] * 5 + [600, 300] * 5
    assert judged(SCENARIO, noisy) == set()
    bursts = closed()  # every 0.2 s, as workers that all sleep as long answer
    bursts["bins"]["count"] = [650, 650, 650, 50] * 5
    bursts["histograms"]["work"] |= histogram(200_000_000, RATE)
    assert judged(SCENARIO, bursts) == set()
    few = closed()
    few["client_counts"] = [20] * 7 + [0]
    few["bins"]["count"] = [3, 0, 4, 2, 0, 0, 0, 3, 1, 2] * 2
    assert judged(SCENARIO, few) == set()


def test_a_change_that_the_schedule_made_is_not_the_servers():
    followed = opened()
    slows_down(followed)
    assert judged(OPEN, followed) == {"stationarity"}, "the schedule was even"
    followed["bins"]["planned"] = list(followed["bins"]["count"])
    assert judged(OPEN, followed) == set()
    level = opened()
    level["bins"]["planned"] = list(followed["bins"]["count"])
    assert judged(OPEN, level) == set(), "it answers what it can"


def test_a_steady_climb_is_seen_where_the_halves_alone_do_not_tell():
    record = closed()
    climbs(record)
    bins = np.array([record["bins"]["count"]], dtype=float)
    assert audit._halves(bins) == 0 and audit._slope(bins) > TABLE["stationarity"].limit


def test_requests_under_way_after_a_short_warmup_are_no_overload():
    record = opened()
    record["histograms"] = {
        "work": histogram(50_000_000, RATE - 500)
    }  # 500 on their way, each as long as any
    record["service"] = copy.deepcopy(record["histograms"])
    assert judged(OPEN, record) == set()


def test_figures_that_are_not_known_show_nothing():
    record = closed()
    record["edge"] |= {"server_cpu": None, "idle": None}
    record |= {"neighbours": None, "net": dict.fromkeys(record["net"])}
    del record["errors_outside"]
    assert judged(SCENARIO, record) == set()


def test_a_replicate_records_what_the_network_did():
    replicate = measuring.measure_once(
        Scenario.of("synthetic", "select", options={"clients": 2}), window=0.05, warmup=0.01
    )
    assert set(replicate.record["net"]) == set(closed()["net"])
    assert all(value is None or value >= 0 for value in replicate.record["net"].values())
