"""What the models' programs are written with: records, queues, distributions, and what they see of threads and the world.

A program is a generator function `program(world, thread, …)` in a subset of Python that both engines run: the SimPy engine
as it stands, the compiled engine translated. Everything that a program touches is a Record, made before the run begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from models.des.machine import Prices
    from models.des.parts import Connection
    from models.scenario import Scenario

T = TypeVar("T")
Steps = Generator[Any, Any, Any]
FIFO_LIMIT = 1_000_000
KINDS = (
    "constant",
    "exponential",
    "two_point",
    "lognormal",
    "hyperexponential",
)  # as core/distribution.h numbers them

# What is known of each sampled request, and its type: world.demand_NAME(i).
COLUMNS: dict[str, type] = {
    "operation": int,  # its number
    "fixed": float,  # processor time to parse and answer it, s
    "client": float,  # processor time of the client's side, s
    "first": int,  # where its tasks begin in world.demand_seconds
    "tasks": int,  # how many it has
    "lock": int,  # which lock it takes, or -1
    "shared": int,  # whether others may hold that lock with it
}


class Record:
    """Base of all that programs store: its fields are annotated at class level.

    A field is an int, float, bool, Thread | None, another Record (| None), a Fifo of those (or of tuples of up to four), or
    a list of those whose length never changes. Subclasses are dataclasses with eq=False: a record is itself alone.
    """

    __slots__ = ()


class Fifo(deque[T]):
    """A queue, first in first out; it refuses to grow beyond a million items."""

    def append(self, item: T) -> None:
        self._check()
        super().append(item)

    def appendleft(self, item: T) -> None:
        self._check()
        super().appendleft(item)

    def _check(self) -> None:
        if len(self) >= FIFO_LIMIT:
            raise OverflowError(f"a queue of the model holds {FIFO_LIMIT} items: it grows without end")

    def drain(self) -> Iterator[T]:
        """Takes as many from the left as there are now; what comes meanwhile stays."""
        for _ in range(len(self)):
            yield self.popleft()


@dataclass(eq=False)
class Distribution(Record):
    """Positive durations of a kind (a place in KINDS) and mean, s; made by World.distribution."""

    kind: int
    mean: float

    def draw(self) -> float:
        """One of them, s."""
        raise NotImplementedError


class Thread(Protocol):
    """A thread of the modelled program, as programs see it. Those that take time are yielded."""

    @property
    def spinning(self) -> bool: ...

    @property
    def running(self) -> bool: ...

    @property
    def sleeping(self) -> bool: ...

    def run(self, seconds: float) -> Any:
        """Yielded: uses so much processor time."""

    def sleep(self) -> Any:
        """Yielded: gives up the CPU until woken; a wake that came since the last sleep ends it at once."""

    def pause(self, seconds: float) -> Any:
        """Yielded: sleeps until a timer rings."""

    def spin(self) -> Any:
        """Yielded: burns the CPU until released."""

    def follow(self, other: Thread) -> Any:
        """Yielded: sleeps until `other` next gets a CPU, which wakes it."""

    def wake(self, other: Thread, local: float) -> float:
        """Wakes `other`; what that costs this thread, s: `local` where no halted CPU has to be interrupted."""

    def release(self, other: Thread) -> None:
        """Ends the other's spinning."""

    def apart(self, other: Thread) -> bool:
        """Whether `other` is on another CPU, or was when it last ran; never where one of them needs none."""

    def rested(self) -> float:
        """For how long this thread's CPU has been idle so far, s; 0 where it needs none."""


class World(Protocol):
    """One run, as models see it: the first part while they are built, the second also in programs."""

    scenario: Scenario
    connections: list[Connection]
    locks: int
    cpus: int
    prices: Prices

    def spawn(
        self,
        name: str,
        group: str,
        program: Callable[..., Steps],
        *args: Any,
        cpus: Sequence[int] | None = None,
    ) -> Thread:
        """Starts a thread that may use those CPUs (None: all)."""

    def agent(self, name: str, program: Callable[..., Steps], *args: Any) -> Thread:
        """Starts a thread that needs no CPU: run(s) just takes s, and to wake it is free."""

    def distribution(self, kind: str, mean: float) -> Distribution:
        """Durations of the named kind."""

    @property
    def now(self) -> float:
        """Simulated time, s."""

    def cooled(self, idle: float) -> float:
        """Share of its warmth that a CPU loses by such a rest (`models.des.machine.cooled`)."""

    def cost(self, name: str) -> float:
        """A calibrated cost, s; the name is written out."""

    def uniform(self) -> float:
        """Random, 0 to below 1."""

    def below(self, n: int) -> int:
        """Random, 0 to n - 1."""

    def sample(self) -> int:
        """The next request: a row of the service's sampled demand, all of them in a random order, again and again."""

    def demand_operation(self, i: int) -> int: ...

    def demand_fixed(self, i: int) -> float: ...

    def demand_client(self, i: int) -> float: ...

    def demand_first(self, i: int) -> int: ...

    def demand_tasks(self, i: int) -> int: ...

    def demand_lock(self, i: int) -> int: ...

    def demand_shared(self, i: int) -> int: ...

    def demand_seconds(self, k: int) -> float:
        """Processor time of the k-th of all requests' tasks, s."""

    def demand_rounds(self) -> int:
        """Exchanges before the one that brings the reply."""

    def count(self, name: str, amount: float = 1.0) -> None:
        """Adds to a counter; the name is written out."""

    def entered(self) -> None:
        """A request has come into the system."""

    def completed(self, operation: int, response: float, service: float = -1.0) -> None:
        """A client has its reply; service: since it was sent, where that is not the response time, s."""

    def at(self, seconds: float, function: Callable[..., None], *args: Any) -> None:
        """Calls function(world, …), which must not yield, after so long; on nobody's CPU."""

    def wake(self, thread: Thread) -> None:
        """Wakes a thread on nobody's account, as a timer does."""
