"""Native servers, loads and probes, and the thin layer that hands them to Python. Knows no module above it."""

from typing import Any

__all__ = ["Server", "ServerError"]


def __getattr__(name: str) -> Any:
    """Server and ServerError, imported on first use: the registries alone need no NumPy."""
    if name in __all__:
        from pyx import server

        return getattr(server, name)
    raise AttributeError(name)
