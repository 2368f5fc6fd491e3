"""Probes and launches that are made up: rows of a registry, and what kneepoint-probe would write."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.probing.points import Form, Point
from harness.probing.topology import Topology
from pyx import registry

CHOICE = {"type": "choice", "unit": "", "of": "x", "help": ""}
TWO = Topology(
    (0, 1),
    {"same_cpu": ((0, 0), (1, 1)), "l3": ((0, 1),)},
    dict.fromkeys(("smt", "l2", "socket", "numa"), "none"),
)
FOUR = Topology(
    (0, 1, 2, 3),
    {"same_cpu": tuple((cpu, cpu) for cpu in range(4)), "l3": ((0, 1), (2, 3))},
    dict.fromkeys(("smt", "l2", "socket", "numa"), "none"),
)

PROBES: dict[str, dict[str, Any]] = {
    "pingpong": {
        "kinds": ["process", "thread"],
        "knobs": [{"name": "variant", "default": "blocking", "allowed": "blocking|calls", **CHOICE}],
    },
    "polling": {"kinds": ["thread"], "knobs": []},
    "crowd": {
        "kinds": ["process", "thread"],
        "knobs": [
            {
                "name": "ends",
                "type": "int",
                "default": "2",
                "allowed": "1:64",
                "unit": "",
                "of": "x",
                "help": "",
            }
        ],
    },
}


def form(name: str, options: dict[str, str]) -> dict[str, Any]:
    usual = {"unit_of_work": "round trip", "ends": 2, "alike": False, "spins": name == "polling"}
    usual |= {"together": name == "yielding", "unbound": name == "roaming", "sized": name != "polling"}
    if name == "crowd":
        return usual | {"unit_of_work": "turn", "ends": int(options.get("ends", 2)), "alike": True}
    if options.get("variant") == "calls":
        return usual | {"unit_of_work": "calls", "ends": 1}
    return usual


def install(monkeypatch: Any) -> None:
    """The registry holds PROBES and nothing else."""
    rows = {name: {"summary": name, "unit_of_work": "round trip", **row} for name, row in PROBES.items()}
    monkeypatch.setattr(registry, "probes", lambda: rows)
    monkeypatch.setattr(registry, "probe_form", form)


def point(position: str = "same_cpu", cpus: Sequence[int] = (0, 0), **changes: Any) -> Point:
    known = {"unit_of_work": "round trip", "ends": 2, "alike": False, "spins": False}
    known |= {"together": False, "unbound": False, "sized": True}
    shape = Form(**{name: changes.pop(name, value) for name, value in known.items()})
    fields = {
        "probe": "pingpong",
        "variant": "",
        "kind": "process",
        "pairs": 1,
        "size": 8,
        "options": (),
        "bound": True,
    }
    return Point(**{**fields, **changes}, position=position, form=shape, cpus=tuple(cpus))


def launch(
    of: Point, samples: Sequence[float], batch: int = 1, clock_ns: float = 20.0, **end: Any
) -> dict[str, Any]:
    """What a launch of the point writes when every working end takes these samples; `end` changes all its ends."""
    ends = []
    for index in range(of.pairs * of.form.ends):
        works = of.form.alike or index % of.form.ends == 0
        ends.append(
            {
                "pair": index // of.form.ends,
                "end": index % of.form.ends,
                "cpu_first": of.cpus[index % len(of.cpus)],
                "cpu_last": of.cpus[index % len(of.cpus)],
                "migrations": 0,
                "voluntary": 1000,
                "involuntary": 0,
                "units": 1000 if works else 0,
                "measured": 900 if works else 0,
                "busy_ns": 1,
                "began": 1_000_000 if works else 0,
                "ended": 2_000_000 if works else 0,
                "batch": batch if works else 0,
                "stride": 1,
                "speed_before": 17_000.0,
                "speed_after": 17_000.0,
                "sent": 1000,
                "received": 1000,
                "notes": {},
                "samples": list(np.asarray(samples, float)) if works else [],
                **end,
            }
        )
    return {
        "probe": of.probe,
        "unit_of_work": of.form.unit_of_work,
        "kind": of.kind,
        "pairs": of.pairs,
        "size": of.size,
        "clock_ns": clock_ns,
        "loop_ns": 0.5,
        "released": 0,
        "finished": 2_000_000,
        "ends": ends,
    }
