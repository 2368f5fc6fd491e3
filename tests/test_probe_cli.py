"""The command, with the probes of this machine: what it prints where, its exit codes, and that nothing is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import harness
from harness import registries
from harness.cli import main
from harness.errors import HarnessError
from pyx import probing, registry

ROOT = Path(__file__).parent.parent
SHORT = ["--reps", "2", "--iterations", "200", "--no-report"]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def measured(capsys, *words):
    """The document that the command prints."""
    assert main(["probe", *words, *SHORT, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_round_trip_and_a_call(capsys):
    document = measured(capsys, "pipe", "syscall", "--kind", "process")
    rows = {(row["probe"], row["variant"], row["position"]): row for row in document["results"]}
    trip, calls = rows["pipe", "pingpong", "same_cpu"], rows["pipe", "calls", "alone"]
    assert trip["unit_of_work"] == "round trip" and trip["switches"] == pytest.approx(1, abs=0.1)
    assert "rejected" not in trip["flags"]
    assert trip["median_ns"] > calls["median_ns"] > rows["syscall", "getppid", "alone"]["median_ns"] > 0
    assert 0 < trip["overhead_ns"] < trip["median_ns"]
    assert document["command"].startswith("python -m harness probe pipe syscall --kind process")


def test_files_are_left_beside_each_other(capsys, tmp_path):
    document = measured(capsys, "syscall", "--out", str(tmp_path / "here.json"))
    assert json.loads((tmp_path / "here.json").read_text()) == document
    assert (tmp_path / document["samples_file"]).exists()


def test_the_table_is_for_people(capsys):
    assert main(["probe", "pipe", "--kind", "thread", "--pairs", "1:2", "--cores", "1", *SHORT]) == 0
    shown = capsys.readouterr()
    assert "round trip" in shown.out and "free" in shown.out and "document: results/probe-" in shown.out


def test_no_name_measures_every_probe(capsys):
    document = measured(capsys, "--quick")
    seen = {row["probe"] for row in document["results"]} | {row["probe"] for row in document["refused"]}
    assert seen == set(registry.probes())
    assert not [row for row in document["refused"] if row["why"].startswith("failed")]


def test_from_python_it_is_the_same_document():
    document = harness.probe("syscall", kind="thread", variant="yield", reps=2, iterations=200)
    (row,) = document["results"]
    assert (row["probe"], row["variant"], row["kind"], len(row["launches"])) == (
        "syscall",
        "yield",
        "thread",
        2,
    )
    with pytest.raises(HarnessError, match="did you mean pipe"):
        harness.probe("pip")


def test_a_large_message_is_made_smaller_and_said(capsys):
    document = measured(capsys, "pipe", "--size", "100000", "--variant", "calls", "--kind", "thread")
    (row,) = document["results"]
    assert row["size"] == 65536 and "capped" in row["flags"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pip"], "pip: no such probe; did you mean pipe?"),
        (["pipe", "--pairs", "513"], "--pairs=513: outside 1:512"),
        (["pipe", "--cores", "9999"], "--cores=9999: outside 1:"),
        (["pipe", "--reps", "0"], "--reps 0: outside"),
        (["pipe", "--out", "x.csv"], "ends in .json"),
        (["pipe", "--out", ""], "ends in .json"),
        (["--interactive", "pipe"], "pipe: --interactive does not read it"),
        (["--cross-check", "--pairs", "2"], "--pairs: --cross-check does not read it"),
        (["--cross-check", "--reps", "-4"], "--reps -4: outside"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(capsys, words, said):
    assert main(["probe", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and said in shown.err and shown.err.count("\n") == 1
    assert not Path("results").exists()


def test_a_failure_is_named_and_the_rest_is_kept(capsys, monkeypatch):
    real = probing.launch

    def launch(probe, *words, **more):
        if probe == "pipe":
            raise probing.ProbeError("probe pipe: end 1 of pair 0 was killed by signal 9")
        return real(probe, *words, **more)

    monkeypatch.setattr(probing, "launch", launch)
    assert main(["probe", "pipe", "syscall", "--kind", "thread", "--json", *SHORT]) == 1
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    measured = {row["probe"] for row in document["results"]}
    assert "syscall" in measured and "pipe" not in measured
    assert {row["why"] for row in document["refused"]} == {"failed: end 1 of pair 0 was killed by signal 9"}
    assert "error: pipe pingpong thread same_cpu: end 1 of pair 0 was killed by signal 9" in shown.err


def running(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "harness", "probe", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def children(pid):
    """Processes below pid, by /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found += [int(folder.name), *children(int(folder.name))]
    return found


def eventually(condition, seconds=10.0):
    until = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < until:
        time.sleep(0.005)
    return found


def gone(pids):
    return eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_interrupted_writes_what_is_finished_and_leaves_nothing(tmp_path):
    out = tmp_path / "part.json"
    process = running("pipe", "--reps", "100", "--no-report", "--out", str(out))
    try:
        line = process.stderr.readline()  # of progress: something has been measured
        assert "measuring" in line
        ends = eventually(lambda: len(found := children(process.pid)) > 1 and found)
        process.send_signal(signal.SIGINT)
        shown, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130 and "interrupted: what was finished is in" in said, said
    document = json.loads(out.read_text())
    assert document["results"] and not document["complete"] and "interrupted" in shown
    assert gone(ends)


def test_killed_leaves_no_process():
    process = running("pipe", "--reps", "1000", "--no-report")
    ends = eventually(lambda: len(found := children(process.pid)) > 2 and found)
    process.kill()
    process.communicate()
    assert ends and gone(ends)


def test_the_list_says_what_the_ends_may_be():
    for entry in registries.entries("probes"):
        assert set(entry["kinds"]) <= {"process", "thread"} and entry["kinds"] and entry["unit_of_work"]
