"""Servers that serve in processes of their own: whoever is killed, only its own connection ends, and all is counted."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import trials
import wire
from pyx.load import Load
from pyx.sampling import COLUMNS, Sampler, tree, tree_cpu

from pyx import registry
from pyx.server import STOP_TIMEOUT, Server, ServerError

SERVERS = sorted(name for name, row in registry.servers().items() if row["processes"])
WORK, DONE = b"work\n", wire.re.compile(rb"done \d+\n")
TICK = 1 / os.sysconf("SC_CLK_TCK")


def children(server):
    return tree(server.pid)[1:]


def child_of(server, before):
    """The process that has come to serve a connection made since."""
    assert wire.eventually(lambda: len(set(children(server)) - set(before)) == 1)
    return (set(children(server)) - set(before)).pop()


def voluntary(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])


def asked(server, count=1):
    """Connections that have been answered once."""
    peers = []
    for _ in range(count):
        peers.append(wire.connect(server.port))
        wire.exchange(peers[-1], WORK, DONE)
    return peers


def serving(server, peer):
    """The process that serves this peer: the one with the other end of its connection."""
    local = peer.getsockname()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[2].split(":")[1], 16) == local and int(fields[1].split(":")[1], 16) == server.port:
            socket = f"socket:[{fields[9]}]"
            return next(pid for pid in children(server) if socket in wire.descriptors(pid).values())
    raise AssertionError("nobody serves it")


def ended(peer):
    """Whether the other side is gone."""
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


def test_the_registry_knows_which_servers_these_are():
    assert SERVERS == ["fork", "prefork"]


@pytest.mark.parametrize("server", SERVERS)
def test_a_process_has_its_connection_and_no_other_descriptor(server):
    with Server("synthetic", server) as running:
        peers = asked(running, 3)
        for peer in peers:
            found = wire.descriptors(serving(running, peer))
            assert found.pop("0") == "/dev/null"
            assert {found.pop("1"), found.pop("2")} <= set(wire.descriptors(running.pid).values())
            listener = {one for one in found.values() if one in wire.descriptors(running.pid).values()}
            assert len(listener) == (server == "prefork")
            assert len(found) - len(listener) == 1, found
            peer.close()


@pytest.mark.parametrize("server", SERVERS)
def test_no_process_outlives_a_killed_server(server):
    with Server("synthetic", server, {"demand": "10"}) as running:
        peers = [wire.connect(running.port) for _ in range(3)]
        peers[0].sendall(WORK)
        peers[1].sendall(wire.UNFINISHED["synthetic"])
        assert wire.eventually(lambda: trials.total(running, "accepted") == 3)
        processes = children(running)
        assert len(processes) >= 3
        running.process.kill()
        assert wire.eventually(lambda: not any(map(wire.process_exists, processes)), 2.0)
        for peer in peers:
            assert ended(peer)
            peer.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
@pytest.mark.parametrize("server", SERVERS)
def test_a_process_that_dies_takes_its_connection_only(server, how):
    with Server("synthetic", server) as running:
        its, peers = wire.descriptors(running.pid), asked(running, 4)
        victim = serving(running, peers[1])
        os.kill(victim, how)
        assert ended(peers.pop(1))
        for peer in peers:
            wire.exchange(peer, WORK, DONE)
        assert wire.eventually(lambda: trials.total(running, "died") == 1)
        assert trials.total(running, "closed") == trials.total(running, "errors") == 1
        peers += asked(running)
        assert victim not in children(running) and len(children(running)) == 4
        for peer in peers:
            peer.close()
        assert wire.eventually(lambda: trials.total(running, "closed") == 5)
        assert trials.total(running, "accepted") == 5 and trials.total(running, "requests") == 8
        assert trials.total(running, "died") == 1
        if server == "fork":
            assert wire.eventually(lambda: wire.descriptors(running.pid) == its)
        assert running.stop() == 0


def test_workers_that_die_again_and_again_are_replaced_at_a_bounded_rate():
    with Server("synthetic", "prefork", {"workers": "2"}) as running:
        began, deaths = time.monotonic(), 0
        while time.monotonic() - began < 0.6:
            for pid in children(running):
                os.kill(pid, signal.SIGKILL)
                deaths += 1
                assert wire.eventually(lambda gone=pid: not Path(f"/proc/{gone}").exists())
        assert 2 < deaths <= 2 * (1 + (time.monotonic() - began) / 0.1)
        (peer,) = asked(running)
        assert wire.eventually(lambda: len(children(running)) == 2)
        assert trials.total(running, "died") == deaths and trials.total(running, "errors") == 0
        peer.close()
        assert running.stop() == 0


@pytest.mark.parametrize("server", SERVERS)
def test_what_has_begun_is_answered_before_the_server_stops(server):
    with Server("synthetic", server, {"demand": "0.3", "demand_kind": "sleep"}) as running:
        idle, busy = wire.connect(running.port), wire.connect(running.port)
        busy.sendall(WORK)
        assert wire.eventually(lambda: trials.total(running, "demand_ns") > 0)
        stopping = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - stopping < 1.5
        assert DONE.fullmatch(busy.recv(64)) and ended(busy) and ended(idle)
        busy.close(), idle.close()


@pytest.mark.parametrize("server", SERVERS)
def test_what_takes_too_long_is_ended_with_the_server(server):
    """A request that works for longer, and a peer that does not read its replies."""
    with Server("synthetic", server, {"demand": "10"}) as running, wire.connect(running.port) as peer:
        peer.sendall(WORK)
        assert wire.eventually(lambda: trials.total(running, "demand_ns") > 0)
        processes, stopping = children(running), time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - stopping < STOP_TIMEOUT
        assert not any(map(wire.process_exists, processes)) and ended(peer)


@pytest.mark.parametrize("server", SERVERS)
def test_processor_time_and_switches_are_those_that_the_kernel_saw(server):
    demand, requests = 0.02, 20
    with Server("synthetic", server, {"demand": str(demand), "connection": "per_request"}) as running:
        root = running.pid
        used, own = tree_cpu(root), wire.processor_seconds(root)
        for _ in range(requests):
            peer = wire.connect(running.port)
            wire.exchange(peer, WORK, DONE)
            assert ended(peer)
            peer.close()
        assert wire.eventually(lambda: trials.total(running, "closed") == requests)
        if server == "fork":
            assert wire.eventually(lambda: not children(running))
        by_tree = (tree_cpu(root) - used) * 1e-9
        by_counters = trials.total(running, "cpu_ns") * 1e-9
        assert by_tree >= demand * requests - 2 * TICK
        # Counters leave out what starting has cost, and of who still runs the last milliseconds.
        assert by_counters == pytest.approx(by_tree, abs=0.02 + 2 * TICK)
        assert wire.processor_seconds(root) - own < demand * requests / 2
        # Each connection was waited for, and its request; a child of its own ends without another switch.
        assert trials.total(running, "switches") >= requests


@pytest.mark.parametrize("server", SERVERS)
def test_what_a_killed_process_had_used_is_counted(server):
    with Server("synthetic", server, {"demand": "10"}) as running, wire.connect(running.port) as peer:
        peer.sendall(WORK)
        assert wire.eventually(lambda: trials.total(running, "demand_ns") > 0)
        victim = serving(running, peer)
        assert wire.eventually(lambda: wire.processor_seconds(victim) >= 0.2)
        switches = voluntary(victim)
        assert trials.total(running, "cpu_ns") < 0.1e9, "it has had no chance to say so itself"
        os.kill(victim, signal.SIGKILL)
        assert wire.eventually(lambda: trials.total(running, "died") == 1)
        assert trials.total(running, "cpu_ns") >= 0.2e9 - 2e9 * TICK
        assert trials.total(running, "switches") >= switches


@pytest.mark.parametrize("connection", ["keep", "per_request"])
@pytest.mark.parametrize("server", SERVERS)
def test_a_load_reads_the_processor_time_of_all_processes(server, connection):
    demand = 0.005
    options = {"demand": str(demand), "connection": connection, "clients": "2"}
    with Server("synthetic", server, {k: v for k, v in options.items() if k != "clients"}) as running:
        load = Load(
            "closed", "synthetic", options, running.host, running.port, 1, 0.1, 0.6, running.pid, running.page
        )
        raw = load.run()
        used = (raw["end"]["server_cpu"] - raw["start"]["server_cpu"]) * 1e-9
        floor = demand * (trials.answered(raw) - 2)
        assert floor <= used
        ceiling = (raw["end"]["time"] - raw["start"]["time"]) * 1e-9 * len(os.sched_getaffinity(0))
        assert used <= ceiling * 1.02


def test_a_sample_of_the_tree_has_every_process():
    with Server("synthetic", "fork") as running:
        peers = asked(running, 20)
        sampler = Sampler(running.pid, 1.0)
        sampler.start()
        row = dict(zip(COLUMNS, sampler.stop()["rows"][-1], strict=True))
        assert row["processes"] == 21 and row["threads"] == 22
        memory = 0
        for pid in tree(running.pid):
            memory += int(Path(f"/proc/{pid}/smaps_rollup").read_text().split("\nPss:")[1].split()[0]) * 1024
        assert row["pss"] == pytest.approx(memory, rel=0.02)
        assert row["rss"] > 2 * row["pss"], "they share most of what they have"
        assert row["switches"] >= sum(map(voluntary, children(running)))
        for peer in peers:
            peer.close()


def test_connections_beyond_the_limit_wait_for_a_place():
    with Server("synthetic", "fork", {"children": "2"}) as running:
        first = asked(running, 2)
        third = wire.connect(running.port)
        third.sendall(WORK)
        third.settimeout(0.1)
        with pytest.raises(TimeoutError):
            third.recv(1)
        assert len(children(running)) == trials.total(running, "accepted") == 2
        used = wire.processor_seconds(running.pid)
        time.sleep(0.2)
        assert wire.processor_seconds(running.pid) - used <= 0.05, "it spins"
        third.settimeout(wire.TIMEOUT)
        first.pop().close()
        wire.take(third, DONE)
        assert trials.total(running, "errors") == 0
        third.close()
        first.pop().close()


REFUSES_TO_FORK = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <errno.h>
    #include <unistd.h>
    /* The first ones fail, as at a limit of processes. */
    static pid_t attempt(const char *name) {
        static int tried;
        if (tried++ >= 3)
            return ((pid_t (*)(void))dlsym(RTLD_NEXT, name))();
        errno = EAGAIN;
        return -1;
    }
    pid_t fork(void) { return attempt("fork"); }
    pid_t _Fork(void) { return attempt("_Fork"); }
"""


@pytest.fixture
def no_process_at_first(tmp_path, monkeypatch):
    source, library = tmp_path / "refuse.c", tmp_path / "refuse.so"
    source.write_text(REFUSES_TO_FORK)
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))


def test_a_connection_that_cannot_be_forked_for_is_lost_and_the_next_ones_are_not(no_process_at_first):
    with Server("synthetic", "fork") as running:
        its = wire.descriptors(running.pid)
        for _ in range(3):
            with wire.connect(running.port) as peer:
                assert ended(peer)
        (peer,) = asked(running)
        assert trials.total(running, "errors") == 3 and trials.total(running, "accepted") == 1
        peer.close()
        assert wire.eventually(lambda: wire.descriptors(running.pid) == its)


def test_workers_that_cannot_be_forked_are_a_refused_start(no_process_at_first):
    with pytest.raises(
        ServerError, match=r"^cannot start synthetic on prefork: Resource temporarily unavailable$"
    ):
        Server("synthetic", "prefork")
