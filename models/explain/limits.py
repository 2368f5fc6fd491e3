"""The rules on causes: what is at its limit where throughput is highest, and what takes it away beyond.

All thresholds are here. A rule is as reasons.py says. Causes are told apart by accounts that add up:
throughput is the number of CPUs times their utilisation over the CPU that a reply costs (the utilisation
law; Denning and Buzen 1978), so that a loss is dearer replies, idle CPUs, or both, in known parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from models import knobs
from models.explain.outside import queued
from models.explain.reasons import Rule
from models.explain.view import Bill, Said, View, bill, count, spins, throughput, use
from models.series import Evidence, Point
from models.wording import change, figure, finding, listed, percent, seconds

NEAR_LIMIT = 0.90  # utilisation from which a resource is named as a limit
CROWDED = 0.25  # share of its time that the generator waits for a CPU, from which that is named
LOCKED = 0.20  # lock wait over response from which locks are named
ONE_CPU = (0.92, 1.03)  # CPUs' worth of server time that is all that one thread can use
SPINNING = 0.20  # share of all CPU used from which what spinning may have burnt is named
RISE = 1.5  # growth of an event's number a reply that is named beside a loss
SOME = 0.2  # events a reply below which their growth is not worth naming
HANDLED = {"load_limited", "cpu_limited", "worker_limited", "lock_limited", "think_limited"}
EVENTS = {
    "lock_waits": "locks found held",
    "switches": "context switches",
    "preemptions": "pre-emptions",
    "steals_tried": "looks into other queues",
    "polls": "readiness calls",
}

Limit = Callable[[View, Point], Said | None]


def _cpus(view: View, point: Point) -> Said | None:
    """All CPUs busy, and how much of that is the generator's."""
    busy = use(point, "cpu")
    if not (busy >= NEAR_LIMIT or point.has("cpu_limited")):
        return None
    name = {1: "the CPU", 2: "both CPUs"}.get(view.cpus, f"all {view.cpus} CPUs")
    items = [view.evidence("cpu", point, busy, "of capacity")]
    text = f"{name} ({percent(busy)} busy"
    share = use(point, "load_cpu") / busy
    if math.isfinite(share):
        items.append(view.evidence("load generator's share of CPU used", point, share, "of CPU used"))
        text += f", {percent(share)} of it by the load generator"
    return Said(f"{text})", tuple(items))


def _generator(view: View, point: Point) -> Said | None:
    """The generator's own thread busy: the server may be able to do more."""
    busy = use(point, "load_thread")
    if not (busy >= NEAR_LIMIT or point.has("load_limited")):
        return None
    room = "" if _cpus(view, point) else ", so that the server may be able to do more"
    items = (view.evidence("load_thread", point, busy, "of capacity"),)
    return Said(f"the load generator's thread ({percent(busy)} busy{room})", items)


def _one_thread(view: View, point: Point) -> Said | None:
    """A server without a pool that uses one CPU's worth, all of an event loop, while other CPUs have room."""
    cpus = use(point, "server_cpu") * view.cpus
    pool, full = not math.isnan(use(point, "worker")), use(point, "cpu") >= NEAR_LIMIT
    if pool or full or not ONE_CPU[0] <= cpus <= ONE_CPU[1]:
        return None
    several = ", or several that run one at a time" if view.outside else ""
    text = f"the server's CPU time ({figure(cpus, 2)} of one CPU, all that a single thread can use{several})"
    return Said(text, (view.evidence("server CPU", point, cpus, "CPUs"),))


def _pool(view: View, point: Point) -> Said | None:
    """All workers busy while CPUs have room; where they have none, workers are busy waiting for a CPU."""
    busy = use(point, "worker")
    if not (busy >= NEAR_LIMIT or point.has("worker_limited")) or use(point, "cpu") >= NEAR_LIMIT:
        return None
    text = f"the pool of workers ({percent(busy)} busy while the CPUs are {percent(use(point, 'cpu'))} busy)"
    if math.isnan(use(point, "cpu")):
        text = f"the pool of workers ({percent(busy)} busy)"
    return Said(text, (view.evidence("worker", point, busy, "of capacity"),))


def _locks(view: View, point: Point) -> Said | None:
    """Threads wait for locks, a good part of what a reply takes."""
    wait, response = count(point, "lock_wait"), point.measured.response.value if point.measured else math.nan
    if not (wait >= LOCKED * response or point.has("lock_limited")):
        return None
    items = (
        view.evidence("lock_wait", point, wait, "s/reply"),
        view.evidence("response", point, response, "s"),
    )
    text = f"locks (threads wait {seconds(wait)} for them a reply, which itself takes {seconds(response)})"
    return Said(text, items)


def _crowded(view: View, point: Point) -> Said | None:
    """The generator queues for CPUs that this does not fill: others use them, or placement is bad."""
    busy, used = use(point, "load_thread"), use(point, "cpu")
    threads = count(point, "load_cpu") * throughput(point) / busy if busy > 0 else math.nan
    wait = count(point, "load_wait") * throughput(point) / threads if threads > 0 else math.nan
    if not wait >= CROWDED or not used < NEAR_LIMIT:
        return None
    items = (
        view.evidence("load generator waiting for a CPU", point, wait, "of the time"),
        view.evidence("cpu", point, used, "of capacity"),
    )
    shares = f"waits for one {percent(wait)} of the time, though it and the server use {percent(used)} of all"
    return Said(f"getting a CPU (the load generator's thread {shares})", items)


def _thinking(view: View, point: Point) -> Said | None:
    found = next((item for item in point.findings if item.name == "think_limited"), None)
    if not found:
        return None
    text = f"the clients themselves, who think {percent(found.value)} of the time"
    return Said(text, (view.evidence("thinking", point, found.value, "of the clients' time"),))


def _kept(view: View, point: Point) -> Said | None:
    """Clients starve (of a closed load: no others can) as the server serves fewer connections at once than they keep.

    Where more clients change nothing, that is the reason, though the point itself may be one that has none too many.
    """
    usual = {knob.name: knob.default for knob in knobs.of_variant("load", "closed")}
    for other in (point, *(p for p in reversed(view.sound) if p.x in view.peak.members)):
        known = {**usual, **view.fixed, view.variable: other.x}
        unserved = knobs.unserved(str(known.get("server")), "closed", known) if other.has("starved") else 0
        if unserved:
            clients = int(known["clients"])
            text = (
                f"the connections that the server serves at once ({clients - unserved}: of {clients} clients "
                f"the other {unserved} wait for one to end)"
            )
            return Said(text, (view.evidence("clients never served", other, unserved, "clients"),))
    return None


LIMITS: tuple[Limit, ...] = (
    *(_cpus, _generator, _one_thread, _pool, _kept),
    *(_locks, queued, _crowded, _thinking),
)


def _limit(view: View) -> Said | None:
    """Everything that is at its limit where throughput is highest."""
    if not view.best:
        return None
    found = [said for limit in LIMITS if (said := limit(view, view.best))]
    if not found:
        return None
    text, more = _more(view)
    items = tuple(item for said in found for item in said.evidence) + more
    return Said(
        f"What limits it at {view.at(view.best)}: {listed([said.text for said in found])}{text}.", items
    )


def _no_limit(view: View) -> Said | None:
    """Nothing stands out: said so, with what was looked at."""
    if not view.best:
        return None
    names = {"cpu": "the CPUs", "worker": "the workers", "load_thread": "the generator's thread"}
    known = {name: use(view.best, name) for name in names if not math.isnan(use(view.best, name))}
    text, more = _more(view)
    start = f"What limits it at {view.at(view.best)} cannot be said"
    if not known:
        nothing = Evidence("resources recorded", 0, f"of {len(names)}")
        return Said(f"{start}, as no resource's use was recorded{text}.", (nothing, *more))
    row = listed([f"{names[name]} {percent(value)}" for name, value in known.items()])
    items = tuple(view.evidence(name, view.best, value, "of capacity") for name, value in known.items())
    return Said(f"{start}: nothing that was watched is near its limit (busy: {row}){text}.", items + more)


def _more(view: View) -> tuple[str, tuple[Evidence, ...]]:
    """The clauses on limits that appear only beyond the best, and on findings that no limit stands for."""
    text, items = _also_found(view)
    if not view.best or not view.end:
        return text, items
    later = [(limit(view, view.best), limit(view, view.end)) for limit in LIMITS]
    new = [there for here, there in later if there and not here]
    if not new:
        return text, items
    items = (*(item for said in new for item in said.evidence), *items)
    return f"; at {view.at(view.end)} also {listed([said.text for said in new])}{text}", items


def _also_found(view: View) -> tuple[str, tuple[Evidence, ...]]:
    """The clause on findings that no other sentence names."""
    found: dict[str, list[tuple[Point, float, str]]] = {}
    for point in view.sound:
        for item in point.findings:
            if item.name not in HANDLED:
                found.setdefault(item.name, []).append((point, item.value, item.unit))
    clauses, items = [], []
    for name, rows in found.items():
        items += [view.evidence(name, *row) for row in rows]
        point, value, unit = max(rows, key=lambda row: row[1])
        clauses.append(f"{finding(name, value, unit)}, at {view.at(point)}")
    return (f"; also found: {'; '.join(clauses)}" if clauses else ""), tuple(items)


def _fall(view: View, end: Point) -> tuple[str, tuple[Evidence, ...]]:
    assert view.best
    lost = 1 - throughput(end) / throughput(view.best)
    text = f"from {figure(view.best.x, 6)} to {view.at(end)} throughput falls by {percent(lost)}"
    return text, (view.evidence("throughput lost", end, lost, "of the highest"),)


def _parts(view: View) -> tuple[float, float] | None:
    """Dearer replies' and idle CPUs' parts of the loss, in nepers: ln X = ln U − ln D + constant."""
    if not view.best or not view.end:
        return None
    here, there = bill(view.best), bill(view.end)
    uses = use(view.best, "cpu"), use(view.end, "cpu")
    if not here or not there or not min(uses) > 0:
        return None
    return math.log(there.total / here.total), math.log(uses[0] / uses[1])


def _dearer(view: View) -> Said | None:
    """A loss that comes from replies costing more CPU."""
    parts = _parts(view)
    if not view.best or not view.end or not parts or parts[0] < max(parts[1], 0):
        return None
    here, there = bill(view.best), bill(view.end)
    assert here and there
    points = view.best, view.end
    text, items = _fall(view, view.end)
    text = f"{_capital(text)} as a reply costs more CPU: {change(here.total, there.total)}"
    items += view.pair("CPU", points, (here.total, there.total), "s/reply")
    rows = {"the server": (here.server, there.server), "the load generator": (here.load, there.load)}
    if here.split and there.split:
        del rows["the server"]
        rows["the service's work"] = here.work, there.work
        rows["the server's other time"] = here.other, there.other
    clauses = []
    for name, (before, after) in sorted(rows.items(), key=lambda row: row[1][0] - row[1][1]):
        clauses.append(f"{name} {change(before, after)}")
        items += view.pair(f"CPU, {name}", points, (before, after), "s/reply")
    text += f" ({', '.join(clauses)})"
    if spins(view.end) and there.split:
        clause, more = _burnt(view, view.end, there)
        return Said(f"{text}; {clause}.", items + more)
    clause, more = _events(view)
    return Said(f"{text}{clause}.", items + more)


def _idle(view: View) -> Said | None:
    """A loss that comes from CPUs left idle: threads wait for something else."""
    parts = _parts(view)
    if not view.best or not view.end or not parts or parts[1] <= 0:
        return None
    text, items = _fall(view, view.end)
    uses = use(view.best, "cpu"), use(view.end, "cpu")
    points = view.best, view.end
    items += view.pair("cpu", points, uses, "of capacity")
    text = (
        f"{_capital(text)} while the CPUs go from {percent(uses[0])} to {percent(uses[1])} busy: threads wait"
    )
    waits = count(view.best, "lock_wait"), count(view.end, "lock_wait")
    if waits[1] > RISE * waits[0]:
        items += view.pair("lock_wait", points, waits, "s/reply")
        text += f", and for locks they wait {seconds(waits[1])} instead of {seconds(waits[0])} a reply"
        return Said(f"{text}.", items)
    clause, more = _events(view)
    return Said(f"{text} instead of working, for what cannot be said{clause}.", items + more)


def _unknown_loss(view: View) -> Said | None:
    if not view.best or not view.end:
        return None
    text, items = _fall(view, view.end)
    return Said(f"Why {text} cannot be said from what was recorded.", items)


def _spinning(view: View) -> Said | None:
    """No loss to explain, but threads that wait by burning CPU."""
    if not view.best or not spins(view.best):
        return None
    cost = bill(view.best)
    if not cost or not cost.split or cost.other < SPINNING * cost.total:
        return None
    text, items = _burnt(view, view.best, cost)
    return Said(f"{_capital(text)}.", items)


def _burnt(view: View, point: Point, cost: Bill) -> tuple[str, tuple[Evidence, ...]]:
    """The clause on spinning; system calls are in the same account, so that the figure is an upper bound."""
    share = cost.other / cost.total
    turns = count(point, "spins")
    text = (
        f"the waits spin ({figure(turns, 2)} turns a reply), and up to {seconds(cost.other)} a reply, "
        f"{percent(share)} of all CPU used at {view.at(point)}, is burnt that way"
    )
    return text, (
        view.evidence("spins", point, turns, "1/reply"),
        view.evidence("server CPU outside the service's work", point, cost.other, "s/reply"),
        view.evidence("share of CPU used that is at most spinning", point, share, "of CPU used"),
    )


def _events(view: View) -> tuple[str, tuple[Evidence, ...]]:
    """The clause on the event whose number a reply grew most beside the loss; empty when none did."""
    assert view.best and view.end
    grown = []
    for name, words in EVENTS.items():
        here, there = count(view.best, name), count(view.end, name)
        if there >= SOME and there >= RISE * here:
            grown.append((there / max(here, SOME / 10), name, words, here, there))
    if not grown:
        return "", ()
    _, name, words, here, there = max(grown)
    items = view.pair(name, (view.best, view.end), (here, there), "1/reply")
    return f"; meanwhile {words} a reply go from {figure(here, 2)} to {figure(there, 2)}", items


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


LIMIT: tuple[Rule, ...] = (_limit, _no_limit)
LOSS: tuple[Rule, ...] = (_dearer, _idle, _unknown_loss, _spinning)
