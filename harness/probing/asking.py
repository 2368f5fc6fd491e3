"""Asks for a probe run, question by question, and gives the words of the command that does it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.probing.launching import REPS
from harness.probing.wanted import MOST_CPUS, MOST_ITERATIONS, MOST_PAIRS, MOST_REPS, PLURAL
from models.knobs import offer

ALL = "all"
POSITIONS = {
    "same_cpu": "both ends on one CPU",
    "smt": "on two hardware threads of one core",
    "l2": "on two cores that share a level 2 cache",
    "l3": "on two cores that share a level 3 cache",
    "socket": "on two cores of one package",
    "numa": "on two memory nodes",
    ALL: "all that this machine has",
}
CORES, BOTH, FIT, NEW = "cores", "both", "as many as fit", "new in results/"

Check = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Asking:
    """Where answers come from and where questions go."""

    read: Callable[[str], str]
    write: Callable[[str], Any]

    def question(self, text: str, allowed: str, default: str, about: str, check: Check) -> str:
        """The answer as `check` gives it back; asked again for as long as `check` raises ValueError."""
        while True:
            given = self.read(f"{text} ({allowed}) [{default}]: ").strip()
            if given == "?":
                self.write(about)
                continue
            try:
                return check(given or default)
            except ValueError as error:
                self.write(f"  {error}")

    def choice(self, text: str, options: Mapping[str, str], default: str) -> str:
        """One of the options, each with what it means."""
        about = "\n".join(f"  {name}: {what}" for name, what in options.items())
        return self.question(text, ", ".join(options), default, about, one_of(list(options)))

    def number(self, text: str, low: int, high: int, default: int, about: str) -> int:
        """A whole number within its bounds."""
        shown = f"{low} to {high}"
        return int(self.question(text, shown, str(default), f"  {about}", within(low, high)))


def ask(read: Callable[[str], str] = input, write: Callable[[str], Any] = print) -> list[str]:
    """The words that follow `python -m harness probe` to measure what was answered; none for all defaults.

    An empty answer takes the default in brackets, ? explains, and a wrong answer is asked again.

    Parameters
    ----------
    read : callable
        Shows a prompt and gives the line that was answered.
    write : callable
        Shows a line.

    Raises
    ------
    KeyboardInterrupt
        When the questions are left, by Ctrl-C or by the end of the input.
    """
    asking = Asking(read, write)
    write("An empty answer takes the value in brackets, ? explains, Ctrl-C leaves.")
    try:
        return _words(asking)
    except (EOFError, KeyboardInterrupt):
        write("")  # ends the prompt's line
        raise KeyboardInterrupt from None


def _words(asking: Asking) -> list[str]:
    from pyx import registry

    probes: dict[str, Any] = registry.probes()
    options = {ALL: "every one of these"} | {name: row["summary"] for name, row in sorted(probes.items())}
    name = asking.choice("Which primitive", options, ALL)
    if name == ALL:
        words, kinds, ends = [], list(PLURAL), 2
    else:
        chosen, ends = _form(asking, name, probes[name])
        words, kinds = [name, *chosen], probes[name]["kinds"]
    words += _kinds(asking, kinds)
    words += _range(
        asking, "pairs", MOST_PAIRS, 1, "So many pairs of ends run at once; two values are a sweep."
    )
    if ends > 1:
        words += _place(asking)
    else:
        asking.write("It has one end, which has no position to choose.")
    return [*words, *_effort(asking), *_out(asking)]


def _form(asking: Asking, name: str, probe: Mapping[str, Any]) -> tuple[list[str], int]:
    """--variant where one is chosen, and how many ends the primitive has then."""
    from pyx import registry

    def ends(options: dict[str, str]) -> int:
        return int(registry.probe_form(name, options)["ends"])

    knob = next((knob for knob in probe["knobs"] if knob["name"] == "variant"), None)
    if knob is None:
        return [], ends({})
    names = knob["allowed"].split("|")
    about = f"  {knob['help']}; {ALL}: every one of them"
    found = asking.question("Which form", ", ".join([ALL, *names]), ALL, about, one_of([ALL, *names]))
    if found == ALL:
        return [], max(ends({"variant": word}) for word in names)
    return ["--variant", found], ends({"variant": found})


def _kinds(asking: Asking, kinds: Sequence[str]) -> list[str]:
    if len(kinds) == 1:
        asking.write(f"Its ends are {PLURAL[kinds[0]]}.")
        return []
    options = {PLURAL[kind]: f"the ends are {PLURAL[kind]}" for kind in kinds} | {BOTH: "one and the other"}
    found = asking.choice("Processes or threads", options, BOTH)
    return [] if found == BOTH else ["--kind", next(kind for kind in kinds if PLURAL[kind] == found)]


def _range(asking: Asking, what: str, most: int, usual: int, about: str) -> list[str]:
    """--pairs or --cores, from one number to another; nothing where both are the command's own default."""
    low = asking.number(f"How many {what}, from", 1, most, 1, about)
    high = asking.number(f"How many {what}, to", low, most, max(low, usual), about)
    if what == "pairs" and low == high == usual:
        return []
    return [f"--{what}", str(low) if low == high else f"{low}:{high}"]


def _place(asking: Asking) -> list[str]:
    """At fixed positions, or on a number of cores among which the scheduler places the ends."""
    most = min(len(os.sched_getaffinity(0)), MOST_CPUS)
    options = {**POSITIONS, CORES: "wherever the scheduler likes, among as many CPUs as is asked for next"}
    position = asking.choice("Which core position, or how many cores", options, ALL)
    if position == CORES:
        return _range(asking, CORES, most, most, f"CPUs that the ends may use; {most} are allowed here.")
    return [] if position == ALL else ["--position", position]


def _effort(asking: Asking) -> list[str]:
    found = asking.question(
        "How many iterations",
        f"1 to {MOST_ITERATIONS}",
        FIT,
        "  Units of work of each launch; without a number as many as fit into its time.",
        within(1, MOST_ITERATIONS, FIT),
    )
    words = [] if found == FIT else ["--iterations", found]
    about = "Launches of each point, in fresh processes; the interval is made of how far they differ."
    reps = asking.number("How many repetitions", 1, MOST_REPS, REPS, about)
    return words if reps == REPS else [*words, "--reps", str(reps)]


def _out(asking: Asking) -> list[str]:
    about = "  The results as JSON; samples, table, page and picture are written beside it."
    found = asking.question("Where to write", "FILE.json", NEW, about, _json)
    return [] if found == NEW else ["--out", found]


def _json(answer: str) -> str:
    """A file that can be written, or the default."""
    if answer != NEW and Path(answer).suffix != ".json":
        raise ValueError(f"{answer}: the document's name, which ends in .json")
    if Path(answer).is_dir():
        raise ValueError(f"{answer}: is a folder")
    return answer


def one_of(names: Sequence[str]) -> Check:
    """A check that the answer is one of these names."""

    def check(answer: str) -> str:
        if answer not in names:
            raise ValueError(f"{answer}: not known{offer(answer, names)}")
        return answer

    return check


def within(low: int, high: int, word: str = "") -> Check:
    """A check that the answer is a whole number within bounds, or the word."""

    def check(answer: str) -> str:
        if answer == word:
            return answer
        try:
            number = int(answer)
        except ValueError:
            raise ValueError(f"{answer}: not a whole number") from None
        if not low <= number <= high:
            raise ValueError(f"{answer}: outside {low} to {high}")
        return str(number)

    return check
