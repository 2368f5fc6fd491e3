/* xoshiro256** seeded by splitmix64 (Blackman and Vigna, 2018, public domain algorithm). One generator, one
 * thread. */
#ifndef KNEEPOINT_RANDOM_H
#define KNEEPOINT_RANDOM_H

#include <math.h>
#include <stdint.h>

struct random {
    uint64_t s[4];
};

static inline uint64_t random_mix(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Streams with different (seed, stream) are independent for every practical purpose. */
static inline void random_seed(struct random *random, uint64_t seed, uint64_t stream) {
    uint64_t state = seed;
    uint64_t first = random_mix(&state);
    state = first ^ (stream * 0xd1342543de82ef95u + 1);
    for (int i = 0; i < 4; i++)
        random->s[i] = random_mix(&state);
}

static inline uint64_t random_next(struct random *random) {
    uint64_t *s = random->s, x = s[1] * 5, result = ((x << 7) | (x >> 57)) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return result;
}

/* Uniform in [0, 1). */
static inline double random_unit(struct random *random) {
    return (double)(random_next(random) >> 11) * 0x1p-53;
}

/* Uniform in 0 … limit−1; limit > 0. The bias is below limit / 2^64. */
static inline uint64_t random_below(struct random *random, uint64_t limit) {
    return (uint64_t)(((unsigned __int128)random_next(random) * limit) >> 64);
}

/* Exponential of mean 1. */
static inline double random_exponential(struct random *random) {
    return -log1p(-random_unit(random));
}

/* Standard normal (Box and Muller, 1958). */
static inline double random_normal(struct random *random) {
    return sqrt(2 * random_exponential(random)) * cos(2 * M_PI * random_unit(random));
}

#endif
