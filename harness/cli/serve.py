"""Runs one server until it is told to stop."""

from __future__ import annotations

import os
import resource

import click


@click.command(short_help="Run one server.")
@click.argument("service")
@click.option(
    "--server", metavar="NAME", help="How concurrency is arranged (default: what suits the service)."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="IPv4 address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port to listen on; 0 (default) takes a free one.",
)
@click.option(
    "--set",
    "settings",
    metavar="KNOB=VALUE",
    multiple=True,
    help="A knob of the service or the server. Repeatable.",
)
def command(service: str, server: str | None, host: str, port: int, settings: tuple[str, ...]) -> None:
    """Serves SERVICE until SIGINT or SIGTERM. The first line says where: listening on HOST:PORT.

    \b
    Example:
      python -m harness serve stock --server sbuf --port 7000 --set workers=4
    """
    from harness import request
    from harness.errors import HarnessError
    from models import knobs
    from pyx.server import EXECUTABLE

    pairs = request.settings(settings)
    chosen = request.parts(service, server, None, [name for name, _ in pairs])
    request.knob_table(*chosen, ())
    table = {
        knob.name: knob
        for kind, name in zip(("service", "server"), chosen, strict=False)
        for knob in knobs.of_variant(kind, name)
    }
    words, errors = [], []
    for name, value in pairs:
        try:
            if name not in table:
                raise ValueError(
                    f"{name}: {chosen[0]} on {chosen[1]} has no such knob{knobs.offer(name, table)}"
                )
            words.append(f"{name}={knobs.text_of(table[name].parse(value))}")
        except ValueError as error:
            errors.append(str(error))
    if errors:
        raise HarnessError("\n".join(errors), usage=True)
    # Clients count against the descriptors; the default of 1024 is not meant for servers.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        os.execv(
            EXECUTABLE, [str(EXECUTABLE), chosen[0], chosen[1], "--host", host, "--port", str(port), *words]
        )
    except OSError as error:
        raise HarnessError(f"{EXECUTABLE.name} cannot be run ({error.strerror}); run make setup") from error
