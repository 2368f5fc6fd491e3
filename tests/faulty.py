"""A server of the synthetic protocol that does one thing wrong: python tests/faulty.py FAULT [SECONDS]

It prints its port, serves until its standard input ends, and answers each request after SECONDS (default 0.002).
The faults begin half a second after the first request.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time

FAULTS = ("none", "reset", "short", "silent", "wrong", "extra", "accept_stall", "slow_reader", "slower")
EVERY = 40  # requests of a connection between two faults
PAUSE = 0.5


class Faulty:
    """Accepts, and serves each connection in a thread of its own."""

    def __init__(self, fault: str, demand: float) -> None:
        self.fault, self.demand = fault, demand
        self.began = 0.0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]

    def serve(self) -> None:
        accepted = 0
        while True:
            if self.fault == "accept_stall" and accepted == 4:
                time.sleep(3600)
            peer, _ = self.listener.accept()
            accepted += 1
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._connection, args=(peer,), daemon=True).start()

    def _connection(self, peer: socket.socket) -> None:
        count = 0
        try:
            while self._request(peer):
                count += 1
                self.began = self.began or time.monotonic()
                elapsed = time.monotonic() - self.began
                time.sleep(self.demand * (1 + 4 * elapsed if self.fault == "slower" else 1))
                due = elapsed > PAUSE and count % EVERY == 0
                if not self._answer(peer, due):
                    return
        except OSError:
            pass

    def _request(self, peer: socket.socket) -> bool:
        line = b""
        while not line.endswith(b"\n"):
            if self.fault == "slow_reader":
                time.sleep(0.01)
            got = peer.recv(1 if self.fault == "slow_reader" else 64)
            if not got:
                return False
            line += got
        return True

    def _answer(self, peer: socket.socket, due: bool) -> bool:
        """Whether the connection goes on."""
        if not due or self.fault in ("none", "accept_stall", "slow_reader", "slower"):
            peer.sendall(b"done 0\n")
            return True
        if self.fault == "reset":
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
            return False
        if self.fault == "short":
            peer.sendall(b"do")
            peer.close()
            return False
        if self.fault == "wrong":
            peer.sendall(b"nope 0\n")
        elif self.fault == "extra":
            peer.sendall(b"done 0\nand more")
        return True


def main() -> None:
    server = Faulty(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.002)
    print(server.port, flush=True)
    threading.Thread(target=server.serve, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
