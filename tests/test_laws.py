"""Scalability laws: point fits against published ones, intervals against theory, and what bad data do."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares
from scipy.stats import binom
from scipy.stats import t as student
from sizes import sized

from models import laws
from models.laws._profile import critical

DATA = json.loads((Path(__file__).parent / "data" / "usl_reference.json").read_text())
TRUTHS = {"amdahl": (900.0, 0.07), "usl": (900.0, 0.04, 0.0011)}
SPREAD = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


def noisy(law: str, n: Sequence[float], seed: int, scatter: float = 0.02) -> np.ndarray:
    """Throughput by the law's truth with constant noise, as a share of the highest."""
    mean = laws.get(law).form.curve(np.asarray(n, dtype=float), *TRUTHS[law])
    return mean + np.random.default_rng(seed).normal(0, scatter * mean.max(), len(n))


def solved(
    law: str, n: np.ndarray, x: np.ndarray, start: Sequence[float], held: dict[int, float]
) -> tuple[np.ndarray, float]:
    """SciPy's fit with some constants held, and its sum of squares."""
    form = laws.get(law).form
    free = [k for k in range(len(start)) if k not in held]

    def full(values: np.ndarray) -> list[float]:
        rest = iter(values)
        return [held[k] if k in held else float(next(rest)) for k in range(len(start))]

    bounds = ([form.constants[k].low for k in free], [form.constants[k].high for k in free])
    begin = np.array([start[k] for k in free])
    found = least_squares(
        lambda values: x - form.curve(n, *full(values)),
        np.clip(begin, *bounds) + 1e-12 * (begin <= bounds[0]),
        bounds=bounds,
        x_scale=np.maximum(np.abs(begin), 1e-6),
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
    )
    return np.array(full(found.x)), 2 * float(found.cost)


def test_names_are_the_files_and_need_no_import() -> None:
    assert {"amdahl", "usl"} <= set(laws.names())
    assert not any(name.startswith("_") for name in laws.names())
    with pytest.raises(ValueError, match="did you mean usl"):
        laws.fit("uls", [1, 2, 3, 4], [1, 2, 3, 4])


@pytest.mark.parametrize("name", laws.names())
def test_contract(name: str) -> None:
    """Every law: named as its file, right slopes in each of its forms, a valid start for any data."""
    law = laws.get(name)
    assert law.name == name
    theta = np.array(TRUTHS.get(name, [1.0] * len(law.form.constants)))
    forms = [(law.form, theta)]
    if law.turning:
        forms.append((law.turning.form, np.array(law.turning.of(*theta))))
        assert law.turning.peak(forms[1][1][law.turning.index]) == pytest.approx(law.peak(*theta))
    n = np.array([0.5, 1, 2, 7.5, 40])
    for form, values in forms:
        assert form.curve(n, *values) == pytest.approx(law.form.curve(n, *theta))
        for k, slope in enumerate(form.slopes(n, *values)):
            step = np.zeros(len(values))
            step[k] = 1e-6 * max(abs(values[k]), 1e-3)
            up, down = (form.curve(n, *(values + sign * step)) for sign in (1, -1))
            assert np.broadcast_to(slope, n.shape) == pytest.approx((up - down) / (2 * step[k]), rel=1e-4)
    for x in ([0, 0, 0, 0, 0], [9, 7, 5, 3, 1], [1, 4, 16, 64, 256]):
        starts = law.starts(n, np.array(x, dtype=float), np.ones(5))
        assert any(law.form.valid(0.5, 40.0, *np.array(start)) for start in starts)


def test_published_fit() -> None:
    """R's usl on SPEC SDM 91, to the digits that are printed there."""
    row = DATA["specsdm91"]
    fit = laws.fit("usl", row["n"], row["x"])
    published = row["published"]["R usl README/tests"]
    refit = row["independent_refit"]
    for ours, theirs in (("sigma", "alpha"), ("kappa", "beta"), ("gamma", "gamma")):
        assert fit.parameters[ours].value == pytest.approx(refit[theirs], rel=1e-5)
    assert fit.parameters["gamma"].value == pytest.approx(published["gamma"], rel=1e-7)
    assert fit.peak.value == pytest.approx(published["peak_n"], rel=1e-5)
    assert fit.throughput(fit.peak.value) == pytest.approx(published["peak_x"], abs=0.5)
    assert fit.throughput(row["n"]) == pytest.approx(published["fitted"], abs=0.5)
    assert fit.residuals == pytest.approx(published["residuals"], abs=0.01)
    assert fit.sigma == pytest.approx(refit["residual_se"], rel=1e-6)
    assert fit.df == refit["df"]
    assert 72 < fit.peak.low < 96 < fit.peak.high < 160


def test_published_fit_on_the_bound() -> None:
    """The ray tracer has no peak: κ is 0, and its interval says how large it may be."""
    row = DATA["raytracer"]
    fit = laws.fit("usl", row["n"], row["x"])
    refit = row["independent_refit"]
    assert fit.parameters["sigma"].value == pytest.approx(refit["alpha"], rel=1e-5)
    assert fit.parameters["gamma"].value == pytest.approx(refit["gamma"], rel=1e-5)
    kappa = fit.parameters["kappa"]
    assert (kappa.value, kappa.low, kappa.at_bound) == (0.0, 0.0, True)
    assert 0 < kappa.high < refit["ci95_t_df"]["beta"][1]
    assert fit.peak.value == fit.peak.high == math.inf
    assert 64 < fit.peak.low < math.inf
    assert any("no peak is seen" in warning for warning in fit.warnings)


@pytest.mark.parametrize("law", sorted(TRUTHS))
@pytest.mark.parametrize("seed", range(6))
def test_least_squares_as_scipy(law: str, seed: int) -> None:
    n, x = np.array(SPREAD, dtype=float), noisy(law, SPREAD, seed)
    fit = laws.fit(law, n, x)
    theta, squares = solved(law, n, x, TRUTHS[law], {})
    assert np.sum(fit.residuals**2) == pytest.approx(squares, rel=1e-9)
    assert [p.value for p in fit.parameters.values()] == pytest.approx(theta, rel=1e-5, abs=1e-9)
    k = len(theta) + 1
    correction = 2 * k + 2 * k * (k + 1) / (len(n) - k - 1)
    assert fit.aicc == pytest.approx(len(n) * math.log(squares / len(n)) + correction)


@pytest.mark.parametrize("law", sorted(TRUTHS))
def test_limits_are_where_the_profile_crosses_f(law: str) -> None:
    """At each limit the sum of squares has risen by what F(1, df) allows, refitted by SciPy."""
    n, x = np.array(SPREAD, dtype=float), noisy(law, SPREAD, 3, scatter=0.01)
    fit = laws.fit(law, n, x)
    values = [p.value for p in fit.parameters.values()]
    allowed = student.ppf(0.975, fit.df) ** 2 * fit.sigma**2
    for place, parameter in enumerate(fit.parameters.values()):
        assert not parameter.at_bound
        for limit in (parameter.low, parameter.high):
            squares = solved(law, n, x, values, {place: limit})[1]
            assert squares - fit.sigma**2 * fit.df == pytest.approx(allowed, rel=2e-3)


def test_peak_limits_are_where_the_profile_crosses_f() -> None:
    n, x = np.array(SPREAD, dtype=float), noisy("usl", SPREAD, 3, scatter=0.01)
    fit = laws.fit("usl", n, x)
    allowed = student.ppf(0.975, fit.df) ** 2 * fit.sigma**2
    for limit in (fit.peak.low, fit.peak.high):

        def rest(values: np.ndarray, peak: float = limit) -> np.ndarray:
            gamma, sigma = values
            return x - gamma * n / (1 + sigma * (n - 1) + (1 - sigma) / peak**2 * n * (n - 1))

        found = least_squares(rest, [900.0, 0.04], x_scale=[900.0, 0.04], xtol=1e-14, ftol=1e-14)
        assert 2 * found.cost - fit.sigma**2 * fit.df == pytest.approx(allowed, rel=2e-3)


def test_critical_value_near_a_bound_covers() -> None:
    """A mean known not to be below 0, estimated with normal noise: 95 % at every distance from it."""
    z = np.random.default_rng(11).normal(size=400_000)
    for truth in (0.0, 0.2, 0.7, 1.4, 1.9, 2.5, 6.0):
        estimate = np.maximum(truth + z, 0.0)
        statistic = z**2 - (truth + z - estimate) ** 2
        covered = np.mean(statistic <= critical(np.array([truth]), 10_000)[0])
        assert covered == pytest.approx(0.95, abs=0.002)


COVERAGE = {
    "six points": ((900.0, 0.05, 0.001), (1, 2, 4, 8, 16, 32), 0.02, "usl"),
    "six points, no peak": ((900.0, 0.05, 0.0), (1, 2, 4, 8, 16, 32), 0.02, "usl"),
    "five blocks, small kappa": ((900.0, 0.05, 0.002), (1, 2, 3, 4, 6, 8) * 5, 0.03, "usl"),
    "super-linear, no N = 1": ((900.0, -0.1, 0.01), (2, 4, 6, 8, 12, 16, 24), 0.02, "usl"),
    "amdahl": ((900.0, 0.05), (1, 2, 4, 8, 16, 32), 0.04, "amdahl"),
}


@sized("draws", 50, 100)
@pytest.mark.parametrize("case", COVERAGE)
def test_coverage(case: str, draws: int) -> None:
    """Not significantly below 93 %; uncorrected χ² profiles, at 80 %, fail this at n = 6."""
    theta, n, scatter, name = COVERAGE[case]
    law = laws.get(name)
    rng = np.random.default_rng(20)
    mean = law.form.curve(np.array(n, dtype=float), *theta)
    hits = dict.fromkeys([constant.name for constant in law.form.constants] + ["peak"], 0)
    for _ in range(draws):
        fit = laws.fit(name, n, np.abs(mean + rng.normal(0, scatter * mean.max(), len(n))))
        for constant, truth in zip(law.form.constants, theta, strict=True):
            found = fit.parameters[constant.name]
            hits[constant.name] += found.low <= truth <= found.high
        hits["peak"] += fit.peak.low <= law.peak(*theta) <= fit.peak.high
        if law.turning:
            assert (fit.peak.high == math.inf) == (fit.parameters["kappa"].low == 0)
    for name_, hit in hits.items():
        assert binom.cdf(hit, draws, 0.93) > 0.002, (name_, hit / draws)


def test_rows_may_come_in_any_order_without_one_and_in_fractions() -> None:
    n = np.array([2.5, 4, 7.5, 12, 20, 33])
    truth = (500.0, 0.03, 0.002)
    x = laws.get("usl").form.curve(n, *truth)
    fit = laws.fit("usl", n[::-1], x[::-1])
    assert [p.value for p in fit.parameters.values()] == pytest.approx(truth, rel=1e-6)
    assert fit.throughput(1.0) == pytest.approx(500.0)
    assert list(fit.n) == list(n[::-1])
    assert any("gamma is extrapolated" in warning for warning in fit.warnings)
    assert any("goes through every row" in warning for warning in fit.warnings)
    shuffled = np.random.default_rng(1).permutation(len(SPREAD))
    rows = np.array(SPREAD, dtype=float)
    ordered, mixed = (
        laws.fit("usl", rows[by], noisy("usl", SPREAD, 5)[by]) for by in (np.arange(len(rows)), shuffled)
    )
    assert mixed.peak.high == pytest.approx(ordered.peak.high, rel=1e-4)
    assert mixed.aicc == pytest.approx(ordered.aicc)


def test_replicates_and_weights_count() -> None:
    n, x = np.array(SPREAD, dtype=float), noisy("usl", SPREAD, 7)
    twice = np.repeat(n, 2)
    rows = np.repeat(x, 2) + np.tile([30.0, -30.0], len(n))
    every, means = laws.fit("usl", twice, rows), laws.fit("usl", n, x, replicates=[2] * len(n))
    for name, found in every.parameters.items():
        assert means.parameters[name].value == pytest.approx(found.value, rel=1e-6, abs=1e-12)
    assert (every.df, means.df) == (17, 7)
    counts = np.arange(1, len(n) + 1)
    by_count, by_weight = (
        laws.fit("usl", n, x, replicates=counts),
        laws.fit("usl", n, x, weights=3.0 * counts),
    )
    assert by_count.to_json() == by_weight.to_json()
    assert np.mean(by_count.weights) == pytest.approx(1)
    spoilt = x.copy()
    spoilt[-1] *= 3
    light = laws.fit("usl", n, spoilt, weights=[1.0] * 9 + [1e-9])
    without = laws.fit("usl", n[:-1], x[:-1])
    assert light.parameters["sigma"].value == pytest.approx(without.parameters["sigma"].value, rel=1e-3)


def test_super_linear_data_are_said_not_clipped() -> None:
    n = np.array([1, 2, 4, 8, 16, 64], dtype=float)
    x = laws.get("usl").form.curve(n, 14_000.0, -0.16, 0.012)
    fit = laws.fit("usl", n, x * (1 + 0.002 * np.array([1, -1, 1, -1, 1, -1])))
    assert fit.parameters["sigma"].high < 0
    assert any(warning.startswith("negative contention: super-linear") for warning in fit.warnings)
    amdahl = laws.fit("amdahl", n[:3], x[:3])
    assert amdahl.parameters["sigma"].at_bound
    assert any("sigma is held at its bound 0" in warning for warning in amdahl.warnings)


def test_past_a_pole_throughput_is_infinite_not_negative() -> None:
    """Super-linear to the last point: the law would go through infinity further on."""
    fit = laws.fit("usl", [1, 2, 3, 4], [100, 220, 370, 560])
    assert fit.parameters["sigma"].value < 0
    beyond = fit.throughput(np.linspace(0.1, 100, 500))
    assert np.all(beyond > 0)
    assert np.isinf(beyond[-1])


def test_falling_and_flat_data() -> None:
    falling = laws.fit("usl", [1, 2, 4, 8, 16], [1000, 700, 410, 230, 120])
    assert falling.peak.low == 1
    assert falling.peak.value < 2
    flat = laws.fit("usl", [1, 2, 4, 8, 16, 32], [99, 101, 100, 98, 102, 100])
    assert flat.peak.low == 1
    assert flat.peak.high == math.inf
    assert flat.throughput(8) == pytest.approx(100, rel=0.02)


@pytest.mark.parametrize(("law", "needed"), [("amdahl", 3), ("usl", 4)])
def test_too_few_points(law: str, needed: int) -> None:
    n = list(range(1, needed)) * 4
    with pytest.raises(laws.TooFewPoints, match=f"{law} needs at least {needed} different N, and there are"):
        laws.fit(law, n, [10.0 * k for k in n])
    assert laws.fit(law, range(1, needed + 1), [10.0 * k for k in range(1, needed + 1)]).df == 1


BAD: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "nan": ([1, 2, 3, 4], [1, math.nan, 3, 4], {}, "x has a value that is not a finite number"),
    "zero N": ([0, 2, 3, 4], [1, 2, 3, 4], {}, "n must be above 0"),
    "negative": ([1, 2, 3, 4], [1, -2, 3, 4], {}, "cannot be negative"),
    "lengths": ([1, 2, 3], [1, 2, 3, 4], {}, "rows of unequal number: 3 n, 4 x"),
    "weights": ([1, 2, 3, 4], [1, 2, 3, 4], {"weights": [1, 1, 0, 1]}, "weights must be above 0"),
    "table": ([[1, 2], [3, 4]], [1, 2, 3, 4], {}, "n must be one row"),
}


@pytest.mark.parametrize("case", BAD)
def test_rows_that_are_no_throughputs(case: str) -> None:
    n, x, more, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        laws.fit("usl", n, x, **more)


def test_choose() -> None:
    """The law that made the data, the simpler one when both fit alike, and scatter when AICc cannot tell."""
    for truth in TRUTHS:
        fits = [laws.fit(law, SPREAD, noisy(truth, SPREAD, 2, scatter=0.01)) for law in laws.names()]
        assert laws.choose(fits) == truth
        assert laws.choose(fits[::-1]) == truth
    n = [1, 2, 4, 8]
    linear = [laws.fit(law, n, [10 * k for k in n]) for law in laws.names()]
    assert laws.choose(linear) == "amdahl"
    peaked = [laws.fit(law, n, [10, 18, 20, 12]) for law in ("amdahl", "usl")]
    assert all(math.isinf(fit.aicc) for fit in peaked)
    assert laws.choose(peaked) == "usl"
    with pytest.raises(ValueError, match="nothing to choose from"):
        laws.choose([])


def test_curve_is_the_law_with_given_parameters() -> None:
    fit = laws.fit("usl", SPREAD, noisy("usl", SPREAD, 4))
    again = laws.curve("usl", {name: p.value for name, p in fit.parameters.items()})
    assert float(again(5)) == fit.throughput(5)
    assert isinstance(fit.throughput(5), float)
    assert again(np.array([1.0, 5.0])) == pytest.approx(fit.throughput([1.0, 5.0]))


def test_json_and_report() -> None:
    fit = laws.fit("usl", DATA["raytracer"]["n"], DATA["raytracer"]["x"])
    document = json.loads(json.dumps(fit.to_json(), allow_nan=False))
    assert set(document) == {"law", "parameters", "aicc"}
    assert document["parameters"]["kappa"]["low"] == 0.0
    assert set(document["parameters"]) == {"gamma", "sigma", "kappa"}
    few = laws.fit("usl", [1, 2, 4, 8], [10, 18, 20, 12])
    assert few.to_json()["aicc"] is None
    text = fit.report()
    assert text.startswith("usl: X(N) = γN / (1 + σ(N−1) + κN(N−1)), 11 rows")
    assert "kappa 0 " in text
    assert "at its bound" in text
    assert "peak none [89.9, no bound]" in text


def test_a_law_of_ones_own() -> None:
    """A straight line through the origin, declared where it is used."""
    form = laws.Form((laws.Constant("gamma", "1/s"),), lambda n, gamma: gamma * n, lambda n, gamma: (n,))
    own = laws.Law(
        "line", "X(N) = γN", form, lambda n, x, weights: [(float(np.max(x / n)),)], lambda gamma: math.inf
    )
    n, x = np.array([1.0, 2, 3, 4]), np.array([10.5, 19.5, 30.5, 39.5])
    fit = laws.fit(own, n, x)
    gamma = float(np.sum(n * x) / np.sum(n * n))
    half = student.ppf(0.975, 3) * math.sqrt(np.sum((x - gamma * n) ** 2) / 3 / np.sum(n * n))
    found = fit.parameters["gamma"]
    assert (found.value, found.low, found.high) == pytest.approx(
        (gamma, gamma - half, gamma + half), rel=1e-4
    )


rows = st.lists(
    st.tuples(st.floats(0.2, 500), st.one_of(st.just(0.0), st.floats(1e-3, 1e9))), min_size=1, max_size=8
)


@settings(max_examples=12)
@given(rows)
@example([(n, 5.0) for n in (1.0, 2.0, 4.0, 8.0)])
@example([(n, 0.0) for n in (1.0, 2.0, 4.0, 8.0)])
@example([(n, 1000 / n**3) for n in (1.0, 2.0, 4.0, 8.0, 16.0)])
@example([(n, min(100 * n, 400)) for n in (1.0, 2.0, 4.0, 8.0, 16.0, 64.0)])
@example([(n, float(n == 16)) for n in (1.0, 2.0, 4.0, 8.0, 16.0)])
@example([(n, 2.0**n) for n in (1.0, 2.0, 4.0, 8.0, 16.0)])
def test_any_throughputs_give_a_law_or_too_few_points(data: list[tuple[float, float]]) -> None:
    n, x = [row[0] for row in data], [row[1] for row in data]
    for law in laws.names():
        try:
            fit = laws.fit(law, n, x)
        except laws.TooFewPoints:
            assert len(set(n)) <= len(laws.get(law).form.constants)
            continue
        for found in (*fit.parameters.values(), fit.peak):
            assert found.low <= found.value <= found.high
        assert fit.peak.low >= min(1.0, *n)
        assert np.all(fit.throughput(np.linspace(0, 1000, 200)) >= 0)
        among = fit.throughput(np.linspace(min(1.0, *n), max(n), 200))
        assert np.all(np.isfinite(among))
        assert not math.isnan(fit.aicc) and not math.isnan(fit.sigma)
        json.dumps(fit.to_json(), allow_nan=False)
        assert fit.report()
