"""The live counters of a server as a NumPy structured array, without a copy."""

import mmap
import os

import numpy as np

from pyx cimport core
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <stddef.h>
    #include "core/counters.h"
    struct counter_row { const char *name, *unit, *kind, *help; size_t offset; };
    #define COUNTER_ROW(name, unit, kind, help) {#name, unit, kind, help, offsetof(struct counter_block, name)},
    static const struct counter_row counter_rows[] = {COUNTER_LIST(COUNTER_ROW) {0}};
    static const size_t block_size = sizeof(struct counter_block), block_start = offsetof(struct counters, block);
    static const size_t role_offset = offsetof(struct counter_block, role), tid_offset = offsetof(struct counter_block, tid);
    """
    struct counter_row:
        const char *name
        const char *unit
        const char *kind
        const char *help
        size_t offset
    const counter_row counter_rows[1]
    const size_t block_size, block_start, role_offset, tid_offset


def _table():
    rows = []
    cdef const counter_row *row = counter_rows
    while row.name != NULL:
        rows.append((row.name.decode(), row.unit.decode(), row.kind.decode(), row.help.decode(), row.offset))
        row += 1
    return rows


_ROWS = _table()
FIELDS = {name: {"unit": unit, "kind": kind, "help": text} for name, unit, kind, text, _ in _ROWS}
ROLES = tuple(core.counters_role_name(i).decode() for i in range(core.ROLE_COUNT))
DTYPE = np.dtype({
    "names": ["role", "tid", *FIELDS],
    "formats": ["<u4", "<u8", *("<u8" for _ in FIELDS)],
    "offsets": [role_offset, tid_offset, *(row[4] for row in _ROWS)],
    "itemsize": block_size,
})


class CounterPage:
    """A page of counters that a server process can share; closing it frees the memory.

    Attributes
    ----------
    fd : int
        Anonymous file behind the page: pass it to the server. It has no name, so nothing can be left behind.
    """

    def __init__(self):
        self.fd = os.memfd_create("kneepoint-counters", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.fd, core.counters_size())
            self.map = mmap.mmap(self.fd, core.counters_size())
        except BaseException:
            os.close(self.fd)
            raise
        self._used = np.frombuffer(self.map, "<u8", 1)
        self._blocks = np.frombuffer(self.map, DTYPE, core.COUNTER_BLOCKS, block_start)

    @property
    def blocks(self):
        """One row for each thread that the server has had so far: a live, read-only view of the shared page."""
        view = self._blocks[: min(int(self._used[0]), core.COUNTER_BLOCKS)]
        view.flags.writeable = False
        return view

    def close(self):
        """Frees the page; views of it that somebody still holds keep it alive until they go."""
        if self.fd < 0:
            return
        os.close(self.fd)
        self.fd = -1
        self._used = self._blocks = None
        try:
            self.map.close()
        except BufferError:
            pass
