"""Message queues: what is sent is received, limits are named before anything hangs, no queue is left."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import trials
from probe_ends import POSITIONS, error_after, errors_after, limited, limited_alone, signalled, under_way

from pyx.probing import ProbeError, launch

KINDS = ["process", "thread"]
OVERHEAD = 96  # bytes that the kernel counts for a message beside its own
NAME = f"/kneepoint-probe-{os.geteuid()}".encode()
LIBC = ctypes.CDLL(None, use_errno=True)


def kernel(limit: str) -> int:
    return int(Path("/proc/sys/fs/mqueue", limit).read_text())


def ends_of(iterations: int = 300, options: dict[str, str] | None = None, **how: Any) -> list[dict[str, Any]]:
    return launch("mqueue", options, iterations=iterations, **how)["ends"]


def named_queue() -> bool:
    """Whether a queue has the name that probes make theirs under."""
    queue = LIBC.mq_open(NAME, os.O_RDONLY)
    if queue >= 0:
        os.close(queue)
    else:
        assert ctypes.get_errno() == errno.ENOENT
    return queue >= 0


@pytest.mark.parametrize("cpus", POSITIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 1, 3, 8, 100, 8192])
def test_each_message_is_answered(size, kind, cpus):
    first, second = ends_of(kind=kind, cpus=cpus, size=size)
    assert first["measured"] == 300
    assert first["units"] == first["sent"] == first["received"] == second["sent"] == second["received"]


@pytest.mark.parametrize("kind", KINDS)
def test_on_one_cpu_each_hop_is_a_switch(kind):
    def attempt():
        for end in ends_of(3000, kind=kind):
            switches = end["voluntary"] + end["involuntary"]
            assert end["received"] <= switches + 1 <= 1.1 * end["received"]

    trials.patiently(attempt)


@pytest.mark.parametrize("kind", KINDS)
def test_the_calls_alone_never_wait(kind):
    (end,) = ends_of(3000, {"variant": "calls"}, kind=kind)
    assert end["sent"] == end["received"] == 2 * end["units"]
    assert end["voluntary"] < end["units"] / 100


@pytest.mark.parametrize("cpus", POSITIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [1, 2, 10])
@pytest.mark.parametrize("size", [1, 64])
def test_one_way_everything_arrives_in_order(size, depth, kind, cpus):
    options = {"variant": "spsc", "depth": str(depth)}
    for iterations in (1, 7, 2000):
        first, second = ends_of(iterations, options, kind=kind, cpus=cpus, size=size)
        assert first["measured"] == iterations
        assert first["units"] == first["sent"] == second["received"]
        assert first["received"] == second["sent"] == 0


def test_a_deep_queue_needs_fewer_switches():
    """On one CPU the sender is switched away from at most once for each time that it fills the queue."""

    def of(depth: int) -> float:
        first, _ = ends_of(3000, {"variant": "spsc", "depth": str(depth)})
        return (first["voluntary"] + first["involuntary"]) / first["units"]

    trials.patiently(lambda: _less(of(10), of(1)))


def _less(a: float, b: float) -> None:
    assert a < b


# ---- limits ----


def test_many_pairs_run_under_the_default_limits(tmp_path):
    if kernel("queues_max") < 256:
        pytest.skip("fewer queues are allowed here than by default")
    usual = limited_alone(tmp_path, RLIMIT_MSGQUEUE=819200, RLIMIT_NOFILE=1024)

    def attempt():  # others on the machine may have queues
        try:
            found = ends_of(5, pairs=128, capacity=10, executable=usual)
        except ProbeError as error:
            raise AssertionError(str(error)) from error
        assert len(found) == 256 and all(end["sent"] == end["received"] for end in found)

    trials.patiently(attempt)


def refusal(
    tmp_path: Path, options: dict[str, str] | None = None, *, size: int = 8, pairs: int = 1, **limits: int
) -> str:
    with pytest.raises(ProbeError) as caught:
        launch("mqueue", options, size=size, pairs=pairs, executable=limited(tmp_path, **limits))
    assert caught.value.usage
    return str(caught.value)


def test_a_message_that_is_too_large(tmp_path):
    most = kernel("msgsize_max")
    said = refusal(tmp_path, size=most + 1)
    assert f"{most + 1} bytes" in said and f"allows {most}" in said
    assert f"sysctl fs.mqueue.msgsize_max={most + 1}" in said


def test_a_queue_that_is_too_deep(tmp_path):
    most = kernel("msg_max")
    said = refusal(tmp_path, {"variant": "spsc", "depth": str(most + 1)})
    assert f"depth={most + 1}" in said and f"hold {most} messages" in said
    assert f"sysctl fs.mqueue.msg_max={most + 1}" in said


@pytest.mark.parametrize(
    ("options", "pairs", "size", "messages"),
    [({}, 1, 8, 2), ({}, 3, 100, 6), ({"variant": "spsc", "depth": "10"}, 2, 64, 20)],
)
def test_the_bytes_of_all_queues_are_counted_as_the_kernel_does(tmp_path, options, pairs, size, messages):
    needed = messages * (size + OVERHEAD)
    said = refusal(tmp_path, options, size=size, pairs=pairs, RLIMIT_MSGQUEUE=needed - 1)
    assert f"take {needed} bytes" in said and f"have {needed - 1}," in said
    assert f"ulimit -q {needed}" in said

    def attempt():  # others may have queues of this user
        try:
            enough = limited_alone(tmp_path, RLIMIT_MSGQUEUE=needed)
            launch("mqueue", options, size=size, pairs=pairs, iterations=5, executable=enough)
        except ProbeError as error:
            raise AssertionError(str(error)) from error

    trials.patiently(attempt)


def test_more_queues_than_the_machine_allows(tmp_path):
    most = kernel("queues_max")
    if most > 1000:
        pytest.skip("more queues are allowed here than a run can have")
    said = refusal(tmp_path, pairs=most // 2 + 1)
    assert f"{2 * (most // 2 + 1)} queues" in said and f"allows {most}" in said
    assert "sysctl fs.mqueue.queues_max=" in said


def test_more_queues_than_descriptors(tmp_path):
    said = refusal(tmp_path, pairs=20, RLIMIT_NOFILE=24)
    assert "40 queues" in said and "24 descriptors" in said and "ulimit -n" in said


# ---- what goes wrong, and what is left ----


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("variant", ["pingpong", "spsc"])
def test_a_killed_end_is_named(variant, end):
    said = error_after(signalled(end, signal.SIGKILL), "mqueue", {"variant": variant})
    assert f"end {end} of pair 0 was killed by signal 9" in said
    assert not named_queue()


def test_a_stopped_end_is_said():
    """Also one that does not take from a queue that is full."""
    cases = [
        (signalled(end, signal.SIGSTOP), "mqueue", {"variant": variant})
        for variant in ("pingpong", "spsc")
        for end in (0, 1)
    ]
    assert all("pair 0 has stood still" in said for said in errors_after(cases))
    assert not named_queue()


@pytest.mark.parametrize(("kind", "ends"), [("process", 2), ("thread", 1)])
def test_no_queue_has_a_name_while_a_run_lasts(kind, ends):
    with under_way("mqueue", {}, kind=kind, ends=ends):
        assert not named_queue()


def test_a_queue_that_a_killed_process_left_is_taken_over():
    queue = LIBC.mq_open(NAME, os.O_RDWR | os.O_CREAT, ctypes.c_uint(0o600), None)
    assert queue >= 0
    os.close(queue)
    ends_of(5)
    assert not named_queue()


@pytest.mark.parametrize("depth", [1, 10])
def test_one_way_a_sample_is_several_queues_of_messages(depth):
    """One message alone costs little when there is room and much when there is none."""
    first, _ = ends_of(2000, {"variant": "spsc", "depth": str(depth)})
    assert first["batch"] > 4 * depth
