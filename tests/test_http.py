"""The http service: our server under real clients and bad ones, and our client under real load."""

import contextlib
import re
import shutil
import subprocess
import time

import pytest
import trials
import wire
from pyx.load import Load
from scripted import Scripted, replying

from pyx import registry
from pyx.server import Server

SERVERS = sorted(registry.servers())
GET = b"GET / HTTP/1.1\r\nHost: here\r\n"


def needs(tool):
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


def output(*words):
    ended = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def last_reply(port, request):
    """All that the server sends until it closes; OSError when it resets."""
    with wire.connect(port) as peer:
        peer.sendall(request)
        taken = b""
        while got := peer.recv(65536):
            taken += got
    return taken


BAD = [
    ("400 Bad Request", b"GET /\r\n\r\n"),
    ("400 Bad Request", b"get / HTTP/1.1\r\n\r\n"),
    ("400 Bad Request", b"GET  HTTP/1.1\r\n\r\n"),
    ("400 Bad Request", b"GET /a b HTTP/1.1\r\n\r\n"),
    ("400 Bad Request", b"GET /\x00 HTTP/1.1\r\n\r\n"),
    ("400 Bad Request", b"GET / HTTP/1.1\r\n\r\n"),
    ("400 Bad Request", GET + b"Host: there\r\n\r\n"),
    ("400 Bad Request", GET + b"no colon\r\n\r\n"),
    ("400 Bad Request", GET + b" folded: x\r\n\r\n"),
    ("400 Bad Request", GET + b"Content-Length: -1\r\n\r\n"),
    ("400 Bad Request", GET + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
    ("413 Content Too Large", GET + b"Content-Length: 1048577\r\n\r\n"),
    ("431 Request Header Fields Too Large", GET + b"X: " + b"x" * 20000 + b"\r\n\r\n"),
    ("431 Request Header Fields Too Large", GET + b"X: y\r\n" * 5000 + b"\r\n"),
    ("431 Request Header Fields Too Large", b"GET /" + b"x" * 300_000 + b" HTTP/1.1\r\nHost: here\r\n\r\n"),
    ("431 Request Header Fields Too Large", GET + b"X: " + b"x" * (16384 - len(GET) - 6) + b"\r\n\r\n"),
    ("501 Not Implemented", GET + b"Transfer-Encoding: chunked\r\n\r\n"),
    ("505 HTTP Version Not Supported", b"GET / HTTP/2.0\r\n\r\n"),
]


@pytest.mark.parametrize("server", SERVERS)
def test_a_request_that_cannot_be_understood_is_answered_and_its_connection_closed(server):
    with Server("http", server) as running:
        for status, request in BAD:
            reply = last_reply(running.port, request)
            assert reply.startswith(f"HTTP/1.1 {status}\r\n".encode()), (request[:60], reply[:60])
            assert b"\r\nConnection: close\r\n" in reply
        with contextlib.suppress(
            ConnectionError
        ):  # the sender of a head without end may see no more than a reset
            assert last_reply(running.port, b"x" * (2 << 20))[:12] in (b"", b"HTTP/1.1 431")
        with wire.connect(running.port) as peer:
            for known in wire.EXCHANGES["http"]:
                wire.exchange(peer, known.request, known.reply)


@pytest.mark.parametrize(
    ("request_bytes", "kept"),
    [
        (GET + b"\r\n", True),
        (GET + b"Connection: close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True),
        (b"GET /no HTTP/1.0\r\n\r\n", False),
    ],
)
def test_a_connection_is_kept_as_the_request_wants(request_bytes, kept):
    with Server("http", "select") as running, wire.connect(running.port) as peer:
        taken = wire.exchange(peer, request_bytes, re.compile(rb"(?s).*\r\n\r\n[^\n]+\n"))
        assert (b"Connection: keep-alive" in taken) == kept
        if kept:
            wire.exchange(peer, GET + b"\r\n", wire.page("200 OK", wire.PAGE))
        else:
            assert peer.recv(1) == b""


def test_content_that_waits_to_be_asked_for_is():
    with Server("http", "queues", {"accept": "epoll"}) as running, wire.connect(running.port) as peer:
        head = GET.replace(b"GET", b"POST") + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        wire.exchange(peer, head, re.compile(rb"HTTP/1\.1 100 Continue\r\n\r\n"))
        wire.exchange(peer, b"abc", re.compile(rb"(?s)HTTP/1\.1 405 .*\r\n\r\n405 Method Not Allowed\n"))


@pytest.mark.parametrize("server", trials.serving(2))
def test_a_peer_that_does_not_read_keeps_no_thread_busy(server):
    with Server("http", server, {"message": "100000"}) as running, wire.connect(running.port) as peer:
        peer.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                peer.send(1000 * (GET + b"\r\n"))
        time.sleep(0.3)
        before = trials.total(running, "polls")
        time.sleep(0.3)
        assert trials.total(running, "polls") - before < 20
        raw = Load("closed", "http", {"message": "100000"}, running.host, running.port, 1, 0.0, 0.2).run()
        assert trials.answered(raw) > 0 and not any(raw["errors"].values())
        before = trials.total(running, "requests")
        peer.settimeout(20)
        while trials.total(running, "requests") < before + 100:
            assert peer.recv(1 << 20)


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_page_of_any_length_is_served_under_its_path(size):
    options = {"message": str(size), "path": "/page"}
    with Server("http", "sbuf", options) as running:
        with wire.connect(running.port) as peer:
            for path in (b"/", b"/page", b"/page?x=/y"):
                peer.sendall(GET.replace(b"/ ", path + b" ") + b"\r\n")
                reply = wire.take(peer, re.compile(rb"(?s).*?\r\n\r\n.{%d}" % size))
                assert b"Content-Length: %d\r\n" % size in reply
        for extra in ({}, {"method": "HEAD"}):
            raw = Load("closed", "http", {**options, **extra}, running.host, running.port, 1, 0.0, 0.1).run()
            assert trials.answered(raw) > 0 and not any(raw["errors"].values())
        wrong = Load(
            "closed", "http", {**options, "message": str(size + 1)}, running.host, running.port, 1, 0.0, 0.1
        ).run()
        assert wrong["errors"]["wrong"] == trials.answered(wrong) > 0


REPLIES = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
    "announced": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
    "old": b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    "end": b"HTTP/1.1 200 OK\r\n\r\nabc",
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
}


@pytest.mark.parametrize("cuts", [1, 7])
@pytest.mark.parametrize("framing", REPLIES)
def test_replies_of_anybody_are_counted_in_every_framing(framing, cuts):
    kept = framing in ("length", "chunks")
    with Scripted(replying(REPLIES[framing], kept, cuts)) as server:
        raw = Load("closed", "http", {"clients": "3"}, "127.0.0.1", server.port, 1, 0.1, 0.4).run()
        errors = {name: raw["errors"][name] + raw["errors_outside"][name] for name in raw["errors"]}
        if framing == "cut":
            assert trials.answered(raw) == 0 and errors.pop("closed") > 0
        else:
            assert trials.answered(raw) > 10
        assert not any(errors.values()), errors
        accounted = raw["think"] + raw["response"] + raw["generator"] + raw["connecting"]
        window = raw["planned_end"] - raw["planned_start"]
        assert accounted == pytest.approx(3 * window, rel=1e-6)
        assert server.accepted == 3 if kept else server.accepted > 10


@pytest.mark.parametrize("framing", ["announced", "end"])
@pytest.mark.parametrize("closer", ["server", "client"])
def test_whoever_closes_a_connection_for_one_request_it_is_no_failure(closer, framing):
    options = {"clients": "3", "connection": "per_request", "closer": closer}
    with Scripted(replying(REPLIES[framing], kept=False)) as server:
        raw = Load("closed", "http", options, "127.0.0.1", server.port, 1, 0.1, 0.3).run()
    assert trials.answered(raw) > 10 and not any(raw["errors"].values())


def test_settings_that_would_break_the_request_are_refused():
    for settings in ({"path": "x"}, {"path": "/ HTTP/1.1\r\nX: y"}, {"host": "a b"}, {"host": ""}):
        name = next(iter(settings))
        with pytest.raises(ValueError, match=f"^{name}="):
            Load("closed", "http", settings, "127.0.0.1", 1, 1, 0.0, 0.1)


@needs("curl")
def test_curl_gets_pages_and_errors():
    with Server("http", "queues") as running:
        url = f"http://127.0.0.1:{running.port}/"
        assert output("curl", "-s", url) == wire.PAGE.decode()
        assert output("curl", "-sI", url).startswith("HTTP/1.1 200 OK")
        assert output("curl", "-s0", url, url) == 2 * wire.PAGE.decode()
        codes = [["-d", "x" * 2000], ["-H", "X: " + "x" * 17000], ["--request-target", "/no"]]
        seen = [output("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *words, url) for words in codes]
        assert seen == ["405", "431", "404"]


@needs("ab")
@pytest.mark.parametrize("kept", [["-k"], []])
def test_ab_has_no_failed_request(kept):
    with Server("http", "select") as running:
        said = output("ab", "-q", *kept, "-c", 5, "-n", 500, f"http://127.0.0.1:{running.port}/")
    assert re.search(r"Complete requests: +500\n", said) and re.search(r"Failed requests: +0\n", said)
    assert "Non-2xx" not in said and (not kept or re.search(r"Keep-Alive requests: +500\n", said))


@needs("wrk")
@pytest.mark.parametrize("server", SERVERS)
def test_wrk_sees_no_error(server):
    with Server("http", server) as running:
        said = output("wrk", "-t1", "-c8", "-d1", f"http://127.0.0.1:{running.port}/")
    assert "Socket errors" not in said and "Non-2xx" not in said
    assert int(re.search(r"(\d+) requests in", said)[1]) > 100
