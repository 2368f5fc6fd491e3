"""The two events that threads wait for: a moment of simulated time, and the end of what they do."""

from __future__ import annotations

from collections.abc import Callable

import simpy
from simpy.events import NORMAL, Event


class Timer(Event):
    """A call at a moment of simulated time."""

    __slots__ = ("token",)

    def __init__(
        self, env: simpy.Environment, delay: float, call: Callable[[Timer], object], token: int = 0
    ) -> None:
        self.env, self.callbacks, self.token = env, [call], token  # type: ignore[list-item]
        self._ok, self._value = True, None
        env.schedule(self, NORMAL, delay)


class Done(Event):
    """The end of what a thread does, which is fired at once, without a place in SimPy's queue. Used again and again."""

    def __init__(self, env: simpy.Environment) -> None:
        super().__init__(env)
        self.callbacks = None  # type: ignore[assignment]

    def arm(self) -> Done:
        if self.callbacks is not None:
            raise RuntimeError("the step before was not yielded: write yield thread.run(…), and so on")
        self._ok, self._value, self.callbacks = True, None, []
        return self

    def fire(self, _: Event | None = None) -> None:
        callbacks, self.callbacks = self.callbacks, None  # type: ignore[assignment]
        for callback in callbacks:
            callback(self)
