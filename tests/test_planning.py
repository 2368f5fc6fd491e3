"""What becomes of a request: parts and values chosen, errors said, cells and the order of visits."""

import json
import math
from dataclasses import replace

import pytest

from harness import request, sweeping
from harness.deciding import stopping
from harness.errors import HarnessError
from harness.plan import CELL, CONTROL, NULL, Plan
from harness.request import Request

SYSTEM = {"service": "synthetic", "server": "queues"}


def test_the_default_sweep_is_the_prime_server_waiting_in_both_ways():
    plan = request.make(Request(("workers",)))
    assert (plan.service, plan.server, plan.load) == ("prime", "queues", "closed")
    assert plan.variables == (("workers", (1, 2, 3, 4, 6, 8)),)
    assert plan.options == (("wait", ("spin", "block")),)
    visits = sum(len(plan.visits(block)) for block in range(plan.reps))
    assert plan.seconds(visits) * stopping.STRETCH <= 120


@pytest.mark.parametrize(
    ("asked", "service", "server"),
    [
        (Request(("clients",), service="stock", server="select"), "stock", "select"),
        (Request(("clients",), service="stock"), "stock", "sbuf"),
        (Request(("clients",), server="select"), "stock", "select"),
        (Request(("clients",), server="queues"), "prime", "queues"),
        (Request(("queue_slots",)), "stock", "sbuf"),
        (Request(("demand",), options=(("steal", "next"),)), "synthetic", "queues"),
        (Request(("clients",), options=(("array", "10"),)), "prime", "queues"),
    ],
)
def test_what_is_not_said_is_chosen_to_suit(asked, service, server):
    plan = request.make(asked)
    assert (plan.service, plan.server) == (service, server)
    assert "wait" not in dict(plan.options)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (Request(), "--var"),
        (Request(("wrkers",), service="prime"), "did you mean workers"),
        (Request(("workers",), service="prme"), "did you mean prime"),
        (Request(("workers",), server="queue"), "did you mean queues"),
        (Request(("workers",), load="bursts"), "no such load"),
        (Request(("workers",), service="stock", server="select"), "has no such knob (it belongs to"),
        (Request(("workers",), ("0:4",)), "outside 1:256"),
        (Request(("workers",), ("1", "2")), "--values given 2 times"),
        (Request(("workers", "workers")), "given twice"),
        (Request(("workers",), options=(("workers", "2"),)), "both --var and --set"),
        (Request(("workers",), options=(("steal", "nxt"),)), "did you mean next"),
        (Request(("clients",), ("2000",), service="stock", server="select"), "FD_SETSIZE"),
        (Request(("wait",)), "--set wait=spin --set wait=block"),
        (Request(("workers",), reps=0), "--reps 0: outside 1:1000"),
        (Request(("workers",), window=0.0), "--time 0.0: outside"),
        (Request(("workers",), window=math.nan), "--time nan: outside"),
        (Request(("workers",), warmup=-1.0), "--warmup -1.0: outside"),
        (Request(("workers",), seed=-1), "--seed -1: outside"),
        (Request(("workers",), precision=0.0), "--precision 0.0: outside 0.0001:1"),
        (Request(("workers",), budget=-1.0), "--budget -1.0: outside 0:1e+06 s"),
        (Request(("workers",), sample=0.0), "--sample 0.0: outside 0.01:3600 s"),
        (Request(("workers", "array"), ("1:256", "1:100")), "take wider steps"),
    ],
)
def test_a_wrong_request_is_said_before_anything_is_written(asked, says, tmp_path):
    with pytest.raises(HarnessError) as caught:
        sweeping.open_for(asked, tmp_path / "x.sqlite", resume=False)
    assert says in str(caught.value) and caught.value.usage
    assert list(tmp_path.iterdir()) == []


def test_a_grid_and_settings_given_twice_make_series():
    plan = request.make(
        Request(
            ("steal", "workers", "chunk"),
            ("none,next", "4,1", "5"),
            options=(("wait", "spin"), ("wait", "block")),
        )
    )
    assert plan.axis == "workers"
    assert len(plan.cells()) == 2 * 2 * 2
    fixed = {cell.fixed for cell in plan.cells()}
    assert {(dict(f)["wait"], dict(f)["steal"], dict(f)["chunk"]) for f in fixed} == {
        (wait, steal, 5) for wait in ("spin", "block") for steal in ("none", "next")
    }
    assert [cell.x for cell in plan.cells()][:2] == [1.0, 4.0]


def test_every_block_visits_everything_once_in_its_own_order_and_a_seed_repeats_it():
    plan = request.make(Request(("workers",), ("1:8",), seed=3, **SYSTEM))
    orders = [[visit.name for visit in plan.visits(block)] for block in range(5)]
    assert len({tuple(order) for order in orders}) == 5
    for order in orders:
        assert sorted(order) == sorted(orders[0]) and len(set(order)) == len(order) == 8 + 2
    again = request.make(Request(("workers",), ("1:8",), seed=3, **SYSTEM))
    assert [visit.name for visit in again.visits(2)] == orders[2]
    firsts = {plan.visits(block)[0].name for block in range(60)}
    assert len(firsts) == 10  # no visit is always late: all of them come first somewhere
    kinds = [visit.kind for visit in plan.visits(0)]
    assert (kinds.count(CELL), kinds.count(CONTROL), kinds.count(NULL)) == (8, 1, 1)
    null = next(visit.scenario for visit in plan.visits(0) if visit.kind == NULL)
    assert (null.service, null.server, null["demand"], null["clients"]) == ("synthetic", "select", 0.0, 16)


def test_a_plan_from_before_there_were_stopping_rules_is_what_it_was():
    plan = request.make(Request(("workers",)))
    old = {
        name: value for name, value in plan.to_json().items() if name not in ("precision", "budget", "sample")
    }
    assert Plan.from_json(old) == replace(plan, budget=0.0)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
