"""Reads the values of a variable: 1,2,4 or 1:16 or 1:100:10 or 1:64:x2, and lists that mix them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from models.knobs import Knob, Value

MOST_VALUES = 1000
FORMS = "use 1,2,4 or 1:16 or 1:100:10 or 1:64:x2"

# Values of a variable that is given without any; those outside the knob's own range are left out.
STANDARD: dict[str, str] = {
    "workers": "1,2,3,4,6,8",
    "clients": "1,2,4,8,16,32,64,100",
    "requests": "5,10,20,50,100",
    "chunk": "1,2,5,10,20,50",
    "array": "10,20,50,100,200,500",
    "bits": "8,16,24,28,31",
    "queue_slots": "1,2,4,8,16,32,64",
    "stocks": "5,10,20,50,100,200",
    "demand": "0,0.00001,0.00002,0.00005,0.0001,0.0002",
    "think": "0,0.0001,0.001,0.01",
    "arrival_rate": "100,200,500,1000,2000,5000,10000,20000",
    "load_threads": "1,2,3,4",
    "backlog": "1,4,16,64,256,1024",
    "message": "16,64,256,1024,4096,16384",
}


class ValuesError(ValueError):
    """Values that cannot be read; the message is one line."""


def parse(knob: Knob, text: str | None = None) -> tuple[Value, ...]:
    """The values of a variable, each checked by its knob, without repetition and in the order given.

    Parameters
    ----------
    knob : Knob
        The variable.
    text : str, optional
        As the user wrote it; without it the standard values, and all the words of a choice.

    Raises
    ------
    ValuesError
        When it cannot be read, or a value is not allowed.
    """
    if text is None:
        return _standard(knob)
    found: dict[Value, None] = {}
    for part in text.split(","):
        for value in _part(knob, part.strip(), text):
            found[value] = None
            if len(found) > MOST_VALUES:
                raise ValuesError(f"{knob.name}={text}: more than {MOST_VALUES} values; take wider steps")
    return tuple(found)


def _standard(knob: Knob) -> tuple[Value, ...]:
    if knob.type == "choice":
        return tuple(knob.allowed.split("|"))
    if knob.name not in STANDARD:
        raise ValuesError(
            f"{knob.name}: has no standard values; give --values ({FORMS}; allowed: {knob.allowed})"
        )
    found = []
    for word in STANDARD[knob.name].split(","):
        try:
            found.append(knob.parse(word))
        except ValueError:
            continue
    return tuple(found)


def _part(knob: Knob, part: str, text: str) -> Iterator[Value]:
    if not part:
        raise ValuesError(f"{knob.name}={text}: an empty value; {FORMS}")
    words = [part] if knob.type in ("choice", "text") else part.split(":")
    if knob.type == "any" and not all(map(_is_number, words)):
        words = [part]  # text, in which colons mean nothing
    try:
        if len(words) == 1:
            yield knob.parse(part)
            return
        for number in _range(knob.name, words):
            yield knob.parse(number)
    except ValuesError:
        raise
    except ValueError as error:
        raise ValuesError(str(error)) from error


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word.removeprefix("x")))
    except ValueError:
        return False


def _range(name: str, words: list[str]) -> Iterator[float]:
    """low:high, low:high:step, low:high:xfactor; the high end is included where a step meets it."""
    text = f"{name}={':'.join(words)}"
    if len(words) > 3:
        raise ValuesError(f"{text}: too many colons; {FORMS}")
    factor = len(words) == 3 and words[2].startswith("x")
    try:
        low, high = float(words[0]), float(words[1])
        step = float(words[2].removeprefix("x")) if len(words) == 3 else 1.0
    except ValueError:
        raise ValuesError(f"{text}: not a range of numbers; {FORMS}") from None
    if not all(map(math.isfinite, (low, high, step))):
        raise ValuesError(f"{text}: not a range of finite numbers; {FORMS}")
    if high < low:
        raise ValuesError(f"{text}: {words[1]} lies below {words[0]}; write the low end first")
    if factor and (step <= 1 or low <= 0):
        raise ValuesError(f"{text}: a factor needs to be over 1 and its low end over 0; {FORMS}")
    if not factor and step <= 0:
        raise ValuesError(f"{text}: a step needs to be over 0; {FORMS}")
    for index in range(MOST_VALUES + 1):
        # From the index and not by repeated addition, and rounded, so that 0:1:0.1 meets its end.
        value = float(f"{low * step**index if factor else low + index * step:.12g}")
        if value > high * (1 + 1e-12 if high > 0 else 1):
            return
        yield int(value) if value.is_integer() else value
