"""The documents say what is true."""

from __future__ import annotations

import re
from pathlib import Path

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


@pytest.mark.parametrize("name", ["README.md", "docs/how-it-works.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name: str) -> None:
    path = ROOT / name
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target
