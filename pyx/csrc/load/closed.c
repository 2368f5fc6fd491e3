/* A closed load: N clients, each asks, waits for the reply, thinks, and asks again. A connection that has
 * ended is made anew for the next request, not before: a plain server attends to nobody else while one waits
 * on it.
 */
#include "../core/distribution.h"
#include "../core/registry.h"
#include "crew.h"

#include <errno.h>
#include <stdlib.h>

static const struct knob knobs[] = {
    {"clients", KNOB_INT, "10", "1:20000", "clients", "clients, each with at most one request under way"},
    {"think", KNOB_REAL, "0", "0:1000", "s", "mean time between a reply and the client's next request"},
    {"think_dist", KNOB_CHOICE, "exponential", DISTRIBUTION_WORDS, "", "distribution of the think time"},
    CREW_KNOBS,
    {0},
};

struct thinking {
    double mean; /* ns */
    enum distribution_kind kind;
};

static int prepare(struct loop *loop) {
    const struct config *config = loop->common->env.config;
    struct thinking *thinking = loop->own = malloc(sizeof(*thinking));
    if (!thinking)
        return -ENOMEM;
    thinking->mean = config_real(config, "think") * 1e9;
    thinking->kind = distribution_named(config_text(config, "think_dist"));
    return 0;
}

static void release(struct loop *loop) {
    free(loop->own);
}

static void ready(struct loop *loop, struct client *client, int64_t now) {
    const struct thinking *thinking = loop->own;
    if (thinking->mean > 0)
        loop_rest_until(loop, client, now,
                        now + (int64_t)distribution_draw(thinking->kind, thinking->mean, &client->random));
    else
        loop_ask(loop, client, now, 0);
}

static void rung(struct loop *loop, struct client *client) {
    loop_ask(loop, client, client->due, 0);
}

/* As many as the server answers. */
static double churn(const struct config *config) {
    (void)config;
    return -1;
}

static const struct policy policy = {
    .lazy = 1,
    .churn = churn,
    .create = prepare,
    .destroy = release,
    .ready = ready,
    .rung = rung,
};

static int create(const struct load_env *env, char *message, size_t size, void **out) {
    return crew_create(env, &policy, message, size, out);
}

static const struct load_ops closed = {
    .name = "closed",
    .summary = "N clients that wait for each reply, and think, before they ask again",
    .knobs = knobs,
    .create = create,
    .run = crew_run,
    .stop = crew_stop,
    .client = crew_client,
    .destroy = crew_destroy,
};
REGISTER_LOAD(closed);
