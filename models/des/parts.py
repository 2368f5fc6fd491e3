"""What the programs of the modelled threads are made of: requests, connections, inboxes, semaphores, locks."""

from __future__ import annotations

from dataclasses import dataclass, field

from models.des.records import Fifo, Record, Steps, Thread, World


@dataclass(eq=False, slots=True)
class Request(Record):
    """The request of a connection, drawn anew for each.

    Attributes
    ----------
    operation : int
    fixed, client : float
        Processor time of the service to parse and answer it, and of the client's side of the service, s.
    first, tasks : int
        Where its tasks' times begin in world.demand_seconds, and how many they are.
    sent : float
        When the client sent it, s.
    rounds : int
        Exchanges still to come before its reply (an acknowledged announcement is one).
    pending : int
        Tasks not yet finished.
    under_way : bool
        The client waits for it.
    planned : float
        When an open load's plan had it arrive, s.
    lock : int
        Which of the service's locks it works under, or -1.
    shared : bool
        With others that read.
    """

    operation: int = 0
    fixed: float = 0.0
    client: float = 0.0
    first: int = 0
    tasks: int = 0
    sent: float = 0.0
    rounds: int = 0
    pending: int = 0
    under_way: bool = False
    planned: float = 0.0
    lock: int = -1
    shared: bool = False

    def draw(self, world: World) -> None:
        """Makes it the next one of the service's sampled requests."""
        i = world.sample()
        self.operation = world.demand_operation(i)
        self.fixed = world.demand_fixed(i) * world.cost("demand.service")
        self.client = world.demand_client(i) * world.cost("demand.client")
        self.first = world.demand_first(i)
        self.tasks = world.demand_tasks(i)
        self.rounds = world.demand_rounds()
        self.lock = world.demand_lock(i)
        self.shared = world.demand_shared(i) > 0
        self.pending = self.tasks
        self.under_way = True

    def work(self, world: World) -> float:
        """Time of all its tasks, s."""
        total = 0.0
        for k in range(self.first, self.first + self.tasks):
            total += world.demand_seconds(k)
        return total * world.cost("demand.service")


@dataclass(eq=False, slots=True)
class End(Record):
    """One side of a connection, as caches hold it.

    Attributes
    ----------
    reader : Thread or None
        Who last read there.
    rest : float
        For how long the reader's CPU had been idle until then, s.
    """

    reader: Thread | None = None
    rest: float = 0.0


@dataclass(eq=False, slots=True)
class Connection(Record):
    """A connection; each side's inbox is where the other side's bytes become readable.

    Attributes
    ----------
    once : bool
        It is made anew for each request.
    connected, accepted : bool
        It stands for the client's kernel, and for the server.
    early : bool
        A request came before the connection was accepted.
    retry : float
        After how long the client's kernel tries to connect again, s.
    ended : Semaphore
        Posted when all of the request's tasks are done.
    waiter : Thread or None
        Who spins until then.
    sender : Thread or None
        Who sent what is to be read next; None: a timer.
    """

    index: int
    request: Request = field(default_factory=Request)
    at_server: Inbox | None = None
    at_client: Inbox | None = None
    listener: Listener | None = None
    once: bool = False
    connected: bool = True
    accepted: bool = True
    early: bool = False
    retry: float = 1.0
    ended: Semaphore = field(default_factory=lambda: Semaphore(0))
    waiter: Thread | None = None
    sender: Thread | None = None
    client: End = field(default_factory=End)
    server: End = field(default_factory=End)


@dataclass(eq=False, slots=True)
class Listener(Record):
    """Where connections wait to be accepted, by the owner of the inbox; at most so many."""

    inbox: Inbox
    places: int
    waiting: int = 0


@dataclass(eq=False, slots=True)
class Inbox(Record):
    """What one thread waits for: connections that others put, taken in batches. Models epoll, select, blocking receive.

    Attributes
    ----------
    rung : bool
        A timer has ended its sleep, which it has still to pay for.
    """

    items: Fifo[Connection] = field(default_factory=Fifo)
    owner: Thread | None = None
    asleep: bool = False
    rung: bool = False

    def put(self, world: World, item: Connection, sender: Thread) -> float:
        """Adds an item; gives the processor time that reaching and waking the owner costs the sender."""
        price = 0.0
        if self.owner is not None and not self.items and sender.apart(self.owner):
            price = world.prices.contact
        item.sender = sender
        self.items.append(item)
        if self.asleep:
            assert self.owner is not None
            self.asleep = False
            price += sender.wake(self.owner, world.prices.wake_socket)
        return price

    def ring(self, world: World, item: Connection) -> None:
        """Adds an item as a timer does."""
        item.sender = None
        self.items.append(item)
        self.alarm(world)

    def alarm(self, world: World) -> None:
        """Wakes who sleeps here, as a timer does."""
        if self.asleep:
            assert self.owner is not None
            self.asleep = False
            self.rung = True
            world.wake(self.owner)

    def pay(self, thread: Thread, timer: float) -> Steps:
        """The timer's interrupt, if there was one, is at the cost of the thread that it woke."""
        if self.rung:
            self.rung = False
            yield thread.run(timer)

    def wait(self, world: World, thread: Thread) -> Steps:
        """Sleeps until there is an item; a batch that another CPU has begun must be fetched from there."""
        self.owner = thread
        while not self.items:
            self.asleep = True
            yield thread.sleep()
        self.asleep = False
        first = self.items[0]
        if first.sender is not None and thread.apart(first.sender):
            yield thread.run(world.prices.contact)


def way(world: World, connection: Connection, end: End, thread: Thread) -> float:
    """What reading a message at this end costs more, s: it was sent on another CPU, and so was what the end had last, or
    this CPU has cooled since."""
    price = 0.0
    if connection.sender is not None and thread.apart(connection.sender):
        price = world.prices.remote
    if end.reader is not None:
        if thread.apart(end.reader):
            price += world.prices.remote
        else:
            price += world.prices.cold_connection * world.cooled(thread.rested() - end.rest)
    end.reader = thread
    end.rest = thread.rested()
    return price


def send(world: World, connection: Connection, inbox: Inbox | None, thread: Thread) -> Steps:
    """Puts the connection into the inbox and pays for waking its owner."""
    assert inbox is not None
    price = inbox.put(world, connection, thread)
    if price > 0.0:
        yield thread.run(price)


def ended(connection: Connection) -> bool:
    """Whether what the server reads from it is that the client has closed it; then it is closed here too."""
    if connection.connected:
        return False
    connection.accepted = False
    return True


def reply(world: World, connection: Connection, thread: Thread) -> Steps:
    """Sends the reply, or what comes before it, to the client; with the one reply of a connection the server closes it."""
    if connection.once and connection.request.rounds == 0:
        connection.accepted = connection.connected = False
    yield from send(world, connection, connection.at_client, thread)


def answer(world: World, connection: Connection, thread: Thread, seconds: float) -> Steps:
    """Works for so long, then sends to the client; the bytes are there when the work ends, waking is paid after that."""
    yield thread.run(seconds)
    yield from reply(world, connection, thread)


@dataclass(eq=False, slots=True)
class Semaphore(Record):
    """A counting semaphore with barging: whoever comes first after a post takes it, woken or not."""

    count: int
    waiters: Fifo[Thread] = field(default_factory=Fifo)

    def acquire(self, thread: Thread) -> Steps:
        while self.count == 0:
            self.waiters.append(thread)
            yield thread.sleep()
        self.count -= 1

    def release(self, world: World, thread: Thread) -> float:
        """Adds one and wakes the longest waiter; gives what waking costs the caller."""
        self.count += 1
        if not self.waiters:
            return 0.0
        return thread.wake(self.waiters.popleft(), world.prices.wake_futex)


@dataclass(eq=False, slots=True)
class Mutex(Record):
    """A lock for one at a time. With barging, as pthread's, whoever comes first after a release takes it, woken or not;
    with hand-off the longest waiter is given it."""

    handoff: bool = False
    held: bool = False
    waiters: Fifo[Thread] = field(default_factory=Fifo)

    def acquire(self, thread: Thread) -> Steps:
        """Gives whether it had to be waited for."""
        waited = False
        while self.held:
            self.waiters.append(thread)
            waited = True
            yield thread.sleep()
            if self.handoff:
                return True
        self.held = True
        return waited

    def release(self, world: World, thread: Thread) -> float:
        """Wakes the longest waiter; gives what that costs the caller."""
        if not self.waiters:
            self.held = False
            return 0.0
        self.held = self.handoff
        return thread.wake(self.waiters.popleft(), world.prices.wake_futex)


@dataclass(eq=False, slots=True)
class ReadersWriters(Record):
    """Many readers or one writer; readers come first (Courtois, Heymans and Parnas 1971, problem 1)."""

    counting: Mutex = field(default_factory=Mutex)
    writing: Mutex = field(default_factory=Mutex)
    readers: int = 0

    def acquire(self, world: World, thread: Thread, shared: bool) -> Steps:
        """Gives whether it had to be waited for."""
        if not shared:
            waited = yield from self.writing.acquire(thread)
            return waited
        waited = yield from self.counting.acquire(thread)
        self.readers += 1
        if self.readers == 1:
            held = yield from self.writing.acquire(thread)
            if held:
                waited = True
        price = self.counting.release(world, thread)
        if price > 0.0:
            yield thread.run(price)
        return waited

    def release(self, world: World, thread: Thread, shared: bool) -> Steps:
        price = 0.0
        if shared:
            yield from self.counting.acquire(thread)
            self.readers -= 1
            if self.readers == 0:
                price = self.writing.release(world, thread)
            price += self.counting.release(world, thread)
        else:
            price = self.writing.release(world, thread)
        if price > 0.0:
            yield thread.run(price)


@dataclass(eq=False, slots=True)
class PolledLock(Record):
    """A lock that a spinning thread takes and lets go for ever, and that others want now and then.

    The spinner holds it for a share of its time. Somebody who finds it held sleeps: for a moment if the
    spinner runs, and until the spinner's next slice if it lost its CPU inside the lock. (A futex mutex does
    not spin.)

    Attributes
    ----------
    waiting : int
        How many wait for the spinner's next slice.
    held : bool
        The spinner has something to do, and lost its CPU inside the lock before it knew.
    """

    spinner: Thread | None = None
    waiting: int = 0
    held: bool = False

    def leave(self, world: World, share: float) -> None:
        """To be called before the spinner is released by somebody who did not take the lock."""
        assert self.spinner is not None
        if self.spinner.spinning and not self.spinner.running:
            self.held = self.waiting > 0 or world.uniform() < share

    def acquire(self, world: World, thread: Thread, share: float) -> Steps:
        """Takes the lock for an instant; gives whether it had to be waited for."""
        spinner = self.spinner
        assert spinner is not None
        if spinner.running:
            if not spinner.spinning or world.uniform() >= share:
                return False
            yield thread.pause(world.prices.wake_futex)
            return True
        if not self.held and self.waiting == 0 and (not spinner.spinning or world.uniform() >= share):
            return False
        self.waiting += 1
        yield thread.follow(spinner)
        self.waiting -= 1
        return True
