/*
 * Wrong tokens, counted by where they come from: so many at once, then so many a second. Places are
 * told apart by a secret hash; some may share a count, which only slows them down sooner.
 *
 * Times come from outside, in nanoseconds. May be called from several threads.
 */
#ifndef PRN_SERVICE_TRIES_H
#define PRN_SERVICE_TRIES_H

#include "base/error.h"

struct prn_tries;

PRONY_MUST_CHECK int prn_tries_new(double at_once, double per_s, struct prn_tries **ret_tries,
                                   struct prony_error *err);
void prn_tries_free(struct prn_tries *tries); /* NULL does nothing */

/* How long, in seconds, until another wrong one from there is within the limit; 0: it is now.
 * `place` is an address without its port. */
double prn_tries_wait_s(struct prn_tries *tries, const char *place, int64_t now_ns);
void prn_tries_was_wrong(struct prn_tries *tries, const char *place, int64_t now_ns);

#endif
