"""Lines and numbers of text files, with the line and the reason for everything that is wrong."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.importers import FormatError

SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
NOT_KNOWN = ("", "-", "–", "n/a", "na", "null", "none")


@dataclass(frozen=True, slots=True)
class Table:
    """A file of separated values: its header's names, and each row's fields with their line."""

    heads: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    comments: str


def table(text: str) -> Table:
    """The table in a text: comma, semicolon or tab between fields, lines from # on and empty ones left out."""
    found = list(_lines(text))
    if not found:
        raise FormatError("holds comments only; give a table with a line of names")
    mark = separator(found[0][1])
    heads = _split(*found[0], mark)
    if len(set(heads)) < len(heads):
        double = next(name for name in heads if heads.count(name) > 1)
        raise FormatError(f"line {found[0][0]}: two columns are called {double!r}; rename one")
    rows = []
    for line, content in found[1:]:
        fields = _split(line, content, mark)
        if len(fields) != len(heads):
            raise FormatError(f"line {line}: {len(fields)} fields where the heading has {len(heads)}")
        rows.append((line, fields))
    comments = "\n".join(row.lstrip("#").strip() for row in text.splitlines() if row.startswith("#"))
    return Table(heads, tuple(rows), comments)


def separator(line: str) -> str:
    """What stands between a line's fields; a comma if nothing does."""
    return next((mark for mark in "\t;" if mark in line), ",")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _split(line: int, content: str, mark: str) -> tuple[str, ...]:
    try:
        return tuple(field.strip() for field in next(csv.reader([content], delimiter=mark, strict=True)))
    except csv.Error as error:
        raise FormatError(f"line {line}: {error}") from None


def number(text: str, name: str, line: int) -> float | None:
    """A number that is not negative, None where the field says that it is not known."""
    if text.lower() in NOT_KNOWN:
        return None
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d*)?", text):
        plain = text.replace(",", "")
        raise FormatError(
            f"line {line}: {name}={text}: a comma in a number; write {plain} if it parts thousands"
        )
    if re.fullmatch(r"-?\d+,\d+", text):
        raise FormatError(f"line {line}: {name}={text}: a decimal comma; write {text.replace(',', '.')}")
    try:
        value = float(text)
    except ValueError:
        raise FormatError(f"line {line}: {name}={text}: not a number") from None
    if not math.isfinite(value) or value < 0:
        raise FormatError(f"line {line}: {name}={text}: not a finite number of 0 or more")
    return value


def positive(text: str, name: str, line: int) -> float:
    """A number above 0, which must be there."""
    value = number(text, name, line)
    if not value:
        raise FormatError(f"line {line}: {name} is {text or 'empty'}; give a number above 0")
    return value


def constant(text: str | None, option: str, of: str) -> float | None:
    """A number above 0 that an option gives for the whole file, where a column cannot be meant."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise FormatError(f"{option} {text}: {of} has no columns to name; give a number above 0")
    return value


def unit(words: Sequence[str]) -> float:
    """Seconds in the unit that a column's name ends in; 1 where it ends in none."""
    return SECONDS.get(words[-1], 1.0) if len(words) > 1 else 1.0
