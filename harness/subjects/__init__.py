"""What is measured: a server of ours, one that somebody's command starts, or one that already runs. A file each.

Each module has `open(scenario)`, a context manager that gives a `Subject`; the module is found by the server's
name, and `native` is that of all servers that are ours.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from typing import Protocol

from pyx.counters import CounterPage

from models.scenario import Scenario


class Subject(Protocol):
    """A server that answers, while it is measured."""

    @property
    def host(self) -> str:
        """IPv4 address."""

    @property
    def port(self) -> int: ...

    @property
    def pid(self) -> int:
        """Its process; 0 where that is not known."""

    @property
    def tree(self) -> bool:
        """Whether the process's descendants belong to the server too."""

    @property
    def page(self) -> CounterPage | None:
        """Its own counters; None of a server that keeps none for us."""

    @property
    def words(self) -> dict[str, str]:
        """Knobs of the service that are known only now that the server runs."""

    def alive(self) -> bool: ...

    def death(self) -> str:
        """Why it is not alive, in one line."""


def open(scenario: Scenario) -> AbstractContextManager[Subject]:
    """The scenario's server, ready to answer inside the block and ended (if we started it) after it.

    Raises
    ------
    MeasureError
        When it cannot be started or reached, in one line.
    """
    name = scenario.server if scenario.outside else "native"
    opened: AbstractContextManager[Subject] = importlib.import_module(f"{__name__}.{name}").open(scenario)
    return opened
