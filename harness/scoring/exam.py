"""What a score measures, in rounds: its configurations, some of them twice, and one client alone on each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessError
from harness.plan import CELL, CONTROL, NULL, OVERHEAD, Visit, null_scenario
from models.scenario import Scenario

ALONE = "alone"  # kind of visit: one client on the same configuration, for the naive bound
WINDOW, WARMUP, BUDGET = 0.5, 0.15, 720.0
TWICE = 5  # every so many-th configuration is measured twice
ALONE_EVERY = 3  # rounds from one measurement of one client alone to the next
STRETCH = 12  # visits between two readings of the yardstick
STRIDE = 1000  # numbers of a round's stretches: block = round × STRIDE + stretch
LEAST_ROUNDS, MOST_ROUNDS = 3, 20
AGAIN = 0.2  # share of the measuring time that is kept for what has to be measured again
BEFORE = 90.0  # s that calibrating and predicting take, roughly


@dataclass(frozen=True, slots=True)
class Exam:
    """A score, completely.

    Attributes
    ----------
    seed : int
        Of the draw, and of the order of visits.
    scenarios : tuple of Scenario
    window, warmup : float
        Of each visit, s.
    budget : float
        Seconds for everything: calibrating, predicting, measuring.
    """

    seed: int
    scenarios: tuple[Scenario, ...]
    window: float = WINDOW
    warmup: float = WARMUP
    budget: float = BUDGET
    sample: float | None = None

    @property
    def twice(self) -> tuple[Scenario, ...]:
        """The configurations that every round measures twice (A/A): evenly over what the clients ask for."""
        rising = sorted(self.scenarios, key=lambda s: (s.number("think") / s.number("clients"), s.key))
        return tuple(rising[TWICE // 2 :: TWICE] or rising[:1])

    def visits(self, number: int) -> tuple[Visit, ...]:
        """What a round measures: every configuration, some twice, and now and then one client alone on each."""
        found = [Visit(CELL, scenario) for scenario in self.scenarios]
        found += [Visit(CONTROL, scenario) for scenario in self.twice]
        if number % ALONE_EVERY == 0:
            alone = {one.key: one for one in map(alone_of, self.scenarios)}
            found += [Visit(ALONE, scenario) for scenario in alone.values()]
        return tuple(found)

    def stretches(self, number: int, visits: Iterable[Visit] = ()) -> list[tuple[int, tuple[Visit, ...]]]:
        """A round, or these visits of it, in its own random order: the number of each stretch, and its visits.

        A null server comes first in each. The order depends on the seed and the round alone: a resumed score
        keeps it.
        """

        def place(visit: Visit) -> bytes:
            return hashlib.sha256(f"{self.seed}:{number}:{visit.name}".encode()).digest()

        order = sorted(visits or self.visits(number), key=place)
        null = Visit(NULL, null_scenario(self.seed))
        return [
            (number * STRIDE + k, (null, *order[start : start + STRETCH]))
            for k, start in enumerate(range(0, len(order), STRETCH))
        ]

    def seconds(self, visits: int) -> float:
        """About how long so many visits and their null servers take, s."""
        return visits * (1 + 1 / STRETCH) * (self.window + self.warmup + OVERHEAD)

    @property
    def round_seconds(self) -> float:
        """About how long a round takes, s, one client alone shared out among them."""
        alone = len({alone_of(scenario).key for scenario in self.scenarios})
        return self.seconds(len(self.scenarios) + len(self.twice)) + self.seconds(alone) / ALONE_EVERY

    def rounds(self, seconds: float) -> int:
        """How many rounds to plan where so much time is left, s."""
        fitting = int(seconds * (1 - AGAIN) / self.round_seconds)
        return min(max(fitting, LEAST_ROUNDS), MOST_ROUNDS)

    def check(self) -> None:
        """HarnessError when the budget does not hold the fewest rounds."""
        need = BEFORE + LEAST_ROUNDS * self.round_seconds
        if self.budget < need:
            raise HarnessError(
                f"--budget {self.budget:g} s: {len(self.scenarios)} configurations take {need:.0f} s at least; "
                "give more, or fewer --configurations",
                usage=True,
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "scenarios": [scenario.to_json() for scenario in self.scenarios],
            "window": self.window,
            "warmup": self.warmup,
            "budget": self.budget,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Exam:
        """The score that `to_json` wrote."""
        scenarios: Sequence[Any] = document["scenarios"]
        return cls(**{**document, "scenarios": tuple(map(Scenario.from_json, scenarios))})


def alone_of(scenario: Scenario) -> Scenario:
    """The same configuration with one client."""
    return scenario.with_options(clients=1)
