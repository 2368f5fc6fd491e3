"""The compiled simulation's virtual machine and scheduler, by programs written in its instructions."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trials
from assembly import Assembly
from pyx.sim import OPCODES, Program, SimulationError

from models.analytic.closed_multiserver import closed_multiserver
from models.des.machine import Prices
from models.quantiles import interval

FREE = list(astuple(Prices()))
PRICES = [
    8e-6,
    7e-6,
    15e-6,
    2.5e-6,
    7e-7,
    1.3e-6,
    1e-6,
    *FREE[7:],
]  # in the order of models.des.machine.Prices
TICK = 4e-3


def run(
    spec: dict[str, Any],
    *,
    warm: int = 0,
    replies: int = 10**6,
    prices: list[float] = FREE,
    seed: int = 1,
    costs: Any = (1.5, 2.5, 3.5, 4.5),
    until: float = 30.0,
    span: float = math.inf,
) -> dict[str, Any]:
    return dict(Program(spec).run(prices, costs, seed, warm, replies, until=until, span=span))


def value(source: str, kind: type, *, agent: bool = True, parts: Any = None, **given: float) -> float | int:
    """What the code leaves in register `x`."""
    assembly = Assembly(f"begin:\n{source}\n" + ("DONE x t t" if kind is int else "DONE i x x") + "\nEND")
    for name in ("x", "t", "i"):
        assembly.register(name)
    found = run(assembly.spec(assembly.thread("begin", agent=agent, **given), **(parts or {})), replies=1)
    return int(found["operations"][0]) if kind is int else float(found["responses"][0])


FLOATS: dict[str, Any] = {
    "FADD": lambda a, b: a + b, "FSUB": lambda a, b: a - b, "FMUL": lambda a, b: a * b, "FDIV": lambda a, b: a / b,
    "FMOD": lambda a, b: a % b, "FMIN": min, "FMAX": max,
}  # fmt: skip
WHOLES: dict[str, Any] = {
    "IADD": lambda a, b: a + b, "ISUB": lambda a, b: a - b, "IMUL": lambda a, b: a * b, "IDIV": lambda a, b: a // b,
    "IMOD": lambda a, b: a % b, "IMIN": min, "IMAX": max,
}  # fmt: skip
COMPARES: dict[str, Any] = {"LT": lambda a, b: a < b, "LE": lambda a, b: a <= b, "EQ": lambda a, b: a == b}
PAIRS = [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3), (0, 5), (3, 3), (5, -1)]


@pytest.mark.parametrize("name", [*FLOATS, *WHOLES])
def test_arithmetic_is_pythons(name: str) -> None:
    kind = float if name in FLOATS else int
    for a, b in PAIRS:
        expected = {**FLOATS, **WHOLES}[name](kind(a), kind(b))
        assert value(f"{name} x a b", kind, a=kind(a), b=kind(b)) == expected


@pytest.mark.parametrize("name", COMPARES)
@pytest.mark.parametrize("kind", [int, float])
def test_compares_and_jumps_are_pythons(name: str, kind: type) -> None:
    letter = "I" if kind is int else "F"
    for a, b in PAIRS:
        given = {"a": kind(a), "b": kind(b), "one": 1}
        expected = COMPARES[name](a, b)
        assert value(f"{letter}{name} x a b", int, a=given["a"], b=given["b"]) == expected
        for jump, taken in ((f"J{letter}{name}", expected), (f"JN{letter}{name}", not expected)):
            assert value(f"{jump} a b @over\nMOV x one\nover:", int, **given) == (not taken)


@pytest.mark.parametrize(
    ("source", "kind", "given", "expected"),
    [
        ("MOV x a", int, {"a": -3}, -3),
        ("FNEG x a", float, {"a": 2.5}, -2.5),
        ("FABS x a", float, {"a": -2.5}, 2.5),
        ("FFLOOR x a", float, {"a": -2.5}, -3.0),
        ("INEG x a", int, {"a": 5}, -5),
        ("IABS x a", int, {"a": -5}, 5),
        ("I2F x a", float, {"a": -5}, -5.0),
        ("F2I x a", int, {"a": -2.9}, -2),
        ("NOT x a", int, {"a": 0}, 1),
        ("NOT x a", int, {"a": 7}, 0),
        ("JMP @over\nMOV x a\nover:", int, {"a": 4}, 0),
        ("JT a @over\nMOV x a\nover:", int, {"a": 4}, 0),
        ("JF a @over\nMOV x a\nover:", int, {"a": 4}, 4),
        ("COST x 2", float, {}, 3.5),
        ("PAUSE a\nNOW x", float, {"a": 0.25}, 0.25),
        ("RUN a\nNOW x", float, {"a": 0.25}, 0.25),
    ],
)
def test_each_of_the_others_does_one_thing(source: str, kind: type, given: Any, expected: float) -> None:
    assert value(source, kind, **given) == expected


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [
        ("LOAD x r 1", int, 12),
        ("STORE r 1 two\nLOAD x r 1", int, 2),
        ("LOADX x list two", float, 0.75),
        ("STOREX list two half\nLOADX x list two", float, 0.5),
        ("TABLE x 1 two", float, 9.0),
    ],
)
def test_records_lists_and_tables(source: str, kind: type, expected: float) -> None:
    # a record of two words at 1, a list of three at 3
    parts = {"store": [0, 11, 12, 3, 0.25, 0.5, 0.75], "tables": [[1.0], [7.0, 8.0, 9.0]]}
    given = {"r": 1, "list": 3, "two": 2, "half": 0.5}
    used = {name: word for name, word in given.items() if name in source.split()}
    assert value(source, kind, parts=parts, **used) == expected


def test_a_fifo_keeps_order_at_both_ends_and_grows() -> None:
    source = """
    begin:
      FLEN n f
      DONE n t t
      FTAKE f a
      DONE a b b
      FPOP f a
      DONE a b b
      FPUTL f a
      FPEEK f a
      DONE a b b
      FCLEAR f
    fill:
      IADD n n one
      MOV a n
      FPUT f a
      JILT n many @fill
      FLEN n f
      DONE n t t
      FTAKE f a
      DONE a b b
      FPOP f a
      DONE a b b
      END
    """
    assembly = Assembly(source)
    assert assembly.registers["b"] == assembly.registers["a"] + 1
    thread = assembly.thread("begin", agent=True, f=1, one=1, many=1000)
    items = np.array([[k, float(k)] for k in (1, 2, 3)])
    flat = [int(k) if i % 2 == 0 else np.float64(k).view(np.int64) for i, k in enumerate(items.ravel())]
    found = run(assembly.spec(thread, fifos=[(2, np.array(flat, np.int64))]), replies=8)
    assert found["operations"].tolist() == [3, 1, 3, 3, 997, 4, 1000]
    assert found["responses"][1:4].tolist() == [1.0, 3.0, 3.0]


def test_samples_come_in_random_order_each_as_often() -> None:
    assembly = Assembly("begin:\nSAMPLE k\nDONE k t t\nPAUSE one\nJMP @begin")
    found = run(assembly.spec(assembly.thread("begin", agent=True, one=1.0), samples=50), replies=500)
    rounds = found["operations"].reshape(10, 50)
    assert (np.sort(rounds, axis=1) == np.arange(50)).all()
    assert len({tuple(row) for row in rounds}) == 10


@pytest.mark.parametrize(
    ("kind", "variation"), list(enumerate([0.0, 1.0, 2.25, 4.0, 4.0])), ids=lambda x: str(x)
)  # of pyx/csrc/core/distribution.h
def test_distributions_have_their_mean_and_variation(kind: int, variation: float) -> None:
    assembly = Assembly("begin:\nDRAW x kind mean\nDONE i x x\nPAUSE mean\nJMP @begin")
    spec = assembly.spec(assembly.thread("begin", agent=True, kind=kind, mean=2.0))
    runs = [run(spec, replies=20000, seed=seed)["responses"] for seed in range(16)]
    means = interval([float(np.mean(x)) for x in runs], level=0.999)
    assert means.low <= 2.0 <= means.high
    squares = interval([float(np.mean((x / 2.0) ** 2)) for x in runs], level=0.999)
    assert squares.low - 1e-12 <= 1 + variation <= squares.high + 1e-12


def test_exponential_draws_follow_their_distribution_into_the_tail() -> None:
    """Beyond 7.697 the ziggurat's tail begins: one draw of 2200."""
    assembly = Assembly("begin:\nDRAW x kind mean\nDONE i x x\nPAUSE mean\nJMP @begin")
    spec = assembly.spec(assembly.thread("begin", agent=True, kind=1, mean=1.0))
    found = run(spec, replies=2_000_000)["responses"]
    for edge in (0.01, 0.1, 1.0, 3.0, 7.0, 8.5, 10.0):
        expected = math.exp(-edge)
        spread = math.sqrt(expected * (1 - expected) / len(found))
        assert abs((found > edge).mean() - expected) < 4.5 * spread


def test_uniform_numbers_and_whole_ones_below_a_limit() -> None:
    source = "begin:\nUNIFORM u\nBELOW k six\nDONE k u u\nPAUSE one\nJMP @begin"
    assembly = Assembly(source)
    found = run(assembly.spec(assembly.thread("begin", agent=True, six=6, one=1.0)), replies=60000)
    assert found["responses"].min() >= 0 and found["responses"].max() < 1
    assert abs(found["responses"].mean() - 0.5) < 4.5 / math.sqrt(12 * 60000)
    counts = np.bincount(found["operations"], minlength=6)
    assert len(counts) == 6 and ((counts - 1e4) ** 2 / 1e4).sum() < 25


def test_calls_happen_in_the_order_of_time_and_then_of_scheduling() -> None:
    source = """
    begin:
      AT late 0 one
      AT soon 0 two
      AT late 0 three
      SLEEP
      NOW t
      DONE nine t t
      END
    call:
      NOW t
      DONE 0 t t
      JILT 0 three @return
      WAKEN me
    return:
      RET
    """
    assembly = Assembly(source)
    thread = assembly.thread("begin", late=2.0, soon=1.0, one=1, two=2, three=3, nine=9)
    spec = assembly.spec(thread, functions=[assembly.function("call", 1, three=3, me=1)])
    found = run(spec, replies=4)
    assert found["operations"].tolist() == [2, 1, 3, 9]
    assert found["responses"].tolist() == [1.0, 2.0, 2.0, 2.0]


ERRORS: list[tuple[str, str, dict[str, float]]] = [
    ("an object is None", "LOAD x zero 1", {}),
    ("an object is None", "STORE zero 1 one", {}),
    ("an object is None", "LOADX x far one", {"far": 1000}),
    ("an object is None", "FPUT zero one", {}),
    ("an object is None", "WAKE x zero t", {}),
    ("an object is None", "SPINNING x many", {"many": 3}),
    ("an index is out of range", "LOADX x one two", {"two": 2}),
    ("an index is out of range", "STOREX one less one", {"less": -1}),
    ("an index is out of range", "TABLE x 0 two", {"two": 2}),
    ("an index is out of range", "BELOW x zero", {}),
    ("a fifo is empty", "FTAKE one x", {}),
    ("a fifo is empty", "FPOP one x", {}),
    ("a fifo is empty", "FPEEK one x", {}),
    ("a fifo is empty", "SAMPLE x", {}),
    ("a fifo holds more than a million", "more:\nFPUT one x\nJMP @more", {}),
    ("more than a million calls wait", "more:\nAT long 0 one\nJMP @more", {"long": 1.0}),
    ("no time passes", "more:\nJMP @more", {}),
    ("no time passes", "more:\nPAUSE zero\nJMP @more", {}),
    ("a division by zero", "IDIV x one zero", {}),
    ("a division by zero", "IMOD x one zero", {}),
    ("a division by zero", "FDIV x half zero", {"half": 0.5}),
    ("more than 64 bits", "IMUL x big big", {"big": 2**40}),
    ("more than 64 bits", "F2I x huge", {"huge": 1e300}),
    ("negative or not a number", "PAUSE less", {"less": -1.0}),
    ("negative or not a number", "RUN nan", {"nan": math.nan}),
    ("a distribution is unknown", "DRAW x five half", {"five": 5, "half": 0.5}),
    ("a thread must end with END", "RET", {}),
    ("says that it failed", "FAIL 7", {}),
]


@pytest.mark.parametrize(("reason", "source", "given"), ERRORS, ids=lambda x: x if isinstance(x, str) else "")
def test_an_error_ends_the_run_and_names_the_instruction(
    reason: str, source: str, given: dict[str, float]
) -> None:
    assembly = Assembly(f"begin:\nMOV x x\nMOV zero zero\nMOV one one\n{source}\nEND\ncall:\nRET")
    spec = assembly.spec(
        assembly.thread("begin", agent=True, one=1, **given),
        store=[0, 1, 5],
        fifos=[(1, [])],
        tables=[[0.5]],
        functions=[assembly.function("call", 1)],
    )
    with pytest.raises(SimulationError, match=reason) as caught:
        run(spec)
    assert caught.value.at in (3, 4)
    assert caught.value.number == (7 if source == "FAIL 7" else None)


def test_a_function_must_not_wait() -> None:
    assembly = Assembly("begin:\nAT half 0 half\nSLEEP\nEND\ncall:\nPAUSE half\nRET")
    spec = assembly.spec(
        assembly.thread("begin", half=0.5), functions=[assembly.function("call", 1, half=0.5)]
    )
    with pytest.raises(SimulationError, match="must not wait") as caught:
        run(spec)
    assert caught.value.at == assembly.labels["call"]


def broken(**parts: Any) -> dict[str, Any]:
    assembly = Assembly("begin:\nPAUSE x\nJMP @begin")
    return {**assembly.spec(assembly.thread("begin", x=1.0)), **parts}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"code": []}, "no code"),
        ({"code": [[OPCODES["PAUSE"], 0, 0, 0]]}, "must end with JMP"),
        ({"code": [[len(OPCODES), 0, 0, 0]]}, "instruction 0: its opcode"),
        ({"code": [[OPCODES["PAUSE"], 512, 0, 0], [OPCODES["END"], 0, 0, 0]]}, "instruction 0"),
        ({"code": [[OPCODES["JMP"], 0, 9, 0]]}, "instruction 0"),
        ({"code": [[OPCODES["COST"], 0, 9, 0], [OPCODES["END"], 0, 0, 0]]}, "instruction 0"),
        ({"threads": []}, "1 to 1,000,000 threads"),
        ({"threads": [(9, 0, [], -1, False)]}, "outside the code"),
        ({"threads": [(0, 2, [], -1, False)]}, "a group that does not exist"),
        ({"threads": [(0, 0, [], 2, False)]}, "none of the CPUs"),
        ({"threads": [(0, 0, [0] * 513, -1, False)]}, "513 registers"),
        ({"fifos": [(5, [])]}, "1 to 4 words"),
        ({"fifos": [(2, [1])]}, "must fill their words"),
        ({"store": []}, "unused first word"),
        ({"cpus": 65}, "1 to 64 CPUs"),
    ],
    ids=str,
)
def test_a_program_that_names_what_is_not_there_is_refused(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Program(broken(**parts))


def test_a_run_needs_its_prices_and_costs() -> None:
    program = Program(broken())
    for prices, costs in ((FREE[1:], [0.0] * 4), (FREE, [0.0] * 3), ([-1.0, *FREE[1:]], [0.0] * 4)):
        with pytest.raises(ValueError, match="prices"):
            program.run(prices, costs, 1, 0, 10)


BURN = "burn:\nRUN long\nJMP @burn"


def burners(cpus: int, threads: int, span: float, masks: tuple[int, ...] = ()) -> dict[str, Any]:
    assembly = Assembly(BURN)
    slice_ = 0.0007 * min(cpus, 8).bit_length()
    allowed = masks or (-1,) * threads
    made = [assembly.thread("burn", long=0.1, cpus=mask) for mask in allowed]
    scheduler = {"base_slice": slice_, "balance": 0.032 * cpus}
    return run(assembly.spec(*made, cpus=cpus, scheduler=scheduler), span=span)


def test_two_spinners_on_one_cpu_alternate_at_ticks() -> None:
    found = burners(1, 2, 2.0)
    assert found["threads"]["used"] == pytest.approx([1.0, 1.0], abs=TICK)
    assert found["switched"].sum() == pytest.approx(2.0 / TICK, abs=2)


@pytest.mark.parametrize(("cpus", "threads"), [(1, 3), (2, 3), (2, 5), (4, 5), (16, 40)])
def test_threads_that_never_sleep_share_the_cpus_equally(cpus: int, threads: int) -> None:
    shares = burners(cpus, threads, 5.0)["threads"]["used"] / (5.0 * cpus / threads)
    assert shares.sum() == pytest.approx(threads, rel=1e-6)  # no CPU idled
    assert shares == pytest.approx(1.0, abs=0.1)


def test_threads_stay_on_the_cpus_that_they_may_use() -> None:
    used = burners(2, 3, 5.0, masks=(1, 1, 2))["threads"]["used"]
    assert used == pytest.approx([2.5, 2.5, 5.0], abs=2 * TICK)


def visitor(seconds: float, first: bool) -> dict[str, float]:
    """A thread beside a spinner on one CPU computes, sleeps for 0.1 ms, and computes again: when it slept and came back."""
    source = "visit:\nRUN some\nNOW t\nDONE one t t\nPAUSE moment\nRUN little\nNOW t\nDONE one t t\nEND\n"
    assembly = Assembly(source + BURN)
    visit = assembly.thread("visit", some=seconds, moment=1e-4, little=1e-6)
    burn = assembly.thread("burn", long=0.1)
    spec = assembly.spec(*([visit, burn] if first else [burn, visit]), scheduler={"base_slice": 7e-4})
    slept, came = run(spec, replies=2)["responses"]
    return {"slept": slept, "came": came}


def test_a_woken_thread_that_is_owed_time_preempts_at_once() -> None:
    # the spinner had a whole slice, until the tick at 4 ms, and the visitor only 0.2 ms
    visit = visitor(2e-4, first=False)
    assert visit["slept"] == pytest.approx(4.2e-3, abs=1e-9)
    assert visit["came"] == pytest.approx(4.3e-3 + 1e-6, abs=1e-9)


def test_a_woken_thread_that_had_more_than_its_share_waits_its_turn() -> None:
    # the visitor had 3 ms and the spinner 0.1 ms when it wakes, and 1 ms at the next tick: its turn is at the second
    visit = visitor(3e-3, first=True)
    assert visit["slept"] == pytest.approx(3e-3, abs=1e-9)
    assert visit["came"] == pytest.approx(8e-3 + 1e-6, abs=1e-9)


PING = """
ping:
  WAKE price other local
  RUN price
  SLEEP
  DONE i price price
  JMP @ping
pong:
  SLEEP
  WAKE price other local
  RUN price
  JMP @pong
"""


def test_waking_is_paid_as_the_machine_charges() -> None:
    """Two threads that wake each other: each wake interrupts a halted CPU, and costs the waker, the sleeper and a delay."""
    assembly = Assembly(PING)
    threads = assembly.thread("ping", other=2), assembly.thread("pong", other=1, group=1)
    found = run(assembly.spec(*threads, cpus=2), replies=1000, warm=100, prices=PRICES)
    waker, sleeper, latency = PRICES[:3]
    assert found["responses"] == pytest.approx(waker)
    assert found["span"] == pytest.approx(1000 * 2 * (latency + sleeper), rel=1e-6)
    assert found["used"] == pytest.approx([1000 * (waker + sleeper)] * 2, rel=1e-2)
    assert found["slept"].tolist() == pytest.approx([1000, 1000], abs=1)


def test_a_spinner_burns_until_it_is_released_and_a_follower_waits_for_it_to_run() -> None:
    source = """
    spin:
      SPIN
      NOW t
      DONE one t t
      JMP @spin
    free:
      PAUSE moment
      SPINNING x other
      RUNNING y other
      SLEEPING z other
      RELEASE other
      IADD x x y
      IADD x x z
      DONE x t t
      JMP @free
    """
    assembly = Assembly(source)
    threads = assembly.thread("spin", one=1), assembly.thread("free", agent=True, other=1, moment=0.5)
    found = run(assembly.spec(*threads), replies=20)
    assert found["operations"].tolist() == [2, 1] * 10
    assert found["responses"][1::2] == pytest.approx(np.arange(1, 11) * 0.5)
    assert found["used"][0] == pytest.approx(5.0)


def test_a_follower_goes_on_when_the_other_gets_a_cpu() -> None:
    source = "other:\nPAUSE moment\nRUN moment\nEND\nfollow:\nFOLLOW other\nNOW t\nDONE i t t\nEND"
    assembly = Assembly(source)
    threads = assembly.thread("other", moment=0.5), assembly.thread("follow", other=1)
    assert run(assembly.spec(*threads, cpus=2), replies=1)["responses"] == pytest.approx([0.5])


CLOSED = """
client:
  DRAW t kind think
  PAUSE t
  NOW begin
  ENTER
acquire:
  LOAD count pool 0
  JT count @got
  LOAD f pool 1
  FPUT f me
  SLEEP
  JMP @acquire
got:
  ISUB count count one
  STORE pool 0 count
  DRAW t kind service
  PAUSE t
  LOAD count pool 0
  IADD count count one
  STORE pool 0 count
  LOAD f pool 1
  FLEN n f
  JF n @done
  FTAKE f who
  WAKE price who zero
done:
  NOW end
  FSUB end end begin
  COUNT 1 unit
  DONE op end end
  JMP @client
"""


def closed(clients: int, servers: int, think: float) -> Program:
    """Clients that think and then need one of the servers for 1 s, which they leave in the order of coming."""
    assembly = Assembly(CLOSED)
    threads = [
        assembly.thread(
            "client", agent=True, kind=1, think=think, service=1.0, pool=1, one=1, unit=1.0, me=k + 1
        )
        for k in range(clients)
    ]
    return Program(assembly.spec(*threads, store=[0, servers, 1], fifos=[(1, [])]))


@pytest.mark.parametrize(
    ("clients", "servers", "think"), [(2, 1, 1.0), (10, 2, 4.0), (50, 4, 10.0), (400, 50, 7.0)]
)
def test_a_closed_queue_is_as_theory_says(clients: int, servers: int, think: float) -> None:
    exact = closed_multiserver(clients=clients, workers=servers, think=think, demand=1.0)
    program = closed(clients, servers, think)
    runs = [program.run(FREE, [0.0] * 4, seed, 2000, 40000) for seed in range(16)]
    rates = interval([len(x["responses"]) / x["span"] for x in runs], level=0.999)
    means = interval([float(x["responses"].mean()) for x in runs], level=0.999)
    for found, truth in ((rates, exact.throughput), (means, exact.response)):
        assert found.low <= truth <= found.high
        assert found.high - found.low < 0.05 * truth
    for x in runs:
        assert x["in_system"] * x["span"] == pytest.approx(x["responses"].sum(), rel=0.05)
        assert x["counters"][1] == pytest.approx(len(x["responses"]), abs=1)
        assert x["finished"]


def test_the_same_seed_gives_the_same_run_also_in_parallel() -> None:
    program = closed(20, 3, 5.0)

    def once(seed: int) -> Any:
        return program.run(FREE, [0.0] * 4, seed, 100, 20000)["responses"]

    serial = [once(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        parallel = list(pool.map(once, range(8)))
    assert all((a == b).all() for a, b in zip(serial, parallel, strict=True))
    assert not (serial[0] == serial[1]).all()


def test_python_goes_on_while_a_simulation_runs() -> None:
    program = closed(20, 3, 5.0)

    def attempt() -> None:
        runner = threading.Thread(target=lambda: program.run(FREE, [0.0] * 4, 1, 0, 10**9, until=0.4))
        begun, slots = time.perf_counter(), set()
        runner.start()
        while runner.is_alive():
            slots.add(int((time.perf_counter() - begun) / 5e-3))
        runner.join()
        # a run that held the interpreter's lock would let it go eight times
        assert len(slots) > 12

    trials.patiently(attempt)


def test_a_run_ends_at_its_span_or_when_time_is_up_or_nothing_more_happens() -> None:
    program = closed(5, 1, 1.0)
    found = program.run(FREE, [0.0] * 4, 1, 10, 10**9, span=50.0)
    assert found["span"] == pytest.approx(50.0) and found["finished"]
    found = program.run(FREE, [0.0] * 4, 1, 10, 10**9, until=0.05)
    assert found["span"] > 0 and not found["finished"]
    assembly = Assembly("begin:\nPAUSE x\nDONE i x x\nEND")
    found = run(assembly.spec(assembly.thread("begin", x=1.0)), replies=5)
    assert len(found["responses"]) == 1 and not found["finished"]


def memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_runs_give_their_memory_back() -> None:
    assembly = Assembly(
        "begin:\nFPUT one x\nAT x 0 x\nIADD n n one\nJILT n many @begin\nFTAKE none x\nEND\ncall:\nRET"
    )
    thread = assembly.thread("begin", agent=True, one=1, many=100_000, x=1.0)
    program = Program(assembly.spec(thread, fifos=[(1, [])], functions=[assembly.function("call", 1)]))
    sizes = []
    for _ in range(40):
        with pytest.raises(SimulationError, match="None"):
            program.run(FREE, [0.0] * 4, 1, 0, 10)
        closed(50, 4, 1.0).run(FREE, [0.0] * 4, 1, 0, 20000)
        sizes.append(memory())
    assert sizes[-1] - sizes[9] < 8e6  # each failed run held 5 MB
