"""Options of the whole test suite: `pytest --benchmark` runs tests/benchmarks, which plain `pytest` leaves out."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

# The same examples in every run, so that a run that fails fails again; `--hypothesis-profile=fresh` draws new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("fresh", deadline=None)
settings.load_profile("fixed")

# A shell makes what it starts in the background deaf to SIGINT, and the tests interrupt commands of their own.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--benchmark", action="store_true", help="run the benchmarks, and only them")


def pytest_ignore_collect(collection_path, config: pytest.Config) -> bool | None:  # type: ignore[no-untyped-def]
    wanted = config.getoption("--benchmark")
    if collection_path.name == "benchmarks" and not wanted:
        return True
    outside = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    if wanted and outside and collection_path.parent.name != "benchmarks":
        return True
    return None
