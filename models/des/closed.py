"""The closed load: the generator's threads poll a batch of replies, check each, and send that client's next request."""

from __future__ import annotations

from models.des.generator import Generator, ask, crew, deliver, go_on
from models.des.listening import connect
from models.des.parts import Connection, way
from models.des.records import Distribution, Steps, Thread, World

COSTS = ("load.event", "load.poll", "load.timer")


def build(world: World) -> None:
    """Connects the scenario's clients and starts the generator's threads."""
    mean = world.scenario.number("think")
    think = world.distribution(str(world.scenario["think_dist"]), mean)
    for generator in crew(world):
        world.spawn("generator", "load", _generate, generator, think, mean > 0)


def _generate(world: World, thread: Thread, generator: Generator, think: Distribution, thinks: bool) -> Steps:
    poll, event = world.cost("load.poll"), world.cost("load.event")
    timer = world.cost("load.timer") if thinks else 0.0
    for connection in generator.connections:
        if thinks:
            world.at(think.draw(), _due, connection)
        else:
            yield from _begin(world, connection, thread, event / 2)
    while True:
        yield thread.run(poll)
        world.count("load_polls")
        yield from generator.replies.wait(world, thread)
        if thinks:
            yield from generator.replies.pay(thread, timer)
        for connection in generator.replies.items.drain():
            request = connection.request
            if not request.under_way:
                yield from _begin(world, connection, thread, event / 2)
            elif request.rounds > 0:
                yield from go_on(world, connection, thread, event)
            elif thinks or connection.once:
                yield thread.run(
                    event / 2 + request.client + way(world, connection, connection.client, thread)
                )
                world.completed(request.operation, world.now - request.sent)
                request.under_way = False
                if thinks:
                    world.at(think.draw(), _due, connection)
                else:
                    yield from _begin(world, connection, thread, event / 2)
            else:
                yield from _turn(world, connection, thread, event)


def _due(world: World, connection: Connection) -> None:
    """A client has thought."""
    assert connection.at_client is not None
    connection.at_client.ring(world, connection)


def _turn(world: World, connection: Connection, thread: Thread, event: float) -> Steps:
    """Takes a reply and sends the next request at once: half of the event's cost lies on either side."""
    request = connection.request
    yield thread.run(event + request.client + way(world, connection, connection.client, thread))
    middle = world.now - event / 2
    world.completed(request.operation, middle - request.sent)
    request.draw(world)
    request.sent = middle
    world.entered()
    yield from deliver(world, connection, thread)


def _begin(world: World, connection: Connection, thread: Thread, cost: float) -> Steps:
    """Sends the next request, or, without a connection, first begins to make one."""
    if connection.connected:
        world.entered()
        yield from ask(world, connection, thread, cost)
    else:
        yield from connect(world, connection, thread)
