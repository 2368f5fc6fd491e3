"""What the programs of the modelled threads are made of: requests, connections, inboxes, locks, semaphores."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any

from simpy.events import Event

from models.des.cpu import Thread
from models.des.machine import Machine

Steps = Generator[Event, Any, Any]


class Request:
    """One request on its way.

    Attributes
    ----------
    operation : int
    fixed, client : float
        Processor time of the service to parse and answer it, and of the client's side of the service, s.
    tasks : list of float
        Processor time of each of its tasks, s.
    sent : float
        When the client sent it, s.
    rounds : int
        Exchanges still to come before its reply (an acknowledged announcement is one).
    pending : int
        Tasks not yet finished.
    """

    __slots__ = ("client", "connection", "fixed", "operation", "pending", "rounds", "sent", "tasks", "waiter")

    def __init__(self, operation: int, fixed: float, tasks: list[float], client: float, rounds: int) -> None:
        self.operation, self.fixed, self.tasks, self.client, self.rounds = (
            operation,
            fixed,
            tasks,
            client,
            rounds,
        )
        self.sent = 0.0
        self.pending = len(tasks)
        self.connection: Connection | None = None
        self.waiter: Any = None


class Connection:
    """A connection; each side's inbox is where the other side's bytes become readable."""

    __slots__ = ("at_client", "at_server", "index", "request")

    def __init__(self, index: int) -> None:
        self.index = index
        self.request: Request | None = None
        self.at_server: Inbox | None = None
        self.at_client: Inbox | None = None


class Inbox:
    """What one thread waits for: items that others put, taken in batches. Models epoll, select and blocking receive."""

    __slots__ = ("asleep", "items", "machine", "owner")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.items: deque[Any] = deque()
        self.owner: Thread | None = None
        self.asleep = False

    def put(self, item: Any, sender: Thread | None) -> float:
        """Adds an item; gives the processor time that waking the owner costs the sender."""
        self.items.append(item)
        if not self.asleep:
            return 0.0
        assert self.owner is not None
        self.asleep = False
        return self.machine.wake(self.owner, sender, self.machine.prices.wake_socket, sync=True)

    def wait(self, thread: Thread) -> Steps:
        """Sleeps until there is an item."""
        while not self.items:
            self.owner = thread
            self.asleep = True
            yield thread.sleep()
        self.asleep = False

    def take_all(self) -> list[Any]:
        batch = list(self.items)
        self.items.clear()
        return batch


class Semaphore:
    """A counting semaphore with barging: whoever comes first after a post takes it, woken or not."""

    __slots__ = ("count", "machine", "waiters")

    def __init__(self, machine: Machine, count: int) -> None:
        self.machine, self.count = machine, count
        self.waiters: deque[Thread] = deque()

    def acquire(self, thread: Thread) -> Steps:
        while self.count == 0:
            self.waiters.append(thread)
            yield thread.sleep()
        self.count -= 1

    def release(self, thread: Thread | None) -> float:
        """Adds one and wakes the longest waiter; gives what waking costs the caller."""
        self.count += 1
        if not self.waiters:
            return 0.0
        return self.machine.wake(self.waiters.popleft(), thread, self.machine.prices.wake_futex)


def answer(connection: Connection, thread: Thread, seconds: float) -> Steps:
    """Works for so long, then sends to the client; the bytes are there when the work ends, waking is paid after that."""
    yield thread.run(seconds)
    assert connection.at_client is not None
    price = connection.at_client.put(connection, thread)
    if price:
        yield thread.run(price)


class PolledLock:
    """A lock that a spinning thread takes and lets go for ever, and that others want now and then.

    The spinner holds it for a share of its time. Somebody who finds it held sleeps: for a moment if the
    spinner runs, and until the spinner's next slice if it lost its CPU inside the lock. (A futex mutex does
    not spin.)
    """

    __slots__ = ("held", "machine", "random", "share", "spinner", "waiters")

    def __init__(self, machine: Machine, share: float, random: Any) -> None:
        self.machine, self.share, self.random = machine, share, random
        self.held = False
        self.spinner: Thread | None = None
        self.waiters: list[Thread] = []

    def attach(self, spinner: Thread) -> None:
        """Names the thread that polls under the lock."""
        self.spinner = spinner
        self.machine.on_preempt[spinner] = self._preempted
        self.machine.on_dispatch[spinner] = self._dispatched

    def _preempted(self) -> None:
        assert self.spinner is not None
        self.held = self.spinner.spinning and self.random.random() < self.share

    def _dispatched(self) -> None:
        self.held = False
        waiters, self.waiters = self.waiters, []
        for thread in waiters:
            self.machine.wake(thread, self.spinner)

    def acquire(self, thread: Thread) -> Steps:
        """Takes the lock for an instant; gives whether it had to be waited for."""
        if self.held:
            self.waiters.append(thread)
        elif self._runs() and self.random.random() < self.share:
            self.machine.at(self.machine.prices.wake_futex, lambda _: self.machine.wake(thread, self.spinner))
        else:
            return False
        yield thread.sleep()
        return True

    def _runs(self) -> bool:
        spinner = self.spinner
        return spinner is not None and spinner.spinning and spinner.state == "running"
