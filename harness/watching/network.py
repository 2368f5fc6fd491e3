"""What the host's TCP went through: refused connections, and segments that were sent again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

Counts = Mapping[str, int | None]

PROC = Path("/proc/net")
# Our names, and where the kernel has them: file, protocol, counter (Documentation/networking/snmp_counter.rst).
_PLACES = {
    "listen_overflows": ("netstat", "TcpExt", "ListenOverflows"),
    "listen_drops": ("netstat", "TcpExt", "ListenDrops"),
    "retransmissions": ("snmp", "Tcp", "RetransSegs"),
    "syn_retransmissions": ("netstat", "TcpExt", "TCPSynRetrans"),
    "timeouts": ("netstat", "TcpExt", "TCPTimeouts"),
}


def counts() -> Counts:
    """The counters of this network namespace since boot; None where the kernel has no such counter."""
    tables = {name: _table(PROC / name) for name in ("netstat", "snmp")}
    return {name: tables[file].get((group, field)) for name, (file, group, field) in _PLACES.items()}


def change(before: Counts, after: Counts) -> Counts:
    """What was counted between two readings; None where either is missing."""

    def one(name: str) -> int | None:
        first, last = before[name], after[name]
        return None if first is None or last is None else last - first

    return {name: one(name) for name in _PLACES}


def _table(path: Path) -> dict[tuple[str, str], int]:
    """A file of pairs of lines, the names and then the values, each line led by its protocol."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for heads, values in zip(lines[::2], lines[1::2], strict=False):
        group, names = heads.partition(":")[::2]
        for name, value in zip(names.split(), values.partition(":")[2].split(), strict=False):
            found[group, name] = int(value)
    return found
