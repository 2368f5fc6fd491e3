"""The services' protocols as bytes, written down apart from the code that speaks them; raw sockets; /proc."""

from __future__ import annotations

import os
import re
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 20.0


@dataclass(frozen=True)
class Exchange:
    """A request with the reply that it must get; both whole.

    Attributes
    ----------
    request : bytes
    reply : pattern
        Of the whole reply.
    """

    request: bytes
    reply: re.Pattern[bytes]


def exact(request: bytes, reply: bytes) -> Exchange:
    return Exchange(request, re.compile(re.escape(reply)))


def page(status: str, body: bytes, fields: bytes = b"", head: bool = False) -> re.Pattern[bytes]:
    """An HTTP reply of ours, kept or closed."""
    written = b"HTTP/1.1 " + status.encode() + b"\r\nServer: kneepoint\r\n" + fields
    written += b"Content-Type: text/plain\r\nContent-Length: %d\r\nConnection: " % len(body)
    return re.compile(
        re.escape(written) + rb"(?:keep-alive|close)\r\n\r\n" + (b"" if head else re.escape(body))
    )


def echoed(text: bytes) -> re.Pattern[bytes]:
    """The reply of the echo service."""
    date = rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    return re.compile(date + b" message : " + re.escape(text) + rb" port : \d+ address : 127\.0\.0\.1\n")


def prime_request(numbers: list[int]) -> bytes:
    return struct.pack(f">I{len(numbers)}I", len(numbers), *numbers)


def prime_reply(numbers: list[int], primes: set[int]) -> bytes:
    return struct.pack(">I", len(numbers)) + bytes(number in primes for number in numbers)


_NUMBERS = [0, 1, 2, 3, 4, 25, 7919, 65537, 2147483647, 4294967291, 4294967295]
_PRIMES = {2, 3, 7919, 65537, 2147483647, 4294967291}

PAGE = b"The page that k\n"

# Requests of each service with its default settings, in an order in which they may follow each other.
EXCHANGES = {
    "stock": [
        exact(b"sell 3 1000\n", b"[sell] success\n"),
        Exchange(b"show\n", re.compile(rb"(\d+ \d+ \d+\n){20}\n")),
        exact(b"buy 3 999\n", b"[buy] success\n"),
        Exchange(b"buy 999 1\n", re.compile(rb"error: [^\n]+ 999\n")),
        exact(b"buy 4 9223372036854775807\n", b"Not enough left stock\n"),
        Exchange(b"steal 3 4\n", re.compile(rb"error: [^\n]+\n")),
    ],
    "prime": [
        exact(prime_request(_NUMBERS), prime_reply(_NUMBERS, _PRIMES)),
        exact(prime_request([97] * 41), prime_reply([97] * 41, {97})),
    ],
    "synthetic": [exact(b"work\n", b"done 0\n")],
    "echo": [
        Exchange(b"hello, world\r\n", echoed(b"hello, world")),
        Exchange(b"\n", echoed(b"")),
        Exchange(b"\0\xff port : 1\n", echoed(b"\0\xff port : 1")),
    ],
    "http": [
        Exchange(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", page("200 OK", PAGE)),
        Exchange(b"HEAD /?q=1 HTTP/1.1\r\nHost: here\r\n\r\n", page("200 OK", PAGE, head=True)),
        Exchange(b"\r\nGET http://here/ HTTP/1.1\nhOST:here\n\n", page("200 OK", PAGE)),
        Exchange(b"GET /no HTTP/1.1\r\nHost: here\r\n\r\n", page("404 Not Found", b"404 Not Found\n")),
        Exchange(
            b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nGET /",
            page("405 Method Not Allowed", b"405 Method Not Allowed\n", b"Allow: GET, HEAD\r\n"),
        ),
        Exchange(b"GET / HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n", page("200 OK", PAGE)),
    ],
}

# The beginning of a request that never ends.
UNFINISHED = {
    "stock": b"buy 3 1",
    "prime": prime_request([7] * 5)[:10],
    "synthetic": b"wor",
    "echo": b"hello",
    "http": b"GET / HTTP/1.1\r\nHost: he",
}


_GET = b"GET / HTTP/1.1\r\nHost: here\r\n"

# Requests that break the rules, each with how its reply begins; empty: the connection ends without one.
REFUSED = {
    "stock": [
        ("error: ", b"buy 3\n"),
        ("error: ", b"sell 3 -1\n"),
        ("error: ", b"buy 3 9223372036854775808\n"),
        ("error: ", b"show me\n"),
        ("error: ", b"buy " + b"9" * 300 + b" 1\n"),
    ],
    "prime": [("", b"\0\0\0\0"), ("", b"\0\x0f\x42\x41")],
    "synthetic": [("error: ", b"play\n"), ("", b"w" * 70)],
    "echo": [("error: ", b"e" * 65537 + b"\n")],
    "http": [
        ("HTTP/1.1 400 Bad Request", b"GET /\r\n\r\n"),
        ("HTTP/1.1 400 Bad Request", b"get / HTTP/1.1\r\n\r\n"),
        ("HTTP/1.1 400 Bad Request", b"GET  HTTP/1.1\r\n\r\n"),
        ("HTTP/1.1 400 Bad Request", b"GET /a b HTTP/1.1\r\n\r\n"),
        ("HTTP/1.1 400 Bad Request", b"GET /\x00 HTTP/1.1\r\n\r\n"),
        ("HTTP/1.1 400 Bad Request", b"GET / HTTP/1.1\r\n\r\n"),
        ("HTTP/1.1 400 Bad Request", _GET + b"Host: there\r\n\r\n"),
        ("HTTP/1.1 400 Bad Request", _GET + b"no colon\r\n\r\n"),
        ("HTTP/1.1 400 Bad Request", _GET + b" folded: x\r\n\r\n"),
        ("HTTP/1.1 400 Bad Request", _GET + b"Content-Length: -1\r\n\r\n"),
        ("HTTP/1.1 400 Bad Request", _GET + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        ("HTTP/1.1 413 Content Too Large", _GET + b"Content-Length: 1048577\r\n\r\n"),
        ("HTTP/1.1 431 Request Header Fields Too Large", _GET + b"X: " + b"x" * 20000 + b"\r\n\r\n"),
        ("HTTP/1.1 431 Request Header Fields Too Large", _GET + b"X: y\r\n" * 5000 + b"\r\n"),
        (
            "HTTP/1.1 431 Request Header Fields Too Large",
            b"GET /" + b"x" * 300_000 + b" HTTP/1.1\r\nHost: here\r\n\r\n",
        ),
        (
            "HTTP/1.1 431 Request Header Fields Too Large",
            _GET + b"X: " + b"x" * (16384 - len(_GET) - 6) + b"\r\n\r\n",
        ),
        ("HTTP/1.1 501 Not Implemented", _GET + b"Transfer-Encoding: chunked\r\n\r\n"),
        ("HTTP/1.1 505 HTTP Version Not Supported", b"GET / HTTP/2.0\r\n\r\n"),
    ],
}


def connect(port: int) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer


def take(peer: socket.socket, pattern: re.Pattern[bytes], taken: bytes = b"") -> bytes:
    """Reads until the bytes match as a whole; ConnectionError with what came when the peer closes before."""
    while not pattern.fullmatch(taken):
        got = peer.recv(65536)
        if not got:
            raise ConnectionError(f"closed after {taken!r}, expected {pattern.pattern!r}")
        taken += got
    return taken


def take_exactly(peer: socket.socket, size: int) -> bytes:
    taken = bytearray()
    while len(taken) < size:
        got = peer.recv(size - len(taken))
        if not got:
            raise ConnectionError(f"closed after {len(taken)} of {size} bytes")
        taken += got
    return bytes(taken)


def exchange(peer: socket.socket, request: bytes, reply: bytes | re.Pattern[bytes]) -> bytes:
    peer.sendall(request)
    return take(peer, re.compile(re.escape(reply)) if isinstance(reply, bytes) else reply)


def reset(peer: socket.socket) -> None:
    """Closes with RST instead of FIN."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def _stock_text(peer: socket.socket, request: bytes, padded: bool) -> bytes:
    peer.sendall(request)
    if padded:
        return take_exactly(peer, 8192).rstrip(b"\0")
    return take(peer, re.compile(rb"(\d+ \d+ \d+\n)+\n|exit\n"))


def stock_table(port: int, options: Mapping[str, str]) -> dict[int, int]:
    """What is left of each stock, by a show; leaves by exit, which must be answered and closed."""
    padded = options.get("dialect") == "padded"
    with connect(port) as peer:
        text = _stock_text(peer, b"show\n", padded)
        if options.get("connection") != "per_request":
            assert _stock_text(peer, b"exit\n", padded) == b"exit\n"
        assert peer.recv(1) == b"", "the server keeps a connection after its end"
    rows = [line.split() for line in text.decode().splitlines() if line]
    return {int(identity): int(left) for identity, left, _ in rows}


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether it comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def descriptors(pid: int | str = "self") -> dict[str, str]:
    """What each open descriptor of a process is."""
    found = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found[link.name] = os.readlink(link)
        except FileNotFoundError:
            continue
    return found


def process_exists(pid: int) -> bool:
    """Whether the process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> list[int]:
    """Process numbers of what a process forked, whichever thread of it did."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def processor_seconds(pid: int) -> float:
    """User and system time of a process, s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
