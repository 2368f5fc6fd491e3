"""The page of a sweep: complete, escaped, and in need of nothing from anywhere else."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from pages import HOSTILE, WORKERS, Page, analysed, document, metrics

from harness import figures, report
from harness.showing.lines import labels_of, lines_of
from models.explain import analyse
from models.series import Point


@pytest.fixture(scope="module")
def text() -> str:
    return report.page(document())


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_the_question_stands_on_top(page: Page) -> None:
    assert "Where does prime on queues stop scaling with workers, and why?" in page.words


def test_every_series_has_its_answer_with_evidence(page: Page) -> None:
    for row in document()["series"]:
        for sentence in re.split(r"(?<=[.]) (?=[A-Z])", row["explanation"]["text"]):
            assert sentence in page.words
        for item in row["explanation"]["evidence"]:
            assert any(
                cells[0] == item["name"] and cells[2] == item["unit"]
                for cells in page.rows
                if len(cells) == 3
            )


def test_every_cell_stands_in_a_table_with_units(page: Page) -> None:
    heads = [cells for cells in page.rows if cells and cells[0] == "workers"]
    assert len(heads) == 2
    for unit, name in (("1/s", "throughput"), ("%", "error"), ("ms", "p99"), ("ms", "mean response")):
        assert any(cell == name + unit for cell in heads[0])
    for row in analysed():
        for point in row.points:
            assert point.measured
            found = [c for c in page.rows if len(c) == 10 and c[0] == f"{point.x:.0f}"]
            rate = f"{float(f'{point.measured.throughput.value:.4g}'):,.0f}"
            assert any(cells[1] == rate for cells in found), (rate, found)
    errors = {cells[4] for cells in page.rows if len(cells) == 10 and cells[0] in "1234"}
    assert errors == {"10"}


def test_broken_and_failed_cells_are_said_to_be(page: Page) -> None:
    classes = [attrs.get("class", "") for tag, attrs in page.tags if tag == "tr"]
    assert sum("broken" in (name or "").split() for name in classes) == 2
    assert sum("best" in (name or "").split() for name in classes) == 2
    broken = [cells for cells in page.rows if len(cells) == 10 and cells[0] == "6"]
    assert all("broken: stationarity 0.143 (limit 0.1)" in cells[9] and cells[4] == "–" for cells in broken)
    assert "run 2 failed: server died spin" in page.words
    assert "not predicted: no model spin" in page.words


def test_noise_warnings_and_provenance(page: Page) -> None:
    assert "differed by 1 % in the median, 2 % at most (3 pairs)" in page.words
    assert "91,000/s with a server that does nothing" in page.words
    assert "the machine was slow spin" in page.words
    assert ["provenance.versions.numpy", "2.4"] in page.rows
    assert ["provenance.smt", "–"] in page.rows


def test_the_page_needs_nothing_from_anywhere(text: str, page: Page) -> None:
    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base", "audio", "video")
        assert not {"src", "href", "srcset", "data", "action"} & attrs.keys(), (tag, attrs)
    own = text.replace(max(page.scripts, key=len), "")
    assert "//" not in own.replace("</", "")
    assert not re.search(r"@import|url\(", own)
    policy = next(
        attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert (
        policy
        == "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
    )


def test_each_figure_has_its_place(page: Page) -> None:
    places = {attrs["id"] for tag, attrs in page.tags if tag == "div" and attrs.get("id")}
    drawn = {
        match for script in page.scripts[1:] for match in re.findall(r'Plotly\.newPlot\("([^"]+)"', script)
    }
    whole = {f"{name}-workers" for name in ("throughput", "response", "mechanisms")}
    assert places == drawn == whole | {"cpu-0", "cpu-1", "use-0", "use-1"}


def test_everything_is_escaped() -> None:
    made = report.page(document(HOSTILE))
    page = Page(made)
    assert not any(tag == "img" for tag, _ in page.tags)
    assert len(page.scripts) == 1 + 7
    for part in (
        f"wait = {HOSTILE}",
        f"the machine was slow {HOSTILE}",
        f"server died {HOSTILE}",
        f"sweep {HOSTILE}",
    ):
        assert part in page.words


def test_the_command_of_a_foreign_server_stands_there_in_full() -> None:
    made, command = document(), f"sh -c 'cd {HOSTILE} && exec nginx'"
    for cell in made["cells"]:
        cell["scenario"]["options"] |= {"command": command, "target": "http://127.0.0.1:{port}/"}
    page = Page(report.page(made))
    assert command in page.words and "http://127.0.0.1:{port}/" in page.words
    assert not any(tag == "img" for tag, _ in page.tags)


def test_the_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "sweep.html"
    target.write_text("old")
    report.write(document(), target)
    assert target.read_text().startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.html"]
    with pytest.raises(report.ReportError, match="cannot be written"):
        report.write(document(), tmp_path / "nowhere" / "sweep.html")
    with pytest.raises(report.ReportError, match="cannot be written"):
        report.write(document(), tmp_path)


def test_sweeps_without_much_still_make_a_page() -> None:
    bare = document()
    for cell in bare["cells"]:
        cell["measured"] = cell["predicted"] = None
        cell["broken"] = cell["findings"] = []
        del cell["refusal"], cell["failures"]
    row = analyse("workers", {"wait": "spin"}, [Point(float(x)) for x in WORKERS], 2).to_json()
    bare |= {"series": [row], "sweep": {"id": "x", "variables": [], "provenance": None}}
    page = Page(report.page(bare))
    assert "Nothing was measured" in page.words
    assert "the noise is not known" in page.words
    assert "The sweep holds no series." in Page(report.page({**bare, "cells": [], "series": []})).words


# Figures, as notebooks use them


def test_throughput_shows_measured_predicted_law_and_broken() -> None:
    made = figures.throughput(document())
    names = {trace.name for trace in made.data if trace.x is not None and trace.x[0] is not None}
    assert {"wait = spin", "wait = block", "predicted"} <= names
    hollow = [
        t
        for t in made.data
        if t.marker.symbol and str(t.marker.symbol).endswith("-open") and t.legendgroup == "broken"
    ]
    assert [list(trace.x) for trace in hollow if trace.x[0] is not None] == [[6.0], [6.0]]
    assert "1/s" in made.layout.yaxis.title.text
    strips = [shape for shape in made.layout.shapes if shape.type == "rect"]
    assert len(strips) == sum(len(line.peak.members) for line in lines_of(document()))


def test_the_laws_curve_runs_through_its_own_parameters() -> None:
    row = analysed()[0]
    fit = next(fit for fit in row.fits if fit.law == row.law)
    curve = next(trace for trace in figures.throughput(row).data if trace.name == row.law)
    assert (curve.x[0], curve.x[-1]) == (1.0, 8.0)
    for x, y in zip(curve.x, curve.y, strict=True):
        assert math.isclose(y, float(fit.throughput(x)), rel_tol=1e-9)


def test_figures_of_series_and_of_the_document_are_alike() -> None:
    for draw in (figures.throughput, figures.response, figures.cpu, figures.utilisation):
        a, b = draw(analysed()).to_dict(), draw(document()).to_dict()
        assert [trace.get("name") for trace in a["data"]] == [trace.get("name") for trace in b["data"]]


def test_cpu_parts_add_up_to_the_bill() -> None:
    made = figures.cpu(analysed()[0])
    bars = [trace for trace in made.data if trace.type == "bar"]
    totals = [sum(heights) for heights in zip(*(trace.y for trace in bars), strict=True)]
    assert totals == pytest.approx([20 + 12 * x + 15 for x in WORKERS])
    assert "µs" in made.layout.yaxis.title.text


def test_a_wide_variable_is_drawn_logarithmically() -> None:
    wide = [Point(float(x), metrics(1000.0 * x, 1e-6), None, (1000.0 * x,) * 3) for x in (1, 2, 4, 16, 64)]
    made = figures.throughput(analyse("clients", {}, wide, 2))
    assert made.layout.xaxis.type == "log"
    assert list(made.layout.xaxis.ticktext) == ["1", "2", "4", "16", "64"]


def test_curves_are_labelled_by_what_tells_them_apart() -> None:
    assert labels_of([{"wait": "spin", "server": "q"}, {"wait": "block", "server": "q"}]) == [
        "wait = spin",
        "wait = block",
    ]
    assert labels_of([{"service": "prime", "server": "queues"}]) == ["prime on queues"]
    assert labels_of([{}]) == ["measured"]
