"""Signals: strict alternation, what stands for a switch, and what a burst loses."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import trials
from probe_ends import (
    PATIENCE,
    POSITIONS,
    alive,
    children,
    error_after,
    errors_after,
    limited,
    signalled,
    under_way,
)

from pyx.probing import ProbeError, launch

KINDS = ["process", "thread"]
BURST = 200


def ends_of(variant: str, iterations: int = 300, **how: Any) -> list[dict[str, Any]]:
    return launch("signal", {"variant": variant}, iterations=iterations, **how)["ends"]


def switches(end: dict[str, Any]) -> int:
    return end["voluntary"] + end["involuntary"]


@pytest.mark.parametrize("cpus", POSITIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", ["sigwaitinfo", "handler"])
def test_each_signal_is_answered(variant, kind, cpus):
    for _ in range(3):
        first, second = ends_of(variant, kind=kind, cpus=cpus)
        assert first["measured"] == 300
        assert first["units"] == first["sent"] == first["received"] == second["sent"] == second["received"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", ["sigwaitinfo", "handler"])
def test_on_one_cpu_each_hop_is_a_switch(variant, kind):
    def attempt():
        for end in ends_of(variant, 3000, kind=kind):
            assert end["received"] <= switches(end) + 1 <= 1.1 * end["received"]

    trials.patiently(attempt)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", ["calls", "handler_calls"])
def test_the_calls_alone_never_wait(variant, kind):
    (end,) = ends_of(variant, 3000, kind=kind)
    assert end["sent"] == end["received"] == 2 * end["units"]
    assert end["voluntary"] < end["units"] / 100


@pytest.mark.parametrize("cpus", POSITIONS)
def test_stop_and_continue(cpus):
    first, second = ends_of("stop", cpus=cpus)
    assert first["measured"] == 300
    assert second["units"] == 0 and second["voluntary"] < 10  # it sleeps; the partner runs in its place
    partner = first["notes"]["partner_voluntary"] + first["notes"]["partner_involuntary"]
    assert partner >= first["units"]


def test_stop_is_for_processes():
    with pytest.raises(ProbeError, match="--kind process") as caught:
        ends_of("stop", kind="thread")
    assert caught.value.usage


def test_the_partner_runs_on_the_second_cpu():
    if len(POSITIONS) < 2:
        pytest.skip("one CPU")
    with under_way("signal", {"variant": "stop"}, cpus=(0, 1)) as (ends, _):
        (partner,) = [one for end in ends for one in children(end)]
        assert os.sched_getaffinity(partner) == {1}
        assert {frozenset(os.sched_getaffinity(end)) for end in ends} == {frozenset({0}), frozenset({1})}


# ---- bursts ----


def burst(variant: str, **how: Any) -> tuple[int, dict[str, float]]:
    """How many bursts there were, and what became of their signals."""
    options = {"variant": variant, "burst": str(BURST)}
    first, second = launch("signal", options, iterations=20, **how)["ends"]
    assert not any(end["sent"] or end["received"] for end in (first, second))
    return first["units"], first["notes"]


@pytest.mark.parametrize("cpus", POSITIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_standard_signals_in_a_burst_become_one(kind, cpus):
    bursts, found = burst("burst_standard", kind=kind, cpus=cpus)
    assert (found["sent"], found["received"], found["refused"]) == (bursts * BURST, bursts, 0)
    assert found["lost"] == bursts * (BURST - 1)


@pytest.mark.parametrize("cpus", POSITIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_real_time_signals_are_queued(kind, cpus):
    bursts, found = burst("burst_realtime", kind=kind, cpus=cpus)
    assert found["sent"] == found["received"] == bursts * BURST
    assert found["lost"] == found["refused"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_exceeds_the_limit_is_refused_and_not_lost(kind, tmp_path):
    """The limit is for all that this user has pending: others may take a part of it."""
    few = limited(tmp_path, RLIMIT_SIGPENDING=50)
    bursts, found = burst("burst_realtime", kind=kind, executable=few)
    assert found["pending_limit"] == 50
    assert found["sent"] + found["refused"] == bursts * BURST
    assert found["sent"] == found["received"] <= bursts * 50 and found["lost"] == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", ["sigwaitinfo", "handler", "burst_standard"])
def test_standard_signals_need_no_room_in_the_limit(variant, kind, tmp_path):
    none = limited(tmp_path, RLIMIT_SIGPENDING=0)
    first, second = ends_of(variant, 20, kind=kind, executable=none)
    assert first["received"] == second["received"]


# ---- what goes wrong ----


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("variant", ["sigwaitinfo", "handler", "stop", "burst_realtime"])
def test_a_killed_end_is_named(variant, end):
    said = error_after(signalled(end, signal.SIGKILL), "signal", {"variant": variant})
    assert f"end {end} of pair 0 was killed by signal 9" in said


@pytest.mark.parametrize(("kind", "ends"), [("process", 2), ("thread", 1)])
def test_a_stopped_end_is_said(kind, ends):
    options = {"variant": "sigwaitinfo"}
    cases = [(signalled(end, signal.SIGSTOP), "signal", options) for end in range(ends)]
    assert all("pair 0 has stood still" in said for said in errors_after(cases, kind=kind, ends=ends))


def test_a_killed_partner_is_said():
    def kill_partner(ends: list[int]) -> None:
        (partner,) = [one for end in ends for one in children(end)]
        os.kill(partner, signal.SIGKILL)

    assert "end 0 of pair 0 failed: No such process" in error_after(
        kill_partner, "signal", {"variant": "stop"}
    )


@pytest.mark.parametrize("variant", ["sigwaitinfo", "handler"])
def test_a_stranger_is_not_taken_for_the_other_end(variant):
    """One that comes while another is pending is merged with it: so it tries until it is seen."""

    def disturb(ends: list[int]) -> None:
        with contextlib.suppress(ProcessLookupError):
            for _ in range(1000):
                os.kill(ends[1], signal.SIGUSR1)
                time.sleep(0.001)

    assert "failed: Protocol error" in error_after(disturb, "signal", {"variant": variant})


def test_a_stopped_partner_dies_with_its_watcher():
    with under_way("signal", {"variant": "stop"}) as (ends, _):
        below = [one for end in ends for one in children(end)]
        watcher = int(Path(f"/proc/{ends[0]}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(watcher, signal.SIGKILL)
        until = time.monotonic() + PATIENCE
        while any(map(alive, ends + below)) and time.monotonic() < until:
            time.sleep(0.01)
        assert not any(map(alive, ends + below))
