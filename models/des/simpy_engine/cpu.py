"""One CPU of the simulated machine with its run queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.des.simpy_engine.events import Timer

if TYPE_CHECKING:
    from models.des.simpy_engine.machine import Machine
    from models.des.simpy_engine.thread import CpuThread

NEVER = float("inf")
# Virtual times are sums of many small ones: two that differ by less than this are equal, s.
ROUNDING = 1e-12


class Cpu:
    """One processor and its run queue.

    Attributes
    ----------
    queue : list of CpuThread
        Threads that could run here.
    owing : list of CpuThread
        Threads that sleep but have had more than their share, and still count in the average.
    resting : bool
        It is idle.
    idle_since : float
        When it last became idle, s.
    rested : float
        For how long it has been idle so far, the present rest left out, s.
    balanced : float
        When it last gave a thread away to even out the load, s.
    """

    __slots__ = (
        "balanced",
        "current",
        "idle_since",
        "index",
        "machine",
        "owing",
        "queue",
        "rested",
        "resting",
        "started",
        "ticking",
        "token",
        "virtual",
    )  # fmt: skip

    def __init__(self, machine: Machine, index: int) -> None:
        self.machine, self.index = machine, index
        self.current: CpuThread | None = None
        self.queue: list[CpuThread] = []
        self.owing: list[CpuThread] = []
        self.started = self.balanced = self.idle_since = self.rested = 0.0
        self.resting = True
        self.token = 0
        self.ticking = False
        self.virtual = 0.0

    @property
    def load(self) -> int:
        """CpuThreads that run or could."""
        return len(self.queue) + (self.current is not None)

    @property
    def free(self) -> bool:
        """Nobody runs here or could."""
        return self.current is None and not self.queue

    def waiting_for(self, other: Cpu) -> list[CpuThread]:
        """Of the queue, those that may run on the other CPU."""
        if len(self.machine.cpus) == 1 or not self.machine.bound:
            return self.queue
        return [thread for thread in self.queue if other in thread.allowed]

    def average(self) -> float:
        """Mean virtual time of the threads that count here; of the last one when there is none."""
        queue, owing, current = self.queue, self.owing, self.current
        total, count = 0.0, len(queue) + len(owing)
        if current is not None:
            total, count = current.vruntime, count + 1
        for thread in queue:
            total += thread.vruntime
        for thread in owing:
            total += thread.vruntime
        return total / count if count else self.virtual

    def charge(self) -> None:
        """Brings the current thread's accounts up to now."""
        thread, now = self.current, self.machine.env.now
        ran = now - self.started
        if thread is None or ran <= 0:
            return
        thread.used += ran
        self.machine.used += ran
        thread.vruntime += ran
        thread.need -= ran
        self.started = now

    def uncharged(self, now: float) -> float:
        """What the current thread has used since its accounts were brought up to date, s."""
        return now - self.started if self.current is not None and now > self.started else 0.0

    def resume(self) -> None:
        """Lets the current thread go on with what it needs."""
        thread, env = self.current, self.machine.env
        assert thread is not None
        self.started = env.now
        self.token += 1
        need = thread.need
        if need != NEVER:
            Timer(env, need if need > 0 else 0.0, self.finished, self.token)

    def finished(self, timer: Timer) -> None:
        """The current thread has had what it needed, unless the CPU has changed hands since the timer was set."""
        if timer.token != self.token:
            return
        thread, now = self.current, self.machine.env.now
        assert thread is not None
        ran = now - self.started
        self.started = now
        thread.used += ran
        self.machine.used += ran
        thread.vruntime += ran
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
        if self.current is None:
            self.idle_since = self.machine.env.now
            self.resting = True

    def rise(self) -> float:
        """Ends the CPU's rest, if it had one; how long that was, s."""
        if not self.resting:
            return 0.0
        self.resting = False
        idle = self.machine.env.now - self.idle_since
        self.rested += idle
        return idle

    def part(self, thread: CpuThread) -> None:
        """A thread goes to sleep: what it is owed is kept, what it owes keeps it in the average."""
        others = len(self.queue) + len(self.owing) + (self.current is not None)
        average = (self.average() * others + thread.vruntime) / (others + 1) if others else thread.vruntime
        limit = self.machine.lag_limit
        thread.lag = max(-limit, min(limit, average - thread.vruntime))
        thread.state = "sleeping"
        thread.need = 0.0
        thread.last_ran = self.machine.env.now
        thread.rest = self.rested
        self.virtual = average
        if thread.lag < 0 and others:
            self.owing.append(thread)

    def settle(self, average: float) -> None:
        """Lets go of sleepers that the others have caught up with; of all of them when nobody else is left."""
        alone = self.free
        for thread in [t for t in self.owing if alone or t.vruntime <= average + ROUNDING]:
            self.owing.remove(thread)
            thread.lag = 0.0

    def pick(self) -> None:
        """Gives the free CPU to the eligible thread with the earliest deadline, if there is one."""
        if self.owing:
            self.virtual = self.average()
            self.settle(self.virtual)
        if not self.queue:
            return
        chosen = self.best(self.average()) if len(self.queue) > 1 else self.queue[0]
        self.queue.remove(chosen)
        self.dispatch(chosen)

    def best(self, average: float) -> CpuThread:
        """Of the queue, the eligible thread with the earliest deadline; of equals, who came first."""
        if len(self.queue) == 1:
            return self.queue[0]
        limit = average + ROUNDING
        eligible = [t for t in self.queue if t.vruntime <= limit] or self.queue
        soonest = min(map(_deadline, eligible)) + ROUNDING
        return next(t for t in eligible if t.deadline <= soonest)

    def dispatch(self, thread: CpuThread) -> None:
        machine = self.machine
        self.rise()
        self.current = thread
        thread.cpu = self
        thread.state = "running"
        thread.need += machine.prices.switch
        if thread.vruntime >= thread.deadline:
            thread.deadline = thread.vruntime + machine.scheduler.base_slice
        self.resume()
        self.tell(thread)

    def tell(self, thread: CpuThread) -> None:
        """Wakes those that follow a thread which has just got this CPU."""
        if not thread.followers:
            return
        followers, thread.followers = thread.followers, []
        for follower in followers:
            follower.deaf = False
            self.machine.wake(follower)

    def enqueue(self, thread: CpuThread) -> None:
        """A thread becomes runnable here while another runs, and takes the CPU if that one has had its share."""
        thread.state = "queued"
        thread.cpu = self
        self.queue.append(thread)
        if not self.ticking:
            self.tick_on()
        if self.current is None:
            return
        self.charge()
        if self._successor(self.current) is thread:
            self.preempt(thread)

    def _successor(self, thread: CpuThread) -> CpuThread | None:
        """Who should run instead of the current thread, if that has had more than its share or has used up its slice."""
        average = self.average()
        if self.owing:
            self.settle(average)
            average = self.average()
        beyond = thread.vruntime > average + ROUNDING
        if thread.vruntime >= thread.deadline:
            thread.deadline = thread.vruntime + self.machine.scheduler.base_slice
        elif not beyond:
            return None
        best = self.best(average)
        return best if beyond or best.deadline <= thread.deadline + ROUNDING else None

    def preempt(self, successor: CpuThread) -> None:
        """Puts the current thread back into the queue in favour of another."""
        machine, thread = self.machine, self.current
        assert thread is not None
        thread.switched += 1
        thread.state = "queued"
        thread.last_ran = machine.env.now
        self.current = None
        self.token += 1
        self.queue.remove(successor)
        self.queue.append(thread)
        self.dispatch(successor)

    def tick_on(self) -> None:
        """Starts the timer tick, which is simulated only while somebody waits for this CPU.

        The ticks of all CPUs fall together, as they do unless the kernel is told to skew them.
        """
        self.ticking = True
        machine = self.machine
        tick = machine.scheduler.tick
        Timer(machine.env, tick - machine.env.now % tick, self._tick, 0)

    def _tick(self, _: Timer) -> None:
        if not self.queue:
            self.ticking = False
            return
        machine = self.machine
        Timer(machine.env, machine.scheduler.tick, self._tick, 0)
        machine.balance(self)
        if not self.queue or self.current is None:
            return
        self.charge()
        successor = self._successor(self.current)
        if successor is not None:
            self.preempt(successor)


def _deadline(thread: CpuThread) -> float:
    return thread.deadline
