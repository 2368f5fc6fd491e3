"""Progress of long work on stderr: a bar with the time left in a terminal, a line a step elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Protocol, TextIO


class Progress(Protocol):
    """What long work reports to."""

    def begin(self, title: str, total: float) -> None:
        """A stage begins that is `total` units (seconds or steps) long; it ends the stage before it."""

    def step(self, text: str, amount: float = 1.0) -> None:
        """A part of the stage is done; text names it."""

    def note(self, text: str) -> None:
        """A line that stays."""

    def end(self) -> None:
        """No more stages."""


class Silent:
    """Reports nothing."""

    def begin(self, title: str, total: float) -> None:
        pass

    def step(self, text: str, amount: float = 1.0) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def end(self) -> None:
        pass


class Lines:
    """A line for each step."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._title, self._total, self._done, self._start = "", 0.0, 0.0, time.monotonic()

    def begin(self, title: str, total: float) -> None:
        self._title, self._total, self._done = title, total, 0.0

    def step(self, text: str, amount: float = 1.0) -> None:
        self._done += amount
        share = f"{min(self._done / self._total, 1):4.0%} " if self._total else ""
        self.note(f"{self._title}: {share}{text}")

    def note(self, text: str) -> None:
        print(f"{time.monotonic() - self._start:6.1f} s  {text}", file=self._stream, flush=True)

    def end(self) -> None:
        pass


class Bar:
    """A bar with the time left, for a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
        from rich.table import Column

        columns: tuple[Any, ...] = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeRemainingColumn(table_column=Column(no_wrap=True, min_width=7)),
            TextColumn("{task.fields[doing]}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
        )
        # Drawn between measurements only: a thread that draws would take its CPU time from what is measured.
        self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
        self._task: Any = None

    def begin(self, title: str, total: float) -> None:
        if self._task is None:
            self._bar.start()
        else:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(title, total=total, doing="")
        self._bar.refresh()

    def step(self, text: str, amount: float = 1.0) -> None:
        if self._task is not None:
            self._bar.update(self._task, advance=amount, doing=text, refresh=True)

    def note(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        if self._task is not None:
            self._bar.stop()
            self._task = None


class Reporting:
    """Chooses the form by the terminal and always ends it, so that an error never leaves a bar behind."""

    def __init__(self, quiet: bool = False) -> None:
        self.progress: Progress = Silent() if quiet else Bar() if sys.stderr.isatty() else Lines()

    def __enter__(self) -> Progress:
        return self.progress

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.end()
