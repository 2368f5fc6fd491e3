"""A server in Python that does to each connection what a test says, and things to say."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

Behave = Callable[[socket.socket, int, threading.Event], None]


class Scripted:
    """Serves each connection in a thread, by a function of its socket, its number, and the event that it is to end.

    Attributes
    ----------
    port : int
    accepted : int
        Connections so far.
    """

    def __init__(self, behave: Behave) -> None:
        self._behave, self._stopping = behave, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        self.accepted = 0
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        self.listener.settimeout(0.02)
        while not self._stopping.is_set():
            try:
                peer, _ = self.listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            peer.settimeout(5)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._serve, args=(peer, self.accepted), daemon=True)
            self.accepted += 1
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: socket.socket, number: int) -> None:
        with peer:
            try:
                self._behave(peer, number, self._stopping)
            except OSError:
                return

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(10)
        self.listener.close()


def asked(peer: socket.socket) -> bytes:
    """A line; ConnectionError when there is none to come."""
    line = b""
    while not line.endswith(b"\n"):
        got = peer.recv(64)
        if not got:
            raise ConnectionError
        line += got
    return line


def always(reply: bytes) -> Behave:
    """The same reply to every line."""

    def behave(peer: socket.socket, number: int, stopping: threading.Event) -> None:
        while asked(peer):
            peer.sendall(reply)

    return behave


def after_one(end: Callable[[socket.socket, threading.Event], None]) -> Behave:
    """One right reply, then `end` in place of the second."""

    def behave(peer: socket.socket, number: int, stopping: threading.Event) -> None:
        asked(peer)
        peer.sendall(b"done 0\n")
        asked(peer)
        end(peer, stopping)

    return behave


def cut_short(peer: socket.socket, stopping: threading.Event) -> None:
    peer.sendall(b"done")


def stall(peer: socket.socket, stopping: threading.Event) -> None:
    stopping.wait(5)


def agreeing(heard: list[bytes]) -> Behave:
    """Says yes to every stock order, and notes it."""

    def behave(peer: socket.socket, number: int, stopping: threading.Event) -> None:
        while line := asked(peer):
            heard.append(line)
            peer.sendall(b"[buy] success\n" if line.startswith(b"buy") else b"[sell] success\n")

    return behave


def replying(reply: bytes, kept: bool, cuts: int = 1) -> Behave:
    """The same bytes in so many pieces for whatever comes, and the end of the connection after it unless it is kept."""
    piece = -(-len(reply) // cuts)

    def behave(peer: socket.socket, number: int, stopping: threading.Event) -> None:
        while peer.recv(65536):
            for at in range(0, len(reply), piece):
                peer.sendall(reply[at : at + piece])
            if not kept:
                return

    return behave
