"""The server's process: how it starts, refuses, runs out of descriptors, dies, and leaves nothing."""

import os
import resource
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import trials
import wire

from harness import measuring
from harness.errors import MeasureError
from harness.subjects import native
from models.scenario import Scenario
from pyx import registry
from pyx.server import EXECUTABLE, Server, ServerError

ROOT = Path(__file__).parents[1]
SERVERS = sorted(registry.servers())


def kneepoint_server(*words):
    return subprocess.run([EXECUTABLE, *words], capture_output=True, text=True, timeout=20, check=False)


def test_a_taken_port_is_one_line_and_leaves_nothing():
    before = wire.descriptors().keys()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ServerError, match=rf"^cannot listen on 127\.0\.0\.1:{port}: Address already in use$"
        ) as caught:
            Server("stock", "select", port=port)
    assert not caught.value.usage
    assert wire.descriptors().keys() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "usage: kneepoint-server SERVICE SERVER"),
        (["stock"], "usage: "),
        (["stock", "select", "more"], "usage: "),
        (["stock", "select", "--port"], "usage: "),
        (["stock", "select", "--port", "65536"], "usage: "),
        (["stock", "select", "--bogus", "1"], "usage: "),
        (["shop", "select"], "shop: no such service"),
        (["stock", "elect"], "elect: no such server"),
        (["stock", "select", "workers=3"], "workers: not a setting of service stock or server select"),
        (["stock", "sbuf", "workers=0"], "workers=0"),
        (["stock", "sbuf", "workers=x"], "workers=x"),
        (["stock", "sbuf", "hold=everything"], "hold=everything"),
        (["stock", "select", "server_cpus=9999"], "server_cpus=9999: not a list of this machine's CPUs"),
        (["stock", "select", "dialect=padded", "stocks=1000"], "dialect=padded: a show takes "),
        (["stock", "select", "mix=give:1"], "mix=give:1"),
    ],
)
def test_wrong_arguments_are_one_line_and_status_2(words, message):
    ended = kneepoint_server(*words)
    assert ended.returncode == 2 and ended.stdout == ""
    assert ended.stderr.startswith(f"kneepoint-server: {message}") and ended.stderr.count("\n") == 1


def test_the_line_of_a_refused_start_reaches_the_caller():
    with pytest.raises(
        ServerError, match=r"^workers: not a setting of service stock or server select$"
    ) as caught:
        Server("stock", "select", {"workers": "3"})
    assert caught.value.usage
    with pytest.raises(ServerError, match=r"^cannot start /nonexistent: No such file or directory$"):
        Server("stock", "select", executable=Path("/nonexistent"))


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("server", SERVERS)
def test_the_executable_says_where_it_listens_and_stops_on_signals(server, stop):
    process = subprocess.Popen([EXECUTABLE, "synthetic", server], stdout=subprocess.PIPE, text=True)
    try:
        host, port = process.stdout.readline().removeprefix("listening on ").strip().split(":")
        assert host == "127.0.0.1"
        with wire.connect(int(port)) as peer:
            wire.exchange(peer, b"work\n", b"done 0\n")
            process.send_signal(stop)
            assert process.wait(10) == 0
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


@pytest.fixture
def started(monkeypatch):
    """The servers that harness.measuring starts, as it starts them."""
    servers = []

    class Recorded(Server):
        def __init__(self, *arguments, **named):
            super().__init__(*arguments, **named)
            servers.append(self)

    monkeypatch.setattr(native, "Server", Recorded)
    return servers


@pytest.mark.parametrize("think", [0, 0.02])
def test_a_server_killed_in_the_middle_is_named(started, think):
    before = wire.descriptors().keys()

    def kill():
        assert wire.eventually(lambda: started and trials.total(started[0], "requests") > 50)
        os.kill(started[0].pid, signal.SIGKILL)

    killer = trials.Background(kill)
    scenario = Scenario.of("stock", "sbuf", options={"clients": 20, "think": think})
    with pytest.raises(MeasureError) as caught:
        measuring.measure_once(scenario, window=1.0, warmup=0.05)
    killer.finish()
    message = str(caught.value)
    assert "sbuf" in message and "9" in message and "\n" not in message
    assert not wire.process_exists(started[0].pid)
    started.clear()
    del caught  # its frames hold the load, and with it the connections
    assert wire.descriptors().keys() == before


def test_a_refused_measurement_is_one_line():
    scenario = Scenario.of("stock", "select", options={"table": "/nonexistent/table"})
    with pytest.raises(
        MeasureError, match=r"^/nonexistent/table: cannot be opened: No such file or directory$"
    ):
        measuring.measure_once(scenario, window=0.1, warmup=0.0)


def test_more_clients_than_descriptors_is_one_line():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    program = """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        from harness import measuring
        from harness.errors import MeasureError
        from models.scenario import Scenario
        try:
            many = Scenario.of("stock", "sbuf", options={"clients": 200})
            measuring.measure_once(many, window=0.1, warmup=0.0)
        except MeasureError as error:
            print(error.usage, error)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout.startswith("True clients=200: needs 264 descriptors, the limit is 100"), ended.stderr
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_server_outlives_its_starter(how):
    program = """
        import time
        from pyx.server import Server
        server = Server("prime", "queues", {"workers": "2", "wait": "spin"})
        print(server.pid, server.port, flush=True)
        time.sleep(60)
    """
    starter = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        pid, port = map(int, starter.stdout.readline().split())
        with wire.connect(port) as peer:
            peer.sendall(wire.UNFINISHED["prime"])
            assert wire.process_exists(pid)
            starter.send_signal(how)
            starter.wait(10)
            assert wire.eventually(lambda: not wire.process_exists(pid))
    finally:
        starter.kill()
        starter.stdout.close()
        starter.wait()


def test_a_starter_that_forks_does_not_keep_servers_alive():
    program = """
        import os, time
        from pyx.server import Server
        server = Server("synthetic", "select")
        print(server.pid, flush=True)
        os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "3")
        os.kill(os.getpid(), 9)
    """
    starter = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    pid = int(starter.stdout.readline())
    starter.wait(10)
    starter.stdout.close()
    assert wire.eventually(lambda: not wire.process_exists(pid), 2.0)


def test_counters_live_in_memory_without_a_name():
    with Server("stock", "sbuf") as server:
        maps = Path(f"/proc/{server.pid}/maps").read_text()
        assert "/memfd:kneepoint-counters (deleted)" in maps
        assert "/dev/shm" not in maps and "/dev/shm" not in "".join(wire.descriptors(server.pid).values())


@pytest.mark.parametrize("server", trials.serving(15))
def test_a_server_out_of_descriptors_waits_without_spinning_and_recovers(server):
    known = wire.EXCHANGES["synthetic"][0]
    with Server("synthetic", server, {"backlog": "256"}) as running:
        limit = len(wire.descriptors(running.pid)) + 20
        resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (limit, limit))
        first = [wire.connect(running.port) for _ in range(15)]
        waiting = []
        try:
            assert wire.eventually(lambda: trials.total(running, "accepted") == 15)
            waiting = [wire.connect(running.port) for _ in range(40)]
            for peer in waiting:
                peer.sendall(known.request)
            assert wire.eventually(lambda: trials.total(running, "errors") > 0)
            accepted = trials.total(running, "accepted")
            assert 15 <= accepted < 55
            used, began = wire.processor_seconds(running.pid), time.monotonic()
            for peer in first:
                peer.sendall(known.request)
                wire.take(peer, known.reply)
            time.sleep(0.5)
            share = (wire.processor_seconds(running.pid) - used) / (time.monotonic() - began)
            assert share < 0.3, "it spins"
            for peer in first:
                peer.close()
            for peer in waiting:
                # Those at the end of the line are let in as those before them leave.
                wire.take(peer, known.reply)
                peer.close()
            assert wire.eventually(lambda: trials.total(running, "accepted") == 55)
            assert wire.eventually(lambda: trials.total(running, "closed") == 55)
        finally:
            for peer in first + waiting:
                peer.close()
        assert running.stop() == 0


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_without_any_descriptor_serves_when_there_are_some_again(server):
    known = wire.EXCHANGES["synthetic"][0]
    with Server("synthetic", server) as running:
        plenty = resource.prlimit(running.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (3, plenty[1]))  # those up to 2 are open
        waiting = [wire.connect(running.port) for _ in range(5)]
        try:
            for peer in waiting:
                peer.sendall(known.request)
            assert wire.eventually(lambda: trials.total(running, "errors") > 2)
            assert trials.total(running, "accepted") == 0
            resource.prlimit(running.pid, resource.RLIMIT_NOFILE, plenty)
            for peer in waiting:
                wire.take(peer, known.reply)
                peer.close()
            assert wire.eventually(lambda: trials.total(running, "closed") == 5)
        finally:
            for peer in waiting:
                peer.close()
        assert running.stop() == 0


@pytest.mark.parametrize("server", trials.serving(2))
def test_a_peer_that_does_not_read_holds_up_nobody_else(server):
    with Server("stock", server, {"stocks": "1000"}) as running:
        with wire.connect(running.port) as deaf, wire.connect(running.port) as other:
            deaf.settimeout(0.3)
            with pytest.raises(TimeoutError):
                while True:
                    deaf.sendall(b"show\n" * 500)
            for _ in range(5):
                wire.exchange(other, b"sell 1 1\n", b"[sell] success\n")
            status = Path(f"/proc/{running.pid}/status").read_text()
            resident = int(status.split("VmRSS:")[1].split()[0])
            assert resident < 200_000, "it hoards replies, KiB"
        assert running.stop() == 0
