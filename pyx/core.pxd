# Declarations of the native core: no code.
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t


cdef extern from "core/knob.h":
    cdef enum knob_type:
        KNOB_INT
        KNOB_REAL
        KNOB_CHOICE
        KNOB_TEXT

    struct knob:
        const char *name
        knob_type type
        const char *standard
        const char *allowed
        const char *unit
        const char *help


cdef extern from "core/config.h":
    struct config
    int config_create(config **out)
    void config_destroy(config *config)
    int config_set(config *config, const char *name, const char *value)
    int config_fill(config *config, const knob *knobs)
    long config_int(const config *config, const char *name)


cdef extern from "core/counters.h":
    struct counters
    struct counter_block
    size_t counters_size()
    counter_block *counters_claim(counters *counters, int role) nogil
    void counters_release(counter_block *block) nogil
    const char *counters_role_name(int role)
    enum:
        COUNTER_BLOCKS
        ROLE_COUNT
        ROLE_WORKER


cdef extern from "core/buffer.h":
    struct buffer:
        size_t start
        size_t end
    void buffer_init(buffer *buffer, size_t limit) nogil
    void buffer_free(buffer *buffer) nogil
    size_t buffer_length(const buffer *buffer) nogil
    const char *buffer_data(const buffer *buffer) nogil
    void buffer_consume(buffer *buffer, size_t length) nogil


cdef extern from "core/random.h":
    struct random:
        pass
    void random_seed(random *random, uint64_t seed, uint64_t stream) nogil


cdef extern from "netinet/in.h":
    struct sockaddr_in:
        pass


cdef extern from "core/service.h":
    struct service_ops:
        const char *name
        const char *summary
        const knob *knobs
        const char **operations
        size_t session_size
        size_t client_session_size
        int (*create)(const config *config, int threads, char *message, size_t size, void **service)
        void (*destroy)(void *service)
        int (*open)(void *service, void *session) noexcept nogil
        void (*close)(void *service, void *session) noexcept nogil
        int (*parse)(void *service, void *session, const char *data, size_t length, size_t *used,
                     buffer *out) noexcept nogil
        uint32_t (*split)(void *service, void *session, uint32_t chunk) noexcept nogil
        void (*run)(void *service, void *session, uint32_t task, uint32_t chunk, counter_block *me) noexcept nogil
        int (*reply)(void *service, void *session, buffer *out) noexcept nogil
        int (*client_check)(const config *config, char *message, size_t size)
        int (*client_create)(const config *config, uint64_t seed, void **client)
        void (*client_destroy)(void *client)
        int (*client_open)(void *client, void *session) noexcept nogil
        void (*client_close)(void *client, void *session) noexcept nogil
        void (*client_address)(void *client, void *session, const sockaddr_in *address) noexcept nogil
        int (*ask)(void *client, void *session, random *random, buffer *out) noexcept nogil
        int (*answer)(void *client, void *session, const char *data, size_t length, size_t *used,
                      buffer *out) noexcept nogil
        int (*finish)(void *client, void *session) noexcept nogil
        int (*ends)(void *client, void *session) noexcept nogil
        int (*say)(void *client, void *session, const char *line, buffer *out) noexcept nogil
        int (*show)(void *client, void *session, const char *reply, size_t length, buffer *out) noexcept nogil
        size_t (*ledger)(void *client, int64_t (*rows)[3], size_t capacity)


cdef extern from "core/server.h":
    struct server_ops:
        const char *name
        const char *summary
        const knob *knobs
        int max_connections
        int (*serves_at_once)(const config *config) noexcept nogil
        int processes
        int (*threads)(const config *config)
    const knob *server_common_knobs


cdef extern from "core/probe.h":
    enum:
        PROBE_PROCESSES
        PROBE_THREADS
    struct probe_form:
        const char *unit
        int ends
        int alike
        int spins
        int together
        int unbound
        int sized
    struct probe_ops:
        const char *name
        const char *summary
        const knob *knobs
        int kinds
        probe_form form
        void (*shape)(const config *config, size_t size, probe_form *form) noexcept nogil


cdef extern from "core/sock.h":
    int sock_address(const char *host, uint16_t port, sockaddr_in *out)


cdef extern from "core/load.h":
    enum:
        LOAD_OPERATIONS
        LOAD_BINS
        LOAD_ROLES

    struct load_errors:
        uint64_t wrong

    struct load_edge:
        int64_t time
        int64_t server_cpu
        int64_t load_cpu
        int64_t load_wait
        int64_t idle
        uint64_t polls
        uint64_t sleeps
        uint64_t role[5][64]

    struct histogram

    struct load_result:
        int64_t planned_start
        int64_t planned_end
        load_edge start
        load_edge end
        uint64_t clients
        uint64_t threads
        uint64_t addresses
        int64_t connect_ns
        int64_t connect_max_ns
        int64_t think_ns
        int64_t response_ns
        int64_t generator_ns
        int64_t connecting_ns
        load_errors errors
        load_errors errors_outside
        uint64_t operations
        histogram *histogram
        histogram *lag
        uint64_t bin_count[20]
        int64_t bin_response[20]
        uint64_t *client_count
        int open
        histogram *service
        uint64_t planned
        uint64_t bin_planned[20]
        uint64_t sent
        uint64_t backlog[2]
        uint64_t backlog_peak
        uint64_t unfinished
        int64_t unfinished_ns
        int64_t in_system_ns
        int64_t sojourn_ns

    struct load_env:
        const config *config
        const service_ops *service
        sockaddr_in to
        uint64_t seed
        int64_t warmup_ns
        int64_t window_ns
        int server_pid
        int server_tree
        counters *counters

    struct load_ops:
        const char *name
        const char *summary
        const knob *knobs
        int (*create)(const load_env *env, char *message, size_t size, void **load)
        int (*run)(void *load, load_result *result, char *message, size_t size) noexcept nogil
        void (*stop)(void *load) noexcept nogil
        void *(*client)(void *load)
        void (*destroy)(void *load)
        int isolated


cdef extern from "load/result.h":
    size_t result_operations(const service_ops *service)
    size_t result_size(size_t operations, size_t clients)
    void result_place(load_result *result, size_t operations)


cdef extern from "load/schedule.h":
    struct schedule:
        pass
    void schedule_init(schedule *schedule, int poisson, double rate, uint64_t seed, unsigned thread,
                       unsigned threads)
    int64_t schedule_next(schedule *schedule)


cdef extern from "core/histogram.h":
    enum:
        HISTOGRAM_BUCKETS
    struct histogram:
        uint64_t count
        uint64_t sum
        uint64_t min
        uint64_t max
        uint64_t *bucket
    void histogram_record(histogram *histogram, uint64_t value) nogil
    uint64_t histogram_floor(size_t index)
    uint64_t histogram_width(size_t index)
    size_t histogram_index(uint64_t value)


cdef extern from "core/host.h":
    struct host
    int host_start(const char *service, const char *server, const char *address, uint16_t port, config *config,
                   counters *counters, void (*complain)(const char *line), char *message, size_t size,
                   host **out)
    uint16_t host_port(const host *host)
    int host_stop(host *host) nogil


cdef extern from "core/registry.h":
    const server_ops *registry_server_at(size_t i)
    const service_ops *registry_service_at(size_t i)
    const load_ops *registry_load_at(size_t i)
    const probe_ops *registry_probe_at(size_t i)
    const server_ops *registry_server(const char *name)
    const service_ops *registry_service(const char *name)
    const load_ops *registry_load(const char *name)
    const probe_ops *registry_probe(const char *name)


cdef extern from "core/clock.h":
    int64_t clock_now() nogil
    int64_t clock_thread() nogil
