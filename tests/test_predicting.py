"""Predictions are made by workers of our own: within their time, refusing in a line, and gone when their parent is."""

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import known_costs

from harness import predicting
from models import forecasting
from models.costs import Costs
from models.scenario import Scenario


def test_predictions_come_from_workers_that_end_with_them(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    scenario = Scenario.of("synthetic", "select", options={"clients": 2})
    strange = Scenario.of("synthetic", "queues", options={"clients": 2})
    costs = Costs(2, {}).to_json()
    answers = {
        s.key: (metrics, refusal)
        for s, metrics, refusal in predicting.predict_all([scenario, strange], costs)
    }
    assert set(answers) == {scenario.key, strange.key}
    for metrics, refusal in answers.values():  # costs without a table: the models must refuse, in one line
        assert metrics is None and refusal and "\n" not in refusal
    assert _children() == []


def test_predictions_that_take_too_long_are_given_up():
    scenarios = [Scenario.of("synthetic", "select", options={"clients": n}) for n in (1, 2, 3)]
    costs = Costs(2, {}).to_json()
    begun = time.monotonic()
    answers = list(predicting.predict_all(scenarios, costs, budget=0.0))
    assert len(answers) == 3 and all("not finished within" in refusal for _, _, refusal in answers)
    assert time.monotonic() - begun < 15 and _children() == []


def test_workers_die_with_a_killed_parent(tmp_path):
    code = """
        import os, subprocess, sys, time
        words = [sys.executable, "-m", "harness.predicting", str(os.getpid())]
        worker = subprocess.Popen(words, stdin=subprocess.PIPE)
        print(worker.pid, flush=True)
        time.sleep(60)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
    try:
        worker = int(parent.stdout.readline())
        time.sleep(0.3)
        assert Path(f"/proc/{worker}").exists()
    finally:
        parent.kill()
        parent.communicate()
    deadline = time.monotonic() + 20
    while _running(worker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _running(worker)


def _running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def _children():
    return [
        pid
        for path in Path("/proc/self/task").iterdir()
        for pid in (path / "children").read_text().split()
        if "harness.predicting" in Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    ]


def test_a_prediction_is_a_forecast_within_its_share_of_the_time(monkeypatch):
    scenario = Scenario.of("synthetic", "select")
    known, asked = forecasting.forecast, []

    def forecast(prepare, scenario, costs, **settings):
        asked.append(settings)
        return known(prepare, scenario, costs, **settings)

    monkeypatch.setattr(forecasting, "forecast", forecast)
    task = {"scenario": scenario.to_json(), "seconds": 0.3}
    answers = [
        predicting._answer(json.dumps({**task, "replicates": n}), known_costs.costs(scenario, error=0.01))
        for n in (1, 100)
    ]
    for answer in answers:
        rate = answer["metrics"]["throughput"]
        assert 0 < rate["low"] < rate["value"] < rate["high"]
    assert [(s["budget"], s["replicates"]) for s in asked] == [(0.3, 1), (0.3, 100)]
