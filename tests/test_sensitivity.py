"""Elasticities are those of theory, from fewer replies than other ways need, and shares say who brings in the variance."""

import math
from dataclasses import replace
from itertools import count

import known_costs
import numpy as np
import pytest

from models import sensitivity, uncertainty
from models.costs import Cost
from models.scenario import Scenario
from models.sensitivity import CLIENT, MODEL, SERVICE

SCENARIO = Scenario.of("stock", "sbuf")
PARTS = {name: weight for weight, name in enumerate(sorted(known_costs.VALUES)[:10], 1)}
LOAD = 0.6
WHOLE = 1 / (1 - LOAD)  # elasticity of an M/M/1 queue's response to its whole demand: R = D/(1 − λD)


class Queue:
    """Mean response of an M/M/1 queue whose service time is a sum of costs, one part each of known weight."""

    def __init__(self, costs, customers, in_step, seed=1):
        self.base = {name: weight / sum(PARTS.values()) / costs[name] for name, weight in PARTS.items()}
        self.customers, self.in_step, self.seeds = customers, in_step, count(1000 * seed)

    def __call__(self, costs):
        random = np.random.default_rng(7 if self.in_step else next(self.seeds))
        demand = sum(factor * costs[name] for name, factor in self.base.items())
        serve = random.exponential(demand, self.customers)
        path = np.concatenate(([0.0], np.cumsum(serve - random.exponential(1 / LOAD, self.customers))))[:-1]
        return float((path - np.minimum.accumulate(path) + serve).mean())


TRUTH = {name: weight / sum(PARTS.values()) * WHOLE for name, weight in PARTS.items()}


def off(found):
    """Root mean square error of elasticities."""
    return math.sqrt(np.mean([(found[name] - TRUTH[name]) ** 2 for name in PARTS]))


def folded(figure, costs):
    gradient, _ = sensitivity.gradients(figure, costs, list(PARTS))
    return {name: gradient[name] * costs[name] for name in PARTS}


def moved(costs, **factors):
    return replace(
        costs, table={n: replace(c, value=c.value * factors.get(n, 1.0)) for n, c in costs.table.items()}
    )


def one_by_one(figure, costs, step=sensitivity.STEP):
    return {
        name: math.log(figure(moved(costs, **{name: 1 + step})) / figure(moved(costs, **{name: 1 - step})))
        / (2 * step)
        for name in PARTS
    }


def regressed(figure, costs, runs, seed, step=sensitivity.STEP):
    z = np.random.default_rng(seed).standard_normal((runs, len(PARTS)))
    logs = [
        math.log(figure(moved(costs, **dict(zip(PARTS, (1 + step * row).tolist(), strict=True)))))
        for row in z
    ]
    fitted = np.linalg.lstsq(np.column_stack((np.ones(runs), z)), np.array(logs), rcond=None)[0]
    return dict(zip(PARTS, (fitted[1:] / step).tolist(), strict=True))


def test_elasticities_are_those_of_theory():
    costs = known_costs.costs(SCENARIO, error=0.02)
    gradient, error = sensitivity.gradients(Queue(costs, 100_000, in_step=False), costs, list(PARTS))
    for name in PARTS:
        assert gradient[name] * costs[name] == pytest.approx(TRUTH[name], abs=4 * error[name] * costs[name])
        assert error[name] * costs[name] < 0.1


def test_for_the_same_replies_moving_all_at_once_errs_less():
    costs = known_costs.costs(SCENARIO, error=0.02)
    runs, customers = 32, 3000
    errors = {"folded": [], "one by one": [], "regressed": []}
    for seed in range(40):
        queue = Queue(costs, customers, False, seed + 1)
        errors["folded"].append(off(folded(queue, costs)))
        errors["regressed"].append(off(regressed(queue, costs, runs, seed)))
        queue.customers = customers * runs // (2 * len(PARTS))
        errors["one by one"].append(off(one_by_one(queue, costs)))
    found = {name: np.sqrt(np.mean(np.square(values))) for name, values in errors.items()}
    assert found["folded"] < 0.95 * found["regressed"]
    assert found["folded"] < 0.5 * found["one by one"]


def test_random_numbers_in_step_leave_little_error():
    costs = known_costs.costs(SCENARIO, error=0.02)
    assert off(folded(Queue(costs, 100_000, in_step=True), costs)) < 0.05


def saturated(costs):
    """A throughput that two costs and the demand decide, and a share that counts too."""
    (demand,) = costs.demands.values()
    work = (
        2 * costs["load.event"]
        + costs["sbuf.worker"]
        + demand.mean * costs["demand.service"]
        + 4e-7 * costs["demand.client"]
    )
    return 2 * (1 - costs["queues.spin_held"]) / work


def test_a_table_of_costs_demand_and_model():
    costs = known_costs.costs(SCENARIO, error=0.05)
    costs = replace(costs, provenance={})
    names = sensitivity.used(saturated, costs)
    assert names == ["load.event", "sbuf.worker", "queues.spin_held"]
    rows = {row.name: row for row in sensitivity.sensitivities(saturated, costs, names, discrepancy=0.02)}
    (demand,) = costs.demands.values()
    work = 2 / saturated(costs) * (1 - costs["queues.spin_held"])
    expected = {
        "load.event": -2 * costs["load.event"] / work,
        "sbuf.worker": -costs["sbuf.worker"] / work,
        "queues.spin_held": -0.4 / 0.6,
        SERVICE: -demand.mean / work,
        CLIENT: -4e-7 / work,
    }
    for name, value in expected.items():
        assert rows[name].elasticity == pytest.approx(value, abs=0.01)
    assert rows[MODEL].elasticity == pytest.approx(-1, abs=0.05)
    assert sum(row.share for row in rows.values()) == pytest.approx(1)
    variance = sum(
        (0.05 * value) ** 2 for name, value in expected.items() if name in ("load.event", "sbuf.worker")
    )
    cross = 2 * known_costs.CORRELATION / 3 * 0.05**2 * expected["load.event"] * expected["sbuf.worker"]
    whole = variance + cross + (0.05 * expected["queues.spin_held"]) ** 2 + 0.02**2
    whole += (uncertainty.sampling_error(demand) * expected[SERVICE]) ** 2
    assert rows[MODEL].share == pytest.approx(0.02**2 / whole, rel=0.1)
    assert rows["load.event"].share + rows["sbuf.worker"].share == pytest.approx(
        (variance + cross) / whole, rel=0.1
    )


def test_the_first_order_variance_is_that_of_the_draws():
    costs = known_costs.costs(SCENARIO, error=0.03)
    gradient, _ = sensitivity.gradients(saturated, costs, ["load.event", "sbuf.worker", "queues.spin_held"])
    logs = np.log([saturated(drawn) for drawn in uncertainty.draws(costs, 1000, 1)])
    (demand,) = costs.demands.values()
    others = {"rest": uncertainty.sampling_error(demand) * 0.1}
    pair = costs.covariance.of({name: gradient.get(name, 0.0) for name in costs.covariance.names})
    alone = (gradient["queues.spin_held"] * uncertainty.deviation(costs, "queues.spin_held")) ** 2
    assert logs.var() == pytest.approx(pair + alone + others["rest"] ** 2, rel=0.15)


def test_a_cost_of_nothing_is_moved_upwards_alone():
    costs = known_costs.costs(SCENARIO, error=0.05)
    costs = replace(costs, table={**costs.table, "machine.block": Cost(0.0, 0.0, 2e-6)})
    seen = []

    def figure(changed):
        seen.append(changed["machine.block"])
        return 1 / (1e-5 + changed["machine.block"])

    gradient, _ = sensitivity.gradients(figure, costs, ["machine.block"])
    assert min(seen) >= 0 and gradient["machine.block"] == pytest.approx(-1 / 1.1e-5, rel=0.1)
