"""The rows and the document of a probe run, as other programs rely on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.probing import judging
from harness.probing.launching import Collected, Found
from harness.probing.points import Plan, Point
from harness.probing.samples import PERCENTILES, Reading, interval, kept, read

SCHEMA = 1
TOO_SHORT = "failed: no sample was taken; give more --iterations"

Samples = dict[str, NDArray[np.float64]]


def rows(plan: Plan, collected: Collected) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Samples]:
    """Results, refusals, and the samples of each result by its place among the results.

    Samples are ns of a unit with the overhead subtracted, launch after launch; under PLACE.launch stands how many there are
    of each launch.
    """
    results: list[dict[str, Any]] = []
    refused, samples = list(plan.refused), Samples()
    for place, point in enumerate(plan.points):
        why = collected.refused.get(place) or (
            f"failed: {collected.failed[place]}" if place in collected.failed else ""
        )
        found = collected.found.get(place, [])
        chosen = kept([one.pace for one in found], collected.usual)
        left_out = len(found) - len(chosen)
        found = [found[i] for i in chosen]
        known = [(one, reading) for one in found if (reading := read(one.raw))]
        if why or (found and not known):
            refused.append(point.refusal(why or TOO_SHORT))
        elif known:
            readings = [reading for _, reading in known]
            samples[f"{len(results)}"] = np.concatenate([reading.samples for reading in readings])
            samples[f"{len(results)}.launch"] = np.array([len(reading.samples) for reading in readings])
            results.append(row(point, [one for one, _ in known], readings, left_out))
    return results, refused, samples


def row(
    point: Point, found: Sequence[Found], readings: Sequence[Reading], left_out: int = 0
) -> dict[str, Any]:
    """One result. Times are ns of one unit of work, the overhead subtracted.

    median_ns is the median of the launches' medians, low_ns and high_ns its 95 % interval (null from one launch);
    percentiles and p99_ns are those of all launches' samples together, of the means of `batch` units where that is over 1;
    elapsed_ns the median time in which all pairs did their measured units; switches and sleeps (voluntary ones) those of one
    end for each unit that it took part in; left_out how many launches met a slower machine and do not count; notes the
    probe's own figures, in the mean over its ends and the median over launches.
    """
    samples = np.concatenate([reading.samples for reading in readings])
    medians = [reading.median for reading in readings]
    low, high = interval(medians) or (None, None)
    given = judging.judge(point, found, readings)
    percentiles = dict(zip(PERCENTILES, np.percentile(samples, PERCENTILES).tolist(), strict=True))
    names = dict.fromkeys(name for reading in readings for name in reading.notes)
    return {
        "probe": point.probe,
        "variant": point.variant,
        "kind": point.kind,
        "unit_of_work": found[0].raw["unit_of_work"],
        "position": point.position,
        "pairs": point.pairs,
        "cores": point.cores,
        "size": min(one.raw["size"] for one in found),
        "median_ns": median(medians),
        "low_ns": low,
        "high_ns": high,
        "p99_ns": percentiles[99],
        "overhead_ns": median(reading.overhead for reading in readings),
        "samples": len(samples),
        "flags": judging.names(given),
        "flag_values": given,
        "options": dict(point.options),
        "launches": medians,
        "left_out": left_out,
        "percentiles": {f"p{name}": value for name, value in percentiles.items()},
        "min_ns": float(samples.min()),
        "batch": max(reading.batch for reading in readings),
        "elapsed_ns": median(reading.elapsed for reading in readings),
        "elapsed_launches": [reading.elapsed for reading in readings],
        "switches": median(reading.switches for reading in readings),
        "sleeps": median(reading.sleeps for reading in readings),
        "notes": {n: median(r.notes[n] for r in readings if n in r.notes) for n in names},
        "parts": None,
    }


def document(
    results: Sequence[Mapping[str, Any]], refused: Sequence[Mapping[str, Any]], **about: Any
) -> dict[str, Any]:
    """The whole run; `about` is command, started, seconds, machine, positions and what else is known of it."""
    given = {flag for result in results for flag in result["flags"]}
    return {
        "schema": SCHEMA,
        **about,
        "results": list(results),
        "refused": list(refused),
        "legend": judging.legend(given),
        "samples_file": None,
    }
