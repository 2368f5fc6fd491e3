"""Calibration: which probes it runs, what it keeps, when it measures anew, and what the command shows."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from calibrated import TRUE, Machine
from click.testing import CliRunner

from harness import calibrate
from harness.calibrating import checking, ladder, probes
from harness.calibrating.joint import Singular
from harness.cli.calibrate import command
from harness.document import document
from harness.plan import Plan
from harness.store import create_store
from models.costs import Costs
from models.des.machine import PRICES
from models.scenario import Scenario
from pyx import probing, registry


@pytest.fixture
def cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An empty cache, and a measurement that counts how often and how it was asked for."""
    asked = []

    def measure(progress: Any = None, effort: calibrate.Effort = calibrate.QUICK) -> Costs:
        asked.append(effort)
        found = Machine(1).fit()
        provenance = {"asked": effort.passes, "neighbours": 0.0, "yardstick": 1.0, "null": 1.0}
        return Costs(2, found.table, {}, found.quality, provenance, found.covariance, found.rows)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(calibrate, "measure", measure)
    monkeypatch.setattr(calibrate, "shifted", lambda known: False)
    return asked


def test_every_cost_that_a_model_names_is_fitted_or_derived() -> None:
    from models.des import closed, queues, sbuf, select

    wanted = {f"machine.{name}" for name in PRICES}
    wanted |= {name for module in (closed, queues, sbuf, select) for name in module.COSTS}
    assert wanted <= TRUE.keys() | {
        "machine.wake_latency",
        "machine.halts",
        "machine.cools",
        "queues.spin_held",
    }


def test_quick_costs_do_not_do_for_the_full_form_but_the_other_way_round(cache: Any) -> None:
    calibrate.costs()
    calibrate.costs()
    assert cache == [calibrate.QUICK]
    calibrate.costs(effort=calibrate.FULL)
    calibrate.costs()
    calibrate.costs(effort=calibrate.FULL)
    assert cache == [calibrate.QUICK, calibrate.FULL]
    calibrate.costs(refresh=True)
    assert cache[2:] == [calibrate.QUICK]


def test_an_older_cache_is_measured_anew(cache: Any) -> None:
    calibrate.costs()
    path = calibrate.cache_path()
    document = json.loads(path.read_text())
    del document["covariance"]
    path.write_text(json.dumps(document))
    calibrate.costs()
    assert len(cache) == 2


def test_the_command_shows_costs_intervals_sources_and_the_worst_rows(cache: Any) -> None:
    shown = CliRunner().invoke(command, ["--quick"], standalone_mode=False).output
    assert cache == [calibrate.QUICK]
    assert "machine.wake_futex" in shown and "probe readiness epoll" in shown
    assert "condition number" in shown and "row that the fit misses most" in shown
    document = json.loads(CliRunner().invoke(command, ["--json"], standalone_mode=False).output)
    assert cache[1:] == [calibrate.FULL]
    assert set(document["covariance"]["names"]) == set(TRUE)
    assert document["rows"] and document["quality"]["condition"] > 1


def test_a_probe_or_variant_that_this_build_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    known = registry.probes()
    names = {probe.source for probe in probes.available()}
    assert {"probe syscall", "probe switch yield", "probe wakeup pingpong", "probe readiness epoll"} <= names
    lacking = {name: row for name, row in known.items() if name != "fork"}
    knobs = [
        {**knob, "allowed": "pingpong|calls"}
        for knob in known["wakeup"]["knobs"]
        if knob["name"] == "variant"
    ]
    lacking["wakeup"] = {**known["wakeup"], "knobs": knobs}
    monkeypatch.setattr(registry, "probes", lambda: lacking)
    left = {probe.source for probe in probes.available()}
    assert {name for name in names - left if "fork" not in name} <= {
        f"probe wakeup idle {gap}" for gap in (50, 400, 4000)
    }
    assert "probe wakeup calls" in left and "probe fork" not in left


def test_launches_that_were_disturbed_are_not_used() -> None:
    rows = [row for row in Machine(1).probes(passes=5) if row.source == "probe fork"]
    slow = [replace(row, value=factor * row.value) for row, factor in zip(rows, (2, 1.5, 4), strict=False)]
    assert probes.steady([slow[0], *rows, *slow[1:]]) == rows
    near = replace(rows[0], value=1.05 * rows[0].value)
    assert probes.steady([near, *rows]) == [near, *rows]


def test_a_probe_that_fails_each_time_is_an_error_and_now_and_then_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checking, "checks", lambda readings, without: [])  # which have tests of their own
    failing, machine = {"syscall"}, Machine(1)

    def measure(probe: probes.Probe) -> Any:
        if probe.name in failing:
            raise probing.ProbeError("probe syscall: stopped")
        return probes.equations(probe, machine.launch(probe))

    monkeypatch.setattr(probes, "measure", measure)
    monkeypatch.setattr(calibrate, "_reading", lambda rung, seed, patient: machine.read(rung))
    with pytest.raises(calibrate.CalibrationError, match="cannot calibrate: probe syscall: stopped"):
        calibrate.measure(effort=calibrate.Effort(2, 60.0))
    failing.clear()
    failures = [probing.ProbeError("probe fork: cannot start a process")]
    several = measure

    def measure_but_once(probe: probes.Probe) -> Any:
        if probe.name == "fork" and failures:
            raise failures.pop()
        return several(probe)

    monkeypatch.setattr(probes, "measure", measure_but_once)
    known = calibrate.measure(effort=calibrate.Effort(3, 60.0))
    assert known["load.event"] == pytest.approx(TRUE["load.event"], rel=0.1)
    assert known.provenance["passes"] == 3


def test_a_rung_without_replies_each_time_is_an_error_and_now_and_then_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, passes = Machine(1), {0, 1}

    def reading(rung: ladder.Rung, seed: int, patient: bool) -> ladder.Reading:
        if rung == ladder.null() and seed in passes:
            raise Singular("a rung got no replies")
        return machine.read(rung)

    monkeypatch.setattr(probes, "measure", lambda probe: probes.equations(probe, machine.launch(probe)))
    monkeypatch.setattr(checking, "checks", lambda readings, without: [])
    monkeypatch.setattr(calibrate, "_reading", reading)
    with pytest.raises(calibrate.CalibrationError, match=f"no replies on {re.escape(ladder.null().name)}"):
        calibrate.measure(effort=calibrate.Effort(2, 60.0))
    passes.remove(1)
    assert calibrate.measure(effort=calibrate.Effort(2, 60.0)).provenance["passes"] == 2


def test_this_machine_is_calibrated() -> None:
    """By two real passes; others that use the CPUs may keep the costs from being told apart."""
    for _ in range(3):
        try:
            known = calibrate.measure(effort=calibrate.Effort(2, 1.0, least=2))
            break
        except calibrate.CalibrationError as error:
            refused = error
    else:
        if os.getloadavg()[0] > len(os.sched_getaffinity(0)):
            pytest.skip(f"the machine is too busy: {refused}")
        raise refused
    assert {f"machine.{name}" for name in PRICES} <= known.table.keys()
    assert 1e-7 < known["load.event"] < 1e-3 and 1e-8 < known["machine.switch"] < 1e-3
    assert known.provenance["passes"] == 2 and len(known.provenance["checks"]) > 10


def test_time_that_is_up_ends_the_passes_but_not_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(1)
    monkeypatch.setattr(probes, "measure", lambda probe: probes.equations(probe, machine.launch(probe)))
    monkeypatch.setattr(calibrate, "_reading", lambda rung, seed, patient: machine.read(rung))
    monkeypatch.setattr(checking, "checks", lambda readings, without: [])
    known = calibrate.measure(effort=calibrate.Effort(50, 1e-9, least=3))
    assert known.provenance["passes"] == 3


@pytest.mark.parametrize("probe", probes.available(), ids=lambda probe: probe.source)
def test_each_probe_gives_positive_times_for_its_costs(probe: probes.Probe) -> None:
    for equation in probes.measure(probe):
        assert equation.value > 0 and equation.terms and equation.source == probe.source


@pytest.mark.parametrize("variant", ["epoll", "select"])
def test_more_descriptors_cost_select_more(variant: str) -> None:
    def call(descriptors: int) -> float:
        options = {"variant": variant, "descriptors": str(descriptors)}
        samples: list[float] = probing.launch("readiness", options, budget=0.02)["ends"][0]["samples"]
        return min(samples)

    assert call(512) > 2 * call(1) if variant == "select" else call(512) < 3 * call(1)


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_a_ring_on_one_cpu_always_stays(kind: str) -> None:
    found = probing.launch("placement", kind=kind, cpus=[0], budget=0.02)
    assert found["ends"][0]["notes"]["stayed_share"] == 1.0


@pytest.fixture
def crowd() -> Iterator[None]:
    """Two processes for each CPU that want all of it."""
    count = 2 * len(os.sched_getaffinity(0))
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    yield
    for process in spinning:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("kind", "most"), [("burn", 1.25), ("sleep", math.inf)])
def test_a_demand_is_that_of_the_service_whoever_else_uses_the_cpus(
    kind: str, most: float, crowd: None
) -> None:
    options = {"demand": 1e-3, "demand_kind": kind}
    demand = calibrate.demand_of(Scenario.of("synthetic", "select", options=options))
    assert 0.95 < demand.mean / 1e-3 < most  # a sleep is no processor time, and takes its time all the same


def test_a_demands_scatter_is_kept() -> None:
    options = {"demand": 2e-4, "demand_dist": "exponential"}
    demand = calibrate.demand_of(Scenario.of("synthetic", "select", options=options))
    work = np.array(demand.fixed) + np.array(demand.tasks).sum(axis=1)
    assert work.std() / work.mean() == pytest.approx(1, abs=0.15)


def test_full_effort_is_more_than_quick_and_both_within_their_times() -> None:
    assert calibrate.FULL.passes > calibrate.QUICK.passes
    assert calibrate.QUICK.seconds < 20 and calibrate.FULL.seconds < 90


def test_costs_measured_beside_other_work_say_so_wherever_they_are_used(cache: Any, tmp_path: Any) -> None:
    quiet, busy = {"neighbours": calibrate.NOISY}, {"neighbours": 0.4}
    assert calibrate.warning(quiet) is None and calibrate.warning({}) is None
    assert "40 %" in str(calibrate.warning(busy))
    plan = Plan("echo", "select", "closed", (("clients", (1, 2)),), reps=1, window=1.0)
    with create_store(tmp_path / "sweep.sqlite") as store:
        store.set_plan(plan, "sweep")
        for provenance in (quiet, busy, busy):
            store.begin_session(0.0, {})
            store.set_costs({"provenance": provenance})
        assert document(store)["sweep"]["warnings"] == [calibrate.warning(busy)]
