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
# # Where does this server stop scaling, and why?
#
# The prime server splits each request into tasks over its workers' queues. Does it get faster with more workers? We
# predict it, measure it, fit laws to what came out, and ask what the limit is made of.

# %%
import os

import harness
from harness import figures

smoke = bool(os.environ.get("KNEEPOINT_SMOKE"))

# %% [markdown]
# ## Measure
# The same server with two ways to wait: spinning, as it was published, and giving up the CPU. Every cell is predicted
# before it is measured; each measurement runs on a fresh server process, in random order.

# %%
result = harness.sweep(
    "workers",
    values="1,2,4" if smoke else "1,2,3,4,6,8",
    options={"wait": ["spin", "block"]},
    service="prime",
    server="queues",
    out=os.environ.get("KNEEPOINT_STORE"),
    quick=smoke,
)
noise = result["sweep"]["noise"]["floor"]
print(f"two measurements of the same cell differ by {noise:.1%} (median)")

# %% [markdown]
# ## Compare
# Dashed is the prediction, made from costs measured apart: no figure of this server was used for it.

# %%
figures.throughput(result)

# %%
for cell in result["cells"]:
    options, error = cell["scenario"]["options"], cell["error"]
    if error is not None:
        print(
            f"{options['wait']:5} {options['workers']} workers: predicted / measured − 1 = {error['throughput']:+.0%}"
        )

# %% [markdown]
# ## Fit
# Two laws for each curve; AICc chooses. The peak is a set: all the values that are not significantly below the best.

# %%
for series in result["series"]:
    peak = series["peak"]
    print(
        f"wait={series['fixed']['wait']}: {series['law']}, highest at {peak['value']}, 95 % set {peak['set']}"
    )

# %% [markdown]
# ## Why
# What a request costs in processor time, on either side, and how much of it is the service's own work.

# %%
figures.cpu(result)

# %%
for series in result["series"]:
    print(series["explanation"]["text"], "\n")

# %% [markdown]
# ## Answer
# With spinning waits the peak is a matter of burnt slices, not of parallel work: every thread that waits holds a CPU
# until its slice ends. Waits that give up the CPU move the limit to the processors themselves.
