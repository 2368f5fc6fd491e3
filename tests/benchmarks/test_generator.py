"""The load generator beside wrk: requests for each second of its own processor time, asked of the same nginx."""

import re
import resource
import statistics
import subprocess

import nginx_peer
import pytest
from pyx.load import Load

ALTERNATIONS = 9
SECONDS = 1


@pytest.fixture
def nginx(tmp_path):
    """One worker on CPU 0; gives its port."""
    with nginx_peer.nginx(tmp_path, "ok", 0) as (_, port):
        yield port


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
