"""Scenarios of results that another tool measured: what is known of them is the file, the tool and the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAME = "imported"
OTHER = "x"  # the axis of whatever else a file's first column is; `column` says its name
AXES = ("clients", "workers", "threads", "processes", "cores", OTHER)

_ROWS = (
    ("clients", "int", 0, "0:1000000000", "clients", "clients at the same time; 0: not known"),
    ("workers", "int", 0, "0:1000000000", "workers", "workers of the server; 0: not known"),
    ("threads", "int", 0, "0:1000000000", "threads", "threads of the server; 0: not known"),
    ("processes", "int", 0, "0:1000000000", "processes", "processes of the server; 0: not known"),
    ("cores", "int", 0, "0:1000000000", "cores", "cores of the server; 0: not known"),
    (OTHER, "real", 0.0, "-1e300:1e300", "", "the value of another column, which `column` names"),
    ("column", "text", "", "a name", "", "the column that x is of"),
    ("series", "text", "", "words", "", "what tells this curve of the file from the others"),
    ("tool", "text", "", "a name", "", "the tool that measured it"),
    ("file", "text", "", "a name", "", "the file it was read from"),
)
_KNOBS = [
    dict(zip(("name", "type", "default", "allowed", "unit", "help"), row, strict=True)) | {"of": NAME}
    for row in _ROWS
]

# As pyx.registry lists what is ours: what a result's service, server and load were, the file does not say.
KINDS: Mapping[str, Mapping[str, Any]] = {
    "service": {
        NAME: {"summary": "whatever another tool asked", "knobs": [], "operations": [], "serves": False}
    },
    "server": {
        NAME: {
            "summary": "results of another tool, as `import` stores them",
            "max_connections": None,
            "knobs": _KNOBS,
        }
    },
    "load": {NAME: {"summary": "whatever another tool's load was", "knobs": []}},
}
