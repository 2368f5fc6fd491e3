"""What the simulated machine charges, and the constants of its kernel's scheduler; either engine's machine keeps to them.

CPUs. Each CPU has its own run queue, in the order of the kernel's fair scheduler since 6.6 (earliest eligible
virtual deadline first: Stoica and Abdel-Wahab 1995), with equal weights. A thread is eligible while it has
had no more than the average of its queue. The eligible thread with the earliest deadline runs, until it
blocks, or a woken thread finds it no longer eligible, or it has used up its slice at a timer tick. A thread
that blocks keeps its lag: what it was owed it is owed when it wakes; what it had too much is worked off by
staying in the queue's average until the others have caught up.

Placing. A woken thread goes to its last CPU if that is idle, else to the first idle one of a few others, else it
queues at its last CPU. How few falls with the use of the machine, as the kernel limits its search (SIS_UTIL, Chen Yu
2022). A CPU that becomes idle takes a thread that waits elsewhere only if that has not run there lately. Where threads
begin is a lottery, and with these rules they mostly stay there.

Waking an idle CPU costs the waker an interrupt, the sleeper the way back, and both a latency; on a busy CPU the sleeper
pays a switch. A CPU that has been idle for longer has halted, and the way back begins with an exit from the halt, the
longer the deeper it is. Halted or not, the longer it rests the less is left in its caches, until after some milliseconds
nothing is: then each thread, and each connection, that it comes back to must be fetched again. What threads hand to each
other is dearer between two CPUs than on one. The prices are measured by calibration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

HALTS = 0.0002  # for so long the host of a virtual CPU polls before it halts it (KVM's halt_poll_ns by default), s
COOLS = (
    0.005  # after so long an idle CPU is as cold as it gets: longer pauses were measured to cost no more, s
)
FADES = 0.75  # power of the time by which it does: costs after 0.1, 1 and 5 ms of rest were measured as 5, 30 and 100 %


def cooled(idle: float, cools: float = COOLS) -> float:
    """Share of its warmth that a CPU has lost in so many s of rest."""
    if idle <= 0:
        return 0.0
    return float((idle / cools) ** FADES) if idle < cools else 1.0


def depth(idle: float, halts: float = HALTS, cools: float = COOLS) -> float:
    """How deep a CPU's halt is after so many s of rest, as their logarithm: 0 before it halts, 1 when it has cooled."""
    if idle <= halts:
        return 0.0
    return 1.0 if idle >= cools else math.log(idle / halts) / math.log(cools / halts)


@dataclass(frozen=True, slots=True)
class Prices:
    """What the machine itself charges, s; the costs machine.NAME.

    Attributes
    ----------
    wake_waker : float
        Processor time of whoever wakes a thread onto a halted CPU.
    wake_sleeper : float
        Processor time of the thread so woken, from the halt to its next instruction, its way to sleep
        included.
    wake_latency : float
        Delay before that processor time starts.
    halted_latency : float
        Delay more once the CPU has halted.
    cooling_waker, cooling_sleeper, cooling_latency : float
        What each of the three grows by until the CPU's halt is as deep as it gets.
    halts : float
        For how long an idle CPU stays awake.
    cools : float
        After how long it is as cold as it gets.
    cold_thread : float
        Processor time that a thread needs more to go on where the CPU has cooled since it last ran there, beyond what waking
        the CPU costs.
    cold_connection : float
        Processor time that a message costs more whose connection the CPU has rested that long since.
    wake_remote : float
        What waking a thread on another busy CPU costs the waker more: an interrupt there.
    remote : float
        Processor time that a message costs more whose sender ran on another CPU: its lines must come from there.
    contact : float
        What the first message of a batch costs more, the sender to put it and the receiver to find it, between two CPUs.
    wake_socket, wake_futex : float
        Processor time of whoever wakes a thread onto a busy CPU, by a socket or by a semaphore.
    switch : float
        Processor time to change to another thread on a busy CPU.
    block : float
        Processor time that a sleep costs beyond that on a busy CPU: the system call, and a cold start.
    """

    wake_waker: float = 0.0
    wake_sleeper: float = 0.0
    wake_latency: float = 0.0
    wake_socket: float = 0.0
    wake_futex: float = 0.0
    switch: float = 0.0
    block: float = 0.0
    halted_latency: float = 0.0
    cooling_waker: float = 0.0
    cooling_sleeper: float = 0.0
    cooling_latency: float = 0.0
    halts: float = HALTS
    wake_remote: float = 0.0
    remote: float = 0.0
    contact: float = 0.0
    cools: float = COOLS
    cold_thread: float = 0.0
    cold_connection: float = 0.0

    @classmethod
    def of(cls, costs: Mapping[str, float]) -> Prices:
        """Those among the costs; what is not there is free."""
        return cls(*(costs.get(f"machine.{field.name}", getattr(FREE, field.name)) for field in fields(cls)))


FREE = Prices()
PRICES = tuple(field.name for field in fields(Prices))
NEEDED = PRICES[:7]  # of halts and of distances, a machine may know nothing


SEARCH = 1.17**2  # how the search for an idle CPU narrows with the square of the machine's use
HALF_LIFE = 0.032  # of what is known about that use, s


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Constants of the kernel's scheduler, s.

    Attributes
    ----------
    base_slice : float
        Slice of a thread (0.7 ms × (1 + log2 CPUs), at most three doublings).
    tick : float
        Period of the timer interrupt, at which used-up slices end.
    hot : float
        A thread that ran so recently is left alone by a CPU that becomes idle.
    balance : float
        Time between two moves that make no load even, only turns (16 ms a CPU, the second try succeeds).
    stays : float
        Time after a move of a CPU's threads before one that is still hot is moved (the kernel tries several times).
    """

    base_slice: float
    tick: float = 0.004
    hot: float = 0.0005
    balance: float = 0.064
    stays: float = 0.1

    @classmethod
    def of(cls, cpus: int, hz: int = 250) -> Scheduler:
        return cls(0.0007 * min(cpus, 8).bit_length(), tick=1 / hz, balance=0.032 * cpus)

    @property
    def lag_limit(self) -> float:
        """What a thread that blocks keeps of its lag at most, s."""
        return max(2 * self.base_slice, self.tick)
