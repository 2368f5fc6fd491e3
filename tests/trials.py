"""Servers under known work, and whether every account adds up; also for builds with sanitizers."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import wire
from pyx.load import Load

from pyx import registry
from pyx.server import Server


def serving(connections: int) -> list[str]:
    """The servers that, as they are by default, serve so many connections at once."""
    least = {name: registry.serves_at_once(name, {}) or connections for name in registry.servers()}
    return sorted(name for name, most in least.items() if most >= connections)


def total(server: Server, counter: str, role: str | None = None) -> int:
    """A counter summed over the server's threads."""
    from pyx.counters import ROLES

    blocks = server.counters
    if role is not None:
        blocks = blocks[blocks["role"] == ROLES.index(role)]
    return int(blocks[counter].sum())


def answered(raw: Mapping[str, dict]) -> int:
    """Replies inside the window of a load's result."""
    return sum(histogram["count"] for histogram in raw["histograms"].values())


def run(
    port: int,
    service: str = "synthetic",
    seed: int = 1,
    warmup: float = 0.0,
    window: float = 0.3,
    **options: object,
) -> dict[str, Any]:
    """A closed load's result, against whatever listens there."""
    words = {name: str(value) for name, value in options.items()}
    return Load("closed", service, words, "127.0.0.1", port, seed, warmup, window).run()


def patiently(attempt: Callable[[], None], times: int = 4) -> None:
    """Tries again what others on the machine can spoil; what is wrong by itself fails every time."""
    for _ in range(times - 1):
        try:
            return attempt()
        except AssertionError:
            continue
    return attempt()


class Background(threading.Thread):
    """A function in a thread whose failure `finish` raises again."""

    def __init__(self, function, *arguments) -> None:  # type: ignore[no-untyped-def]
        super().__init__(daemon=True)
        self._function, self._arguments = function, arguments
        self._failure: BaseException | None = None
        self.result = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._function(*self._arguments)
        except BaseException as failure:
            self._failure = failure

    def finish(self, timeout: float = 120.0):  # type: ignore[no-untyped-def]
        self.join(timeout)
        assert not self.is_alive(), "a thread of the test hangs"
        if self._failure:
            raise self._failure
        return self.result


@dataclass(frozen=True)
class Trial:
    """A server's settings, and the build of it that is tried."""

    service: str
    server: str
    options: Mapping[str, str]
    executable: Path | None = None

    def start(self) -> Server:
        return Server(self.service, self.server, self.options, executable=self.executable)


def quit_in_mid_request(port: int, talks: bool, stop: threading.Event) -> int:
    """Clients that send the beginning of an order and vanish, by turns with a reset, a few at least; some of those that
    talk get one reply before."""
    count = 0
    while not stop.wait(0.002) or count <= 5:
        peer = wire.connect(port)
        if talks and count % 3 == 0:
            wire.exchange(peer, b"buy 1 x\n", re.compile(rb"error: [^\n]+\n"))
        peer.sendall(wire.UNFINISHED["stock"])
        if count % 2:
            wire.reset(peer)
        else:
            peer.close()
        count += 1
    return count


def stock_invariant(trial: Trial, clients: int = 100, window: float = 0.2, seed: int = 1) -> int:
    """For every stock, left at the end = left at the start − bought + sold; meanwhile clients vanish in
    mid-request. Returns the number of replies in the window."""
    server = trial.start()
    try:
        before = wire.stock_table(server.port, trial.options)
        options = {**trial.options, "clients": str(clients), "mix": "show:1,buy:3,sell:3", "timeout": "60"}
        load = Load("closed", "stock", options, server.host, server.port, seed, 0.02, window)
        stop = threading.Event()
        vanishing = Background(
            quit_in_mid_request, server.port, not {"dialect", "connection"} & set(trial.options), stop
        )
        try:
            raw = load.run()
        finally:
            stop.set()
        vanished = vanishing.finish()
        after = wire.stock_table(server.port, trial.options)
        ledger = {int(identity): (int(bought), int(sold)) for identity, bought, sold in load.ledger()}
        assert not any(raw["errors"].values()) and not any(raw["errors_outside"].values()), raw["errors"]
        assert vanished > 5, "hardly a client vanished"
        assert set(ledger) == set(before)
        wrong = {
            identity: (left, ledger[identity], after[identity])
            for identity, left in before.items()
            if after[identity] != left - ledger[identity][0] + ledger[identity][1]
        }
        assert not wrong, f"id: (left before, (bought, sold), left after): {wrong}"
        assert sum(bought for bought, _ in ledger.values()) and sum(sold for _, sold in ledger.values())
    finally:
        status = server.stop()
    assert status == 0
    return answered(raw)


def _ask_primes(port: int, requests: int, array: int, primes: set[int], seed: int) -> None:
    draw = random.Random(seed)
    with wire.connect(port) as peer:
        for _ in range(requests):
            numbers = [draw.randrange(256) for _ in range(array)]
            peer.sendall(wire.prime_request(numbers))
            reply = wire.take_exactly(peer, 4 + array)
            assert reply == wire.prime_reply(numbers, primes)


def tasks_add_up(trial: Trial, tasks: int, array: int = 500, connections: int = 8) -> dict[str, int]:
    """Requests cut into tasks of one number each: every reply right, and as many tasks run as
    there were numbers. Returns tasks, steals and looks."""
    primes = {n for n in range(2, 256) if all(n % d for d in range(2, int(n**0.5) + 1))}
    requests = -(-tasks // (array * connections))
    server = trial.start()
    try:
        askers = [
            Background(_ask_primes, server.port, requests, array, primes, seed) for seed in range(connections)
        ]
        for asker in askers:
            asker.finish(1200.0)
        expected = requests * connections * array
        assert wire.eventually(lambda: total(server, "closed") == connections)
        assert total(server, "tasks", "worker") == expected
        assert total(server, "requests") == requests * connections
        assert total(server, "errors") == 0
        assert int(server.counters["queue_depth"].sum()) == 0
        found = {"tasks": expected} | {name: total(server, name) for name in ("steals", "steals_tried")}
    finally:
        status = server.stop()
    assert status == 0
    return found


def stops_under_load(trial: Trial, clients: int = 20) -> None:
    """SIGTERM while every client has a request under way: status 0, and in time."""
    server = trial.start()
    try:
        options = {**trial.options, "clients": str(clients), "timeout": "60"}
        load = Load("closed", trial.service, options, server.host, server.port, 1, 0.0, 60.0)
        running = Background(load.run)
        assert wire.eventually(lambda: total(server, "requests") > 50)
    finally:
        status = server.stop()
        load.stop()
    assert status == 0
    try:
        running.finish()
    except Exception as stopped:
        assert "stopped" in str(stopped)


def isolated(trial: Trial, load: str, executable: Path) -> None:
    """A load in a build of kneepoint-load: every reply right, none lost."""
    with Server(trial.service, trial.server, _served(trial)) as server:
        raw = _load(trial, load, server, executable).run()
        assert not any(raw["errors"].values()), raw["errors"]
        assert 0 < answered(raw) == raw["client_count"].sum()


def dies_under_load(trial: Trial, load: str, executable: Path) -> None:
    """The server is killed while its clients ask: they end, and each failure is counted."""
    with Server(trial.service, trial.server, _served(trial)) as server:
        running = Background(_load(trial, load, server, executable).run)
        assert wire.eventually(lambda: total(server, "accepted") == int(trial.options["clients"]))
        server.process.kill()
        assert any(running.finish()["errors"].values())


def _served(trial: Trial) -> dict[str, str]:
    return {name: word for name, word in trial.options.items() if name == "connection"}


def _load(trial: Trial, load: str, server: Server, executable: Path) -> Load:
    where = server.host, server.port
    return Load(
        load, trial.service, dict(trial.options), *where, 1, 0.05, 0.2, isolate=True, executable=executable
    )
