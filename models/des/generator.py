"""What the loads' programs have in common: the threads of the generator, sending, connecting, and taking replies."""

from __future__ import annotations

from dataclasses import dataclass, field

from models.des.parts import Connection, Inbox, send, way
from models.des.records import Fifo, Record, Steps, Thread, World


@dataclass(eq=False, slots=True)
class Generator(Record):
    """A thread of the generator.

    Attributes
    ----------
    replies : Inbox
    connections : list of Connection
        Those that it plays the clients of.
    planned : Fifo of float
        Moments of an open load's arrivals that it has not yet seen, s.
    backlog : Fifo of float
        Of those that wait for a connection, s.
    free : Fifo of Connection
        Longest free first.
    """

    connections: list[Connection]
    replies: Inbox = field(default_factory=Inbox)
    planned: Fifo[float] = field(default_factory=Fifo)
    backlog: Fifo[float] = field(default_factory=Fifo)
    free: Fifo[Connection] = field(default_factory=Fifo)


def crew(world: World) -> list[Generator]:
    """Makes the scenario's connections, and the generators that share them evenly."""
    clients = int(world.scenario.number("clients"))
    once = world.scenario.get("connection") == "per_request"
    world.connections += [
        Connection(index, once=once, connected=not once, accepted=not once) for index in range(clients)
    ]
    threads = min(int(world.scenario.get("load_threads", 1)), clients)
    generators = []
    for k in range(threads):
        generator = Generator(world.connections[clients * k // threads : clients * (k + 1) // threads])
        for connection in generator.connections:
            connection.at_client = generator.replies
        generators.append(generator)
    return generators


def ask(world: World, connection: Connection, thread: Thread, cost: float) -> Steps:
    """Sends a new request over the connection."""
    request = connection.request
    request.draw(world)
    request.sent = world.now
    yield thread.run(cost)
    yield from deliver(world, connection, thread)


def deliver(world: World, connection: Connection, thread: Thread) -> Steps:
    """The request's bytes reach the server: its thread, or the socket that it has not accepted yet."""
    if connection.accepted:
        yield from send(world, connection, connection.at_server, thread)
    else:
        connection.early = True


def go_on(world: World, connection: Connection, thread: Thread, event: float) -> Steps:
    """An exchange before the reply has come back: sends the next one."""
    connection.request.rounds -= 1
    yield thread.run(event + way(world, connection, connection.client, thread))
    yield from send(world, connection, connection.at_server, thread)
