"""The load of forked clients: its accounts, its failures, and that nothing of it outlives whoever started it."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import trials
import wire
from pyx.load import Load, LoadError
from scripted import Scripted, after_one, agreeing, always, asked, cut_short, stall

from harness import measuring, recorded
from harness.measuring import MeasureError
from models.scenario import Scenario
from pyx.isolated import EXECUTABLE
from pyx.server import Server

ROOT = Path(__file__).parents[1]
CLIENTS = 6
LONG = {"clients": CLIENTS, "requests": 600_000}  # does not end by itself while a test runs


def load_on(port, service="synthetic", seed=1, **options):
    words = {name: str(value) for name, value in options.items()}
    return Load("forked", service, words, "127.0.0.1", port, seed, 0.0, 0.0)


def processes(name="kneepoint-load"):
    """Process numbers of all live processes of that name."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() == name and wire.process_exists(int(path.parent.name)):
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def parent_of(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def below(pid):
    """All live kneepoint-load processes that descend from pid."""
    found, every = {pid}, processes()
    for _ in every:
        found |= {one for one in every if parent_of(one) in found}
    return found - {pid}


def clients_below(pid):
    """The forked clients of a load that pid runs: below its keeper and the child that forks them."""
    family = below(pid)
    return {one for one in family if parent_of(one) in family and parent_of(parent_of(one)) in family}


def states(raw):
    return [raw[state] for state in ("think", "response", "generator", "connecting")]


@pytest.mark.parametrize(
    ("service", "server", "options"),
    [
        ("synthetic", "select", {"clients": 1, "requests": 1}),
        ("stock", "select", {"clients": 20}),
        ("stock", "sbuf", {"clients": 30, "requests": 5, "hold": "connection", "workers": 4}),
        ("prime", "queues", {"clients": 8, "requests": 10}),
        ("synthetic", "queues", {"clients": 8, "requests": 10, "connection": "per_request"}),
        (
            "synthetic",
            "select",
            {"clients": 8, "requests": 10, "connection": "per_request", "closer": "client"},
        ),
        ("http", "select", {"clients": 8, "requests": 10}),
    ],
)
def test_every_client_asks_its_requests_and_its_whole_time_is_accounted_for(service, server, options):
    words = {name: str(value) for name, value in options.items()}
    served = {name: word for name, word in words.items() if name in ("hold", "workers", "connection")}
    with Server(service, server, served) as running:
        load = Load(
            "forked", service, words, "127.0.0.1", running.port, 1, 9.0, 9.0, running.pid, running.page
        )
        raw = load.run()
        accepted = trials.total(running, "accepted")
    clients, requests = options["clients"], options.get("requests", 20)
    span = raw["planned_end"] - raw["planned_start"]
    assert raw["client_count"].tolist() == [requests] * clients
    assert trials.answered(raw) == raw["bin_count"].sum() == clients * requests
    assert not any(raw["errors"].values()) and not any(raw["errors_outside"].values())
    assert sum(states(raw)) == clients * span and min(states(raw)) >= 0
    assert raw["lag"]["count"] == clients * requests and raw["lag"]["sum"] <= raw["generator"]
    assert raw["response"] == sum(histogram["sum"] for histogram in raw["histograms"].values())
    assert 0 < raw["connect_max"] <= raw["connect"] <= raw["connecting"]
    assert accepted == clients * (requests if "connection" in options else 1)
    # A client does its requests one after another, inside the elapsed time.
    fastest = min(histogram["min"] for histogram in raw["histograms"].values() if histogram["count"])
    assert requests * fastest <= span < 9e9
    assert raw["end"]["load_cpu"] > raw["start"]["load_cpu"]
    assert raw["end"]["server_cpu"] > raw["start"]["server_cpu"]


def test_the_elapsed_time_holds_the_slowest_clients_work():
    with Server("synthetic", "queues", {"demand": "0.01", "demand_kind": "sleep", "workers": "8"}) as running:
        raw = load_on(running.port, clients=4, requests=5, demand=0.01).run()
    span = raw["planned_end"] - raw["planned_start"]
    assert span >= raw["response"] / 4
    assert raw["generator"] >= 0 and raw["bin_count"].sum() == 20


def test_a_scenario_of_it_is_measured_and_its_window_is_the_elapsed_time():
    scenario = Scenario.of("stock", "select", "forked", options={"clients": 5, "requests": 7})
    found = measuring.measure_once(scenario, window=5.0, warmup=5.0).record
    assert sum(histogram["count"] for histogram in found["histograms"].values()) == 35
    assert found["window"] < 5e9
    assert recorded.throughput_of(found) == pytest.approx(35 / (found["window"] * 1e-9))
    if found["window"] < 0.2e9:
        assert found["neighbours"] is None, "idle time in ticks of 10 ms is no share of a shorter run"


def drip(peer, number, stopping):
    asked(peer)
    while not stopping.wait(0.02):
        peer.sendall(b"d")


FAULTS = {
    "wrong": (always(b"gone 0\n"), "wrong"),
    "endless": (always(b"d" * 80), "malformed"),
    "too_much": (always(b"done 0\ndone 0\n"), "malformed"),
    "short": (after_one(cut_short), "closed"),
    "resets": (after_one(lambda peer, stopping: wire.reset(peer)), "reset"),
    "stalls": (after_one(stall), "timeout"),
    "drips": (drip, "timeout"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_counted_as_what_it_is(fault):
    behave, kind = FAULTS[fault]
    with Scripted(behave) as server:
        raw = load_on(server.port, clients=3, requests=4, timeout=0.1 if kind == "timeout" else 5).run()
    found = {name: count for name, count in raw["errors"].items() if count}
    # A wrong reply leaves the connection usable, all else ends the client.
    assert found == {kind: 12 if kind == "wrong" else 3}
    assert trials.answered(raw) == {"wrong": 12, "short": 3, "resets": 3, "stalls": 3}.get(fault, 0)
    assert sum(states(raw)) == 3 * (raw["planned_end"] - raw["planned_start"])


def test_nobody_listening_is_one_line_and_soon():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(LoadError, match=r"^only 0 of 5 clients could connect: connections are refused$"):
        load_on(port, clients=5).run()


def test_too_many_requests_to_keep_are_refused():
    with pytest.raises(LoadError, match=r"^clients=5000, requests=1000: more than 4000000 requests in all"):
        load_on(1, clients=5000, requests=1000).run()


def test_a_client_that_is_killed_fails_the_run():
    with Server("synthetic", "select") as running:
        background = trials.Background(load_on(running.port, **LONG).run)
        assert wire.eventually(lambda: len(clients_below(os.getpid())) == CLIENTS)
        os.kill(min(clients_below(os.getpid())), signal.SIGKILL)
        with pytest.raises(LoadError, match=r"^client 1 of 6 was killed by signal 9$"):
            background.finish(30)
        assert wire.eventually(lambda: not below(os.getpid()))


def test_a_load_that_is_killed_is_an_error():
    with Server("synthetic", "select") as running:
        background = trials.Background(load_on(running.port, **LONG).run)
        assert wire.eventually(lambda: len(clients_below(os.getpid())) == CLIENTS)
        family = below(os.getpid())
        (runner,) = {parent_of(one) for one in clients_below(os.getpid())}
        os.kill(runner, signal.SIGKILL)
        with pytest.raises(LoadError, match=r"^the load was killed by signal 9$"):
            background.finish(30)
        assert wire.eventually(lambda: not any(map(wire.process_exists, family)))


def test_stop_ends_a_run_from_another_thread_and_leaves_no_client():
    with Server("synthetic", "select") as running:
        load = load_on(running.port, **LONG)
        background = trials.Background(load.run)
        assert wire.eventually(lambda: len(clients_below(os.getpid())) == CLIENTS)
        load.stop()
        with pytest.raises(LoadError, match=r"^the load was stopped$"):
            background.finish(10)
    assert not below(os.getpid())


def test_a_server_that_is_killed_is_named():
    scenario = Scenario.of("synthetic", "select", "forked", options=LONG)
    background = trials.Background(lambda: measuring.measure_once(scenario, window=1.0, warmup=0.0))
    assert wire.eventually(lambda: len(clients_below(os.getpid())) == CLIENTS)
    servers = [pid for pid in processes("kneepoint-serve") if parent_of(pid) == os.getpid()]
    os.kill(servers[0], signal.SIGKILL)
    with pytest.raises(MeasureError, match=r"^server select was killed by signal 9 while it was measured$"):
        background.finish(30)
    assert wire.eventually(lambda: not below(os.getpid()))


@pytest.mark.parametrize("victim", ["python", "keeper"])
def test_nothing_outlives_a_kill(victim):
    script = textwrap.dedent("""
        from pyx.load import Load
        from pyx.server import Server
        with Server("synthetic", "select") as server:
            options = {"clients": "6", "requests": "600000"}
            Load("forked", "synthetic", options, server.host, server.port, 1, 0.0, 0.0).run()
    """)
    process = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        assert wire.eventually(lambda: len(clients_below(process.pid)) == CLIENTS)
        family = below(process.pid)
        (keeper,) = {one for one in family if parent_of(one) == process.pid}
        os.kill(process.pid if victim == "python" else keeper, signal.SIGKILL)
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert wire.eventually(lambda: not any(map(wire.process_exists, family)))
    if victim == "keeper":
        assert said.splitlines()[-1].endswith("LoadError: kneepoint-load was killed by signal 9")


@pytest.mark.parametrize(("name", "own"), [("closed", {"think": "0.001"}), ("open", {"arrival_rate": "500"})])
def test_any_load_can_run_in_a_process_of_its_own(name, own):
    with Server("stock", "select") as running:
        before = wire.descriptors()
        words = {"clients": "5", **own}
        target = running.host, running.port
        load = Load(name, "stock", words, *target, 1, 0.05, 0.2, running.pid, running.page, isolate=True)
        raw = load.run()
        del load
        assert wire.descriptors().keys() == before.keys()
        assert trials.answered(raw) == raw["client_count"].sum() > 0
        assert raw["end"]["roles"]["loop"]["requests"] >= trials.answered(raw)
    span = raw["planned_end"] - raw["planned_start"]
    assert span == pytest.approx(0.2e9, abs=1)
    assert sum(states(raw)) == pytest.approx(5 * span, rel=1e-3)
    assert raw["lag"]["count"] > 0 and ("planned" in raw) == (name == "open")


def test_the_seed_decides_what_is_asked():
    def requests_of(seed):
        heard = []
        with Scripted(agreeing(heard)) as server:
            load_on(server.port, "stock", seed, clients=1, requests=30, mix="buy:1,sell:1").run()
        return heard

    assert requests_of(7) == requests_of(7) != requests_of(8)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "usage: kneepoint-load SERVICE LOAD --to HOST:PORT --result FD"),
        (["stock", "forked"], "usage: "),
        (["stock", "forked", "--to", "127.0.0.1:1"], "usage: "),
        (["stock", "forked", "--to", "127.0.0.1", "--result", "9"], "usage: "),
        (["stock", "forked", "--to", "localhost:1", "--result", "9"], "usage: "),
        (["shop", "forked", "--to", "127.0.0.1:1", "--result", "9"], "shop: no such service"),
        (["stock", "spoon", "--to", "127.0.0.1:1", "--result", "9"], "spoon: no such load"),
        (["stock", "forked", "--to", "127.0.0.1:1", "--result", "9", "clients=0"], "clients=0"),
        (["stock", "forked", "--to", "127.0.0.1:1", "--result", "9"], "--result: not shared memory"),
    ],
)
def test_wrong_arguments_are_one_line_and_status_2(words, message):
    ended = subprocess.run([EXECUTABLE, *words], capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 2 and ended.stdout == ""
    assert ended.stderr.startswith(f"kneepoint-load: {message}") and ended.stderr.count("\n") == 1


def test_a_missing_executable_is_one_line():
    with Server("synthetic", "select") as running:
        words = {"clients": "1"}
        load = Load(
            "forked",
            "synthetic",
            words,
            running.host,
            running.port,
            1,
            0,
            0,
            executable=Path("/nowhere/load"),
        )
        with pytest.raises(LoadError, match=r"^cannot start /nowhere/load: No such file or directory$"):
            load.run()
