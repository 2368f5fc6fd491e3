"""The queues server: a thread for each connection splits its request into tasks over the workers' own queues.

wait=block: threads sleep for tasks and for results. wait=spin: the connection's thread polls the results and
the workers poll their queue under its lock, burning their slices. steal=next: a worker whose queue is empty
takes the older half of the next queue if that holds two tasks or more; it runs the first at once and puts the
rest into its own queue.

accept=epoll: one thread reads all connections, and the worker that ends a request's last task answers it.

As in the server, whoever makes a queue longer wakes its worker if that is idle, and, with stealing, the
worker before it once the queue holds two. A steal itself is free: its two locks are held for nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from models.des.listening import accept, listen
from models.des.parts import Connection, Inbox, PolledLock, answer, ended, way
from models.des.records import Fifo, Record, Steps, Thread, World
from models.des.service import Service, service_of, work

COSTS = ("queues.connection", "queues.worker", "queues.spin_held")


@dataclass(eq=False, slots=True)
class Queue(Record):
    """A worker's queue, in a ring.

    Attributes
    ----------
    tasks : Fifo of (Connection, float)
        Whose task, and its processor time, s.
    idle : bool
        Its worker found nothing to do and waits.
    """

    tasks: Fifo[tuple[Connection, float]] = field(default_factory=Fifo)
    lock: PolledLock = field(default_factory=PolledLock)
    worker: Thread | None = None
    idle: bool = False
    next: Queue | None = None
    previous: Queue | None = None


@dataclass(eq=False, slots=True)
class Pool(Record):
    """The workers' queues."""

    queues: list[Queue]


def build(world: World) -> None:
    spins = world.scenario["wait"] == "spin"
    workers = int(world.scenario.number("workers"))
    steal = str(world.scenario["steal"]) if workers > 1 else "none"
    pool, service = ring(workers), service_of(world, workers)
    ready, watches = Inbox(), world.scenario["accept"] == "epoll"
    listen(world, ready)
    for connection in world.connections:
        connection.at_server = ready if watches else Inbox()
        if not watches:
            world.spawn(f"connection {connection.index}", "server", _attend, pool, connection, steal, spins)
    if watches:
        world.spawn("acceptor", "server", _watch, ready, pool, steal, spins)
    elif any(not connection.accepted for connection in world.connections):
        world.spawn("acceptor", "server", _accept, ready)
    for number, queue in enumerate(pool.queues):
        queue.worker = world.spawn(f"worker {number}", "server", _work, queue, service, steal, spins, watches)
        queue.lock.spinner = queue.worker


def ring(workers: int) -> Pool:
    """So many queues, each with its neighbours."""
    queues = [Queue() for _ in range(workers)]
    for queue, following in zip(queues, queues[1:] + queues[:1], strict=True):
        queue.next, following.previous = following, queue
    return Pool(queues)


def grown(world: World, queue: Queue, by: Thread, steal: str, spins: bool) -> float:
    """Wakes who could take what has just been put there; gives what that costs the thread that did it."""
    price = _rouse(world, queue, by, spins)
    if steal != "none" and len(queue.tasks) >= 2:
        assert queue.previous is not None
        if spins:
            queue.previous.lock.leave(world, world.cost("queues.spin_held"))
        price += _rouse(world, queue.previous, by, spins)
    return price


def _rouse(world: World, queue: Queue, by: Thread, spins: bool) -> float:
    if not queue.idle:
        return 0.0
    assert queue.worker is not None
    queue.idle = False
    if spins:
        by.release(queue.worker)
        return 0.0
    return by.wake(queue.worker, world.prices.wake_futex)


def rob(world: World, queue: Queue, steal: str) -> int:
    """Moves tasks of another queue into this worker's empty one; how many."""
    victim = queue.next
    assert victim is not None
    half = len(victim.tasks) // 2
    for _ in range(half):
        connection, seconds = victim.tasks.popleft()
        queue.tasks.append((connection, seconds))
    if half > 0:
        world.count("steals", float(half))
    return half


def _receive(world: World, connection: Connection, thread: Thread) -> Steps:
    """Waits for a whole request, answering the exchanges before it."""
    inbox, cost = connection.at_server, world.cost("queues.connection")
    assert inbox is not None
    while True:
        yield from inbox.wait(world, thread)
        inbox.items.clear()
        if ended(connection):
            continue
        if connection.request.rounds == 0:
            return
        yield from answer(world, connection, thread, cost + way(world, connection, connection.server, thread))


def _attend(
    world: World, thread: Thread, pool: Pool, connection: Connection, steal: str, spins: bool
) -> Steps:
    cost = world.cost("queues.connection") / 2
    request = connection.request
    connection.waiter = thread
    while True:
        yield from _receive(world, connection, thread)
        yield thread.run(cost + way(world, connection, connection.server, thread))
        yield from _deal(world, thread, pool, connection, steal, spins)
        if spins:
            if request.pending > 0:
                yield thread.spin()
        elif request.tasks > 0:
            yield from connection.ended.acquire(thread)
        yield from answer(world, connection, thread, cost + request.fixed)


def _accept(world: World, thread: Thread, ready: Inbox) -> Steps:
    """Starts a thread for each new connection; it has been waiting here, as none can be made while the model runs."""
    while True:
        yield from ready.wait(world, thread)
        connection = ready.items.popleft()
        yield thread.run(world.cost("machine.thread_create"))
        yield from accept(world, connection, thread)


def _watch(world: World, thread: Thread, ready: Inbox, pool: Pool, steal: str, spins: bool) -> Steps:
    """One thread that reads the requests of all connections."""
    poll, cost = world.cost("load.poll"), world.cost("queues.connection")
    while True:
        yield thread.run(poll)
        world.count("polls")
        yield from ready.wait(world, thread)
        for connection in ready.items.drain():
            request = connection.request
            if not connection.accepted:
                yield from accept(world, connection, thread)
            elif ended(connection):
                continue
            elif request.rounds > 0 or request.tasks == 0:
                fixed = request.fixed if request.rounds == 0 else 0.0
                fixed += way(world, connection, connection.server, thread)
                yield from answer(world, connection, thread, cost + fixed)
            else:
                yield thread.run(cost / 2 + way(world, connection, connection.server, thread))
                yield from _deal(world, thread, pool, connection, steal, spins)


def _deal(world: World, thread: Thread, pool: Pool, connection: Connection, steal: str, spins: bool) -> Steps:
    """Puts the request's tasks into the queues, round robin from a random one."""
    request = connection.request
    at = world.below(len(pool.queues))
    for k in range(request.first, request.first + request.tasks):
        queue = pool.queues[at]
        at = (at + 1) % len(pool.queues)
        if spins:
            begun = world.now
            waited = yield from queue.lock.acquire(world, thread, world.cost("queues.spin_held"))
            if waited:
                world.count("lock_waits")
                world.count("lock_wait", world.now - begun)
        queue.tasks.append((connection, world.demand_seconds(k) * world.cost("demand.service")))
        price = grown(world, queue, thread, steal, spins)
        if price > 0.0:
            yield thread.run(price)


def _work(
    world: World, thread: Thread, queue: Queue, service: Service, steal: str, spins: bool, watches: bool
) -> Steps:
    cost = world.cost("queues.worker")
    while True:
        stolen = 0
        if not queue.tasks and steal != "none":
            stolen = rob(world, queue, steal)
        if queue.tasks:
            connection, seconds = queue.tasks.popleft()
            price = grown(world, queue, thread, steal, spins) if stolen > 1 else 0.0
            world.count("tasks")
            reader = connection.server.reader
            if reader is not None and thread.apart(reader):
                price += world.prices.remote
            yield from work(world, thread, service, connection.request, price + cost, seconds)
            connection.request.pending -= 1
            if connection.request.pending == 0:
                yield from _end(world, thread, connection, spins, watches)
        else:
            queue.idle = True
            if spins:
                yield thread.spin()
                queue.lock.held = False
            else:
                yield thread.sleep()


def _end(world: World, thread: Thread, connection: Connection, spins: bool, watches: bool) -> Steps:
    """The last task of a request is done."""
    if watches:
        cost = world.cost("queues.connection") / 2
        yield from answer(world, connection, thread, cost + connection.request.fixed)
    elif spins:
        assert connection.waiter is not None
        thread.release(connection.waiter)
    else:
        price = connection.ended.release(world, thread)
        if price > 0.0:
            yield thread.run(price)
