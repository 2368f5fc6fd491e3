"""The first contact with somebody's server: what is wrong with it is said once and at once, in one clear line."""

from __future__ import annotations

import shlex
import sys

import pytest

from harness import measuring, recorded
from harness.errors import MeasureError
from harness.outside import contact
from models.scenario import Scenario
from pyx.server import EXECUTABLE

HERE = "127.0.0.1:{port}"
PYTHON = f"{sys.executable} -c"
REPLIES = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
replies = [word.encode().decode("unicode_escape").encode("latin-1") for word in sys.argv[2:]]
for turn in range(1000):
    peer = listener.accept()[0]
    if peer.recv(65536):
        peer.sendall(replies[min(turn, len(replies) - 1)])
    peer.close()
"""
EMPTY = "Content-Length: 0\\r\\n\\r\\n"


@pytest.mark.parametrize(
    ("status", "reply", "word"),
    [
        ("2xx", f"HTTP/1.1 404 Not Found\\r\\n{EMPTY}", "answers 404 Not Found"),
        ("2xx", f"HTTP/1.1 500 Oops\\x1b[2J\\r\\n{EMPTY}", "status=any"),
        ("2xx", f"HTTP/1.1 302 Found\\r\\n{EMPTY}", "status=3xx"),
        ("2xx", "\\x00nonsense\\r\\n\\r\\n", "gives no HTTP reply"),
        ("any", f"HTTP/1.1 404 Not Found\\r\\n{EMPTY}", None),
        ("3xx", f"HTTP/1.1 302 Found\\r\\n{EMPTY}", None),
    ],
)
def test_a_page_that_is_no_success_is_said_at_once(status, reply, word):
    ready = f"HTTP/1.1 200 OK\\r\\n{EMPTY}"
    command = f"{PYTHON} {shlex.quote(REPLIES)} {{port}} '{ready}' '{reply}'"
    options = {"command": command, "target": f"http://{HERE}/", "status": status}
    scenario = Scenario.of("http", "command", options=options)
    if word is None:
        contact.contact(scenario)
        return
    with pytest.raises(MeasureError, match=word) as caught:
        contact.contact(scenario)
    assert str(caught.value).isprintable()


def test_a_server_behind_a_proxy_is_awaited():
    starting, ready = f"HTTP/1.1 503 Starting\\r\\n{EMPTY}", f"HTTP/1.1 200 OK\\r\\n{EMPTY}"
    command = f"{PYTHON} {shlex.quote(REPLIES)} {{port}} '{starting}' '{starting}' '{ready}'"
    contact.contact(Scenario.of("http", "command", options={"command": command, "target": f"http://{HERE}/"}))


@pytest.mark.parametrize(
    ("expect", "reply", "word"),
    [
        ("+PONG", "-ERR unknown\\r\\n", "is answered -ERR unknown, not as expect=.PONG says"),
        ("", "$2\\r\\nab\\r\\n", "4 bytes came behind the reply"),
        ("", "", "closed the connection without a reply"),
        ("+PONG", "+PONG\\r\\n", None),
    ],
)
def test_a_line_that_is_not_what_was_expected_is_said_at_once(expect, reply, word):
    command = f"{PYTHON} {shlex.quote(REPLIES)} {{port}} '{reply}'"
    options = {"command": command, "target": HERE, "expect": expect}
    scenario = Scenario.of("lines", "command", options=options)
    if word is None:
        contact.contact(scenario)
        return
    with pytest.raises(MeasureError, match=word):
        contact.contact(scenario)


def test_the_last_words_of_a_server_that_dies_stand_in_one_printable_line():
    text = (
        "import os, socket, sys, threading\n"
        "def serve(peer):\n"
        "    if peer.recv(1):\n"  # a client asks: the window has begun
        "        print('out of \\x1b[31mheap', flush=True)\n"
        "        os._exit(3)\n"
        "s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "while True: threading.Thread(target=serve, args=s.accept()[:1], daemon=True).start()\n"
    )
    scenario = Scenario.of(
        "stock", "command", options={"command": f"{PYTHON} {shlex.quote(text)} {{port}}", "target": HERE}
    )
    with pytest.raises(MeasureError, match="status 3 while it was measured: out of ") as caught:
        measuring.measure_once(scenario, window=1.0, warmup=0.1)
    assert str(caught.value).isprintable()


def test_windows_last_by_what_lies_around_them(monkeypatch):
    started = Scenario.of("stock", "command", options={"command": "x {port}", "target": HERE})
    found = contact.Contact(0.0, False)
    monkeypatch.setattr(contact, "contact", lambda scenario: found)
    for seconds, window in ((0.0, 1.0), (0.1, 1.0), (0.85, 4.0), (60.0, contact.LONGEST)):
        found = contact.Contact(seconds, False)
        assert contact.met(started, (), None, 0.15)[1] == pytest.approx(window, abs=0.11)
    assert contact.met(started, (), 0.3, 0.15) == (started, 0.3)
    assert contact.met(Scenario.of(), (), None, 0.15) == (Scenario.of(), 1.0)


def test_a_server_that_keeps_no_connection_is_asked_once_on_each():
    keeps = f"{EXECUTABLE} http select --port {{port}}"
    scenarios = [
        Scenario.of("http", "command", options={"command": command, "target": "http://127.0.0.1:{port}/"})
        for command in (keeps, f"{keeps} connection=per_request")
    ]
    met, chosen = (contact.met(scenario, (), 0.1, 0.0)[0] for scenario in scenarios)
    assert met == scenarios[0]
    assert (chosen["connection"], chosen["closer"]) == ("per_request", "server")
    assert contact.met(scenarios[1], ("connection",), 0.1, 0.0)[0] == scenarios[1]
    record = measuring.measure_once(chosen, window=0.2, warmup=0.05).record
    assert recorded.replies(record) > 0 and not any(record["errors"].values())
