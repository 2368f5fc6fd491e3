"""Laws that hold for every system, checked on each simulated answer: a breach is an error of the model, not a finding.

Little's law (Little 1961): the requests in the system, integrated over the window, are the response times added up, but
for those requests that cross the window's edges. The response time law: a closed load has N = X (R + Z) (Denning and
Buzen 1978, p. 238), less the due clients that wait for their generator.
"""

from __future__ import annotations

import math

from models import knobs
from models.des.outcome import Outcome
from models.scenario import Scenario

ROUNDING = 1e-6  # share
SPREADS = 6.0  # standard errors that chance is allowed
GROWTH = 4.0  # what an open load's queue may grow to over its mean
VARIATION = 2.0  # coefficient of variation of the widest think time there is


class ConservationError(RuntimeError):
    """A simulated answer breaks a law that holds for every system; the message says which, and by how much."""


def check(scenario: Scenario, outcome: Outcome) -> None:
    """Raises ConservationError where the outcome breaks Little's law or the response time law.

    The edges are allowed the longest response time for each request that can be in the system at once.
    """
    replies = len(outcome.responses)
    if not replies or outcome.span <= 0:
        return
    most = float(scenario.get("clients", 0)) - unserved(scenario)
    if scenario.load == "open":
        most += GROWTH * outcome.in_system
    longest = float(outcome.responses.max())
    if scenario.load == "open" and unserved(scenario) and scenario.number("load_threads") > 1:
        return  # a generator may have only such connections: its arrivals are never answered, and more and more
    _little(outcome, unserved(scenario), most * longest)
    if scenario.load == "closed":
        _closed(scenario, outcome, most * longest)


def unserved(scenario: Scenario) -> float:
    """Clients whose requests are never answered, because the server is kept by the connections of others."""
    ends = scenario.load == "forked" or scenario.get("connection") == "per_request"
    most = None if ends else knobs.serves_at_once(scenario.server, dict(scenario.options))
    return 0.0 if most is None else max(scenario.number("clients") - most, 0.0)


def _little(outcome: Outcome, stuck: float, edge: float) -> None:
    area = (outcome.in_system - stuck) * outcome.span
    total = float(outcome.responses.sum())
    if abs(area - total) > edge + ROUNDING * total:
        raise ConservationError(
            f"Little's law is broken: {area / outcome.span:.6g} requests are in the system, but the response times "
            f"add up to {total / outcome.span:.6g}"
        )


def _closed(scenario: Scenario, outcome: Outcome, edge: float) -> None:
    clients, think = scenario.number("clients"), scenario.number("think")
    replies, total = len(outcome.responses), float(outcome.responses.sum())
    if outcome.in_system > clients * (1 + ROUNDING):
        raise ConservationError(f"{outcome.in_system:.6g} requests of {clients:g} clients are in the system")
    chance = edge + think * (SPREADS * VARIATION * math.sqrt(replies) + clients)
    if total + replies * think > clients * outcome.span + chance:
        raise ConservationError(
            f"N = X (R + Z) is broken: {(total + replies * think) / outcome.span:.6g} clients are accounted for, "
            f"there are {clients:g}"
        )
