"""Verdicts that a store keeps, and stores that are judged anew."""

import json
import sqlite3
from contextlib import closing

import fakes
import pytest

from harness import auditing
from harness.cell import Replicate
from harness.cli import main
from harness.importers import Hints
from harness.judging import marks
from harness.judging.marks import BROKEN, TABLE
from harness.plan import CELL, Plan, Visit
from harness.store import create_store, open_store

PLAN = Plan("synthetic", "sbuf", "closed", (("clients", (8, 16)),), reps=1, window=1.0)


@pytest.fixture
def store(tmp_path):
    """A store of two cells, the second of them broken."""
    path = tmp_path / "sweep.sqlite"
    with create_store(path) as made:
        made.set_plan(PLAN, "id")
        made.begin_session(0.0, {"cpus": 2})
        for index, cell in enumerate(PLAN.cells()):
            record = fakes.clean(cell.scenario)
            if index:
                record["response"] -= record["clients"] * record["window"] // 20
            made.add_replicate(Visit(CELL, cell.scenario), index, Replicate(f"r{index}", 0.0, 0, record))
    return path


def test_verdicts_are_kept_as_they_were_judged(store, monkeypatch, capsys):
    assert main(["audit", str(store)]) == 1
    assert "judged otherwise" not in capsys.readouterr().out
    with open_store(store, write=True) as opened_store:
        from harness import document

        auditing.keep(opened_store, document.document(opened_store)["cells"])
        verdicts = [opened_store.verdicts()[cell.scenario.key] for cell in PLAN.cells()]
    assert [[mark.check for mark in verdict.broken] for verdict in verdicts] == [[], ["accounting"]]
    assert verdicts[0].limits == marks.limits()
    monkeypatch.setitem(TABLE, "accounting", marks.Rule(BROKEN, 0.5, "of time", "says", "todo"))
    assert main(["audit", str(store)]) == 0
    assert "no longer accounting since the sweep ended" in capsys.readouterr().out


def test_the_audit_of_a_store_names_figure_limit_meaning_and_remedy(store, capsys):
    assert main(["audit", str(store)]) == 1
    shown = capsys.readouterr().out
    assert "clients=16  BROKEN accounting  5 % > 1 % of the clients' time" in shown
    words = " ".join(shown.split())
    assert TABLE["accounting"].says in words and TABLE["accounting"].todo in words
    assert shown.splitlines()[-1] == "1 of 2 judged cells are sound, 50 %; a sweep should have 90 %"
    assert main(["audit", str(store), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["source"] == "store" and found["sound_share"] == 0.5 and found["broken"] == 1
    assert found["cells"][1]["broken"][0]["check"] == "accounting" and found["cells"][0]["broken"] == []


def test_a_store_from_before_a_knob_was_there_is_judged_and_not_measured_anew(store):
    with sqlite3.connect(store) as raw:
        for key, text in raw.execute("SELECT key, scenario FROM cells").fetchall():
            scenario = json.loads(text)
            del scenario["options"]["timeout"]
            raw.execute(
                "UPDATE cells SET key = ?, scenario = ? WHERE key = ?",
                (f"old{key}", json.dumps(scenario), key),
            )
            raw.execute("UPDATE replicates SET key = ? WHERE key = ?", (f"old{key}", key))
    assert [verdict.unjudged for verdict in auditing.audit(store, Hints()).verdicts] == [None, None]
    with open_store(store, write=True) as writer:
        writer.set_plan(PLAN, "id")
        scenario = PLAN.cells()[0].scenario
        assert writer.done() == {(CELL, cell.scenario.key, 0) for cell in PLAN.cells()}
        writer.set_prediction(scenario, None, "too late")
        assert writer.predictions() == {}


def old_store(path):
    """The store as version 1 had it."""
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("DROP TABLE verdicts")
        raw.execute("PRAGMA user_version = 1")


def test_a_store_from_before_verdicts_is_read_as_it_is_and_upgraded_on_writing(store):
    old_store(store)
    before = store.read_bytes()
    with open_store(store) as reader:
        assert reader.verdicts() == {} and len(reader.done()) == 2
    assert auditing.audit(store, Hints()).broken
    assert store.read_bytes() == before
    with open_store(store, write=True) as writer:
        writer.set_verdicts(1.0, {}, {PLAN.cells()[0].scenario.key: ([], [])})
        assert len(writer.verdicts()) == 1 and len(writer.done()) == 2
    with sqlite3.connect(store) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (2,)


def test_a_sweep_keeps_its_verdicts(monkeypatch, tmp_path, capsys):
    fakes.install(monkeypatch)
    path = tmp_path / "s.sqlite"
    words = [
        "--var",
        "clients",
        "--values",
        "1,2",
        "--service",
        "synthetic",
        "--server",
        "select",
        "--reps",
        "2",
    ]
    assert main(["sweep", *words, "--time", "0.1", "--no-report", "--out", str(path), "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    with open_store(path) as found:
        kept = found.verdicts()
    assert {cell["key"]: [mark["check"] for mark in cell["broken"]] for cell in cells} == {
        key: [mark.check for mark in verdict.broken] for key, verdict in kept.items()
    }
