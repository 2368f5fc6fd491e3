"""Whose server listens on a port of this machine, as far as /proc tells without privileges."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_LISTENING = "0A"
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def root_of(host: str, port: int) -> int:
    """The process at the root of the tree that listens there; 0 where that cannot be told.

    Of several listeners it is the one that the others descend from, or else their nearest common ancestor,
    unless that is an ancestor of this process too: a tree that holds whoever measures is not the server's.
    """
    holders = _holders(_inodes(host, port))
    if not holders:
        return 0
    lines = [[pid, *ancestors(pid)] for pid in holders]
    common = [pid for pid in lines[0] if all(pid in line for line in lines)]
    ours = {os.getpid(), *ancestors(os.getpid())}
    return (
        next((pid for pid in common if pid > 1 and pid not in ours), 0) if not ours & set(common[:1]) else 0
    )


def ancestors(pid: int) -> list[int]:
    """The parent, its parent, and so on, as far as they can be seen."""
    found: list[int] = []
    while (pid := _parent(pid)) > 0 and pid not in found:
        found.append(pid)
    return found


def _parent(pid: int) -> int:
    try:
        # The name, in parentheses, may hold anything, parentheses too: the fields begin after the last one.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _inodes(host: str, port: int) -> set[str]:
    """Sockets that take connections to this address: those bound to it and those bound to all."""
    word = f"{struct.unpack('=I', socket.inet_aton(host))[0]:08X}"
    taking = {word, "0" * 8, "0" * 32, f"0000000000000000FFFF0000{word}"}
    found = set()
    for table in _TABLES:
        with suppress(OSError):
            for line in table.read_text().splitlines()[1:]:
                fields = line.split()
                address, _, local = fields[1].partition(":")
                if fields[3] == _LISTENING and int(local, 16) == port and address in taking:
                    found.add(fields[9])
    return found


def _holders(inodes: set[str]) -> list[int]:
    """The processes that have one of these sockets open; those of other users cannot be seen."""
    names = {f"socket:[{inode}]" for inode in inodes}
    return [
        int(folder.name) for folder in Path("/proc").glob("[0-9]*") if not names.isdisjoint(_links(folder))
    ]


def _links(folder: Path) -> Iterator[str]:
    with suppress(OSError):
        for link in (folder / "fd").iterdir():
            with suppress(OSError):
                yield os.readlink(link)
