/* The instructions of the simulated programs. Sources of their operands a, b, c, one letter each:
 *
 *   r  a register          q  the first of the registers of a fifo's item    p  the first of a function's
 * arguments o  offset of a field   t  number of a table   k  of a cost   n  of a counter   f  of a function
 * m  of a message j  (b and c together) an absolute jump target, b + 65536 c     s  an absolute jump target
 * below 65536
 *   -  unused
 *
 * Registers are written R[a], words of the store S[i]; .f is the word as a number with a fraction, .i as an
 * integer. A compare gives the integer 0 or 1. */
#ifndef KNEEPOINT_SIM_OPCODES_H
#define KNEEPOINT_SIM_OPCODES_H

#define OPCODE_LIST(OP)                                                                                      \
    OP(MOV, "rr-")    /* R[a] = R[b] */                                                                      \
    OP(LOAD, "rro")   /* R[a] = S[R[b] + c] */                                                               \
    OP(STORE, "ror")  /* S[R[a] + b] = R[c] */                                                               \
    OP(LOADX, "rrr")  /* R[a] = element R[c] of list R[b] */                                                 \
    OP(STOREX, "rrr") /* element R[b] of list R[a] = R[c] */                                                 \
    OP(FADD, "rrr")                                                                                          \
    OP(FSUB, "rrr")                                                                                          \
    OP(FMUL, "rrr")                                                                                          \
    OP(FDIV, "rrr")                                                                                          \
    OP(FMIN, "rrr")                                                                                          \
    OP(FMAX, "rrr")                                                                                          \
    OP(FFLOOR, "rr-")                                                                                        \
    OP(FMOD, "rrr") /* has the sign of R[c] */                                                               \
    OP(FNEG, "rr-")                                                                                          \
    OP(FABS, "rr-")                                                                                          \
    OP(IADD, "rrr")                                                                                          \
    OP(ISUB, "rrr")                                                                                          \
    OP(IMUL, "rrr")                                                                                          \
    OP(IDIV, "rrr") /* rounds down */                                                                        \
    OP(IMOD, "rrr") /* has the sign of R[c] */                                                               \
    OP(IMIN, "rrr")                                                                                          \
    OP(IMAX, "rrr")                                                                                          \
    OP(INEG, "rr-")                                                                                          \
    OP(IABS, "rr-")                                                                                          \
    OP(I2F, "rr-")                                                                                           \
    OP(F2I, "rr-") /* cuts towards 0 */                                                                      \
    OP(FLT, "rrr")                                                                                           \
    OP(FLE, "rrr")                                                                                           \
    OP(FEQ, "rrr")                                                                                           \
    OP(ILT, "rrr")                                                                                           \
    OP(ILE, "rrr")                                                                                           \
    OP(IEQ, "rrr")                                                                                           \
    OP(NOT, "rr-")                                                                                           \
    OP(JMP, "-j")                                                                                            \
    OP(JT, "rj")                                                                                             \
    OP(JF, "rj")                                                                                             \
    OP(JFLT, "rrs") /* to c if R[a] < R[b]; JN...: unless */                                                 \
    OP(JFLE, "rrs")                                                                                          \
    OP(JFEQ, "rrs")                                                                                          \
    OP(JILT, "rrs")                                                                                          \
    OP(JILE, "rrs")                                                                                          \
    OP(JIEQ, "rrs")                                                                                          \
    OP(JNFLT, "rrs")                                                                                         \
    OP(JNFLE, "rrs")                                                                                         \
    OP(JNFEQ, "rrs")                                                                                         \
    OP(JNILT, "rrs")                                                                                         \
    OP(JNILE, "rrs")                                                                                         \
    OP(JNIEQ, "rrs")                                                                                         \
    OP(FPUT, "rq-")   /* appends the item R[b]... to fifo R[a] */                                            \
    OP(FPUTL, "rq-")  /* the same on the left */                                                             \
    OP(FTAKE, "rq-")  /* takes the leftmost item of fifo R[a] into R[b]... */                                \
    OP(FPOP, "rq-")   /* takes the rightmost */                                                              \
    OP(FPEEK, "rq-")  /* the leftmost, which stays */                                                        \
    OP(FLEN, "rr-")   /* R[a] = items in fifo R[b] */                                                        \
    OP(FCLEAR, "r--") /* empties fifo R[a] */                                                                \
    OP(NOW, "r--")                                                                                           \
    OP(UNIFORM, "r--") /* in [0, 1) */                                                                       \
    OP(BELOW, "rr-")   /* an integer in 0 ... R[b] - 1 */                                                    \
    OP(DRAW, "rrr")    /* from the distribution of kind R[b].i with mean R[c].f */                           \
    OP(SAMPLE, "r--")  /* the next sample, in random order without replacement, again and again */           \
    OP(TABLE, "rtr")   /* R[a].f = row R[c] of table b */                                                    \
    OP(COST, "rk-")    /* R[a].f = cost b */                                                                 \
    OP(COUNT, "nr-")   /* counter a += R[b].f */                                                             \
    OP(ENTER, "---")   /* one more in the system */                                                          \
    OP(DONE, "rr-")    /* one less: a reply for operation R[a].i with response R[b].f */                     \
    OP(RUN, "r--")     /* uses processor time R[a].f, s */                                                   \
    OP(SLEEP, "---")   /* until woken */                                                                     \
    OP(PAUSE, "r--")   /* sleeps for R[a].f, s */                                                            \
    OP(SPIN, "---")    /* burns the CPU until released */                                                    \
    OP(FOLLOW, "r--")  /* sleeps until thread R[a] gets a CPU */                                             \
    OP(WAKE, "rrr")    /* wakes thread R[b]; R[a].f = what that costs the waker, R[c].f on a busy CPU */     \
    OP(WAKEN, "r--")   /* wakes thread R[a] on nobody's account */                                           \
    OP(RELEASE, "r--") /* ends the spinning of thread R[a] */                                                \
    OP(SPINNING, "rr-")                                                                                      \
    OP(RUNNING, "rr-")                                                                                       \
    OP(APART, "rr-") /* R[a] = thread R[b] is on another CPU than this one, or was */                        \
    OP(RESTED, "r--") /* R[a].f = for how long this thread's CPU has been idle so far, s */                  \
    OP(COOLED, "rr-") /* R[a].f = share of its warmth that a CPU loses in a rest of R[b].f, s */            \
    OP(SLEEPING, "rr-")                                                                                      \
    OP(AT, "rfp")   /* calls function b after R[a].f, s, with its arguments R[c]... */                       \
    OP(RET, "---")  /* end of such a function */                                                             \
    OP(END, "---")  /* the thread ends */                                                                    \
    OP(FAIL, "m--") /* the run ends with message a */

enum opcode {
#define OPCODE_ENUM(name, operands) OP_##name,
    OPCODE_LIST(OPCODE_ENUM)
#undef OPCODE_ENUM
        OPCODE_COUNT
};

#endif
