"""Makes a sweep's page and text anew from its store."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli import OK
from harness.cli._options import AS_JSON, print_json


@click.command(short_help="Make a sweep's page anew from its store.")
@click.argument("store", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="The page (default: beside the store)."
)
@AS_JSON
def command(store: Path, out: Path | None, as_json: bool) -> int:
    """Makes the page of STORE anew, also while its sweep is still running.

    \b
    Example:
      python -m harness report results/20260801-120000-workers.sqlite
    """
    from harness import document, report, table
    from harness.errors import HarnessError
    from harness.store import open_store

    with open_store(store) as opened:
        if opened.plan() is None:
            raise HarnessError(f"{store}: holds no sweep yet", usage=True)
        result = document.document(opened)
    page = out or store.with_suffix(".html")
    if page == store:
        raise HarnessError(f"{page}: is the store; give --out another name for the page", usage=True)
    report.write(result, page)
    if as_json:
        print_json(result)
    else:
        print(table.text(result))
        print(f"page:  {page}")
    return OK
