"""Which flags a row gets, from which value on, and how often the statistics are right about samples of a known kind."""

import math
from dataclasses import replace

import numpy as np
import probes
import pytest

from harness.probing import humps, judging, samples
from harness.probing.launching import Found

CALM = {"seconds": 0.1, "others": 0.0, "stolen": 0.0, "cpus": 2}
RANDOM = np.random.default_rng(7)


def times(scale=5000.0, count=500, sigma=0.05):
    return np.exp(RANDOM.normal(math.log(scale), sigma, count))


def judged(point, *raws, **beside):
    found = [Found(raw, **{**CALM, **beside}) for raw in raws]
    return judging.names(judging.judge(point, found, [samples.read(raw) for raw in raws]))


def flags(point=None, values=None, launches=3, beside=(), **end):
    """Flags of a point whose launches are sound but for what is given."""
    point = point or probes.point()
    values = times() if values is None else values
    return judged(point, *[probes.launch(point, values, **end) for _ in range(launches)], **dict(beside))


def test_a_sound_row_has_no_flag():
    assert flags() == []


@pytest.mark.parametrize(
    ("name", "change", "rejected"),
    [
        ("off_cpu", {"cpu_last": 1}, True),
        ("off_cpu", {"cpu_first": 1}, True),
        ("lost", {"received": 999}, True),
        ("switches", {"voluntary": 20, "involuntary": 0}, True),
        ("more_switches", {"voluntary": 1000, "involuntary": 800}, False),
        ("migrated", {"migrations": 1}, False),
        ("batched", {"batch": 2}, False),
        ("few", {"values": times(count=8)}, False),
        ("overhead", {"values": times(100)}, False),
        ("disturbed", {"beside": {"others": 0.04}}, False),
        ("stolen", {"beside": {"stolen": 0.005}}, False),
    ],
)
def test_each_flag_is_given_for_its_own_fault_and_no_other(name, change, rejected):
    assert flags(**change) == ([judging.REJECTED] if rejected else []) + [name]


def test_a_smaller_message_than_asked_for_is_said():
    asked = probes.point(size=100_000)
    for run, found in ((65536, ["capped"]), (0, []), (100_000, [])):
        assert judged(asked, probes.launch(probes.point(size=run), times())) == found


def test_switches_are_asked_of_blocking_round_trips_on_one_cpu_only():
    still = {"voluntary": 0, "involuntary": 0}
    for exempt in (
        probes.point("l3", (0, 1)),
        probes.point(spins=True),
        probes.point(alike=True),
        probes.point("alone", (0,), ends=1, unit_of_work="calls"),
        probes.point("free", (0, 1), bound=False),
        probes.point(unit_of_work="message"),
    ):
        assert flags(exempt, **still) == [], exempt


def test_several_pairs_on_a_cpu_may_interrupt_each_other():
    assert flags(probes.point(pairs=3), voluntary=1000, involuntary=800) == []


def test_ends_that_are_not_bound_may_move():
    assert flags(probes.point("free", (0, 1), bound=False), cpu_last=1, migrations=3) == []


def test_launches_within_three_per_cent_are_stable():
    point, values = probes.point(), times()
    near = judged(point, *[probes.launch(point, values * factor) for factor in (0.99, 1.0, 1.015)])
    far = judged(point, *[probes.launch(point, values * factor) for factor in (0.98, 1.0, 1.02)])
    assert (near, far) == ([], ["unstable"])


def test_two_kinds_of_samples_are_told_from_one():
    mixed = np.where(RANDOM.random(800) < 0.2, times(count=800) * 4, times(count=800))
    assert flags(values=mixed) == ["two_humped"]


def test_launches_that_differ_are_not_two_humps():
    point, values = probes.point(), times()
    raws = [probes.launch(point, values * factor) for factor in (1, 1, 1, 1, 1, 2)]
    assert judged(point, *raws) == ["unstable"]


def test_every_flag_has_a_value_and_a_meaning():
    assert set(judging.TABLE) == set(judging._VALUES)
    legend = judging.legend(["lost", judging.REJECTED])
    assert list(legend) == ["lost"] and "received" in legend["lost"]


UNIMODAL = {
    "narrow": lambda r, n: np.exp(r.normal(8, 0.05, n)),
    "wide": lambda r, n: np.exp(r.normal(8, 0.8, n)),
    "Pareto": lambda r, n: 1000 * (1 + r.pareto(1.2, n)),
    "Student": lambda r, n: np.exp(8 + 0.1 * r.standard_t(2, n)),
    "shifted gamma": lambda r, n: 1000 + r.gamma(0.5, 500, n),
    "exponential": lambda r, n: r.exponential(1000, n),
    "uniform": lambda r, n: r.uniform(1000, 3000, n),
    "three in a hundred late": lambda r, n: np.exp(r.normal(8, 0.1, n)) * np.where(r.random(n) < 0.03, 10, 1),
    "whole ns": lambda r, n: np.round(r.normal(150, 1, n)),
    "a coarse clock": lambda r, n: np.round(r.normal(1000, 60, n) / 41.7) * 41.7,
}


@pytest.mark.parametrize("name", UNIMODAL)
def test_one_hump_is_not_taken_for_two(name):
    random = np.random.default_rng(1)
    alarms = [
        humps.ratio(UNIMODAL[name](random, n)) is not None for n in (100, 400, 3000) for _ in range(100)
    ]
    assert np.mean(alarms) <= 0.02


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("times_slower", "sigma"), [(1.5, 0.05), (4, 0.1)])
def test_two_humps_are_found_and_measured(share, times_slower, sigma):
    random = np.random.default_rng(2)
    found = []
    for _ in range(50):
        slow = np.where(random.random(1000) < share, times_slower, 1)
        found.append(humps.ratio(np.exp(random.normal(8, sigma, 1000)) * slow))
    seen = [ratio for ratio in found if ratio is not None]
    assert len(seen) >= 48
    assert np.median(seen) == pytest.approx(times_slower, rel=0.05)


def test_few_samples_say_nothing_of_humps():
    assert humps.ratio(np.array([1.0, 5.0] * 20)) is None
    assert humps.ratio(np.full(1000, 7.0)) is None
    assert humps.ratio(np.zeros(1000)) is None


@pytest.mark.parametrize("launches", [2, 3, 5, 6, 9, 20])
def test_the_interval_of_the_median_holds_it(launches):
    """Launch medians around 5000 ns, of which one in twenty is a tenth slower."""
    random, held = np.random.default_rng(3), []
    for _ in range(2000):
        late = np.where(random.random(launches) < 0.05, 1.1, 1.0)
        low, high = samples.interval(list(5000 * np.exp(random.normal(0, 0.02, launches)) * late))
        held.append(low <= 5000 <= high)
    assert 0.93 <= np.mean(held) <= 0.99


def test_one_wild_launch_of_six_stays_one_end_of_the_interval():
    assert samples.interval([100, 101, 102, 103, 104, 9000]) == (100, 9000)
    assert samples.interval([100, 101, 102, 103, 104, 105, 106, 107, 9000]) == (101, 107)


def test_the_interval_holds_the_median_and_needs_two_launches():
    low, high = samples.interval([100, 100, 100, 100, 300])
    assert low <= 100 <= high
    assert samples.interval([100.0]) is None


def test_the_clock_and_the_loop_are_subtracted_by_batch():
    point = probes.point()
    for batch, less in ((1, 20.5), (10, 2.5)):
        reading = samples.read(probes.launch(point, [100.0, 200.0], batch=batch))
        assert reading.overhead == pytest.approx(less)
        assert reading.samples == pytest.approx([100 - less, 200 - less])


def test_switches_are_counted_by_end_and_unit():
    both = probes.point(pairs=2)
    assert samples.read(probes.launch(both, [1.0])).switches == pytest.approx(1)
    assert samples.read(
        probes.launch(replace(both, pairs=1), [1.0], involuntary=500)
    ).switches == pytest.approx(1.5)
    assert samples.read(probes.launch(both, [1.0], involuntary=500)).sleeps == pytest.approx(1)
    alike = probes.point(alike=True, ends=2)
    assert samples.read(probes.launch(alike, [1.0], voluntary=30)).switches == pytest.approx(0.03)


def test_a_launch_without_a_sample_is_no_reading():
    assert samples.read(probes.launch(probes.point(), [])) is None


def test_fairness_between_ends_that_work():
    alike = probes.point(alike=True, ends=2)
    assert samples.read(probes.launch(alike, [1.0])).notes["fairness"] == pytest.approx(1)
    raw = probes.launch(alike, [1.0])
    raw["ends"][1]["measured"] = 0
    assert samples.read(raw).notes["fairness"] == pytest.approx(0.5)
    assert "fairness" not in samples.read(probes.launch(probes.point(), [1.0])).notes


def test_the_value_that_gave_a_flag_is_kept():
    point, values = probes.point(), times()
    raws = [probes.launch(point, values * factor) for factor in (0.9, 1.0, 1.1)]
    found = [Found(raw, **CALM) for raw in raws]
    given = judging.judge(point, found, [samples.read(raw) for raw in raws])
    assert given == {"unstable": pytest.approx(0.2, rel=0.02)}
