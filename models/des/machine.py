"""Threads on CPUs in simulated time: run queues, time slices, sleeping and waking, as Linux does it.

A thread of the modelled program is a SimPy process that yields what it does:

    yield thread.run(seconds)     use so much processor time
    yield thread.sleep()          give up the CPU until somebody calls machine.wake(thread)
    yield thread.spin()           burn the CPU until somebody calls machine.release(thread)

An operation takes effect when it ends: what the program does after a yield happens at that moment.

CPUs. Each CPU has its own run queue, in the order of the kernel's fair scheduler since 6.6 (earliest eligible
virtual deadline first: Stoica and Abdel-Wahab 1995), with equal weights. A thread is eligible while it has
had no more than the average of its queue. The eligible thread with the earliest deadline runs, until it
blocks, or a woken thread finds it no longer eligible, or it has used up its slice at a timer tick. A thread
that blocks keeps its lag: what it was owed it is owed when it wakes; what it had too much is worked off by
staying in the queue's average until the others have caught up.

Waking. A thread goes to its last CPU if that is idle, else to any idle one, else to the less loaded of its
last CPU and the waker's. Waking a halted CPU costs the waker an interrupt, the sleeper the way out of the
halt, and both a latency; on a busy CPU the sleeper pays a switch. The prices are in `Prices`, measured by
calibration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import simpy

from models.des.cpu import Cpu, Program, Thread, Timer


@dataclass(frozen=True, slots=True)
class Prices:
    """What the machine itself charges, s.

    Attributes
    ----------
    wake_waker : float
        Processor time of whoever wakes a thread onto a halted CPU.
    wake_sleeper : float
        Processor time of the thread so woken, from the halt to its next instruction, its way to sleep
        included.
    wake_latency : float
        Delay before that processor time starts.
    wake_socket, wake_futex : float
        Processor time of whoever wakes a thread onto a busy CPU, by a socket or by a semaphore.
    switch : float
        Processor time to change to another thread on a busy CPU.
    block : float
        Processor time that a sleep costs beyond that on a busy CPU: the system call, and a cold start.
    """

    wake_waker: float
    wake_sleeper: float
    wake_latency: float
    wake_socket: float
    wake_futex: float
    switch: float
    block: float


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
        A thread that ran so recently is left alone by a CPU that becomes idle, but for a share of times:
    pull : float
        How often a CPU that becomes idle takes a waiting thread that is still hot, 0 to 1. The kernel decides it by how
        that has paid so far, which is not modelled: calibration finds the share.
    balance : float
        Time between two moves that make no load even, only turns (16 ms a CPU, the second try succeeds).
    packs : bool
        A thread whose last CPU is busy is woken there or on the waker's CPU even when another is idle, as
        kernels do that are told to keep virtual CPUs halted.
    """

    base_slice: float
    tick: float = 0.004
    hot: float = 0.0005
    balance: float = 0.064
    packs: bool = False
    pull: float = 0.0

    @classmethod
    def of(cls, cpus: int, hz: int = 250, packs: bool = False, pull: float = 0.0) -> Scheduler:
        slice_ = 0.0007 * min(cpus, 8).bit_length()
        return cls(slice_, tick=1 / hz, balance=0.032 * cpus, packs=packs, pull=pull)

    @property
    def lag_limit(self) -> float:
        return max(2 * self.base_slice, self.tick)


def _last_ran(thread: Thread) -> float:
    return thread.last_ran


def _need(cpu: Cpu) -> tuple[int, float]:
    return cpu.load, cpu.balanced


class Machine:
    """CPUs, their threads, and the clock.

    Parameters
    ----------
    env : simpy.Environment
    cpus : int
    prices : Prices
    scheduler : Scheduler

    Attributes
    ----------
    on_preempt, on_dispatch : dict of Thread to callable
        Called when that thread loses its CPU while it could run on, and when it gets one.
    """

    def __init__(
        self, env: simpy.Environment, cpus: int, prices: Prices, scheduler: Scheduler | None = None
    ) -> None:
        self.env = env
        self.prices = prices
        self.scheduler = scheduler or Scheduler.of(cpus)
        self.lag_limit = self.scheduler.lag_limit
        self.cpus = [Cpu(self, i) for i in range(cpus)]
        self.threads: list[Thread] = []
        self._pulls = 0.0
        self.on_preempt: dict[Thread, Callable[[], None]] = {}
        self.on_dispatch: dict[Thread, Callable[[], None]] = {}

    def at(self, delay: float, call: Callable[[Timer], object], token: int = 0) -> None:
        """Calls back after a delay, s, with the timer that holds the token."""
        Timer(self.env, delay, call, token)

    def spawn(self, name: str, group: str, program: Callable[[Thread], Program]) -> Thread:
        """Starts a thread; it first runs when the simulation does."""
        thread = Thread(self, name, group, self.cpus[len(self.threads) % len(self.cpus)])
        self.threads.append(thread)
        self.at(0.0, lambda _: thread.begin(program))
        return thread

    def wake(self, thread: Thread, waker: Thread | None, local: float = 0.0, sync: bool = False) -> float:
        """Makes a sleeping thread runnable; what it costs the waker, s, to be run by it next.

        Parameters
        ----------
        thread, waker : Thread
            Nobody wakes for a timer.
        local : float
            What it costs the waker when no halted CPU has to be interrupted, s.
        sync : bool
            The waker is about to sleep, as sockets suppose: with no idle CPU and nobody else on the waker's,
            the woken thread is put there.
        """
        if thread.state != "sleeping":
            thread.wake_pending = True
            return 0.0
        if thread in thread.cpu.owing:
            thread.lag = min(0.0, thread.cpu.average() - thread.vruntime)
            thread.cpu.owing.remove(thread)
        cpu = self._choose(thread.cpu, waker.cpu if waker is not None else thread.cpu, sync)
        self.place(thread, cpu)
        if not cpu.free:
            thread.need = self.prices.block
            cpu.enqueue(thread)
            return local
        cpu.current = thread
        thread.cpu = cpu
        thread.state = "running"
        thread.need = self.prices.wake_sleeper
        cpu.started = self.env.now + self.prices.wake_latency
        cpu.token += 1
        self.at(self.prices.wake_latency + self.prices.wake_sleeper, cpu.finished, cpu.token)
        return self.prices.wake_waker

    def place(self, thread: Thread, cpu: Cpu) -> None:
        """Enters a thread into a queue's virtual time with its lag, which its own weight must not thin."""
        others = cpu.load + len(cpu.owing)
        lag = thread.lag * (others + 1) / others if others else 0.0
        thread.vruntime = cpu.average() - lag
        thread.deadline = thread.vruntime + self.scheduler.base_slice

    def _choose(self, last: Cpu, here: Cpu, sync: bool) -> Cpu:
        if last.free:
            return last
        if not self.scheduler.packs or last.load > 1:
            for cpu in self.cpus:
                if cpu.free:
                    return cpu
        if sync and here.load == 1:
            return here
        return here if here.load < last.load else last

    def move(self, thread: Thread, cpu: Cpu) -> None:
        """Moves a queued thread to another CPU's queue."""
        origin = thread.cpu
        thread.lag = origin.average() - thread.vruntime
        origin.queue.remove(thread)
        self.place(thread, cpu)
        thread.cpu = cpu
        cpu.queue.append(thread)

    def pull(self, idle: Cpu) -> None:
        """A CPU about to go idle takes the thread that has waited longest elsewhere, if that is no longer hot in the other's
        cache, or if it is the turn of a hot one."""
        busiest = max(self.cpus, key=lambda cpu: len(cpu.queue))
        if not busiest.queue:
            return
        longest = min(busiest.queue, key=_last_ran)
        if self.env.now - longest.last_ran < self.scheduler.hot:
            self._pulls += self.scheduler.pull
            if self._pulls < 1:
                return
            self._pulls -= 1
        self.move(longest, idle)

    def balance(self, busy: Cpu) -> None:
        """At a tick: who has waited longest here goes to an idle CPU, to a much less loaded one, or, now and then, to one
        with a single thread less: three that never sleep share two CPUs fairly by going round."""
        now = self.env.now
        for other in sorted(self.cpus, key=_need):
            gap = busy.load - other.load
            due = now - busy.balanced >= self.scheduler.balance
            if other is busy or not (other.load == 0 or gap >= 2 or (gap == 1 and due)):
                continue
            busy.balanced = other.balanced = now
            self.move(min(busy.queue, key=_last_ran), other)
            if other.current is None:
                other.pick()
            elif not other.ticking:
                other.tick_on()
            if not busy.queue:
                return

    def release(self, thread: Thread) -> None:
        """Ends a thread's spinning: at once if it holds a CPU, else as soon as it gets one."""
        if not thread.spinning:
            return
        thread.spinning = False
        if thread.state == "running":
            thread.cpu.charge()
            thread.need = 0.0
            thread.cpu.resume()
        else:
            thread.need = 0.0
