"""What if: machines that are not there, mechanisms that cost nothing, and answers with intervals or bounds."""

import json
import math
from dataclasses import replace

import known_costs
import numpy as np
import pytest
from sizes import fewest, sized

from harness import calibrate
from harness.cli import main
from models import des, forecasting, what_if
from models.costs import Costs, MissingCost, demand_key
from models.metrics import Estimate, Metrics
from models.regimes import Regime
from models.scenario import Scenario, ScenarioError
from models.what_if import WhatIf

SCENARIO = Scenario.of("stock", "sbuf", options={"clients": 16})
ENGINE = {"name": "formula", "jobs_per_second": 1e6}


def rate_of(scenario, costs):
    """A throughput that costs and CPUs decide."""
    demand = costs.demand(scenario)
    work = costs["load.event"] + costs["sbuf.worker"] + costs["machine.wake_futex"]
    work += demand.mean * costs["demand.service"] + demand.client[0] * costs["demand.client"]
    return costs.cpus / work


def prepared(scenario, costs, **settings):
    """Answers as an engine does, without simulating."""

    def simulate(drawn, **told):
        rate = rate_of(scenario, drawn)
        use, response = {"cpu": 1.0}, scenario.number("clients") / rate
        return Metrics(Estimate(rate), Estimate(response), 1e-4, 2e-4, 3e-4, utilisation=use), ENGINE

    return simulate


@pytest.fixture
def told(monkeypatch):
    """Puts the formula and known costs in place of simulating and calibrating; gives what engines were asked with."""
    asked = []

    def preparing(scenario, costs, **settings):
        simulate = prepared(scenario, costs)

        def simulating(drawn, **told):
            asked.append((told.get("number"), drawn, settings))
            return simulate(drawn)

        return simulating

    monkeypatch.setattr(des, "prepared", preparing)
    monkeypatch.setattr(
        calibrate, "costs_for", lambda scenarios, progress=None: known_costs.costs(scenarios[0])
    )
    return asked


def predicted(capsys, *words):
    assert main(["predict", "--service", "stock", "--server", "sbuf", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_prediction_is_a_cell_with_an_interval_that_the_costs_make(told, capsys):
    found = predicted(capsys)
    rate = found["predicted"]["throughput"]
    assert rate["low"] < rate["value"] < rate["high"]
    spread = found["uncertainty"]["figures"]["throughput"]
    assert spread["costs"] > 10 * spread["simulation"] > 0 or spread["simulation"] < spread["costs"]
    assert {"key", "scenario", "replicates", "measured", "error", "broken", "findings"} <= found.keys()
    assert found["engine"] == ENGINE
    assert found["what_if"] == {"cores": None, "ideal": [], "extrapolated": [], "bounds": None}
    assert found["words"].startswith("between ") and "(95 %)" in found["words"]
    assert found["uncertainty"]["replicates"] == forecasting.REPLICATES
    assert predicted(capsys, "--reps", "3")["uncertainty"]["replicates"] == 3
    assert "sensitivity" not in found and found["uncertainty"]["draws"] >= forecasting.FIRST


@sized("trials", 30, 60)
def test_the_interval_covers_a_truth_that_is_drawn_from_the_costs(trials):
    from models import uncertainty

    held = 0
    for seed in range(1, trials + 1):
        scenario = replace(SCENARIO, seed=seed)
        costs = known_costs.costs(scenario)
        found = forecasting.forecast(prepared, scenario, costs, precision=0.5)
        truth = rate_of(scenario, uncertainty.draws(costs, 1, 10_000 + seed)[0])
        held += found.metrics.throughput.low <= truth <= found.metrics.throughput.high
    assert held >= fewest(trials)


def test_draws_are_simulated_apart_and_the_same_scenario_is_answered_alike(told, capsys):
    first, again, other = predicted(capsys), predicted(capsys), predicted(capsys, "--seed", "2")
    assert first["predicted"] == again["predicted"] != other["predicted"]
    once = 2 * first["uncertainty"]["draws"]
    assert [number for number, _, _ in told[: 1 + once]] == [forecasting.PILOT, *range(once)]


def test_options_are_passed_to_the_engine_only_when_given(told, capsys):
    predicted(capsys)
    assert all("engine" not in settings for _, _, settings in told)
    told.clear()
    predicted(capsys, "--engine", "simpy", "--sensitivity")
    assert all(settings["engine"] == "simpy" for _, _, settings in told)


def test_more_cores_give_bounds_and_the_word_extrapolated(told, capsys):
    found = predicted(capsys, "--set", "cores=16", "--set", "workers=8")
    (why,) = found["what_if"]["extrapolated"]
    assert "cores=16: costs were measured on 2 CPUs" in why
    bounds, here = found["what_if"]["bounds"], predicted(capsys)["predicted"]["throughput"]
    assert here["value"] < bounds["low"] < 8 * here["value"] < bounds["high"]
    assert found["words"].endswith("(bounds, extrapolated)") and found["what_if"]["cores"] == 16
    assert {costs.cpus for _, costs, _ in told} == {16, 2}
    fewer = predicted(capsys, "--set", "cores=1")
    assert fewer["what_if"]["extrapolated"] == []
    assert fewer["predicted"]["throughput"]["value"] == pytest.approx(here["value"] / 2, rel=0.1)


def test_the_issues_own_example_is_answered(told, capsys):
    words = ["predict", "--set", "workers=8", "--set", "cores=16", "--set", "lock=none"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "stock on sbuf" in shown and "(bounds, extrapolated)" in shown
    assert "supposed, not of this machine: cores=16 lock=none" in shown and "extrapolated: cores=16" in shown


def test_sensitivity_is_a_table_and_the_interval_says_who_makes_it(told, capsys):
    found = predicted(capsys, "--sensitivity")
    rows = {row["name"]: row for row in found["sensitivity"]}
    assert {"load.event", "sbuf.worker", "demand.service", "model"} <= rows.keys()
    assert "machine.switch" not in rows  # the formula does not use it
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
    assert found["words"].endswith("of it from sbuf.worker)")
    assert main(["predict", "--service", "stock", "--server", "sbuf", "--sensitivity"]) == 0
    assert "∂lnX/∂lnD" in capsys.readouterr().out


def test_a_cost_that_is_missing_gives_the_bound_of_the_demand(told, monkeypatch, capsys):
    def missing(scenario, costs, **settings):
        raise MissingCost("no cost sbuf.magic: run python -m harness calibrate --refresh")

    monkeypatch.setattr(des, "prepared", missing)
    found = predicted(capsys, "--set", "clients=16")
    (demand,) = known_costs.costs(SCENARIO).demands.values()
    assert found["predicted"] is None and "sbuf.magic" in found["what_if"]["extrapolated"][0]
    assert found["what_if"]["bounds"]["low"] is None
    assert found["what_if"]["bounds"]["high"] == pytest.approx(2 / demand.mean)
    assert found["words"].startswith("at most ") and "extrapolated" in found["words"]


@pytest.mark.parametrize(
    ("words", "says", "status"),
    [
        ("--set cores=0", "cores=0: outside 1:1024 CPUs", 2),
        ("--set cores=two", "cores=two: not a whole number", 2),
        ("--set cores=4 --set cores=8", "cores: given twice", 2),
        ("--service prime --set lock=none", "has no such knob (it belongs to service stock)", 2),
        ("--set lock=none --set lock=global", "given twice", 2),
        ("--set switches=some", "switches: no such knob", 2),
        ("--precision 0", "--precision 0.0: outside", 2),
        ("--engine abacus", "'abacus' is not one of 'simpy', 'compiled'", 2),
    ],
)
def test_what_cannot_be_supposed_is_said(words, says, status, monkeypatch, capsys):
    monkeypatch.setattr(
        calibrate, "costs_for", lambda scenarios, progress=None: known_costs.costs(scenarios[0])
    )
    assert main(["predict", *words.split()]) == status
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_what_is_supposed_is_no_setting_of_a_measurement(capsys):
    for word in ("cores=16", "lock=none", "wakeups=none"):
        assert main(["measure", "--service", "stock", "--server", "sbuf", "--set", word]) == 2
        capsys.readouterr()


def test_ideal_mechanisms_cost_nothing_and_have_no_error():
    costs = known_costs.costs(SCENARIO)
    question, left = what_if.taken(
        ["switches=none", "wakeups = none", "generator=none", "lock=none", "workers=4"]
    )
    assert left == ("lock=mutex", "workers=4")
    changed = question.costs(costs)
    gone = {name for name in costs.table if changed[name] == 0}
    assert gone == {
        name
        for name in costs.table
        if name.startswith(("machine.wake_", "load.")) or name in ("machine.switch", "machine.block")
    }
    assert all(changed.table[name].high == 0 for name in gone)
    (demand,) = changed.demands.values()
    assert not demand.locks and set(demand.client) == {0.0}
    assert changed.covariance.of({"load.event": 1.0}) == 0 < changed.covariance.of({"sbuf.worker": 1.0})
    assert not WhatIf() and question


def test_ideal_locks_are_never_waited_for():
    options = {"clients": 16, "workers": 8, "lock": "global"}
    scenario = Scenario.of("stock", "sbuf", options=options)
    costs = known_costs.costs(scenario, cpus=8)
    real, ideal = (
        des.predict(scenario, c, replications=1, replies=1500)
        for c in (costs, WhatIf(ideal=("lock",)).costs(costs))
    )
    assert real.counters["lock_waits"] > 0 and not ideal.counters.get("lock_waits")


def test_a_real_model_answers_with_more_where_waking_is_free():
    costs = known_costs.costs(SCENARIO, error=0.02)
    alone = Scenario.of("stock", "sbuf", options={"clients": 1})
    known = costs.with_demands({demand_key(alone): costs.demand(SCENARIO)})
    answers = [
        forecasting.supposed(des.prepared, alone, known, question, budget=0.5)[0]
        for question in (WhatIf(), WhatIf(ideal=("wakeups", "switches")))
    ]
    before, after = (answer.metrics.throughput for answer in answers)
    assert after.low > before.high
    assert all(answer.metrics.counters["server_cpu"] > 0 for answer in answers)


def test_a_budget_that_is_spent_ends_it_with_what_there_is():
    found = forecasting.forecast(prepared, SCENARIO, known_costs.costs(SCENARIO), budget=0.0)
    assert found.draws == 2 and found.reason == "budget"
    assert math.isfinite(found.metrics.throughput.low)


def test_costs_without_intervals_leave_an_interval_of_the_simulation_alone():
    costs = known_costs.costs(SCENARIO)
    table = {name: replace(cost, low=math.nan, high=math.nan) for name, cost in costs.table.items()}
    single = {key: replace(d, tasks=((2e-6,),) * 200) for key, d in costs.demands.items()}
    bare = Costs(2, table, demands=single)
    found = forecasting.forecast(prepared, SCENARIO, bare).spreads["throughput"]
    assert found.estimate.high / found.estimate.low == pytest.approx(1, abs=1e-6)


def test_words_say_what_is_known():
    spread = forecasting.forecast(prepared, SCENARIO, known_costs.costs(SCENARIO)).spreads["throughput"]
    assert forecasting.words(spread).endswith("/s (95 %)")
    nothing = replace(spread, estimate=Estimate(1000.0))
    assert forecasting.words(nothing).startswith("about 1,000/s (no interval")
    two = replace(spread, regimes=(Regime(41_000, 0.3), Regime(52_000, 0.7)))
    assert forecasting.words(two).endswith(
        "; two regimes: about 41,000/s in 30 % of runs, about 52,000/s in the others"
    )


def lottery(odds, seed):
    """The formula's throughput, which a quarter of the replications have more of, by where threads begin."""
    random = np.random.default_rng(seed)

    def preparing(scenario, costs, **settings):
        def simulate(drawn, **told):
            rate = rate_of(scenario, drawn) * (1.25 if random.random() < odds else 1.0)
            return Metrics(Estimate(rate), Estimate(16 / rate), 1e-4, 2e-4, 3e-4), ENGINE

        return simulate

    return preparing


def test_the_interval_is_that_of_the_mean_of_as_many_runs_as_are_measured():
    costs = known_costs.costs(SCENARIO, error=0.002)
    spreads = [
        forecasting.forecast(lottery(0.5, 1), SCENARIO, costs, precision=0.5, replicates=m).spreads[
            "throughput"
        ]
        for m in (1, 4, 100)
    ]
    one, four, many = (math.log(s.estimate.high / s.estimate.low) for s in spreads)
    assert one > 1.25 * four > 1.5 * many
    assert spreads[0].lottery == pytest.approx(2 * spreads[1].lottery)
    assert spreads[0].costs == spreads[2].costs  # what the costs do is the same in all runs
    low, high = spreads[0].regimes
    assert high.value / low.value == pytest.approx(1.25, rel=0.01) and 0.2 < low.share < 0.8
    assert "two regimes" in forecasting.words(spreads[0])


@sized("trials", 30, 60)
def test_a_cell_of_several_runs_is_held_as_often_as_the_interval_says(trials):
    from models import uncertainty

    held, random = 0, np.random.default_rng(3)
    for seed in range(1, trials + 1):
        scenario = replace(SCENARIO, seed=seed)
        costs = known_costs.costs(scenario, error=0.05)
        found = forecasting.forecast(lottery(0.25, seed), scenario, costs, precision=0.5, replicates=3)
        dealt = np.where(random.random(3) < 0.25, 1.25, 1.0).mean()
        truth = rate_of(scenario, uncertainty.draws(costs, 1, 10_000 + seed)[0]) * dealt
        held += found.metrics.throughput.low <= truth <= found.metrics.throughput.high
    assert held >= fewest(trials)


@pytest.mark.parametrize(
    ("rate", "speed", "replies"), [(1e5, 1e6, 20_000), (1e4, 1e6, 3000), (100.0, 1e6, 500), (1e5, 1e5, 5000)]
)
def test_replications_are_as_long_as_there_is_time_for(rate, speed, replies):
    asked = []

    def preparing(scenario, costs, **settings):
        def simulate(drawn, **told):
            asked.append(told["replies"])
            return Metrics(Estimate(rate), Estimate(1e-4)), {"name": "none", "jobs_per_second": speed}

        return simulate

    forecasting.forecast(preparing, SCENARIO, known_costs.costs(SCENARIO), budget=2.0, precision=0.5)
    assert set(asked[1:]) == {replies} and len(asked) == 1 + forecasting.FIRST * forecasting.EACH


def test_suppositions_are_refused_in_one_line():
    with pytest.raises(ScenarioError, match="given twice"):
        what_if.taken(["cores=1", "cores=1"])
