"""When a sweep has measured enough: by the interval, the budget, or the most blocks. Pure: it knows no store and no clock.

The rule looks at the intervals after every block from the planned ones on, and stops at the first look at which
all of them are narrow. Such a rule prefers samples whose scatter came out small, so that a plain 95 % Student
interval holds the truth less often than it says (Chow and Robbins 1965 prove it only for many samples): simulated
with one cell of 8 to 10 % scatter, five planned blocks and up to twenty or forty, 92 % of the time. `LEVELS` are
Student levels that make it good, found by simulating log-normal throughputs (one to twelve cells, coefficient of
variation 1 to 20 %, alone and shared by a block's cells); the coverage beside each is the worst that was met.
tests/test_stopping.py simulates them anew, and with heavier tails (Student's t of 3), which cover more. What no
interval knows is a replicate in ten that is far slower: more than half of all five blocks hold none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models import quantiles
from models.metrics import number

STRETCH = 1.3  # blocks at most over planned ones, where no budget is given
MOST = 4  # blocks at most over planned ones, whatever the budget
FEWEST = 5  # steady blocks before the first look: scatter of fewer is too often too small by chance
LEVELS = ((0, 0.95, 0.95), (1, 0.956, 0.95), (math.inf, 0.97, 0.947))  # further blocks, level, coverage
INTERVAL, BUDGET, BLOCKS = "interval", "budget", "blocks"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What has been measured so far.

    Attributes
    ----------
    rates : mapping of str to sequence of float
        Throughputs of every sound cell in the steady blocks, 1/s. Broken cells are not among them: more of the
        same would not mend them.
    blocks, steady : int
        Blocks begun, and those of them during which the machine's speed did not shift.
    spent, block : float
        Measuring time of all blocks and sessions, and of one whole block, s.
    """

    rates: Mapping[str, Sequence[float]]
    blocks: int
    steady: int
    spent: float
    block: float


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to stop, and what the rule makes of the intervals.

    Attributes
    ----------
    rule : str
        "fixed" where the budget holds the planned blocks alone, otherwise "sequential".
    reason : str or None
        "interval", "budget" or "blocks"; None: measure another block.
    widest : float
        Relative half-width of the widest interval of a sound cell; nan where there is none.
    level, coverage : float
        Student level of the intervals, and how often they then hold the truth at least, simulated with the rule.
    """

    rule: str
    reason: str | None
    blocks: int
    steady: int
    widest: float
    level: float
    coverage: float

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "reason": self.reason,
            "blocks": self.blocks,
            "steady": self.steady,
            "widest": number(self.widest),
            "level": self.level,
            "coverage": self.coverage,
        }


def most_blocks(reps: int, budget: float | None, block: float) -> int:
    """Blocks that may be begun in all: the planned ones, and as many more as end within the budget (s)."""
    allowed = STRETCH * reps if budget is None else budget / block
    return max(reps, math.floor(min(allowed, MOST * reps) + 1e-9))


def level_of(reps: int, most: int) -> tuple[float, float]:
    """Student level for intervals under the rule, and their simulated coverage."""
    return next((level, coverage) for further, level, coverage in LEVELS if most - reps <= further)


def decide(evidence: Evidence, reps: int, precision: float, budget: float | None) -> Decision:
    """Whether the sweep has enough.

    Parameters
    ----------
    evidence : Evidence
    reps : int
        Planned blocks: as many steady ones at least, within the budget.
    precision : float
        Relative half-width of the interval of throughput that every sound cell must reach.
    budget : float or None
        Seconds of measuring within which further blocks must end; by default `STRETCH` times the planned blocks'.
    """
    most = most_blocks(reps, budget, evidence.block)
    level, coverage = level_of(reps, most)
    widest = max((half_width(rates, level) for rates in evidence.rates.values()), default=math.nan)
    reason = None
    if evidence.blocks >= reps:
        # nan is never narrow. Without any sound cell there is nothing that more blocks could make narrow.
        narrow = widest <= precision if evidence.rates else True
        if narrow and evidence.steady >= (reps if most == reps else max(reps, min(FEWEST, most))):
            reason = INTERVAL if evidence.rates else BLOCKS
        elif evidence.blocks >= MOST * reps:
            reason = BLOCKS
        elif evidence.blocks >= most:
            reason = BUDGET
    rule = "fixed" if most == reps else "sequential"
    return Decision(rule, reason, evidence.blocks, evidence.steady, widest, level, coverage)


def half_width(rates: Sequence[float], level: float) -> float:
    """Relative half-width of the interval of the mean; infinite from fewer than two."""
    if len(rates) < 2:
        return math.inf
    found = quantiles.interval(rates, level)
    return (found.high - found.low) / 2 / found.value if found.value > 0 else math.inf


def text(document: Mapping[str, Any], precision: float) -> str:
    """Why it stopped, as a sentence, from what `Decision.to_json` gave."""
    blocks, steady, widest = document["blocks"], document["steady"], document["widest"]
    count = f"{blocks} block{'' if blocks == 1 else 's'}"
    shifted = "" if steady == blocks else f", {blocks - steady} of them while the machine's speed had shifted"
    wide = "not known, as no cell is sound" if widest is None else f"±{widest:.1%}"
    why = {
        INTERVAL: f"every sound cell's interval of throughput is within ±{precision:.1%} (widest {wide})",
        BUDGET: f"the budget holds no further block; the widest interval of a sound cell is {wide}",
        BLOCKS: "no cell is sound, which further blocks would not mend"
        if widest is None
        else f"that is the most there are to be; the widest interval of a sound cell is {wide}",
        None: f"not finished; the widest interval of a sound cell is {wide}",
    }[document["reason"]]
    return f"stopped after {count}{shifted}: {why}" if document["reason"] else f"{count}{shifted}: {why}"
