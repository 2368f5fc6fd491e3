# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What do this machine's primitives cost, and what follows for a server?
#
# A server is made of system calls, context switches, wake-ups and messages. We measure what those cost here, ask where
# the time of a round trip goes, and work out what a reply of one of our servers must cost at least.

# %%
import os

import harness
from harness import calibrate
from harness.showing import probe_figures, probe_heat
from harness.showing.probe_words import bounds, name, rejected, time
from models import Scenario

smoke = bool(os.environ.get("KNEEPOINT_SMOKE"))

# %% [markdown]
# ## Measure
# Two processes that answer each other through a pipe, a message queue, a pair of semaphores, a connection; and a producer
# with a consumer, who take turns only when their buffer is full or empty. Each figure comes of several fresh launches.

# %%
asked = {"variant": "pingpong,spsc,loopback", "kind": "process", "iterations": 1000 if smoke else None}
probes = harness.probe("pipe", "mqueue", "semaphore", "tcp", quick=True, **asked)
places = [place for place, found in probes["positions"].items() if "cpus" in found]
probe_heat.heat(probes, places)

# %% [markdown]
# ## Ask
# Between two CPUs a round trip is far dearer than on one. The message of a producer, who needs no answer (spsc: single
# producer, single consumer), suffers less. Why?

# %%
near, far = places[0], places[-1]
rows = {(name(row), row["position"]): row for row in probes["results"] if not rejected(row)}
for label in [label for label, place in rows if place == near and (label, far) in rows]:
    here, there = rows[label, near], rows[label, far]
    more, ratio = there["median_ns"] - here["median_ns"], there["median_ns"] / here["median_ns"]
    print(
        f"{label:17} {there['unit_of_work']:11} {time(more):>8} more between two CPUs, {ratio:.1f} times; ",
        end="",
    )
    print(f"sleeps of each end: {there['sleeps']:.2f}, on one CPU {here['sleeps']:.2f}")

# %% [markdown]
# What a round trip is made of, first on one CPU, then between two:

# %%
probe_figures.parts([row for row in rows.values() if row["parts"] and row["position"] == near])

# %%
probe_figures.parts([row for row in rows.values() if row["parts"] and row["position"] == far])

# %% [markdown]
# System calls and data do not explain it: what differs is how an end is woken. On one CPU the other end is simply switched
# to. On another CPU it has gone to sleep, and that CPU with it: each hop waits until it is interrupted and up again. Ends
# that must answer each other pay that for every message. A producer goes on while the consumer works: one of them sleeps
# only where it finds the buffer full or empty, and those sleeps are counted above.
#
# ## What that means for a server
# The select server does one thing after another in one thread. To answer, it must at least read from a connection and
# write to it. Its own cost is known from servers that had nothing to do, and the round trip above gives a second opinion.

# %%
costs = calibrate.costs()
clients = 16
calls = rows["tcp · calls", "alone"]
print(f"enter the kernel twice: {time(2e9 * costs['machine.syscall'])}")
print(f"read and write, twice:  {time(calls['median_ns'])}, 95 % interval {bounds(calls)}")
print(f"so once, by one thread: {time(calls['median_ns'] / 2)}")

# %% [markdown]
# At its best the server finds all clients' requests at once, and shares one call of `select` among them. The intervals'
# ends are added up, which makes the sum's interval too wide rather than too narrow.

# %%
terms = {"select.event": 1, "select.poll_connection": 1, "select.poll": 1 / clients}
least, low, high = (
    1e9 * sum(count * getattr(costs.table[cost], end) for cost, count in terms.items())
    for end in ("value", "low", "high")
)
print(f"a reply costs at least {time(least)}, 95 % interval {time(low)} – {time(high)}")
print(f"its one thread cannot give more than {1e9 / least:,.0f} replies/s, whatever the service")

# %% [markdown]
# Is it so? A service with work to do, which took no part in the calibration:

# %%
cell = harness.measure(Scenario.of("stock", "select", options={"clients": clients}), reps=3, window=0.3)
used = cell.measured.counters["server_cpu"]
print(f"CPU of the server a reply: {time(1e9 * used)}, {1e9 * used / least:.1f} times the least")
print(f"replies: {cell.measured.throughput.value:,.0f}/s", *(mark.check for mark in cell.broken))

# %% [markdown]
# ## Answer
# A round trip between CPUs is dear because each hop wakes a sleeper; whoever need not wait does not pay. So a server should
# find work waiting when it looks, as this one does under many clients. What a reply takes beyond the least is the service's
# own work, waking the generator, and calls of `select` that found fewer requests than there are clients.
