"""The stock server's file: when it is written, and that nothing but a whole new table ever takes its place."""

import os
import re
import resource
import select
import signal

import pytest
import trials
import wire

from pyx.server import Server

TABLE = "1 10 500\n2 20 600\n"
SOLD = "1 13 500\n2 20 600\n"
SERVERS = trials.serving(2)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "stock.txt"
    path.write_text(TABLE)
    return path


def sell(peer, amount=3):
    wire.exchange(peer, b"sell 1 %d\n" % amount, b"[sell] success\n")


def limit_files(server: Server, size: int) -> None:
    """No file of the server, or of its processes, may become larger; a stand-in for a full disk."""
    for pid in (server.pid, *wire.children(server.pid)):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def said(server: Server, seconds: float = 10.0) -> str:
    """The next lines that the server says on its standard error."""
    stream = server.process.stderr
    assert select.select([stream], [], [], seconds)[0], "the server says nothing"
    return os.read(stream.fileno(), 65536).decode()


@pytest.mark.parametrize("server", SERVERS)
def test_it_is_written_when_the_last_client_leaves(server, table):
    with Server("stock", server, {"table": str(table)}) as running:
        with wire.connect(running.port) as stays:
            sell(stays, 1)
            with wire.connect(running.port) as leaves:
                sell(leaves, 2)
            assert wire.eventually(lambda: trials.total(running, "closed") == 1)
            assert table.read_text() == TABLE
        assert wire.eventually(lambda: table.read_text() == SOLD)
    assert [path.name for path in table.parent.iterdir()] == ["stock.txt"]


@pytest.mark.parametrize("server", SERVERS)
def test_it_is_written_at_the_end(server, table):
    running = Server("stock", server, {"table": str(table)})
    with wire.connect(running.port) as peer:
        sell(peer)
        assert running.stop() == 0
    assert table.read_text() == SOLD


def test_a_server_that_is_killed_leaves_the_old_one(table):
    with Server("stock", "sbuf", {"table": str(table)}) as running, wire.connect(running.port) as peer:
        sell(peer)
        running.process.kill()
        running.process.wait()
    assert table.read_text() == TABLE


@pytest.mark.parametrize("server", SERVERS)
def test_a_full_disk_is_said_once_and_the_old_file_stays(server, table):
    with Server("stock", server, {"table": str(table)}) as running:
        limit_files(running, 5)
        with wire.connect(running.port) as peer:
            sell(peer)
        line = f"kneepoint-server: {table}: cannot be written: File too large; it is as it was before, "
        assert said(running) == line + "and is tried again when the last client leaves, and at the end\n"
        for _ in range(3):
            with wire.connect(running.port) as peer:
                wire.exchange(peer, b"show\n", SOLD.encode() + b"\n")
        assert wire.eventually(lambda: trials.total(running, "closed") == 4)
        assert table.read_text() == TABLE and [path.name for path in table.parent.iterdir()] == ["stock.txt"]
        limit_files(running, 1 << 20)
        with wire.connect(running.port) as peer:
            wire.exchange(peer, b"buy 9 1\n", re.compile(rb"error: [^\n]+\n"))
        assert wire.eventually(lambda: table.read_text() == SOLD)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.stderr.read() == b"" and running.process.wait() == 0


@pytest.mark.parametrize("server", ["sbuf", "prefork"])
def test_a_disk_that_is_full_at_the_end_is_an_error(server, table):
    with Server("stock", server, {"table": str(table)}) as running:
        limit_files(running, 5)
        with wire.connect(running.port) as peer:
            sell(peer)
            running.process.send_signal(signal.SIGTERM)
            lines = running.process.stderr.read().decode().splitlines()
        assert running.process.wait() == 1
    why = f"kneepoint-server: {table}: cannot be written: File too large; it is as it was before"
    assert f"{why}, and what changed since is lost" in lines
    assert table.read_text() == TABLE
