"""Threads on CPUs in simulated time: run queues, time slices, sleeping and waking, as Linux does it.

A thread of the modelled program is a SimPy process that yields what it does:

    yield thread.run(seconds)     use so much processor time
    yield thread.sleep()          give up the CPU until somebody calls machine.wake(thread)
    yield thread.spin()           burn the CPU until somebody calls machine.release(thread)

An operation takes effect when it ends: what the program does after a yield happens at that moment.

CPUs. Each CPU has its own run queue, in the order of the kernel's fair scheduler since 6.6 (earliest eligible virtual
deadline first: Stoica and Abdel-Wahab 1995), with equal weights. A thread is eligible while it has had no more than the
average of its queue. The eligible thread with the earliest deadline runs, until it blocks, or a woken thread finds it no
longer eligible, or it has used up its slice at a timer tick. A thread that blocks keeps its lag: what it was owed it is
owed when it wakes; what it had too much is worked off by staying in the queue's average until the others have caught up.

Waking. A thread goes to its last CPU if that is idle, else to any idle one, else to the less loaded of its last CPU and
the waker's. Waking a halted CPU costs the waker an interrupt, the sleeper the way out of the halt, and both a latency; on
a busy CPU the sleeper pays a switch. The prices are in `Prices`, measured by calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import simpy
from simpy.events import Event

Program = Generator[Event, Any, None]


@dataclass(frozen=True, slots=True)
class Prices:
    """What the machine itself charges, s.

    Attributes
    ----------
    wake_waker : float
        Processor time of whoever wakes a thread onto a halted CPU.
    wake_sleeper : float
        Processor time of the thread so woken, from the halt to its next instruction, its way to sleep included.
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
        A thread that ran so recently is not pulled by a CPU that becomes idle.
    packs : bool
        A thread whose last CPU is busy is woken there or on the waker's CPU even when another is idle, as kernels do
        that are told to keep virtual CPUs halted.
    """

    base_slice: float
    tick: float = 0.004
    hot: float = 0.0005
    packs: bool = False

    @classmethod
    def of(cls, cpus: int, hz: int = 250, packs: bool = False) -> Scheduler:
        return cls(base_slice=0.0007 * min(cpus, 8).bit_length(), tick=1 / hz, packs=packs)

    @property
    def lag_limit(self) -> float:
        return max(2 * self.base_slice, self.tick)


class _Fired(Event):
    """An event that its owner fires at once, without a place in SimPy's queue."""

    def fire(self) -> None:
        self._ok, self._value = True, None
        callbacks, self.callbacks = self.callbacks, None  # type: ignore[assignment]
        for callback in callbacks:
            callback(self)


class Thread:
    """A thread of the modelled program; made by Machine.spawn.

    Attributes
    ----------
    used, slept, switched : float, int, int
        Processor time so far, s; times it slept; times it lost its CPU while it could have run on.
    """

    __slots__ = (
        "cpu", "deadline", "done", "group", "lag", "last_ran", "machine", "name", "need", "process", "slept",
        "spinning", "state", "switched", "used", "vruntime", "wake_pending",
    )  # fmt: skip

    def __init__(self, machine: Machine, name: str, group: str, cpu: Cpu) -> None:
        self.machine, self.name, self.group, self.cpu = machine, name, group, cpu
        self.need = 0.0
        self.done: _Fired | None = None
        self.spinning = False
        self.state = "sleeping"
        self.vruntime = self.deadline = self.lag = 0.0
        self.last_ran = -1.0
        self.used, self.slept, self.switched = 0.0, 0, 0
        self.wake_pending = False

    def run(self, seconds: float) -> Event:
        """Uses so much processor time."""
        self.done = _Fired(self.machine.env)
        self.need += seconds
        if self.state == "running":
            self.cpu.resume()
        return self.done

    def sleep(self) -> Event:
        """Gives up the CPU until Machine.wake; a wake that came since the last sleep ends it at once."""
        self.done = _Fired(self.machine.env)
        if self.wake_pending:
            self.wake_pending = False
            if self.state == "running":
                self.cpu.resume()
            return self.done
        self.slept += 1
        if self.state == "running":
            self.cpu.block()
        else:
            self.cpu.queue.remove(self)
            self.cpu.part(self)
        return self.done

    def spin(self) -> Event:
        """Burns the CPU until Machine.release; the thread can be preempted and goes on burning afterwards."""
        self.done = _Fired(self.machine.env)
        self.spinning = True
        self.need = float("inf")
        if self.state == "running":
            self.cpu.resume()
        return self.done

    def birth(self) -> Event:
        """What a thread waits for before it has ever run."""
        self.done = _Fired(self.machine.env)
        return self.done


class Cpu:
    """One processor and its run queue.

    Attributes
    ----------
    queue : list of Thread
        Threads that could run here.
    owing : list of Thread
        Threads that sleep but have had more than their share, and still count in the average.
    """

    __slots__ = ("current", "index", "machine", "owing", "queue", "started", "ticking", "token", "virtual")

    def __init__(self, machine: Machine, index: int) -> None:
        self.machine, self.index = machine, index
        self.current: Thread | None = None
        self.queue: list[Thread] = []
        self.owing: list[Thread] = []
        self.started = 0.0
        self.token = 0
        self.ticking = False
        self.virtual = 0.0

    @property
    def load(self) -> int:
        """Threads that run or could."""
        return len(self.queue) + (self.current is not None)

    def average(self) -> float:
        """Mean virtual time of the threads that count here; of the last one when there is none."""
        total, count = 0.0, 0
        if self.current is not None:
            total, count = self.current.vruntime, 1
        for thread in self.queue:
            total += thread.vruntime
        for thread in self.owing:
            total += thread.vruntime
        count += len(self.queue) + len(self.owing)
        return total / count if count else self.virtual

    def charge(self) -> None:
        """Brings the current thread's accounts up to now."""
        thread, now = self.current, self.machine.env.now
        if thread is None or now <= self.started:
            return
        ran = now - self.started
        thread.used += ran
        thread.vruntime += ran
        thread.need -= ran
        self.started = now

    def resume(self) -> None:
        """Lets the current thread go on with what it needs."""
        thread = self.current
        assert thread is not None
        self.started = self.machine.env.now
        self.token += 1
        if thread.need != float("inf"):
            self.machine.at(thread.need if thread.need > 0 else 0.0, self._finished, self.token)

    def _finished(self, token: int) -> None:
        if token != self.token:
            return
        self.charge()
        thread = self.current
        assert thread is not None and thread.done is not None
        thread.need = 0.0
        thread.done.fire()

    def block(self) -> None:
        """Takes the current thread off the CPU; another is picked, pulled, or the CPU goes idle."""
        self.charge()
        thread = self.current
        assert thread is not None
        self.current = None
        self.token += 1
        self.part(thread)
        if not self.queue:
            self.machine.pull(self)
        self.pick()

    def part(self, thread: Thread) -> None:
        """A thread goes to sleep: what it is owed is kept, what it owes keeps it in the average."""
        others = len(self.queue) + len(self.owing) + (self.current is not None)
        average = (self.average() * others + thread.vruntime) / (others + 1) if others else thread.vruntime
        limit = self.machine.scheduler.lag_limit
        thread.lag = max(-limit, min(limit, average - thread.vruntime))
        thread.state = "sleeping"
        thread.need = 0.0
        thread.last_ran = self.machine.env.now
        self.virtual = average
        if thread.lag < 0 and others:
            self.owing.append(thread)

    def settle(self, average: float) -> None:
        """Lets go of sleepers that the others have caught up with; of all of them when nobody else is left."""
        alone = self.current is None and not self.queue
        for thread in [t for t in self.owing if alone or t.vruntime <= average]:
            self.owing.remove(thread)
            thread.lag = 0.0

    def pick(self) -> None:
        """Gives the free CPU to the eligible thread with the earliest deadline, if there is one."""
        if self.owing:
            self.virtual = self.average()
            self.settle(self.virtual)
        if not self.queue:
            return
        chosen = self.best()
        self.queue.remove(chosen)
        self.dispatch(chosen)

    def best(self) -> Thread:
        """Of the queue, the eligible thread with the earliest deadline."""
        if len(self.queue) == 1:
            return self.queue[0]
        average = self.average() + 1e-12
        eligible = [t for t in self.queue if t.vruntime <= average]
        return min(eligible or self.queue, key=_deadline)

    def dispatch(self, thread: Thread) -> None:
        self.current = thread
        thread.cpu = self
        thread.state = "running"
        thread.need += self.machine.prices.switch
        if thread.vruntime >= thread.deadline:
            thread.deadline = thread.vruntime + self.machine.scheduler.base_slice
        self.resume()
        if thread in self.machine.on_dispatch:
            self.machine.on_dispatch[thread]()

    def enqueue(self, thread: Thread) -> None:
        """A thread becomes runnable here while another runs, and takes the CPU if that one has had its share."""
        thread.state = "queued"
        thread.cpu = self
        self.queue.append(thread)
        self.tick_on()
        if self.current is None:
            return
        self.charge()
        if self._must_yield(self.current) and self.best() is thread:
            self.preempt(thread)

    def _must_yield(self, thread: Thread) -> bool:
        """The running thread is no longer eligible, or has used up its slice."""
        if thread.vruntime >= thread.deadline:
            thread.deadline = thread.vruntime + self.machine.scheduler.base_slice
            return True
        average = self.average()
        if self.owing:
            self.settle(average)
            average = self.average()
        return thread.vruntime > average + 1e-12

    def preempt(self, successor: Thread) -> None:
        """Puts the current thread back into the queue in favour of another."""
        thread = self.current
        assert thread is not None
        thread.switched += 1
        thread.state = "queued"
        thread.last_ran = self.machine.env.now
        if thread in self.machine.on_preempt:
            self.machine.on_preempt[thread]()
        self.current = None
        self.token += 1
        self.queue.remove(successor)
        self.queue.append(thread)
        self.dispatch(successor)

    def tick_on(self) -> None:
        """Starts the timer tick, which is simulated only while somebody waits for this CPU."""
        if self.ticking:
            return
        self.ticking = True
        tick, now = self.machine.scheduler.tick, self.machine.env.now
        offset = tick * self.index / len(self.machine.cpus)
        self.machine.at(tick - (now - offset) % tick, self._tick, 0)

    def _tick(self, _: int) -> None:
        if not self.queue:
            self.ticking = False
            return
        self.machine.at(self.machine.scheduler.tick, self._tick, 0)
        self.machine.balance(self)
        if not self.queue or self.current is None:
            return
        self.charge()
        if self._must_yield(self.current):
            best = self.best()
            average = self.average() + 1e-12
            if self.current.vruntime > average or best.deadline < self.current.deadline:
                self.preempt(best)


def _deadline(thread: Thread) -> float:
    return thread.deadline


def _last_ran(thread: Thread) -> float:
    return thread.last_ran


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

    def __init__(self, env: simpy.Environment, cpus: int, prices: Prices, scheduler: Scheduler | None = None) -> None:
        self.env = env
        self.prices = prices
        self.scheduler = scheduler or Scheduler.of(cpus)
        self.cpus = [Cpu(self, i) for i in range(cpus)]
        self.threads: list[Thread] = []
        self.on_preempt: dict[Thread, Callable[[], None]] = {}
        self.on_dispatch: dict[Thread, Callable[[], None]] = {}

    def at(self, delay: float, call: Callable[[int], None], token: int) -> None:
        """Calls back after a delay."""
        timeout = self.env.timeout(delay, token)
        timeout.callbacks.append(lambda event: call(event._value))

    def spawn(self, name: str, group: str, program: Callable[[Thread], Program]) -> Thread:
        """Starts a thread; it first runs when the simulation does."""
        thread = Thread(self, name, group, self.cpus[len(self.threads) % len(self.cpus)])
        self.threads.append(thread)

        def body() -> Program:
            yield thread.birth()
            yield from program(thread)

        thread.process = self.env.process(body())
        self.at(0.0, lambda _: self._begin(thread), 0)
        return thread

    def _begin(self, thread: Thread) -> None:
        self.wake(thread, None)

    def wake(self, thread: Thread, waker: Thread | None, local: float = 0.0, sync: bool = False) -> float:
        """Makes a sleeping thread runnable; what it costs the waker, s, to be run by it next.

        Parameters
        ----------
        thread, waker : Thread
            Nobody wakes for a timer.
        local : float
            What it costs the waker when no halted CPU has to be interrupted, s.
        sync : bool
            The waker is about to sleep, as sockets suppose: with no idle CPU and nobody else on the waker's, the woken
            thread is put there.
        """
        if thread.state != "sleeping":
            thread.wake_pending = True
            return 0.0
        if thread in thread.cpu.owing:
            thread.lag = min(0.0, thread.cpu.average() - thread.vruntime)
            thread.cpu.owing.remove(thread)
        cpu = self._choose(thread.cpu, waker.cpu if waker is not None else thread.cpu, sync)
        self.place(thread, cpu)
        if cpu.load:
            thread.need = self.prices.block
            cpu.enqueue(thread)
            return local
        cpu.current = thread
        thread.cpu = cpu
        thread.state = "running"
        thread.need = self.prices.wake_sleeper
        cpu.started = self.env.now + self.prices.wake_latency
        cpu.token += 1
        self.at(self.prices.wake_latency + self.prices.wake_sleeper, cpu._finished, cpu.token)
        return self.prices.wake_waker

    def place(self, thread: Thread, cpu: Cpu) -> None:
        """Enters a thread into a queue's virtual time with its lag, which its own weight must not thin."""
        others = cpu.load + len(cpu.owing)
        lag = thread.lag * (others + 1) / others if others else 0.0
        thread.vruntime = cpu.average() - lag
        thread.deadline = thread.vruntime + self.scheduler.base_slice

    def _choose(self, last: Cpu, here: Cpu, sync: bool) -> Cpu:
        if last.load == 0:
            return last
        if not self.scheduler.packs or last.load > 1:
            for cpu in self.cpus:
                if cpu.load == 0:
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
        """A CPU about to go idle takes a thread that waits elsewhere and is no longer hot in that CPU's cache."""
        busiest = max(self.cpus, key=lambda cpu: len(cpu.queue))
        now, hot = self.env.now, self.scheduler.hot
        cold = [t for t in busiest.queue if now - t.last_ran >= hot]
        if cold:
            self.move(min(cold, key=_last_ran), idle)

    def balance(self, busy: Cpu) -> None:
        """At a tick: an idle CPU takes who has waited longest here; a much less loaded one takes one as well."""
        for other in self.cpus:
            if other.load == 0 or (other is not busy and busy.load - other.load >= 2):
                self.move(min(busy.queue, key=_last_ran), other)
                if other.current is None:
                    other.pick()
                else:
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
