"""The event loops: what idle connections hold, half-closed peers, sets that grow and shrink, sockets' options."""

from __future__ import annotations

import ctypes
import os
import random
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trials
import wire
from pyx.load import Load

from pyx import registry
from pyx.server import Server

LOOPS = ("select", "poll", "epoll")
PIDFD_GETFD = 438  # the number of the system call
MOST = 512  # bytes of the server's own memory that an idle connection may hold


@contextmanager
def descriptors_for(connections: int) -> Iterator[None]:
    """Room for so many in this process; skips where the system does not give it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = connections + 500
    if hard != resource.RLIM_INFINITY and hard < need:
        pytest.skip(f"{connections} connections need {need} descriptors, the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(need, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def private(server: Server) -> int:
    """Memory that belongs to the server's process alone, without the kernel's, bytes."""
    rollup = Path(f"/proc/{server.pid}/smaps_rollup").read_text()
    return sum(
        int(line.split()[1]) * 1024
        for line in rollup.splitlines()
        if line.startswith(("Private_Dirty", "Private_Clean"))
    )


def visit(opened: list[socket.socket], known: wire.Exchange) -> None:
    """A request and its reply on each connection."""
    for peer in opened:
        peer.sendall(known.request)
    for peer in opened:
        wire.take(peer, known.reply)


SERVED = [name for name, row in registry.services().items() if row["serves"]]


@pytest.mark.parametrize(
    "service",
    [pytest.param(name, marks=[] if name == "http" else [pytest.mark.long]) for name in SERVED],
)
def test_ten_thousand_idle_connections_hold_five_hundred_bytes_each(service: str) -> None:
    connections, batch = 10_000, 500
    known = wire.EXCHANGES[service][0]
    with descriptors_for(connections), ExitStack() as peers:
        server = peers.enter_context(Server(service, "epoll"))
        before = 0
        for done in range(0, connections + batch, batch):  # the first batch warms everything up
            opened = [peers.enter_context(wire.connect(server.port)) for _ in range(batch)]
            visit(opened, known)
            before = before or private(server)
            assert trials.total(server, "accepted") == done + batch
        each = (private(server) - before) / connections
        assert 100 < each <= MOST, f"{each:.0f} bytes a connection"


@pytest.mark.parametrize("server", LOOPS)
def test_a_half_closed_peer_gets_all_that_it_asked_for(server: str) -> None:
    """Far more than the sockets hold, so that output waits when the server learns of the half-close."""
    rounds, size = 400, 100_000
    known = wire.EXCHANGES["http"][0]
    with Server("http", server, {"message": str(size)}) as running, wire.connect(running.port) as peer:
        peer.sendall(known.request * rounds)
        peer.shutdown(socket.SHUT_WR)
        time.sleep(0.1)
        taken = 0
        while got := len(peer.recv(1 << 20)):
            taken += got
        assert taken > rounds * size
        assert wire.eventually(lambda: trials.total(running, "requests") == rounds)
        assert wire.eventually(lambda: trials.total(running, "closed") == 1)
        assert trials.total(running, "errors") == 0


@pytest.mark.parametrize("server", LOOPS)
def test_connections_that_come_and_go_in_any_order_are_never_taken_for_each_other(server: str) -> None:
    draw = random.Random(5)
    with Server("echo", server) as running:
        peers: dict[int, socket.socket] = {}
        for turn in range(600):
            name = draw.randrange(120)
            if name in peers and draw.random() < 0.5:
                peers.pop(name).close()
            peers.setdefault(name, wire.connect(running.port))
            for other in draw.sample(sorted(peers), min(3, len(peers))):
                peers[other].sendall(b"%d of %d\n" % (other, turn))
            for other in sorted(peers):
                peers[other].setblocking(False)
                try:
                    got = peers[other].recv(4096)
                except BlockingIOError:
                    continue
                finally:
                    peers[other].settimeout(wire.TIMEOUT)
                assert all(b" message : %d of " % other in line for line in got.splitlines())
        for other, peer in peers.items():
            peer.sendall(b"last of %d\n" % other)
            peer.shutdown(socket.SHUT_WR)
            taken = b"".join(iter(lambda peer=peer: peer.recv(4096), b""))
            assert b" message : last of %d " % other in taken
            peer.close()
        assert wire.eventually(
            lambda: trials.total(running, "closed") == trials.total(running, "accepted") > 120
        )


@pytest.mark.parametrize("server", LOOPS)
def test_requests_in_pieces_on_many_connections_keep_to_their_own(server: str) -> None:
    """Each has the beginning of a request waiting while all others go on."""
    words = [b"%d:" % name + b"x" * (37 * name % 900) for name in range(60)]
    with Server("echo", server) as running, ExitStack() as opened:
        peers = [opened.enter_context(wire.connect(running.port)) for _ in words]
        for at in range(0, 950, 190):
            for peer, word in zip(peers, words, strict=True):
                peer.sendall((word + b"\n")[at : at + 190])
        for peer, word in zip(peers, words, strict=True):
            wire.take(peer, wire.echoed(word))


@pytest.mark.parametrize("server", LOOPS)
def test_sleeps_and_waiting_are_counted(server: str) -> None:
    with Server("synthetic", server) as running:
        options = {"clients": "1", "think": "0.005", "think_dist": "constant"}
        load = Load("closed", "synthetic", options, running.host, running.port, 1, 0.0, 0.5)
        replies = trials.answered(load.run())
        count = {name: trials.total(running, name) for name in ("polls", "sleeps", "wait_ns")}
    assert replies > 10
    assert replies <= count["sleeps"] <= count["polls"]
    assert 0.2e9 < count["wait_ns"] < 20e9


def test_accepted_sockets_send_at_once() -> None:
    """TCP_NODELAY, which they have from the listening socket."""
    with Server("synthetic", "epoll") as running, wire.connect(running.port) as peer:
        wire.exchange(peer, b"work\n", b"done 0\n")
        names = [name for name, what in wire.descriptors(running.pid).items() if what.startswith("socket:")]
        assert len(names) == 2  # the listening one and the accepted one
        for name in names:
            with borrowed(running.pid, int(name)) as one:
                assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def borrowed(pid: int, descriptor: int) -> socket.socket:
    """Another process's socket; skips where the system does not lend it."""
    process = os.pidfd_open(pid)
    try:
        mine = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, descriptor, 0)
    finally:
        os.close(process)
    if mine < 0:
        pytest.skip(f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
    return socket.socket(fileno=mine)
