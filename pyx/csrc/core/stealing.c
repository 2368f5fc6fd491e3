#include "stealing.h"

#include <string.h>

static size_t look_next(const struct ring *ring, size_t thief, struct random *random,
                        struct counter_block *me) {
    (void)random;
    size_t victim = ring_next(ring, thief);
    COUNT(me, steals_tried, 1);
    return ring_holds_two(ring, victim) ? victim : thief;
}

/* Each other queue is as likely (Blumofe and Leiserson 1999, section 3). */
static size_t look_anywhere(const struct ring *ring, size_t thief, struct random *random,
                            struct counter_block *me) {
    size_t victim = (thief + 1 + random_below(random, ring->count - 1)) % ring->count;
    COUNT(me, steals_tried, 1);
    return ring_holds_two(ring, victim) ? victim : thief;
}

static size_t look_everywhere(const struct ring *ring, size_t thief, struct random *random,
                              struct counter_block *me) {
    (void)random;
    COUNT(me, steals_tried, ring->count - 1);
    return stealing_longest(ring, thief);
}

static const struct stealing_rule rules[] = {
    {.name = "none"},
    {.name = "next", .choose = look_next},
    {.name = "next_backoff", .choose = look_next, .backs_off = 1},
    {.name = "random", .choose = look_anywhere, .anywhere = 1},
    {.name = "richest", .choose = look_everywhere, .anywhere = 1},
};

const struct stealing_rule *stealing_find(const char *name) {
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (!strcmp(rules[i].name, name))
            return &rules[i];
    return NULL;
}

size_t stealing_longest(const struct ring *ring, size_t thief) {
    size_t longest = thief;
    uint32_t most = 1;
    for (size_t i = ring_next(ring, thief); i != thief; i = ring_next(ring, i)) {
        uint32_t depth = taskqueue_depth(&ring->queue[i]);
        if (depth > most) {
            most = depth;
            longest = i;
        }
    }
    return longest;
}
