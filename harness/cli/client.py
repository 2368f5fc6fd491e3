"""Talks to a server, ours or anybody's, line by line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from harness.cli import FAILED, OK
from models.wording import printable

if TYPE_CHECKING:
    from pyx.dialogue import Dialogue

COMMON = ("connection",)  # what every server's knobs say to its clients, too


@click.command(short_help="Talk to a server.")
@click.argument("service")
@click.argument("host")
@click.argument("port", type=click.IntRange(1, 65535))
@click.option(
    "--set", "settings", metavar="KNOB=VALUE", multiple=True, help="A knob of the service. Repeatable."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.001, 3600),
    default=10.0,
    show_default=True,
    metavar="S",
    help="Seconds to wait.",
)
@click.option("--allow-remote", is_flag=True, help="Talk to a server that is not on this machine.")
def command(
    service: str, host: str, port: int, settings: tuple[str, ...], timeout: float, allow_remote: bool
) -> int:
    """Speaks the protocol of SERVICE to the server at HOST:PORT: each line is a request in the protocol's own words.

    \b
      stock      show, buy ID N, sell ID N
      prime      numbers
      echo       any text
      http       a path, or METHOD PATH
      lines      a line; --set reply_lines=2 where replies have two
      synthetic  work
    The round trip stands behind each reply. The end of the input, or the line exit, ends it.

    \b
    Example:
      python -m harness client stock 127.0.0.1 7000 --set dialect=padded
    """
    from pyx.dialogue import Dialogue

    from harness.errors import HarnessError
    from harness.outside import reaching

    options = _options(service, settings)
    address = reaching.check_loopback(host, allow_remote)
    try:
        dialogue = Dialogue(service, options, address, port, timeout)
    except ValueError as error:
        raise HarnessError(str(error), usage=True) from error
    try:
        return _converse(dialogue)
    finally:
        dialogue.close()


def _options(service: str, settings: tuple[str, ...]) -> dict[str, str]:
    """The service's settings as text; every error in a line of its own."""
    from harness import request
    from harness.errors import HarnessError
    from models import knobs

    known = knobs.variants("service")
    if service not in known:
        raise HarnessError(f"{service}: no such service{knobs.offer(service, known)}", usage=True)
    table = {knob.name: knob for knob in knobs.of_variant("service", service)}
    anywhere = next(iter(knobs.variants("server")))
    table |= {knob.name: knob for knob in knobs.of_variant("server", anywhere) if knob.name in COMMON}
    options, errors = {}, []
    for name, value in request.settings(settings):
        try:
            if name not in table:
                raise ValueError(f"{name}: clients of {service} have no such knob{knobs.offer(name, table)}")
            options[name] = knobs.text_of(table[name].parse(value))
        except ValueError as error:
            errors.append(str(error))
    if errors:
        raise HarnessError("\n".join(errors), usage=True)
    return options


def _converse(dialogue: Dialogue) -> int:
    """Until the input ends: FAILED when a piped line meant nothing, as a person can mend what a script cannot."""
    from pyx.dialogue import NotUnderstood

    person = sys.stdin.isatty()
    status = OK
    while True:
        if person:
            click.echo("> ", nl=False)
        line = sys.stdin.readline()
        if not line or line.strip() == "exit":
            return status
        try:
            text, seconds = dialogue.ask(line.rstrip("\r\n"))
        except NotUnderstood as error:
            click.echo(f"error: {_printable(str(error))}: not a request of this protocol", err=True)
            status = OK if person else FAILED
            continue
        shown = _printable(text)
        click.echo(f"{shown}{'' if shown.endswith(chr(10)) or not shown else chr(10)}{seconds * 1e6:.1f} us")
        sys.stdout.flush()


def _printable(text: str) -> str:
    return printable(text.replace("\r\n", "\n"), kept="\n\t")
