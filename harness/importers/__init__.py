"""Results of other tools: one file for each format, found by name.

An importer has `recognises(text) -> bool` and `read(text, hints) -> list of Row`. The first line of its docstring
says what it reads. One that takes whatever no other does has `LAST = True`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import HarnessError

LARGEST = 64 * 1024 * 1024  # bytes; results are tables, not recordings


class FormatError(HarnessError):
    """A file that is no result of a known tool, or a malformed one; the message names the line."""

    def __init__(self, message: str) -> None:
        super().__init__(message, usage=True)


@dataclass(frozen=True, slots=True)
class Hints:
    """What the user says of a file; None where nothing was said.

    Attributes
    ----------
    n, x, r, think : str
        Name of the column of clients, throughput, response and think time; of n and think also a number (of
        clients, or s) for all rows; of r also "none", which leaves out all times of response.
    """

    n: str | None = None
    x: str | None = None
    r: str | None = None
    think: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One run that another tool measured.

    Attributes
    ----------
    line : int
        Of the file, where the run begins.
    variable : str
        What differs from run to run: clients, unless the file has no such column; "" if there is nothing.
    x : float
        Its value; nan without a variable.
    series : str
        Text that tells this curve of the file from the others.
    summary : mapping
        The figures, as harness.judging.summaries has them.
    note : str
        How the figures were come by, where that is not plain.
    """

    line: int
    variable: str
    x: float
    summary: Mapping[str, Any]
    series: str = ""
    note: str = field(default="")

    @property
    def name(self) -> str:
        """The run in few words."""
        words = [self.series] if self.series else []
        if self.variable:
            words.append(f"{self.variable}={self.x:g}")
        return " ".join(words) or f"line {self.line}"


def importers() -> dict[str, ModuleType]:
    """Every importer by name, those that take anything last."""
    found = {}
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith("_"):
            module = importlib.import_module(f"{__name__}.{info.name}")
            if hasattr(module, "recognises"):
                found[info.name] = module
    return dict(sorted(found.items(), key=lambda row: getattr(row[1], "LAST", False)))


def read(path: Path, hints: Hints) -> tuple[str, list[Row]]:
    """The name of the importer that knows the file, and its runs.

    Raises
    ------
    FormatError
        When the file cannot be read, no importer knows it, or a line is malformed.
    """
    text = _text(path)
    for name, module in importers().items():
        if module.recognises(text):
            try:
                rows: list[Row] = module.read(text, hints)
            except FormatError as error:
                raise FormatError(f"{path}: {error}") from None
            if not rows:
                raise FormatError(
                    f"{path}: holds no results, only headings; give a file with at least one run"
                )
            return name, rows
    known = ", ".join(importers())
    raise FormatError(f"{path}: neither a store nor a result of a known tool ({known})")


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            raise FormatError(f"{path}: is a folder; give a file")
        if path.is_file() and path.stat().st_size > LARGEST:
            raise FormatError(
                f"{path}: larger than {LARGEST >> 20} MiB; give the summary, not the single requests"
            )
        raw = path.read_bytes()
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from error
    if not raw.strip():
        raise FormatError(f"{path}: is empty; give a result")
    if b"\0" in raw:
        raise FormatError(f"{path}: is neither a store nor text")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise FormatError(f"{path}: line {line}: not UTF-8 text; save it as UTF-8") from None
