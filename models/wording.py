"""How figures are written in sentences, tables and figures: units chosen by size, digits by what is known."""

from __future__ import annotations

import math

# Knobs that count things, so that "3 workers" reads better than "workers = 3".
_COUNTED = {"workers": "worker", "clients": "client", "requests": "request", "stocks": "stock"}

_TIMES = (
    (1e-6, 1e9, "ns"),
    (1e-3, 1e6, "µs"),
    (1.0, 1e3, "ms"),
)  # below how many seconds, the scale, its unit


def rate(value: float) -> str:
    """A throughput in 1/s, to four digits: 14,230/s."""
    return f"{figure(value, 4)}/s"


def figure(value: float, digits: int = 3, padded: bool = False) -> str:
    """A plain number to so many significant digits, with thousands separated, never in powers of ten.

    Parameters
    ----------
    padded : bool
        Keeps the zeros at the end of a fraction, as columns of a table need them.
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    value = round(value, places)
    text = f"{value:,.{max(places, 0)}f}".replace("-", "−")
    return text.rstrip("0").rstrip(".") if "." in text and not padded else text


def finding(name: str, value: float, unit: str) -> str:
    """A finding in words: CPU limited, 98 % of capacity."""
    return f"{named(name)}, {amount(value, unit)}"


def named(name: str) -> str:
    """A mark's or finding's name as words: CPU limited."""
    return name.replace("_", " ").replace("cpu", "CPU")


def amount(value: float, unit: str) -> str:
    """A figure with its unit, a share as per cent: 98 % of capacity; 12 clients."""
    return figure(value) if math.isnan(value) else f"{bare(value, unit)} {unit}".strip()


def bare(value: float, unit: str) -> str:
    """A figure without its unit; a share as per cent."""
    return percent(value) if is_share(unit) else figure(value)


def is_share(unit: str) -> bool:
    """Whether a unit is that of a share, so that its figures are written as per cent."""
    return unit.startswith("of ")


def seconds(value: float) -> str:
    """A time in the unit that suits its size."""
    scale, unit = next((row[1:] for row in _TIMES if abs(value) < row[0]), (1.0, "s"))
    return f"{figure(value * scale)} {unit}"


def change(before: float, after: float) -> str:
    """Two times in one unit, that of the longer: 30 → 595 µs."""
    longer = max(abs(before), abs(after))
    scale, unit = next((row[1:] for row in _TIMES if longer < row[0]), (1.0, "s"))
    return f"{figure(before * scale)} → {figure(after * scale)} {unit}"


def percent(share: float) -> str:
    """A share as whole per cent, with one digit more below ten."""
    value = share * 100
    if not math.isfinite(value):
        return f"{figure(value)} %"
    return f"{figure(round(value), 9)} %" if abs(value) >= 9.95 else f"{figure(value, 2)} %"


def at(variable: str, x: float) -> str:
    """One value of a variable, as a noun phrase: 3 workers, chunk = 20."""
    if variable == "arrival_rate":
        return f"{figure(x, 6)} arrivals/s"
    one = _COUNTED.get(variable)
    if one is None:
        return f"{variable} = {figure(x, 6)}"
    return f"{figure(x, 6)} {one if x == 1 else variable}"


def per(variable: str) -> str:
    """What an amount is for: for each client, for each unit of chunk."""
    if variable == "arrival_rate":
        return "for each arrival a second"
    one = _COUNTED.get(variable)
    return f"for each {one}" if one else f"for each unit of {variable}"


def set_of(values: tuple[float, ...]) -> str:
    """A set of values: {2, 3, 4}."""
    return "{" + ", ".join(figure(value, 6) for value in values) + "}"


def interval(low: float, high: float, digits: int = 3) -> str:
    """An interval with its bounds; an infinite one is said in words."""
    if math.isinf(high):
        return f"[{figure(low, digits)}, no bound]" if math.isfinite(low) else "[no bound]"
    return f"[{figure(low, digits)}, {figure(high, digits)}]"


def listed(items: list[str]) -> str:
    """Items in a row: a; a and b; a, b and c."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def size(value: float) -> str:
    """An amount of memory in the unit that suits its size: 12.3 KiB."""
    if not math.isfinite(value):
        return f"{figure(value)} bytes"
    steps = ((2.0**10, 1.0, "bytes"), (2.0**20, 2.0**-10, "KiB"), (2.0**30, 2.0**-20, "MiB"))
    scale, unit = next((row[1:] for row in steps if abs(value) < row[0]), (2.0**-30, "GiB"))
    return f"{figure(value * scale)} {unit}"


def printable(text: str, kept: str = "") -> str:
    """Text from elsewhere, which may steer a terminal: control characters, but those kept, become one that does not."""
    return "".join(c if c.isprintable() or c in kept else "\N{REPLACEMENT CHARACTER}" for c in text)
