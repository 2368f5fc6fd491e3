"""Memory that a kept connection takes in the server: PSS of its process tree, which counts what processes share once."""

import re
import statistics
from pathlib import Path

import pytest
import wire
from pyx.sampling import tree

from pyx import registry
from pyx.server import Server

CONNECTIONS = 500
ROUNDS = 3
KIB = 1024
MOST = {"thread": 24 * KIB, "fork": 128 * KIB, "epoll": 4 * KIB}  # bytes a connection; far above, it hoards
KNOWN = wire.EXCHANGES["echo"][0]


def memory(pid: int) -> tuple[int, int]:
    """PSS of a process tree, and the size of its page tables, which PSS leaves out; bytes."""
    found = [0, 0]
    for process in tree(pid):
        for at, (file, field) in enumerate((("smaps_rollup", "Pss"), ("status", "VmPTE"))):
            value = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{process}/{file}").read_text(), re.M)
            assert value, f"{file} of {process} has no {field}"
            found[at] += int(value[1]) * KIB
    return found[0], found[1]


def each(server: str) -> tuple[float, float]:
    """What one of so many connections adds, that have each had a reply and wait."""
    with Server("echo", server) as running:
        with wire.connect(running.port) as first:
            wire.exchange(first, KNOWN.request, KNOWN.reply)
        before = memory(running.pid)
        peers = []
        try:
            for _ in range(CONNECTIONS):
                peers.append(wire.connect(running.port))
                wire.exchange(peers[-1], KNOWN.request, KNOWN.reply)
            after = memory(running.pid)
        finally:
            for peer in peers:
                peer.close()
        assert running.stop() == 0
    return (after[0] - before[0]) / CONNECTIONS, (after[1] - before[1]) / CONNECTIONS


@pytest.mark.parametrize("server", MOST)
def test_memory_of_a_connection(benchmark, server):
    """`pss` and `page_tables`, bytes a connection."""
    if server not in registry.servers():
        pytest.skip(f"there is no server {server} yet")
    found = []
    benchmark.pedantic(lambda: found.append(each(server)), rounds=ROUNDS)
    pss, tables = (statistics.median(values) for values in zip(*found, strict=True))
    benchmark.extra_info |= {"pss": round(pss), "page_tables": round(tables)}
    assert 0 < pss < MOST[server]
