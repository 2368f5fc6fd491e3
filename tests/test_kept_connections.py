"""Servers whose threads or processes keep a connection until it ends: who waits, and how they stop, whatever peers do."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping

import pytest
import trials
import wire

from pyx import registry
from pyx.server import STOP_TIMEOUT, Server

KEEPING: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("iterative", {}),
    ("thread", {"threads": "3"}),
    ("sbuf", {"hold": "connection", "workers": "3"}),
)
FORKING: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("fork", {"children": "3"}),
    ("prefork", {"workers": "3"}),
)
KNOWN = wire.EXCHANGES["synthetic"][0]


@pytest.mark.parametrize(("server", "options"), KEEPING + FORKING)
def test_connections_beyond_those_served_at_once_wait_until_one_ends(server, options):
    most = registry.serves_at_once(server, options)
    with Server("synthetic", server, options) as running:
        served = [wire.connect(running.port) for _ in range(most)]
        for peer in served:
            wire.exchange(peer, KNOWN.request, KNOWN.reply)
        waiting = [wire.connect(running.port) for _ in range(2)]
        for peer in waiting:
            peer.sendall(KNOWN.request)
            peer.settimeout(0.1)
            with pytest.raises(TimeoutError):
                peer.recv(1)
            peer.settimeout(wire.TIMEOUT)
        for ending, peer in zip((served[-1], waiting[0]), waiting, strict=True):
            ending.close()
            wire.take(peer, KNOWN.reply)
        for peer in (*served, *waiting):
            peer.close()
        assert wire.eventually(lambda: trials.total(running, "closed") == most + 2)
        assert trials.total(running, "errors") == 0


def test_servers_that_serve_all_connections_say_so():
    assert registry.serves_at_once("select", {}) is None
    assert registry.serves_at_once("sbuf", {"hold": "request"}) is None
    with pytest.raises(ValueError, match="nonesuch: no such server"):
        registry.serves_at_once("nonesuch", {})


def deafen(port: int) -> socket.socket:
    """A connection over which the server cannot send any more, as its peer only asks."""
    peer = wire.connect(port)
    peer.settimeout(0.2)
    with pytest.raises(TimeoutError):
        while True:
            peer.sendall(b"show\n" * 500)
    return peer


def chatter(port: int) -> socket.socket:
    """A connection whose peer asks without end and reads all that comes."""
    peer = wire.connect(port)

    def talk() -> None:
        try:
            while True:
                peer.sendall(b"sell 1 1\n")
                peer.recv(65536)
        except OSError:
            pass

    trials.Background(talk)
    return peer


PEERS = {
    "silent": wire.connect,
    "does not read": deafen,
    "talks without end": chatter,
}


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize(("server", "options"), KEEPING + FORKING)
def test_stops_in_time_whatever_a_peer_does(server, options, peer):
    with Server("stock", server, {"stocks": "1000", **options}) as running, PEERS[peer](running.port):
        assert wire.eventually(lambda: trials.total(running, "accepted") == 1)
        begun = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - begun < STOP_TIMEOUT


def test_a_server_that_waits_for_a_place_stops_too():
    with Server("synthetic", "thread", {"threads": "1"}) as running:
        served, waiting = wire.connect(running.port), wire.connect(running.port)
        wire.exchange(served, KNOWN.request, KNOWN.reply)
        assert running.stop() == 0
        served.close()
        waiting.close()


@pytest.mark.parametrize(("server", "accepted"), [("iterative", 1), ("thread", 3), ("fork", 3)])
def test_a_short_accept_queue_is_the_iterative_servers_limit_alone(server, accepted):
    """backlog=1 holds two connections; whose SYN comes then sends it again, a second later, until there is room."""
    with Server("synthetic", server, {"backlog": "1"}) as running:
        peers = [wire.connect(running.port)]
        assert wire.eventually(lambda: trials.total(running, "accepted") == 1)
        peers += [wire.connect(running.port), wire.connect(running.port)]
        assert wire.eventually(lambda: trials.total(running, "accepted") == accepted)
        last = socket.socket()
        last.settimeout(0.3)
        if accepted == 1:
            with pytest.raises(TimeoutError):
                last.connect(("127.0.0.1", running.port))
        else:
            last.connect(("127.0.0.1", running.port))
        for peer in peers:
            wire.exchange(peer, KNOWN.request, KNOWN.reply)
            peer.close()
        assert wire.eventually(lambda: trials.total(running, "accepted") == 4)
        last.close()


ROLES = (("loop", "loop"), ("acceptor", "connection"), ("acceptor", "worker"))


@pytest.mark.parametrize(("keeping", "roles"), list(zip(KEEPING, ROLES, strict=True)))
def test_each_thread_counts_in_its_role(keeping, roles):
    """A rest between two requests is waiting for work, and a sleep."""
    rest, (accepting, serving) = 0.05, roles
    with Server("synthetic", *keeping) as running:
        with wire.connect(running.port) as peer:
            wire.exchange(peer, KNOWN.request, KNOWN.reply)
            before = {name: trials.total(running, name, serving) for name in ("wait_ns", "sleeps")}
            time.sleep(rest)
            wire.exchange(peer, KNOWN.request, KNOWN.reply)
        assert wire.eventually(lambda: trials.total(running, "closed", serving) == 1)
        after = {name: trials.total(running, name, serving) for name in before}
        assert trials.total(running, "requests", serving) == trials.total(running, "tasks", serving) == 2
        assert after["wait_ns"] - before["wait_ns"] > 0.5e9 * rest and after["sleeps"] > before["sleeps"]
        assert trials.total(running, "accepted", accepting) == 1
        assert trials.total(running, "polls", accepting) >= 1


def test_a_thread_that_has_ended_leaves_its_counts_to_the_next_one():
    with Server("synthetic", "thread") as running:
        for _ in range(40):
            with wire.connect(running.port) as peer:
                wire.exchange(peer, KNOWN.request, KNOWN.reply)
            assert wire.eventually(
                lambda: trials.total(running, "closed") == trials.total(running, "accepted")
            )
        assert trials.total(running, "requests", "connection") == 40
        assert len(running.counters[running.counters["role"] != 0]) < 10
