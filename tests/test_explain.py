"""Each rule of an explanation speaks on its evidence and on nothing else; none leans on a broken point."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import explain
from models.explain import limits, outside, reasons
from models.explain.view import View, bill
from models.knobs import Value
from models.metrics import Estimate, Finding, Mark, Metrics
from models.series import Peak, Point
from models.wording import figure, interval, percent, seconds


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.]) (?=[A-Z])", text)


def metrics(
    rate: float = 1000.0, use: Mapping[str, float] | None = None, response: float = 0.01, **counters: float
) -> Metrics:
    return Metrics(
        Estimate(rate, rate * 0.98, rate * 1.02), Estimate(response), utilisation=use or {}, counters=counters
    )


def point(x: float, rate: float = 1000.0, **rest: object) -> Point:
    """A sound point of five runs that scatter by one per cent."""
    predicted, broken, findings = (rest.pop(name, ()) for name in ("predicted", "broken", "findings"))
    return Point(
        x,
        metrics(rate, **rest),  # type: ignore[arg-type]
        metrics(predicted) if isinstance(predicted, float) else None,
        tuple(rate * factor for factor in (0.99, 1.01, 1.0, 0.995, 1.005)),
        broken,  # type: ignore[arg-type]
        findings,  # type: ignore[arg-type]
    )


def view(
    *points: Point,
    members: tuple[float, ...] | None = None,
    variable: str = "workers",
    cpus: int = 2,
    fixed: Mapping[str, Value] | None = None,
) -> View:
    """What the rules see, with the peak set given instead of computed."""
    sound = tuple(p for p in points if p.sound)
    best = max(sound, key=lambda p: p.measured.throughput.value if p.measured else 0, default=None)
    members = members if members is not None else ((best.x,) if best else ())
    beyond = [p for p in sound if best and p.x > best.x and p.x not in members]
    peak = Peak(best.x if best else math.nan, members)
    end = beyond[-1] if beyond else None
    return View(variable, fixed or {}, points, sound, best, end, peak, (), None, True, cpus)


def said(rule: reasons.Rule, seen: View) -> str:
    answer = rule(seen)
    assert answer is not None
    assert answer.evidence
    assert answer.text.endswith(".") and answer.text[0].isupper()
    return answer.text


# Where it peaks


def test_a_lone_highest_value_is_said_to_be_alone() -> None:
    text = said(reasons.WHERE[2], view(point(1, 800), point(2, 1000), point(3, 700)))
    assert "highest at 2 workers (1,000/s)" in text
    assert "every other value measured is significantly lower (95 %)" in text


def test_values_as_good_are_named() -> None:
    points = point(1, 800), point(2, 990), point(3, 1000), point(4, 995), point(5, 600)
    text = said(reasons.WHERE[2], view(*points, members=(2, 3, 4)))
    assert "those at {2, 4} are not significantly lower" in text


def test_a_peak_at_the_edge_may_lie_further_on() -> None:
    rising = view(point(1, 500), point(2, 1000))
    assert "may lie further on" in said(reasons.WHERE[2], rising)
    assert "may lie further on" not in said(reasons.WHERE[2], view(point(1, 1000), point(2, 500)))


def test_a_flat_curve_has_no_place_of_its_peak() -> None:
    text = said(reasons.WHERE[2], view(point(1, 1000), point(2, 1001), members=(1, 2)))
    assert "where it peaks cannot be said" in text
    assert "further on" not in text


def test_broken_points_are_named_and_left_out() -> None:
    mark = (Mark("stationarity", 0.2, 0.1),)
    text = said(reasons.WHERE[2], view(point(1, 800), point(2, 5000, broken=mark), point(3, 700)))
    assert "highest at 1 worker (800/s)" in text
    assert "the point at 2 workers is broken (stationarity) and left out" in text


def test_nothing_sound_says_nothing_of_the_peak() -> None:
    seen = view(point(1, broken=(Mark("replies", 0.1, 0.0),)), point(2, broken=(Mark("steal", 0.1, 0.02),)))
    text = explain.explain(seen).text
    assert "Nothing can be said of the peak" in text
    assert "2 of 2 points are broken (replies, steal)" in text
    assert not re.search(r"\bmodel\b|What limits|falls by", text)


def test_only_predictions_say_so() -> None:
    seen = view(Point(1, predicted=metrics(500.0)), Point(2, predicted=metrics(900.0)))
    text = explain.explain(seen).text
    assert "Nothing was measured" in text
    assert "model alone, held against nothing, puts the peak at 2 workers (900/s)" in text


# What limits it

BUSY = {
    "cpu": ({"cpu": 0.97, "load_cpu": 0.3}, {}, "both CPUs (97 % busy, 31 % of it by the load generator)"),
    "load_thread": (
        {"cpu": 0.5, "load_thread": 0.96},
        {},
        "the load generator's thread (96 % busy, so that the server may",
    ),
    "one_thread": (
        {"cpu": 0.3, "server_cpu": 0.245},
        {},
        "the server's CPU time (0.98 of one CPU, all that a single thread",
    ),
    "worker": (
        {"cpu": 0.3, "worker": 0.97},
        {},
        "the pool of workers (97 % busy while the CPUs are 30 % busy)",
    ),
    "crowded": (
        {"cpu": 0.5, "load_thread": 0.25},
        {"load_wait": 0.0005, "load_cpu": 0.00025},
        "getting a CPU (the load generator's thread waits for one 50 % of the time, though it and",
    ),
    "locks": (
        {"cpu": 0.5},
        {"lock_wait": 0.004},
        "locks (threads wait 4 ms for them a reply, which itself takes 10 ms)",
    ),
}


@pytest.mark.parametrize("name", BUSY)
def test_each_limit_is_named_on_its_own_evidence(name: str) -> None:
    use, counters, words = BUSY[name]
    seen = view(
        point(1, 900, use={"cpu": 0.2}),
        point(2, 1000, use=use, **counters),
        cpus=4 if name == "one_thread" else 2,
    )
    text = said(limits.LIMIT[0], seen)
    assert words in text
    others = [limit(seen, seen.best) for limit in limits.LIMITS] if seen.best else []
    assert sum(other is not None for other in others) == 1
    assert limits.LIMIT[0](view(point(1, 900, use=use, **counters), point(2, 1000, use={"cpu": 0.2}))) is None


def test_two_limits_are_both_named() -> None:
    text = said(limits.LIMIT[0], view(point(1), point(2, 2000, use={"cpu": 0.96, "load_thread": 0.97})))
    assert "both CPUs (96 % busy) and the load generator's thread (97 % busy)" in text


def test_busy_workers_are_no_limit_where_the_cpus_are_full() -> None:
    text = said(limits.LIMIT[0], view(point(1), point(2, 2000, use={"cpu": 0.99, "worker": 1.0})))
    assert "pool" not in text


def test_a_finding_is_never_contradicted() -> None:
    thinking = (Finding("think_limited", 0.94, "of the clients' time"),)
    text = said(limits.LIMIT[0], view(point(1), point(2, 2000, use={"cpu": 0.1}, findings=thinking)))
    assert "the clients themselves, who think 94 % of the time" in text
    for name in ("cpu_limited", "load_limited", "lock_limited"):
        marked = point(
            2, 2000, use={"cpu": 0.5, "load_thread": 0.5}, lock_wait=1e-5, findings=(Finding(name, 1, "x"),)
        )
        assert "cannot be said" not in explain.explain(view(point(1), marked)).text


def test_a_limit_that_appears_beyond_is_named_there() -> None:
    points = point(2, 1000, use={"cpu": 0.97}), point(8, 500, use={"cpu": 0.6}, lock_wait=0.02, response=0.03)
    text = said(limits.LIMIT[0], view(*points))
    assert "at 8 workers also locks (threads wait 20 ms" in text


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({"server": "iterative"}, "(1: of 8 clients the other 7 wait for one to end)"),
        ({"server": "sbuf", "hold": "connection", "workers": 6}, "(6: of 8 clients the other 2 "),
        ({"server": "sbuf", "hold": "connection", "workers": 8}, ""),
        ({"server": "sbuf"}, ""),
        ({"server": "iterative", "connection": "per_request"}, ""),
        ({"server": "target"}, ""),
        ({}, ""),
    ],
    ids=str,
)
def test_connections_that_wait_for_others_to_end_are_a_limit(fixed: dict[str, Value], words: str) -> None:
    starved = (Finding("starved", 7.0, "clients"),)
    for findings in ((), starved):
        seen = view(
            point(1), point(8, 2000, use={"cpu": 0.1}, findings=findings), variable="clients", fixed=fixed
        )
        if words and findings:
            assert words in said(limits.LIMIT[0], seen)
        else:
            assert limits.LIMIT[0](seen) is None


def test_connections_that_wait_are_a_limit_where_more_clients_change_nothing() -> None:
    starved = (Finding("starved", 3.0, "clients"),)
    points = point(1, 1000, use={"cpu": 0.1}), point(4, 999, use={"cpu": 0.1}, findings=starved)
    same, apart = (
        limits.LIMIT[0](view(*points, variable="clients", fixed={"server": "iterative"}, members=members))
        for members in ((1.0, 4.0), (1.0,))
    )
    assert apart is None and same is not None and "at 1 client: " in same.text
    assert "(1: of 4 clients the other 3 wait for one to end)" in same.text


def test_starved_clients_are_told() -> None:
    starved = (Finding("starved", 4.0, "clients"),)
    text = said(
        limits.LIMIT[1], view(point(1, use={"cpu": 0.4}), point(2, 900, use={"cpu": 0.4}, findings=starved))
    )
    assert "also found: starved, 4 clients, at 2 workers" in text


def test_nothing_near_its_limit_cannot_be_said() -> None:
    text = said(limits.LIMIT[1], view(point(1, use={"cpu": 0.4, "worker": 0.3})))
    assert "cannot be said: nothing that was watched is near its limit" in text
    assert "(busy: the CPUs 40 % and the workers 30 %)" in text
    assert "no resource's use was recorded" in said(limits.LIMIT[1], view(point(1)))


# What is lost beyond

CHEAP = {"server_cpu": 50e-6, "load_cpu": 30e-6, "busy": 40e-6}
DEAR = {"server_cpu": 170e-6, "load_cpu": 30e-6, "busy": 40e-6}


def loss(
    here: Mapping[str, float], there: Mapping[str, float], uses: tuple[float, float] = (0.98, 0.98)
) -> View:
    return view(
        point(2, 1000, use={"cpu": uses[0]}, **here),
        point(8, 400, use={"cpu": uses[1]}, **there),
    )


def first_loss(seen: View) -> str:
    answer = next(filter(None, (rule(seen) for rule in limits.LOSS)), None)
    return answer.text if answer else ""


def test_a_dearer_reply_is_told_in_parts() -> None:
    text = first_loss(loss(CHEAP, DEAR))
    assert "From 2 to 8 workers throughput falls by 60 % as a reply costs more CPU: 80 → 200 µs" in text
    assert "the server's other time 10 → 130 µs" in text
    assert "the service's work 40 → 40 µs" in text
    assert "spin" not in text


def test_spinning_is_an_upper_bound_and_needs_spins() -> None:
    text = first_loss(loss(CHEAP, {**DEAR, "spins": 300.0}))
    assert (
        "the waits spin (300 turns a reply), and up to 130 µs a reply, 65 % of all CPU used at 8 workers"
        in text
    )


def test_spinning_without_a_loss_is_told_where_it_matters() -> None:
    assert "Up" not in first_loss(view(point(1, 1000, use={"cpu": 0.9}, **CHEAP)))
    spinning = view(point(1, 1000, use={"cpu": 0.9}, **{**DEAR, "spins": 40.0}))
    assert first_loss(spinning).startswith("The waits spin (40 turns a reply)")
    cheap = view(point(1, 1000, use={"cpu": 0.9}, **{**CHEAP, "spins": 40.0}))
    assert first_loss(cheap) == ""


def test_work_longer_than_the_servers_cpu_is_not_split() -> None:
    slept = {**DEAR, "busy": 5e-3, "spins": 50.0}
    cost = bill(point(1, **slept))
    assert cost is not None and not cost.split
    text = first_loss(loss(CHEAP, slept))
    assert "the server 50 → 170 µs" in text
    assert "spin" not in text and "service's work" not in text


def test_growing_events_are_told_beside_a_loss() -> None:
    text = first_loss(loss({**CHEAP, "switches": 1.0}, {**DEAR, "switches": 3.4}))
    assert "meanwhile context switches a reply go from 1 to 3.4" in text
    assert "meanwhile" not in first_loss(loss({**CHEAP, "switches": 1.0}, {**DEAR, "switches": 1.2}))


def test_idle_cpus_are_told_from_dearer_replies() -> None:
    text = first_loss(loss(CHEAP, CHEAP, uses=(0.98, 0.39)))
    assert (
        "while the CPUs go from 98 % to 39 % busy: threads wait instead of working, for what cannot be said"
        in text
    )
    locked = first_loss(loss({**CHEAP, "lock_wait": 1e-6}, {**CHEAP, "lock_wait": 9e-4}, uses=(0.98, 0.39)))
    assert "for locks they wait 900 µs instead of 1 µs a reply" in locked


def test_a_loss_without_accounts_cannot_be_said() -> None:
    text = first_loss(view(point(2, 1000), point(8, 400)))
    assert text == "Why from 2 to 8 workers throughput falls by 60 % cannot be said from what was recorded."


def test_no_significant_loss_is_not_explained() -> None:
    seen = view(
        point(2, 1000, use={"cpu": 0.98}, **CHEAP), point(8, 990, use={"cpu": 0.98}, **DEAR), members=(2, 8)
    )
    assert first_loss(seen) == ""


# How near the model came


def test_the_models_error_and_peak() -> None:
    points = (
        point(1, 1000, predicted=1100.0),
        point(2, 2000, predicted=2100.0),
        point(3, 1000, predicted=1300.0),
    )
    text = said(reasons.MODEL[0], view(*points))
    assert "median error of 10 % (worst 30 % at 3 workers), always too high" in text
    assert "its peak, at 2 workers, agrees with what was measured" in text
    other = point(1, 1000, predicted=1100.0), point(2, 2000, predicted=1000.0)
    assert "puts the peak at 1 worker, where the measured one is not" in said(reasons.MODEL[0], view(*other))


def test_broken_points_do_not_score_the_model() -> None:
    broken = (Mark("accounting", 0.3, 0.01),)
    points = point(1, 1000, predicted=1100.0), point(2, 10, predicted=9000.0, broken=broken)
    assert "median error of 10 %." in said(reasons.MODEL[0], view(*points))
    assert reasons.MODEL[0](view(point(1))) is None


# All together

shares = st.one_of(st.none(), st.floats(0, 1.2), st.just(math.nan))
amounts = st.one_of(st.none(), st.floats(0, 1e-2), st.just(math.nan), st.floats(0, 1e4))
names_used = ("cpu", "server_cpu", "load_cpu", "load_thread", "worker")
names_counted = ("server_cpu", "load_cpu", "busy", "lock_wait", "spins", "switches", "polls", "lock_waits")


@st.composite
def any_point(draw: st.DrawFn, x: float) -> Point:
    def some(names: tuple[str, ...], values: st.SearchStrategy[float | None]) -> dict[str, float]:
        return {name: value for name in names if (value := draw(values)) is not None}

    rate = draw(st.floats(0, 1e6))
    measured = metrics(rate, some(names_used, shares), draw(st.floats(0, 1)), **some(names_counted, amounts))
    predicted = metrics(draw(st.floats(0, 1e6))) if draw(st.booleans()) else None
    broken = (Mark("steal", 0.5, 0.02),) if draw(st.integers(0, 3)) == 0 else ()
    kinds = st.sampled_from(("cpu_limited", "think_limited", "starved", "lock_limited", "load_limited"))
    findings = tuple(
        Finding(draw(kinds), draw(st.floats(0, 5)), "of capacity") for _ in range(draw(st.integers(0, 1)))
    )
    runs = tuple(rate * draw(st.floats(0.5, 1.5)) for _ in range(3))
    return Point(x, measured if draw(st.integers(0, 5)) else None, predicted, runs, broken, findings)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_was_measured_two_to_five_sentences_with_evidence(data: st.DataObject) -> None:
    points = [data.draw(any_point(float(x))) for x in range(1, 1 + data.draw(st.integers(1, 5)))]
    found = explain.explain(view(*points))
    assert 2 <= len(sentences(found.text)) <= 5, found.text
    assert found.evidence
    assert "nan" not in found.text and "inf" not in found.text
    hurt = {p.x for p in points if p.broken}
    for item in found.evidence:
        place = re.search(r" at workers=(\d+)$", item.name)
        if place and float(place[1]) in hurt:
            assert item.name.startswith(("broken by", "predicted throughput"))


def test_figures_in_words() -> None:
    assert [figure(x) for x in (0, 14230.4, 0.00123, -1.5, 999.6, math.inf, math.nan)] == [
        "0", "14,200", "0.00123", "−1.5", "1,000", "∞", "–",
    ]  # fmt: skip
    assert [seconds(x) for x in (31e-6, 4.2e-3, 1.5)] == ["31 µs", "4.2 ms", "1.5 s"]
    assert [percent(x) for x in (0.954, 0.0312, 0, 1)] == ["95 %", "3.1 %", "0 %", "100 %"]
    assert interval(2.61, math.inf) == "[2.61, no bound]"


# Servers that are not ours


def outsider(*points: Point) -> View:
    return replace(view(*points), fixed={"server": "command"})


FULL = {"cpu": 0.97, "server_cpu": 0.7, "load_cpu": 0.27, "load_thread": 0.54}


def test_what_is_unseen_is_said_of_servers_that_are_not_ours_alone() -> None:
    seen = point(2, use=FULL)
    assert outside.UNSEEN[0](view(seen)) is None
    text = said(outside.UNSEEN[0], outsider(seen))
    assert "Its locks, queues and workers cannot be seen from outside" in text
    text = said(outside.UNSEEN[0], outsider(point(2, use={"server_cpu": math.nan, "load_thread": 0.5})))
    assert "Its CPU time, locks" in text


def test_threads_that_wait_for_a_cpu_are_counted() -> None:
    waiting = point(4, 1000, use=FULL, server_wait=0.0018, server_threads=5.0)
    assert outside.queued(view(waiting), waiting) is None
    found = outside.queued(outsider(waiting), waiting)
    assert found and "1.8 of its 5 threads" in found.text and "other processes" not in found.text
    idle = point(4, 1000, use=FULL | {"cpu": 0.3}, server_wait=0.0018, server_threads=5.0)
    found = outside.queued(outsider(idle), idle)
    assert found and "use only 30 % of all: other processes do" in found.text
    calm = point(4, 1000, use=FULL, server_wait=0.0002, server_threads=5.0)
    assert outside.queued(outsider(calm), calm) is None


def test_one_cpu_of_a_server_that_is_not_ours_may_be_several_threads_that_take_turns() -> None:
    full = point(8, use={"cpu": 0.7, "server_cpu": 0.495, "load_cpu": 0.2, "load_thread": 0.4})
    assert "run one at a time" in said(limits.LIMIT[0], outsider(full))
    assert "run one at a time" not in said(limits.LIMIT[0], view(full))
