"""Every registry by name: what there is, in one line each, and the knobs that it declares."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from harness.plan import SEED_KNOB
from models import knobs

Entry = dict[str, Any]
EXPERIMENTS = ("SWEEPS", "PROBES")  # what an experiment has at least one of


def entries(kind: str) -> list[Entry]:
    """The entries of a registry: name, summary and knobs {name, type, default, allowed, unit, of, help}.

    Probes have `kinds`, what their ends may be, and `unit_of_work` too.
    """
    return _LISTINGS[kind]()


def _natives(kind: str) -> list[Entry]:
    found = []
    for name, row in sorted(knobs.variants(kind).items()):
        table = [_knob(knob) for knob in knobs.of_variant(kind, name)]
        if kind == "load":
            table.append(_knob(SEED_KNOB))
        found.append({"name": name, "summary": row["summary"], "knobs": table})
    return found


def _knob(knob: knobs.Knob) -> Entry:
    return {
        name: getattr(knob, name) for name in ("name", "type", "default", "allowed", "unit", "of", "help")
    }


def _probes() -> list[Entry]:
    from pyx import registry

    found = []
    for name, row in sorted(registry.probes().items()):
        drafts = [knobs.Knob(**fields) for fields in row["knobs"]]
        table = [{**_knob(knob), "default": knob.parse(knob.default)} for knob in drafts]
        forms = {"kinds": row["kinds"], "unit_of_work": row["unit_of_work"]}
        found.append({"name": name, "summary": row["summary"], "knobs": table, **forms})
    return found


def summary(module: ModuleType) -> str:
    """The first line of a module's docstring."""
    return (module.__doc__ or "").strip().split("\n")[0]


def modules(package: str, *attributes: str) -> dict[str, ModuleType]:
    """The modules of a package that have an attribute which makes them entries of its registry, by name."""
    parent = importlib.import_module(package)
    found = {}
    for info in pkgutil.iter_modules(parent.__path__):
        if not info.name.startswith("_"):
            module = importlib.import_module(f"{package}.{info.name}")
            if any(hasattr(module, attribute) for attribute in attributes):
                found[info.name] = module
    return found


def _files(*packages: tuple[str, ...]) -> list[Entry]:
    return [
        {"name": name, "summary": summary(module), "knobs": []}
        for package, *attributes in packages
        for name, module in sorted(modules(package, *attributes).items())
    ]


_LISTINGS: dict[str, Callable[[], list[Entry]]] = {
    "servers": partial(_natives, "server"),
    "services": partial(_natives, "service"),
    "loads": partial(_natives, "load"),
    "models": partial(_files, ("models.des", "build"), ("models.analytic", "predict")),
    "laws": partial(_files, ("models.laws", "LAW")),
    "experiments": partial(_files, ("experiments", *EXPERIMENTS)),
    "probes": _probes,
    "importers": partial(_files, ("harness.importers", "recognises")),
}
KINDS = tuple(_LISTINGS)
