"""The joint fit recovers known costs from noisy readings, says how well it knows them, and refuses what is singular."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from calibrated import TRUE, Machine
from sizes import sized

from harness.calibrating import joint, ladder
from harness.calibrating.joint import MOST_CONDITION, Equation, Fit, Singular, fit


def test_known_costs_are_recovered_exactly_without_noise() -> None:
    found = Machine(1, noise=0.0).fit()
    assert found.table.keys() == TRUE.keys()
    for name, value in TRUE.items():
        assert found.table[name].value == pytest.approx(value, rel=1e-6), name
    assert found.quality["residual"] < 1e-9 and found.quality["between"] == 0.0
    assert 1 < found.quality["condition"] < MOST_CONDITION
    assert found.quality["rows"] == len(found.rows)


@sized("trials", 30, 100)
@pytest.mark.parametrize("analogy", [1.0, 2.5])
def test_intervals_hold_known_costs_as_often_as_they_say(analogy: float, trials: int) -> None:
    held, near = 0, []
    for seed in range(trials):
        found = Machine(seed, noise=0.01, equation=0.03, method=0.05, analogy=analogy).fit()
        held += sum(found.table[name].low <= value <= found.table[name].high for name, value in TRUE.items())
        near += [abs(found.table[name].value / value - 1) for name, value in TRUE.items()]
    # 95 % of twenty in each trial, which are correlated
    assert 0.93 <= held / (trials * len(TRUE)) <= 0.97
    assert np.median(near) < 0.05


@sized("trials", 12, 40)
def test_one_pass_in_five_that_is_slower_bends_no_cost(trials: int) -> None:
    held, biased = 0, []
    for seed in range(trials):
        machine = Machine(seed, noise=0.02, equation=0.03, method=0.05)
        passes = [slower(equation, machine) for equation in ladder.equations(machine.climb(20))]
        table = fit([*machine.probes(20), *passes]).table
        held += sum(table[name].low <= value <= table[name].high for name, value in TRUE.items())
        biased.append(table["load.event"].value / TRUE["load.event"] - 1)
    assert held / (trials * len(TRUE)) >= 0.93
    assert abs(np.mean(biased)) < 0.03


def slower(equation: Equation, machine: Machine) -> Equation:
    """Now and then one that takes a fifth to three fifths longer."""
    factor = 1 + machine.between(0.2, 0.6) * (machine.between(0, 1) < 0.2)
    return replace(equation, value=equation.value * factor, whole=equation.whole * factor)


def test_more_noise_gives_wider_intervals_and_more_passes_narrower_ones() -> None:
    def width(found: Fit) -> float:
        cost = found.table["machine.wake_waker"]
        return cost.high - cost.low

    assert width(Machine(5, 0.1).fit()) > 3 * width(Machine(5, 0.01).fit())
    assert width(Machine(5, 0.1).fit(passes=32)) < 0.6 * width(Machine(5, 0.1).fit())


def test_the_ladders_own_error_is_found() -> None:
    found = [Machine(seed, equation=0.05, method=0.05).fit().quality["between"] for seed in range(20)]
    assert np.median(found) == pytest.approx(0.05, rel=0.3)


def test_an_analogy_that_disagrees_bends_nothing_and_shows() -> None:
    agrees, disagrees = Machine(2).fit(), Machine(2, analogy=3.0).fit()
    for name in ("machine.wake_waker", "machine.wake_sleeper", "select.event"):
        error = agrees.table[name].high - agrees.table[name].value
        assert abs(disagrees.table[name].value - agrees.table[name].value) < 3 * error
    rows = {row.source: row for row in disagrees.rows}
    row = rows["probe wakeup idle 50 sleeper_cpu_ns"]
    assert row.measured > 2 * row.fitted
    assert row.error > 0.5 * (row.measured - row.fitted)  # it is believed no more than it agrees
    assert "probe wakeup idle" not in disagrees.table["machine.wake_sleeper"].source


def test_rows_that_do_not_tell_costs_apart_are_singular() -> None:
    # every reply wakes both sides once on every rung: only the sleeper of the probe tells who wakes and who sleeps
    machine = Machine(1, same=True)
    loops = {
        rung: several
        for rung, several in machine.climb().items()
        if rung.server == "select" and rung.apart and not (rung.think and rung.clients > 1)
    }
    readings = ladder.equations(loops)
    with pytest.raises(Singular, match=r"cannot tell apart .*machine.wake_waker"):
        fit([*machine.probes(without="probe wakeup idle"), *readings])
    whole = ladder.equations(machine.climb())
    assert fit([*machine.probes(), *whole]).table["machine.wake_waker"].value > 0


def test_a_switch_and_a_sleep_that_always_come_together_are_singular() -> None:
    machine = Machine(1)
    rows = [
        Equation(
            e.source,
            e.part,
            e.kind,
            {**e.terms, "machine.switch": e.terms["machine.block"]},
            e.value,
            e.whole,
        )
        if "machine.block" in e.terms
        else e
        for e in ladder.equations(machine.climb())
    ]
    alone = [e for e in machine.probes() if "machine.switch" not in e.terms]
    with pytest.raises(Singular, match=r"machine.switch, machine.block"):
        fit([*alone, *rows])


def test_a_cost_that_is_never_counted_and_too_few_rows_are_singular() -> None:
    with pytest.raises(Singular, match=r"never counted: machine.block"):
        fit([Equation("a", "", "ladder", {"load.event": 1.0, "machine.block": 0.0}, 1e-6, 1e-6)] * 3)
    with pytest.raises(Singular, match=r"1 rows for 1 costs: load.event"):
        fit([Equation("a", "", "ladder", {"load.event": 1.0}, 1e-6, 1e-6)] * 3)


def test_each_cost_names_its_sources() -> None:
    table = Machine(4, equation=0.03, method=0.05).fit().table
    assert table["load.poll"].source == "probe readiness epoll"
    assert table["machine.switch"].source == "probe switch yield"
    assert "probe wakeup pingpong" in table["machine.wake_futex"].source
    assert "select N=16 one" in table["select.event"].source and table["select.event"].source.startswith(
        "ladder "
    )
    assert all(cost.source for cost in table.values())


def test_a_cost_that_would_be_negative_is_at_its_bound() -> None:
    def row(source: str, terms: dict[str, float], value: float) -> Equation:
        return Equation(source, "", "ladder", terms, value, 1e-6)

    rows = [
        row("a", {"x": 1.0}, 1.00e-6), row("a", {"x": 1.0}, 1.02e-6), row("b", {"x": 1.0, "y": 1.0}, 0.9e-6),
        row("c", {"x": 1.0, "y": 2.0}, 0.8e-6),
    ]  # fmt: skip
    cost = fit(rows).table["y"]
    assert cost.value == cost.low == 0 < cost.high and cost.source.endswith("at its bound, 0")


def test_a_cost_that_cannot_be_told_from_nothing_says_so() -> None:
    assert joint.cost(1e-6, 2e-6, "ladder").source == "ladder; may be 0"
    assert joint.cost(1e-6, 2e-6, "ladder").low == 0
    assert joint.cost(1e-6, 0.9e-6, "ladder").source == "ladder"
    assert joint.cost(1e-6, math.nan, "ladder").source == "ladder"


def test_the_covariance_is_that_of_the_intervals() -> None:
    found = Machine(4, equation=0.03, method=0.05).fit()
    one = found.covariance.of({"load.event": 1.0}) ** 0.5
    cost = found.table["load.event"]
    assert 1.9 < (cost.high - cost.value) / one < 2.2
    # a poll more a reply is an event less: the sum is surer than its parts would be if they were independent
    pair = {"load.event": 1.0, "load.poll": 1.0}
    apart = found.covariance.of({"load.event": 1.0}) + found.covariance.of({"load.poll": 1.0})
    assert found.covariance.of(pair) < apart
