"""Do more cores make pairs of processes faster, and up to how many?

Published: signals, message queues and semaphores between 6 and 12 pairs of processes on a 16-core Threadripper, 100,000
iterations: with more cores the time stops falling at some count, and oscillates from there on. Here the ends run wherever
the scheduler likes among the first 1 to N cores of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.growing import LEAST_POINTS, oscillates, stops_falling, times
from experiments.reading import UNDECIDED, above, claim

NAMES = ("signal", "mqueue", "semaphore")
PAIRS = (6, 12)
PROBES = {
    "by_cores": {
        "probes": NAMES,
        "variant": "sigwaitinfo,pingpong",
        "kind": "process",
        "pairs": ",".join(map(str, PAIRS)),
        "cores": "1:N",
        "iterations": 2000,
        "reps": 7,
    }
}


def answer(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The claims for each primitive and number of pairs."""
    lines = []
    for name in NAMES:
        for pairs in PAIRS:
            curve = times(results["by_cores"], "cores", probe=name, pairs=pairs)
            lines += _claims(f"{name}, {pairs} pairs", curve)
    return "\n".join(lines) or "Nothing was measured that could be used."


def _claims(what: str, curve: Mapping[float, tuple[float, float, float]]) -> list[str]:
    if len(curve) < 2:
        return []
    few, most = min(curve), max(curve)
    faster = claim(
        f"{what}: {most:g} cores are faster than {few:g}",
        above(curve[few], curve[most]),
        f"The time is {curve[most][0] / curve[few][0]:.2f} of that on {few:g}.",
    )
    if len(curve) < LEAST_POINTS:
        short = f"Here are {most:g} cores; it takes {LEAST_POINTS} counts of them at least."
        return [faster, claim(f"{what}: the time stops falling and oscillates", UNDECIDED, short)]
    verdict, stop = stops_falling(dict(curve))
    if stop is None:
        return [faster, claim(f"{what}: the time stops falling", verdict, f"It falls up to {most:g} cores.")]
    return [
        faster,
        claim(f"{what}: the time stops falling", verdict, f"From {stop:g} cores on none is clearly faster."),
        claim(
            f"{what}: it oscillates from there on",
            oscillates(dict(curve), stop),
            f"It is judged by steps from one count to the next, of {sum(c >= stop for c in curve)} counts.",
        ),
    ]
