"""The notebooks run from top to bottom, and the two halves of each pair hold the same cells."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from calibrated import Machine

from harness import calibrate
from harness.calibrating import joint, ladder
from models.costs import Costs

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Costs as a calibration leaves them, of a machine that was made up: a real one takes half a minute and refuses while
    others use the CPUs (tests/test_calibrate.py has it). That its speed is not known keeps it from being found shifted."""
    machine = Machine(1)
    readings = machine.climb()
    found = ladder.complete(readings, joint.fit([*machine.probes(), *ladder.equations(readings)]))
    provenance = {"asked": calibrate.QUICK.passes, "neighbours": 0.0, "yardstick": math.nan, "null": math.nan}
    cpus = len(os.sched_getaffinity(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        calibrate.save(Costs(cpus, found.table, {}, found.quality, provenance, found.covariance, found.rows))
        yield


@pytest.mark.usefixtures("calibrated")
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
