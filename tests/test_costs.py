"""Costs survive JSON, and say what is missing."""

from __future__ import annotations

import json
import math

import pytest

from models import Scenario, predict
from models.costs import Cost, Costs, Covariance, Demand, MissingCost, Row, demand_key

SCENARIO = Scenario.of("prime", "queues")
DEMAND = Demand((0, 0), (1e-7, 2e-7), (3e-7, 4e-7), ((1e-4, 2e-4), (3e-4,)), 1)
TABLE = {
    "load.event": Cost(5e-6, 4e-6, 6e-6, "ladder"),
    "queues.spin_held": Cost(0.4, 0.3, 0.5, "ladder", "share"),
    "load.poll": Cost(4e-7),
}
KNOWN = Costs(
    2,
    TABLE,
    {demand_key(SCENARIO): DEMAND},
    {"condition": 8.5, "residual": math.nan},
    {"yardstick": 1e-3, "kernel": "6.1", "revision": None},
    Covariance(("load.event", "load.poll"), ((4e-14, -1e-14), (-1e-14, 9e-14))),
    (Row("probe readiness", 4.2e-7, 4e-7, 1e-8),),
)


def same(a: Cost, b: Cost) -> bool:
    pairs = zip((a.value, a.low, a.high), (b.value, b.low, b.high), strict=True)
    return all(x == y or (math.isnan(x) and math.isnan(y)) for x, y in pairs) and (a.source, a.unit) == (
        b.source,
        b.unit,
    )


def test_costs_survive_json() -> None:
    text = json.dumps(KNOWN.to_json(), allow_nan=False)
    again = Costs.from_json(json.loads(text))
    assert again.cpus == KNOWN.cpus
    assert again.provenance == KNOWN.provenance
    assert again.table.keys() == TABLE.keys() and all(same(again.table[name], TABLE[name]) for name in TABLE)
    assert again.demands == KNOWN.demands
    assert again.covariance == KNOWN.covariance and again.rows == KNOWN.rows
    assert again.quality["condition"] == 8.5 and math.isnan(again.quality["residual"])
    assert json.dumps(again.to_json(), allow_nan=False) == text


def test_the_variance_of_a_sum_has_its_covariances() -> None:
    assert KNOWN.covariance.of({"load.event": 2.0, "load.poll": 1.0}) == pytest.approx(
        4 * 4e-14 + 9e-14 - 4e-14
    )
    assert KNOWN.covariance.of({"queues.worker": 1.0}) == 0.0


def test_a_row_says_what_it_is_missed_by() -> None:
    assert KNOWN.rows[0].standardised == pytest.approx(2.0)


@pytest.mark.parametrize(
    "field",
    ["cpus", "table", "demands", "quality", "provenance", "covariance", "rows"],
)
def test_a_document_that_lacks_a_part_is_not_costs(field: str) -> None:
    document = KNOWN.to_json()
    del document[field]
    with pytest.raises(KeyError, match=field):
        Costs.from_json(document)


def test_costs_without_interval_have_none() -> None:
    assert Cost(1.0).to_json() == {"value": 1.0, "low": None, "high": None, "unit": "s", "source": ""}


def test_mean_demand_counts_parsing_and_tasks() -> None:
    assert DEMAND.mean == pytest.approx((1e-7 + 2e-7 + 3e-4 + 3e-4) / 2)


def test_a_missing_cost_says_which_and_what_to_do() -> None:
    assert KNOWN["load.event"] == 5e-6
    with pytest.raises(
        MissingCost, match=r"^no cost machine\.switch: run python -m harness calibrate --refresh$"
    ):
        KNOWN["machine.switch"]
    with pytest.raises(MissingCost, match="no cost machine"):
        predict(SCENARIO, KNOWN)


def test_a_missing_demand_says_whose() -> None:
    assert KNOWN.demand(SCENARIO) is DEMAND
    for other in (
        Scenario.of("stock", "queues"),
        SCENARIO.with_options(chunk=5),
        SCENARIO.with_options(bits=20),
    ):
        with pytest.raises(MissingCost, match=f"demand of service {other.service} "):
            KNOWN.demand(other)


def test_a_demand_does_not_depend_on_server_or_load() -> None:
    assert demand_key(SCENARIO) == demand_key(
        SCENARIO.with_options(workers=9, clients=3, wait="spin", think=1)
    )
    assert demand_key(Scenario.of("stock", "select")) == demand_key(Scenario.of("stock", "sbuf"))
    assert demand_key(SCENARIO) != demand_key(SCENARIO.with_options(seed=2))


def test_demands_are_added_without_touching_the_rest() -> None:
    key = demand_key(Scenario.of("stock", "select"))
    more = KNOWN.with_demands({key: DEMAND})
    assert more.demands.keys() == {demand_key(SCENARIO), key}
    assert key not in KNOWN.demands and more.table is KNOWN.table
