/* Trial division against a sieve, for every small number, and against plain division where blocks of divisors
 * end and where numbers are largest; with wider vectors and without. Prints how many numbers were tested. */
#include "services/division.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIEVED = 1 << 21 };

static long tested, failures;

static void check(const struct division *division, uint32_t number, int expected) {
    tested++;
    if (division_is_prime(division, number) == expected)
        return;
    if (failures++ < 10)
        printf("%u: not %s\n", number, expected ? "prime" : "composite");
}

static int plainly(uint32_t number) {
    if (number < 2)
        return 0;
    for (uint64_t divisor = 2; divisor * divisor <= number; divisor++)
        if (number % divisor == 0)
            return 0;
    return 1;
}

static void try(const struct division *division, const unsigned char *composite) {
    for (uint32_t number = 0; number < SIEVED; number++)
        check(division, number, !composite[number]);
    uint32_t before = 2;
    for (uint32_t prime = 3; prime < 65536; before = prime++) {
        while (prime < 65536 && composite[prime])
            prime++;
        if (prime > 65535)
            break;
        check(division, prime * prime, 0); /* the largest that a divisor is needed for, and its neighbours */
        check(division, prime * before, 0);
        check(division, before * before, 0);
    }
    for (uint32_t number = UINT32_MAX; number > UINT32_MAX - 3000; number--)
        check(division, number, plainly(number));
    for (uint32_t i = 0, number = 1; i < 3000; i++) {
        number = number * 1664525 + 1013904223;
        check(division, number, plainly(number));
    }
}

int main(void) {
    unsigned char *composite = calloc(SIEVED, 1);
    if (!composite)
        return 1;
    composite[0] = composite[1] = 1;
    for (uint32_t n = 2; n * n < SIEVED; n++)
        for (uint32_t multiple = n * n; multiple < SIEVED; multiple += n)
            composite[multiple] = 1;
    for (int wide = 0; wide < 2; wide++) {
        struct division *division;
        if (division_create(wide, &division))
            return 1;
        try(division, composite);
        division_destroy(division);
    }
    free(composite);
    printf("%ld numbers, %ld failures\n", tested, failures);
    return failures != 0;
}
