"""Costs taken natively: a service's operations without any server, and the machine's speed."""

import numpy as np

from libc.stdint cimport INT64_MAX, UINT32_MAX, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from pyx cimport core
from pyx.settings cimport Settings


cdef extern from "stdlib.h":
    void *aligned_alloc(size_t alignment, size_t size)


cdef extern from "sys/resource.h" nogil:
    cdef struct rusage:
        long ru_nvcsw
    int RUSAGE_THREAD
    int getrusage(int who, rusage *usage)


cdef enum:
    NOTICED = 2000  # ns that a reading is longer than the thread's processor time before it is asked why


cdef struct stopwatch:
    int64_t cpu
    int64_t wall
    long slept


cdef struct timing:
    int64_t fixed
    int64_t client
    int64_t *task
    uint32_t tasks
    int operation
    int rounds


cdef long _sleeps() noexcept nogil:
    cdef rusage usage
    getrusage(RUSAGE_THREAD, &usage)
    return usage.ru_nvcsw


cdef void _begin(stopwatch *watch) noexcept nogil:
    watch.cpu = core.clock_thread()
    watch.wall = core.clock_now()


cdef int64_t _read(stopwatch *watch) noexcept nogil:
    """Time since _begin, ns. Where others had the CPU meanwhile, the processor time; work that sleeps is not others' doing.

    The wall clock is read inside the processor's, which costs a system call: undisturbed, the former is the shorter."""
    cdef int64_t wall = core.clock_now() - watch.wall, cpu
    cdef long slept
    cpu = core.clock_thread() - watch.cpu
    if wall - cpu < NOTICED:
        return wall
    slept = _sleeps()
    if slept == watch.slept:
        return cpu
    watch.slept = slept
    return wall


cdef int _once(const core.service_ops *ops, void *service, void *session, void *client, void *asker,
               core.random *random, core.buffer *request, core.buffer *reply, core.counter_block *me,
               uint32_t chunk, uint32_t room, stopwatch *watch, timing *out) noexcept nogil:
    """One request from client to service and back in memory. Times either side. 0, or the error."""
    cdef size_t used
    cdef uint32_t k
    cdef int rc, done = 0, ready
    out.fixed = out.client = 0
    out.rounds = -1
    _begin(watch)
    out.operation = ops.ask(client, asker, random, request)
    out.client += _read(watch)
    if out.operation < 0:
        return out.operation
    while not done:
        out.rounds += 1
        _begin(watch)
        ready = 0
        while core.buffer_length(request) and not ready:
            used = 0
            ready = ops.parse(service, session, core.buffer_data(request), core.buffer_length(request), &used, reply)
            if ready < 0:
                return ready
            core.buffer_consume(request, used)
        out.fixed += _read(watch)
        if ready:
            out.tasks = ops.split(service, session, chunk)
            for k in range(out.tasks):
                _begin(watch)
                ops.run(service, session, k, chunk, me)
                if k < room:
                    out.task[k] = _read(watch)
            _begin(watch)
            rc = ops.reply(service, session, reply)
            out.fixed += _read(watch)
            if rc < 0:
                return rc
        if not core.buffer_length(reply):
            return -71
        _begin(watch)
        while core.buffer_length(reply) and not done:
            used = 0
            done = ops.answer(client, asker, core.buffer_data(reply), core.buffer_length(reply), &used, request)
            if done < 0:
                return done
            core.buffer_consume(reply, used)
        out.client += _read(watch)
    return 0


def clock_cost(int rounds=2000):
    """Seconds that lie between two readings of the clock with nothing in between (median)."""
    gaps = np.zeros(rounds)
    cdef double[::1] view = gaps
    cdef int64_t a, b
    cdef int i
    for i in range(rounds):
        a = core.clock_now()
        b = core.clock_now()
        view[i] = b - a
    return float(np.median(gaps)) * 1e-9


def service_times(str name, dict options, uint64_t seed, int count, double budget, uint32_t chunk=UINT32_MAX,
                  uint32_t room=256):
    """Times requests of a service in memory, each from its client side to its server side and back.

    A reading during which others had the CPU is that of the thread's processor time.

    Parameters
    ----------
    name : str
    options : dict of str to str
        Settings of the service.
    seed : int
    count : int
        Requests at most.
    budget : float
        Seconds at most.
    chunk : int
        Requests are cut into tasks of so many units, each timed alone.
    room : int
        Tasks of a request that are kept, at most.

    Returns
    -------
    dict
        operation (n), fixed (n, ns: parse and reply), client (n, ns), tasks (n × tasks, ns), rounds (exchanges
        before the last). The cost of the clock's readings is in them: see clock_cost.
    """
    cdef const core.service_ops *ops = core.registry_service(name.encode())
    if ops == NULL:
        raise ValueError(f"{name}: no such service")
    if ops.create == NULL:
        raise ValueError(f"{name}: has a client side only")
    cdef Settings settings = Settings(options)
    settings.fill(ops.knobs)
    settings.fill(core.server_common_knobs)
    cdef char message[512]
    cdef void *service = NULL
    cdef void *client = NULL
    message[0] = 0
    rc = ops.create(settings.config, 1, message, sizeof(message), &service)
    if rc:
        raise ValueError(message.decode() or f"{name}: error {-rc}")
    cdef core.buffer request, reply
    cdef core.random random
    cdef timing t
    cdef stopwatch watch
    cdef int i = 0, failed = 0
    cdef int64_t until
    operation = np.zeros(count, dtype=np.int64)
    fixed_ns = np.zeros(count, dtype=np.int64)
    client_ns = np.zeros(count, dtype=np.int64)
    task_ns = np.zeros((count, room), dtype=np.int64)
    cdef int64_t[::1] operations = operation, fixed = fixed_ns, clients = client_ns
    cdef int64_t[:, ::1] tasks = task_ns
    cdef core.counters *page = <core.counters *>aligned_alloc(64, core.counters_size())
    cdef void *session = calloc(1, ops.session_size + 1)
    cdef void *asker = calloc(1, ops.client_session_size + 1)
    if page != NULL:
        memset(page, 0, core.counters_size())
    core.buffer_init(&request, 64 << 20)
    core.buffer_init(&reply, 64 << 20)
    core.random_seed(&random, seed, 0)
    if ops.client_create(settings.config, seed, &client) or page == NULL or session == NULL or asker == NULL:
        raise MemoryError()
    ops.open(service, session)
    ops.client_open(client, asker)
    cdef core.counter_block *me = core.counters_claim(page, core.ROLE_WORKER)
    until = core.clock_now() + <int64_t>(budget * 1e9)
    t.tasks = 1
    t.rounds = 0
    watch.slept = _sleeps()
    with nogil:
        while i < count and (i < 16 or core.clock_now() < until):
            t.task = &tasks[i, 0]
            failed = _once(ops, service, session, client, asker, &random, &request, &reply, me, chunk, room,
                           &watch, &t)
            if failed:
                break
            operations[i] = t.operation
            fixed[i] = t.fixed
            clients[i] = t.client
            i += 1
        core.counters_release(me)
        ops.client_close(client, asker)
        ops.close(service, session)
    if client != NULL:
        ops.client_destroy(client)
    ops.destroy(service)
    core.buffer_free(&request)
    core.buffer_free(&reply)
    free(page)
    free(session)
    free(asker)
    if failed:
        raise RuntimeError(f"{name}: its two sides disagree (error {-failed})")
    return {
        "operation": operation[:i], "fixed": fixed_ns[:i], "client": client_ns[:i],
        "tasks": task_ns[:i, : min(t.tasks, room)], "rounds": t.rounds,
    }


def yardstick(int rounds=400000):
    """Seconds that a fixed piece of arithmetic takes: the machine's speed of this moment."""
    cdef uint64_t x = 88172645463325252ULL
    cdef int i
    cdef int64_t start
    with nogil:
        start = core.clock_now()
        for i in range(rounds):
            x ^= x << 13
            x ^= x >> 7
            x ^= x << 17
        start = core.clock_now() - start
    return start * 1e-9 if x else 0.0
