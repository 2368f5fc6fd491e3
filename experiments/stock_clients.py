"""How does the stock server's throughput grow with its clients, and do threads beat the select loop?

Published (20 stocks, forked clients, the clock over the whole run): throughput rises with the clients like a log curve;
the threaded server overtakes the select server at 10 clients, is furthest ahead at 20 to 50, and the gap closes at 100.
Here connections are open before the clock starts, and every reply is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.reading import UNDECIDED, Curve, above, claim, curve

CLIENTS = "1,5,10,20,50,100"
SWEEPS = {
    server: {"variables": "clients", "values": CLIENTS, "service": "stock", "server": server}
    for server in ("select", "sbuf")
}


def answer(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The claims one by one."""
    select, sbuf = curve(results["select"]), curve(results["sbuf"])
    both = sorted(select.keys() & sbuf.keys())
    if not both:
        return "Nothing was measured that could be used."
    lines = [_rise(name, found) for name, found in (("select", select), ("sbuf", sbuf))]
    for clients in (c for c in both if c >= 10):
        ratio = sbuf[clients][0] / select[clients][0]
        verdict = above(sbuf[clients], select[clients])
        lines.append(
            claim(f"threads beat select at {clients:g} clients", verdict, f"sbuf / select = {ratio:.2f}.")
        )
    for name in ("select", "sbuf"):
        lines.append(f"- {name}: {results[name]['series'][0]['explanation']['text']}")
    return "\n".join(lines)


def _rise(name: str, found: Curve) -> str:
    """A log curve grows by the same step with each doubling; here the steps of the lower and upper half are compared."""
    if len(found) < 4:
        return claim(f"{name}: throughput rises with clients like a log curve", UNDECIDED, "Too few points.")
    xs = list(found)
    last, before = found[xs[-1]], found[xs[-3]]
    verdict = above(last, before)
    ratio = last[0] / found[xs[0]][0]
    return claim(
        f"{name}: throughput still rises from {xs[-3]:g} to {xs[-1]:g} clients",
        verdict,
        f"{xs[-1]:g} clients reach {ratio:.1f} times one client's.",
    )
