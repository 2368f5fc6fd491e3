"""Process trees from outside: against psutil, against processes that know what they use, and while they change."""

import itertools
import os
import shutil
import subprocess
import sys
import textwrap
import time

import psutil
import pytest
import wire
from pyx.load import Load
from pyx.sampling import COLUMNS, Sampler, tree, tree_cpu

from pyx.keeper import EXECUTABLE, Keeper

MEGABYTE = 1 << 20
CUMULATIVE = ("cpu", "wait", "switches", "preemptions")


@pytest.fixture
def run():
    """Runs Python source that prints a line when it is ready, until the test ends; gives its process."""
    running = []

    def start(source, *words):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(source), *words], stdout=subprocess.PIPE, text=True
        )
        running.append(process)
        process.first = process.stdout.readline()
        return process

    yield start
    for process in running:
        for pid in reversed(tree(process.pid)):
            os.kill(pid, 9)
        process.wait()
        process.stdout.close()


def sampled(pid, interval, seconds):
    """The rows as dicts."""
    sampler = Sampler(pid, interval)
    sampler.start()
    time.sleep(seconds)
    found = sampler.stop()
    assert found["columns"] == list(COLUMNS)
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


KNOWN = """
    import os, threading, time
    held = [open("/dev/null") for _ in range(20)]
    memory = bytearray(os.urandom(1 << 20) * 64)
    for _ in range(5):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    for _ in range(3):
        if not os.fork():
            break
    else:
        print("ready", flush=True)
    time.sleep(1000)
    """


def test_known_processes_agree_with_psutil(run):
    parent = run(KNOWN).pid
    assert wire.eventually(lambda: len(tree(parent)) == 4)
    time.sleep(0.1)
    row = sampled(parent, 100, 0)[-1]
    processes = [psutil.Process(pid) for pid in tree(parent)]
    memory = [process.memory_full_info() for process in processes]
    switches = [psutil.Process(thread.id).num_ctx_switches() for p in processes for thread in p.threads()]
    assert row["processes"] == 4 and row["threads"] == 5 + 4
    assert row["threads"] == sum(p.num_threads() for p in processes)
    assert row["descriptors"] == sum(p.num_fds() for p in processes) >= 4 * 20
    assert row["pss"] == pytest.approx(sum(m.pss for m in memory), rel=0.02)
    assert row["rss"] == pytest.approx(sum(m.rss for m in memory), rel=0.05)
    assert row["rss"] > 4 * 64 * MEGABYTE > 2 * 64 * MEGABYTE > row["pss"] > 64 * MEGABYTE
    times = [p.cpu_times() for p in processes]
    assert row["cpu"] * 1e-9 == pytest.approx(sum(t.user + t.system for t in times), abs=0.1)
    assert row["switches"] == pytest.approx(sum(s.voluntary for s in switches), abs=5)
    assert row["preemptions"] == pytest.approx(sum(s.involuntary for s in switches), abs=5)


def test_trees_agree_with_psutil_however_children_are_found(run):
    source = "import os, time; [os.fork() for _ in range(4)]; print('ready', flush=True); time.sleep(1000)"
    parent = run(source).pid
    assert wire.eventually(lambda: len(tree(parent)) == 16)
    children = {process.pid for process in psutil.Process(parent).children(recursive=True)}
    for scan in (False, True):
        found = tree(parent, scan)
        assert found[0] == parent and set(found[1:]) == children
        assert set(tree(-parent, scan)) == children
        places = {pid: place for place, pid in enumerate(found)}
        assert all(places[psutil.Process(pid).ppid()] < places[pid] for pid in children)


@pytest.mark.parametrize("name", ["a b", ") R 1 1 (", "(()", "7) Z 1 (\n8"])
def test_a_process_may_have_any_name(tmp_path, name):
    program = tmp_path / name
    shutil.copy(shutil.which("sleep"), program)
    process = subprocess.Popen([program, "1000"])
    try:
        assert wire.eventually(lambda: psutil.Process(process.pid).name() == name)
        for scan in (False, True):
            assert tree(process.pid, scan) == [process.pid] and process.pid in tree(-os.getpid(), scan)
        (row, _) = sampled(process.pid, 100, 0)
        assert (row["processes"], row["threads"]) == (1, 1) and row["switches"] >= 0
    finally:
        process.kill()
        process.wait()


def test_what_is_gone_is_said_to_be_gone():
    process = subprocess.Popen(["true"])
    assert wire.eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    assert tree(process.pid) == [] and tree_cpu(process.pid) >= 0
    process.wait()
    assert tree(process.pid) == [] == tree(-process.pid) and tree_cpu(process.pid) == -1
    with pytest.raises(ProcessLookupError, match=f"cannot sample process {process.pid}"):
        Sampler(process.pid, 1).start()


BURNER = """
    import os, sys, time
    def burn():
        while time.process_time() < float(sys.argv[1]):
            pass
    if not os.fork():
        if not os.fork():
            burn()
            os._exit(0)
        os.wait()
        burn()
        os._exit(0)
    os.wait()
    burn()
    print(sum(os.times()[:4]), flush=True)
    time.sleep(1000)
    """


def test_processor_time_of_ended_children_stays_counted(run):
    process = run(BURNER, "0.2")
    known = float(process.first)
    assert known > 0.5 and tree(process.pid) == [process.pid]
    assert tree_cpu(process.pid) * 1e-9 == pytest.approx(known, abs=0.05)
    assert tree_cpu(-process.pid) * 1e-9 == pytest.approx(known - psutil_own(process.pid), abs=0.05)


def psutil_own(pid):
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def test_processor_time_of_a_tree_is_that_of_its_processes_while_they_run(run):
    source = "import os, time\nos.fork()\nprint('ready', flush=True)\nwhile True: pass"
    parent = run(source).pid
    rows = sampled(parent, 0.05, 0.5)
    before, after = rows[0], rows[-1]
    times = [psutil.Process(pid).cpu_times() for pid in tree(parent)]
    assert after["cpu"] * 1e-9 <= sum(t.user + t.system for t in times) + 0.05
    assert after["cpu"] - before["cpu"] <= (after["time"] - before["time"]) * os.cpu_count()
    assert after["cpu"] > before["cpu"]


def test_two_that_share_a_processor_wait_for_it_half_of_the_time(run):
    cpu = min(os.sched_getaffinity(0))
    source = """
        import os
        os.sched_setaffinity(0, [int(os.sys.argv[1])])
        os.fork()
        print("ready", flush=True)
        while True:
            pass
        """
    parent = run(source, str(cpu)).pid
    assert wire.eventually(lambda: len(tree(parent)) == 2)
    rows = sampled(parent, 0.1, 1)
    span = rows[-1]["time"] - rows[0]["time"]
    used, waited = (rows[-1][name] - rows[0][name] for name in ("cpu", "wait"))
    # Others may use the processor too; what these two did not use of it they waited for.
    assert used <= 1.02 * span and waited >= 0.8 * span
    assert used + waited == pytest.approx(2 * span, rel=0.1)


CHURN = {
    "threads": "threading.Thread(target=time.sleep, args=(0.002,)).start(); time.sleep(0.0005)",
    "processes": "subprocess.Popen(['sleep', '0.002']); time.sleep(0.0005)",
    "reaped": "subprocess.run(['true'])",
}


@pytest.mark.parametrize("kind", CHURN)
def test_sums_do_not_fall_while_threads_and_processes_come_and_go(run, kind):
    source = f"import subprocess, threading, time\nprint('ready', flush=True)\nwhile True:\n    {CHURN[kind]}"
    rows = sampled(run(source).pid, 0.01, 1)
    assert len(rows) > 10
    for name in CUMULATIVE:
        values = [row[name] for row in rows if row[name] >= 0]
        assert len(values) > 2 and values == sorted(values) and values[-1] > values[0] >= 0, name
    assert all(row["processes"] >= 1 and row["threads"] >= row["processes"] for row in rows)


def test_samples_are_taken_at_both_ends_and_in_between(run):
    pid = run("print('ready', flush=True); import time; time.sleep(1000)").pid
    assert len(sampled(pid, 1000, 0.01)) == 2
    start = time.monotonic_ns()
    rows = sampled(pid, 0.05, 0.6)
    times = [row["time"] for row in rows]
    assert start <= times[0] and times[-1] <= time.monotonic_ns()
    assert 3 <= len(rows) <= 15 and all(a < b for a, b in itertools.pairwise(times))
    assert all(value >= 0 for row in (rows[0], rows[-1]) for value in row.values())


def test_what_ended_in_the_middle_keeps_its_samples(run):
    process = run("print('ready', flush=True); import time; time.sleep(0.5)")
    sampler = Sampler(process.pid, 0.02)
    sampler.start()
    process.wait()
    time.sleep(0.05)
    rows = sampler.stop()["rows"]
    assert len(rows) >= 2 and all(row[COLUMNS.index("processes")] <= 1 for row in rows)


def test_the_cost_of_a_large_tree_is_bounded(run):
    source = """
        import threading, time
        for _ in range(400):
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        print("ready", flush=True)
        time.sleep(1000)
        """
    pid = run(source).pid
    whole = time.process_time()
    sampled(pid, 1000, 0)
    whole = time.process_time() - whole
    used, start = time.process_time(), time.monotonic()
    rows = sampled(pid, 0.001, 2)
    used, span = time.process_time() - used, time.monotonic() - start
    assert used <= whole + 0.06 * span
    assert rows[0]["threads"] == 401 and min(rows[0].values()) >= 0 and min(rows[-1].values()) >= 0
    assert any(row["switches"] == -1 for row in rows[1:-1])
    assert all(row["threads"] == 401 for row in rows)


def test_a_sampler_is_used_once_and_in_its_own_process(run):
    pid = run("print('ready', flush=True); import time; time.sleep(1000)").pid
    sampler = Sampler(pid, 0.01)
    with pytest.raises(RuntimeError):
        sampler.stop()
    sampler.start()
    with pytest.raises(RuntimeError):
        sampler.start()
    child = os.fork()
    if not child:
        try:
            sampler.stop()
        except RuntimeError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert sampler.stop()["rows"]
    for pid, interval in ((1, 0), (1, float("nan")), (1, -1), (0, 1)):
        with pytest.raises(ValueError):
            Sampler(pid, interval)


def test_a_load_reads_the_processor_time_of_the_whole_tree():
    server = str(EXECUTABLE.with_name("kneepoint-server"))
    with Keeper(["sh", "-c", f"{server} synthetic select; true"]) as keeper:
        assert wire.eventually(lambda: "listening on" in keeper.output()), keeper.output()
        port = int(keeper.output().split(":")[1])

        def server_cpu(pid, tree):
            load = Load(
                "closed", "synthetic", {"clients": "2"}, "127.0.0.1", port, 1, 0.05, 0.3, pid, None, tree
            )
            found = load.run()
            return found["end"]["server_cpu"] - found["start"]["server_cpu"]

        shell = server_cpu(keeper.pid, False)
        assert server_cpu(keeper.pid, True) > 10 * shell and server_cpu(keeper.tree, True) > 10 * shell
