"""The command line: one file for each command, found by name and loaded when it is called."""

# Loading a command puts its name into this namespace, `list` among them: no code may stand here.
from harness.cli._main import FAILED, INTERRUPTED, OK, USAGE, main, names

__all__ = ["FAILED", "INTERRUPTED", "OK", "USAGE", "main", "names"]
