"""Every mark and finding: from which value on it is given, what it means, what to do. No threshold stands elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from models.metrics import Finding, Mark

BROKEN, FINDING = "broken", "finding"
SOUND_SHARE = 0.90  # share of a default sweep's cells that must not be broken

SURE = 3.0  # standard errors that a change must exceed before its size is looked at
SURE_LEVEL = 0.9973  # the same as a two-sided level
MOST_ALIKE = 0.8  # correlation of neighbouring bins at most: a trend makes them alike too
FEWEST_REPLIES = 20  # replies in a twentieth of the window below which chance alone could empty it
FEWEST_EACH = 25  # replies of a client in the mean, below which chance alone could starve one
LONGEST_PAUSE = 2.0  # responses that a standstill must outlast: replies that come in bursts are none
GROWTH = 1.5  # rise of the response from half to half that tells a growing queue from many requests under way
EXCEEDED = 1.1  # throughput over the null server's, above which that was disturbed and is no ceiling
RESOLUTION_IDLE = 0.01  # s to which a CPU's idle time is known
ROUNDING = 0.05  # to which other tools' percentiles are taken as known: some print two digits


@dataclass(frozen=True, slots=True)
class Rule:
    """One mark or finding.

    Attributes
    ----------
    kind : str
        BROKEN: the instrument failed, and the cell is used for nothing; FINDING: the cell shows it.
    limit : float
        It is given to a value above this one; `starved` counts the clients below it.
    unit : str
        Of value and limit.
    says, todo : str
        What it means, and what to do, half a sentence each.
    """

    kind: str
    limit: float
    unit: str
    says: str
    todo: str


TABLE: Mapping[str, Rule] = {
    "accounting": Rule(
        BROKEN,
        0.01,
        "of the clients' time",
        "time of the clients is in no state, or in two: N = X(R+Z) does not hold inside the instrument",
        "report it, as it is a fault of the load generator",
    ),
    "connecting": Rule(
        BROKEN,
        0.01,
        "of the clients' time",
        "clients had no connection although connections are kept, so fewer of them asked",
        "find out why the server drops connections, or set connection=per_request",
    ),
    "replies": Rule(
        BROKEN,
        0.0,
        "of all replies",
        "replies were wrong, malformed or missing",
        "mend the server, or raise its limits and the time-out",
    ),
    "no_replies": Rule(
        BROKEN,
        0.0,
        "runs",
        "nothing was answered inside the window",
        "give a longer --time, or ask with fewer clients",
    ),
    "order_statistics": Rule(
        BROKEN,
        0.0,
        "impossible orders",
        "the figures of the response time contradict each other",
        "do not use them; report it if kneepoint measured them",
    ),
    "cpu_accounts": Rule(
        BROKEN,
        1.02,
        "of what the CPUs have",
        "server, load and idleness together had more processor time than there is",
        "check that the CPU time belongs to this server alone, and give a longer --time",
    ),
    "delivered": Rule(
        BROKEN,
        0.01,
        "of the planned load",
        "the load that was sent is not the load that was asked for",
        "lower the load, or give the generator more threads (load_threads)",
    ),
    "stationarity": Rule(
        BROKEN,
        0.10,
        "of the throughput",
        "throughput rose, fell or stood still within the window",
        "give a longer --warmup and --time, and look for what else ran",
    ),
    "drift": Rule(
        BROKEN,
        0.05,
        "of the machine's speed",
        "the machine was faster or slower than in the other blocks, and too few of them are left",
        "measure again when the machine is quiet, or give more --reps",
    ),
    "neighbours": Rule(
        BROKEN,
        0.15,
        "of all CPU time",
        "other processes used the CPUs meanwhile",
        "stop them and measure again",
    ),
    "steal": Rule(
        BROKEN,
        0.02,
        "of all CPU time",
        "the hypervisor gave the CPUs to others meanwhile",
        "measure again when the host is quiet, or on a machine of its own",
    ),
    # Wider than `accounting`, as other tools' figures are printed to three or four digits, count replies and
    # time responses over spans that differ, and leave what is under way at the ends out of one but not the other.
    "over_unity": Rule(
        BROKEN,
        1.05,
        "times the clients",
        "throughput × (response + think) is more than there were clients, which cannot be",
        "check the units, the number of clients and what one request is (wrk rewrites latencies: use --r none)",
    ),
    "unattributed": Rule(
        BROKEN,
        0.10,
        "of the clients' time",
        "the clients spent time that is neither response nor stated think time",
        "state the think time (--think), or look for what the tool leaves out of its responses",
    ),
    "load_limited": Rule(
        FINDING,
        0.95,
        "of capacity",
        "the load generator is at its own limit, so the server may be able to do more",
        "give the generator more threads or CPUs (load_threads, load_cpus)",
    ),
    "cpu_limited": Rule(
        FINDING,
        0.95,
        "of capacity",
        "all CPUs are busy with server and load",
        "make replies cheaper, or give more CPUs",
    ),
    "worker_limited": Rule(
        FINDING,
        0.95,
        "of capacity",
        "all workers are busy",
        "give more workers as long as CPUs have room",
    ),
    "starved": Rule(
        FINDING,
        0.2,
        "of the mean share",
        "some clients got far fewer replies than the others",
        "look for connections that the server serves late or never",
    ),
    "overloaded": Rule(
        FINDING,
        0.02,
        "of the arrivals",
        "more arrives than is answered, so the queue grows and response depends on how long one measures",
        "lower arrival_rate; find-limit finds the highest that holds",
    ),
    "refused": Rule(
        FINDING,
        0.0,
        "connections (of the whole host)",
        "connections were refused for a full accept queue, and came back after 1, 3, 7 s",
        "raise the server's backlog and net.core.somaxconn",
    ),
    "lock_limited": Rule(
        FINDING,
        0.20,
        "lock wait over response",
        "threads wait for locks",
        "hold locks shorter, or use more of them",
    ),
    "think_limited": Rule(
        FINDING,
        0.90,
        "of the clients' time",
        "the clients think most of the time, so throughput is theirs and not the server's",
        "give more clients or less think time",
    ),
    "late": Rule(
        FINDING,
        0.5,
        "of the mean response (p99)",
        "the load generator sent requests late, much against the response that it measures",
        "give the generator a CPU of its own (load_cpus), or lower the load",
    ),
    "retransmissions": Rule(
        FINDING,
        0.001,
        "segments a reply (of the whole host)",
        "TCP sent segments again, each of which delays a reply by 0.2 s or more",
        "look for full queues and dropped packets on the way",
    ),
}


def mark(name: str, value: float) -> Mark:
    """The mark of that name with its value; KeyError if the table has none."""
    rule = TABLE[name]
    return Mark(name, value, rule.limit, rule.unit, rule.says, rule.todo)


def finding(name: str, value: float, unit: str | None = None) -> Finding:
    """The finding of that name with its value, counted in another unit than the limit where one is given."""
    rule = TABLE[name]
    return Finding(name, value, rule.unit if unit is None else unit, rule.limit, rule.says, rule.todo)


def names(kind: str) -> tuple[str, ...]:
    """The names of all marks (BROKEN) or of all findings (FINDING)."""
    return tuple(name for name, rule in TABLE.items() if rule.kind == kind)


def limits() -> dict[str, float]:
    """Every threshold by name, as a store keeps them with its verdicts."""
    return {name: rule.limit for name, rule in TABLE.items()}
