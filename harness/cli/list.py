"""Lists every registry."""

from __future__ import annotations

import click

from harness.cli import OK
from harness.cli._options import AS_JSON, print_json


@click.command(short_help="List every registry.")
@click.argument("kind", required=False)
@AS_JSON
def command(kind: str | None, as_json: bool) -> int:
    """Lists servers, services, loads, models, laws, experiments, probes and importers, with their knobs.

    KIND is one of these words; without it all are listed.

    \b
    Example:
      python -m harness list servers
    """
    from harness import registries
    from harness.errors import HarnessError
    from models.knobs import offer

    if kind is not None and kind not in registries.KINDS:
        raise HarnessError(f"{kind}: no such registry{offer(kind, registries.KINDS)}", usage=True)
    kinds = [kind] if kind else list(registries.KINDS)
    found = {name: registries.entries(name) for name in kinds}
    if as_json:
        print_json(found)
    else:
        print("\n\n".join(_text(name, entries) for name, entries in found.items()))
    return OK


def _text(kind: str, entries: list[dict[str, object]]) -> str:
    from harness import table
    from harness.probing.wanted import PLURAL

    rows = [kind]
    for entry in entries:
        kinds = entry.get("kinds")
        assert kinds is None or isinstance(kinds, list)
        between = f" (between {' or '.join(PLURAL[kind] for kind in kinds)})" if kinds else ""
        rows.append(f"  {entry['name']}: {entry['summary']}{between}")
        knobs = entry["knobs"]
        assert isinstance(knobs, list)
        shown = [(k["name"], str(k["default"]), k["allowed"], k["unit"], k["help"]) for k in knobs]
        if shown:
            rows += [
                f"      {line}"
                for line in table.lines(shown, ("knob", "default", "allowed", "unit", ""), words=5)
            ]
    return "\n".join(rows)
