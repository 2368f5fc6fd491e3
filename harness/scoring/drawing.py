"""Draws the configurations of a score from a seed, over every service, server and closed load that has a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from random import Random
from typing import Any

import models
from harness.errors import HarnessError
from models import knobs, outside
from models.costs import Costs, MissingCost
from models.knobs import Value
from models.scenario import Scenario, ScenarioError

SEED = 1978  # of the published set
CONFIGURATIONS = 60
CALIBRATED = "synthetic"  # the service that costs are measured with; all others are held out
LOAD = "closed"
NUMBERS = {  # knobs that are drawn between two values, evenly in their logarithms
    "workers": (1, 16),
    "chunk": (1, 200),
    "array": (2, 200),
    "stocks": (10, 400),  # in the padded dialect no more fit
    "message": (16, 4096),
}
UNCHANGED = ("status", "method", "unsafe")  # choices that do not change what a server does for a request
PARTS = 4  # of such a range, each drawn from equally often

# How many clients, and what they ask for at most over what the machine can give, roughly; None: they do not think.
# That each regime occurs is all this is for. Which one a configuration is in, the measurement says.
PRESSURES: dict[str, tuple[tuple[int, int], tuple[float, float] | None]] = {
    "thinking": ((1, 200), (0.02, 0.3)),
    "between": ((1, 200), (0.4, 1.5)),
    "pressed": ((8, 200), None),
    "few": ((1, 8), None),
}
EXCHANGE, INTEGER, CPUS = 25e-6, 1e-7, 2  # s a request, s an integer that is tested
MOST_SPINNING = 16  # clients of a server whose threads spin: each takes whole slices, so that many get no reply in a window
FEWEST_REPLIES = 500.0  # 1/s that clients ask for at least, so that chance stays small in a short window


class Deck:
    """Deals its cards in a random order, all of them before one comes again."""

    def __init__(self, cards: Sequence[Any], random: Random) -> None:
        self._cards, self._random = list(cards), random
        self._left: list[Any] = []

    def deal(self) -> Any:
        if not self._left:
            self._left = self._random.sample(self._cards, len(self._cards))
        return self._left.pop()


class Dealer:
    """A deck for each thing that is drawn, so that every value of it comes up about equally often."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._decks: dict[object, Deck] = {}

    def one(self, name: object, cards: Sequence[Any]) -> Any:
        """One of the cards; `name` is whose deck they are."""
        return self._decks.setdefault(name, Deck(cards, self._random)).deal()

    def between(self, name: object, low: float, high: float) -> float:
        """A number between two, evenly in its logarithm."""
        place = (self.one(name, range(PARTS)) + self._random.random()) / PARTS
        return float(low * (high / low) ** place)


def draw(seed: int = SEED, count: int = CONFIGURATIONS) -> tuple[Scenario, ...]:
    """So many different scenarios; the same ones for the same seed and the same registries.

    Raises
    ------
    HarnessError
        When there are not that many.
    """
    dealer, found = Dealer(Random(seed)), dict[str, Scenario]()
    for _ in range(100 * count):
        service, server = dealer.one("pairs", _pairs())
        pressure = dealer.one((service, server), list(PRESSURES))
        options = _settings(service, server, dealer)
        options.update(_load(server, options, pressure, dealer))
        scenario = Scenario.of(service, server, LOAD, seed, options)
        if modelled(scenario):
            found.setdefault(scenario.key, scenario)
        if len(found) == count:
            return tuple(found.values())
    raise HarnessError(
        f"--configurations {count}: only {len(found)} different ones were found; ask for fewer"
    )


def modelled(scenario: Scenario) -> bool:
    """Whether there is a model of it: models refuse what they do not know before they ask for a cost."""
    try:
        models.predict(scenario, Costs(CPUS, {}), budget=0.1)
    except ScenarioError:
        return False
    except MissingCost:
        return True
    return True


@cache
def _pairs() -> tuple[tuple[str, str], ...]:
    """Every service that is held out, on every server of ours that has a model."""
    services = [
        name for name, row in knobs.variants("service").items() if row["serves"] and name != CALIBRATED
    ]
    servers = [name for name in knobs.variants("server") if name not in outside.KINDS]
    pairs = product(services, servers)
    return tuple((service, server) for service, server in pairs if modelled(Scenario.of(service, server)))


def _settings(service: str, server: str, dealer: Dealer) -> dict[str, Value]:
    """A value for each choice that service and server have, and for each number that is varied.

    A server's own choices are dealt evenly for each server, a service's over all servers that know the same ones.
    """
    found: dict[str, Value] = {}
    for knob in (*knobs.of_variant("service", service), *knobs.of_variant("server", server)):
        if knob.type == "choice" and knob.name not in UNCHANGED:
            cards = _choices(service, server, knob.name)
            whose = cards if knob.of == service else server
            found[knob.name] = dealer.one((whose, knob.of, knob.name), cards)
        elif knob.name in NUMBERS:
            found[knob.name] = round(dealer.between((knob.of, knob.name), *NUMBERS[knob.name]))
    return found


@cache
def _choices(service: str, server: str, name: str) -> tuple[str, ...]:
    """The values of a choice that the models know, all else left as it is by default."""
    values = knobs.of_parts(service, server, LOAD)[name].allowed.split("|")
    return tuple(v for v in values if modelled(Scenario.of(service, server, LOAD, options={name: v})))


def _load(
    server: str, options: dict[str, Value], pressure: str, dealer: Dealer
) -> Iterator[tuple[str, Value]]:
    """Clients, and a think time (s) that has them ask for about as much as the pressure says."""
    (low, high), limits = PRESSURES[pressure]
    if options.get("wait") == "spin":
        high = min(high, MOST_SPINNING)
    clients = round(dealer.between(("clients", pressure), low, high))
    yield "clients", clients
    if limits is None:
        return
    served = min(clients, knobs.serves_at_once(server, options) or clients)  # those beyond wait for ever
    demand = EXCHANGE + INTEGER * float(options.get("array", 0))
    think = served * demand / (CPUS * dealer.between(("pressure", pressure), *limits))
    yield "think", float(f"{min(think, served / FEWEST_REPLIES):.2g}")
    kinds = knobs.of_parts("stock", "select", LOAD)["think_dist"].allowed.split("|")
    yield "think_dist", dealer.one("think_dist", kinds)
