"""Connections: every message and connection arrives, the calls alone never wait, and nothing is left of them."""

from __future__ import annotations

import signal
import socket
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import trials
from probe_ends import POSITIONS, error_after, errors_after, limited, signalled

from pyx.probing import EXECUTABLE, ProbeError, launch

KINDS = ["process", "thread"]
CLONE_NEWUSER = 0x10000000


def run(probe: str, options: dict[str, str], iterations: int = 300, **how: Any) -> dict[str, Any]:
    """A launch; skips where this system has no veth for us, which it must say."""
    try:
        return launch(probe, options, iterations=iterations, **how)
    except ProbeError as error:
        if options.get("variant") != "veth":
            raise
        assert error.usage and "veth needs" in str(error)
        pytest.skip(str(error))


@pytest.mark.parametrize("cpus", POSITIONS)
@pytest.mark.parametrize("size", [1, 60000])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", ["loopback", "veth"])
def test_each_message_is_answered(variant, kind, size, cpus):
    found = run("tcp", {"variant": variant}, kind=kind, size=size, cpus=cpus)
    first, second = found["ends"]
    assert found["size"] == size and first["measured"] == 300
    assert first["units"] == first["sent"] == first["received"] == second["sent"] == second["received"]


@pytest.mark.parametrize("asked, got", [(0, 1), (1 << 20, 65536)])
def test_a_message_has_a_byte_and_at_most_64_kib(asked, got):
    assert run("tcp", {}, size=asked, cpus=POSITIONS[-1])["size"] == got


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 60000])
def test_a_round_trips_calls_by_one_end_never_wait(size, kind):
    (end,) = run("tcp", {"variant": "calls"}, kind=kind, size=size)["ends"]
    assert end["sent"] == end["received"] == 2 * end["units"]
    assert end["voluntary"] < end["units"] / 100


@pytest.mark.parametrize("close", ["reset", "orderly"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cpus", POSITIONS)
def test_each_connection_is_accepted(cpus, kind, close):
    first, second = run("accept", {"close": close}, kind=kind, cpus=cpus)["ends"]
    assert first["measured"] == 300
    assert first["units"] == first["sent"] == second["received"]


@pytest.mark.parametrize("close", ["reset", "orderly"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_connections_calls_by_one_end_never_wait(kind, close):
    def attempt():
        (end,) = run("accept", {"variant": "calls", "close": close}, kind=kind)["ends"]
        assert end["units"] == end["sent"] == end["received"]
        assert end["voluntary"] < end["units"] / 100

    trials.patiently(attempt)  # a kernel under load may leave packets to a thread of its own


@pytest.mark.parametrize("probe", ["tcp", "accept"])
def test_two_ends_on_one_cpu_cost_more_than_their_calls(probe):
    def attempt():
        whole, calls = (
            median(run(probe, options, 3000)["ends"][0]["samples"]) for options in ({}, {"variant": "calls"})
        )
        assert whole > calls

    trials.patiently(attempt)


@pytest.mark.parametrize("options", [{}, {"close": "orderly"}, {"variant": "calls"}])
@pytest.mark.parametrize("kind", KINDS)
def test_connections_leave_no_descriptors(tmp_path, kind, options):
    program = limited(tmp_path, RLIMIT_NOFILE=32)
    assert run("accept", options, 2000, kind=kind, executable=program)["ends"][0]["measured"] == 2000


def test_more_orderly_connections_than_there_are_ports():
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    more = (high - low) * 5 // 4
    assert run("accept", {"close": "orderly"}, more)["ends"][0]["measured"] == more


def test_several_pairs_at_once():
    found = run("tcp", {"variant": "veth"}, pairs=4, cpus=POSITIONS[-1])
    assert len(found["ends"]) == 8
    assert all(end["sent"] == end["received"] for end in found["ends"])


def test_veth_says_that_it_is_no_wire_and_leaves_no_link():
    before = socket.if_nameindex()
    assert "not a wire" in run("tcp", {"variant": "veth"})["unit_of_work"]
    assert socket.if_nameindex() == before


def test_veth_where_namespaces_are_forbidden(tmp_path):
    program = tmp_path / "kneepoint-probe"
    program.write_text(f"""#!{sys.executable} -IS
import ctypes, os, sys
if ctypes.CDLL(None).unshare({CLONE_NEWUSER}):
    sys.exit(3)
with open("/proc/sys/user/max_net_namespaces", "w") as most:
    most.write("0")
os.execv("{EXECUTABLE}", ["kneepoint-probe", *sys.argv[1:]])
""")
    program.chmod(0o755)
    with pytest.raises(ProbeError, match="veth needs network namespaces") as caught:
        launch("tcp", {"variant": "veth"}, iterations=10, executable=program)
    assert caught.value.usage and "sysctl" in str(caught.value)


@pytest.mark.parametrize(
    "number, said", [(signal.SIGKILL, "killed by signal 9"), (signal.SIGSTOP, "stood still")]
)
def test_an_end_that_dies_or_stops(number, said):
    cases = [(signalled(end, number), probe, {}) for probe in ("tcp", "accept") for end in (0, 1)]
    assert all(said in found for found in errors_after(cases, cpus=POSITIONS[-1]))


@pytest.mark.parametrize("probe", ["tcp", "accept"])
def test_threads_whose_process_is_killed(probe):
    said = error_after(signalled(0, signal.SIGKILL), probe, {}, kind="thread", ends=1)
    assert "the process of the ends was killed" in said
