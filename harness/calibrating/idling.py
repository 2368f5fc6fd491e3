"""Finds how eagerly this kernel's idle CPUs take waiting threads, from the threaded rungs of the calibration ladder.

The kernel decides it by how much earlier tries have paid, in a way that no probe shows. The rungs were measured; the same
rungs are simulated with a CPU that never takes a hot thread and with one that always does; the share of CPU time that
was in use lies between the two, and says how often.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.calibrating.ladder import Reading, Rung, middle
from models.costs import Costs, Demand, demand_key
from models.des import predict

NOTHING = Demand((0,), (0.0,), (0.0,), ((0.0,),), 0)
REPLIES = 1500


def with_pull(costs: Costs, readings: Mapping[Rung, Sequence[Reading]]) -> Costs:
    """The costs with the share of times that brings the simulated use of the CPUs closest to the measured one."""
    found = []
    for rung, several in readings.items():
        if rung.server == "select" or rung.spins:
            continue
        reading = middle(several)
        used = reading.throughput * (reading.server + reading.load) / costs.cpus
        never, always = (_used(replace(costs, pull=pull), rung) for pull in (0.0, 1.0))
        if always > never:
            found.append((used - never) / (always - never))
    return replace(costs, pull=min(max(statistics.median(found), 0.0), 1.0) if found else 0.0)


def _used(costs: Costs, rung: Rung) -> float:
    """Share of all CPUs in use, simulated."""
    scenario = rung.scenario(1)
    known = costs.with_demands({demand_key(scenario): NOTHING})
    return predict(scenario, known, replications=1, replies=REPLIES).utilisation["cpu"]
