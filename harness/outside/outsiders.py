"""What a user says of a server that is not ours, made into a service, a server and knobs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.outside import reaching
from models import knobs, outside

if TYPE_CHECKING:
    from harness.request import Request


def settled(request: Request) -> Request:
    """The request with `target`, `command` and `protocol` turned into service, server and options.

    Raises
    ------
    HarnessError
        When they contradict each other or do not suffice, or the target is off loopback and that is not allowed.
    """
    named = dict(request.options)
    target, command = request.target or named.get("target"), request.command or named.get("command")
    if request.server not in (None, *outside.KINDS) and (target or command):
        raise HarnessError(
            f"--server {request.server}: a server of ours, but --target names another; choose one", usage=True
        )
    if not target and not command and request.server not in outside.KINDS:
        if request.protocol:
            raise HarnessError(f"--protocol {request.protocol}: with whom? give --target too", usage=True)
        return request
    kind = "command" if command else "target"
    if not target:
        raise HarnessError(
            "--target: where the server listens is not said; give http://HOST:PORT/ or HOST:PORT, with --command "
            "{port} in both for a free port",
            usage=True,
        )
    service = _service(request, target, kind)
    _check_place(target, named.get("remote") == "allow")
    options = [(name, text) for name, text in (("target", target), ("command", command)) if text]
    options += [
        pair for pair in request.options if pair[0] not in ("target", "command") or pair not in options
    ]
    return replace(
        request,
        service=service,
        server=kind,
        options=tuple(options),
        target=None,
        command=None,
        protocol=None,
    )


def _service(request: Request, target: str, kind: str) -> str:
    if request.service and request.protocol and request.service != request.protocol:
        raise HarnessError(
            f"--service {request.service}, --protocol {request.protocol}: two names for one thing; give one",
            usage=True,
        )
    service = request.protocol or request.service or ("http" if "://" in target else None)
    if service is None:
        raise HarnessError(
            f"--target {target}: which protocol is spoken there is not said; give --protocol, one of: "
            f"{', '.join(sorted(knobs.variants('service')))}",
            usage=True,
        )
    return service


def _check_place(target: str, allowed: bool) -> None:
    try:
        host = outside.place(target).host
    except ValueError as error:
        raise HarnessError(str(error), usage=True) from error
    reaching.check_loopback(host, allowed)
