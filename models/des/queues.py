"""The queues server: a thread for each connection splits its request into tasks over the workers' own queues.

wait=block: threads sleep for tasks and for results. wait=spin: the connection's thread polls the results and
the workers poll their queue under its lock, burning their slices.

A worker whose queue is empty robs another: it takes the older half of a queue that holds two tasks or more, runs the
first at once and puts the rest into its own queue. steal=next looks at the next queue only; next_backoff too, and where
it polls it sleeps after so many empty looks; random looks at one of all; richest at all, and takes from the longest.
`choose` is all that tells them apart.

accept=epoll: one thread reads all connections, and the worker that ends a request's last task answers it.

As in the server, whoever makes a queue longer wakes its worker if that is idle, and, once the queue holds two, a
thief: the worker before it, or the first idle one if any queue may be robbed; and whoever goes to run a task wakes
another then while there is something to rob. Looks are free, as locks are that nobody polls: they take nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from models.des.listening import accept, listen
from models.des.parts import Connection, Inbox, PolledLock, answer, ended, way
from models.des.records import Fifo, Record, Steps, Thread, World
from models.des.service import Service, service_of, work

ANYWHERE = ("random", "richest")  # rules by which any queue may be robbed
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
    place : int
        Its own in the ring.
    """

    tasks: Fifo[tuple[Connection, float]] = field(default_factory=Fifo)
    lock: PolledLock = field(default_factory=PolledLock)
    worker: Thread | None = None
    idle: bool = False
    place: int = 0


@dataclass(eq=False, slots=True)
class Pool(Record):
    """The workers' queues, a ring.

    Attributes
    ----------
    idlers : int
        How many workers are idle.
    """

    queues: list[Queue]
    idlers: int = 0


def build(world: World) -> None:
    spins = world.scenario["wait"] == "spin"
    workers = int(world.scenario.number("workers"))
    steal = str(world.scenario["steal"]) if workers > 1 else "none"
    nap = world.scenario.number("backoff_sleep") if spins and steal == "next_backoff" else 0.0
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
        name = f"worker {number}"
        queue.worker = world.spawn(name, "server", _work, pool, queue, service, steal, spins, nap, watches)
        queue.lock.spinner = queue.worker


def ring(workers: int) -> Pool:
    """So many queues."""
    return Pool([Queue(place=place) for place in range(workers)])


def longest(pool: Pool, place: int) -> int:
    """The place of the longest of the other queues; of several, the first after this one."""
    count = len(pool.queues)
    found, most = (place + 1) % count, 0
    for i in range(1, count):
        at = (place + i) % count
        if len(pool.queues[at].tasks) > most:
            found, most = at, len(pool.queues[at].tasks)
    return found


def worth(pool: Pool, place: int) -> bool:
    """Whether there is another queue to rob."""
    return len(pool.queues[longest(pool, place)].tasks) >= 2


def choose(world: World, pool: Pool, queue: Queue, steal: str) -> int:
    """The place of the queue that this one's worker looks at, or finds in the end."""
    count, place = len(pool.queues), queue.place
    if steal == "richest":
        return longest(pool, place)
    if steal != "random":
        return (place + 1) % count
    victim = (place + 1 + world.below(count - 1)) % count
    while len(pool.queues[victim].tasks) < 2 and worth(pool, place):
        victim = (place + 1 + world.below(count - 1)) % count
    return victim


def rob(world: World, pool: Pool, queue: Queue, steal: str) -> int:
    """Moves tasks of another queue into this worker's empty one; how many."""
    victim = pool.queues[choose(world, pool, queue, steal)]
    half = len(victim.tasks) // 2
    for _ in range(half):
        connection, seconds = victim.tasks.popleft()
        queue.tasks.append((connection, seconds))
    if half > 0:
        world.count("steals", float(half))
    return half


def grown(world: World, pool: Pool, queue: Queue, by: Thread, steal: str, spins: bool) -> float:
    """Wakes who could take what has just been put there; gives what that costs the thread that did it."""
    price = _rouse(pool, queue, by, spins, world.prices.wake_futex)
    if steal != "none" and len(queue.tasks) >= 2:
        if steal in ANYWHERE:
            price += _rouse_thief(world, pool, queue, by, spins)
        else:
            before = pool.queues[(queue.place - 1) % len(pool.queues)]
            if spins:
                before.lock.leave(world, world.cost("queues.spin_held"))
            price += _rouse(pool, before, by, spins, world.prices.wake_futex)
    return price


def _rouse_thief(world: World, pool: Pool, queue: Queue, by: Thread, spins: bool) -> float:
    """The first idle worker after this queue's; where they poll, all of them."""
    count = len(pool.queues)
    for i in range(1, count):
        other = pool.queues[(queue.place + i) % count]
        if other.idle:
            if spins:
                other.lock.leave(world, world.cost("queues.spin_held"))
            price = _rouse(pool, other, by, spins, world.prices.wake_futex)
            if not spins:
                return price
    return 0.0


def _rouse(pool: Pool, queue: Queue, by: Thread, spins: bool, local: float) -> float:
    if not queue.idle:
        return 0.0
    assert queue.worker is not None
    queue.idle = False
    pool.idlers -= 1
    if spins:
        by.release(queue.worker)
        return 0.0
    return by.wake(queue.worker, local)


def _successor(world: World, pool: Pool, queue: Queue, by: Thread, steal: str, spins: bool) -> float:
    """Whoever goes to run a task wakes another while there is something to rob; gives what that costs."""
    if spins or steal not in ANYWHERE or pool.idlers == 0:
        return 0.0
    if len(queue.tasks) < 2 and not worth(pool, queue.place):
        return 0.0
    return _rouse_thief(world, pool, queue, by, spins)


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
        price = grown(world, pool, queue, thread, steal, spins)
        if price > 0.0:
            yield thread.run(price)


def _work(
    world: World,
    thread: Thread,
    pool: Pool,
    queue: Queue,
    service: Service,
    steal: str,
    spins: bool,
    nap: float,
    watches: bool,
) -> Steps:
    cost = world.cost("queues.worker")
    while True:
        stolen = 0
        if not queue.tasks and steal != "none":
            stolen = rob(world, pool, queue, steal)
        if queue.tasks:
            connection, seconds = queue.tasks.popleft()
            price = grown(world, pool, queue, thread, steal, spins) if stolen > 1 else 0.0
            price += _successor(world, pool, queue, thread, steal, spins)
            world.count("tasks")
            reader = connection.server.reader
            if reader is not None and thread.apart(reader):
                price += world.prices.remote
            yield from work(world, thread, service, connection.request, price + cost, seconds)
            connection.request.pending -= 1
            if connection.request.pending == 0:
                yield from _end(world, thread, connection, spins, watches)
        elif nap > 0.0:
            yield thread.pause(nap)
        else:
            queue.idle = True
            pool.idlers += 1
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
