"""Judges results that are there already."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli import FAILED, OK
from harness.cli._options import AS_JSON, COLUMNS, print_json

if TYPE_CHECKING:
    from harness.auditing import Audit

_WIDTH = 110
_LISTED = 12  # cells that cannot be judged for one reason, above which they are counted and not listed


@click.command(short_help="Judge a store, or another tool's results.")
@click.argument("results", type=click.Path(path_type=Path))
@COLUMNS
@AS_JSON
def command(
    results: Path, n: str | None, x: str | None, r: str | None, think: str | None, as_json: bool
) -> int:
    """Judges every cell of RESULTS by today's thresholds: a store, or what another tool wrote.

    Of another tool's clients, throughput and response times it asks whether they can be true together: by
    Little's law, X(R + Z) = N. The exit code is 1 when something is broken.

    \b
    Examples:
      python -m harness audit results/20260801-120000-workers.sqlite
      python -m harness audit figures.csv --r p50_ms --think 0.5
    """
    from harness import auditing
    from harness.importers import Hints

    found = auditing.audit(results, Hints(n, x, r, think))
    if as_json:
        print_json(found.to_json())
    else:
        print("\n".join(_text(found)))
    return FAILED if found.broken else OK


def _text(found: Audit) -> Iterator[str]:
    """A table of the cells, what their marks mean, and the share of sound ones."""
    from harness import table
    from harness.judging import marks
    from models.wording import amount, bare

    rows = []
    seen: dict[str, None] = {}
    alike = Counter(verdict.unjudged for verdict in found.verdicts if not verdict.broken)
    for reason, count in alike.items():
        if reason and count > _LISTED:
            rows.append((f"{count} cells", "cannot be judged", reason))
    for verdict in found.verdicts:
        if verdict.unjudged and not verdict.broken and alike[verdict.unjudged] > _LISTED:
            continue
        lines = [
            (f"BROKEN {mark.check}", f"{bare(mark.value, mark.unit)} > {amount(mark.limit, mark.unit)}")
            for mark in verdict.broken
        ]
        if verdict.unjudged and not verdict.broken:
            lines.append(("cannot be judged", verdict.unjudged))
        for finding in verdict.findings:
            lines.append((finding.name, amount(finding.value, finding.unit)))
        if verdict.reason:
            lines.append(("", verdict.reason))
        if verdict.change:
            lines.append(("judged otherwise", f"{verdict.change} since the sweep ended"))
        for place, line in enumerate(lines or [("sound", "")]):
            rows.append((verdict.name if place == 0 else "", *line))
        seen |= {name: None for name in [mark.check for mark in verdict.broken]}
        seen |= {finding.name: None for finding in verdict.findings}
    yield from table.lines(rows, ("cell", "verdict", "figure"), words=3)
    yield ""
    for name in seen:
        rule = marks.TABLE[name]
        yield textwrap.fill(f"{name}: {rule.says}; what to do: {rule.todo}", _WIDTH, subsequent_indent="  ")
    yield _share(found)


def _share(found: Audit) -> str:
    from harness.judging import marks
    from models.wording import percent

    share, count = found.sound_share, len(found.judged)
    unjudged = len(found.verdicts) - count
    rest = f"; {unjudged} cannot be judged" if unjudged else ""
    if share is None:
        return f"none of {len(found.verdicts)} cells can be judged"
    good = count - len(found.broken)
    wanted = percent(marks.SOUND_SHARE)
    return f"{good} of {count} judged cells are sound, {percent(share)}; a sweep should have {wanted}{rest}"
