"""Finds and reads experiments: a question, the sweeps and probes that it takes, and an answer made of their results.

An experiment is a module `experiments/NAME.py` with

- a docstring that asks the question,
- ``SWEEPS``: a mapping from a name to the arguments of `harness.sweep` (variables, values, options, service,
  server, reps, …), or
- ``PROBES``: a mapping from a name to what `harness.probing.points.Request` takes (probes, pairs, cores, …), or both,
- ``answer(results)``: text, from a mapping of those names to the documents.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.registries import EXPERIMENTS, modules
from harness.request import Request
from harness.sweeping import RESULTS, request_for
from models.knobs import offer

PACKAGE = "experiments"


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment, read.

    Attributes
    ----------
    name, question : str
    requests : mapping of str to Request
        Its sweeps, in order.
    probes : mapping of str to mapping
        Its runs of probes, in order: the fields of their requests.
    """

    name: str
    question: str
    requests: Mapping[str, Request]
    probes: Mapping[str, Mapping[str, Any]]
    module: Any

    def answer(self, results: Mapping[str, Mapping[str, Any]]) -> str:
        """What the results say about the question."""
        return str(self.module.answer(results)).strip()


def find(name: str, quick: bool = False) -> Experiment:
    """The experiment of that name; HarnessError when there is none.

    Parameters
    ----------
    quick : bool
        Short windows and few blocks, whatever the experiment says.
    """
    known = modules(PACKAGE, *EXPERIMENTS)
    if name not in known:
        raise HarnessError(f"{name}: no such experiment{offer(name, known)}", usage=True)
    module = known[name]
    requests = {key: request_for(**arguments) for key, arguments in getattr(module, "SWEEPS", {}).items()}
    probes = getattr(module, "PROBES", {})
    if quick:
        requests = {
            key: replace(request, quick=True, reps=None, window=None, warmup=None)
            for key, request in requests.items()
        }
        probes = {key: {**wanted, "quick": True, "reps": None} for key, wanted in probes.items()}
    return Experiment(name, (module.__doc__ or "").strip(), requests, probes, module)


def folder(name: str, out: Path | None, resume: bool) -> Path:
    """Where the experiment's stores lie: as given, or the newest (to resume), or a new one."""
    if out is not None:
        return out
    if resume:
        found = sorted(RESULTS.glob(f"{name}-*/"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise HarnessError(
                f"{RESULTS}: no {name} to resume; give --out, or start without --resume", usage=True
            )
        return found[-1]
    return RESULTS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
