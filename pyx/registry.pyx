"""What the native core has: servers, services, loads and probes with the knobs that each declares."""

from pyx cimport core
from pyx.settings cimport Settings

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
    """Every server: {name: {summary, max_connections, processes, knobs}}, knobs of all servers included.

    `processes`: it serves in processes that it forks.
    """
    found = {}
    cdef size_t i = 0
    cdef const core.server_ops *ops
    while core.registry_server_at(i) != NULL:
        ops = core.registry_server_at(i)
        name = ops.name.decode()
        found[name] = {
            "summary": ops.summary.decode(), "max_connections": ops.max_connections or None,
            "processes": bool(ops.processes),
            "knobs": _knobs(ops.knobs, name) + _knobs(core.server_common_knobs, "server"),
        }
        i += 1
    return found


def serves_at_once(str name, options):
    """How many connections the server serves at once with these settings, the others waiting until one ends; None: all.

    Raises
    ------
    ValueError
        When there is no such server.
    """
    cdef const core.server_ops *ops = core.registry_server(name.encode())
    if ops == NULL:
        raise ValueError(f"{name}: no such server")
    if ops.serves_at_once == NULL:
        return None
    cdef Settings settings = Settings(options)
    settings.fill(ops.knobs)
    return ops.serves_at_once(settings.config) or None


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


cdef dict _form(const core.probe_ops *ops, options):
    cdef Settings settings = Settings(options)
    settings.fill(ops.knobs)
    cdef core.probe_form form = ops.form
    if ops.shape != NULL:
        ops.shape(settings.config, 8, &form)
    return {
        "unit_of_work": form.unit.decode(), "ends": form.ends, "alike": bool(form.alike), "spins": bool(form.spins),
        "together": bool(form.together), "unbound": bool(form.unbound), "sized": bool(form.sized),
    }


def probe_form(str name, dict options):
    """What a probe is with these settings: {unit_of_work, ends, alike, spins, together, unbound, sized}.

    `alike`: all ends work and are timed; else end 0 is, and the others answer it. `spins`: ends wait by polling, so that
    each needs a CPU of its own. `together`: the ends of a pair must share one CPU. `unbound`:
    where the scheduler puts them is what it measures. `sized`: messages have a size.

    Raises
    ------
    ValueError
        When there is no such probe, or its knobs do not allow these settings.
    """
    cdef const core.probe_ops *ops = core.registry_probe(name.encode())
    if ops == NULL:
        raise ValueError(f"{name}: no such probe")
    return _form(ops, options)


def probes():
    """Every probe: {name: {summary, unit_of_work, kinds, knobs}}; kinds: what its ends may be, process or thread."""
    found = {}
    cdef size_t i = 0
    cdef const core.probe_ops *ops
    while core.registry_probe_at(i) != NULL:
        ops = core.registry_probe_at(i)
        name = ops.name.decode()
        found[name] = {
            "summary": ops.summary.decode(), "unit_of_work": ops.form.unit.decode(),
            "kinds": [word for bit, word in ((core.PROBE_PROCESSES, "process"), (core.PROBE_THREADS, "thread"))
                      if ops.kinds & bit],
            "knobs": _knobs(ops.knobs, name),
        }
        i += 1
    return found
