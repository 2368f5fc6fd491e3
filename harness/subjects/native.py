"""A server of ours: a fresh kneepoint-server with a page of counters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyx.counters import CounterPage

from harness.errors import MeasureError
from models.scenario import Scenario
from pyx.server import Server, ServerError


class Native:
    """One of our servers; the attributes are those of `harness.subjects.Subject`."""

    tree = False

    def __init__(self, scenario: Scenario, server: Server) -> None:
        self._name, self._server = scenario.server, server
        self.host: str = server.host
        self.port: int = server.port
        self.pid: int = server.pid
        self.page: CounterPage = server.page
        self.words: dict[str, str] = {}

    def alive(self) -> bool:
        return bool(self._server.alive())

    def death(self) -> str:
        status = self._server.process.returncode
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"server {self._name} {how} while it was measured"


@contextmanager
def open(scenario: Scenario) -> Iterator[Native]:
    """Starts it and stops it."""
    try:
        server = Server(scenario.service, scenario.server, scenario.native_options("service", "server"))
    except ServerError as error:
        raise MeasureError(str(error), error.usage) from error
    with server:
        yield Native(scenario, server)
