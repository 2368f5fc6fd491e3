#include "server.h"

const struct knob server_common_knobs[] = {
    {"backlog", KNOB_INT, "1024", "1:65535", "connections", "length of the accept queue asked for"},
    {"connection", KNOB_CHOICE, "keep", "keep|per_request", "",
     "keep a connection for many requests, or close it (server first) after one"},
    {"server_cpus", KNOB_TEXT, "", "list of CPUs as in 0,2-3; empty: all", "",
     "CPUs that the server may use"},
    {0},
};
