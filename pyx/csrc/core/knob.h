/* A knob is one setting that a variant declares: its name, type, default, range and unit.
 *
 * Every variant (server, service, load) carries a table of its knobs, ended by a row whose name is NULL. The
 * command line, `list`, the validation of scenarios and the defaults all come from these tables, so a new
 * knob edits one file. */
#ifndef KNEEPOINT_KNOB_H
#define KNEEPOINT_KNOB_H

enum knob_type {
    KNOB_INT,    /* decimal integer; allowed = "min:max" */
    KNOB_REAL,   /* decimal number; allowed = "min:max" */
    KNOB_CHOICE, /* one word of allowed = "a|b|c" */
    KNOB_TEXT,   /* anything; allowed says in words what is meant */
};

struct knob {
    const char *name;
    enum knob_type type;
    const char *standard; /* the default, written as a user would */
    const char *allowed;
    const char *unit; /* "" when it has none */
    const char *help;
};

#endif
