"""The documents say what is true."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import click
import pytest

from docs import make_knobs
from harness.cli import _main

ROOT = Path(__file__).parent.parent


def test_the_table_of_knobs_is_generated_from_the_code() -> None:
    assert make_knobs.TARGET.read_text() == make_knobs.page(), "run python -m docs.make_knobs"


@pytest.mark.parametrize("name", ["README.md", "docs/how-it-works.md"])
def test_every_command_that_a_document_names_exists(name: str) -> None:
    named = set(re.findall(r"python -m harness ([\w-]+)", (ROOT / name).read_text()))
    assert named
    assert named <= set(_main.names())


@pytest.mark.parametrize("name", ["README.md", "docs/how-it-works.md", "docs/models.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name: str) -> None:
    path = ROOT / name
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def commands(name: str) -> list[list[str]]:
    """The words of every command line that a document shows, comments and continued lines apart."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    lines = re.findall(r"^ *python -m harness (.*)$", text, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.parametrize("words", commands("README.md"), ids=" ".join)
def test_every_command_line_can_be_read(words: list[str]) -> None:
    command = _main.group.get_command(click.Context(_main.group), words[0])
    assert command is not None
    command.make_context(words[0], words[1:])


@pytest.mark.parametrize("name", ["README.md", "docs/how-it-works.md", "docs/models.md"])
def test_every_file_that_a_document_names_is_there(name: str) -> None:
    named = re.findall(
        r"`((?:harness|models|pyx|tests|docs|experiments|notebooks)/[\w./]*)`", (ROOT / name).read_text()
    )
    assert not [path for path in named if "NAME" not in path and not (ROOT / path).exists()]


def test_the_model_that_the_page_writes_runs_on_both_engines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/models.md").read_text(), re.DOTALL)
    example = tmp_path / "example.py"
    example.write_text("\n".join(blocks))
    names = runpy.run_path(str(example))
    simpy, compiled = (names["found"][engine] for engine in ("simpy", "compiled"))
    assert simpy.low < compiled.high and compiled.low < simpy.high
    for rate in (simpy, compiled):
        assert rate.low * 0.98 < float(names["exact"].throughput) < rate.high * 1.02
    assert names["run"].throughput < compiled.value
    assert len(capsys.readouterr().out.splitlines()) == 4
