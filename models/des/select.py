"""The select server: one thread that polls a batch of readable connections and answers each in turn."""

from __future__ import annotations

from models.des.cpu import Thread
from models.des.engine import World
from models.des.parts import Inbox, Steps, answer

COSTS = ("select.event", "select.poll", "select.poll_connection")


def build(world: World) -> None:
    inbox = Inbox(world.machine)
    for connection in world.connections:
        connection.at_server = inbox
    world.machine.spawn("loop", "server", lambda thread: _program(world, inbox, thread))


def _program(world: World, inbox: Inbox, thread: Thread) -> Steps:
    event = world.cost("select.event")
    poll = world.cost("select.poll") + world.cost("select.poll_connection") * len(world.connections)
    while True:
        yield thread.run(poll)
        world.count("polls")
        yield from inbox.wait(thread)
        for connection in inbox.take_all():
            request = connection.request
            demand = request.fixed + sum(request.tasks) if request.rounds == 0 else 0.0
            yield from answer(connection, thread, event + demand)
