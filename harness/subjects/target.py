"""Somebody's server that already runs: it is reached, found among this machine's processes, and left alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import MeasureError
from harness.outside import reaching
from harness.subjects import _processes
from models import outside
from models.scenario import Scenario


class Target:
    """A running server; the attributes are those of `harness.subjects.Subject`."""

    tree = True
    page = None

    def __init__(self, scenario: Scenario, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.pid = _processes.root_of(host, port)
        self.words = reaching.words(scenario, port)

    def alive(self) -> bool:
        return Path(f"/proc/{self.pid}").exists() if self.pid else reaching.connects(self.host, self.port)

    def death(self) -> str:
        return f"the server at {self.host}:{self.port} ended while it was measured"


@contextmanager
def open(scenario: Scenario) -> Iterator[Target]:
    """Checks that it answers."""
    host = reaching.host_of(scenario)
    port = int(outside.place(str(scenario["target"])).port)
    if not reaching.await_answer(scenario, host, port, alive=lambda: False):
        raise MeasureError(
            f"{scenario['target']}: no answer from {host}:{port}"
            f"{' in HTTP' if scenario.service == 'http' else ''}; start the server first, or give --command"
        )
    yield Target(scenario, host, port)
