"""Connections made for each request: the accept queue, connecting, accepting and closing.

What a connection costs the client is load.connect, and the server machine.accept, closing included; the server closes with
its reply. A connection that finds the accept queue full is tried again by the
client's kernel after 1, 3 and 7 s, and so on.
"""

from __future__ import annotations

from models.des.parts import Connection, Inbox, Listener, send
from models.des.records import Steps, Thread, World

SOMAXCONN = 4096  # the kernel's limit of accept queues since Linux 5.4


def listen(world: World, inbox: Inbox) -> None:
    """Lets the owner of the inbox accept the scenario's connections."""
    listener = Listener(inbox, min(int(world.scenario.get("backlog", SOMAXCONN)), SOMAXCONN))
    for connection in world.connections:
        connection.listener = listener


def connect(world: World, connection: Connection, thread: Thread) -> Steps:
    """The client's part; it hears in its inbox that the connection stands."""
    listener, client = connection.listener, connection.at_client
    assert listener is not None and client is not None
    yield thread.run(world.cost("load.connect"))
    if listener.waiting < listener.places:
        listener.waiting += 1
        connection.connected = True
        client.items.append(connection)
        yield from send(world, connection, listener.inbox, thread)
    else:
        connection.retry = 1.0
        _again(world, connection)


def _again(world: World, connection: Connection) -> None:
    world.count("syn_retries")
    world.at(connection.retry, _knock, connection)
    connection.retry *= 2


def _knock(world: World, connection: Connection) -> None:
    """The client's kernel tries once more."""
    listener, client = connection.listener, connection.at_client
    assert listener is not None and client is not None
    if listener.waiting >= listener.places:
        _again(world, connection)
        return
    listener.waiting += 1
    connection.connected = True
    listener.inbox.ring(world, connection)
    client.ring(world, connection)


def admit(world: World, connection: Connection, thread: Thread) -> Steps:
    """The server's part; what to do with a request that was there before (early) is left to the caller."""
    listener = connection.listener
    assert listener is not None
    yield thread.run(world.cost("machine.accept"))
    listener.waiting -= 1
    connection.accepted = True


def accept(world: World, connection: Connection, thread: Thread) -> Steps:
    """The server's part; a request that was there before is readable at once."""
    yield from admit(world, connection, thread)
    if connection.early:
        connection.early = False
        yield from send(world, connection, connection.at_server, thread)
