/*
 * How much of the hardware a user has had, has, and will have by what is asked for already: what
 * `queue: fair` ranks sessions by. Pure bookkeeping, as in queue.h.
 *
 * Time that hosts were held fades: after a window, 37 % of it is left. A user who always had every
 * host of a hardware has a debt of one window there. Nobody knows how long a session will take, so
 * those that wait or have just begun count as much as this user's sessions took on average.
 */
#ifndef PRN_SERVICE_SESSION_SHARE_H
#define PRN_SERVICE_SESSION_SHARE_H

#include "base/error.h"

#include <stdbool.h>

/* Of one user and one hardware. */
struct prn_share {
    const void *hardware; /* the owner's */
    double used_s;        /* as it was at `as_of_ns` */
    int64_t as_of_ns;
    size_t waiting, held; /* hosts */
    double since_s;       /* of those held: the sum of their times of grant */
};

struct prn_shares {
    struct prn_share *of;
    size_t n;
    double mean_s;     /* that a host was held; 0: not known yet */
    double expected_s; /* the mean when those who wait were ranked; 0: likewise */
    double drift_s;    /* by how much those that ended since differed from it */
};

#define PRN_SHARES_INIT ((struct prn_shares){0})

void prn_shares_release(struct prn_shares *shares);

/* NULL: out of memory. */
struct prn_share *prn_share_of(struct prn_shares *shares, const void *hardware);

/* One was asked for, and may be given up; granted; and given back, for which the window counts. */
void prn_share_wait(struct prn_share *share, bool joins);
void prn_share_grant(struct prn_share *share, int64_t now_ns);
void prn_share_give_back(struct prn_shares *shares, struct prn_share *share, int64_t granted_ns,
                         int64_t now_ns, double window_s);
/* Host time of another process, that ended `ago_s` before. */
void prn_share_add_past(struct prn_share *share, double host_s, double ago_s, int64_t now_ns,
                        double window_s);

/* Seconds of all `hosts` of the hardware. */
double prn_share_debt_s(const struct prn_shares *shares, const struct prn_share *share,
                        size_t hosts, int64_t now_ns, double window_s);

/* What was expected of `waiting` sessions is off by so much that they should be ranked again; that
 * is forgotten. Seldom enough that ranking all of them costs little per session. */
bool prn_shares_drifted(struct prn_shares *shares, size_t waiting);

#endif
