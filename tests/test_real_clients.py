"""The http service as real clients see it, on every server: curl, wrk, ab, h2load and Locust, where they are."""

import re
import shutil
import subprocess

import pytest
import wire

from pyx import registry
from pyx.server import Server

SERVERS = sorted(registry.servers())
PAGE = wire.PAGE.decode()


def needs(tool):
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed (make peers)")


def said(*words, status=0):
    """What a client printed on either stream."""
    ended = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == status, ended.stdout + ended.stderr
    return ended.stdout, ended.stderr


@pytest.fixture(params=SERVERS)
def running(request):
    with Server("http", request.param) as server:
        yield server


@pytest.fixture
def url(running):
    return f"http://127.0.0.1:{running.port}/"


@needs("curl")
def test_curl_gets_pages_and_errors(url):
    def codes(*words):
        out, _ = said("curl", "-s", "-o", "/dev/null", "-w", "%{http_code} %{num_connects}\n", *words)
        return out.split()

    assert said("curl", "-s", url)[0] == PAGE
    assert said("curl", "-s0", url, url)[0] == 2 * PAGE
    assert said("curl", "-sI", url)[0].startswith("HTTP/1.1 200 OK\n")
    assert codes("-d", "x" * 2000, url) == ["405", "1"]
    assert codes("-H", "X: " + "x" * 17000, url) == ["431", "1"]
    assert codes("--request-target", "/no", url) == ["404", "1"]
    assert codes("--http2", url) == ["200", "1"], "an upgrade that is offered need not be taken"


@needs("curl")
def test_curl_keeps_its_connection_and_notices_its_end(url):
    """HEAD and GET over one connection; then one that is closed after each reply."""
    for version, connects in (("--http1.1", "100"), ("--http1.0", "111")):
        out, err = said("curl", "-sv", version, "-w", "%{num_connects}\n", "-I", url, "--next", "-sv", version,
                        "-w", "%{num_connects}\n", url, url)  # fmt: skip
        assert re.findall(r"^(\d)$", out, re.M) == list(connects), out + err
        assert out.count(PAGE) == 2 and out.startswith("HTTP/1.1 200 OK\n")
        assert ("left intact" in err) == (connects == "100")


@needs("curl")
def test_curl_gets_many_pages_side_by_side(url):
    out, _ = said("curl", "-sZ", "--parallel-max", 8, "-H", "Connection: close", *[url] * 40)
    assert out == 40 * PAGE


def test_requests_in_one_packet_are_answered_in_their_order(running):
    """What curl no longer does: pipelining. The last reply ends the connection, and nothing follows it."""
    requests = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /no HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ]
    with wire.connect(running.port) as peer:
        peer.sendall(b"".join(requests))
        taken = b""
        while got := peer.recv(65536):
            taken += got
    assert re.findall(rb"HTTP/1\.1 (\d+)", taken) == [b"200", b"200", b"404", b"200"]
    assert taken.count(wire.PAGE) == 2 and taken.endswith(b"Connection: close\r\n\r\n" + wire.PAGE)


@needs("ab")
@pytest.mark.parametrize("kept", [["-k"], []], ids=["kept", "closed"])
def test_ab_has_no_failed_request(request, url, kept):
    """Its clients share all requests: one that waits for a server which serves another until that ends waits for ever."""
    clients = 1 if kept and registry.serves_at_once(request.node.callspec.params["running"], {}) == 1 else 4
    out, _ = said("ab", "-q", *kept, "-c", clients, "-n", 200, url)
    assert re.search(r"Complete requests: +200\n", out) and re.search(r"Failed requests: +0\n", out), out
    assert "Non-2xx" not in out and (not kept or re.search(r"Keep-Alive requests: +200\n", out)), out


@needs("wrk")
def test_wrk_sees_no_error(url):
    out, _ = said("wrk", "-t1", "-c4", "-d1", url)
    assert "Socket errors" not in out and "Non-2xx" not in out, out
    assert int(re.search(r"(\d+) requests in", out)[1]) > 100


@needs("h2load")
@pytest.mark.parametrize("pipelined", [1, 8])
def test_h2load_has_every_request_answered(url, pipelined):
    out, _ = said("h2load", "--h1", "-n", 400, "-c", 4, "-m", pipelined, url)
    assert "requests: 400 total, 400 started, 400 done, 400 succeeded, 0 failed, 0 errored, 0 timeout" in out
    assert "status codes: 400 2xx, 0 3xx, 0 4xx, 0 5xx" in out, out


# Its users begin at some time within a second and more; so the replies that came end it, not the clock.
LOCUSTFILE = """
import gevent
from locust import HttpUser, constant, events, task

replies = 0


@events.init.add_listener
def begin(environment, **_):
    @events.request.add_listener
    def count(**_):
        global replies
        replies += 1
        if replies == 100:
            gevent.spawn(environment.runner.quit)

    @events.quitting.add_listener
    def tell(**_):
        for (name, _), entry in environment.stats.entries.items():
            print("counted", name, entry.num_requests, entry.num_failures)


class Reader(HttpUser):
    wait_time = constant(0)

    @task
    def page(self):
        self.client.get("/")

    @task
    def nothing(self):
        with self.client.get("/no", catch_response=True) as reply:
            if reply.status_code == 404:
                reply.success()
"""
COUNTED = r"^counted (\S+) (\d+) (\d+)$"
ONE, *OTHERS = SERVERS


@needs("locust")
@pytest.mark.parametrize("server", [ONE, *[pytest.param(name, marks=pytest.mark.long) for name in OTHERS]])
def test_locust_counts_no_failure(tmp_path, server):
    (tmp_path / "file.py").write_text(LOCUSTFILE)
    with Server("http", server) as running:
        words = ["--headless", "-u", 4, "-r", 4, "-t", "40s", "-f", tmp_path / "file.py"]
        out, _ = said("locust", *words, "-H", f"http://127.0.0.1:{running.port}")
    counted = {name: (int(replies), int(failed)) for name, replies, failed in re.findall(COUNTED, out, re.M)}
    assert set(counted) == {"/", "/no"}, out
    assert sum(replies for replies, _ in counted.values()) >= 100
    assert not any(failed for _, failed in counted.values()), out
