"""Threads on CPUs in simulated time: run queues, time slices, sleeping and waking, as Linux does it.

A thread of the modelled program is a SimPy process that yields what it does:

    yield thread.run(seconds)     use so much processor time
    yield thread.sleep()          give up the CPU until somebody calls machine.wake(thread)
    yield thread.spin()           burn the CPU until somebody calls machine.release(thread)

An operation takes effect when it ends: what the program does after a yield happens at that moment.

CPUs. Each CPU has its own run queue; a thread runs until it blocks or its slice is over. The order is that of the
kernel's fair scheduler since 6.6 (earliest eligible virtual deadline first: Stoica and Abdel-Wahab 1995): a thread is
eligible while it has had no more than the average of its queue; a picked thread keeps the CPU for its base slice unless it
blocks; longer runs end at the timer tick. All weights are equal.

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
    wake_local : float
        Processor time of whoever wakes a thread onto a busy CPU.
    switch : float
        Processor time to change to another thread on a busy CPU, its way to sleep included.
    """

    wake_waker: float
    wake_sleeper: float
    wake_latency: float
    wake_local: float
    switch: float


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Constants of the kernel's scheduler, s.

    Attributes
    ----------
    base_slice : float
        Time that a picked thread keeps its CPU against a woken one (0.7 ms × (1 + log2 CPUs), at most three doublings).
    tick : float
        Period of the timer interrupt, at which longer runs end.
    hot : float
        A thread that ran so recently is not pulled by a CPU that becomes idle.
    """

    base_slice: float
    tick: float = 0.004
    hot: float = 0.0005

    @classmethod
    def of(cls, cpus: int, hz: int = 250) -> Scheduler:
        return cls(base_slice=0.0007 * (1 + min(cpus, 8).bit_length() - 1), tick=1 / hz)


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
        "cpu", "deadline", "done", "group", "lag", "last_ran", "machine", "name", "need", "process", "protected",
        "slept", "spinning", "state", "switched", "used", "vruntime", "wake_pending",
    )  # fmt: skip

    def __init__(self, machine: Machine, name: str, group: str, cpu: Cpu) -> None:
        self.machine, self.name, self.group, self.cpu = machine, name, group, cpu
        self.need = 0.0
        self.done: _Fired | None = None
        self.spinning = False
        self.state = "sleeping"
        self.vruntime = self.deadline = self.protected = self.lag = 0.0
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
            self.cpu.leave(self)
        return self.done

    def birth(self) -> Event:
        """What a thread waits for before it has ever run."""
        self.done = _Fired(self.machine.env)
        return self.done

    def spin(self) -> Event:
        """Burns the CPU until Machine.release; the thread can be preempted and goes on burning afterwards."""
        self.done = _Fired(self.machine.env)
        self.spinning = True
        self.need = float("inf")
        if self.state == "running":
            self.cpu.resume()
        return self.done


class Cpu:
    """One processor and its run queue."""

    __slots__ = ("current", "idle_since", "index", "machine", "queue", "started", "ticking", "token")

    def __init__(self, machine: Machine, index: int) -> None:
        self.machine, self.index = machine, index
        self.current: Thread | None = None
        self.queue: list[Thread] = []
        self.started = 0.0
        self.token = 0
        self.ticking = False
        self.idle_since = 0.0

    @property
    def load(self) -> int:
        """Threads that run or could."""
        return len(self.queue) + (self.current is not None)

    def average(self) -> float:
        """Mean virtual time of the threads here; eligible is who has had no more."""
        threads = self.queue if self.current is None else [*self.queue, self.current]
        return sum(t.vruntime for t in threads) / len(threads) if threads else self.machine.virtual[self.index]

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
        if self.queue:
            self.tick_on()

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
        self.part(thread)
        self.current = None
        self.token += 1
        self.pick()

    def leave(self, thread: Thread) -> None:
        """A thread that was preempted at the moment when it wanted to sleep."""
        self.part(thread)
        self.queue.remove(thread)

    def part(self, thread: Thread) -> None:
        """Remembers how far the thread was from its fair share, for when it comes back."""
        average = self.average()
        limit = max(2 * self.machine.scheduler.base_slice, self.machine.scheduler.tick)
        thread.lag = max(-limit, min(limit, average - thread.vruntime))
        thread.state = "sleeping"
        thread.need = 0.0
        thread.last_ran = self.machine.env.now
        self.machine.virtual[self.index] = average

    def pick(self) -> None:
        """Gives the idle CPU to the eligible thread with the earliest deadline."""
        if not self.queue:
            self.machine.pull(self)
        if not self.queue:
            self.idle_since = self.machine.env.now
            return
        average = self.average()
        eligible = [t for t in self.queue if t.vruntime <= average + 1e-12]
        chosen = min(eligible or self.queue, key=_deadline)
        self.queue.remove(chosen)
        self.dispatch(chosen, self.machine.prices.switch)

    def dispatch(self, thread: Thread, price: float) -> None:
        self.current = thread
        thread.cpu = self
        thread.state = "running"
        thread.need += price
        thread.protected = thread.vruntime + self.machine.scheduler.base_slice
        if thread.vruntime >= thread.deadline:
            thread.deadline = thread.vruntime + self.machine.scheduler.base_slice
        if self.machine.on_dispatch is not None:
            self.machine.on_dispatch(thread)
        self.resume()

    def enqueue(self, thread: Thread) -> None:
        """A thread becomes runnable here while another runs."""
        thread.state = "queued"
        thread.cpu = self
        self.queue.append(thread)
        self.tick_on()

    def preempt(self) -> None:
        """Puts the current thread back into the queue and picks anew."""
        thread = self.current
        assert thread is not None
        self.charge()
        if thread.vruntime >= thread.deadline:
            thread.deadline = thread.vruntime + self.machine.scheduler.base_slice
        average = self.average()
        rivals = [t for t in self.queue if t.vruntime <= average + 1e-12]
        best = min(rivals, key=_deadline, default=None)
        if best is None or (thread.vruntime <= average and thread.deadline <= best.deadline):
            thread.protected = thread.vruntime + self.machine.scheduler.base_slice
            self.resume()
            return
        thread.switched += 1
        thread.state = "queued"
        thread.last_ran = self.machine.env.now
        if self.machine.on_preempt is not None:
            self.machine.on_preempt(thread)
        self.current = None
        self.token += 1
        self.queue.remove(best)
        self.queue.append(thread)
        self.dispatch(best, self.machine.prices.switch)

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
        for other in self.machine.cpus:
            if other.current is None and not other.queue:
                other.take_from(self)
        if not self.queue or self.current is None:
            return
        self.charge()
        thread = self.current
        if thread.vruntime >= thread.deadline or thread.vruntime >= thread.protected:
            self.preempt()

    def take_from(self, other: Cpu) -> None:
        """An idle CPU takes the thread that has waited longest elsewhere."""
        thread = min(other.queue, key=_last_ran)
        other.queue.remove(thread)
        self.machine.place(thread, self, thread.vruntime - other.average() if other.load else 0.0)
        self.dispatch(thread, self.machine.prices.switch)


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
    """

    def __init__(self, env: simpy.Environment, cpus: int, prices: Prices, scheduler: Scheduler | None = None) -> None:
        self.env = env
        self.prices = prices
        self.scheduler = scheduler or Scheduler.of(cpus)
        self.cpus = [Cpu(self, i) for i in range(cpus)]
        self.virtual = [0.0] * cpus
        self.threads: list[Thread] = []
        self.on_dispatch: Callable[[Thread], None] | None = None
        self.on_preempt: Callable[[Thread], None] | None = None

    def at(self, delay: float, call: Callable[[int], None], token: int) -> None:
        """Calls back after a delay."""
        timeout = self.env.timeout(delay, token)
        timeout.callbacks.append(lambda event: call(event._value))

    def spawn(self, name: str, group: str, program: Callable[[Thread], Program]) -> Thread:
        """Starts a thread; it first runs when the simulation does."""
        cpu = self.cpus[len(self.threads) % len(self.cpus)]
        thread = Thread(self, name, group, cpu)
        self.threads.append(thread)

        def body() -> Program:
            yield thread.birth()
            yield from program(thread)

        thread.process = self.env.process(body())
        self.at(0.0, lambda _: self._begin(thread), 0)
        return thread

    def _begin(self, thread: Thread) -> None:
        self.wake(thread, None)

    def wake(self, thread: Thread, waker: Thread | None, sync: bool = False) -> float:
        """Makes a sleeping thread runnable; what it costs the waker, s, to be run by it next.

        sync: the waker says that it will soon sleep itself, as sockets do; with no idle CPU and nobody else on the
        waker's, the thread is then put there.
        """
        if thread.state != "sleeping":
            thread.wake_pending = True
            return 0.0
        here = waker.cpu if waker is not None else thread.cpu
        cpu = self._choose(thread.cpu, here, sync)
        self.place(thread, cpu, -thread.lag)
        if cpu.current is None and not cpu.queue:
            prices = self.prices
            cpu.current = thread
            thread.cpu = cpu
            thread.state = "running"
            thread.need = prices.wake_sleeper
            thread.protected = thread.vruntime + self.scheduler.base_slice
            cpu.started = self.env.now + prices.wake_latency
            cpu.token += 1
            self.at(prices.wake_latency + prices.wake_sleeper, cpu._finished, cpu.token)
            return prices.wake_waker
        thread.need = 0.0
        cpu.enqueue(thread)
        current = cpu.current
        if current is not None:
            cpu.charge()
            if current.vruntime >= current.protected:
                cpu.preempt()
        return self.prices.wake_local

    def place(self, thread: Thread, cpu: Cpu, offset: float) -> None:
        """Enters a thread's virtual time into another queue's."""
        thread.vruntime = cpu.average() + offset
        thread.deadline = thread.vruntime + self.scheduler.base_slice

    def _choose(self, last: Cpu, here: Cpu, sync: bool) -> Cpu:
        if last.load == 0:
            return last
        for cpu in self.cpus:
            if cpu.load == 0:
                return cpu
        if sync and here.load == 1:
            return here
        return here if here.load < last.load else last

    def pull(self, idle: Cpu) -> None:
        """A CPU about to go idle takes a thread that waits elsewhere and is no longer hot in that CPU's cache."""
        busiest = max(self.cpus, key=lambda cpu: len(cpu.queue))
        now, hot = self.env.now, self.scheduler.hot
        cold = [t for t in busiest.queue if now - t.last_ran >= hot]
        if cold:
            thread = min(cold, key=_last_ran)
            busiest.queue.remove(thread)
            self.place(thread, idle, thread.vruntime - busiest.average() if busiest.load else 0.0)
            idle.queue.append(thread)
            thread.cpu = idle

    def release(self, thread: Thread) -> None:
        """Ends a thread's spinning: at once if it holds a CPU, else as soon as it gets one."""
        if not thread.spinning:
            return
        thread.spinning = False
        thread.need = 0.0
        if thread.state == "running":
            thread.cpu.charge()
            thread.need = 0.0
            thread.cpu.resume()
