"""Takes another tool's results into a store."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli import OK
from harness.cli._options import AS_JSON, COLUMNS, OUT, print_json


@click.command(short_help="Take another tool's results into a store.")
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="FILE...")
@OUT
@COLUMNS
@AS_JSON
def command(
    files: tuple[Path, ...],
    out: Path | None,
    n: str | None,
    x: str | None,
    r: str | None,
    think: str | None,
    as_json: bool,
) -> int:
    """Takes FILE into a store and makes its page: wrk's output, Locust's CSV, or plain CSV.

    \b
    Examples:
      python -m harness import wrk.txt
      python -m harness import locust_stats_history.csv --think 1 --out locust.sqlite
    """
    from harness import auditing, document, importing, report, sweeping, table
    from harness.importers import Hints
    from harness.request import Request
    from harness.store import open_store

    named = Request(variables=(files[0].stem,))
    path = sweeping.store_path(out, named, resume=False)
    importing.import_files(files, path, Hints(n, x, r, think), click.get_current_context().obj)
    with open_store(path, write=True) as store:
        result = document.document(store)
        auditing.keep(store, result["cells"])
    page = path.with_suffix(".html")
    report.write(result, page)
    if as_json:
        print_json(result)
    else:
        print(f"{table.text(result)}\nstore: {path}\npage:  {page}")
    return OK
