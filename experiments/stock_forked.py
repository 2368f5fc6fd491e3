"""What does the stock system's published clock measure: the server, or the making of its clients?

Published: N clients are forked, each sends 20 orders and exits, and the clock runs from before the first fork to after
the last wait; elapsed time is close to 8 ms and 1.3 to 1.7 ms for each client. Here the same clock runs beside a window
in which as many clients, connected before, only ask: what the orders alone would have taken is a share of the elapsed
time, and the rest is forking, connecting, a ragged end and exiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.reading import CONFIRMED, CONTRADICTED, UNDECIDED, Curve, above, claim, curve

SERVERS = ("select", "sbuf")
REQUESTS = 20
CLIENTS = "1,5,10,20,50,100"
SWEEPS = {
    f"{server}-{load}": {
        "variables": "clients",
        "values": CLIENTS,
        "service": "stock",
        "server": server,
        "load": load,
        "options": {"requests": REQUESTS} if load == "forked" else {},
    }
    for server in SERVERS
    for load in ("forked", "closed")
}
# Published mean elapsed time of five runs, s, by clients.
PUBLISHED = {
    "select": {1: 0.0099138, 5: 0.0152322, 10: 0.02569, 20: 0.0466598, 50: 0.0955034, 100: 0.1660298},
    "sbuf": {1: 0.0102884, 5: 0.012857, 10: 0.021346, 20: 0.0348332, 50: 0.076888, 100: 0.1489556},
}


def answer(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The shares and the claims, server by server, then whether the two clocks rank the servers alike."""
    forked = {server: curve(results[f"{server}-forked"]) for server in SERVERS}
    clean = {server: curve(results[f"{server}-closed"]) for server in SERVERS}
    lines = []
    for server in SERVERS:
        lines += _line(server, forked[server]) + _shares(server, forked[server], clean[server])
    lines += _ranks(forked, clean)
    return "\n".join(lines) or "Nothing was measured that could be used."


def _elapsed(found: Curve) -> dict[float, float]:
    return {clients: clients * REQUESTS / rate for clients, (rate, _, _) in found.items()}


def start_and_slope(elapsed: Mapping[float, float]) -> tuple[float, float]:
    """The straight line through elapsed times, least squares of relative errors: s at no clients, s for each client."""
    clients, times = np.array(list(elapsed)), np.array(list(elapsed.values()))
    slope, start = np.polyfit(clients, times, 1, w=1 / times)
    return float(start), float(slope)


def _line(server: str, found: Curve) -> list[str]:
    if len(found) < 3:
        return []
    here, there = start_and_slope(_elapsed(found)), start_and_slope(PUBLISHED[server])
    return [
        f"- {server}: elapsed time is about {here[0] * 1e3:.2f} ms and {here[1] * 1e3:.2f} ms for each client; "
        f"published {there[0] * 1e3:.1f} ms and {there[1] * 1e3:.1f} ms"
    ]


def _shares(server: str, forked: Curve, clean: Curve) -> list[str]:
    """Orders' share of the elapsed time: the rate by the clock over the rate of a clean window with as many clients."""
    both = sorted(forked.keys() & clean.keys())
    if not both:
        return []
    verdicts, shares = [], []
    for clients in both:
        half = (clean[clients][0] / 2, clean[clients][1] / 2, clean[clients][2] / 2)
        verdicts.append(above(half, forked[clients]))
        shares.append(f"{clients:g}: {forked[clients][0] / clean[clients][0]:.0%}")
    verdict = verdicts[0] if len(set(verdicts)) == 1 else UNDECIDED
    evidence = f"The orders' share by number of clients: {', '.join(shares)}."
    return [claim(f"{server}: most of the elapsed time is not spent on orders", verdict, evidence)]


def _ranks(forked: Mapping[str, Curve], clean: Mapping[str, Curve]) -> list[str]:
    """Whether a clean window ranks the two servers as the published clock does, where both clocks can tell."""
    first, second = SERVERS
    everywhere = set.intersection(*(set(found) for found in (*forked.values(), *clean.values())))
    lines = []
    for clients in sorted(everywhere):
        by_clock = above(forked[second][clients], forked[first][clients])
        by_window = above(clean[second][clients], clean[first][clients])
        ratios = [found[second][clients][0] / found[first][clients][0] for found in (forked, clean)]
        verdict = (
            UNDECIDED
            if UNDECIDED in (by_clock, by_window)
            else CONFIRMED
            if by_clock == by_window
            else CONTRADICTED
        )
        lines.append(
            claim(
                f"a clean window ranks {second} and {first} at {clients:g} clients as the published clock does",
                verdict,
                f"{second} / {first} = {ratios[0]:.2f} by the clock, {ratios[1]:.2f} in the window.",
            )
        )
    return lines
