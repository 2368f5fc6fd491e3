/* A probe: what one primitive of this machine costs, measured by itself.
 *
 * A probe has ends, which are processes or threads. End 0 does the work and is timed; others answer it, or,
 * where they are alike, work and are timed as well. probing/run.h starts them, binds them, times them and
 * ends them; a probe says only what one unit of work is.
 *
 * Functions that return int give 0 or a negated errno. */
#ifndef KNEEPOINT_PROBE_H
#define KNEEPOINT_PROBE_H

#include "config.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROBE_PROCESSES = 1, PROBE_THREADS = 2 };
/* Bytes between what must not share a cache line: two lines, which some processors fetch together. */
enum { PROBE_APART = 128 };
enum { PROBE_FDS = 4, PROBE_NOTES = 16, PROBE_NOTE_NAME = 32 };

/* What a probe is with its settings. */
struct probe_form {
    const char *unit; /* what one sample times: "round trip", "call" */
    int ends;         /* 1 to 64 */
    int alike;        /* all ends work; else end 0 works and the others serve */
    int spins;        /* ends wait by polling: each needs a CPU of its own */
    int together;     /* the ends of a pair must share one CPU */
    int unbound;      /* where the scheduler puts the ends is what it measures: they must not be bound */
    int sized;        /* what is sent has a size that is up to the user; else the size is 0 */
    size_t shared;    /* bytes that the ends share */
    uint64_t batch;   /* units that must be timed together, as one alone says nothing; 0: one */
};

/* What the kernel calls an end. */
struct probe_identity {
    pid_t pid, tid;
};

/* A figure of a probe's own, beside the times. */
struct probe_note {
    char name[PROBE_NOTE_NAME]; /* with its unit: handoff_ns; empty: unused */
    double value;
};

/* What one end is given; in its own memory but for what is marked as shared. */
struct probe_end {
    const struct config *config; /* the probe's knobs, complete */
    int processes;               /* the pair's ends are processes: what they share must work between them */
    int pair, pairs;
    int end, ends;     /* end 0 is timed */
    int cpu;           /* -1: wherever the scheduler likes */
    size_t size;       /* bytes of a message */
    int fd[PROBE_FDS]; /* what `prepare` made, the same at both ends; -1: nothing */
    void *shared; /* the pair's: form.shared bytes on pages of its own, all zero, first touched by end 0 on
                     its CPU */
    const struct probe_identity *identity; /* of the pair's ends, by number */
    _Atomic int *stop;                     /* the pair's: set before the last unit */
    void *own;                             /* the probe's, for this end */
    uint64_t sent, received;               /* kept by probes that send: compared in the end */
    struct probe_note *notes;              /* PROBE_NOTES of them */
    const char *why;                       /* set by what fails: the reason in words, if errno's do not do */
};

struct probe_ops {
    const char *name;
    const char *summary;
    const struct knob *knobs; /* what comes in several forms has a choice named `variant` */
    int kinds;                /* PROBE_PROCESSES, PROBE_THREADS, or both */
    struct probe_form form;   /* with the default settings */

    /* The rest may be NULL but for `work`. */

    /* Changes the form to what it is with these settings, and messages of so many bytes. */
    void (*shape)(const struct config *config, size_t size, struct probe_form *form);
    /* Whether the system's limits allow it. *size may be made smaller where that is harmless; message (room
     * bytes) gets the limit, and the command that would lift it. */
    int (*check)(const struct config *config, int pairs, int processes, size_t *size, char *message,
                 size_t room);
    /* Makes descriptors that both ends use, in the process that the ends come from; they are closed there and
     * at the ends by others. */
    int (*prepare)(const struct config *config, size_t size, int fd[PROBE_FDS]);
    /* At each end, bound to its CPU; end 0 before the others. */
    int (*open)(struct probe_end *me);
    /* Does `count` units. 0: the caller's clock counts; positive: the ns that they took by the probe's own,
     * in all, and from then on count is 1; negative: it failed. Once *stop is set, one unit more lets the
     * other end leave. */
    int64_t (*work)(struct probe_end *me, uint64_t count);
    /* An end that does not work: answers until it has answered with *stop set. */
    int (*serve)(struct probe_end *me);
    /* At each end, whatever has failed before; may write notes. */
    void (*close)(struct probe_end *me);
};

/* Writes or replaces a note; too many are dropped. */
void probe_note(struct probe_end *me, const char *name, double value);

/* CPU of the calling thread. */
int probe_cpu(void);

/* ns between two readings of the clock with nothing in between: the least, as others may run meanwhile. */
int64_t probe_clock_cost(void);

#endif
