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
# # How many workers help a server that does not exist yet?
#
# We write a server as a program, before anybody builds it: workers that compute, and a book that only one of them may write
# into at a time. Two engines simulate it, theory checks them, and then we ask how many workers pay. At the end we ask the
# same of a server that does exist.

# %%
import os
from dataclasses import dataclass

import plotly.graph_objects as go

from harness import asking_models, planning_for
from models import Scenario, des
from models.analytic.closed_multiserver import closed_multiserver
from models.des.parts import Mutex, Semaphore
from models.des.records import Distribution, Record, Steps, Thread, World
from models.planning import Target
from models.quantiles import interval
from models.what_if import WhatIf

smoke = bool(os.environ.get("KNEEPOINT_SMOKE"))

# %% [markdown]
# ## The program
# A record holds what the threads share; the function says what each of them does. `yield` stands before all that takes time.


# %%
@dataclass(eq=False)
class Shop(Record):
    workers: Semaphore
    book: Mutex
    think: Distribution
    work: Distribution
    write: Distribution


def visit(world: World, thread: Thread, shop: Shop) -> Steps:
    while True:
        yield thread.pause(shop.think.draw())
        asked = world.now
        world.entered()
        yield from shop.workers.acquire(thread)
        yield thread.run(shop.work.draw())
        yield from shop.book.acquire(thread)
        yield thread.run(shop.write.draw())
        yield thread.run(shop.book.release(world, thread))
        yield thread.run(shop.workers.release(world, thread))
        world.completed(0, world.now - asked)


# %% [markdown]
# What it runs on is said apart from it. An agent needs no CPU, as in queueing theory; a thread competes for those that there
# are. Times are in seconds.

# %%
THINK, WORK = 10e-3, 2e-3


def shop(clients, workers, write=0.0, threads=False):
    def build(world):
        times = [world.distribution("exponential", mean) for mean in (THINK, WORK, write)]
        shared = Shop(Semaphore(workers), Mutex(), *times)
        for number in range(clients):
            if threads:
                world.spawn(f"visitor {number}", "server", visit, shared)
            else:
                world.agent(f"visitor {number}", visit, shared)

    return build


def rate(build, costs=None, **settings):
    runs = des.simulate(build, costs, replications=8, warm=400, replies=1500, **settings)
    return interval([run.throughput for run in runs])


# %% [markdown]
# ## Do the engines agree, and with theory?
# As long as nobody writes, this is the queue M/M/m//N, which has a formula.

# %%
clients = [2, 10, 20] if smoke else [1, 2, 5, 10, 15, 20, 25, 30]
exact = [closed_multiserver(clients=n, workers=3, think=THINK, demand=WORK) for n in clients]
found = {engine: [rate(shop(n, 3), engine=engine) for n in clients] for engine in ("simpy", "compiled")}
for engine, rates in found.items():
    print(f"{engine:8} {clients[-1]} clients: {rates[-1].low:,.0f} to {rates[-1].high:,.0f}/s (95 %)")
print(f"theory   {clients[-1]} clients: {exact[-1].throughput:,.0f}/s")


# %%
def points(name, x, rates):
    up, down = [r.high - r.value for r in rates], [r.value - r.low for r in rates]
    bars = {"array": up, "arrayminus": down}
    return go.Scatter(x=x, y=[r.value for r in rates], error_y=bars, mode="markers", name=name)


theory = go.Scatter(x=clients, y=[float(e.throughput) for e in exact], mode="lines", name="M/M/3//N")
axes = {"xaxis_title": "clients", "yaxis_title": "replies, 1/s", "template": "plotly_white"}
go.Figure([theory, *(points(name, clients, rates) for name, rates in found.items())], axes)

# %% [markdown]
# ## How many workers?
# Now each request writes for half a millisecond. We ask twice: with a CPU for each worker, and with threads on two CPUs,
# where sleeping and waking have their price.

# %%
WRITE = 0.5e-3
prices = {"machine.switch": 2e-6, "machine.block": 2e-6, "machine.wake_futex": 1e-6}
prices |= {"machine.wake_waker": 8e-6, "machine.wake_sleeper": 7e-6, "machine.wake_latency": 15e-6}
workers = [1, 2, 8] if smoke else [1, 2, 3, 4, 6, 8, 12]
free = [rate(shop(40, m, WRITE)) for m in workers]
two = [rate(shop(40, m, WRITE, threads=True), prices, cpus=2) for m in workers]

# %%
book = go.Scatter(x=workers, y=[1 / WRITE] * len(workers), mode="lines", name="the book's limit")
axes["xaxis_title"] = "workers"
go.Figure([book, points("a CPU each", workers, free), points("two CPUs", workers, two)], axes)

# %% [markdown]
# With a CPU each, workers pay until the book is always open: a limit that no worker moves. On two CPUs the CPUs run out
# first, and further workers bring nothing.
#
# ## What if, of a server that exists
# The costs are now those of this machine, measured apart. The interval carries what is not known of them; the table says
# which of them matter.

# %%
scenario = Scenario.of("stock", "sbuf", options={"clients": 16, "workers": 4})
answer = asking_models.ask(scenario, WhatIf(), sensitivity=True, budget=2.0 if smoke else 10.0)
print(answer.text())

# %% [markdown]
# Supposing that waking were free, and that the generator ran elsewhere:

# %%
for ideal in ((), ("wakeups",), ("wakeups", "generator")):
    supposed = asking_models.ask(scenario, WhatIf(ideal=ideal), budget=1.0 if smoke else 5.0)
    print(f"{', '.join(ideal) or 'as it is':20} {supposed.words}")

# %% [markdown]
# And how many workers and cores are enough for four fifths of that, when it arrives by itself?

# %%
arriving = round(0.8 * answer.forecast.metrics.throughput.value, -3)
busy = Scenario.of("stock", "sbuf", "open", options={"arrival_rate": arriving})
plan = planning_for.answer(busy, WhatIf(), Target(arriving, (("p99", 5e-3),)), workers="1:4")
print(plan.text())

# %% [markdown]
# ## Answer
# As many workers help as there are CPUs for them, and none beyond what the one thing that they share can take. Before the
# server exists the program says where that is; once it does, its costs say it with an interval.
