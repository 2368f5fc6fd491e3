"""The error that reaches the user: one clear line and the exit code that goes with it."""

from __future__ import annotations


class HarnessError(RuntimeError):
    """Something that the user is told in one line: what, where, what is allowed, what to do.

    Attributes
    ----------
    usage : bool
        The request was wrong (exit code 2), rather than the work failed (exit code 1).
    """

    def __init__(self, message: str, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage


class MeasureError(HarnessError):
    """A scenario could not be measured."""
