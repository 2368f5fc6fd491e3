"""Which of a sweep's blocks ran while the machine was slower or faster than usual."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from harness.cell import Replicate
from harness.judging import marks
from models.metrics import number

DRIFT = marks.TABLE[
    "drift"
].limit  # relative shift of the yardstick from the sweep's median that marks a block
# The null server's speed is that of system calls. On virtual machines it wanders by ±20 % within minutes while
# the arithmetic yardstick stands still, and one window of it scatters by as much: a limit of 5 % would reject
# every block, and with them the very scatter that the intervals are there to show. Beyond this limit the
# machine is another one: speeds that halve for minutes are what drifts look like there.
NULL_DRIFT = 0.40
FEWEST_STEADY = 3  # blocks that must remain for drifted ones to be left out


@dataclass(frozen=True, slots=True)
class Drift:
    """How the machine's speed changed from block to block.

    Attributes
    ----------
    typical : float
        Median time of the yardstick, s; nan without any.
    shifts : mapping of (session, block) to float
        Relative change of the yardstick's time from the typical one.
    drifted : frozenset of (session, block)
        Those beyond `DRIFT`, or whose null server is beyond `NULL_DRIFT`.
    left_out : bool
        Whether their replicates are left out of the figures; they are not when too few blocks would remain.
    null_shifts : mapping of (session, block) to float
        Relative change of the null server's throughput from the median.
    """

    typical: float
    shifts: Mapping[tuple[int, int], float]
    drifted: frozenset[tuple[int, int]]
    left_out: bool
    null_shifts: Mapping[tuple[int, int], float] = field(default_factory=dict)

    def keeps(self, session: int, replicate: Replicate) -> bool:
        return not self.left_out or (session, replicate.block) not in self.drifted

    def off(self, session: int, replicate: Replicate) -> float:
        """Shift of the machine's speed while a replicate ran: the yardstick's, or a null server's beyond its limit."""
        name = (session, replicate.block)
        null = abs(self.null_shifts.get(name, 0.0))
        return max(abs(self.shifts.get(name, 0.0)), null if null > NULL_DRIFT else 0.0)

    def shown(self, name: tuple[int, int]) -> str:
        """How far a drifted block was off: by the yardstick, or else by the null server."""
        shift = self.shifts[name]
        return f"{shift:+.0%}" if abs(shift) > DRIFT else f"null server {self.null_shifts[name]:+.0%}"

    def to_json(self) -> dict[str, Any]:
        return {
            "typical": number(self.typical),
            "limit": DRIFT,
            "null_limit": NULL_DRIFT,
            "blocks": [
                {
                    "session": s,
                    "block": b,
                    "shift": shift,
                    "null_shift": self.null_shifts.get((s, b)),
                    "drifted": (s, b) in self.drifted,
                }
                for (s, b), shift in self.shifts.items()
            ],
            "left_out": self.left_out,
        }


def drift_of(
    blocks: Sequence[Mapping[str, Any]], nulls: Mapping[tuple[int, int], float] | None = None
) -> Drift:
    """Compares every block's yardstick, and its null server's throughput, with the sweep's medians.

    Parameters
    ----------
    blocks : sequence of mapping
        session, block and yardstick (s).
    nulls : mapping of (session, block) to float
        Throughput of the null server, 1/s.
    """
    if not blocks:
        return Drift(math.nan, {}, frozenset(), False)
    typical = median(row["yardstick"] for row in blocks)
    shifts = {(row["session"], row["block"]): row["yardstick"] / typical - 1 for row in blocks}
    usual = median(nulls.values()) if nulls else 0.0
    null_shifts = {name: rate / usual - 1 for name, rate in (nulls or {}).items()} if usual > 0 else {}
    drifted = frozenset(
        name
        for name, shift in shifts.items()
        if abs(shift) > DRIFT or abs(null_shifts.get(name, 0.0)) > NULL_DRIFT
    )
    steady = {block for session, block in shifts if (session, block) not in drifted}
    return Drift(typical, shifts, drifted, bool(drifted) and len(steady) >= FEWEST_STEADY, null_shifts)
