"""The rules on servers that are not ours: what is seen of them from outside, and what is not."""

from __future__ import annotations

import math

from models.explain.reasons import Rule
from models.explain.view import Said, View, count, throughput, use
from models.series import Evidence, Point
from models.wording import figure, percent

QUEUED = 0.25  # threads of the server that wait for a CPU at a time, from which that is named
ROOM = 0.75  # utilisation of all CPUs below which a wait for one is not of the server's own making
# What only counters inside a server tell, with its unit.
HIDDEN = (("wait for locks", "s/reply"), ("lengths of queues", "1"), ("busy share of workers", "of capacity"))


def queued(view: View, point: Point) -> Said | None:
    """Threads of the server stand in line for CPUs: there are more of them at work than CPUs, or others use those."""
    waiting = count(point, "server_wait") * throughput(point)
    if not view.outside or not waiting >= QUEUED:
        return None
    threads = count(point, "server_threads")
    of = f" of its {figure(round(threads))}" if threads >= 2 else ""
    items = [view.evidence("threads of the server waiting for a CPU", point, waiting, "at a time")]
    if not math.isnan(threads):
        items.append(view.evidence("threads of the server", point, threads, "threads"))
    used = use(point, "cpu")
    others = ""
    if used < ROOM:
        others = f", though they and the load generator use only {percent(used)} of all: other processes do"
        items.append(view.evidence("cpu", point, used, "of capacity"))
    text = f"getting a CPU (on average {figure(waiting, 2)}{of} threads of the server wait for one{others})"
    return Said(text, tuple(items))


def _unseen(view: View) -> Said | None:
    """What no figure of this series can say, because the server keeps no counters for us."""
    if not view.outside:
        return None
    hidden = [Evidence(f"unseen: {name}", math.nan, unit) for name, unit in HIDDEN]
    if view.best and math.isnan(use(view.best, "server_cpu")):
        cpu = Evidence("unseen: CPU of the server", math.nan, "s/reply")
        return Said(
            "Its CPU time, locks, queues and workers cannot be seen from outside: no process that listens there "
            "was found on this machine.",
            (cpu, *hidden),
        )
    return Said("Its locks, queues and workers cannot be seen from outside.", tuple(hidden))


UNSEEN: tuple[Rule, ...] = (_unseen,)
