"""Does the time of a ping-pong grow linearly with the number of pairs on two cores?

Published: by signals on a 2-core i3, 1 to 10 pairs of processes, 100,000 iterations (the one file of figures, whose unit is
not stated, is read here as that); by message queues and semaphores on two cores of a Threadripper; and the finding that time
grows linearly with the pairs. Here all pairs start together, warm, and the clock runs from the first measured round trip
to the last; a pair that is done goes on until all are, so that the load stays; the scheduler places the processes among two
cores, as it did there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.growing import LEAST_POINTS, line, linear, said, times
from experiments.reading import UNDECIDED, claim

CORES, ITERATIONS = 2, 20_000
PROBES = {
    name: {
        "probes": (name,),
        "variant": variant,
        "kind": "process",
        "pairs": "1:10",
        "cores": str(CORES),
        "iterations": ITERATIONS,
        "reps": 7,
    }
    for name, variant in (("signal", "sigwaitinfo"), ("mqueue", "pingpong"), ("semaphore", "pingpong"))
}
# Published time by pairs, the mean of ten runs; the unit is not stated.
PUBLISHED = (
    566.64965025,
    978.162264,
    930.55032275,
    1108.1521115,
    1483.7556425,
    1675.72720275,
    2074.4664135,
    2322.576235,
    2621.9084705,
    2964.9910585,
)


def answer(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The claim for each primitive, beside the published figures."""
    there = line({pairs: (time, time, time) for pairs, time in enumerate(PUBLISHED, 1)})
    lines = [_claim(name, document) for name, document in results.items()]
    lines.append(f"- published (signal): {said(there, 'a pair')}")
    return "\n".join(lines)


def _claim(name: str, document: Mapping[str, Any]) -> str:
    text = f"{name}: time grows linearly with pairs on {CORES} cores"
    curve = times(document, "pairs", probe=name)
    if len(curve) < LEAST_POINTS:
        return claim(text, UNDECIDED, "Too few points were measured.")
    fit = line(curve)
    most, least = max(curve), min(curve)
    grown = curve[most][0] / curve[least][0]
    evidence = f"{said(fit, 'ms a pair')}; {most:g} pairs take {grown:.1f} times as long as {least:g}."
    return claim(text, linear(fit), evidence)
