"""What several peers print alike."""

from __future__ import annotations

import json
import re


def perf_bench(text: str) -> float:
    """ns of an operation, from what `perf bench` prints: the whole time over the number of loops."""
    found = re.search(r"([\d.]+)\s+usecs/op", text)
    if not found:
        raise ValueError("perf bench printed no usecs/op")
    return float(found[1]) * 1e3


def rt_tests(text: str) -> float:
    """ns one way in the mean, from the JSON of rt-tests, which more text follows.

    It is a mean of differences between times in whole microseconds: coarse one by one, right in the mean.
    """
    try:
        document, _ = json.JSONDecoder().raw_decode(text)
        (thread,) = document["thread"].values()
        return float(thread["receiver"]["avg"]) * 1e3
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError("its JSON has no mean time of a receiver") from error


def rt_words(cpu: int) -> list[str]:
    """Arguments of rt-tests: one pair, both on one CPU, 100 us between messages, figures as JSON and nothing else."""
    return ["-q", "-t", "1", "-a", str(cpu), "-i", "100", "-d", "0", "-l", "4000", "--json=/dev/stdout"]


RT_NOTE = (
    "rt-tests sleep 100 us before each message and send it one way, ours never rest: half of a round trip"
)
