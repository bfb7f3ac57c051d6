/*
 * Leases: whoever gives no sign of life until a deadline is given up. A lease stands inside of what
 * it is about, and `data` leads back to it. Times come from outside; the caller has the lock.
 *
 * A sign of life is the most frequent event, so one that moves the deadline further costs a single
 * assignment; the heap learns of it when the old deadline comes. Everything else is logarithmic.
 *
 *     prn_leases_add(&leases, &session->lease, now_ns + lease_ns);
 *     prn_leases_move(&leases, &session->lease, now_ns + lease_ns);   a sign of life
 *     while ((lease = prn_leases_take_expired(&leases, now_ns)))
 *         close_session(lease->data);
 *     wait_until(prn_leases_next_ns(&leases));
 */
#ifndef PRN_SERVICE_SESSION_LEASE_H
#define PRN_SERVICE_SESSION_LEASE_H

#include "base/error.h"

struct prn_lease {
    void *data;          /* the caller's */
    int64_t deadline_ns; /* INT64_MAX: never, as while a call of the session is open */
    int64_t known_ns;    /* the deadline that the heap knows; never later than the real one */
    size_t place;        /* in the heap, from 1; 0: not in it */
};

struct prn_leases {
    struct prn_lease **heap; /* [0] is the first to expire */
    size_t n;
};

#define PRN_LEASES_INIT ((struct prn_leases){0})

void prn_leases_release(struct prn_leases *leases);

/* `lease` must stay where it is until it is removed or taken. Returns 0 or PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_leases_add(struct prn_leases *leases, struct prn_lease *lease,
                                    int64_t deadline_ns);

/* Sets another deadline, later or earlier; nothing when the lease isn't there. */
void prn_leases_move(struct prn_leases *leases, struct prn_lease *lease, int64_t deadline_ns);

/* Does nothing when the lease isn't there. */
void prn_leases_remove(struct prn_leases *leases, struct prn_lease *lease);

/* One whose deadline is not after `now_ns`, removed; NULL: no more. */
struct prn_lease *prn_leases_take_expired(struct prn_leases *leases, int64_t now_ns);

/* When the next one expires; INT64_MAX: never. */
int64_t prn_leases_next_ns(struct prn_leases *leases);

#endif
