"""Reaching a server that is not ours: its address, whether that is on this machine, and whether it answers."""

from __future__ import annotations

import errno
import ipaddress
import random
import socket
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from harness.errors import MeasureError
from models import outside
from models.scenario import Scenario

PAUSE = 0.005  # s between two attempts to reach a server that is starting
ATTEMPT = 2.0  # s until an attempt at a connection is given up
ENOUGH = 1 << 20  # bytes of a first reply that are read at most
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@cache
def address(host: str) -> str:
    """The IPv4 address of a name, looked up once; MeasureError when there is none."""
    try:
        return str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise MeasureError(
            f"{host}: no IPv4 address is known for it ({error.strerror or error})", True
        ) from error


def check_loopback(host: str, allowed: bool) -> str:
    """The address of a name; MeasureError when it lies off loopback and that is not allowed."""
    found = address(host)
    if not allowed and not ipaddress.ip_address(found).is_loopback:
        shown = host if host == found else f"{host} ({found})"
        raise MeasureError(
            f"target {shown}: not on this machine's loopback; give --allow-remote if you may put that server under load",
            True,
        )
    return found


def host_of(scenario: Scenario) -> str:
    """The address of the scenario's target, checked."""
    return check_loopback(outside.place(str(scenario["target"])).host, scenario["remote"] == "allow")


def free_port(host: str) -> int:
    """A port that nobody listens on.

    Below the range from which the kernel takes the local ports of connections: an attempt to connect to a
    port inside it, as awaiting a server makes many, can be given that very port and meet itself.
    """
    try:
        low = int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        low = 32768
    for _ in range(100):
        port = random.SystemRandom().randrange(min(10_000, low // 2), low)
        if is_free(host, port):
            return port
    raise MeasureError(f"no free port found below {low} on {host}; give the server a fixed one")


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            return not connects(host, port)  # not ours to bind to, as ports below 1024
    return True


def connects(host: str, port: int) -> bool:
    """Whether a connection is accepted there."""
    try:
        with socket.create_connection((host, port), timeout=ATTEMPT) as peer:
            return bool(peer.getsockname() != peer.getpeername())  # a connection to itself is nobody's
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP reply: its status and reason, and whether the server ends the connection although it was to be kept."""

    status: int
    reason: str
    closes: bool


def answers(scenario: Scenario, host: str, port: int, seconds: float) -> bool:
    """Whether it accepts a connection and, with http, gives one whole reply in so many seconds.

    A reply of any status will do, but 503: a proxy gives it until the server behind it has started.
    """
    if scenario.service != "http":
        return connects(host, port)
    try:
        return http_reply(scenario, host, port, seconds).status != 503 or scenario["status"] == "any"
    except (OSError, HTTPException):
        return False


def http_reply(scenario: Scenario, host: str, port: int, seconds: float) -> Reply:
    """Asks for one reply and reads it; OSError or HTTPException when there is none."""
    path = filled(scenario, str(scenario["path"]), port)
    with closing(HTTPConnection(host, port, timeout=seconds)) as peer:
        peer.connect()
        if peer.sock.getsockname() == peer.sock.getpeername():
            raise ConnectionError("nobody listens")
        peer.request(str(scenario["method"]), path, headers={"Host": str(scenario["host"])})
        reply = peer.getresponse()
        reply.read(ENOUGH)
        return Reply(reply.status, reply.reason, bool(reply.will_close))


def filled(scenario: Scenario, text: str, port: int) -> str:
    """The text with every placeholder replaced by the scenario's value, and `{port}` by the port."""
    return outside.fill(text, {**dict(scenario.options), "seed": scenario.seed, outside.PORT: port})


def words(scenario: Scenario, port: int) -> dict[str, str]:
    """What the client's side is told: that the server is not ours, and a URL's knobs, their placeholders replaced."""
    options = dict(scenario.options)
    told = {"outside": "yes"}
    if outside.place(str(options["target"])).path is not None:
        told |= {n: filled(scenario, str(options[n]), port) for n in outside.DERIVED if n in options}
    return told


def await_answer(scenario: Scenario, host: str, port: int, alive: Callable[[], bool]) -> bool:
    """Waits until it answers; False when it ended before, or when its time is up."""
    deadline = time.monotonic() + float(scenario["ready_timeout"])
    while (left := deadline - time.monotonic()) > 0:
        if answers(scenario, host, port, left):
            return True
        if not alive():
            return False
        time.sleep(PAUSE)
    return False
