"""Runs a native load against a server and gives back what it recorded. The GIL is not held while it runs."""

import mmap
import os

import numpy as np

from libc.errno cimport EINVAL
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy
from pyx cimport core
from pyx.settings cimport Settings

from pyx.counters import FIELDS, ROLES
from pyx.isolated import IsolatedLoad

cdef extern from *:
    """
    #include "core/load.h"
    #define ERROR_NAME(name, help) #name,
    static const char *const error_names[] = {LOAD_ERROR_LIST(ERROR_NAME) 0};
    """
    const char *error_names[1]


class LoadError(RuntimeError):
    """The load could not be run; the message is one line for the user."""


def bucket_bounds():
    """Lower bounds and widths of the histogram's buckets, ns: two arrays of the histogram's length."""
    floor = np.array([core.histogram_floor(i) for i in range(core.HISTOGRAM_BUCKETS)], dtype=np.uint64)
    width = np.array([core.histogram_width(i) for i in range(core.HISTOGRAM_BUCKETS)], dtype=np.uint64)
    return floor, width


def bucket_of(value):
    """Index of the bucket that a duration in ns falls into."""
    return core.histogram_index(value)


def schedule(str arrivals, double rate, uint64_t seed, int count, int thread=0, int threads=1):
    """The first `count` arrivals that the open load plans for one of its threads, ns after it begins."""
    cdef core.schedule plan
    core.schedule_init(&plan, arrivals == "poisson", rate, seed, thread, threads)
    return np.array([core.schedule_next(&plan) for _ in range(count)], dtype=np.int64)


cdef _errors(core.load_errors *errors):
    cdef uint64_t *values = <uint64_t *>errors
    found = {}
    cdef int i = 0
    while error_names[i] != NULL:
        found[error_names[i].decode()] = values[i]
        i += 1
    return found


cdef _edge(core.load_edge *edge):
    roles = {}
    for r, role in enumerate(ROLES):
        roles[role] = {name: edge.role[r][k] for k, name in enumerate(FIELDS)}
    return {
        "time": edge.time, "server_cpu": edge.server_cpu, "load_cpu": edge.load_cpu, "load_wait": edge.load_wait,
        "idle": edge.idle, "polls": edge.polls, "sleeps": edge.sleeps, "roles": roles,
    }


cdef _histogram(core.histogram *histogram):
    buckets = np.empty(core.HISTOGRAM_BUCKETS, dtype=np.uint64)
    cdef uint64_t[::1] view = buckets
    memcpy(&view[0], &histogram.bucket[0], core.HISTOGRAM_BUCKETS * sizeof(uint64_t))
    return {"count": histogram.count, "sum": histogram.sum, "min": histogram.min, "max": histogram.max,
            "buckets": buckets}


cdef _by_operation(core.histogram *histograms, operations):
    return {name: _histogram(&histograms[i]) for i, name in enumerate(operations)}


cdef _common(core.load_result *result, operations):
    return {
        "planned_start": result.planned_start, "planned_end": result.planned_end,
        "start": _edge(&result.start), "end": _edge(&result.end),
        "clients": result.clients, "threads": result.threads, "addresses": result.addresses,
        "connect": result.connect_ns, "connect_max": result.connect_max_ns,
        "think": result.think_ns, "response": result.response_ns, "generator": result.generator_ns,
        "connecting": result.connecting_ns,
        "errors": _errors(&result.errors), "errors_outside": _errors(&result.errors_outside),
        "histograms": _by_operation(result.histogram, operations), "lag": _histogram(result.lag),
        "bin_count": np.array([result.bin_count[i] for i in range(core.LOAD_BINS)]),
        "bin_response": np.array([result.bin_response[i] for i in range(core.LOAD_BINS)]),
    }


cdef _planned(core.load_result *result, operations):
    """What only a load with planned arrivals records."""
    return {
        "service": _by_operation(result.service, operations),
        "planned": result.planned, "sent": result.sent,
        "bin_planned": np.array([result.bin_planned[i] for i in range(core.LOAD_BINS)]),
        "backlog": [result.backlog[0], result.backlog[1]], "backlog_peak": result.backlog_peak,
        "unfinished": result.unfinished, "unfinished_ns": result.unfinished_ns,
        "in_system_ns": result.in_system_ns, "sojourn_ns": result.sojourn_ns,
    }


cdef class Load:
    """One load, run once.

    Parameters
    ----------
    load, service : str
        Names in the registry.
    options : dict of str to str
        Settings; those that are missing get their defaults.
    host, port : str, int
        The server to ask.
    seed : int
        Of every random choice.
    warmup, window : float
        Seconds before and inside the measuring window.
    server_pid : int
        Process whose CPU time is read at the window's edges; 0 for none.
    page : CounterPage or None
        Counters that are read at the window's edges.
    tree : bool
        server_pid is the root of a process tree, as in `pyx.sampling.tree`, whose CPU time is read instead.
    isolate : bool
        Run it in a process of its own; loads that fork always do.
    executable : path, optional
        Another build of kneepoint-load to isolate it in, such as one with a sanitizer.
    """

    cdef const core.load_ops *ops
    cdef const core.service_ops *service
    cdef void *self
    cdef Settings settings
    cdef object operations
    cdef object view
    cdef object isolated
    cdef size_t clients, size
    cdef bint used

    def __cinit__(self, str load, str service, dict options, str host, int port, uint64_t seed, double warmup,
                  double window, int server_pid=0, page=None, bint tree=False, bint isolate=False, executable=None):
        cdef core.load_env env
        cdef char message[512]
        cdef const uint64_t[:] words
        message[0] = 0
        self.ops = core.registry_load(load.encode())
        self.service = core.registry_service(service.encode())
        if self.ops == NULL or self.service == NULL:
            raise ValueError(f"{load} on {service}: no such load or service")
        self.settings = Settings(options)
        self.settings.fill(self.ops.knobs)
        self.settings.fill(self.service.knobs)
        self.settings.fill(core.server_common_knobs)
        if self.service.client_check != NULL and self.service.client_check(
                self.settings.config, message, sizeof(message)):
            raise ValueError(message.decode("utf-8", "replace"))
        env.config = self.settings.config
        env.service = self.service
        if core.sock_address(host.encode(), port, &env.to):
            raise ValueError(f"{host}: not an IPv4 address")
        env.seed = seed
        env.warmup_ns = <int64_t>(warmup * 1e9)
        env.window_ns = <int64_t>(window * 1e9)
        env.server_pid = server_pid
        env.server_tree = tree
        env.counters = NULL
        if page is not None:
            self.view = np.frombuffer(page.map, "<u8")
            words = self.view
            env.counters = <core.counters *>&words[0]
        count = core.result_operations(self.service)
        self.operations = [self.service.operations[i].decode() for i in range(count)]
        self.clients = core.config_int(self.settings.config, b"clients")
        self.size = core.result_size(count, self.clients)
        if isolate or self.ops.isolated:
            arguments = {"to": f"{host}:{port}", "seed": seed, "server-pid": server_pid, "server-tree": env.server_tree,
                         "warmup": env.warmup_ns, "window": env.window_ns}
            shared = {} if page is None else {"counters": page.fd}
            self.isolated = IsolatedLoad(service, load, options, arguments, shared, self.size, executable)
            return
        rc = self.ops.create(&env, message, sizeof(message), &self.self)
        if rc:
            raise LoadError(message.decode() or f"cannot prepare the load: error {-rc}")

    def __dealloc__(self):
        if self.self != NULL:
            self.ops.destroy(self.self)

    def stop(self):
        """Ends a run early, from any thread; run then raises LoadError."""
        if self.isolated is None:
            self.ops.stop(self.self)
        else:
            self.isolated.stop()

    def ledger(self):
        """The client side's own record of the whole run, one row of three numbers each.

        Empty where there is none, and for a load in a process of its own: it ends with its clients.
        """
        if self.service.ledger == NULL or self.isolated is not None:
            return np.empty((0, 3), dtype=np.int64)
        rows = np.zeros((100000, 3), dtype=np.int64)
        cdef int64_t[:, ::1] view = rows
        count = self.service.ledger(self.ops.client(self.self), <int64_t (*)[3]>&view[0, 0], 100000)
        return rows[:count]

    def run(self):
        """Connects, warms up, measures. Returns a dict of what the header core/load.h describes, times in ns."""
        cdef core.load_result *result
        if self.used:
            raise RuntimeError("a load runs once: make another")
        self.used = True
        cdef unsigned char[::1] block = mmap.mmap(-1, self.size) if self.isolated is None else self.isolated.result
        result = <core.load_result *>&block[0]
        core.result_place(result, len(self.operations))
        self._drive(result)
        # Another process has left its own addresses.
        core.result_place(result, len(self.operations))
        cdef uint64_t[::1] counts = <uint64_t[:self.clients]>result.client_count
        found = _common(result, self.operations)
        found["client_count"] = np.array(counts[: result.clients])
        return found | (_planned(result, self.operations) if result.open else {})

    cdef _drive(self, core.load_result *result):
        cdef char message[512]
        cdef int rc
        if self.isolated is not None:
            said = self.isolated.run()
            if said:
                raise LoadError(said)
            return
        message[0] = 0
        with nogil:
            rc = self.ops.run(self.self, result, message, sizeof(message))
        if rc:
            raise LoadError(message.decode() or f"the load failed: error {-rc}")
