"""The knobs that variants declare, and the one validator of their values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from pyx import registry

Value = int | float | str


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting of a variant, as its table in the native core declares it.

    Attributes
    ----------
    name, unit, help : str
    type : str
        int, real, choice, text, or any: a whole number, else a number, else text.
    default : int, float or str
    allowed : str
        "low:high" for numbers, "a|b" for a choice, words for text.
    of : str
        The variant that declares it, or "server" for all servers.
    """

    name: str
    type: str
    default: Value
    allowed: str
    unit: str
    of: str
    help: str

    def parse(self, value: object) -> Value:
        """The value in the knob's own type; ValueError with one line saying what is allowed."""
        if self.type == "text":
            return str(value)
        if self.type == "any":
            return _plainest(value)
        if self.type == "choice":
            if str(value) in self.allowed.split("|"):
                return str(value)
            near = get_close_matches(str(value), self.allowed.split("|"), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"{self.name}={value}: not one of {self.allowed}{hint}")
        number = self._number(value)
        low, high = (float(bound) for bound in self.allowed.split(":"))
        if not low <= number <= high:
            unit = f" {self.unit}" if self.unit else ""
            raise ValueError(f"{self.name}={value}: outside {self.allowed}{unit}")
        return number

    def _number(self, value: object) -> int | float:
        kind = "a whole number" if self.type == "int" else "a number"
        try:
            number = float(str(value))
        except ValueError:
            number = math.nan
        if (
            not math.isfinite(number)
            or isinstance(value, bool)
            or (self.type == "int" and number != int(number))
        ):
            raise ValueError(f"{self.name}={value}: not {kind}")
        return int(number) if self.type == "int" else number


def _plainest(value: object) -> Value:
    """A number where the text is one as people write them, so that 007 and 1_000 stay what they are."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    text = str(value)
    if re.fullmatch(r"-?(0|[1-9]\d*)", text, re.ASCII):
        return int(text)
    number = re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?", text, re.ASCII)
    return float(text) if number and math.isfinite(float(text)) else text


def offer(name: str, known: Iterable[str]) -> str:
    """What to add to "no such name": the nearest known one, or all of them when none is near."""
    names = sorted(set(known))
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(names)}"


def text_of(value: Value) -> str:
    """A value as the native core and the cell's key write it."""
    return repr(value) if isinstance(value, float) else str(value)


@cache
def _registries() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    from models import outside

    servers = {**registry.servers(), **outside.KINDS}
    return {"service": registry.services(), "server": servers, "load": registry.loads()}


def variants(kind: str) -> Mapping[str, Mapping[str, Any]]:
    """Everything that is registered as kind (service, server, load), by name; what was imported is no choice."""
    return _registries()[kind]


def declared(kind: str, name: str) -> Mapping[str, Any]:
    """How a variant is registered, also one that stands for another tool's results."""
    from models import imported

    return imported.KINDS[kind][name] if name == imported.NAME else variants(kind)[name]


def serves_at_once(server: str, options: Mapping[str, Value]) -> int | None:
    """How many connections the server serves at once, the others waiting until one ends; None: all, as far as is known."""
    if server not in registry.servers():
        return None
    found: int | None = registry.serves_at_once(server, {name: text_of(v) for name, v in options.items()})
    return found


def of_variant(kind: str, name: str) -> tuple[Knob, ...]:
    """The knobs of one variant."""
    found = []
    for row in declared(kind, name)["knobs"]:
        draft = Knob(**{**row, "default": ""})
        found.append(Knob(**{**row, "default": draft.parse(row["default"])}))
    return tuple(found)


@cache
def of_parts(service: str, server: str, load: str) -> Mapping[str, Knob]:
    """All knobs of a scenario's three parts, by name."""
    found: dict[str, Knob] = {}
    for kind, name in (("service", service), ("server", server), ("load", load)):
        for knob in of_variant(kind, name):
            found.setdefault(knob.name, knob)
    return found


def everywhere(name: str) -> list[str]:
    """The variants, of any kind, that declare a knob of that name."""
    return [
        f"{kind} {variant}"
        for kind in ("service", "server", "load")
        for variant in variants(kind)
        if any(knob.name == name for knob in of_variant(kind, variant))
    ]
