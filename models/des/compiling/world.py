"""The World in which a model is built for the compiled engine: it collects records and threads, nothing runs yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from models.des.compiling.types import ProgramError
from models.des.records import KINDS, Distribution
from models.des.sample import Sample
from models.scenario import Scenario


@dataclass(eq=False, slots=True)
class Spawned:
    """A thread that will run a program.

    Attributes
    ----------
    number : int
        From 1, in order of spawn.
    cpus : tuple of int or None
        The CPUs that it may use; None: all.
    agent : bool
        It needs no CPU.
    """

    number: int
    name: str
    group: str
    program: Callable[..., Any]
    arguments: tuple[Any, ...]
    cpus: tuple[int, ...] | None = None
    agent: bool = False


class Prices:
    """Stands for world.prices: what programs read there are costs of the run."""

    def __getattr__(self, name: str) -> NoReturn:
        _only_in_programs(f"prices.{name}")


PRICES = Prices()


@dataclass(eq=False, slots=True)
class BuildWorld:
    """What models.des.records.World says of building."""

    cpus: int
    scenario: Scenario | None = None
    sample: Sample | None = None
    places: Mapping[str, Sequence[int]] = field(default_factory=dict)
    connections: list[Any] = field(default_factory=list)
    threads: list[Spawned] = field(default_factory=list)
    prices: Prices = PRICES

    def spawn(
        self,
        name: str,
        group: str,
        program: Callable[..., Any],
        *args: Any,
        cpus: Sequence[int] | None = None,
    ) -> Spawned:
        cpus = self.places.get(group) if cpus is None else cpus
        allowed = None if cpus is None else tuple(cpus)
        return self._add(Spawned(len(self.threads) + 1, name, group, program, args, allowed))

    def agent(self, name: str, program: Callable[..., Any], *args: Any) -> Spawned:
        return self._add(Spawned(len(self.threads) + 1, name, "agents", program, args, agent=True))

    @property
    def locks(self) -> int:
        return 0 if self.sample is None else self.sample.locks

    def _add(self, thread: Spawned) -> Spawned:
        self.threads.append(thread)
        return thread

    def distribution(self, kind: str, mean: float) -> Distribution:
        return Distribution(KINDS.index(kind), mean)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        _only_in_programs(name)


def _only_in_programs(what: str) -> NoReturn:
    raise ProgramError(
        f"world.{what} is for programs: while the model is built there are no costs, no time and no random numbers yet"
    )
