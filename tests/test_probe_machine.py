"""The probes of the machine: each did what its name says, and refuses where it cannot."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from probe_ends import errors_after, signalled

from pyx.probing import EXECUTABLE, ProbeError, launch

CPUS = sorted(os.sched_getaffinity(0))
KINDS = ["process", "thread"]
two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
same, apart = (CPUS[0], CPUS[0]), tuple(CPUS[:2])


def run(probe: str, cpus: tuple[int, ...] = same, kind: str = "process", **options: object) -> dict[str, Any]:
    return launch(
        probe, {name: str(value) for name, value in options.items()}, kind=kind, cpus=cpus, budget=0.05
    )


def typical(result: dict[str, Any]) -> float:
    """Median of the working end, ns a unit."""
    return median(result["ends"][0]["samples"])


def switches(result: dict[str, Any]) -> list[float]:
    """Of each end, for a unit of end 0."""
    units = result["ends"][0]["units"]
    return [(end["voluntary"] + end["involuntary"]) / units for end in result["ends"]]


def all_arrived(result: dict[str, Any]) -> bool:
    first, second = result["ends"]
    return first["sent"] == second["received"] > 0 and second["sent"] == first["received"]


# ---- wakeup ----


@pytest.mark.parametrize("kind", KINDS)
def test_a_wakeup_on_one_cpu_is_a_switch_each_way(kind: str) -> None:
    found = run("wakeup", kind=kind)
    assert found["unit_of_work"] == "round trip"
    assert all_arrived(found)
    assert switches(found) == pytest.approx([1, 1], abs=0.1)


@pytest.mark.parametrize("kind", KINDS)
@two_cpus
def test_a_wakeup_of_another_cpu_finds_its_end_asleep(kind: str) -> None:
    found = run("wakeup", apart, kind)
    assert all_arrived(found)
    assert all(end["voluntary"] > 0.5 * found["ends"][0]["units"] for end in found["ends"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_calls_of_a_wakeup_never_wait(kind: str) -> None:
    calls = run("wakeup", kind=kind, variant="calls")
    assert [end["voluntary"] for end in calls["ends"]] == [0]
    assert calls["ends"][0]["sent"] == 2 * calls["ends"][0]["units"]
    assert 0 < typical(calls) < typical(run("wakeup", kind=kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [{"variant": "idle"}, {"variant": "busy"}, {"variant": "busy", "burner": "idle"}]
)
@two_cpus
def test_one_way_to_a_sleeper(kind: str, options: dict[str, str]) -> None:
    found = run("wakeup", apart, kind, gap=50, **options)
    waker, sleeper = found["ends"]
    assert found["unit_of_work"] == "wake-up"
    assert waker["sent"] == sleeper["received"]
    assert waker["voluntary"] == 0, "the waker polls"
    most = (
        sleeper["voluntary"] >= 0.98 * waker["units"] - 1
    )  # one leaves at the stop, some just before they sleep
    assert most, "each unit woke an end that slept"
    assert min(waker["samples"]) > 0
    assert 0 < waker["notes"]["waker_ns"] < typical(found) * 10
    assert sleeper["notes"]["sleeper_cpu_ns"] > 0
    assert ("burner_cpu_ns" in sleeper["notes"]) == (options["variant"] == "busy")
    if options["variant"] == "busy":
        assert sleeper["notes"]["burner_cpu_ns"] > 0


@two_cpus
def test_a_wakeup_takes_longer_than_being_seen_by_one_who_polls() -> None:
    assert typical(run("wakeup", apart, variant="idle")) > typical(run("cacheline", apart)) / 2


@two_cpus
def test_without_a_gap_only_sleepers_count() -> None:
    found = run("wakeup", apart, variant="idle", gap=0)
    waker, sleeper = found["ends"]
    assert waker["sent"] == waker["units"] + waker["notes"]["missed"] == sleeper["received"]


@pytest.mark.parametrize("variant", ["idle", "busy"])
def test_one_way_needs_a_cpu_for_either_end(variant: str) -> None:
    for cpus, pairs in [(same, 1), (apart, 2)]:
        with pytest.raises(ProbeError, match="a CPU of its own") as refused:
            launch("wakeup", {"variant": variant}, cpus=cpus, pairs=pairs, budget=0.05)
        assert refused.value.usage
    with pytest.raises(ProbeError) as refused:
        launch("wakeup", {"variant": variant}, cpus=apart, bound=False, budget=0.05)
    assert refused.value.usage


# ---- switch ----


@pytest.mark.parametrize("kind", KINDS)
def test_a_switch_is_counted_by_the_kernel_too(kind: str) -> None:
    found = run("switch", kind=kind)
    assert found["unit_of_work"] == "two yields and two switches"
    assert all_arrived(found)
    assert switches(found) == pytest.approx([1, 1], abs=0.1)
    for end in found["ends"]:
        assert end["notes"]["yields_a_turn"] > 0.9, "a turn can only pass by a yield"


@pytest.mark.parametrize("kind", KINDS)
def test_yields_alone_do_not_switch(kind: str) -> None:
    calls = run("switch", kind=kind, variant="calls")
    assert calls["unit_of_work"] == "two yields"
    assert switches(calls)[0] < 0.1
    assert typical(calls) < typical(run("switch", kind=kind))


def test_a_working_set_makes_a_switch_dearer() -> None:
    assert typical(run("switch", working_set=256)) > typical(run("switch"))


@two_cpus
def test_a_switch_needs_one_cpu() -> None:
    with pytest.raises(ProbeError) as refused:
        run("switch", apart)
    assert refused.value.usage


# ---- cacheline ----


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", ["one_line", "two_lines"])
@two_cpus
def test_a_cache_line_goes_there_and_back(kind: str, variant: str) -> None:
    found = run("cacheline", apart, kind, variant=variant)
    assert found["unit_of_work"] == "round trip"
    assert all_arrived(found)
    assert found["ends"][0]["sent"] == found["ends"][0]["units"]
    assert [end["voluntary"] for end in found["ends"]] == [0, 0], "they poll"
    assert min(found["ends"][0]["samples"]) > 0


def test_polling_ends_do_not_share_a_cpu() -> None:
    with pytest.raises(ProbeError, match="a CPU of its own") as refused:
        run("cacheline")
    assert refused.value.usage


# ---- working_set ----


@pytest.mark.parametrize("kind", KINDS)
@two_cpus
def test_the_first_walk_after_a_move_is_cold(kind: str) -> None:
    found = run("working_set", same[:1], kind)
    end = found["ends"][0]
    assert typical(found) > end["notes"]["hot_walk_ns"] > 0
    assert end["notes"]["cold_start_ns"] > 0
    assert end["notes"]["migrate_ns"] > 0
    assert (end["cpu_first"], end["cpu_last"], end["migrations"]) == (CPUS[0], CPUS[0], 0), "it comes home"
    assert switches(found)[0] >= 2, "away, and back"


@two_cpus
def test_a_walk_that_the_processor_foresees_is_shorter() -> None:
    assert typical(run("working_set", same[:1], variant="ordered")) < typical(run("working_set", same[:1]))


@two_cpus
def test_it_moves_to_the_cpu_it_is_told() -> None:
    run("working_set", same[:1], other_cpu=CPUS[1])
    for nowhere in (CPUS[0], 1023):
        with pytest.raises(ProbeError) as refused:
            run("working_set", same[:1], other_cpu=nowhere)
        assert refused.value.usage


# ---- clock ----


def test_a_clock_that_asks_the_kernel_is_dearer() -> None:
    asked, read = run("clock", variant="thread_cputime"), run("clock")
    assert read["unit_of_work"] == "reading"
    assert typical(asked) > typical(read) > 0
    assert typical(run("clock", variant="realtime")) > 0


def test_the_clock_reads_as_the_instrument_says() -> None:
    found = run("clock")
    assert found["clock_ns"] / 3 < typical(found) < found["clock_ns"] * 3


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86 only")
def test_the_processor_s_counter() -> None:
    assert 0 < typical(run("clock", variant="tsc")) < typical(run("clock", variant="thread_cputime"))


# ---- faults ----


def group_of(leader: int) -> list[int]:
    """Processes that are alive in a process group."""
    alive = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(group) == leader and state not in "ZX":
            alive.append(int(stat.parent.name))
    return alive


def wait_until(ready: Any) -> Any:
    """What `ready` gives as soon as it gives something; fails after twenty seconds."""
    until = time.monotonic() + 20
    while not (found := ready()):
        assert time.monotonic() < until, "waited for twenty seconds"
        time.sleep(0.005)
    return found


def ends_of(watcher: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{watcher}/task/{watcher}/children").read_text().split()]


def endless(*settings: str) -> tuple[subprocess.Popen[str], list[int]]:
    words = [
        EXECUTABLE,
        "wakeup",
        "--cpus",
        ",".join(map(str, apart)),
        "--iterations",
        str(10**12),
        *settings,
    ]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ends = wait_until(lambda: found if len(found := ends_of(running.pid)) == 2 else None)
    time.sleep(0.2)  # past the release
    return running, ends


@pytest.mark.parametrize(
    ("number", "wanted"),
    [(signal.SIGKILL, "end {} of pair 0 was killed by signal 9"), (signal.SIGSTOP, "pair 0 has stood still")],
)
@two_cpus
def test_an_end_that_is_gone_ends_the_run(number: signal.Signals, wanted: str) -> None:
    victims = [(variant, end) for variant in ("pingpong", "idle", "busy") for end in (0, 1)]
    cases = [(signalled(end, number), "wakeup", {"variant": variant}) for variant, end in victims]
    for (_, end), said in zip(victims, errors_after(cases, cpus=apart), strict=True):
        assert wanted.format(end) in said


@two_cpus
def test_a_cpu_that_was_not_busy_all_the_time_is_said() -> None:
    with subprocess.Popen(
        [EXECUTABLE, "wakeup", "variant=busy", "--cpus", ",".join(map(str, apart)), "--budget", "500000000"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as running:
        sleeper = wait_until(lambda: found[1] if len(found := ends_of(running.pid)) == 2 else None)
        (burner,) = wait_until(lambda: ends_of(sleeper))
        os.kill(burner, signal.SIGKILL)
        said = running.communicate(timeout=10)[1]
    assert running.returncode == 1
    assert "end 1 of pair 0 failed" in said


@pytest.mark.parametrize("settings", [[], ["variant=busy"]], ids=["pingpong", "busy"])
@two_cpus
def test_nothing_outlives_the_watcher(settings: list[str]) -> None:
    running, ends = endless(*settings)
    assert set(group_of(ends[0])) >= set(ends)
    running.kill()
    running.communicate(timeout=10)
    wait_until(lambda: not group_of(ends[0]))
