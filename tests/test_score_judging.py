"""What a score makes of predictions and measurements: coverage, widths, regimes, the naive bound, reasons."""

import math
import random

import pytest
from sizes import sized

from harness.scoring import coverage, document, goals, judging, reasons
from harness.scoring.judging import BETWEEN, SATURATED, THINKING, Judged
from models.metrics import Estimate, Metrics
from models.scenario import Scenario


def scenario(clients=10, think=0.0, server="select", **options):
    return Scenario.of("echo", server, options={"clients": clients, "think": think, **options})


def metrics(rate, response=0.001, low=math.nan, high=math.nan, p99=0.002, counters=None, **use):
    return Metrics(
        Estimate(rate, low, high), Estimate(response), p99=p99, utilisation=use, counters=counters or {}
    )


def judged(predicted, measured, naive=math.nan, again=None, **load):
    found = metrics(predicted) if isinstance(predicted, (int, float)) else predicted
    return Judged(
        scenario(**load),
        found,
        metrics(measured),
        {"throughput": naive},
        None if again is None else metrics(again),
        BETWEEN,
    )


def test_a_score_of_196_is_the_bound_of_the_95_percent_interval():
    predicted = Estimate(100, 80, 150)
    for bound in (80, 150):
        assert coverage.standard_score(bound, predicted) == pytest.approx(1.959964, abs=1e-6)
        assert coverage.standard_score(bound * (0.99 if bound < 100 else 1.01), predicted) > 1.96
        assert coverage.standard_score(bound * (1.01 if bound < 100 else 0.99), predicted) < 1.96
    assert coverage.standard_score(100, predicted) == 0


@pytest.mark.parametrize(
    "wrong", [Estimate(100), Estimate(100, 100, 100), Estimate(0, 0, 0), Estimate(100, 90, math.inf)]
)
def test_a_prediction_that_does_not_say_how_sure_it_is_covers_nothing(wrong):
    assert coverage.standard_score(105, wrong) == math.inf


@sized("count", 1000, 4000)
@pytest.mark.parametrize("scatter", [0.02, 0.3])
def test_intervals_of_log_normal_predictions_cover_as_often_as_they_say(scatter, count):
    chance, power = random.Random(4), 1.959964 * scatter
    predicted = metrics(100, low=100 * math.exp(-power), high=100 * math.exp(power))
    kept = [judged(predicted, 100 * chance.lognormvariate(0, scatter)) for _ in range(count)]
    found = document.summary(kept)["coverage"]
    for level in document.LEVELS:
        share = level / 100
        assert abs(found[str(level)] - share) < 4 * math.sqrt(share * (1 - share) / count)


def test_half_widths_are_of_the_interval_and_shrink_with_the_level_in_logarithms():
    assert coverage.half_width(Estimate(100, 80, 125), 95) == pytest.approx(0.225)
    # 0.3441 = 0.67449 / 1.95996: the quartile of the normal distribution over its 97.5 % point
    assert coverage.half_width(Estimate(100, 80, 125), 50) == pytest.approx(
        math.sinh(0.34413 * math.log(1.25)), 1e-4
    )
    assert math.isnan(coverage.half_width(Estimate(100), 95))


def test_errors_are_absolute_and_relative_and_what_is_unknown_is_left_out():
    kept = [judged(110, 100, 200), judged(95, 100, 150, again=104), judged(100, 100), judged(math.nan, 100)]
    found = document.errors(kept, "throughput")
    assert found["median"] == pytest.approx(0.05) and found["p90"] == pytest.approx(0.09)
    assert found["naive_median"] == pytest.approx(0.75) and found["floor_median"] == pytest.approx(0.04)
    assert set(document.errors([], "p99").values()) == {None}
    assert document.errors(kept, "p99")["naive_median"] is None


@pytest.mark.parametrize("count", [6, 17, 60])
def test_the_interval_of_a_median_holds_it_at_least_as_often_as_it_says(count):
    chance, runs, held = random.Random(count), 4000, 0
    for _ in range(runs):
        low, high = coverage.median_interval([chance.expovariate(math.log(2)) for _ in range(count)])
        held += low <= 1 <= high
    assert 0.95 - 3 * math.sqrt(0.95 * 0.05 / runs) < held / runs < 0.995
    assert math.isnan(coverage.median_interval([1.0] * 5)[0])


def test_the_naive_bound_is_of_one_client_alone_and_its_response_by_littles_law():
    alone = metrics(1000, response=0.001, counters={"server_cpu": 100e-6, "load_cpu": 100e-6})
    few, many = scenario(clients=2, think=0.003), scenario(clients=100, think=0.003)
    assert judging.naive_of(few, alone, 2) == pytest.approx({"throughput": 500.0, "response": 0.001})
    assert judging.naive_of(many, alone, 2) == pytest.approx({"throughput": 10_000.0, "response": 0.007})
    assert judging.naive_of(few, None, 2) == {}


@pytest.mark.parametrize(
    ("load", "rate", "use", "regime"),
    [
        ({}, 5000, {"cpu": 0.96}, SATURATED),
        ({}, 5000, {"cpu": 0.8}, BETWEEN),
        ({}, 5000, {"cpu": 0.8, "load_thread": 0.97}, SATURATED),
        ({"server": "sbuf"}, 5000, {"cpu": 0.5, "worker": 0.96}, SATURATED),
        ({}, 5000, {"cpu": 0.6, "server_cpu": 0.49}, SATURATED),  # an event loop that fills one of two CPUs
        ({"server": "sbuf"}, 5000, {"cpu": 0.6, "server_cpu": 0.49, "worker": 0.2}, BETWEEN),
        ({"think": 0.009}, 1050, {"cpu": 0.3}, THINKING),
        ({"think": 0.009}, 1150, {"cpu": 0.3}, BETWEEN),
        ({"think": 0.009}, 1050, {"cpu": 0.97}, SATURATED),
        ({"think": 0.009, "server": "queues", "wait": "spin"}, 1050, {"cpu": 1.0, "worker": 0.1}, THINKING),
        ({"think": 0.009, "server": "queues", "wait": "spin"}, 700, {"cpu": 1.0, "worker": 0.1}, SATURATED),
    ],
)
def test_the_measurement_says_the_regime(load, rate, use, regime):
    alone = metrics(1000, response=0.001)
    assert judging.regime_of(scenario(**load), metrics(rate, **use), alone, 2) == regime


def test_what_differs_most_comes_first_and_what_is_too_little_does_not_differ():
    predicted = metrics(1, counters={"server_cpu": 20e-6, "switches": 0.001, "load_cpu": 10e-6, "polls": 1.0})
    measured = metrics(1, counters={"server_cpu": 40e-6, "switches": 0.002, "load_cpu": 10e-6, "steals": 1.0})
    rows = reasons.differences(predicted, measured)
    names = [row["name"] for row in rows]
    assert names[0] == "server_cpu" and {"polls", "steals"}.isdisjoint(names)
    assert reasons.sentence(rows) == "a reply's server CPU 20 µs predicted, 40 µs measured"
    assert "who waits" in reasons.sentence(reasons.differences(measured, measured))


def test_goals_are_reached_or_not_or_unknown():
    rate = {"median": 0.06, "p90": 0.10, "naive_median": 0.4, "floor_median": 0.07}
    unknown = dict.fromkeys(rate)
    found = {
        "throughput": rate,
        "response_thinking": unknown,
        "coverage": {"95": 0.8},
        "half_width": {"95": 0.05},
    }
    assert [goal["reached"] for goal in goals.goals(found)] == [True, True, True, None, None, False, True]
