"""Real servers of others: nginx, gunicorn and redis, measured, swept, killed with whoever measures them, and resumed."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
import time

import pytest
from sweeps import Sweep

from harness import measuring, recorded, subjects
from harness.errors import MeasureError
from harness.outside import contact
from harness.store import open_store
from harness.subjects import _processes
from models.scenario import Scenario

CONFIGURATION = """
pid nginx.pid;
error_log stderr;
events { worker_connections 512; }
http {
    access_log off;
    keepalive_requests 100;
    server { listen 127.0.0.1:PORT; location / { return 200 "hello\\n"; } }
}
"""
APPLICATION = """
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "6")])
    return [b"hello\\n"]
"""
URL = "http://127.0.0.1:{port}/"


@pytest.fixture
def nginx(tmp_path):
    """The command of an nginx with `workers` worker processes; without "daemon off" it goes into the background."""
    if not shutil.which("nginx"):
        pytest.skip("nginx is not installed")
    (tmp_path / "logs").mkdir()
    (tmp_path / "nginx.conf").write_text(CONFIGURATION)
    live = f"cd {tmp_path} && sed s/PORT/{{port}}/ nginx.conf > live.conf && exec nginx -p . -c live.conf"
    return f"sh -c \"{live} -g 'daemon off; worker_processes {{workers}};'\""


@pytest.fixture
def gunicorn(tmp_path):
    """The command of a gunicorn with `workers` synchronous worker processes."""
    pytest.importorskip("gunicorn")
    (tmp_path / "hello.py").write_text(APPLICATION)
    return f"{sys.executable} -m gunicorn -w {{workers}} --chdir {tmp_path} -b 127.0.0.1:{{port}} hello:app"


@pytest.fixture
def redis():
    """The command of a redis server that keeps nothing on disk."""
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    return "redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly no"


def http(command, **options):
    return Scenario.of("http", "command", options={"command": command, "target": URL, **options})


def check(cell, processes):
    """Answered without an error, on so many processes of which CPU and switches are known; gives the record."""
    (replicate,) = cell.replicates
    record, found = replicate.record, cell.measured
    assert recorded.replies(record) > 20 and not any(record["errors"].values()), record["errors"]
    assert found.counters["server_processes"] == pytest.approx(processes, abs=0.5)
    assert 0 < found.utilisation["server_cpu"] < 1 and found.counters["switches"] > 0
    assert "worker" not in found.utilisation and "lock_wait" not in found.counters
    return record


def test_nginx_with_two_worker_processes(nginx):
    scenario = http(nginx, workers=2, clients=8)
    assert contact.met(scenario, (), 0.5, 0.1)[0] == scenario  # it keeps connections
    cell = measuring.measure(scenario, reps=1, window=0.5, warmup=0.1)
    check(cell, 3)
    # nginx ends a connection after 100 requests and says so, which is no failure.
    assert recorded.replies(cell.replicates[0].record) > 8 * 100


def test_nginx_in_the_background_is_refused(nginx):
    scenario = http(nginx.replace("daemon off; ", ""), workers=1)
    with pytest.raises(MeasureError, match="goes into the background"), subjects.open(scenario):
        pass


def test_a_running_nginx_is_found_as_a_whole(nginx):
    with subjects.open(http(nginx, workers=2)) as started:
        target = Scenario.of(
            "http", "target", options={"target": f"http://localhost:{started.port}/", "clients": 4}
        )
        with subjects.open(target) as found:
            assert (
                _processes.ancestors(found.pid)[0] == -started.pid
            )  # the keeper's: the master, not a worker
        check(measuring.measure(target, reps=1, window=0.3, warmup=0.1), 3)
        assert started.alive()


def test_gunicorn_ends_its_connections_and_is_asked_accordingly(gunicorn):
    scenario, window = contact.met(http(gunicorn, workers=2, clients=4), (), None, 0.1)
    assert (scenario["connection"], scenario["closer"]) == ("per_request", "server") and window >= 1
    record = check(measuring.measure(scenario, reps=1, window=0.5, warmup=0.2), 3)
    assert record["connecting"] > 0


def test_a_gunicorn_that_cannot_load_its_application_says_why(gunicorn):
    with (
        pytest.raises(MeasureError) as caught,
        subjects.open(http(gunicorn.replace("hello:", "gone:"), workers=1)),
    ):
        pass
    assert "ended with status 3" in str(caught.value) and "ModuleNotFoundError" in str(caught.value)


@pytest.mark.parametrize("clients", [1, 16])
def test_redis_answers_a_ping(redis, clients):
    options = {"command": redis, "target": "127.0.0.1:{port}", "request": "PING\\r\\n", "expect": "+PONG"}
    scenario = Scenario.of("lines", "command", options={**options, "clients": clients})
    check(measuring.measure(scenario, reps=1, window=0.3, warmup=0.1), 1)


def killed_and_resumed(path, command, kills, reps):
    """Kills a sweep so many times at random moments; each time nothing lives on, and what was stored stays.

    `reps` is such that the sweep is not finished before the last kill.
    """
    words = ["--command", command, "--target", URL, "--no-report", "--reps", str(reps), "--time", "0.2"]
    sweep = Sweep(path, ["--var", "workers", "--values", "1,2", *words])
    timing = random.Random(kills)
    try:
        kept = {}
        for turn in range(kills):
            process = sweep.start(*(["--resume"] if turn else []))
            deadline = time.monotonic() + 30
            while len(sweep.processes()) < 3 and time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.01)  # the sweep, a keeper, and a server of somebody's
            time.sleep(timing.uniform(0, 0.7))
            process.kill()
            _, errors = process.communicate()
            assert process.returncode == -signal.SIGKILL, errors
            sweep.await_no_processes(10)
            now = sweep.rows()
            assert now.items() >= kept.items()
            kept = now
        output, errors = sweep.start("--resume", "--json").communicate(timeout=240)
        found = json.loads(output)
        assert found["sweep"]["complete"], errors
        with open_store(path) as store:
            plan = store.plan()
        expected = {(v.kind, v.scenario.key, block) for block in range(reps) for v in plan.visits(block)}
        assert set(sweep.rows()) >= expected and sweep.rows().items() >= kept.items()
        sweep.await_no_processes(10)
    finally:
        sweep.clean_up()
    return found


def test_a_killed_sweep_leaves_no_nginx_and_goes_on(nginx, tmp_path):
    found = killed_and_resumed(tmp_path / "s.sqlite", nginx, 2, 6)
    assert "cannot be seen from outside" in found["series"][0]["explanation"]["text"]


@pytest.mark.long
@pytest.mark.parametrize(("name", "reps"), [("nginx", 20), ("gunicorn", 6)])
def test_ten_kills_leave_nothing_of_the_server(name, reps, request, tmp_path):
    killed_and_resumed(tmp_path / "s.sqlite", request.getfixturevalue(name), 10, reps)


@pytest.mark.long
def test_a_sweep_over_the_workers_of_gunicorn_ends_with_a_page(gunicorn, tmp_path):
    words = ["--var", "workers", "--values", "1,2,4", "--reps", "3", "--command", gunicorn, "--target", URL]
    sweep = Sweep(tmp_path / "s.sqlite", words)
    output, errors = sweep.start("--json").communicate(timeout=280)
    found = json.loads(output)
    assert found["sweep"]["complete"] and "connection=per_request" in errors
    assert all(cell["measured"] for cell in found["cells"])
    assert (tmp_path / "s.html").stat().st_size > 100_000
    sweep.await_no_processes(10)
