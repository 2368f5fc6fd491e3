"""The compiled engine of the simulation: programs for a virtual machine in C, run without the GIL.

models/des/compiling makes the programs; pyx/csrc/sim/opcodes.h lists the instructions.
"""

import time

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t


cdef extern from *:
    """
    #include "sim/opcodes.h"
    #define OPCODE_NAME(name, operands) #name,
    static const char *const opcode_names[] = {OPCODE_LIST(OPCODE_NAME) 0};
    """
    const char *opcode_names[1]


cdef extern from "sim/sim.h":
    enum:
        PROGRAM_REGISTERS
        PRICE_COUNT
        FAILURE_NOT
        FAILURE_STATED
        FAILURE_COST
        FAILURE_MEMORY
    struct instruction:
        pass
    union word:
        pass
    struct program_thread:
        pass
    struct program_function:
        pass
    struct program_fifo:
        pass
    struct program_scheduler:
        double base_slice, tick, hot, balance, stays, search, half_life, fades
    struct program:
        const instruction *code
        const word *frames
        const program_thread *threads
        const program_function *functions
        const word *store
        const program_fifo *fifos
        const word *items
        const double *tables
        const int64_t *starts
        int64_t instructions, frame_words, thread_count, function_count, store_words, fifo_count, table_count
        int64_t samples, counters, costs, groups, cpus
        program_scheduler scheduler
    struct draw_table:
        pass
    struct tally_c "tally":
        double time, in_system
        int64_t events
        double *used
        double *counters
        int64_t *slept
        int64_t *switched
    struct sim_settings:
        const double *prices
        const double *costs
        const int64_t *first
        uint64_t seed
        int64_t warm, replies
        double span
    struct reply:
        double response, service
        int64_t operation
    struct sim_c "sim":
        const reply *replies
        size_t kept
        bint begun
        tally_c begin, end
        bint finished
        int failure
        uint32_t failed_at, message
    int64_t program_registers(const program *program)
    const char *program_check(const program *program)
    void draw_prepare(draw_table *table)
    int sim_create(sim_c *sim, const program *program, const draw_table *draws, const sim_settings *settings)
    void sim_destroy(sim_c *sim)
    int sim_advance(sim_c *sim, double seconds) nogil
    void sim_begin(sim_c *sim)
    void sim_close(sim_c *sim)
    const char *sim_failure(int failure)


def _opcodes():
    names = {}
    while opcode_names[len(names)] != NULL:
        names[opcode_names[len(names)].decode()] = len(names)
    return names


OPCODES = _opcodes()
LOOK = 0.05  # s between two looks for a signal such as Ctrl-C
WARMUP_SHARE = 0.25  # of the wall-clock time, at most
REPLY = np.dtype([("response", np.float64), ("service", np.float64), ("operation", np.int64)])


class SimulationError(RuntimeError):
    """A run had to end.

    Attributes
    ----------
    reason : str
    at : int
        Index of the instruction.
    number : int or None
        Of the FAIL instruction's message, or of the cost that is not known.
    """

    def __init__(self, reason, at, number=None):
        super().__init__(f"instruction {at}: {reason}")
        self.reason, self.at, self.number = reason, at, number


cdef const void *_address(array):
    cdef size_t address = array.ctypes.data
    return <const void *>address


def _image(words):
    """Words of a frame or a store: int64, or float64 whose bits are taken."""
    array = np.ascontiguousarray(words)
    return array.view(np.int64) if array.dtype == np.float64 else array.astype(np.int64)


def _concatenated(parts, dtype):
    return np.concatenate([np.empty(0, dtype), *(np.asarray(part, dtype) for part in parts)])


cdef class Program:
    """A compiled model, which any number of threads may run at once.

    Parameters
    ----------
    spec : dict
        code : uint16 array (n, 4); functions : list of (entry, arguments, image); threads : list of (entry, group, image,
        mask of CPUs or -1, agent); store : int64 array, whose word 0 is unused; fifos : list of (width, first items as a
        flat int64 array); tables : list of float64 arrays; samples, counters, costs, groups, cpus : int;
        scheduler : dict of base_slice, tick, hot, balance, stays, half_life (s), search and fades, of
        models.des.machine.
        An image gives the first values of a frame's registers; those beyond it are 0.

    Raises
    ------
    ValueError
        When a part names what is not there, or is beyond a limit.
    """

    cdef program c
    cdef draw_table draws
    cdef dict arrays
    cdef readonly int groups, threads

    def __cinit__(self, spec):
        self.arrays = {"code": np.ascontiguousarray(spec["code"], np.uint16).reshape(-1, 4)}
        self._tables(spec)
        self._sizes(spec)
        self._check_code()
        self._frames(spec)
        wrong = program_check(&self.c)
        if wrong != NULL:
            raise ValueError(wrong.decode())
        draw_prepare(&self.draws)

    def _tables(self, spec):
        arrays, starts = self.arrays, np.cumsum([0, *(len(table) for table in spec["tables"])])
        arrays["tables"], arrays["starts"] = _concatenated(spec["tables"], np.float64), starts.astype(np.int64)
        arrays["store"] = _image(spec["store"])
        fifos = [(width, _image(items)) for width, items in spec["fifos"]]
        if any(width < 1 or len(items) % width for width, items in fifos):
            raise ValueError("a fifo's first items must fill their words")
        counts = [(width, len(items) // width) for width, items in fifos]
        arrays["fifos"] = np.array(counts, np.int64).reshape(-1, 2)
        arrays["items"] = _concatenated((items for _, items in fifos), np.int64)
        functions = [(entry, arguments) for entry, arguments, _ in spec["functions"]]
        arrays["functions"] = np.array(functions, np.int64).reshape(-1, 2)
        threads = [(entry, group, mask, agent) for entry, group, _, mask, agent in spec["threads"]]
        arrays["threads"] = np.array(threads, np.int64).reshape(-1, 4)

    def _sizes(self, spec):
        c, arrays = &self.c, self.arrays
        c.code = <const instruction *>_address(arrays["code"])
        c.tables, c.starts = <const double *>_address(arrays["tables"]), <const int64_t *>_address(arrays["starts"])
        c.store = <const word *>_address(arrays["store"])
        c.fifos = <const program_fifo *>_address(arrays["fifos"])
        c.items = <const word *>_address(arrays["items"])
        c.functions = <const program_function *>_address(arrays["functions"])
        c.threads = <const program_thread *>_address(arrays["threads"])
        c.instructions, c.store_words = len(arrays["code"]), len(arrays["store"])
        c.thread_count, c.function_count = len(arrays["threads"]), len(arrays["functions"])
        c.fifo_count, c.table_count = len(arrays["fifos"]), len(arrays["starts"]) - 1
        c.samples, c.counters, c.costs = spec["samples"], spec["counters"], spec["costs"]
        c.groups, c.cpus = spec["groups"], spec["cpus"]
        if min(c.samples, c.counters, c.costs) < 0 or max(c.samples, c.counters, c.costs, c.groups) > 10**8:
            raise ValueError("samples, counters, costs and groups must be 0 to 100,000,000")
        scheduler = spec["scheduler"]
        c.scheduler = program_scheduler(scheduler["base_slice"], scheduler["tick"], scheduler["hot"],
                                        scheduler["balance"], scheduler["stays"], scheduler["search"],
                                        scheduler["half_life"], scheduler["fades"])
        self.groups, self.threads = c.groups, c.thread_count

    def _check_code(self):
        registers = program_registers(&self.c)
        if registers < 0:
            raise ValueError(f"instruction {-1 - registers}: its opcode or an operand is out of range")
        self.c.frame_words = -(-registers // 8) * 8

    def _frames(self, spec):
        """Whole cache lines for each frame, and at least as many words as the longest image."""
        images = [image for _, _, image, _, _ in spec["threads"]] + [image for _, _, image in spec["functions"]]
        longest = max((len(image) for image in images), default=0)
        if longest > PROGRAM_REGISTERS:
            raise ValueError(f"a frame has {longest} registers: at most {PROGRAM_REGISTERS} are allowed")
        self.c.frame_words = max(self.c.frame_words, -(-longest // 8) * 8)
        frames = np.zeros((max(1, len(images)), self.c.frame_words), np.int64)
        for frame, image in zip(frames, images, strict=False):
            frame[: len(image)] = _image(image)
        self.arrays["frames"] = frames
        self.c.frames = <const word *>_address(frames)

    def run(self, prices, costs, seed, warm, replies, *, first=None, until=INFINITY, span=INFINITY):
        """Simulates once. Releases the GIL; Ctrl-C ends it.

        Parameters
        ----------
        prices : float64 array of 18
            What the machine charges, in the order of models.des.machine.Prices, s.
        costs : float64 array
        seed : int
            The stream of random numbers.
        warm, replies : int
            Replies before the window, and in it.
        first : sequence of int, optional
            Of each thread that needs a CPU, in order: on which of those that it may use it begins, counted round and round;
            their order by default.
        until : float
            Wall-clock seconds at most.
        span : float
            Simulated seconds of the window at most.

        Returns
        -------
        dict
            span (s); responses, services (float64, s), operations (int32) of each reply; counters (float64); used,
            slept, switched (by group; used in s); in_system (mean number of requests in the system); threads (used,
            slept, switched by thread); events; finished (False: time was up, or nothing more could happen).
            All are of the window. It begins after the event of the warm-th reply, or a quarter of the wall-clock
            time; it ends after the event of the last reply, or with the span.

        Raises
        ------
        ValueError
            When prices or costs are too few, or a number is negative.
        SimulationError
            When the program went wrong.
        MemoryError
        """
        return _Run(self, prices, costs, first, seed, warm, replies, span).result(until)


cdef class _Run:
    cdef sim_c c
    cdef bint made
    cdef Program program
    cdef object prices, costs, first

    def __cinit__(self, Program program, prices, costs, first, seed, warm, replies, span):
        cdef sim_settings settings
        self.program = program
        self.prices = np.ascontiguousarray(prices, np.float64)
        self.costs = np.ascontiguousarray(costs, np.float64)
        if self.prices.shape != (PRICE_COUNT,) or self.costs.shape != (program.c.costs,):
            raise ValueError(f"a run needs {PRICE_COUNT} prices and {program.c.costs} costs")
        if not (np.all(self.prices >= 0) and np.all(np.isfinite(self.prices))):
            raise ValueError("prices must be numbers from 0 s on")
        on_cpus = int((program.arrays["threads"][:, 3] == 0).sum())
        self.first = np.ascontiguousarray(range(on_cpus) if first is None else first, np.int64)
        if self.first.shape != (on_cpus,) or (self.first < 0).any():
            raise ValueError(f"first must be {on_cpus} whole numbers from 0 on, one for each thread on a CPU")
        if warm < 0 or replies < 0 or not span >= 0:
            raise ValueError("warm, replies and span must not be negative")
        settings = sim_settings(<const double *>_address(self.prices), <const double *>_address(self.costs),
                                <const int64_t *>_address(self.first), <uint64_t>(seed & 0xFFFFFFFFFFFFFFFF), warm, replies, span)
        self.made = True
        if sim_create(&self.c, &program.c, &program.draws, &settings) < 0:
            raise MemoryError("there is not enough memory for the simulation")

    def __dealloc__(self):
        if self.made:
            sim_destroy(&self.c)

    def result(self, until):
        cdef double slice_
        cdef int more = 1
        begin = time.monotonic()
        while more:
            left = begin + until - time.monotonic()
            if left <= 0:
                break
            if left < (1 - WARMUP_SHARE) * until:
                sim_begin(&self.c)
            slice_ = min(LOOK, left)
            with nogil:
                more = sim_advance(&self.c, slice_)
            PyErr_CheckSignals()
        if self.c.failure == FAILURE_MEMORY:
            raise MemoryError("there is not enough memory for the simulation")
        if self.c.failure != FAILURE_NOT:
            number = self.c.message if self.c.failure in (FAILURE_STATED, FAILURE_COST) else None
            raise SimulationError(sim_failure(self.c.failure).decode(), self.c.failed_at, number)
        sim_close(&self.c)
        return self._summary()

    def _replies(self):
        if not self.c.kept:
            return np.empty(0, REPLY)
        return np.asarray(<const char[:self.c.kept * sizeof(reply)]><const char *>self.c.replies).view(REPLY)

    def _summary(self):
        cdef tally_c *begin = &self.c.begin
        cdef tally_c *end = &self.c.end
        cdef int64_t n = self.program.c.thread_count
        replies = self._replies()
        span = end.time - begin.time
        threads = {
            "used": _difference(n, begin.used, end.used),
            "slept": _counted(n, begin.slept, end.slept),
            "switched": _counted(n, begin.switched, end.switched),
        }
        group = self.program.arrays["threads"][:, 1]
        sums = {name: np.bincount(group, values, self.program.groups) for name, values in threads.items()}
        return {
            "span": span,
            "responses": replies["response"].copy(),
            "services": replies["service"].copy(),
            "operations": replies["operation"].astype(np.int32),
            "counters": _difference(self.program.c.counters, begin.counters, end.counters),
            "used": sums["used"],
            "slept": sums["slept"].astype(np.int64),
            "switched": sums["switched"].astype(np.int64),
            "in_system": (end.in_system - begin.in_system) / span if span > 0 else 0.0,
            "threads": threads,
            "events": end.events - begin.events,
            "finished": bool(self.c.finished),
        }


cdef _difference(int64_t n, const double *begin, const double *end):
    if not n:
        return np.empty(0)
    return np.asarray(<const double[:n]>end) - np.asarray(<const double[:n]>begin)


cdef _counted(int64_t n, const int64_t *begin, const int64_t *end):
    return np.asarray(<const int64_t[:n]>end) - np.asarray(<const int64_t[:n]>begin)
