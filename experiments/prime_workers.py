"""Why does the prime server peak at three workers?

The published server (a connection a request, a thread for each, every wait a spin, 10 clients, arrays of 50, chunks of 20)
was fastest with three workers, and with more fell below one worker. Its authors suspected that idle workers, polling their
queue under its lock, keep tasks from being put. Here the same server runs as published and with waits that give up the
CPU; the difference is what spinning costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.reading import CONFIRMED, CONTRADICTED, UNDECIDED, above, claim, curve, series

SWEEPS = {
    "published": {
        "variables": "workers",
        "service": "prime",
        "server": "queues",
        "options": {"accept": "thread", "wait": "spin", "connection": "per_request"},
    },
    "waits": {
        "variables": "workers",
        "service": "prime",
        "server": "queues",
        "options": {"accept": "thread", "wait": ["spin", "block"]},
    },
}


def answer(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The claims one by one, then what the two ways to wait say about the cause."""
    published = curve(results["published"])
    spin, block = curve(results["waits"], wait="spin"), curve(results["waits"], wait="block")
    lines = []
    if len(published) > 1:
        lines += [_peak(results["published"]), _below_one(published)]
    for value in sorted(spin.keys() & block.keys()):
        ratio = block[value][0] / spin[value][0]
        lines.append(
            f"- with workers={value:g}, waits that give up the CPU serve {ratio:.1f} times as many requests"
        )
    for wait in ("spin", "block"):
        one = series(results["waits"], wait=wait)
        if one is not None:
            lines.append(f"- wait={wait}: {one['explanation']['text']}")
    return "\n".join(lines) or "Nothing was measured that could be used."


def _peak(document: Mapping[str, Any]) -> str:
    members = document["series"][0]["peak"]["set"]
    verdict = (
        UNDECIDED if 3 in members and len(members) > 1 else CONFIRMED if members == [3] else CONTRADICTED
    )
    names = ", ".join(f"{member:g}" for member in members)
    return claim("throughput peaks at 3 workers", verdict, f"Here the highest is in {{{names}}} (95 %).")


def _below_one(published: Mapping[float, tuple[float, float, float]]) -> str:
    most = max(published)
    verdict = above(published[min(published)], published[most])
    ratio = published[most][0] / published[min(published)][0]
    return claim(
        "with many workers throughput is below one worker's",
        verdict,
        f"{most:g} workers reach {ratio:.2f} of one's.",
    )
