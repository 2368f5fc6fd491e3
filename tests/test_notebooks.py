"""The notebooks run from top to bottom, and the two halves of each pair hold the same cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_on_the_smoke_profile(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("KNEEPOINT_SMOKE", "1")
    monkeypatch.setenv("KNEEPOINT_STORE", str(tmp_path / "store.sqlite"))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=180, resources={"metadata": {"path": str(FOLDER.parent)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("application/vnd.plotly.v1+json" in output.get("data", {}) for output in outputs) >= 2
    assert any("95 %" in output.get("text", "") for output in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_text_half_holds_the_same_cells(path: Path) -> None:
    import jupytext

    text = jupytext.read(path.with_suffix(".py"))
    paired = json.loads(path.read_text())
    assert [cell.source for cell in text.cells] == ["".join(cell["source"]) for cell in paired["cells"]]
