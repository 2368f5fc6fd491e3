"""Servers that are not ours: what a scenario knows of one that already runs, or of the command that starts one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any
from urllib.parse import urlsplit

from models.knobs import Knob, Value

PORT = "port"  # the placeholder that stands for a free port, chosen anew for each server process
NATIVE = ("connection", "closer")  # knobs that the load has to know; the others say how to reach and start
NO_MODEL = "no model: how this server arranges its work is not known"
SHELLS = ("sh", "bash", "dash", "zsh")
DERIVED = ("path", "host")  # knobs of a service that a URL says

_COMMON: tuple[tuple[str, str, Value, str, str, str], ...] = (
    ("target", "text", "", "http://HOST:PORT/PATH or HOST:PORT", "", "where it listens"),
    ("remote", "choice", "refuse", "refuse|allow", "", "a target beyond this machine's loopback"),
    ("connection", "choice", "keep", "keep|per_request", "", "a connection for many requests, or for one"),
    ("closer", "choice", "client", "client|server", "", "who closes a connection after its one request"),
    ("ready_timeout", "real", 15.0, "0.1:3600", "s", "time in which it must answer for the first time"),
)
_COMMAND = ("command", "text", "", "a command line; {name} stands for a knob", "", "what starts it")

# As pyx.registry lists the servers that are ours.
KINDS: Mapping[str, Mapping[str, Any]] = {
    name: {
        "summary": summary,
        "max_connections": None,
        "knobs": [
            dict(zip(("name", "type", "default", "allowed", "unit", "help"), row, strict=True)) | {"of": name}
            for row in rows
        ],
    }
    for name, summary, rows in (
        ("target", "somebody's server that already runs", _COMMON),
        ("command", "somebody's server, started for each measurement by a command", (_COMMAND, *_COMMON)),
    )
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens, as a target says it.

    Attributes
    ----------
    host, port : str
        The port may be `{port}`.
    path : str or None
        With the query; None where the target is no URL.
    """

    host: str
    port: str
    path: str | None


def place(target: str) -> Place:
    """Reads a target; ValueError with one line when it cannot be one."""
    if "://" not in target:
        host, colon, port = target.rpartition(":")
        if not colon or not host or "/" in target:
            raise ValueError(f"target={target}: write http://HOST:PORT/PATH, or HOST:PORT")
        return Place(_host(target, host), _port(target, port), None)
    scheme = target.partition("://")[0].lower()
    if scheme != "http":
        raise ValueError(f"target={target}: {scheme} is not spoken; give a plain http:// address")
    if not target.isascii() or not target.isprintable() or " " in target:
        raise ValueError(f"target={target!r}: write blanks and other than ASCII characters as %XX")
    try:
        parts = urlsplit(target)
    except ValueError as error:
        raise ValueError(f"target={target}: {error}") from None
    if "@" in parts.netloc:
        raise ValueError(f"target={target}: user names and passwords in it are not sent; leave them out")
    host, colon, port = parts.netloc.partition(":")
    if parts.netloc.startswith("["):
        raise ValueError(f"target={target}: IPv6 is not spoken; give a name or an IPv4 address")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Place(_host(target, host), _port(target, port if colon else "80"), path)


def _host(target: str, host: str) -> str:
    if ":" in host:
        raise ValueError(f"target={target}: IPv6 is not spoken; give a name or an IPv4 address")
    if not re.fullmatch(r"[A-Za-z0-9._-]+", host):
        raise ValueError(f"target={target}: {host or 'nothing'} is not a host's name or IPv4 address")
    return host


def _port(target: str, port: str) -> str:
    if port != "{" + PORT + "}" and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(
            f"target={target}: port {port or 'missing'}: not a number from 1 to 65535, nor {{port}}"
        )
    return port


def placeholders(text: str) -> tuple[str, ...]:
    """The names in braces, each once; doubled braces are none. ValueError with one line for other braces."""
    found: dict[str, None] = {}
    try:
        fields = list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{text}: {error}; write a brace that is meant as such twice") from None
    for _, name, form, conversion in fields:
        if name is None:
            continue
        if form or conversion or not re.fullmatch(r"[A-Za-z_]\w*", name):
            shown = "{" + name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "") + "}"
            raise ValueError(
                f"{text}: {shown} is not a name in braces; write a brace that is meant as such twice"
            )
        found[name] = None
    return tuple(found)


def fill(text: str, values: Mapping[str, object]) -> str:
    """The text with its placeholders replaced and its doubled braces made single."""
    return text.format_map(values)


def program(command: str) -> str:
    """The name of the program that a command line runs, without its folders, shell or interpreter."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    while words and "=" in words[0]:  # NAME=VALUE before a command, in a shell's line
        words = words[1:]
    if not words:
        return ""
    name, rest = words[0].rpartition("/")[2], words[1:]
    if name not in SHELLS and not re.fullmatch(r"python[0-9.]*", name):
        return name
    for word, following in zip(rest, [*rest[1:], ""], strict=True):
        if word == "-c":
            return program(re.split(r"\bexec\s", following)[-1]) if name in SHELLS else name
        if word == "-m" or not word.startswith("-"):
            return (following if word == "-m" else word).rpartition("/")[2] or name
    return name


def templates(options: Mapping[str, object]) -> tuple[str, ...]:
    """The texts of a scenario's options in which placeholders may stand."""
    return tuple(str(options[name]) for name in ("command", "target") if options.get(name))


def knobs_of(options: Mapping[str, object]) -> dict[str, Knob]:
    """A knob for every placeholder in the command and the target, `{port}` apart; ValueError as `placeholders`."""
    names = {name for text in templates(options) for name in placeholders(text)} - {PORT, "seed"}
    return {
        name: Knob(
            name, "any", "", "a number, or text", "", "command", f"stands for {{{name}}} in the command"
        )
        for name in sorted(names)
    }


def faults(server: str, service: str, options: Mapping[str, object]) -> list[str]:
    """What is wrong with the target and the command themselves, a line each."""
    target, command = str(options.get("target") or ""), str(options.get("command") or "")
    if not target:
        return ["target: where the server listens is not said; give --target http://HOST:PORT/ or HOST:PORT"]
    found = []
    try:
        where = place(target)
        if where.path is not None and service != "http":
            found.append(f"target={target}: a URL is for http, not for {service}; give HOST:PORT")
        ports = [text for text in (where.port, command) if "{" + PORT + "}" in text]
    except ValueError as error:
        return [str(error)]
    if server == "command":
        if not command.strip():
            found.append("command: what starts the server is not said; give --command, or --target alone")
        elif len(ports) == 1:
            silent = "the command, which would never learn it" if ports[0] == where.port else "the target"
            found.append(
                f"{{port}}: does not stand in {silent}; write it in both, or give a fixed port in both"
            )
    elif ports:
        found.append(f"target={target}: {{port}} is for servers that --command starts; give the port")
    return found


def derived(service_knobs: Mapping[str, Knob], options: Mapping[str, object]) -> dict[str, Value]:
    """What a URL says of the service's own knobs: path and host (with the port where that is fixed)."""
    where = place(str(options.get("target") or ""))
    if where.path is None:
        return {}
    fixed = where.port not in ("80", "{" + PORT + "}")
    said = {"path": where.path, "host": f"{where.host}:{where.port}" if fixed else where.host}
    return {name: said[name] for name in DERIVED if name in service_knobs}
