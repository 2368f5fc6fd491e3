"""The open load: requests arrive by a schedule, whether or not earlier ones were answered.

An arrival is sent by the connection that has been free for longest; while none is free it waits in the generator. Its
response is counted from the planned moment, its service time from when it was sent.
"""

from __future__ import annotations

from models.des.generator import Generator, ask, crew, go_on
from models.des.listening import connect
from models.des.parts import Connection, way
from models.des.records import Distribution, Steps, Thread, World

COSTS = ("load.event", "load.poll", "load.timer")


def build(world: World) -> None:
    """Connects the clients, starts the generator's threads and splits the schedule over them."""
    generators = crew(world)
    poisson = world.scenario["arrivals"] == "poisson"
    gap = len(generators) / world.scenario.number("arrival_rate")
    gaps = world.distribution("exponential" if poisson else "constant", gap)
    for k, generator in enumerate(generators):
        world.spawn("generator", "load", _generate, generator)
        world.agent("schedule", _schedule, generator, gaps, poisson, gap * k / len(generators))


def _schedule(
    world: World, thread: Thread, generator: Generator, gaps: Distribution, poisson: bool, first: float
) -> Steps:
    """The plan, which waits for nobody."""
    yield thread.run(gaps.draw() if poisson else first)
    while True:
        world.entered()
        generator.planned.append(world.now)
        generator.replies.alarm(world)
        yield thread.run(gaps.draw())


def _generate(world: World, thread: Thread, generator: Generator) -> Steps:
    poll, event, timer = world.cost("load.poll"), world.cost("load.event"), world.cost("load.timer")
    for connection in generator.connections:
        yield from _free(world, generator, connection, thread, event / 2)
    while True:
        yield thread.run(poll)
        world.count("load_polls")
        generator.replies.owner = thread
        while not generator.planned and not generator.replies.items:
            generator.replies.asleep = True
            yield thread.sleep()
        generator.replies.asleep = False
        yield from generator.replies.pay(thread, timer)
        for connection in generator.replies.items.drain():
            if not connection.request.under_way:
                yield from _free(world, generator, connection, thread, event / 2)
            elif connection.request.rounds > 0:
                yield from go_on(world, connection, thread, event)
            else:
                yield from _finish(world, generator, connection, thread, event)
        for planned in generator.planned.drain():
            generator.backlog.append(planned)
            if generator.free:
                connection = generator.free.popleft()
                yield from _free(world, generator, connection, thread, event / 2)


def _finish(
    world: World, generator: Generator, connection: Connection, thread: Thread, event: float
) -> Steps:
    """Takes a reply; the connection is free for another arrival."""
    request = connection.request
    yield thread.run(event / 2 + request.client + way(world, connection, connection.client, thread))
    world.completed(request.operation, world.now - request.planned, world.now - request.sent)
    request.under_way = False
    yield from _free(world, generator, connection, thread, event / 2)


def _free(world: World, generator: Generator, connection: Connection, thread: Thread, cost: float) -> Steps:
    """Sends the arrival that has waited longest; without one the connection waits, and one that has ended is made anew."""
    if not connection.connected:
        yield from connect(world, connection, thread)
    elif generator.backlog:
        connection.request.planned = generator.backlog.popleft()
        yield from ask(world, connection, thread, cost)
    else:
        generator.free.append(connection)
