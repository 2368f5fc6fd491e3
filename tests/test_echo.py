"""The echo service: texts of every length, and the address that a reply must name."""

import re
import socket

import pytest
import trials
import wire
from pyx.load import Load

from pyx import registry
from pyx.server import Server


@pytest.mark.parametrize("server", sorted(registry.servers()))
def test_a_reply_names_its_own_client(server):
    with Server("echo", server) as running:
        peers = [wire.connect(running.port) for _ in range(5)]
        for peer in peers:
            taken = wire.exchange(peer, b"hello\n", wire.echoed(b"hello"))
            assert f"port : {peer.getsockname()[1]} address".encode() in taken
            peer.close()
        with socket.create_connection(("127.0.0.1", running.port), source_address=("127.0.0.7", 0)) as peer:
            peer.sendall(b"x\n")
            assert wire.take(peer, re.compile(rb".*\n")).endswith(b" address : 127.0.0.7\n")


def test_the_longest_text_is_returned_and_a_longer_one_refused():
    with Server("echo", "select") as running, wire.connect(running.port) as peer:
        for _ in range(2):
            wire.exchange(peer, b"x" * 65536 + b"\n", wire.echoed(b"x" * 65536))
            wire.exchange(peer, b"x" * 65537 + b"\n", b"error: a line is longer than 65536 bytes\n")
            wire.exchange(peer, b"x" * 300_000 + b"\n", b"error: a line is longer than 65536 bytes\n")
            wire.exchange(peer, b"\n", wire.echoed(b""))


@pytest.mark.parametrize("size", ["1", "65536"])
def test_a_load_checks_every_reply(size):
    with Server("echo", "sbuf") as running:
        raw = Load("closed", "echo", {"message": size}, running.host, running.port, 1, 0.0, 0.2).run()
    assert trials.answered(raw) > 0
    assert not any(raw["errors"].values()) and not any(raw["errors_outside"].values())
