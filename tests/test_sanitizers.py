"""The native core under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer.

A sanitizer says what it found in a log and by its exit status; a test that only looks at replies would pass.
So both are checked, and, on programs made to fault, that sanitizers do report here.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest
import sim_image
import trials

from pyx import registry
from pyx.probing import ProbeError, launch

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"
FLAGS = {
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-fsanitize=thread"],
}
STATUS = 66
STEALING = ("next", "next_backoff", "random", "richest")

Built = namedtuple("Built", "sanitizer executable load probe objects")


def build(sanitizer, program):
    """Starts building an executable; what is built already is kept by setup.py."""
    target = BUILD / f"sanitized-{sanitizer}" / program
    words = [f"--program={program}", f"--sanitize={sanitizer}", f"--output={target}"]
    words = [sys.executable, "setup.py", "-q", "build_program", *words]
    return target, subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.fixture(scope="session")
def builds():
    """All executables, both sanitizers side by side; those of one sanitizer share its objects."""
    targets = {sanitizer: {} for sanitizer in FLAGS}
    programs = ("kneepoint-server", "kneepoint-load", "kneepoint-probe")
    for program in programs:
        running = {sanitizer: build(sanitizer, program) for sanitizer in FLAGS}
        for sanitizer, (target, process) in running.items():
            output, _ = process.communicate()
            assert process.returncode == 0, output
            targets[sanitizer][program] = target
    found = {}
    for sanitizer, made in targets.items():
        folder = BUILD / f"core-{sanitizer}"
        sources = {
            path.relative_to(ROOT / "pyx" / "csrc").with_suffix(".o") for path in ROOT.glob("pyx/csrc/*/*.c")
        }
        kept = [path for path in sorted(folder.rglob("*.o")) if path.relative_to(folder) in sources]
        found[sanitizer] = Built(sanitizer, *(made[program] for program in programs), kept)
    return found


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """Sanitizers write their reports to this folder, and nowhere else."""
    folder = tmp_path / "logs"
    folder.mkdir()
    common = f"log_path={folder}/report:exitcode={STATUS}"
    monkeypatch.setenv("ASAN_OPTIONS", f"{common}:detect_leaks=1:detect_stack_use_after_return=1")
    monkeypatch.setenv("UBSAN_OPTIONS", f"{common}:print_stacktrace=1")
    monkeypatch.setenv("TSAN_OPTIONS", f"{common}:second_deadlock_stack=1:halt_on_error=0")
    return folder


def reports(folder):
    return "\n".join(path.read_text() for path in sorted(folder.iterdir()))


def quiet(folder):
    assert not reports(folder), reports(folder)


@pytest.fixture(params=list(FLAGS))
def built(request, builds):
    return builds[request.param]


FAULTS = {
    "address": """
        #include <stdlib.h>
        int main(void) { char *p = malloc(8); free(p); return *(volatile char *)p; }""",
    "undefined": """
        int main(int n, char **w) { (void)w; volatile int x = 2147483647; return x + n > 0; }""",
    "leak": """
        #include <stdlib.h>
        int main(void) { void *volatile p = malloc(8); p = 0; return p != 0; }""",
    "thread": """
        #include <pthread.h>
        static int x;
        static void *add(void *a) { for (int i = 0; i < 100000; i++) x++; return a; }
        int main(void) { pthread_t t; pthread_create(&t, 0, add, 0); add(0); return pthread_join(t, 0); }""",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen_in_status_and_log(fault, logs, tmp_path):
    source, program = tmp_path / "fault.c", tmp_path / "fault"
    source.write_text(FAULTS[fault])
    flags = FLAGS["thread" if fault == "thread" else "address"]
    subprocess.run(["gcc", "-g", "-O0", *flags, "-pthread", source, "-o", program], check=True)
    ended = subprocess.run([program], timeout=60, capture_output=True, text=True, check=False)
    if fault == "undefined":
        # GCC's AddressSanitizer keeps the other's reports out of its log: there the status alone must do.
        assert ended.returncode != 0 and "runtime error" in ended.stderr
    else:
        assert ended.returncode == STATUS and "Sanitizer" in reports(logs)


SHORT = {
    "select": {"lock": "readers_writers", "index": "bst"},
    "thread": {"lock": "mutex", "index": "bst"},
    "poll": {"lock": "mutex", "index": "bst"},
    "epoll": {"lock": "mutex", "index": "balanced"},
    "sbuf": {"lock": "readers_writers", "index": "balanced", "workers": "4", "queue_slots": "8"},
    "queues": {"lock": "seqlock", "index": "hash", "workers": "4", "steal": "next", "accept": "epoll"},
}


@pytest.mark.parametrize("server", SHORT)
def test_stock_invariant(built, logs, server):
    # So many threads at once, slowed down, that hardly a client could vanish in the window.
    clients = 20 if server == "thread" else 100
    trial = trials.Trial("stock", server, SHORT[server], built.executable)
    trials.stock_invariant(trial, clients, window=0.3)
    quiet(logs)


@pytest.mark.parametrize(("wait", "accept"), [("block", "thread"), ("block", "epoll"), ("spin", "thread")])
@pytest.mark.parametrize("steal", STEALING)
def test_tasks_are_run_once(built, logs, steal, wait, accept):
    options = {"workers": "4", "chunk": "1", "steal": steal, "wait": wait, "accept": accept}
    tasks = 4000 if wait == "spin" else 20_000
    trials.tasks_add_up(trials.Trial("prime", "queues", options, built.executable), tasks, array=100)
    quiet(logs)


STOPS = [
    ("stock", "select", {}),
    ("stock", "poll", {"connection": "per_request"}),
    ("stock", "epoll", {}),
    ("stock", "sbuf", {}),
    ("stock", "sbuf", {"hold": "connection"}),
    ("stock", "thread", {}),
    ("synthetic", "thread", {"connection": "per_request", "threads": "4"}),
    ("stock", "iterative", {}),
    ("synthetic", "iterative", {"connection": "per_request"}),
    ("prime", "fork", {}),
    ("synthetic", "fork", {"connection": "per_request"}),
    ("prime", "prefork", {}),
    ("synthetic", "prefork", {"connection": "per_request"}),
    ("prime", "queues", {"steal": "next", "chunk": "5", "accept": "thread"}),
    ("prime", "queues", {"steal": "richest", "chunk": "5", "accept": "epoll"}),
    ("prime", "queues", {"steal": "next_backoff", "chunk": "5", "wait": "spin", "accept": "thread"}),
    ("synthetic", "queues", {"connection": "per_request", "accept": "thread"}),
]


@pytest.mark.parametrize(("service", "server", "options"), STOPS)
def test_stops_under_load(built, logs, service, server, options):
    trials.stops_under_load(trials.Trial(service, server, options, built.executable))
    quiet(logs)


LOADS = {
    "forked": ("forked", {"clients": "8", "requests": "10"}),
    "forked-once": ("forked", {"clients": "4", "requests": "5", "connection": "per_request"}),
    "closed": ("closed", {"clients": "8"}),
}


@pytest.mark.parametrize("load", LOADS)
def test_loads_in_a_process_of_their_own(built, logs, load):
    name, options = LOADS[load]
    trials.isolated(trials.Trial("stock", "sbuf", options), name, built.load)
    quiet(logs)


def test_forked_clients_whose_server_dies(built, logs):
    options = {"clients": "8", "requests": "100000"}
    trials.dies_under_load(trials.Trial("stock", "sbuf", options), "forked", built.load)
    quiet(logs)


def forms_of_probes():
    """Each probe, variant and kind; those that are not the default are for a long run."""
    for name, row in registry.probes().items():
        knob = next((knob for knob in row["knobs"] if knob["name"] == "variant"), None)
        for variant in knob["allowed"].split("|") if knob else [None]:
            marks = [pytest.mark.long] if knob and variant != knob["default"] else []
            for kind in row["kinds"]:
                yield pytest.param(name, {"variant": variant} if variant else {}, kind, marks=marks)


@pytest.mark.parametrize(("name", "options", "kind"), [*forms_of_probes()])
def test_probes(built, logs, monkeypatch, name, options, kind):
    if (name, options.get("variant")) == ("mutex", "pingpong"):  # its ring of locks is meant: see mutex.c
        monkeypatch.setenv("TSAN_OPTIONS", os.environ["TSAN_OPTIONS"] + ":detect_deadlocks=0")
    cpus = sorted(os.sched_getaffinity(0))[:2]
    try:
        found = launch(name, options, kind=kind, cpus=cpus, pairs=1, budget=0.1, executable=built.probe)
    except ProbeError as error:
        if not error.usage:
            raise AssertionError(f"{error}\n{reports(logs)}") from error
        pytest.skip(str(error))
    assert found["ends"][0]["measured"] > 0
    quiet(logs)


def test_a_probe_whose_end_is_killed(built, logs):
    """The watcher's way out, when not all is well."""
    words = [built.probe, "pipe", "--budget", "20000000000"]
    watcher = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    children = Path(f"/proc/{watcher.pid}/task/{watcher.pid}/children")
    until = time.monotonic() + 20
    while len(ends := children.read_text().split()) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(int(ends[1]), signal.SIGKILL)
    _, said = watcher.communicate(timeout=20)
    assert (watcher.returncode, said) == (1, "kneepoint-probe: end 1 of pair 0 was killed by signal 9\n")
    quiet(logs)


@pytest.fixture(scope="session")
def linked(tmp_path_factory):
    """Links programs of tests/native over the sanitized core, each once."""
    known = {}

    def once(built, name, *flags):
        key = built.sanitizer, name, flags
        if key not in known:
            known[key] = link(built, name, tmp_path_factory.mktemp(name), *flags)
        return known[key]

    return once


def link(built, name, folder, *flags):
    program = folder / name
    source = ROOT / "tests" / "native" / f"{name}.c"
    words = [
        "gcc",
        "-std=gnu11",
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        "-UNDEBUG",
        *FLAGS[built.sanitizer],
        "-pthread",
    ]
    words += ["-I", ROOT / "pyx" / "csrc", source, *built.objects, *flags, "-lm", "-o", program]
    subprocess.run([str(word) for word in words], check=True)
    return program


def run_program(words):
    ended = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=1200,
        env=os.environ,
        check=False,
    )
    assert ended.returncode == 0, f"status {ended.returncode}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def test_services_answer_their_own_clients(built, logs, linked):
    output = run_program([linked(built, "service_loop"), "rounds=8"])
    assert int(output.split()[0]) > 1000
    quiet(logs)


def test_a_process_tree_is_sampled_while_it_changes(built, logs, linked):
    output = run_program([linked(built, "sampler_churn")])
    assert int(output.split()[0]) >= 100
    quiet(logs)


def test_loads_account_for_all_their_time(built, logs, linked):
    output = run_program([linked(built, "load_loop"), 150])
    assert int(output.split()[0]) > 1000
    quiet(logs)


SIMULATED = [
    ("stock", "select", "closed", {"clients": 9, "load_threads": 2}),
    ("stock", "sbuf", "closed", {"clients": 40, "workers": 8, "connection": "per_request", "backlog": 2}),
    ("stock", "sbuf", "open", {"arrival_rate": 60_000, "clients": 40, "lock": "global"}),
    ("prime", "queues", "closed", {"clients": 9, "steal": "next", "wait": "spin", "accept": "thread"}),
    ("prime", "queues", "forked", {"clients": 9, "requests": 300, "accept": "epoll"}),
]
ALLOCATING = ("malloc", "calloc", "realloc", "aligned_alloc")


@pytest.mark.parametrize(("service", "server", "load", "options"), SIMULATED)
def test_simulations_run_side_by_side_and_survive_every_failed_allocation(
    built, logs, linked, tmp_path, service, server, load, options
):
    model = tmp_path / "model"
    model.write_bytes(sim_image.of_scenario(service, server, load, options))
    wraps = "-Wl," + ",".join(f"--wrap={name}" for name in ALLOCATING)
    output = run_program([linked(built, "sim_runs", wraps), model, 2000, 3])
    failed, replies = map(int, output.split())
    assert failed > 20 and replies == 6000
    quiet(logs)


@pytest.mark.parametrize("program", ["service_replies", "service_clients", "protocol_clients"])
def test_both_sides_of_services_byte_for_byte(builds, logs, linked, tmp_path, program):
    folder = tmp_path / "tables"
    folder.mkdir()
    output = run_program([linked(builds["address"], program), folder])
    assert output.endswith(", 0 failures\n") and int(output.split()[0]) > 50
    quiet(logs)


def test_every_number_is_divided_by_all_primes_up_to_its_root(builds, logs, linked):
    output = run_program([linked(builds["address"], "prime_division")])
    assert output.endswith(" numbers, 0 failures\n") and int(output.split()[0]) > 4_000_000
    quiet(logs)


@pytest.mark.parametrize(
    "lock", ["mutex", *(pytest.param(lock, marks=pytest.mark.long) for lock in ("global", "seqlock"))]
)
def test_killed_processes_leave_a_table_that_can_be_used(builds, logs, linked, tmp_path, lock):
    """ThreadSanitizer has no word on processes."""
    output = run_program([linked(builds["address"], "stock_killed"), tmp_path, lock])
    moments, orders = map(int, re.findall(r"\d+", output))
    assert orders > 1000 and (moments > 100 or not moments)
    quiet(logs)


@pytest.mark.parametrize("rounds", [2_000, pytest.param(50_000, marks=pytest.mark.long)])
def test_spoilt_messages_come_to_the_same_whatever_their_pieces(builds, logs, linked, rounds):
    output = run_program([linked(builds["address"], "wire_fuzz"), rounds])
    assert output.endswith(", 0 failures\n") and int(output.split()[0]) > 5 * rounds
    quiet(logs)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("lock", "index"),
    [
        ("readers_writers", "bst"),
        ("rwlock", "balanced"),
        ("mutex", "hash"),
        ("global", "array"),
        ("seqlock", "balanced"),
    ],
)
@pytest.mark.parametrize("server", SHORT)
def test_stock_invariant_for_every_lock_and_index(built, logs, server, lock, index):
    options = {**SHORT[server], "lock": lock, "index": index}
    trials.stock_invariant(trials.Trial("stock", server, options, built.executable), window=3.0)
    quiet(logs)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("accept", ["thread", "epoll"])
@pytest.mark.parametrize("wait", ["block", "spin"])
@pytest.mark.parametrize("steal", STEALING)
def test_ten_million_tasks(built, logs, steal, wait, accept):
    options = {"workers": "4", "chunk": "1", "steal": steal, "wait": wait, "accept": accept, "bits": "8"}
    found = trials.tasks_add_up(
        trials.Trial("prime", "queues", options, built.executable), 10_000_000, array=5000
    )
    assert found["steals"] > 0
    quiet(logs)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_services_answer_their_own_clients_for_long(built, logs, linked):
    run_program([linked(built, "service_loop"), "rounds=2000"])
    quiet(logs)
