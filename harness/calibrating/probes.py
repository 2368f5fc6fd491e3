"""The probes that costs come from, and what each says of them: rows of `harness.calibrating.joint`.

Everything here costs processor time of one CPU, but for waking a sleeper on another one. A probe that this build does
not have, or that this machine refuses, gives no rows.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.calibrating.joint import Equation
from models.des.machine import depth
from pyx import registry
from pyx.probing import launch

BUDGET = 0.025  # s of a launch
GAP = "50"  # µs that a sleeper rests, about as long as a server's
LONG = (400, 4000)  # µs: rests after which the sleeper's CPU has halted
MANY = 65  # descriptors; one stands for the listener
HARDLY = 0.1  # longer than the faster half, as a share
DIGITS = 1e-9  # no figure is taken to be shorter, s


@dataclass(frozen=True, slots=True)
class Figure:
    """What one figure of a probe is a sum of: the time of a unit, or a note (ns) of one of the ends.

    A note is an analogy: a sleeper that answers with a word does less, and finds less gone cold, than a server.

    Attributes
    ----------
    terms, slept : mapping of str to float
        Counts by name of cost: in each unit, and for each time that one of the ends slept.
    """

    terms: Mapping[str, float]
    slept: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    end: int = 0
    clocks: int = 0  # readings of the clock in a note


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe with its settings; `apart`: on two CPUs, else on one; `budget`: s of a launch."""

    name: str
    figures: tuple[Figure, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    apart: bool = False
    budget: float = BUDGET

    @property
    def source(self) -> str:
        return " ".join(["probe", self.name, *self.options.values()])


def _unit(name: str, terms: Mapping[str, float], **options: str) -> Probe:
    return Probe(name, (Figure(terms),), options)


def _after(pause: int) -> Probe:
    """A wake-up of who has slept for so many µs, on a halted CPU: what it costs the waker, and how long it takes."""
    cooling = depth(pause * 1e-6)
    called = {"machine.wake_waker": 1, "machine.futex": 1, "machine.cooling_waker": cooling}
    begun = {"machine.wake_idle": 1, "machine.halted_latency": 1, "machine.cooling_latency": cooling}
    figures = (Figure(called, note="waker_ns", clocks=1), Figure(begun))
    return Probe("wakeup", figures, {"variant": "idle", "gap": str(pause)}, apart=True, budget=20e-6 * pause)


# A yield is a call and a switch, with the scheduler's part in it. Two ends on one CPU that wake each other switch twice in
# a round trip, and make four calls. Who is woken may pre-empt its waker, who then finds the answer there and need not
# sleep: sleeps are counted. To sleep is taken to be a call that fails, and a switch. A wake-up that finds a sleeper has
# its call in its cost, so that for each sleep one plain call less is left of the four.
PROBES = (
    _unit("syscall", {"machine.syscall": 1}),
    _unit("switch", {"machine.switch": 2, "machine.syscall": 2}, variant="yield"),
    _unit("wakeup", {"machine.futex": 4}, variant="calls"),
    Probe(
        "wakeup",
        (Figure({"machine.switch": 2, "machine.futex": 4}, {"machine.wake_futex": 1, "machine.futex": -1}),),
        {"variant": "pingpong"},
    ),
    Probe(
        "wakeup",
        (
            Figure({"machine.wake_waker": 1, "machine.futex": 1}, note="waker_ns", clocks=1),
            Figure({"machine.wake_sleeper": 1, "machine.futex": 1}, note="sleeper_cpu_ns", end=1, clocks=1),
            Figure({"machine.wake_idle": 1}),
        ),
        {"variant": "idle", "gap": GAP},
        apart=True,
    ),
    *map(_after, LONG),
    _unit("readiness", {"load.poll": 1}, variant="epoll"),
    _unit("readiness", {"select.poll": 1}, variant="select"),
    _unit(
        "readiness",
        {"select.poll": 1, "select.poll_connection": MANY - 1},
        variant="select",
        descriptors=str(MANY),
    ),
    _unit("fork", {"machine.fork": 1}),
    _unit("thread_create", {"machine.thread_create": 1}),
)


def available() -> list[Probe]:
    """Those that this build has, with these settings, and that the CPUs suffice for."""
    known, cpus = registry.probes(), len(os.sched_getaffinity(0))
    return [
        probe
        for probe in PROBES
        if probe.name in known and _has(known[probe.name], probe) and (cpus > 1 or not probe.apart)
    ]


def _has(declared: Mapping[str, Any], probe: Probe) -> bool:
    knobs = {knob["name"]: knob for knob in declared["knobs"]}
    variant = probe.options.get("variant")
    return knobs.keys() >= probe.options.keys() and (
        variant is None or variant in knobs["variant"]["allowed"].split("|")
    )


def measure(probe: Probe) -> list[Equation]:
    """One launch.

    Raises
    ------
    ProbeError
    """
    kinds = registry.probes()[probe.name]["kinds"]
    cpus = sorted(os.sched_getaffinity(0))[: 2 if probe.apart else 1]
    found = launch(
        probe.name,
        probe.options,
        kind="thread" if "thread" in kinds else "process",
        cpus=cpus,
        budget=probe.budget,
        capacity=1000,
    )
    return equations(probe, found)


def equations(probe: Probe, found: Mapping[str, Any]) -> list[Equation]:
    """What a launch says of the costs."""
    return [_equation(probe, figure, found) for figure in probe.figures]


def _equation(probe: Probe, figure: Figure, found: Mapping[str, Any]) -> Equation:
    end = found["ends"][figure.end]
    if figure.note:
        ns = end["notes"][figure.note] - figure.clocks * found["clock_ns"]
    else:
        ns = statistics.median(end["samples"]) - found["clock_ns"] / end["batch"] - found["loop_ns"]
    seconds = max(ns * 1e-9, DIGITS)
    sleeps = sum(e["voluntary"] for e in found["ends"]) / found["ends"][0]["units"]
    terms = dict(figure.terms)
    for name, count in figure.slept.items():
        terms[name] = terms.get(name, 0.0) + count * sleeps
    return Equation(probe.source, figure.note, "analogy" if figure.note else "probe", terms, seconds, seconds)


def steady(rows: Sequence[Equation]) -> list[Equation]:
    """The launches that other processes left alone, which only make them slower: of each figure the faster half, and those
    that took hardly longer."""
    groups: dict[tuple[str, str], list[Equation]] = {}
    for row in rows:
        groups.setdefault((row.source, row.part), []).append(row)
    return [row for group in groups.values() for row in _fast(group)]


def _fast(group: Sequence[Equation]) -> list[Equation]:
    half = sorted(row.value for row in group)[: (len(group) + 1) // 2]
    most = max(half[-1], (1 + HARDLY) * statistics.median(half))
    return [row for row in group if row.value <= most]
