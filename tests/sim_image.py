"""A compiled model as bytes, for tests/native/sim_runs.c."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
from modelled import costs_for

from models import Scenario
from models.des import compiled_engine
from models.des.engine import model_of
from models.des.machine import Prices

SCHEDULER = ("base_slice", "tick", "hot", "balance", "stays", "search", "half_life", "fades")
COUNTS = ("samples", "counters", "costs", "groups", "cpus")


def of_scenario(service: str, server: str, load: str, options: dict[str, Any], cpus: int = 3) -> bytes:
    """The model of a scenario with made-up costs."""
    scenario = Scenario.of(service, server, load, options=options)
    made = compiled_engine.prepare(model_of(scenario, costs_for(scenario, cpus)))
    table = made.model.costs
    return _image(
        made.compiled.spec, astuple(Prices.of(table)), [table.get(n, 0.0) for n in made.compiled.costs]
    )


def _image(spec: dict[str, Any], prices: Any, costs: Any) -> bytes:
    """Sizes, then arrays in the order in which sim_runs.c reads them."""
    images = [image for _, _, image, _, _ in spec["threads"]] + [image for _, _, image in spec["functions"]]
    width = max(len(image) for image in images)
    frames = np.zeros((len(images), width), np.int64)
    for frame, image in zip(frames, images, strict=True):
        frame[: len(image)] = image
    threads = [(entry, group, mask, agent) for entry, group, _, mask, agent in spec["threads"]]
    fifos = [(width, len(items) // width) for width, items in spec["fifos"]]
    words = [np.asarray(items, np.int64) for _, items in spec["fifos"]]
    tables = [np.asarray(table, np.float64) for table in spec["tables"]]
    sizes = [len(spec["code"]), width, len(threads), len(spec["functions"]), len(spec["store"])]
    sizes += [len(fifos), sum(map(len, words)), len(tables), sum(map(len, tables))]
    arrays = [
        np.array([*sizes, *(spec[name] for name in COUNTS)], np.int64),
        np.array([*(spec["scheduler"][name] for name in SCHEDULER), *prices, *costs], np.float64),
        np.ascontiguousarray(spec["code"], np.uint16),
        frames,
        np.array(threads, np.int64),
        np.array([(entry, count) for entry, count, _ in spec["functions"]], np.int64),
        np.asarray(spec["store"], np.int64),
        np.array(fifos, np.int64),
        *words,
        np.cumsum([0, *map(len, tables)]).astype(np.int64),
        *tables,
    ]
    return b"".join(array.tobytes() for array in arrays)
