"""Does it matter which two cores a pair of processes runs on?

Published: signal ping-pong of one pair on a 16-core Threadripper, 100,000 iterations: the same core, cores that share a
cache, and cores of two NUMA nodes differ. Here each end is bound to its core before it touches memory, and every position
that this machine has is measured; those that it lacks are named.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from experiments.reading import CONFIRMED, CONTRADICTED, UNDECIDED, above, claim

SAME = "same_cpu"
PROBES = {
    "position": {
        "probes": ("signal",),
        "variant": "sigwaitinfo",
        "kind": "process",
        "position": "all",
        "reps": 10,
    }
}


def answer(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Every position beside the same core, then those next to each other, then what is absent."""
    document = results["position"]
    found = {
        row["position"]: (row["median_ns"], row["low_ns"], row["high_ns"])
        for row in document["results"]
        if row["probe"] == "signal" and "rejected" not in row["flags"] and row["low_ns"] is not None
    }
    order = [name for name in document["positions"] if name in found]
    pairs = list(dict.fromkeys([*itertools.pairwise(order), *((SAME, far) for far in order[1:])]))
    lines = [_claim(near, far, found) for near, far in pairs if near in found]
    lines += [
        claim(f"the position {name} matters", UNDECIDED, f"It is absent: {place['absent']}.")
        for name, place in document["positions"].items()
        if "absent" in place
    ]
    return "\n".join(lines) or "Nothing was measured that could be used."


def _claim(near: str, far: str, found: Mapping[str, tuple[float, float, float]]) -> str:
    differ = CONFIRMED in (above(found[near], found[far]), above(found[far], found[near]))
    ratio = found[far][0] / found[near][0]
    low, high = found[far][1] / found[near][2], found[far][2] / found[near][1]
    # Intervals that overlap show a difference neither to be there nor not; narrow ones, that it is small.
    same = CONTRADICTED if low > 1 / 1.1 and high < 1.1 else UNDECIDED
    return claim(
        f"a round trip by {far} differs from one by {near}",
        CONFIRMED if differ else same,
        f"{found[far][0] / 1e3:.1f} / {found[near][0] / 1e3:.1f} µs = {ratio:.2f} [{low:.2f}, {high:.2f}].",
    )
