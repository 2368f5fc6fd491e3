"""The first contact with a server that is not ours, which shows how it is best measured."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from harness import reaching, subjects
from harness.errors import MeasureError
from harness.plan import Plan
from harness.request import Request
from models import outside
from models.scenario import Scenario

SHARE = 4.0  # windows last so many times as long as everything around them: 80 % of the time is measured
LONGEST = 10.0  # s, however long a server takes to start


@dataclass(frozen=True, slots=True)
class Contact:
    """What a first contact showed.

    Attributes
    ----------
    seconds : float
        From before it was started until after it was stopped, less what it was only looked at.
    closes : bool
        Whether it ends each connection after one reply although it was asked to keep it.
    """

    seconds: float
    closes: bool


def contact(scenario: Scenario) -> Contact:
    """Starts the scenario's server (if a command does), looks at how it answers, and stops it.

    Raises
    ------
    MeasureError
        When it cannot be started or reached: once and at once, rather than in every measurement.
    """
    began = time.monotonic()
    with subjects.open(scenario) as server:
        looked = time.monotonic()
        closes = reaching.closes(scenario, server.host, server.port)
        if not server.alive():
            raise MeasureError(server.death())
        looked = time.monotonic() - looked
    return Contact(time.monotonic() - began - looked, closes)


def window_for(found: Contact, warmup: float, standard: float) -> float:
    """A window long enough that starting and stopping take a fifth of the time; s, to tenths."""
    return max(standard, min(round(SHARE * (found.seconds + warmup) + 0.05, 1), LONGEST))


def connection_for(found: Contact, named: Iterable[str]) -> dict[str, str]:
    """Settings that suit a server which ends each connection itself, unless they are named already."""
    if not found.closes or "connection" in named:
        return {}
    return {"connection": "per_request"} | ({} if "closer" in named else {"closer": "server"})


def met(plan: Plan, request: Request) -> Plan:
    """The plan, completed by a first contact with its control cell's server where that is not ours.

    Chosen are the window, where a command starts the server and no time was given, and `connection`, where the
    server keeps none.
    """
    if plan.server not in outside.KINDS or plan.control is None:
        return plan
    found = contact(plan.control)
    if plan.server == "command" and request.window is None and not request.quick:
        plan = replace(plan, window=window_for(found, plan.warmup, plan.window))
    named = {name for name, _ in (*plan.options, *plan.variables)}
    added = tuple((name, (value,)) for name, value in connection_for(found, named).items())
    return replace(plan, options=(*plan.options, *added), control=None).with_control() if added else plan
