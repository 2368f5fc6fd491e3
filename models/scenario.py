"""The one description of a system under test, from which it is measured and predicted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models import imported, knobs, outside
from models.knobs import Knob, Value


class ScenarioError(ValueError):
    """A scenario that cannot be; the message lists every error, one line each."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A service on a server under a load, with every knob of the three set.

    Make one with `Scenario.of`, which checks everything and fills the defaults.

    Attributes
    ----------
    service, server, load : str
        Names in the registries.
    options : tuple of (name, value)
        Every knob of the three parts, sorted by name.
    seed : int
        Of every random choice.
    """

    service: str
    server: str
    load: str
    options: tuple[tuple[str, Value], ...]
    seed: int = 1

    @classmethod
    def of(
        cls,
        service: str = "prime",
        server: str = "queues",
        load: str = "closed",
        seed: int = 1,
        options: Mapping[str, object] | None = None,
    ) -> Scenario:
        """A checked scenario; ScenarioError says all that is wrong, with the nearest known names."""
        errors = []
        for kind, name in (("service", service), ("server", server), ("load", load)):
            known = knobs.variants(kind)
            if name not in known and {service, server, load} != {imported.NAME}:
                errors.append(f"{name}: no such {kind}{knobs.offer(name, known)}")
        ours = server not in (*outside.KINDS, imported.NAME)
        if not errors and ours and not knobs.variants("service")[service]["serves"]:
            errors.append(_unserved(service, server))
        if errors:
            raise ScenarioError("\n".join(errors))
        given = dict(options or {})
        try:
            table = table_of(service, server, load, given)
        except ValueError as error:
            raise ScenarioError(str(error)) from error
        values = {name: knob.default for name, knob in table.items() if knob.type != "any"}
        for name, value in given.items():
            if name not in table:
                errors.append(_unknown(name, service, server, load, table))
                continue
            try:
                values[name] = table[name].parse(value)
            except ValueError as error:
                errors.append(str(error))
        if not 0 <= seed < 2**63:
            errors.append(f"seed={seed}: outside 0:{2**63 - 1}")
        if server in outside.KINDS:
            errors += _settle(service, server, table, given, values)
        if not errors:
            errors += _conflicts(server, values)
        if errors:
            raise ScenarioError("\n".join(errors))
        return cls(service, server, load, tuple(sorted(values.items())), seed)

    def __getitem__(self, name: str) -> Value:
        for known, value in self.options:
            if known == name:
                return value
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The knob's value, or default where the scenario's parts have no such knob."""
        return dict(self.options).get(name, default)

    def number(self, name: str) -> float:
        """The value of a numeric knob."""
        value = self[name]
        if isinstance(value, str):
            raise TypeError(f"{name} is not a number")
        return float(value)

    def with_options(self, **changes: object) -> Scenario:
        """The same scenario with some knobs (or the seed) changed, checked anew."""
        seed = int(str(changes.pop("seed", self.seed)))
        kept = dict(self.options)
        if self.outside and "target" in changes:  # what the old URL said does not hold for the new one
            kept = {name: value for name, value in kept.items() if name not in outside.DERIVED}
        return Scenario.of(self.service, self.server, self.load, seed, {**kept, **changes})

    @property
    def outside(self) -> bool:
        """Whether the server is not ours, so that only what is seen from outside can be known of it."""
        return self.server in outside.KINDS

    def native_options(self, *kinds: str) -> dict[str, str]:
        """The knobs of the named parts (service, server, load) as text for the native core.

        Of a server that is not ours, those that the load has to know.
        """
        names = {
            knob.name
            for kind in kinds
            for knob in knobs.of_variant(
                kind, {"service": self.service, "server": self.server, "load": self.load}[kind]
            )
            if not (kind == "server" and self.outside) or knob.name in outside.NATIVE
        }
        return {name: knobs.text_of(value) for name, value in self.options if name in names}

    def to_json(self) -> dict[str, object]:
        """{service, server, load, seed, options}."""
        return {
            "service": self.service,
            "server": self.server,
            "load": self.load,
            "seed": self.seed,
            "options": dict(self.options),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Scenario:
        return cls.of(
            document["service"], document["server"], document["load"], document["seed"], document["options"]
        )

    @property
    def key(self) -> str:
        """Hash of the content: equal scenarios have equal keys, in any process and at any time."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def table_of(service: str, server: str, load: str, options: Mapping[str, object]) -> Mapping[str, Knob]:
    """All knobs of a scenario by name: its parts' own, and one for every placeholder of a server's command.

    Raises
    ------
    ValueError
        When the command or the target has braces that are no placeholders.
    """
    table = knobs.of_parts(service, server, load)
    return {**outside.knobs_of(options), **table} if server in outside.KINDS else table


def _settle(
    service: str,
    server: str,
    table: Mapping[str, Knob],
    given: Mapping[str, object],
    values: dict[str, Value],
) -> list[str]:
    """Fills what the target says of the service's knobs; what is wrong or missing, a line each."""
    errors = outside.faults(server, service, given)
    if errors:
        return errors
    for name, value in outside.derived(table, given).items():
        if name in given and values[name] != value:
            errors.append(f"{name}={values[name]}: the target says {value}; say it there alone")
        values[name] = value
    missing = [name for name, knob in table.items() if knob.type == "any" and name not in given]
    errors += [f"{name}: {{{name}}} has no value; give --var {name} or --set {name}=…" for name in missing]
    return errors


def _unknown(name: str, service: str, server: str, load: str, table: Mapping[str, Knob]) -> str:
    if server == "command" and name == outside.PORT:
        return (
            "port: {port} is a free port, chosen for each server; write a fixed one out in command and target"
        )
    if server in outside.KINDS:
        text = "the command or the target" if server == "command" else "the target"
        return f"{name}: neither a knob of {service} or {load}, nor written as {{{name}}} in {text}"
    owners = knobs.everywhere(name)
    if owners:
        return (
            f"{name}: {service} on {server} under {load} has no such knob (it belongs to {', '.join(owners)})"
        )
    return f"{name}: no such knob{knobs.offer(name, table)}"


def _unserved(service: str, server: str) -> str:
    served = sorted(name for name, row in knobs.variants("service").items() if row["serves"])
    return f"{service} on {server}: {service} only asks, and no server of ours answers it; there are: {', '.join(served)}"


def _conflicts(server: str, values: Mapping[str, Value]) -> list[str]:
    """What two values forbid together."""
    limit = knobs.declared("server", server)["max_connections"]
    clients = values.get("clients")
    if isinstance(limit, int) and isinstance(clients, int) and clients > limit:
        return [
            f"clients={clients}: server {server} holds at most {limit} connections (FD_SETSIZE); "
            "use fewer, or another server"
        ]
    return []
