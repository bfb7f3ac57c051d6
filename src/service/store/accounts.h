/*
 * What users had of the hosts, by month, and what is reserved for them. All functions may be called
 * from several threads; adding waits for no disk.
 */
#ifndef PRN_SERVICE_STORE_ACCOUNTS_H
#define PRN_SERVICE_STORE_ACCOUNTS_H

#include "service/store/state.h"

#define PRN_MONTH_SIZE 8 /* "2026-11" */

struct prn_accounts;

PRONY_MUST_CHECK int prn_accounts_new(const struct prn_state *state,
                                      struct prn_accounts **ret_accounts, struct prony_error *err);
void prn_accounts_free(struct prn_accounts *accounts); /* NULL does nothing */

/* The month of a time in milliseconds since 1970, UTC. */
void prn_month_of(int64_t ms, char ret_month[PRN_MONTH_SIZE]);
/* Whether it is written "YYYY-MM". */
bool prn_month_is(const char *text);

struct prn_use {
    const char *month, *user, *hardware;
    uint64_t sessions; /* that got hosts */
    double host_s;
    double usd; /* of the hosts whose price is known */
};

/* Adds to what is there; all or nothing. */
PRONY_MUST_CHECK int prn_accounts_add(struct prn_accounts *accounts, const struct prn_use *uses,
                                      size_t n, struct prony_error *err);

/* What it gets is borrowed for the call; anything but 0 ends the query, which returns it. */
typedef int prn_use_visit(const struct prn_use *use, void *context);

/* By month, user and hardware; `user` NULL: everybody's, `since` NULL: from the first month on. */
PRONY_MUST_CHECK int prn_accounts_visit(struct prn_accounts *accounts, const char *user,
                                        const char *since, prn_use_visit *visit, void *context,
                                        struct prony_error *err);

/* ---- Reservations ---- */

struct prn_booking {
    int64_t id;         /* given by book; counts up */
    const char *target; /* a hardware, or the name of a host */
    const char *user;
    bool is_host;
    uint64_t hosts; /* of a hardware */
    int64_t from_ms, to_ms;
};

typedef int prn_booking_visit(const struct prn_booking *booking, void *context);

PRONY_MUST_CHECK int prn_accounts_book(struct prn_accounts *accounts,
                                       const struct prn_booking *booking, int64_t *ret_id,
                                       struct prony_error *err);
/* One that isn't there is cancelled already. */
PRONY_MUST_CHECK int prn_accounts_cancel(struct prn_accounts *accounts, int64_t id,
                                         struct prony_error *err);
/* Those that end after `now_ms`, the first that begins first; others are forgotten. */
PRONY_MUST_CHECK int prn_accounts_bookings(struct prn_accounts *accounts, int64_t now_ms,
                                           prn_booking_visit *visit, void *context,
                                           struct prony_error *err);

#endif
