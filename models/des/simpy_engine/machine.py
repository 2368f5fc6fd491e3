"""Threads on CPUs in simulated time: run queues, time slices, sleeping and waking, as models.des.machine says.

An operation takes effect when it ends: what a program does after a yield happens at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import simpy

from models.des.machine import HALF_LIFE, SEARCH, Prices, Scheduler, cooled, depth
from models.des.records import Steps
from models.des.simpy_engine.cpu import Cpu
from models.des.simpy_engine.events import Timer
from models.des.simpy_engine.thread import Agent, CpuThread, SimpyThread

Kind = TypeVar("Kind", bound=SimpyThread)


def _last_ran(thread: CpuThread) -> float:
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
    bound : bool
        Some thread may not use all CPUs.
    used : float
        Processor time charged so far, s.
    """

    def __init__(
        self, env: simpy.Environment, cpus: int, prices: Prices, scheduler: Scheduler | None = None
    ) -> None:
        self.env = env
        self.prices = prices
        self.scheduler = scheduler or Scheduler.of(cpus)
        self.lag_limit = self.scheduler.lag_limit
        self.cpus = [Cpu(self, i) for i in range(cpus)]
        self.threads: list[SimpyThread] = []
        self.bound = False
        self.used = 0.0
        self._use, self._seen, self._looked = 0.0, 0.0, 0.0

    def at(self, delay: float, call: Callable[[Timer], object], token: int = 0) -> None:
        """Calls back after a delay, s, with the timer that holds the token."""
        Timer(self.env, delay, call, token)

    def spawn(
        self,
        name: str,
        group: str,
        program: Callable[[SimpyThread], Steps],
        cpus: Sequence[int] | None = None,
    ) -> CpuThread:
        """Starts a thread that may use those CPUs (None: all); it first runs when the simulation does."""
        allowed = self.cpus if cpus is None else [self.cpus[i] for i in cpus]
        self.bound |= len(allowed) < len(self.cpus)
        return self._start(CpuThread(self, name, group, allowed), program)

    def deal(self, first: Sequence[int]) -> None:
        """Says on which of its CPUs each thread begins, in the order in which they were started."""
        threads = [thread for thread in self.threads if isinstance(thread, CpuThread)]
        for thread, place in zip(threads, first, strict=True):
            thread.cpu = thread.allowed[place % len(thread.allowed)]

    def agent(self, name: str, program: Callable[[SimpyThread], Steps]) -> Agent:
        """Starts a thread that needs no CPU."""
        return self._start(Agent(self, name, "agents"), program)

    def _start(self, thread: Kind, program: Callable[[SimpyThread], Steps]) -> Kind:
        self.threads.append(thread)
        self.at(0.0, lambda _: thread.begin(program))
        return thread

    def wake(self, thread: SimpyThread, local: float = 0.0, here: Cpu | None = None) -> float:
        """Makes a sleeping thread go on; what it costs whoever woke it, s, to be run by it next.

        Parameters
        ----------
        thread : SimpyThread
        local : float
            What it costs when no idle CPU has to be interrupted, s.
        here : Cpu, optional
            The waker's.
        """
        if thread.state != "sleeping" or thread.deaf:
            thread.wake_pending = True
            return 0.0
        return thread.rouse(local, here)

    def admit(self, thread: CpuThread, local: float, here: Cpu | None) -> float:
        """Gives a woken thread a CPU, or a place in the queue for one; what that costs the waker, s."""
        if thread in thread.cpu.owing:
            thread.lag = min(0.0, thread.cpu.average() - thread.vruntime)
            thread.cpu.owing.remove(thread)
        last, prices = thread.cpu, self.prices
        cpu = self._choose(thread)
        self.place(thread, cpu)
        idle = cpu.rise()
        # Of another CPU's caches than its last one's it has nothing, however busy that was.
        away = cpu.rested - thread.rest if cpu is last else self.env.now - thread.last_ran
        cold = cooled(away, prices.cools)
        if not cpu.free:
            thread.need = prices.block + prices.cold_thread * cold
            cpu.enqueue(thread)
            return local if here is None or here is cpu else local + prices.wake_remote
        cpu.current = thread
        thread.cpu = cpu
        thread.state = "running"
        halted, chilled = depth(idle, prices.halts, prices.cools), cooled(idle, prices.cools)
        thread.need = prices.wake_sleeper + prices.cooling_sleeper * halted
        if cold > chilled:
            thread.need += prices.cold_thread * (cold - chilled)
        latency = prices.wake_latency + prices.cooling_latency * halted
        if idle > prices.halts:
            latency += prices.halted_latency
        cpu.started = self.env.now + latency
        cpu.token += 1
        self.at(latency + thread.need, cpu.finished, cpu.token)
        cpu.tell(thread)
        return prices.wake_waker + prices.cooling_waker * halted

    def place(self, thread: CpuThread, cpu: Cpu) -> None:
        """Enters a thread into a queue's virtual time with its lag, which its own weight must not thin."""
        others = cpu.load + len(cpu.owing)
        lag = thread.lag * (others + 1) / others if others else 0.0
        thread.vruntime = cpu.average() - lag
        thread.deadline = thread.vruntime + self.scheduler.base_slice

    def _choose(self, thread: CpuThread) -> Cpu:
        last, count = thread.cpu, len(self.cpus)
        if last.free or count == 1:
            return last
        left = self._scan()
        for step in range(1, count):
            if left == 0:
                break
            cpu = self.cpus[(last.index + step) % count]
            if cpu not in thread.allowed:
                continue
            if cpu.free:
                return cpu
            left -= 1
        return last

    def _scan(self) -> int:
        """At how many CPUs a search for an idle one looks."""
        now, scheduler, count = self.env.now, self.scheduler, len(self.cpus)
        since = now - self._looked
        if since >= scheduler.tick:
            used = self.used + sum(cpu.uncharged(now) for cpu in self.cpus)
            use = (used - self._seen) / (since * count)
            old = 0.5 ** (since / HALF_LIFE) if self._looked > 0 else 0.0
            self._use = self._use * old + (1 - old) * use
            self._seen, self._looked = used, now
        return int(count * (1 - min(1.0, SEARCH * self._use**2)))

    def move(self, thread: CpuThread, cpu: Cpu) -> None:
        """Moves a queued thread to another CPU's queue."""
        origin, limit = thread.cpu, self.lag_limit
        origin.charge()  # what has run since the last tick counts, or a thread that is moved often falls ever further behind
        cpu.charge()
        thread.lag = max(-limit, min(limit, origin.average() - thread.vruntime))
        origin.queue.remove(thread)
        self.place(thread, cpu)
        thread.cpu = cpu
        cpu.queue.append(thread)

    def pull(self, idle: Cpu) -> None:
        """A CPU about to go idle takes the thread that has waited longest elsewhere, if that is no longer hot in the other's
        cache."""
        waiting = max((cpu.waiting_for(idle) for cpu in self.cpus), key=len)
        if not waiting:
            return
        longest = min(waiting, key=_last_ran)
        if not self._hot(longest):
            self.move(longest, idle)

    def _hot(self, thread: CpuThread) -> bool:
        return self.env.now - thread.last_ran < self.scheduler.hot

    def balance(self, busy: Cpu) -> None:
        """At a tick: who has waited longest here goes to an idle CPU, to a much less loaded one, or, now and then, to one
        with a single thread less: three that never sleep share two CPUs fairly by going round."""
        now = self.env.now
        for other in sorted(self.cpus, key=_need):
            gap = busy.load - other.load
            due = now - busy.balanced >= self.scheduler.balance
            if other is busy or not (other.load == 0 or gap >= 2 or (gap == 1 and due)):
                continue
            waiting = busy.waiting_for(other)
            if not waiting:
                continue
            longest = min(waiting, key=_last_ran)
            if self._hot(longest) and now - busy.balanced < self.scheduler.stays:
                continue
            busy.balanced = other.balanced = now
            self.move(longest, other)
            if other.current is None:
                other.pick()
            elif not other.ticking:
                other.tick_on()
            if not busy.queue:
                return
