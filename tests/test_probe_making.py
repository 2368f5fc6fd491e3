"""Processes and threads made: each is waited for, memory costs what it must, and nothing is left of them."""

from __future__ import annotations

import os
import signal
from statistics import median
from typing import Any

import pytest
import trials
from probe_ends import children, errors_after, limited, signalled

from pyx.probing import ProbeError, launch

FORKS = ["fork", "vfork", "posix_spawn"]
MOST_TOUCHED = 1 << 20  # kB


def end_of(probe: str, options: dict[str, str], iterations: int = 100, **how: Any) -> dict[str, Any]:
    (end,) = launch(probe, options, iterations=iterations, **how)["ends"]
    return end


@pytest.mark.parametrize("variant", FORKS)
def test_each_process_is_waited_for(variant):
    end = end_of("fork", {"variant": variant})
    assert end["measured"] == 100
    assert end["units"] == end["sent"] == end["received"]
    assert end["voluntary"] > 0.9 * end["units"]
    assert not children(os.getpid())


def test_a_process_is_made_by_a_process():
    with pytest.raises(ProbeError, match="processes") as caught:
        end_of("fork", {}, kind="thread")
    assert caught.value.usage


def test_touched_memory_costs_a_copy_but_not_a_borrower():
    def cost(variant, touched):
        return median(end_of("fork", {"variant": variant, "touched": str(touched)})["samples"])

    def attempt():
        copied, borrowed = (cost(variant, 1 << 16) / cost(variant, 0) for variant in ("fork", "vfork"))
        assert copied > 3 > borrowed

    trials.patiently(attempt)


def test_more_touched_memory_than_there_is():
    pairs = 512
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") // 2048 // pairs
    if most >= MOST_TOUCHED:
        pytest.skip("a machine of so much memory can")
    with pytest.raises(ProbeError, match=f"at most {most}") as caught:
        end_of("fork", {"touched": str(most + 1)}, pairs=pairs)
    assert caught.value.usage


@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("stack", ["256", "8192"])
def test_each_thread_is_joined(tmp_path, kind, stack):
    program = limited(tmp_path, RLIMIT_AS=256 << 20)  # a few dozen stacks
    end = end_of("thread_create", {"stack": stack}, 1000, kind=kind, executable=program)
    assert end["measured"] == 1000
    assert end["voluntary"] > 0.9 * end["units"]


def test_a_thread_begins_before_it_has_ended():
    def attempt():
        end = end_of("thread_create", {}, 1000)
        assert 0 < end["notes"]["first_run_p50_ns"] < median(end["samples"])

    trials.patiently(attempt)


def test_a_stack_that_cannot_be():
    with pytest.raises(ProbeError, match="stack") as caught:
        end_of("thread_create", {"stack": "1"})
    assert caught.value.usage


@pytest.mark.parametrize(
    "number, said", [(signal.SIGKILL, "killed by signal 9"), (signal.SIGSTOP, "stood still")]
)
def test_a_maker_that_dies_or_stops(number, said):
    makers = [*(("fork", one) for one in FORKS), ("thread_create", "joined")]
    cases = [(signalled(0, number), probe, {"variant": variant}) for probe, variant in makers]
    assert all(said in found for found in errors_after(cases, ends=1))
