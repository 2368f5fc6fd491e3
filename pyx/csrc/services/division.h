/* Whether a 32-bit number is prime, by trial division: by every prime up to its square root, smallest first.
 *
 * A division has no remainder if and only if the number times the divisor's inverse modulo 2^32 is at most
 * (2^32 − 1) / divisor (Granlund and Montgomery 1994, section 9): a multiplication and a comparison, of which
 * vectors do many at once. So numbers are divided by whole blocks of primes, of which the last may reach
 * beyond the root; a divisor there is a divisor all the same. */
#ifndef KNEEPOINT_DIVISION_H
#define KNEEPOINT_DIVISION_H

#include <stdint.h>

struct division;

/* The tables, 77 KiB, which nobody changes. wide: use the processor's wider vectors where there are some.
 * 0 or -ENOMEM. */
int division_create(int wide, struct division **out);
void division_destroy(struct division *division);

int division_is_prime(const struct division *division, uint32_t number);

#endif
