"""Measures what this machine's primitives cost."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from harness.cli import FAILED, INTERRUPTED, OK
from harness.cli._options import AS_JSON, print_json

if TYPE_CHECKING:
    from harness.probing.running import Outcome


@click.command(short_help="Measure what this machine's primitives cost.")
@click.argument("probes", metavar="[NAME]...", nargs=-1)
@click.option("--pairs", default="1", metavar="VALUES", help="Pairs of ends at once: 1:16 (default: 1).")
@click.option("--cores", metavar="VALUES", help="Ends not bound, but among so many CPUs: 1:N.")
@click.option("--position", metavar="WORDS", help="same_cpu, smt, l2, l3, socket, numa, or all (default).")
@click.option("--kind", metavar="WORDS", help="What the ends are: process, thread (default: both).")
@click.option("--variant", metavar="WORDS", help="Forms of a probe (default: all); `list probes` names them.")
@click.option("--size", default="8", metavar="VALUES", help="Bytes of a message: 8,1024 (default: 8).")
@click.option(
    "--set", "settings", metavar="KNOB=VALUES", multiple=True, help="A knob of a probe. Repeatable."
)
@click.option("--iterations", type=int, metavar="N", help="Units of work of each launch, instead of a time.")
@click.option(
    "--reps", type=int, metavar="N", help="Launches of each point (default: 6; fewer of very many)."
)
@click.option("--quick", is_flag=True, help="In 10 s; where no probe is named, default variants only.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="JSON (default: new in results/)."
)
@click.option("--no-report", is_flag=True, help="Write no page and no picture.")
@click.option("--interactive", is_flag=True, help="Ask what to measure.")
@click.option("--cross-check", is_flag=True, help="Hold it against the installed tools of others.")
@AS_JSON
def command(
    as_json: bool, out: Path | None, no_report: bool, interactive: bool, cross_check: bool, **given: Any
) -> int:
    """Measures what system calls, switches, wake-ups and messages cost here: all probes, or those that are named.

    Each point is launched several times in fresh processes, in random order; both ends are bound before they touch
    memory. A run of all takes a minute at most.

    \b
    Examples:
      python -m harness probe
      python -m harness probe pipe --pairs 1:16 --position same_cpu,l3
      python -m harness probe pipe syscall --kind process --json
    """
    if interactive:
        _refuse_beside("--interactive", set())
        return _ask()
    if cross_check:
        _refuse_beside("--cross-check", {"reps", "as_json"})
        return _cross_check(given["reps"], as_json)
    from harness.probing import running, table
    from harness.probing.wanted import Request
    from harness.progress import Reporting

    path = running.path_for(out, given["probes"])
    with Reporting() as progress:
        outcome = running.run(Request(**given), progress, click.get_current_context().obj)
    try:
        missing = running.write(outcome, path, report=not (no_report or outcome.interrupted))
    finally:  # also where no file could be written
        if not as_json:
            print(table.text(outcome.document))
        elif not outcome.interrupted:
            print_json(outcome.document)
    if not as_json:
        print(f"document: {path}")
        if path.with_suffix(".html").exists():
            print(f"page:     {path.with_suffix('.html')}")
    return _status(outcome, missing, path)


def _status(outcome: Outcome, missing: list[str], path: Path) -> int:
    """Says on stderr what went wrong, and gives the exit code."""
    for line in missing:
        print(line, file=sys.stderr)
    for line in outcome.failed:
        print(f"error: {line}", file=sys.stderr)
    if outcome.interrupted:
        print(f"interrupted: what was finished is in {path}", file=sys.stderr)
        return INTERRUPTED
    return FAILED if outcome.failed else OK


def _refuse_beside(option: str, read: set[str]) -> None:
    """Refuses what this option would ignore."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if parameter.opts[0] == option or name in read or not context.params[name]:
            continue
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            said = context.params[name][0] if name == "probes" else parameter.opts[0]
            raise click.UsageError(f"{said}: {option} does not read it; leave one of them out")


def _ask() -> int:
    """Asks for the words, shows the command that they make, and runs it."""
    from harness.cli import _main
    from harness.probing import asking

    words = ["probe", *asking.ask()]
    print(f"python -m harness {shlex.join(words)}")
    return _main.main(words)


def _cross_check(reps: int | None, as_json: bool) -> int:
    """Ours beside what other tools say of the same thing."""
    from harness import table
    from harness.probing import peers, running
    from harness.probing.wanted import Request

    running.check(Request(reps=reps))
    rows = peers.cross_check(reps or peers.REPS)
    if as_json:
        print_json(rows)
        return OK
    heads = ("peer", "probe", "ours", "theirs", "ours/theirs", "95 %", "agrees", "")
    print("\n".join(table.lines([_compared(row) for row in rows], heads, words=2)))
    return OK


def _compared(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A peer's line; dashes where there are no figures."""
    from models.wording import figure, interval, seconds

    times = (seconds(row[name] * 1e-9) if row[name] is not None else "–" for name in ("ours_ns", "peer_ns"))
    known = row["ratio"] is not None
    between = interval(row["ratio_low"], row["ratio_high"]) if known and row["ratio_low"] is not None else "–"
    agrees = {True: "yes", False: "no", None: "–"}[row["agrees"]]
    ratio = figure(row["ratio"]) if known else "–"
    return (row["peer"], row["probe"], *times, ratio, between, agrees, row["note"] or "")
