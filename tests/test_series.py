"""A series analysed from its replicates: planted laws and peaks are found, and what is missing is said."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from random import Random

import pytest

from models import explain
from models.metrics import Estimate, Mark, Metrics
from models.series import Peak, Point
from models.wording import figure


def curve(sigma: float, kappa: float, values: tuple[int, ...], noise: float = 0.01) -> list[Point]:
    """Five blocks of a server that follows the USL, with noise of its own in each run."""
    random = Random(7)
    found = []
    for n in values:
        true = 1000 * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))
        runs = tuple(true * (1 + random.gauss(0, noise)) for _ in range(5))
        found.append(
            Point(
                float(n),
                Metrics(Estimate(sum(runs) / 5), Estimate(0.01), utilisation={"cpu": 0.97}),
                None,
                runs,
            )
        )
    return found


def test_a_planted_peak_is_found_with_its_law() -> None:
    points = curve(0.1, 0.05, (1, 2, 3, 4, 5, 6, 8, 12))
    series = explain.analyse("workers", {"wait": "spin"}, points[::-1], 2)
    true = math.sqrt(0.9 / 0.05)
    assert [point.x for point in series.points] == [1, 2, 3, 4, 5, 6, 8, 12]
    assert series.law == "usl"
    assert series.peak.low <= true <= series.peak.high
    assert series.peak.value in series.peak.members and 4.0 in series.peak.members
    assert not {1.0, 12.0} & set(series.peak.members)
    text = series.explanation.text
    assert "The universal scalability law (USL) describes it best (contention σ = 0." in text
    assert f"peaks at {figure(series.peak.law_value)} [" in text
    assert "cannot be said from what was recorded" in text


def test_amdahls_law_has_no_peak() -> None:
    series = explain.analyse("clients", {}, curve(0.1, 0.0, (1, 2, 4, 8, 16, 32)), 2)
    assert math.isinf(series.peak.high)
    document = series.to_json()
    assert document["peak"]["high"] is None
    assert re.search(r"has no peak|shows no peak|no bound", series.explanation.text)


def test_what_is_no_number_of_things_has_no_law() -> None:
    series = explain.analyse("chunk", {}, curve(0.1, 0.01, (1, 10, 20, 50, 100)), 2)
    assert (series.law, series.fits) == (None, ())
    assert "chunk is not a number of things that work side by side" in series.explanation.text
    assert "at chunk = " in series.explanation.text


def test_too_few_values_have_no_law() -> None:
    points = curve(0.1, 0.01, (1, 2, 3, 4))
    broken = [replace(p, broken=(Mark("steal", 0.1, 0.02),)) if p.x > 1 else p for p in points]
    series = explain.analyse("workers", {}, broken, 2)
    assert (series.law, series.to_json()["fits"]) == (None, [])
    assert "The only sound measurement is at 1 worker" in series.explanation.text
    assert "No law is fitted: 1 sound value is too few." in series.explanation.text


def test_one_run_of_each_value_decides_nothing() -> None:
    points = [replace(point, replicates=point.replicates[:1]) for point in curve(0.1, 0.05, (1, 2, 4, 8))]
    series = explain.analyse("workers", {}, points, 2)
    assert series.peak.members == (1, 2, 4, 8)
    assert "with one run of each value, no difference can be told from chance" in series.explanation.text
    assert "falls by" not in series.explanation.text


def test_a_point_without_a_run_to_compare_is_no_evidence() -> None:
    points = curve(0.1, 0.05, (1, 2, 4, 8))
    points[3] = replace(points[3], replicates=(math.nan,) * 5)
    points[0] = replace(points[0], replicates=(*points[0].replicates[:1], *(math.nan,) * 4))
    series = explain.analyse("workers", {}, points, 2)
    assert 8.0 not in series.peak.members
    assert "one run of each" not in series.explanation.text
    assert "8 workers" not in series.explanation.text


def test_the_document_of_a_series_is_the_contracts() -> None:
    series = explain.analyse("workers", {"wait": "spin"}, curve(0.1, 0.05, (1, 2, 3, 5, 8)), 2)
    document = json.loads(json.dumps(series.to_json(), allow_nan=False))
    assert set(document) == {"fixed", "variable", "fits", "law", "peak", "explanation"}
    assert set(document["peak"]) == {"value", "set", "law_value", "low", "high"}
    assert {fit["law"] for fit in document["fits"]} == {"amdahl", "usl"}
    for fit in document["fits"]:
        assert set(fit) == {"law", "parameters", "aicc"}
        assert all(set(found) == {"value", "low", "high"} for found in fit["parameters"].values())
    assert all(set(item) == {"name", "value", "unit"} for item in document["explanation"]["evidence"])
    assert all(isinstance(member, int) for member in document["peak"]["set"])
    assert Peak.from_json(document["peak"], fitted=True).law_value == pytest.approx(
        document["peak"]["law_value"]
    )
