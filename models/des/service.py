"""How threads of a server do a service's work: computing, sleeping, under locks."""

from __future__ import annotations

from dataclasses import dataclass

from models.des.parts import ReadersWriters, Request
from models.des.records import Record, Steps, Thread, World


@dataclass(eq=False, slots=True)
class Service(Record):
    """The service as its server's threads see it.

    Attributes
    ----------
    sleeps : bool
        Its work takes time, but no processor.
    locks : list of ReadersWriters
        Those that requests name; empty where a single thread works, which never waits for itself.
    """

    sleeps: bool
    locks: list[ReadersWriters]


def service_of(world: World, threads: int) -> Service:
    """The scenario's service, worked by so many threads."""
    scenario = world.scenario
    sleeps = scenario.get("demand_kind") == "sleep" and scenario.number("demand") > 0
    return Service(sleeps, [ReadersWriters() for _ in range(world.locks if threads > 1 else 0)])


def work(
    world: World, thread: Thread, service: Service, request: Request, overhead: float, seconds: float
) -> Steps:
    """Runs for the overhead, then does the request's work of so many seconds."""
    world.count("busy", seconds)
    if service.sleeps:
        yield thread.run(overhead)
        yield thread.pause(seconds)
    elif request.lock < 0 or len(service.locks) == 0:
        yield thread.run(overhead + seconds)
    else:
        yield thread.run(overhead)
        lock = service.locks[request.lock]
        begun = world.now
        waited = yield from lock.acquire(world, thread, request.shared)
        if waited:
            world.count("lock_waits")
            world.count("lock_wait", world.now - begun)
        yield thread.run(seconds)
        yield from lock.release(world, thread, request.shared)


def serve(world: World, thread: Thread, service: Service, request: Request, overhead: float) -> Steps:
    """Does what a message of the client asks for: all the request's work, or nothing where its reply is still far."""
    if request.rounds > 0:
        yield thread.run(overhead)
    else:
        yield from work(world, thread, service, request, overhead + request.fixed, request.work(world))
