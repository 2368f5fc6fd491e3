"""Splitting a round trip: the parts are those that it was made of, their intervals hold, and what is missing is said."""

from __future__ import annotations

import math
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.probing import splitting
from harness.probing.points import Form, Point

# What the imagined machine's primitives cost, ns.
COSTS = {"calls": 800.0, "byte": 0.25, "switch": 900.0, "wake": 1400.0, "halt": 9000.0, "other": 350.0}
YIELD, FUTEX = 200.0, 700.0


def variant(default: str, allowed: str) -> dict[str, Any]:
    return {"knobs": [{"name": "variant", "default": default, "allowed": allowed}]}


FORMS = {
    ("pipe", "pingpong"): ("round trip", 2),
    ("pipe", "calls"): ("write and read, twice", 1),
    ("wakeup", "pingpong"): ("round trip", 2),
    ("wakeup", "calls"): ("wake and wait, twice", 1),
    ("wakeup", "idle"): ("wake-up", 2),
    ("switch", "yield"): ("two yields and two switches", 2),
    ("switch", "calls"): ("two yields", 1),
    ("syscall", "getppid"): ("call", 1),
}
PROBES = {
    "pipe": variant("pingpong", "pingpong|calls"),
    "wakeup": variant("pingpong", "pingpong|calls|idle"),
    "switch": variant("yield", "yield|calls"),
    "syscall": variant("getppid", "getppid|yield"),
}


def probe_form(name: str, options: dict[str, str]) -> dict[str, Any]:
    unit, ends = FORMS[name, options["variant"]]
    rest = dict.fromkeys(("alike", "spins", "together", "unbound", "sized"), False)
    return {"unit_of_work": unit, "ends": ends, **rest}


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(probes=lambda: PROBES, probe_form=probe_form)
    monkeypatch.setattr(splitting, "registry", fake)


def row(
    probe: str, form: str, position: str, launches: list[float], *, size: int = 8, **more: Any
) -> dict[str, Any]:
    return {
        "probe": probe,
        "variant": form,
        "kind": "process",
        "position": position,
        "pairs": 1,
        "size": size,
        "unit_of_work": FORMS[probe, form][0],
        "median_ns": median(launches),
        "launches": launches,
        "switches": 1.0,
        "sleeps": 0.5,
        "flags": [],
        "options": {},
        "parts": None,
        **more,
    }


def truth(size: int = 8, position: str = "same_cpu") -> dict[tuple[str, str, str, int], float]:
    """Each row's time: on one CPU two switches and one wake-up in a round trip, on two CPUs two wake-ups."""
    same = position == "same_cpu"
    way = 2 * COSTS["switch"] + COSTS["wake"] if same else 2 * COSTS["halt"]
    rows = {
        ("pipe", "pingpong", position, size): COSTS["calls"] + COSTS["byte"] * size + way + COSTS["other"],
        ("pipe", "calls", "alone", 8): COSTS["calls"] + COSTS["byte"] * 8,
        ("pipe", "calls", "alone", size): COSTS["calls"] + COSTS["byte"] * size,
        ("wakeup", "pingpong", position, 0): FUTEX + way,
        ("wakeup", "calls", "alone", 0): FUTEX,
    }
    if same:
        rows["switch", "yield", "same_cpu", 0] = 2 * YIELD + 2 * COSTS["switch"]
        rows["switch", "calls", "alone", 0] = 2 * YIELD
    return rows


def document(noise: float, seed: int, size: int, position: str, reps: int = 5) -> list[dict[str, Any]]:
    """Launches scatter about the truth by a share of it."""
    rng = np.random.default_rng(seed)
    found = []
    for (probe, form, where, bytes_), value in truth(size, position).items():
        factors = np.exp(noise * rng.standard_normal(reps))
        sleeps = 0.5 if position == "same_cpu" else 1.0
        found.append(
            row(
                probe,
                form,
                where,
                list(value * factors),
                size=bytes_,
                sleeps=sleeps if form != "calls" else 0.0,
            )
        )
    return found


def expected(size: int, position: str) -> dict[str, float]:
    whole = {
        "system calls": COSTS["calls"] + COSTS["byte"] * 8,
        "data": COSTS["byte"] * (size - 8),
        "residual": COSTS["other"],
    }
    if position == "same_cpu":
        return {**whole, "switches": 2 * COSTS["switch"], "wake-ups": COSTS["wake"]}
    return {**whole, "wake-ups": 2 * COSTS["halt"]}


@pytest.mark.parametrize("position", ["same_cpu", "l3"])
@pytest.mark.parametrize("size", [8, 4096])
def test_the_parts_are_what_it_was_made_of(size: int, position: str) -> None:
    found = splitting.parts(document(0.0, 1, size, position))
    split = {part["part"]: part for part in found[0]["parts"]}
    wanted = expected(size, position)
    assert list(split) == [
        name for name in ("system calls", "data", "switches", "wake-ups", "residual") if name in wanted
    ]
    for name, value in wanted.items():
        assert split[name]["ns"] == pytest.approx(value, abs=1e-6)
        assert split[name]["low_ns"] <= split[name]["ns"] <= split[name]["high_ns"]


@pytest.mark.parametrize("position", ["same_cpu", "l3"])
def test_the_parts_add_up(position: str) -> None:
    for seed in range(20):
        for found in splitting.parts(document(0.1, seed, 1000, position)):
            if found["parts"]:
                whole = math.fsum(part["ns"] for part in found["parts"])
                assert whole == pytest.approx(found["median_ns"], rel=1e-12)


@pytest.mark.parametrize("position", ["same_cpu", "l3"])
def test_intervals_hold_the_truth(position: str) -> None:
    """At least as often as they say, but for the chance of so many trials."""
    trials, size = 600, 2048
    wanted = expected(size, position)
    held = dict.fromkeys(wanted, 0)
    for seed in range(trials):
        for part in splitting.parts(document(0.02, seed, size, position))[0]["parts"]:
            held[part["part"]] += part["low_ns"] <= wanted[part["part"]] <= part["high_ns"]
    least = 0.95 - 3 * math.sqrt(0.95 * 0.05 / trials)
    assert all(count / trials > least for count in held.values()), held


def test_of_a_wakeup_itself_nothing_is_left() -> None:
    rows = document(0.05, 3, 8, "same_cpu")
    found = splitting.parts([r for r in rows if (r["probe"], r["variant"]) != ("pipe", "pingpong")])
    residual = next(r for r in found if (r["probe"], r["variant"]) == ("wakeup", "pingpong"))["parts"][-1]
    assert residual["ns"] == pytest.approx(0, abs=1e-9) and residual["low_ns"] == pytest.approx(0, abs=1e-9)


def test_one_launch_has_no_interval() -> None:
    split = splitting.parts(document(0.0, 1, 64, "same_cpu", reps=1))[0]["parts"]
    assert all(part["low_ns"] is None for part in split if part["part"] != "data" or part["ns"])


MISSING = [
    (lambda rows: [r for r in rows if r["probe"] != "switch"], "run switch too"),
    (lambda rows: [r for r in rows if r["probe"] != "wakeup"], "run wakeup too"),
    (lambda rows: [r for r in rows if r["variant"] != "calls"], "it takes pipe calls"),
    (
        lambda rows: [{**r, "flags": ["rejected"]} if r["probe"] == "switch" else r for r in rows],
        "run switch",
    ),
    (lambda rows: [{**rows[0], "pairs": 4}, *rows[1:]], "turns of the others"),
    (lambda rows: [{**rows[0], "position": "free"}, *rows[1:]], "the scheduler chose"),
    (lambda rows: [{**rows[0], "kind": "thread"}, *rows[1:]], "ends of the same kind"),
    (lambda rows: [{**r, "sleeps": 0.0} for r in rows], "did not sleep"),
]


@pytest.mark.parametrize(("change", "why"), MISSING)
def test_what_a_split_lacks_is_said(change: Any, why: str) -> None:
    found = splitting.parts(change(document(0.01, 1, 64, "same_cpu")))[0]
    assert found["parts"] is None and why in found["parts_why"]


def test_what_is_no_round_trip_is_left_alone() -> None:
    rows = splitting.parts([row("syscall", "getppid", "alone", [100.0]), *document(0.01, 1, 64, "same_cpu")])
    for found in rows:
        if found["unit_of_work"] != "round trip":
            assert found["parts"] is None and found["parts_why"] is None


def point(probe: str, form: str, position: str, size: int = 8, pairs: int = 1) -> Point:
    made = Form(**probe_form(probe, {"variant": form}))
    return Point(probe, form, "process", position, pairs, size, (), made, (0, 1), True)


def test_a_split_asks_for_what_it_takes() -> None:
    """And with that measured nothing is missing."""
    for position in ("same_cpu", "l3"):
        wanted = [point("pipe", "pingpong", position, 512)]
        extra = splitting.needs(wanted)
        assert {(p.probe, p.variant, p.position, p.size) for p in (*wanted, *extra)} == set(
            truth(512, position)
        )
        assert all(p.form.ends == 1 and len(p.cpus) == 1 for p in extra if p.position == "alone")
        assert not splitting.needs([*wanted, *extra])


@pytest.mark.parametrize(
    "alone",
    [
        point("syscall", "getppid", "alone"),
        point("pipe", "calls", "alone"),
        point("pipe", "pingpong", "free"),
        point("pipe", "pingpong", "same_cpu", pairs=2),
        point("wakeup", "idle", "l3"),
    ],
    ids=str,
)
def test_what_cannot_be_split_needs_nothing(alone: Point) -> None:
    assert splitting.needs([alone]) == []
