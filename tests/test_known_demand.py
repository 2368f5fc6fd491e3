"""The instrument against exact theory at fifteen points: servers of known demand, by margins of equivalence.

A worker that sleeps its demand needs no CPU, so that the real server is the queue of the textbook. Throughput must lie
within 2 % of theory and mean response within 4 %, theory taken at the demand that the server stamped and the think time
or arrival rate that came about. Equivalence is shown by two one-sided tests (Schuirmann 1987): the whole 90 % interval
of measured / theory lies inside the margins. Run with -rP to see the figures.

The CPUs are kept from halting meanwhile: how long a halted virtual CPU takes to wake, 0.1 ms to 1 ms of a response of
12 ms, is up to the host. What keeps them awake runs in the idle scheduling class, and gives way at once.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from harness import measuring, recorded
from harness.cell import Replicate
from models.analytic.closed_multiserver import closed_multiserver
from models.analytic.erlang import multiserver
from models.quantiles import t_quantile
from models.scenario import Scenario

MARGINS = {"throughput": 0.02, "response": 0.04}
DEMAND = 0.012
FEWEST, MOST = 6, 60


@dataclass(frozen=True)
class Known:
    """A queue of `workers` sleeping workers, closed with think times or open at a share of its capacity."""

    workers: int
    clients: int = 0
    think: float = 0.0
    load: float = 0.0  # arrival rate × demand / workers
    dist: str = "exponential"
    window: float = 4.0

    @property
    def name(self) -> str:
        if self.load:
            kind = {"exponential": "M", "constant": "D"}.get(self.dist, "G")
            return f"M/{kind}/{self.workers} at {self.load:g}"
        return f"M/M/{self.workers}//{self.clients} think {self.think * 1e3:g} ms"

    def scenario(self, seed: int) -> Scenario:
        options = {
            "workers": self.workers,
            "demand": DEMAND,
            "demand_dist": self.dist,
            "demand_kind": "sleep",
        }
        if self.load:
            rate = self.load * self.workers / DEMAND
            options |= {"clients": 300, "arrival_rate": rate, "arrivals": "poisson"}
            return Scenario.of("synthetic", "sbuf", "open", seed, options)
        options |= {"clients": self.clients, "think": self.think, "think_dist": "exponential"}
        return Scenario.of("synthetic", "sbuf", "closed", seed, options)


POINTS = (
    Known(1, 1, 0.020),
    Known(1, 4, 0.030),
    Known(2, 6, 0.020),
    Known(4, 4, 0.012),
    Known(4, 12, 0.012),
    Known(8, 16, 0.012),
    Known(8, 40, 0.024),
    Known(2, load=0.3, window=8.0),
    Known(4, load=0.5, window=6.0),
    Known(8, load=0.6),
    Known(16, load=0.5),
    Known(16, load=0.7),
    Known(1, load=0.3, dist="constant", window=10.0),
    Known(1, load=0.4, dist="constant", window=10.0),
    Known(1, load=0.2, dist="two_point", window=10.0),
)


def test_there_are_fifteen_points():
    assert len({point.name for point in POINTS}) == 15


def theory(point: Known, record: Mapping) -> tuple[float, float]:
    """Throughput, 1/s, and mean response, s, at the realised means of a replicate.

    M/M/m//N and M/M/m by models.analytic, which has its own tests against exact tables; M/G/1 by Pollaczek and
    Khinchine (Kleinrock 1975, Queueing Systems I, equation 5.69): W = λ E[S²] / (2 (1 − λ E[S])).
    """
    replies = recorded.replies(record)
    worker = record["roles"]["worker"]
    demand = worker["busy_ns"] * 1e-9 / worker["tasks"]
    if not point.load:
        think = record["think"] * 1e-9 / replies
        found = closed_multiserver(clients=point.clients, workers=point.workers, think=think, demand=demand)
        return found.throughput, found.response
    rate = record["planned"] / (record["window"] * 1e-9)
    if point.dist == "exponential":
        return rate, multiserver(arrival_rate=rate, workers=point.workers, demand=demand).response
    square = second_moment(point, demand, worker["demand_ns"] * 1e-9 / worker["tasks"])
    return rate, demand + rate * square / (2 * (1 - rate * demand))


def second_moment(point: Known, served: float, drawn: float) -> float:
    """E[S²] as it came about, s², from the means that were served and drawn, s: each sleep ends a little late.

    Of two-point demands, half and 5.5 times the mean, the mean that was drawn tells how many were long.
    """
    if point.dist == "constant":
        return served**2
    late, long = served - drawn, (drawn / DEMAND - 0.5) / 5
    return (1 - long) * (0.5 * DEMAND + late) ** 2 + long * (5.5 * DEMAND + late) ** 2


def half_width(ratios: list[float]) -> float:
    """Half of the 90 % interval of the mean."""
    return t_quantile(len(ratios) - 1, 0.90) * statistics.stdev(ratios) / math.sqrt(len(ratios))


def narrow(ratios: Mapping[str, list[float]]) -> bool:
    return all(half_width(ratios[name]) <= margin / 3 for name, margin in MARGINS.items())


AWAKE = """
import os
os.sched_setaffinity(0, {{{cpu}}})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while os.getppid() == {parent}:
    for turn in range(100_000):
        pass
"""


@pytest.fixture
def awake() -> Iterator[None]:
    """Something to do for each CPU, below everything else."""
    parent = os.getpid()
    running = [
        subprocess.Popen([sys.executable, "-c", AWAKE.format(cpu=cpu, parent=parent)])
        for cpu in os.sched_getaffinity(0)
    ]
    yield
    for one in running:
        one.kill()
        one.wait()


def disturbed(point: Known, replicate: Replicate) -> bool:
    """Whether the audit says that the host took the CPUs meanwhile: such a run is made again."""
    cell = measuring.cell_of(point.scenario(1), [replicate])
    return "steal" in {mark.check for mark in cell.broken}


def runs(point: Known) -> Iterator[Mapping]:
    """Records of undisturbed runs, each with its own seed."""
    for seed in range(1, 2 * MOST):
        replicate = measuring.measure_once(point.scenario(seed), window=point.window, warmup=0.5)
        if not disturbed(point, replicate):
            yield replicate.record


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("awake")
@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_measures_what_theory_says(point):
    ratios: dict[str, list[float]] = {"throughput": [], "response": []}
    broken = []
    for record in runs(point):
        throughput, response = theory(point, record)
        replies = recorded.replies(record)
        total = sum(histogram["sum"] for histogram in record["histograms"].values())
        ratios["throughput"].append(recorded.throughput_of(record) / throughput)
        ratios["response"].append(total * 1e-9 / replies / response)
        broken += [kind for kind, count in record["errors"].items() if count]
        done = len(ratios["response"])
        if done >= FEWEST and (narrow(ratios) or done == MOST):
            break
    assert len(ratios["response"]) >= FEWEST, "too few runs in which the machine was quiet"
    for name, found in ratios.items():
        print(
            f"{point.name}: {name} {statistics.mean(found) - 1:+.2%} of theory, "
            f"90 % interval ± {half_width(found):.2%}, margin {MARGINS[name]:.0%}, {len(found)} runs"
        )
    assert not broken
    for name, margin in MARGINS.items():
        assert abs(statistics.mean(ratios[name]) - 1) + half_width(ratios[name]) <= margin
