"""Somebody's server, started by a command for one measurement, awaited, and ended with all its processes."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import MeasureError
from harness.outside import reaching
from models import outside
from models.scenario import Scenario
from models.wording import printable
from pyx.keeper import Keeper, KeeperError

LAST_LINES = 2  # of its output that are always shown when it fails
SETTLING = 0.05  # s after the first answer in which a server that goes into the background is noticed
BACKGROUND = "goes into the background; have it stay in the foreground (nginx: -g 'daemon off;')"


class Command:
    """A server that a command started; the attributes are those of `harness.subjects.Subject`."""

    tree = True
    page = None

    def __init__(self, scenario: Scenario, keeper: Keeper, name: str, host: str, port: int) -> None:
        self._keeper, self._name = keeper, name
        self.host, self.port = host, port
        self.pid: int = keeper.tree  # with it go daemons that the command started beside its main process
        self.words = reaching.words(scenario, port)

    def alive(self) -> bool:
        return self._keeper.status() is None

    def death(self) -> str:
        return f"{self._name} {_how(self._keeper)} while it was measured{_last_words(self._keeper)}"


@contextmanager
def open(scenario: Scenario) -> Iterator[Command]:
    """Starts it on a free port or on the port given, waits until it answers, and ends it."""
    host = reaching.host_of(scenario)
    port = _port(scenario, host)
    words = words_of(scenario, port)
    try:
        with Keeper(words) as keeper:
            name = outside.program(str(scenario["command"]))
            _await(scenario, keeper, host, port, name)
            yield Command(scenario, keeper, name, host, port)
    except KeeperError as error:
        raise MeasureError(str(error), error.usage) from error


def words_of(scenario: Scenario, port: int) -> list[str]:
    """The command's words: split first and filled then, so that no value can add a word."""
    text = str(scenario["command"])
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise MeasureError(f"command: {text}: {error}", True) from None
    return [reaching.filled(scenario, word, port) for word in words]


def _port(scenario: Scenario, host: str) -> int:
    text = outside.place(str(scenario["target"])).port
    if not text.isdigit():
        return reaching.free_port(host)
    if not reaching.is_free(host, int(text)):
        raise MeasureError(
            f"port {text} of {host} is taken, so that another server would be measured than the command's; "
            "end that one, or write {port} in command and target for a free port"
        )
    return int(text)


def _await(scenario: Scenario, keeper: Keeper, host: str, port: int, name: str) -> None:
    """Returns when it answers; MeasureError with its last words when it does not, or does not stay."""
    ready = reaching.await_answer(scenario, host, port, lambda: keeper.status() is None)
    if ready:
        time.sleep(SETTLING)
    if keeper.status() is None:
        if ready:
            return
        fate = (
            f"did not answer at {host}:{port} within {scenario['ready_timeout']:g} s; "
            "check that command and target name the same port, or give --ready-timeout"
        )
    else:
        # Its child may be about to listen, which is told apart from a command that did nothing.
        behind = keeper.status() == 0 and (ready or _answers_soon(host, port))
        fate = BACKGROUND if behind else f"{_how(keeper)} before it answered"
    raise MeasureError(f"{name} {fate}{_last_words(keeper)}")


def _answers_soon(host: str, port: int) -> bool:
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        if reaching.connects(host, port):
            return True
        time.sleep(reaching.PAUSE)
    return False


def _how(keeper: Keeper) -> str:
    status = keeper.status()
    if status is None:
        return "was ended"
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


def _last_words(keeper: Keeper) -> str:
    """The end of what it wrote, and before it what can stand further up: the first error, and the last exception."""
    lines = [printable(" ".join(line.split())) for line in keeper.output().splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(error|failed|cannot)\b", line, re.IGNORECASE)]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    shown = dict.fromkeys([*errors[:1], *raised[-1:], *lines[-LAST_LINES:]])
    return f": {' | '.join(shown)}" if lines else ""
