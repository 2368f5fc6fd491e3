"""What the native core has: servers, services, loads and probes with the knobs that each declares."""

from pyx cimport core

_TYPES = {core.KNOB_INT: "int", core.KNOB_REAL: "real", core.KNOB_CHOICE: "choice", core.KNOB_TEXT: "text"}


cdef list _knobs(const core.knob *table, str of):
    rows = []
    while table != NULL and table.name != NULL:
        rows.append({
            "name": table.name.decode(), "type": _TYPES[table.type], "default": table.standard.decode(),
            "allowed": table.allowed.decode(), "unit": table.unit.decode(), "help": table.help.decode(), "of": of,
        })
        table += 1
    return rows


def servers():
    """Every server: {name: {summary, max_connections, knobs}}, knobs of all servers included."""
    found = {}
    cdef size_t i = 0
    cdef const core.server_ops *ops
    while core.registry_server_at(i) != NULL:
        ops = core.registry_server_at(i)
        name = ops.name.decode()
        found[name] = {
            "summary": ops.summary.decode(), "max_connections": ops.max_connections or None,
            "knobs": _knobs(ops.knobs, name) + _knobs(core.server_common_knobs, "server"),
        }
        i += 1
    return found


def services():
    """Every service: {name: {summary, operations, serves, knobs}}; those that do not serve are a client side only."""
    found = {}
    cdef size_t i = 0, k
    cdef const core.service_ops *ops
    while core.registry_service_at(i) != NULL:
        ops = core.registry_service_at(i)
        name = ops.name.decode()
        operations = []
        k = 0
        while ops.operations[k] != NULL:
            operations.append(ops.operations[k].decode())
            k += 1
        found[name] = {
            "summary": ops.summary.decode(), "operations": operations, "serves": ops.create != NULL,
            "knobs": _knobs(ops.knobs, name),
        }
        i += 1
    return found


def loads():
    """Every load: {name: {summary, knobs}}."""
    found = {}
    cdef size_t i = 0
    cdef const core.load_ops *ops
    while core.registry_load_at(i) != NULL:
        ops = core.registry_load_at(i)
        name = ops.name.decode()
        found[name] = {"summary": ops.summary.decode(), "knobs": _knobs(ops.knobs, name)}
        i += 1
    return found


def probes():
    """Every probe: {name: {summary, unit_of_work, knobs}}."""
    found = {}
    cdef size_t i = 0
    cdef const core.probe_ops *ops
    while core.registry_probe_at(i) != NULL:
        ops = core.registry_probe_at(i)
        name = ops.name.decode()
        found[name] = {
            "summary": ops.summary.decode(), "unit_of_work": ops.unit_of_work.decode(), "knobs": _knobs(ops.knobs, name),
        }
        i += 1
    return found
