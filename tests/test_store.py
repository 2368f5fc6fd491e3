"""The sweep's store: what it keeps, whom it keeps out, and what it says about files that are not one."""

import sqlite3
import subprocess
import sys
import textwrap
import time

import pytest
from fakes import Fake

from harness.plan import CELL, Plan, Visit
from harness.store import SCHEMA_VERSION, StoreError, create_store, is_blank, open_store
from models.metrics import Estimate, Metrics

PLAN = Plan("synthetic", "select", "closed", (("clients", (1, 2, 4)),), reps=2, window=0.1).with_control()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some" / "sweep.sqlite"


@pytest.fixture
def store(path):
    with create_store(path) as opened:
        opened.set_plan(PLAN, "first")
        opened.begin_session(1.0, {"cpus": 2})
        yield opened


def measured(visit, block):
    return Fake()(visit.scenario, window=0.1, warmup=0.0, block=block)


def test_what_is_stored_comes_back(store, path):
    visit = PLAN.visits(0)[0]
    replicate = measured(visit, 0)
    store.add_replicate(visit, 0, replicate)
    store.add_block(0, 5.0, 0.25)
    store.add_block(0, 6.0, 0.5)
    with open_store(path) as reader:  # while the writer has it open
        assert reader.plan() == PLAN
        assert reader.meta("id") == "first"
        assert reader.done() == {(visit.kind, visit.scenario.key, 0)}
        assert reader.replicates(visit.kind) == {visit.scenario.key: [(1, replicate)]}
        assert reader.sessions() == [{"session": 1, "started": 1.0, "provenance": {"cpus": 2}}]
        assert reader.blocks() == [{"session": 1, "block": 0, "started": 5.0, "yardstick": 0.5}]
    with sqlite3.connect(path) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert raw.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def test_a_finished_replicate_is_never_replaced(store):
    visit = PLAN.visits(0)[0]
    store.add_replicate(visit, 0, measured(visit, 0))
    with pytest.raises(StoreError):
        store.add_replicate(visit, 0, measured(visit, 0))
    with pytest.raises(StoreError):
        store.add_failure(visit, 0, 0, "other", 1.0, "died")
    assert store.failures() == []


def test_a_failure_is_replaced_by_a_later_attempt(store):
    visit = PLAN.visits(1)[0]
    store.add_failure(visit, 1, 0, "a", 1.0, "died")
    store.add_failure(visit, 1, 0, "b", 2.0, "died again")
    assert [failure.message for failure in store.failures()] == ["died again"]
    assert store.done() == set()
    store.add_replicate(visit, 0, measured(visit, 1))
    assert store.failures() == [] and store.done() == {(visit.kind, visit.scenario.key, 1)}


def test_a_prediction_is_fixed_once_it_is_made_or_its_cell_is_measured(store):
    first, second = (cell.scenario for cell in PLAN.cells()[:2])
    early, late = (Metrics(Estimate(rate), Estimate(1 / rate)) for rate in (100.0, 200.0))
    store.set_prediction(first, None, "no model")
    assert store.predictions()[first.key].refusal == "no model"
    store.set_prediction(first, early, None)
    store.set_prediction(first, late, None)
    assert store.predictions()[first.key].metrics.throughput.value == 100.0
    store.add_replicate(Visit(CELL, second), 0, measured(Visit(CELL, second), 0))
    store.set_prediction(second, late, None)
    assert second.key not in store.predictions()


def test_a_second_sweep_is_kept_out_until_the_first_ends(store, path):
    with pytest.raises(StoreError, match="another sweep writes") as caught:
        open_store(path, write=True)
    assert caught.value.usage
    store.close()
    open_store(path, write=True).close()


def test_the_lock_vanishes_with_a_killed_process(path):
    code = """
        import sys, time
        from pathlib import Path
        from harness.store import create_store
        store = create_store(Path(sys.argv[1]))
        print("locked", flush=True)
        time.sleep(60)
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(path)], stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(StoreError, match="another sweep"):
            open_store(path, write=True)
    finally:
        holder.kill()
        holder.communicate()
    open_store(path, write=True).close()


def test_a_store_that_exists_is_not_started_again(store, path):
    store.close()
    with pytest.raises(StoreError, match="--resume"):
        create_store(path)


def test_an_empty_file_of_a_killed_sweep_is_taken_over(path):
    path.parent.mkdir()
    path.touch()
    assert is_blank(path)
    with create_store(path) as opened:
        assert opened.plan() is None
    assert not is_blank(path)


def test_a_killed_creation_leaves_nothing_or_everything(tmp_path):
    """The schema is one transaction: killed at any time while stores are made, each is blank or complete."""
    code = """
        import sys
        from pathlib import Path
        from harness.store import create_store
        print("go", flush=True)
        for i in range(100000):
            create_store(Path(sys.argv[1]) / f"{i}.sqlite").close()
    """
    for delay in (0.0, 0.013, 0.037):
        folder = tmp_path / str(delay)
        maker = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(folder)], stdout=subprocess.PIPE
        )
        maker.stdout.readline()
        time.sleep(delay)
        maker.kill()
        maker.communicate()
        for path in folder.glob("*.sqlite"):
            if is_blank(path):
                create_store(path).close()
            open_store(path, write=True).close()


def text_file(path):
    path.write_text("no database at all, but long enough to look at\n" * 50)


def foreign(path):
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE other (x)")


def newer(path):
    create_store(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


def truncated(path):
    with create_store(path) as opened:
        opened.set_plan(PLAN, "x")
    path.write_bytes(path.read_bytes()[:3000])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (text_file, "not a store of kneepoint"),
        (foreign, "not a store of kneepoint"),
        (newer, f"schema version {SCHEMA_VERSION + 1}, this kneepoint knows {SCHEMA_VERSION}"),
        (truncated, "damaged"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: None, "no such file"),
    ],
)
def test_what_is_no_store_is_said_so_in_one_line(tmp_path, spoil, says):
    path = tmp_path / "file.sqlite"
    spoil(path)
    with pytest.raises(StoreError) as caught, open_store(path, write=True) as opened:
        opened.plan()
    assert says in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.usage


def test_a_damaged_record_names_its_replicate(store, path):
    visit = next(visit for visit in PLAN.visits(0) if visit.kind == CELL)
    replicate = measured(visit, 0)
    store.add_replicate(visit, 0, replicate)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE replicates SET record = x'00ff'")
    with pytest.raises(StoreError, match=replicate.id):
        store.replicates()


@pytest.mark.parametrize("place", ["/proc/kneepoint/x.sqlite", "/dev/null/x.sqlite"])
def test_a_place_that_cannot_be_written_is_named(place):
    from pathlib import Path

    with pytest.raises(StoreError, match="cannot be written") as caught:
        create_store(Path(place))
    assert caught.value.usage and place in str(caught.value)
