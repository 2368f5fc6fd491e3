"""Whether a point's launches did what its name says: every flag, from which value on it is given, and what it means."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.probing import humps
from harness.probing.launching import Found
from harness.probing.points import Point
from harness.probing.samples import Reading, spread

REJECTED = "rejected"
LEAST_TIME = 0.1  # CPU seconds of which the share of others is known well enough


@dataclass(frozen=True, slots=True)
class Rule:
    """One flag.

    Attributes
    ----------
    rejects : bool
        The row did not do what its name says, and must not be used.
    limit : float
        It is given to a value above this one; to one below it where `below`.
    says, todo : str
        What it means, and what to do where there is something, half a sentence each.
    """

    rejects: bool
    limit: float
    says: str
    todo: str
    below: bool = False

    def broken(self, value: float) -> bool:
        return value < self.limit if self.below else value > self.limit


TABLE: Mapping[str, Rule] = {
    "off_cpu": Rule(
        True, 0, "ends did not run on the CPUs that they were bound to", "see who moves them (cpusets)"
    ),
    "lost": Rule(
        True, 0, "what was sent is not what was received", "report it, as it is a fault of the probe"
    ),
    "switches": Rule(
        True,
        0.9,
        "ends on one CPU switched less than once a hop, so that they did not wait for each other",
        "report it, as it is a fault of the probe",
        below=True,
    ),
    "migrated": Rule(
        False, 0, "ends moved to another CPU although they were bound", "see who moves them (cpusets)"
    ),
    "more_switches": Rule(
        False, 1.5, "ends switched more often than once a hop", "see what else runs on that CPU"
    ),
    "unstable": Rule(
        False,
        0.03,
        "launches differ by more than 3 % of their median",
        "give more --reps, on a quiet machine",
    ),
    "machine": Rule(
        False,
        0.03,
        "the machine's own speed differed by more than 3 % from launch to launch, by the yardstick that each runs",
        "measure again later",
    ),
    "two_humped": Rule(
        False,
        1.2,
        "samples come from two things, one of them over 1.2 times as slow: the median is that of neither",
        "see the distribution on the page, and bind the ends if they are not",
    ),
    "disturbed": Rule(
        False,
        0.15,
        "others had over 15 % of the CPUs meanwhile",
        "stop what else runs, or measure again later",
    ),
    "stolen": Rule(False, 0.02, "the hypervisor gave over 2 % of the CPUs to others", "measure again later"),
    "overhead": Rule(
        False, 0.1, "over 10 % of the time was the instrument's, and was subtracted", "read it with care"
    ),
    "few": Rule(False, 30, "fewer than 30 samples", "give fewer points at once, or more --reps", below=True),
    "batched": Rule(False, 1, "the clock was read once in several units: p99 is that of their means", ""),
    "capped": Rule(False, 0, "a limit of the system made the message smaller than asked for", "see size"),
}

Value = Callable[[Point, Sequence[Found], Sequence[Reading]], float | None]


def judge(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> dict[str, float]:
    """The flags that a point gets, each with the value that gave it."""
    values = {name: value_of(point, found, readings) for name, value_of in _VALUES.items()}
    return {name: value for name, value in values.items() if value is not None and TABLE[name].broken(value)}


def names(given: Mapping[str, float]) -> list[str]:
    """Flags as a row has them: `rejected` first where one of them rejects it."""
    return [REJECTED, *given] if any(TABLE[name].rejects for name in given) else list(given)


def legend(given: Collection[str]) -> dict[str, str]:
    """What flags mean, by name, in the table's order."""
    return {
        name: "; ".join(filter(None, (rule.says, rule.todo))) for name, rule in TABLE.items() if name in given
    }


def _ends(found: Sequence[Found]) -> list[Mapping[str, Any]]:
    return [end for one in found for end in one.raw["ends"]]


def _off_cpu(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    """Ends that were somewhere else when their measured part began or ended."""
    if not point.bound:
        return None
    places = [({end["cpu_first"], end["cpu_last"]}, _cpu(point, end)) for end in _ends(found)]
    return sum(seen != {cpu} for seen, cpu in places)


def _cpu(point: Point, end: Mapping[str, Any]) -> int:
    return point.cpus[(int(end["pair"]) * point.form.ends + int(end["end"])) % len(point.cpus)]


def _migrated(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    if not point.bound:
        return None
    return float(sum(end["migrations"] for end in _ends(found)))


def _lost(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    """Pairs whose ends received another number of messages than they sent. Most probes send none."""
    lost = 0
    for one in found:
        balance: dict[int, int] = {}
        for end in one.raw["ends"]:
            balance[end["pair"]] = balance.get(end["pair"], 0) + end["sent"] - end["received"]
        lost += sum(map(bool, balance.values()))
    return lost


def _hop(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    """Switches a hop of two ends that wait for each other on one CPU, in the launch with the fewest.

    A hop there is at least one: whoever waits must leave the CPU before the other can answer. Ends that poll, work side by
    side or have CPUs of their own need none, nor does one end alone.
    """
    form = point.form
    waits = form.ends == 2 and not form.alike and not form.spins and "round trip" in form.unit_of_work
    return min(reading.switches for reading in readings) if waits and point.position == "same_cpu" else None


def _more_switches(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    """The same of one pair; several on a CPU interrupt each other."""
    return _hop(point, found, readings) if point.pairs == 1 else None


def _unstable(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    return spread([reading.median for reading in readings]) if len(readings) > 1 else None


def _machine(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    paces = [one.pace for one in found if one.pace]
    return spread(paces) if len(paces) > 1 else None


def _two_humped(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    """Within launches: how these differ from each other is another matter."""
    known = [reading for reading in readings if reading.median > 0]
    if not known:
        return None
    return humps.ratio(np.concatenate([reading.samples / reading.median for reading in known]))


def _time(point: Point, found: Sequence[Found]) -> float:
    """CPU seconds that there were, over all CPUs of the machine."""
    return sum(one.seconds for one in found) * found[0].cpus


def _disturbed(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    time = _time(point, found)
    return sum(one.others for one in found) / time if time >= LEAST_TIME else None


def _stolen(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    time = _time(point, found)
    return sum(one.stolen for one in found) / time if time >= LEAST_TIME else None


def _overhead(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    return max(reading.overhead / max(reading.overhead + reading.median, 1e-9) for reading in readings)


def _few(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    return sum(len(reading.samples) for reading in readings)


def _batched(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    return max(reading.batch for reading in readings)


def _capped(point: Point, found: Sequence[Found], readings: Sequence[Reading]) -> float | None:
    """Bytes that are missing; none of a probe that has no messages."""
    size = float(min(one.raw["size"] for one in found))
    return point.size - size if size else None


_VALUES: Mapping[str, Value] = {
    "off_cpu": _off_cpu,
    "lost": _lost,
    "switches": _hop,
    "migrated": _migrated,
    "more_switches": _more_switches,
    "unstable": _unstable,
    "machine": _machine,
    "two_humped": _two_humped,
    "disturbed": _disturbed,
    "stolen": _stolen,
    "overhead": _overhead,
    "few": _few,
    "batched": _batched,
    "capped": _capped,
}
