"""The queues server: a thread for each connection splits its request into tasks over the workers' own queues.

wait=block: threads sleep for tasks and for results. wait=spin: the connection's thread polls the results and
the workers poll their queue under its lock, burning their slices. steal=next: a worker whose queue is empty
takes the older half of the next queue if that holds two tasks or more; it runs the first at once and puts the
rest into its own queue.

As in the server, whoever makes a queue longer wakes its worker if that is idle, and, with stealing, the
worker before it once the queue holds two. A steal itself is free: its two locks are held for nanoseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any

from models.des.cpu import Thread
from models.des.engine import World
from models.des.parts import Connection, Inbox, PolledLock, Request, Semaphore, Steps, answer

COSTS = ("queues.connection", "queues.worker", "queues.spin_held")
UNMODELLED = {"accept": ("epoll",)}

Task = tuple[Request, float]


class Queue:
    """A worker's queue.

    Attributes
    ----------
    idle : bool
        Its worker found nothing to do and waits.
    next, previous : Queue
        In a ring.
    """

    __slots__ = ("idle", "lock", "next", "pool", "previous", "tasks", "worker")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.tasks: deque[Task] = deque()
        self.idle = False
        self.worker: Thread | None = None
        self.lock = PolledLock(pool.world.machine, pool.world.cost("queues.spin_held"), pool.world.random)
        self.next = self.previous = self

    def grown(self, by: Thread) -> float:
        """Wakes who could take what has just been put here; gives what that costs the thread that did it."""
        price = self.wake(by)
        if self.pool.steals and len(self.tasks) >= 2:
            price += self.previous.wake(by)
        return price

    def wake(self, by: Thread) -> float:
        if not self.idle:
            return 0.0
        assert self.worker is not None
        self.idle = False
        machine = self.pool.world.machine
        if self.pool.spins:
            machine.release(self.worker)
            return 0.0
        return machine.wake(self.worker, by, machine.prices.wake_futex)

    def take(self, thread: Thread) -> tuple[Task | None, float]:
        """A task for this queue's worker, and what it costs to wake others for those that came with it."""
        if self.tasks:
            return self.tasks.popleft(), 0.0
        half = len(self.next.tasks) // 2
        if not self.pool.steals or not half:
            return None, 0.0
        first, *rest = (self.next.tasks.popleft() for _ in range(half))
        self.pool.world.count("steals", half)
        self.tasks.extend(rest)
        return first, self.grown(thread) if rest else 0.0


class Pool:
    """The workers' queues."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.spins = world.scenario["wait"] == "spin"
        workers = int(world.scenario.number("workers"))
        self.steals = world.scenario["steal"] == "next" and workers > 1
        self.task_cost = world.cost("queues.worker")
        self.queues = [Queue(self) for _ in range(workers)]
        for queue, following in zip(self.queues, self.queues[1:] + self.queues[:1], strict=True):
            queue.next, following.previous = following, queue

    def deal(self, request: Request) -> Generator[tuple[Queue, Task], None, None]:
        """The request's tasks with their queues, round robin from a random one."""
        start = int(self.world.random.integers(len(self.queues)))
        for k, task in enumerate(request.tasks):
            yield self.queues[(start + k) % len(self.queues)], (request, task)


def build(world: World) -> None:
    pool = Pool(world)
    attend, work = (_attend_spinning, _work_spinning) if pool.spins else (_attend, _work)
    for connection in world.connections:
        connection.at_server = Inbox(world.machine)

        def attending(thread: Thread, connection: Connection = connection) -> Steps:
            return attend(pool, connection, thread)

        world.machine.spawn(f"connection {connection.index}", "server", attending)
    for number, queue in enumerate(pool.queues):

        def working(thread: Thread, queue: Queue = queue) -> Steps:
            return work(queue, thread)

        queue.worker = world.machine.spawn(f"worker {number}", "server", working)


def _receive(world: World, connection: Connection, thread: Thread) -> Generator[Any, Any, Request]:
    """Waits for a whole request, answering the exchanges before it."""
    inbox, cost = connection.at_server, world.cost("queues.connection")
    assert inbox is not None
    while True:
        yield from inbox.wait(thread)
        inbox.items.clear()
        request = connection.request
        assert request is not None
        if request.rounds == 0:
            return request
        yield from answer(connection, thread, cost)


def _attend(pool: Pool, connection: Connection, thread: Thread) -> Steps:
    cost = pool.world.cost("queues.connection")
    while True:
        request = yield from _receive(pool.world, connection, thread)
        request.waiter = Semaphore(pool.world.machine, 0)
        request.pending = len(request.tasks)
        yield thread.run(cost / 2)
        for queue, task in pool.deal(request):
            queue.tasks.append(task)
            price = queue.grown(thread)
            if price:
                yield thread.run(price)
        if request.tasks:
            yield from request.waiter.acquire(thread)
        yield from answer(connection, thread, cost / 2 + request.fixed)


def _run(queue: Queue, task: Task, price: float, thread: Thread) -> Steps:
    """Runs a task; gives its request if that was the last one of it."""
    world = queue.pool.world
    request, seconds = task
    world.count("busy", seconds)
    world.count("tasks")
    yield thread.run(price + queue.pool.task_cost + seconds)
    request.pending -= 1
    return None if request.pending else request


def _work(queue: Queue, thread: Thread) -> Steps:
    while True:
        task, price = queue.take(thread)
        if task is None:
            queue.idle = True
            yield thread.sleep()
            continue
        ended = yield from _run(queue, task, price, thread)
        if ended is not None:
            price = ended.waiter.release(thread)
            if price:
                yield thread.run(price)


def _attend_spinning(pool: Pool, connection: Connection, thread: Thread) -> Steps:
    world = pool.world
    cost = world.cost("queues.connection")
    while True:
        request = yield from _receive(world, connection, thread)
        request.pending = len(request.tasks)
        request.waiter = thread
        yield thread.run(cost / 2)
        for queue, task in pool.deal(request):
            begun = world.env.now
            if (yield from queue.lock.acquire(thread)):
                world.count("lock_waits")
                world.count("lock_wait", world.env.now - begun)
            queue.tasks.append(task)
            queue.grown(thread)
        if request.pending:
            yield thread.spin()
        yield from answer(connection, thread, cost / 2 + request.fixed)


def _work_spinning(queue: Queue, thread: Thread) -> Steps:
    queue.lock.attach(thread)
    while True:
        task, price = queue.take(thread)
        if task is None:
            queue.idle = True
            yield thread.spin()
            continue
        ended = yield from _run(queue, task, price, thread)
        if ended is not None:
            queue.pool.world.machine.release(ended.waiter)
