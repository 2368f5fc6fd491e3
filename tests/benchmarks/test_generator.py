"""The load generator beside wrk: requests for each second of its own processor time, asked of the same nginx."""

import re
import resource
import shutil
import socket
import statistics
import subprocess
import time

import pytest
from pyx.load import Load

ALTERNATIONS = 9
SECONDS = 1

CONFIGURATION = """
daemon off; master_process off; worker_processes 1;
pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000000;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; location / {{ return 200 "ok"; }} }}
}}
"""


@pytest.fixture
def nginx(tmp_path):
    """One worker on CPU 0; gives its port."""
    for program in ("nginx", "wrk", "taskset"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    settings = tmp_path / "nginx.conf"
    settings.write_text(CONFIGURATION.format(folder=tmp_path, port=port))
    words = ["taskset", "-c", "0", "nginx", "-p", str(tmp_path), "-c", str(settings)]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        limit = time.monotonic() + 10
        while not answers(port):
            assert time.monotonic() < limit, "nginx does not answer"
            time.sleep(0.01)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def answers(port):
    with socket.socket() as peer:
        return peer.connect_ex(("127.0.0.1", port)) == 0


def wrk(port, connections):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [
        "taskset",
        "-c",
        "1",
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{SECONDS}s",
        f"http://127.0.0.1:{port}/",
    ]
    output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = re.search(r"(\d+) requests in", output)
    assert found, output
    return int(found[1]) / cpu


def ours(port, connections):
    options = {"clients": str(connections), "load_cpus": "1"}
    raw = Load("closed", "http", options, "127.0.0.1", port, 1, 0.1, SECONDS).run()
    assert not any(raw["errors"].values())
    first, last = raw["start"], raw["end"]
    replies = sum(histogram["count"] for histogram in raw["histograms"].values())
    rate = replies / (raw["planned_end"] - raw["planned_start"])
    return rate * (last["time"] - first["time"]) / ((last["load_cpu"] - first["load_cpu"]) * 1e-9)


@pytest.mark.parametrize("connections", [16, 64])
def test_requests_for_each_processor_second_beside_wrk(benchmark, nginx, connections):
    """The median ratio of pairs, `ours_to_wrk`; each pair begins with the other."""
    ratios, rates = [], []

    def pair():
        order = [wrk, ours] if len(ratios) % 2 else [ours, wrk]
        found = {measure: measure(nginx, connections) for measure in order}
        ratios.append(found[ours] / found[wrk])
        rates.append(found[ours])

    benchmark.pedantic(pair, rounds=ALTERNATIONS)
    benchmark.extra_info |= {
        "ours_to_wrk": statistics.median(ratios),
        "per_cpu_second": statistics.median(rates),
    }
    assert statistics.median(ratios) >= 1.0, ratios
