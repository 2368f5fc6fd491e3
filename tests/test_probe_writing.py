"""The table and the picture of a probe run."""

from __future__ import annotations

import csv
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from probe_documents import document, result, results

from harness.probing import picture, writing
from harness.showing import probe_page
from harness.showing.placing import ReportError

BROWSER = next(filter(None, map(shutil.which, picture.BROWSERS)), None)


def table(made: dict, folder: Path) -> list[dict[str, str]]:
    writing.write_csv(made, folder / "x.csv")
    with (folder / "x.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_same_numbers_are_read_back(tmp_path: Path) -> None:
    rows = [*results(), result("pipe", "pingpong", "round trip", 1000 / 3)]
    found = table(document(rows), tmp_path)
    assert len(found) == len(rows)
    for row, read in zip(rows, found, strict=True):
        for name in ("probe", "variant", "kind", "unit_of_work", "position"):
            assert read[name] == row[name]
        for name in ("median_ns", "low_ns", "high_ns", "p99_ns", "overhead_ns", "min_ns", "elapsed_ns"):
            assert float(read[name]) == row[name]
        for name, column in (("pairs", "pairs"), ("size", "size_bytes"), ("batch", "batch_units")):
            assert int(read[column]) == row[name]
        assert [float(ns) for ns in read["launches_ns"].split()] == row["launches"]
        assert read["flags"].split() == row["flags"]
        for part in row["parts"] or ():
            column = part["part"].replace(" ", "_").replace("-", "_")
            assert float(read[f"{column}_ns"]) == part["ns"]
            assert (float(read[f"{column}_low_ns"]), float(read[f"{column}_high_ns"])) == (
                part["low_ns"],
                part["high_ns"],
            )


def test_what_is_not_known_is_empty_and_settings_are_written_out(tmp_path: Path) -> None:
    row = result(
        "pipe",
        "pingpong",
        "write, read",
        5000,
        low_ns=None,
        high_ns=None,
        options={"slots": "8"},
        notes={"a_ns": 1.5},
    )
    (read,) = table(document([row]), tmp_path)
    assert read["low_ns"] == read["system_calls_ns"] == ""
    assert (read["options"], read["notes"], read["unit_of_work"]) == ("slots=8", "a_ns=1.5", "write, read")


def test_every_time_and_size_has_its_unit_in_its_columns_name() -> None:
    plain = {"probe", "variant", "kind", "unit_of_work", "position", "pairs", "cores", "samples", "flags"}
    units = ("_ns", "_bytes", "_units", "_per_unit_and_end")
    for column in set(writing.COLUMNS) - plain - {"options", "notes"}:
        assert column.endswith(units), column


def test_a_table_that_cannot_be_written_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="the table cannot be written"):
        writing.write_csv(document(), tmp_path / "nowhere" / "x.csv")


def fake_browser(folder: Path, script: str) -> None:
    program = folder / "chromium"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    found = tmp_path / "p.html"
    probe_page.write(document(), None, found)
    return found


def test_without_a_browser_there_is_a_clear_word(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    png = page.with_suffix(".png")
    assert picture.write_png(page, png) == f"no browser found: open {page}; install chromium for a PNG"
    assert not png.exists()


@pytest.mark.parametrize(("script", "why"), [("exit 3", "ended with status 3"), ("exit 0", "without one")])
def test_a_browser_that_fails_leaves_nothing(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    fake_browser(tmp_path, script)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = picture.write_png(page, page.with_suffix(".png"))
    assert found and why in found and str(page) in found and "\n" not in found
    assert {path.name for path in tmp_path.iterdir()} == {"p.html", "chromium"}


def test_a_browser_that_hangs_is_ended_with_its_children(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_browser(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    began = time.monotonic()
    found = picture.write_png(page, page.with_suffix(".png"), limit=1.0)
    assert found and "took more than 1 s" in found
    assert time.monotonic() - began < 30
    assert not runs(int((tmp_path / "child").read_text()))


def test_nothing_is_left_of_a_browser_when_we_are_killed(page: Path, tmp_path: Path) -> None:
    fake_browser(tmp_path, f"touch here; sleep 60 & echo $! > {tmp_path}/child; wait")
    program = (
        "import sys; from pathlib import Path; from harness.probing import picture;"
        " picture.write_png(Path(sys.argv[1]), Path('x.png'))"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    ours = subprocess.Popen(
        [sys.executable, "-c", program, str(page)],
        env={**os.environ, "PATH": f"{tmp_path}:/bin:/usr/bin", "TMPDIR": str(temporary)},
    )
    until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())
    ours.kill()
    ours.wait()
    until(lambda: not list(temporary.iterdir()))
    assert not runs(int((tmp_path / "child").read_text()))


def until(true: Callable[[], object]) -> None:
    """Waits for it, not for ever."""
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie, which nobody may have waited for yet."""
    for _ in range(50):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state == "Z":
            return False
        time.sleep(0.02)
    return True


@pytest.mark.skipif(BROWSER is None, reason="no browser")
def test_a_picture_of_the_size_that_the_page_says(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(page.parent))
    png = page.with_suffix(".png")
    assert picture.write_png(page, png, limit=120.0) is None
    width, height = struct.unpack(">II", png.read_bytes()[16:24])
    said = picture.SIZE.search(page.read_text())
    assert said and (width, height) == tuple(map(int, said.groups()))
    words, empty = page.with_name("words.html"), page.with_name("words.png")
    words.write_text(re.sub(r"<script>\(figure => .*?</script>", "", page.read_text(), flags=re.DOTALL))
    assert picture.write_png(words, empty, limit=120.0) is None
    assert png.stat().st_size > 2 * empty.stat().st_size  # the figures are drawn, not only their places
    assert {path.suffix for path in page.parent.iterdir()} == {".html", ".png"}
