"""Threads of the modelled programs: those that need a CPU, and agents, which need none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from simpy.events import Event

from models.des.records import Steps
from models.des.simpy_engine.cpu import NEVER, Cpu
from models.des.simpy_engine.events import Done, Timer

if TYPE_CHECKING:
    from models.des.simpy_engine.machine import Machine


def check(seconds: float) -> None:
    if not seconds >= 0:
        raise ValueError("a time is negative or not a number")


class SimpyThread:
    """What both kinds have in common.

    Attributes
    ----------
    state : str
        running, queued (it could run) or sleeping.
    deaf : bool
        It sleeps until a moment of its own; who wakes it meanwhile ends its next sleep.
    used, slept, switched : float, int, int
        Processor time so far, s; times it slept; times it lost its CPU while it could have run on.
    """

    __slots__ = (
        "deaf", "done", "followers", "group", "machine", "name", "slept", "spinning", "state", "switched", "used",
        "wake_pending",
    )  # fmt: skip

    def __init__(self, machine: Machine, name: str, group: str) -> None:
        self.machine, self.name, self.group = machine, name, group
        self.done = Done(machine.env)
        self.state = "sleeping"
        self.spinning = self.deaf = self.wake_pending = False
        self.followers: list[SimpyThread] = []
        self.used, self.slept, self.switched = 0.0, 0, 0

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def sleeping(self) -> bool:
        return self.state == "sleeping"

    def begin(self, program: Callable[[SimpyThread], Steps]) -> None:
        """Runs the program as a process as soon as the thread has a CPU for the first time."""

        def life() -> Steps:
            steps = program(self)
            if steps is None:
                raise TypeError(f"the program of thread {self.name} has no yield")
            yield from steps
            self._leave()
            self.deaf = True

        def start(_: Event) -> None:
            self.machine.env.process(life())

        self.done.arm().callbacks.append(start)
        self.machine.wake(self)

    def _leave(self) -> None:
        raise NotImplementedError

    def _go_on(self) -> None:
        raise NotImplementedError

    def rouse(self, local: float, here: Cpu | None) -> float:
        raise NotImplementedError

    def apart(self, other: SimpyThread) -> bool:
        """Whether the other is on another CPU, or was when it last ran."""
        return False

    def rested(self) -> float:
        """For how long its CPU has been idle so far, s."""
        return 0.0

    def stop_spinning(self) -> None:
        raise NotImplementedError

    def run(self, seconds: float) -> Event:
        raise NotImplementedError

    def sleep(self) -> Event:
        """Gives up the CPU until woken; a wake that came since the last sleep ends it at once."""
        if self.wake_pending:
            self.wake_pending = False
            self._go_on()
        else:
            self.slept += 1
            self._leave()
        return self.done.arm()

    def pause(self, seconds: float) -> Event:
        """Sleeps until a timer rings."""
        check(seconds)
        self.deaf = True
        Timer(self.machine.env, seconds, self._ring)
        self.slept += 1
        self._leave()
        return self.done.arm()

    def _ring(self, _: Event) -> None:
        self.deaf = False
        self.machine.wake(self)

    def follow(self, other: SimpyThread) -> Event:
        """Sleeps until the other next gets a CPU."""
        self.deaf = True
        other.followers.append(self)
        self.slept += 1
        self._leave()
        return self.done.arm()

    def release(self, other: SimpyThread) -> None:
        """Ends the other's spinning: at once if it holds a CPU, else as soon as it gets one."""
        if other.spinning:
            other.spinning = False
            other.stop_spinning()


class CpuThread(SimpyThread):
    """A thread that runs on the machine's CPUs; made by Machine.spawn.

    Attributes
    ----------
    last_ran : float
        When it last left a CPU, s.
    rest : float
        For how long that CPU had been idle until then, s.
    """

    __slots__ = ("allowed", "cpu", "deadline", "lag", "last_ran", "need", "rest", "vruntime")

    def __init__(self, machine: Machine, name: str, group: str, allowed: list[Cpu]) -> None:
        super().__init__(machine, name, group)
        self.cpu, self.allowed = allowed[0], allowed
        self.need = 0.0
        self.vruntime = self.deadline = self.lag = 0.0
        self.last_ran = -1.0
        self.rest = 0.0

    def _leave(self) -> None:
        """Stops being able to run: to sleep, or because the program has ended."""
        if self.state == "running":
            self.cpu.block()
        else:
            self.cpu.queue.remove(self)
            self.cpu.part(self)

    def _go_on(self) -> None:
        if self.state == "running":
            self.cpu.resume()

    def rouse(self, local: float, here: Cpu | None) -> float:
        return self.machine.admit(self, local, here)

    def wake(self, other: SimpyThread, local: float) -> float:
        """Wakes the other; what that costs this one, s."""
        return self.machine.wake(other, local, self.cpu)

    def apart(self, other: SimpyThread) -> bool:
        return isinstance(other, CpuThread) and other.cpu is not self.cpu

    def rested(self) -> float:
        return self.cpu.rested

    def run(self, seconds: float) -> Event:
        """Uses so much processor time."""
        check(seconds)
        self.need += seconds
        self._go_on()
        return self.done.arm()

    def spin(self) -> Event:
        """Burns the CPU until released; the thread can be preempted and goes on burning afterwards."""
        self.spinning = True
        self.need = NEVER
        self._go_on()
        return self.done.arm()

    def stop_spinning(self) -> None:
        if self.state == "running":
            self.cpu.charge()
            self.need = 0.0
            self.cpu.resume()
        else:
            self.need = 0.0


class Agent(SimpyThread):
    """A thread of the outside world: it never waits for a CPU, and waking or being woken costs nothing."""

    def _leave(self) -> None:
        self.state = "sleeping"

    def _go_on(self) -> None:
        self.state = "running"
        Timer(self.machine.env, 0.0, self.done.fire)

    def rouse(self, local: float, here: Cpu | None) -> float:
        self._go_on()
        return 0.0

    def run(self, seconds: float) -> Event:
        """Takes so long."""
        check(seconds)
        Timer(self.machine.env, seconds, self.done.fire)
        return self.done.arm()

    def wake(self, other: SimpyThread, local: float) -> float:
        self.machine.wake(other)
        return 0.0

    def spin(self) -> Event:
        self.spinning = True
        return self.done.arm()

    stop_spinning = _go_on
