"""The lines service asks servers whose requests and replies are lines, and cannot itself be served."""

import shutil
import socket
import subprocess

import pytest
import trials
import wire
from pyx.dialogue import Dialogue
from pyx.load import Load

from models.scenario import Scenario, ScenarioError
from pyx.server import Server, ServerError


def test_it_is_refused_on_our_servers():
    with pytest.raises(ScenarioError, match=r"^lines on sbuf: lines only asks"):
        Scenario.of("lines", "sbuf")
    with pytest.raises(ServerError, match="client side only") as refused:
        Server("lines", "select")
    assert refused.value.usage


def ask(port, **settings):
    raw = Load("closed", "lines", {"clients": "4", **settings}, "127.0.0.1", port, 1, 0.05, 0.2).run()
    return trials.answered(raw), {name: n for name, n in raw["errors"].items() if n}


def test_replies_of_several_lines_are_counted_and_checked():
    with Server("stock", "select", {"stocks": "3"}) as running:
        replies, errors = ask(running.port, request="show", reply_lines="4")
        assert replies > 0 and not errors
        replies, errors = ask(running.port, request="buy 1 1\\n", expect="[buy] success")
        assert replies > 0 and not errors
        replies, errors = ask(running.port, request="buy 9\\x39 1\\r\\n", expect="[buy] success")
        assert errors == {"wrong": replies}
        _, errors = ask(running.port, request="show", reply_lines="1")
        assert errors.keys() == {"malformed"}


def test_an_escape_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"^request=\\q: a backslash"):
        Load("closed", "lines", {"request": "\\q"}, "127.0.0.1", 1, 1, 0.0, 0.1)


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
def test_redis_answers_inline_commands():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    redis = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:

        def ready():
            with socket.socket() as peer:
                return peer.connect_ex(("127.0.0.1", port)) == 0

        assert wire.eventually(ready)
        replies, errors = ask(port, request="PING\\r\\n", expect="+PONG")
        assert replies > 0 and not errors
        dialogue = Dialogue("lines", {}, "127.0.0.1", port)
        assert dialogue.ask("SET a 1")[0] == "+OK\r\n"
        dialogue.close()
    finally:
        redis.terminate()
        redis.wait()
