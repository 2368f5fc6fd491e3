"""The clients that the stock system's course hands out, against every server of ours."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import wire

from pyx import registry
from pyx.server import Server

SOURCE = Path(__file__).with_name("native") / "lab_clients.c"
CLIENTS, ORDERS = 12, 10
PADDED = {"dialect": "padded"}


@pytest.fixture(scope="module")
def lab_clients(tmp_path_factory):
    program = tmp_path_factory.mktemp("lab") / "lab_clients"
    subprocess.run(["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", SOURCE, "-o", program], check=True)
    return program


def moved(said: str) -> tuple[Counter[int], int]:
    """What the orders that were answered by success add to each stock, and how many requests there were."""
    found, requests = Counter[int](), 0
    lines = iter(said.splitlines())
    for line in lines:
        if order := re.fullmatch(r"(buy|sell) (\d+) (\d+)", line):
            reply, sign = next(lines), 1 if order[1] == "sell" else -1
            assert reply in (f"[{order[1]}] success", "Not enough left stock"), reply
            found[int(order[2])] += sign * int(order[3]) * (reply != "Not enough left stock")
        if order or line == "show":
            requests += 1
        else:
            assert re.fullmatch(r"\d+ \d+ \d+", line), line
    return found, requests


@pytest.mark.parametrize("server", registry.servers())
def test_forked_clients_read_whole_replies_and_their_orders_add_up(lab_clients, server, tmp_path):
    with Server("stock", server, PADDED) as running:
        before = wire.stock_table(running.port, PADDED)
        said = tmp_path / "said"
        with said.open("ab") as file:  # appended to: what the clients write does not mix
            words = [lab_clients, "127.0.0.1", str(running.port), str(CLIENTS)]
            assert subprocess.run(words, stdout=file, timeout=60, check=False).returncode == 0
        after = wire.stock_table(running.port, PADDED)
    change, requests = moved(said.read_text())
    assert requests == CLIENTS * ORDERS
    assert after == {identity: left + change[identity] for identity, left in before.items()}


@pytest.mark.parametrize("server", ["select", "sbuf", "fork"])
def test_a_session_by_hand(lab_clients, server):
    asked = "sell 3 7\nbuy 3 2\nbuy 99 1\nnonsense\nexit\n"
    with Server("stock", server, PADDED) as running:
        words = [lab_clients, "127.0.0.1", str(running.port)]
        ended = subprocess.run(words, input=asked, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0
    assert ended.stdout == (
        "sell 3 7\n[sell] success\nbuy 3 2\n[buy] success\nbuy 99 1\nerror: there is no stock 99\n"
        "nonsense\nerror: the commands are show, buy ID N, sell ID N and exit\nexit\nexit\n"
    )


def test_they_tell_replies_that_are_too_short(lab_clients):
    with Server("stock", "select") as running:
        words = [lab_clients, "127.0.0.1", str(running.port)]
        ended = subprocess.run(words, input="exit\n", capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
