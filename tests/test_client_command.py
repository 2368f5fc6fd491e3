"""The command client: requests in a protocol's own words, replies as text, round trips, and clear ends."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import wire
from pyx.dialogue import Dialogue, DialogueError, NotUnderstood

from pyx.server import Server

ROOT = Path(__file__).parent.parent
WORDS = [sys.executable, "-m", "harness", "client"]


def client(*words, said=""):
    return subprocess.run(
        [*WORDS, *map(str, words)],
        cwd=ROOT,
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


TALKS = [
    ("stock", {}, "buy 3 1\nshow\nsteal\n", r"\[buy\] success\n@(\d+ \d+ \d+\n){20}@error: [^\n]+\n@"),
    ("stock", {"dialect": "padded"}, "show\nbuy 3 1\n", r"(\d+ \d+ \d+\n){20}@\[buy\] success\n@"),
    ("prime", {}, "7, 9\n4294967291\n", r"7 is prime\n9 is not prime\n@4294967291 is prime\n@"),
    ("prime", {"connection": "per_request"}, "2\n4\n", r"2 is prime\n@4 is not prime\n@"),
    ("echo", {}, "hello there\n", r"\d{4}-[^\n]+ message : hello there port : \d+ address : 127.0.0.1\n@"),
    (
        "http",
        {"message": "4"},
        "/\nHEAD /\n",
        r"HTTP/1.1 200 OK\n([^\n]+\n)+\nThe\n@HTTP/1.1 200 OK\n([^\n]+\n)+\n@",
    ),
    (
        "http",
        {"connection": "per_request"},
        "/no\n/\n",
        r"HTTP/1.1 404 (.+\n)+\n404 Not Found\n@HTTP/1.1 200 (.+\n)+\n.+\n@",
    ),
    ("synthetic", {}, "work\n", r"done 0\n@"),
]


@pytest.mark.parametrize(("service", "options", "said", "shown"), TALKS)
def test_replies_stand_as_text_before_their_round_trips(service, options, said, shown):
    with Server(service, "select", options) as running:
        settings = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
        ended = client(service, "localhost", running.port, *settings, said=said + "exit\nnever sent\n")
    assert ended.returncode == 0 and ended.stderr == ""
    assert re.fullmatch(shown.replace("@", r"\d+\.\d us\n"), ended.stdout), ended.stdout


def test_each_reply_is_there_before_the_next_line_is_typed():
    with Server("echo", "select") as running:
        words = [*WORDS, "echo", "127.0.0.1", str(running.port)]
        talking = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for text in (b"one", b"two"):
            talking.stdin.write(text + b"\n")
            talking.stdin.flush()
            assert text in talking.stdout.readline() and talking.stdout.readline().endswith(b" us\n")
        time.sleep(0.2)  # it waits for the next line now
        talking.send_signal(signal.SIGINT)
        _, said = talking.communicate(timeout=20)
    assert talking.returncode == 130 and said.strip() == b"interrupted"


def test_lines_that_mean_nothing_are_said_and_the_rest_is_answered():
    with Server("http", "select") as running:
        ended = client("http", "127.0.0.1", running.port, said="what\n/\n")
    assert ended.returncode == 1 and ended.stdout.startswith("HTTP/1.1 200 OK\n")
    assert ended.stderr == "error: what: not a request of this protocol\n"


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["stock", "127.0.0.1", "1"], 1, "error: 127.0.0.1:1: connection refused"),
        (
            ["stock", "192.0.2.1", "1"],
            2,
            "error: target 192.0.2.1: not on this machine's loopback; give --allow-remote",
        ),
        (["stick", "127.0.0.1", "1"], 2, "error: stick: no such service; did you mean stock?"),
        (
            ["stock", "127.0.0.1", "1", "--set", "workers=1"],
            2,
            "error: workers: clients of stock have no such knob",
        ),
        (["stock", "127.0.0.1", "1", "--set", "dialect=x"], 2, "error: dialect=x: not one of line|padded"),
        (["http", "127.0.0.1", "1", "--set", "path=x"], 2, "error: path=x: write it as /page"),
        (["stock", "127.0.0.1", "99999"], 2, "error: Invalid value for 'PORT'"),
    ],
)
def test_what_cannot_be_is_one_line(words, status, line):
    ended = client(*words)
    assert ended.returncode == status and ended.stdout == ""
    assert ended.stderr.startswith(line) and ended.stderr.count("\n") == 1


def test_a_server_that_says_nothing_or_something_else_is_one_error():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        dialogue = Dialogue("stock", {}, "127.0.0.1", silent.getsockname()[1], timeout=0.1)
        with pytest.raises(DialogueError, match="no answer within the time-out"):
            dialogue.ask("show")
        dialogue.close()
    with Server("stock", "select") as running:
        dialogue = Dialogue("http", {}, "127.0.0.1", running.port)
        with pytest.raises(DialogueError, match="not of this protocol; it begins with b'error"):
            dialogue.ask("/")
        with pytest.raises(NotUnderstood):
            dialogue.ask("not a path")
        dialogue.close()


def test_a_connection_that_the_server_ended_is_made_anew():
    with Server("stock", "select") as running:
        dialogue = Dialogue("stock", {}, "127.0.0.1", running.port)
        before = len(os.listdir("/proc/self/fd"))
        assert dialogue.ask("exit")[0] == "exit\n"
        assert wire.eventually(lambda: int(running.counters["closed"].sum()) == 1)
        assert dialogue.ask("sell 1 1")[0] == "[sell] success\n"
        assert len(os.listdir("/proc/self/fd")) == before
        dialogue.close()
        dialogue.close()
