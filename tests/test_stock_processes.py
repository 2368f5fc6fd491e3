"""The stock service in server processes: which locks it has there, and that no killed process spoils the table."""

import os
import random
import re
import signal
import time
from dataclasses import dataclass, field

import pytest
import trials
import wire

from pyx import registry
from pyx.server import Server, ServerError

SERVERS = registry.servers()
PROCESSES = [name for name, row in SERVERS.items() if row["processes"]]
LOCKS = next(k for k in registry.services()["stock"]["knobs"] if k["name"] == "lock")["allowed"].split("|")
SURVIVE = {"mutex", "global", "seqlock"}  # the death of a process that holds them
ALONE = {"iterative", "select", "poll", "epoll"}  # one thread works


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("server", SERVERS)
def test_a_lock_that_a_server_cannot_have_is_refused_with_the_reason(server, lock):
    refused = lock == "none" and server not in ALONE
    if lock != "none" and server in PROCESSES:
        refused = lock not in SURVIVE
    if not refused:
        with Server("stock", server, {"lock": lock}) as running, wire.connect(running.port) as peer:
            wire.exchange(peer, b"sell 1 1\n", b"[sell] success\n")
        return
    with pytest.raises(ServerError, match=rf"^lock={lock}: [^\n]+$") as caught:
        Server("stock", server, {"lock": lock})
    assert caught.value.usage
    assert ("unsafe=yes" if lock == "none" else "processes can use mutex") in str(caught.value)


def test_what_is_unsafe_is_served_when_that_is_said():
    for server in ("sbuf", "prefork"):
        with Server("stock", server, {"lock": "none", "unsafe": "yes"}) as running:
            assert len(wire.stock_table(running.port, {})) == 20


FUNDS = re.compile(rb"\[funds\] \d+\n")
DIGIT, MIDDLE = 1 << 15, 1 << 14


@dataclass
class Client:
    """A client whose orders are all of one power of DIGIT, so that a stock's balance has a digit of its own for it."""

    number: int
    told: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 0})  # sold less bought, as it was told
    untold: dict[int, list[int]] = field(default_factory=lambda: {1: [], 2: []})  # orders without a reply
    orders: int = 0

    def order(self, port: int, until: float) -> None:
        draw = random.Random(self.number)
        while time.monotonic() < until:
            try:
                with wire.connect(port) as peer:
                    while time.monotonic() < until:
                        self._one(peer, draw.choice((1, 2)), draw.choice((1, -1)))
            except (ConnectionError, BrokenPipeError):
                continue  # its process was killed

    def _one(self, peer, stock: int, sign: int) -> None:
        word = "sell" if sign > 0 else "buy"
        try:
            request = b"%s %d %d\n" % (word.encode(), stock, DIGIT**self.number)
            wire.exchange(peer, request, b"[%s] success\n" % word.encode())
        except ConnectionError:
            self.untold[stock].append(sign)
            raise
        self.told[stock] += sign
        self.orders += 1

    def check(self, stock: int, left: int) -> None:
        """Every order that was told counts once, and one without a reply counts once or not at all."""
        counted = (left >> 15 * self.number) % DIGIT - MIDDLE - self.told[stock]
        untold = self.untold[stock]
        assert -untold.count(-1) <= counted <= untold.count(1), (self.number, stock, counted, untold)


@pytest.mark.parametrize(
    ("server", "lock"), [("prefork", "mutex"), ("prefork", "seqlock"), ("fork", "global")]
)
def test_orders_add_up_while_processes_are_killed(server, lock, tmp_path):
    clients = [Client(number) for number in range(4)]
    start = sum(MIDDLE * DIGIT**client.number for client in clients)
    table = tmp_path / "stock.txt"
    table.write_text(f"1 {start} 1\n2 {start} 1\n")
    draw, killed = random.Random(1), []
    running = Server("stock", server, {"lock": lock, "table": str(table)})
    try:
        until = time.monotonic() + 1.5
        asking = [trials.Background(client.order, running.port, until) for client in clients]
        while time.monotonic() < until:
            time.sleep(0.01)
            if alive := wire.children(running.pid):
                killed.append(draw.choice(alive))
                os.kill(killed[-1], signal.SIGKILL)
        for one in asking:
            one.finish(30)
        assert wire.eventually(lambda: not any(map(wire.process_exists, killed)))
        left = wire.stock_table(running.port, {})
    finally:
        status = running.stop()
    assert status == 0 and len(killed) > 5 and min(client.orders for client in clients) > 5
    for stock, balance in left.items():
        for client in clients:
            client.check(stock, balance)
    kept = [tuple(map(int, line.split())) for line in table.read_text().splitlines()]
    assert kept == [(stock, balance, 1) for stock, balance in left.items()]


@pytest.mark.parametrize("server", PROCESSES)
def test_a_killed_process_takes_its_client_along(server, tmp_path):
    """Its client has left with it: what it ordered is written when no other is there."""
    table = tmp_path / "stock.txt"
    table.write_text("1 10 1\n")
    with (
        Server(
            "stock", server, {"table": str(table), **({"workers": "1"} if server == "prefork" else {})}
        ) as running,
        wire.connect(running.port) as peer,
    ):
        wire.exchange(peer, b"sell 1 1\n", b"[sell] success\n")
        (child,) = wire.children(running.pid)
        os.kill(child, signal.SIGKILL)
        assert wire.eventually(lambda: table.read_text() == "1 11 1\n")


@pytest.mark.parametrize("server", SERVERS)
def test_every_connection_has_funds_of_its_own(server):
    with Server("stock", server, {"accounts": "on", "funds": "20000", "stocks": "3"}) as running:
        for _ in range(2):
            with wire.connect(running.port) as peer:
                wire.exchange(peer, b"funds\n", b"[funds] 20000\n")
                wire.exchange(peer, b"buy 1 20\n", b"Not enough funds\n")
                wire.exchange(peer, b"buy 1 1\n", b"[buy] success\n")
                left = int(wire.exchange(peer, b"funds\n", FUNDS).split()[1])
                assert 10000 < left <= 19000  # a price is from 1000 to 9999
                wire.exchange(peer, b"sell 1 1\n", b"[sell] success\n")
                wire.exchange(peer, b"funds\n", b"[funds] 20000\n")
