#include "division.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum {
    LIMIT = 1 << 16, /* divisors are below */
    FIRST = 32,      /* primes in the first block: most numbers that are not prime get no further */
    BLOCK = 64,      /* in each other one */
    PRIMES = 6541,   /* that are odd, and below LIMIT */
    PADDED = FIRST + (PRIMES - FIRST + BLOCK - 1) / BLOCK * BLOCK,
};

struct division {
    int (*is_prime)(const struct division *division, uint32_t number);
    uint32_t
        prime[PADDED + 1]; /* what fills the last block, and ends the last, is LIMIT, which divides nothing */
    uint32_t inverse[PADDED], most[PADDED];
};

static inline __attribute__((always_inline)) int divide(const struct division *division, uint32_t number) {
    uint32_t divided = 0;
    if (number % 2 == 0)
        return number == 2;
    for (int i = 0; i < FIRST; i++) /* which a prime itself may be in */
        divided |= (number * division->inverse[i] <= division->most[i]) & (division->prime[i] < number);
    if (divided)
        return 0;
    uint32_t root = (uint32_t)sqrt(number);
    for (int from = FIRST; division->prime[from] <= root; from += BLOCK) {
        for (int i = from; i < from + BLOCK; i++)
            divided |= number * division->inverse[i] <= division->most[i];
        if (divided)
            return 0;
    }
    return number > 1;
}

static int divide_plainly(const struct division *division, uint32_t number) {
    return divide(division, number);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static int divide_widely(const struct division *division, uint32_t number) {
    return divide(division, number);
}
#endif

/* By Newton's method, which doubles the right bits: an odd number is its own inverse modulo 8. */
static uint32_t inverse(uint32_t odd) {
    uint32_t x = odd;
    for (int bits = 3; bits < 32; bits *= 2)
        x *= 2 - odd * x;
    return x;
}

static void fill(struct division *division) {
    unsigned char composite[LIMIT] = {0};
    int count = 0;
    for (uint32_t n = 3; n < LIMIT; n += 2) {
        if (composite[n])
            continue;
        division->prime[count] = n;
        division->inverse[count] = inverse(n);
        division->most[count++] = UINT32_MAX / n;
        for (uint64_t multiple = (uint64_t)n * n; multiple < LIMIT; multiple += 2 * n)
            composite[multiple] = 1;
    }
    for (; count < PADDED; count++) {
        division->prime[count] = LIMIT;
        division->inverse[count] = 1;
        division->most[count] = 0;
    }
    division->prime[PADDED] = LIMIT;
}

int division_create(int wide, struct division **out) {
    struct division *division = malloc(sizeof(*division));
    if (!division)
        return -ENOMEM;
    fill(division);
    division->is_prime = divide_plainly;
#ifdef __x86_64__
    if (wide && __builtin_cpu_supports("avx2"))
        division->is_prime = divide_widely;
#else
    (void)wide;
#endif
    *out = division;
    return 0;
}

void division_destroy(struct division *division) {
    free(division);
}

int division_is_prime(const struct division *division, uint32_t number) {
    return division->is_prime(division, number);
}
