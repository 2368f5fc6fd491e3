"""The page of a probe run: complete, escaped, in need of nothing from anywhere else, and true to its document."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from pages import Page
from probe_documents import HOSTILE, POSITIONS, document, result, results, samples, swept

from harness.showing import probe_figures, probe_heat, probe_page, probe_words
from harness.showing.placing import ReportError
from models.wording import seconds

PLACES = [place for place in probe_words.POSITIONS if place not in ("alone", "free")]


@pytest.fixture(scope="module")
def text() -> str:
    made = document()
    return probe_page.page(made, samples(made["results"]))


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def line(page: Page, group: str, *cells: str) -> list[str]:
    """The table row below a group's head that begins with these cells."""
    rows = page.rows[page.rows.index([group]) :]
    return next(row for row in rows if tuple(row[: len(cells)]) == cells)


def test_what_a_reader_wants_comes_first(page: Page) -> None:
    heads = [
        "What it costs to talk, by where the ends run",
        "What one end alone costs",
        "Where the overhead comes from",
        "How the samples are spread",
        "Numbers",
        "What was not measured, and why",
        "How these figures were made",
    ]
    places = [page.words.index(head) for head in heads]
    assert places == sorted(places)


def test_every_result_stands_in_the_table_with_its_units(page: Page) -> None:
    for head in ("mediana unit", "95 %of the median", "p99a unit", "switchesa unit and end"):
        assert any(head in row for row in page.rows)
    units = {row[0] for row in page.rows if len(row) == 1}
    for row in results():
        group = f"{row['probe']} a unit is: {row['unit_of_work']}"
        assert group in units
        ends, position = probe_words.KINDS[row["kind"]], probe_words.POSITIONS[row["position"]]
        cells = line(page, group, probe_words.form(row), ends, position)
        assert cells[3] == seconds(row["median_ns"] * 1e-9)
        assert cells[4] == f"{seconds(row['low_ns'] * 1e-9)} – {seconds(row['high_ns'] * 1e-9)}"
        assert cells[6] == " ".join(row["flags"])


def test_launches_that_do_not_count_are_said_to_be_left_out() -> None:
    rows = results()
    rows[0] = {**rows[0], "left_out": 2}
    count = len(rows[0]["launches"])
    page = Page(probe_page.page(document(rows)))
    assert any(f"{count} of {count + 2}" in row for row in page.rows)


def test_a_rejected_result_is_struck_out_and_said_to_be(text: str, page: Page) -> None:
    rejected = [row for row in results() if "rejected" in row["flags"]]
    struck = re.findall(r'<tr class="rejected">.*?</tr>', text)
    assert len(struck) == len(rejected) == 1
    assert f"<s>{seconds(rejected[0]['median_ns'] * 1e-9)}</s>" in struck[0]
    assert "Rejected (it did not do what its name says" in page.words
    assert "tcp · loopback, processes, same CPU." in page.words
    assert ["switches", "ends on one CPU switched less than once a hop"] in page.rows


def test_absent_positions_and_refused_points_have_their_reasons(page: Page) -> None:
    for place, about in POSITIONS.items():
        if "absent" in about:
            assert [probe_words.POSITIONS[place], about["absent"]] in page.rows
    assert [
        "cacheline · one_line",
        "threads",
        "same CPU",
        "its ends wait by polling and share a CPU",
    ] in page.rows


def test_machine_and_method_stand_at_the_end(page: Page) -> None:
    assert ["machine.kernel", "6.18"] in page.rows
    assert ["shared L3", "CPU 0 and 1"] in page.rows
    spent = [row["overhead_ns"] * 1e-9 for row in results()]
    assert f"{seconds(min(spent))} to {seconds(max(spent))} a unit here" in page.words


def test_the_page_needs_nothing_from_anywhere(text: str, page: Page) -> None:
    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base", "audio", "video")
        assert not {"src", "href", "srcset", "data", "action"} & attrs.keys(), (tag, attrs)
    own = text.replace(max(page.scripts, key=len), "")
    assert "//" not in own.replace("</", "")
    assert not re.search(r"@import|url\(", own)


def test_each_figure_has_its_place(page: Page) -> None:
    places = {attrs["id"] for tag, attrs in page.tags if tag == "div" and attrs.get("id")}
    drawn = {name for script in page.scripts[1:] for name in re.findall(r'newPlot\("([^"]+)"', script)}
    assert places == drawn
    assert {"positions", "alone", "parts-same_cpu", "parts-l3"} <= places


def test_everything_is_escaped() -> None:
    rows = [
        result(
            HOSTILE, "pingpong", "round trip", 5000, flags=[HOSTILE], options={"a": HOSTILE}, notes={"n": 1.0}
        ),
        result("pipe", HOSTILE, HOSTILE, 100, position="alone", options={HOSTILE: "1"}),
        result("pipe", HOSTILE, HOSTILE, 100, position="alone", options={HOSTILE: "2"}),
    ]
    made = document(rows, HOSTILE)
    page = Page(probe_page.page(made, samples(rows)))
    assert not any(tag == "img" for tag, _ in page.tags)
    figures = sum(1 for tag, attrs in page.tags if tag == "div" and attrs.get("id"))
    assert len(page.scripts) == 1 + figures
    for part in (
        f"one memory node {HOSTILE}",
        f"share a CPU {HOSTILE}",
        f"probe {HOSTILE}",
        f"a = {HOSTILE}",
    ):
        assert part in page.words


def test_the_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "probe.html"
    target.write_text("old")
    probe_page.write(document(), None, target)
    assert target.read_text().startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir()] == ["probe.html"]
    with pytest.raises(ReportError, match="the page cannot be written"):
        probe_page.write(document(), None, tmp_path / "nowhere" / "probe.html")


def test_a_run_without_much_still_makes_a_page() -> None:
    assert "Nothing was measured." in Page(probe_page.page(document([]))).words
    bare = {"low_ns": None, "high_ns": None, "p99_ns": None, "overhead_ns": None, "switches": None}
    rows = [
        result("syscall", "", "call", 0.0, position="alone", launches=[0.0], percentiles={}, **bare),
        result("pipe", "pingpong", "round trip", 5000, flags=["rejected", "lost"], **bare),
    ]
    page = Page(probe_page.page(document(rows), {"0": [0.0] * 9, "1": [5000.0] * 9}))
    assert line(page, "syscall a unit is: call", "–")[3:5] == ["0 ns", "–"]
    interrupted = document(rows) | {"complete": False, "yardstick_shift": 0.1}
    words = Page(probe_page.page(interrupted)).words
    assert "The run was interrupted" in words and "took 10 % longer" in words


# Figures


def cells(made: Any, kind: int, layer: int) -> dict[tuple[str, str], tuple[Any, str]]:
    """Value and text of a heat map's cells by primitive and position; layer 0 is the grey one."""
    trace, places = made.data[2 * kind + layer], [probe_words.POSITIONS[place] for place in PLACES]
    assert len(trace.x) == len(places) + 1  # edges
    return {
        (y, place): (trace.z[row][column], trace.text[row][column])
        for row, y in enumerate(trace.y)
        for column, place in enumerate(places)
    }


def test_the_heat_map_shows_each_median_in_its_cell() -> None:
    rows = results()
    made = probe_heat.heat(document(rows), PLACES)
    for kind, number in (("process", 0), ("thread", 1)):
        shown = cells(made, number, 1)
        for row in rows:
            if row["kind"] != kind or row["position"] == "alone" or "rejected" in row["flags"]:
                continue
            z, words = shown[probe_words.name(row), probe_words.POSITIONS[row["position"]]]
            assert z == pytest.approx(math.log10(row["median_ns"]))
            assert words.rstrip("*") == seconds(row["median_ns"] * 1e-9)
            assert words.endswith("*") is bool(set(row["flags"]) - {"batched"})


def test_cells_without_a_figure_are_grey_and_say_why() -> None:
    rows = results()
    made = probe_heat.heat(document(rows), PLACES)
    coloured, grey = cells(made, 0, 1), cells(made, 0, 0)
    assert coloured["tcp · loopback", "same CPU"] == (None, "")
    assert grey["tcp · loopback", "same CPU"] == (0.0, "rejected")
    assert grey["pipe", "SMT sibling"][0] == 1.0
    reasons = [note.text for note in made.layout.annotations]
    assert sum("each core has one hardware thread" in reason for reason in reasons) == 2
    assert "SMT sibling" not in {place for (_, place), (z, _) in coloured.items() if z is not None}
    refused = document(rows)["refused"]
    row = result("cacheline", "one_line", "round trip", 90, kind="thread", position="l3")
    made = probe_heat.heat(document([row]) | {"refused": refused}, PLACES)
    assert cells(made, 0, 0)["cacheline · one_line", "same CPU"] == (0.0, "refused")


def test_a_swept_cell_is_that_of_the_fewest_pairs_and_the_least_message() -> None:
    rows = [*swept({"pairs": [4, 1, 2]}), *swept({"size": [1024, 64]}, base=9000.0)]
    made = probe_heat.heat(document(rows), PLACES)
    row = next(row for row in rows if (row["pairs"], row["size"], row["position"]) == (1, 8, "same_cpu"))
    assert cells(made, 0, 1)["pipe", "same CPU"][1] == seconds(row["median_ns"] * 1e-9)


def test_the_parts_of_a_round_trip_add_up_to_it_with_their_intervals() -> None:
    rows = [row for row in results() if row["parts"] and row["position"] == "same_cpu"]
    made = probe_figures.parts(rows)
    assert made.layout.barmode == "relative"
    for row in rows:
        label = f"{probe_words.name(row)}, {probe_words.KINDS[row['kind']]}"
        places = [list(trace.y).index(label) for trace in made.data]
        bars = [trace.x[place] for trace, place in zip(made.data, places, strict=True)]
        assert sum(bars) == pytest.approx(row["median_ns"] / 1e3)
        for trace, place, part in zip(made.data, places, row["parts"], strict=True):
            assert trace.name == part["part"]
            assert trace.error_x.array[place] == pytest.approx((part["high_ns"] - part["ns"]) / 1e3)
            assert trace.error_x.arrayminus[place] == pytest.approx((part["ns"] - part["low_ns"]) / 1e3)


@pytest.mark.parametrize(
    ("dimension", "values"),
    [("pairs", [1, 2, 4, 8, 16]), ("cores", [1, 2]), ("size", [8, 1024]), ("slots", ["1", "2", "10"])],
)
def test_what_was_swept_has_its_curves(dimension: str, values: list[Any]) -> None:
    rows = swept({dimension: values})
    found = probe_words.dimensions(rows)
    assert list(found) == [dimension]
    made = probe_figures.curves(dimension, found[dimension])
    sound = [trace for trace in made.data if trace.mode == "lines+markers"]
    assert len(sound) == (1 if dimension == "cores" else 2)
    for trace in sound:
        assert set(trace.x) <= {float(value) for value in values}
        for x, y, high in zip(trace.x, trace.y, trace.error_y.array, strict=True):
            row = next(
                row
                for row in rows
                if float(probe_words.at(row, dimension)) == x and row["median_ns"] == pytest.approx(y * 1e3)
            )
            assert high == pytest.approx((row["high_ns"] - row["median_ns"]) / 1e3)
    hollow = [trace for trace in made.data if str(trace.marker.symbol).endswith("-open")]
    rejected = [row for row in rows if "rejected" in row["flags"]]
    assert sum(len(trace.x) for trace in hollow) == len(rejected)


def test_two_sweeps_in_one_run_are_two_sets_of_curves() -> None:
    found = probe_words.dimensions(swept({"pairs": [1, 2, 4], "size": [64, 1024]}))
    assert {name: [len(curve) for curve in curves] for name, curves in found.items()} == {
        "pairs": [3, 3],
        "size": [3, 3],  # the run over pairs has the third size at one pair
    }
    assert not probe_words.dimensions(results())


def test_words_as_values_keep_an_axis_of_words() -> None:
    rows = swept({"close": ["reset", "orderly"]})
    made = probe_figures.curves("close", probe_words.dimensions(rows)["close"])
    assert {x for trace in made.data for x in trace.x} == {"reset", "orderly"}


def test_a_distribution_holds_all_samples_but_its_tail() -> None:
    row = result("pipe", "pingpong", "round trip", 5000)
    values = [5000.0] * 600 + [20000.0] * 399 + [1e9]
    curve, launches = probe_figures.distribution(row, values).data
    assert sum(curve.y) == pytest.approx(99.9, abs=0.1)
    humps = [x for x, y in zip(curve.x, curve.y, strict=True) if y > 1]
    assert len(humps) == 2 and humps[0] < 5 < humps[1] < 20 < 1e3
    assert list(launches.x) == [ns / 1e3 for ns in row["launches"]]


def test_flagged_distributions_are_shown_at_once_and_the_others_behind_a_click(text: str) -> None:
    rows = results()
    flagged = [place for place, row in enumerate(rows) if set(row["flags"]) & set(probe_page.NOTED)]
    shown = text[: text.index("results without such flags")]
    for place in range(len(rows)):
        assert (f'<div id="spread-{place}"' in shown) is (place in flagged)


def test_one_ends_medians_lie_where_they_belong_and_rejected_ones_are_hollow() -> None:
    rows = [row for row in results() if row["position"] == "alone"]
    rows += [result("fork", "vfork", "process made", 70e3, position="alone", flags=["rejected", "lost"])]
    made = probe_figures.alone(rows)
    marks = [trace for trace in made.data if trace.mode == "markers"]
    assert [trace.name for trace in marks] == ["processes", "threads"]
    found = {(x, symbol) for trace in marks for x, symbol in zip(trace.x, trace.marker.symbol, strict=True)}
    for row in rows:
        symbol = "square" if row["kind"] == "thread" else "circle"
        assert (row["median_ns"] / 1e3, symbol + ("-open" if "rejected" in row["flags"] else "")) in found
    texts = [text.strip() for trace in made.data if trace.mode == "text" for text in trace.text]
    assert "70 µs rejected" in texts and "173 ns" in texts
