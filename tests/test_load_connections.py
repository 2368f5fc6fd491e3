"""The load's connections to servers that are not ours: who may end them, when they are made, whose turn it is."""

import contextlib
import multiprocessing
import os
import socket
import threading

from scripted import Scripted, asked
from trials import run


def test_a_server_may_end_what_is_idle_and_thinking_clients_connect_to_ask():
    def behave(peer, number, stopping):
        peer.settimeout(0.02)
        while peer.recv(4096):
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with Scripted(behave) as server:
        raw = run(server.port, "http", clients=4, window=0.9, think=0.1, think_dist="constant")
    assert not any(raw["errors"].values())
    assert min(raw["client_count"]) >= 4
    assert raw["think"] > 0.7 * 4 * (raw["planned_end"] - raw["planned_start"])


def test_clients_that_think_hold_no_connection_which_others_need():
    """A server that attends to one connection at a time, as the plainest do."""
    turn = threading.Lock()

    def behave(peer, number, stopping):
        with turn:
            asked(peer)
            peer.sendall(b"done 0\n")

    with Scripted(behave) as server:
        raw = run(server.port, warmup=0.3, window=1.0, clients=10, think=0.05, connection="per_request")
    span = raw["planned_end"] - raw["planned_start"]
    # Were they connected while they think, whoever is served would keep the others waiting.
    assert raw["response"] < 0.25 * 10 * span and raw["think"] > 0.5 * 10 * span


def flood(listener, sent):
    peer, _ = listener.accept()
    peer.recv(4096)
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000000000000\r\n\r\n")
    zeros = os.memfd_create("zeros")
    os.ftruncate(zeros, 64 << 20)
    with contextlib.suppress(OSError):
        while True:
            sent.value += os.sendfile(peer.fileno(), zeros, 0, 64 << 20)


def test_a_reply_without_end_does_not_keep_the_loop_from_its_other_clients():
    context = multiprocessing.get_context("fork")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sent = context.Value("q", 0)
        process = context.Process(target=flood, args=(listener, sent))
        process.start()
        try:
            raw = run(listener.getsockname()[1], "http", clients=1, window=0.5)
        finally:
            process.kill()
            process.join()
    # One turn takes at most 16 reads of 64 KB.
    assert sent.value > 50e6
    assert raw["end"]["polls"] >= sent.value / (1 << 20) / 2
