"""What each stealing rule of the server queues is worth: its throughput over that of none, on even and on skewed work."""

import statistics
from dataclasses import dataclass, field

import pytest
from pyx.load import Load

from models import knobs
from pyx.server import Server

RULES = knobs.of_parts("prime", "queues", "closed")["steal"].allowed.split("|")
ROUNDS = 3
WINDOW = 0.2  # s


@dataclass(frozen=True)
class Work:
    """What is asked of the server, and how."""

    service: str
    server: dict[str, str] = field(default_factory=dict)
    load: dict[str, str] = field(default_factory=dict)


WORKS = {
    # As published: 50 numbers in tasks of 20, 20 and 10.
    "even": Work("prime"),
    # Tasks of one number each, of which one in twenty takes a hundred times as long as the others.
    "uneven tasks": Work("prime", {"chunk": "1", "bits": "32"}, {"array": "400", "bits": "32"}),
    # One task a request, to a queue at random; a few take most of the time.
    "uneven requests": Work("synthetic", {"demand": "0.00005", "demand_dist": "hyperexponential"}),
    # The same, sleeping: workers are what lacks, not processors.
    "uneven sleeps": Work(
        "synthetic", {"demand": "0.0005", "demand_dist": "hyperexponential", "demand_kind": "sleep"}
    ),
}


def throughput(work: Work, steal: str, wait: str) -> float:
    settings = {"workers": "4", "steal": steal, "wait": wait, **work.server}
    with Server(work.service, "queues", settings) as server:
        load = Load(
            "closed", work.service, {"clients": "10", **work.load}, server.host, server.port, 1, 0.05, WINDOW
        )
        raw = load.run()
        looks = int(server.counters["steals_tried"].sum())
    assert not any(raw["errors"].values()), raw["errors"]
    assert (looks > 0) == (steal != "none")
    return sum(histogram["count"] for histogram in raw["histograms"].values()) / WINDOW


@pytest.mark.parametrize("wait", ["block", "spin"])
@pytest.mark.parametrize("name", WORKS)
def test_each_rule_beside_none(benchmark, capsys, name, wait):
    """Medians of the ratios of rounds, in each of which every rule runs once, in an order that turns round."""
    ratios: dict[str, list[float]] = {rule: [] for rule in RULES}
    rates: list[float] = []

    def once():
        order = RULES if len(rates) % 2 else RULES[::-1]
        found = {rule: throughput(WORKS[name], rule, wait) for rule in order}
        rates.append(found["none"])
        for rule in RULES:
            ratios[rule].append(found[rule] / found["none"])

    benchmark.pedantic(once, rounds=ROUNDS)
    medians = {rule: statistics.median(ratios[rule]) for rule in RULES if rule != "none"}
    benchmark.extra_info |= {"none_per_second": statistics.median(rates), **medians}
    with capsys.disabled():
        words = ", ".join(f"{rule} {ratio:.2f}" for rule, ratio in medians.items())
        print(f"\n{name}, wait={wait}: {statistics.median(rates):.0f}/s with none; to that: {words}")
    assert all(ratio > 0.5 for ratio in medians.values()), ratios
