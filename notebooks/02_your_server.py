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
# # Where does a server that is not ours stop scaling?
#
# Python's own `http.server` answers each connection in a thread. We give kneepoint the command that starts it and the
# address where it listens, and ask what it does under more and more clients.

# %%
import os
import sys

import harness
from harness import figures

smoke = bool(os.environ.get("KNEEPOINT_SMOKE"))

# %% [markdown]
# ## Measure
# `{port}` stands for a free port. For each measurement the command is started, awaited, measured, and ended with all
# that it started.

# %%
result = harness.sweep(
    "clients",
    values="1,2,8" if smoke else "1,2,4,8,16,32",
    command=f"{sys.executable} -m http.server {{port}} --bind 127.0.0.1 --directory notebooks",
    target="http://127.0.0.1:{port}/",
    out=os.environ.get("KNEEPOINT_STORE"),
    quick=smoke,
)
print(f"each measured for {result['sweep']['window']:g} s; settings found at the first contact:")
print([row for row in result["sweep"]["options"] if row["name"] in ("connection", "closer")])

# %%
figures.throughput(result)

# %% [markdown]
# ## What is seen from outside
# The CPU time of its processes and of the load generator, waits for a CPU, switches. What nothing but counters inside
# the server could tell is absent, rather than zero.

# %%
figures.cpu(result)

# %%
for cell in result["cells"]:
    found = cell["measured"]["counters"]
    print(
        f"{cell['value']:3} clients: {found['server_cpu'] * 1e6:5.0f} µs of CPU a reply, "
        f"{found['switches']:.1f} switches, {found['server_threads']:.0f} threads",
        *(finding["name"] for finding in cell["findings"]),
    )

# %% [markdown]
# ## Why

# %%
(series,) = result["series"]
print(f"highest at {series['peak']['value']} clients, 95 % set {series['peak']['set']}")
print(series["explanation"]["text"])

# %% [markdown]
# ## Answer
# One thread of Python runs at a time, so that its CPU time cannot pass that of one CPU, however many threads there are:
# more clients only wait longer. Where `refused` stands, some wait longest: `http.server` lets five connections stand
# in line, the kernel drops what comes beyond, and those clients knock again a second later. No model of ours predicts
# all this, as nobody described to us how the server works.
