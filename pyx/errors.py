"""The error of everything that runs a native process."""

from __future__ import annotations


class NativeError(RuntimeError):
    """A native process could not do its work. The message is one line for the user.

    Attributes
    ----------
    usage : bool
        The request was wrong, rather than the system unable to serve it.
    """

    def __init__(self, message: str, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage
