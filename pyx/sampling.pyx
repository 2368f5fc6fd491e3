"""Reads a process tree over time: processor time, waiting, memory, threads, descriptors, switches."""

import os

from libc.errno cimport ESRCH
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

cdef extern from "core/proctree.h" nogil:
    enum:
        PROCTREE_MAX
    struct proctree_process:
        int pid
        int threads
    int proctree_walk(int root, int scan, proctree_process *found, size_t capacity, size_t *count)
    int64_t proctree_cpu(int root)

cdef extern from "core/sampler.h" nogil:
    enum:
        SAMPLER_COLUMNS
    struct sampler:
        pass
    struct sampler_row:
        int64_t value[1]
    int sampler_start(int root, int64_t interval_ns, sampler **out)
    void sampler_stop(sampler *sampler, const sampler_row **rows, size_t *count)
    void sampler_destroy(sampler *sampler)

cdef extern from *:
    """
    #include "core/sampler.h"
    #define COLUMN_NAME(name, group, help) #name,
    static const char *const column_names[] = {SAMPLER_COLUMN_LIST(COLUMN_NAME)};
    """
    const char *column_names[1]

COLUMNS = tuple(column_names[i].decode() for i in range(SAMPLER_COLUMNS))
MIN_INTERVAL = 0.001


def tree(int pid, bint scan=False):
    """Numbers of the running processes of a tree, parents first.

    Parameters
    ----------
    pid : int
        The root; negative: the descendants of that process without itself.
    scan : bool
        Find children by reading every process of the machine, as where the kernel does not list them.

    Returns
    -------
    list of int
        Empty when the root is gone.
    """
    cdef size_t count = 0
    cdef int rc
    cdef proctree_process *found = <proctree_process *>malloc(PROCTREE_MAX * sizeof(proctree_process))
    if found == NULL:
        raise MemoryError()
    try:
        with nogil:
            rc = proctree_walk(pid, scan, found, PROCTREE_MAX, &count)
        if rc == -ESRCH:
            return []
        if rc:
            raise OSError(-rc, os.strerror(-rc))
        return [found[i].pid for i in range(count) if found[i].threads]
    finally:
        free(found)


def tree_cpu(int pid):
    """ns of processor time of a tree (root as for `tree`) and of what it has reaped; -1 when it is gone."""
    cdef int64_t cpu
    with nogil:
        cpu = proctree_cpu(pid)
    return cpu


cdef class Sampler:
    """Samples a process tree until it is stopped, in a native thread that does not hold the GIL.

    The columns are `COLUMNS`: time (ns of CLOCK_MONOTONIC), processes, threads, descriptors, cpu (ns), wait
    (ns that threads were ready and waited for a CPU), pss and rss (bytes), switches, preemptions. cpu, wait,
    switches and preemptions are cumulative and never fall; they keep what ended threads and processes had,
    as far as it was seen: all of cpu that their parents waited for, of the others what the last sample
    before their end had read. -1: not readable, or left out to keep the cost bounded.

    Each of the four groups of columns (processes, threads and cpu; descriptors; wait and switches; memory)
    costs at most one hundredth of one CPU, however large the tree is: a group that took 10 ms is read again
    after 1 s. A whole sample took 0.15 ms for one process, 0.4 ms for eight, 10 ms for one with 500 threads
    or with 1 GB, and 43 ms for 500 processes (on a virtual machine with 2 CPUs).

    Parameters
    ----------
    pid : int
        Root of the tree; negative: its descendants without itself.
    interval : float
        Seconds between samples, one millisecond at least.

    Raises
    ------
    ValueError
        For an interval that is too short, or pid 0.
    """

    cdef sampler *self
    cdef int pid
    cdef int64_t interval
    cdef int owner

    def __cinit__(self, int pid, double interval):
        if not interval >= MIN_INTERVAL or interval > 1e6:
            raise ValueError(f"sampling interval {interval:g} s: must be from {MIN_INTERVAL:g} to 1e6")
        if pid == 0:
            raise ValueError("pid 0: no process")
        self.pid = pid
        self.interval = <int64_t>(interval * 1e9)

    def start(self):
        """Takes the first sample, and starts the thread that takes the others.

        Raises
        ------
        ProcessLookupError
            When the process is gone.
        """
        cdef int rc
        if self.self != NULL:
            raise RuntimeError("this sampler has been started")
        with nogil:
            rc = sampler_start(self.pid, self.interval, &self.self)
        if rc:
            raise OSError(-rc, f"cannot sample process {abs(self.pid)}: {os.strerror(-rc)}")
        self.owner = os.getpid()

    def stop(self):
        """Takes the last sample, if the process is still there.

        Returns
        -------
        dict
            columns: their names; rows: a list of int for each sample, in the order of time.
        """
        cdef const sampler_row *rows
        cdef size_t count
        if self.self == NULL or self.owner != os.getpid():
            raise RuntimeError("this sampler does not run")
        with nogil:
            sampler_stop(self.self, &rows, &count)
        found = [[rows[i].value[k] for k in range(SAMPLER_COLUMNS)] for i in range(count)]
        sampler_destroy(self.self)
        self.self = NULL
        return {"columns": list(COLUMNS), "rows": found}

    def __dealloc__(self):
        cdef const sampler_row *rows
        cdef size_t count
        # A forked child has the memory, but not the thread.
        if self.self != NULL and self.owner == os.getpid():
            with nogil:
                sampler_stop(self.self, &rows, &count)
            sampler_destroy(self.self)
