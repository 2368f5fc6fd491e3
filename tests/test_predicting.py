"""Predictions are made by workers of our own: within their time, refusing in a line, and gone when their parent is."""

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import fakes

import models
from harness import predicting
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
    assert time.monotonic() - begun < 5 and _children() == []


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
    deadline = time.monotonic() + 5
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


def test_the_model_is_asked_with_its_share_of_the_time(monkeypatch):
    asked = {}

    def predict(scenario, costs, **settings):
        asked.update(settings)
        return fakes.predicted(scenario, costs)

    monkeypatch.setattr(models, "predict", predict)
    line = json.dumps({"scenario": Scenario.of("synthetic", "select").to_json(), "seconds": 1.5})
    assert predicting._answer(line, None)["metrics"]["throughput"]["value"] > 0
    assert asked == {"budget": 1.5}
