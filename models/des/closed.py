"""The closed load's generator as one thread: poll a batch of replies, check each, send that client's next request."""

from __future__ import annotations

from models.des.cpu import Thread
from models.des.engine import World
from models.des.parts import Connection, Inbox, Steps

COSTS = ("load.event", "load.poll")
UNMODELLED = {"connection": ("per_request",), "load_threads": range(2, 65)}


def build(world: World) -> None:
    """Connects the scenario's clients and starts the generator's thread."""
    inbox = Inbox(world.machine)
    for index in range(int(world.scenario.number("clients"))):
        connection = Connection(index)
        connection.at_client = inbox
        world.connections.append(connection)
    world.machine.spawn("generator", "load", lambda thread: _program(world, inbox, thread))


def _program(world: World, inbox: Inbox, thread: Thread) -> Steps:
    poll, event = world.cost("load.poll"), world.cost("load.event")
    think = world.think()
    for connection in world.connections:
        if think is None:
            yield from _ask(world, connection, thread, event / 2)
        else:
            _pause(world, connection, inbox, next(think))
    while True:
        yield thread.run(poll)
        world.count("load_polls")
        yield from inbox.wait(thread)
        for connection in inbox.take_all():
            request = connection.request
            if request is None:
                yield from _ask(world, connection, thread, event / 2)
            elif request.rounds:
                request.rounds -= 1
                yield thread.run(event)
                yield from _send(connection, thread)
            elif think is None:
                yield from _turn(world, connection, thread, event)
            else:
                yield thread.run(event / 2 + request.client)
                world.completed(request, world.env.now)
                connection.request = None
                _pause(world, connection, inbox, next(think))


def _pause(world: World, connection: Connection, inbox: Inbox, seconds: float) -> None:
    """The client thinks; then its connection is due again."""
    world.machine.at(seconds, lambda _: inbox.put(connection, None))


def _turn(world: World, connection: Connection, thread: Thread, event: float) -> Steps:
    """Takes a reply and sends the next request at once: half of the event's cost lies on either side."""
    request = connection.request
    assert request is not None
    yield thread.run(event + request.client)
    middle = world.env.now - event / 2
    world.completed(request, middle)
    connection.request = world.next_request()
    connection.request.sent = middle
    yield from _send(connection, thread)


def _ask(world: World, connection: Connection, thread: Thread, cost: float) -> Steps:
    connection.request = world.next_request()
    yield thread.run(cost)
    connection.request.sent = world.env.now - cost
    yield from _send(connection, thread)


def _send(connection: Connection, thread: Thread) -> Steps:
    assert connection.at_server is not None
    price = connection.at_server.put(connection, thread)
    if price:
        yield thread.run(price)
