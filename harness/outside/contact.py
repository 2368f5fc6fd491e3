"""The first contact with a server that is not ours, which shows how it is best measured."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from http.client import HTTPException

from pyx.dialogue import Dialogue, DialogueError

from harness import subjects
from harness.errors import MeasureError
from harness.outside import reaching
from harness.plan import WINDOW, Plan
from harness.request import Request
from models.scenario import Scenario
from models.wording import printable

HIGHEST = {"2xx": 299, "3xx": 399, "any": 599}  # status of a right reply, by the knob of http
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
        closes = _greet(scenario, server.host, server.port)
        if not server.alive():
            raise MeasureError(server.death())
        looked = time.monotonic() - looked
    return Contact(time.monotonic() - began - looked, closes)


def _greet(scenario: Scenario, host: str, port: int) -> bool:
    """Asks for one reply, where that is known without the load; whether the server ends the connection with it."""
    if scenario.service == "lines":
        _line_reply(scenario, host, port)
    return scenario.service == "http" and _page_reply(scenario, host, port)


def _page_reply(scenario: Scenario, host: str, port: int) -> bool:
    try:
        reply = reaching.http_reply(scenario, host, port, float(scenario["ready_timeout"]))
    except (OSError, HTTPException) as error:
        why = printable(str(error))
        raise MeasureError(f"{host}:{port} accepts connections, but gives no HTTP reply ({why})") from error
    taken = str(scenario["status"])
    if 200 <= reply.status <= HIGHEST[taken]:
        return reply.closes
    raise MeasureError(
        f"{scenario['target']} answers {reply.status} {printable(reply.reason)}, and status={taken} takes it for a "
        f"failure; mend that, or give --set status={'3xx' if reply.status < 400 else 'any'}"
    )


def _line_reply(scenario: Scenario, host: str, port: int) -> None:
    options = scenario.native_options("service")
    try:
        dialogue = Dialogue("lines", options, host, port, float(scenario["ready_timeout"]))
        with closing(dialogue):
            text, _ = dialogue.ask(options["request"])
    except DialogueError as error:
        raise MeasureError(
            f"request={options['request']}: {error} (reply_lines={options['reply_lines']})"
        ) from error
    if not dialogue.right:
        raise MeasureError(
            f"request={options['request']} is answered {printable(text.rstrip())}, not as expect={options['expect']} says"
        )


def met(
    scenario: Scenario, named: Iterable[str], window: float | None, warmup: float
) -> tuple[Scenario, float]:
    """The scenario and the window (s) as they suit its server; nothing that was named or given is changed.

    A server that ends each connection itself is measured with one for each request. Where a command starts the
    server the window is so long that starting and stopping take a fifth of the time. Servers of ours are not met.
    """
    if not scenario.outside:
        return scenario, WINDOW if window is None else window
    found = contact(scenario)
    if window is None:
        window = WINDOW
        if scenario.server == "command":
            around = found.seconds + warmup
            window = max(WINDOW, min(round(SHARE * around + 0.05, 1), LONGEST))
    if found.closes and "connection" not in named:
        closer = {} if "closer" in named else {"closer": "server"}
        scenario = scenario.with_options(connection="per_request", **closer)
    return scenario, window


def planned(plan: Plan, request: Request) -> Plan:
    """A new plan, completed by a first contact with its control cell's server where that is not ours."""
    if plan.control is None or not plan.control.outside:
        return plan
    named = {name for name, _ in (*plan.options, *plan.variables)}
    given = plan.window if request.quick or request.window is not None else None
    scenario, window = met(plan.control, named, given, plan.warmup)
    changed = [
        (name, (scenario[name],)) for name in ("connection", "closer") if scenario[name] != plan.control[name]
    ]
    return replace(plan, window=window, options=(*plan.options, *changed), control=scenario)
