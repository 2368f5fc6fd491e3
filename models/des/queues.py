"""The queues server: a thread for each connection splits its request into tasks over the workers' own queues.

wait=block: threads sleep for tasks and for results. wait=spin: the connection's thread polls the results and the workers
poll their queue under its lock, burning their slices. steal=next: an idle worker takes half of the next queue if that
holds two tasks or more.
"""

from __future__ import annotations

from collections import deque

from models.des.engine import World
from models.des.machine import Thread
from models.des.parts import Connection, Inbox, PolledLock, Request, Semaphore, Steps, answer

COSTS = ("queues.connection", "queues.worker", "queues.spin_held")


class _Queue:
    """A worker's queue: tasks, and who waits for them."""

    def __init__(self, world: World) -> None:
        self.tasks: deque[tuple[Request, float]] = deque()
        self.filled = Semaphore(world.machine, 0)
        self.lock = PolledLock(world.machine, world.cost("queues.spin_held"), world.random)
        self.idle = False


def build(world: World) -> None:
    queues = [_Queue(world) for _ in range(int(world.scenario.number("workers")))]
    attend = _attend_spinning if world.scenario["wait"] == "spin" else _attend
    work = _work_spinning if world.scenario["wait"] == "spin" else _work
    for connection in world.connections:
        connection.at_server = Inbox(world.machine)
        world.machine.spawn(
            f"connection {connection.index}", "server", lambda thread, c=connection: attend(world, c, queues, thread)
        )
    for number in range(len(queues)):
        world.machine.spawn(f"worker {number}", "server", lambda thread, n=number: work(world, queues, n, thread))


def _receive(world: World, connection: Connection, thread: Thread) -> Steps:
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


def _attend(world: World, connection: Connection, queues: list[_Queue], thread: Thread) -> Steps:
    cost = world.cost("queues.connection")
    while True:
        request = yield from _receive(world, connection, thread)
        request.waiter = Semaphore(world.machine, 0)
        request.pending = len(request.tasks)
        start = int(world.random.integers(len(queues)))
        yield thread.run(cost / 2)
        for k, task in enumerate(request.tasks):
            queue = queues[(start + k) % len(queues)]
            queue.tasks.append((request, task))
            price = queue.filled.release(thread)
            if price:
                yield thread.run(price)
        yield from request.waiter.acquire(thread)
        yield from answer(connection, thread, cost / 2 + request.fixed)


def _work(world: World, queues: list[_Queue], number: int, thread: Thread) -> Steps:
    cost, queue = world.cost("queues.worker"), queues[number]
    while True:
        yield from queue.filled.acquire(thread)
        request, task = queue.tasks.popleft()
        world.count("busy", task)
        world.count("tasks")
        yield thread.run(cost + task)
        request.pending -= 1
        if request.pending == 0:
            price = request.waiter.release(thread)
            if price:
                yield thread.run(price)


def _attend_spinning(world: World, connection: Connection, queues: list[_Queue], thread: Thread) -> Steps:
    cost = world.cost("queues.connection")
    while True:
        request = yield from _receive(world, connection, thread)
        request.pending = len(request.tasks)
        request.waiter = thread
        start = int(world.random.integers(len(queues)))
        yield thread.run(cost / 2)
        for k, task in enumerate(request.tasks):
            queue = queues[(start + k) % len(queues)]
            begun = world.env.now
            if (yield from queue.lock.acquire(thread)):
                world.count("lock_waits")
                world.count("lock_wait", world.env.now - begun)
            queue.tasks.append((request, task))
            if queue.idle and queue.lock.spinner is not None:
                queue.idle = False
                world.machine.release(queue.lock.spinner)
        if request.pending:
            yield thread.spin()
        yield from answer(connection, thread, cost / 2 + request.fixed)


def _work_spinning(world: World, queues: list[_Queue], number: int, thread: Thread) -> Steps:
    cost, queue = world.cost("queues.worker"), queues[number]
    queue.lock.attach(thread)
    while True:
        if not queue.tasks:
            queue.idle = True
            yield thread.spin()
            continue
        request, task = queue.tasks.popleft()
        world.count("busy", task)
        world.count("tasks")
        yield thread.run(cost + task)
        request.pending -= 1
        if request.pending == 0:
            world.machine.release(request.waiter)
