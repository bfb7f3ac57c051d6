/*
 * Who gets which host. Hosts of named hardware come and go; sessions ask for one host of each of
 * several kinds of hardware, or for several of a kind, and get all of them or none. Pure
 * bookkeeping: times come from outside, nothing is started or sent, and the caller has the lock.
 *
 * - Sessions have ranks, the same in the queues of all hardware; the lowest is the first. A session
 *   is granted when, for each of its hardware, the free hosts suffice for everyone before it and
 *   for itself. So nobody is delayed by those behind, and nobody holds one host while waiting for
 *   another, so nobody deadlocks.
 * - First come, first served: the rank is the time of asking. Fair: it is the time of asking, later
 *   by what the user has had, has and waits for of that hardware (share.h), divided by the user's
 *   share, but by one window at most; each step of priority is one window earlier. So nobody
 *   starves: who asks more than a window later, and the windows of their priority, is behind.
 * - A host may be kept for a user: nobody else is granted it. Holders keep what they have.
 * - A host serves one session at a time. One that drains takes no further session. One that goes
 *   away while it is held leaves a gap in its session, whose owner is told.
 * - Nobody waits for what can't come: asking for hardware that no host has and nothing promises is
 *   PRONY_ENOENT, and when the last host goes, those who wait for it have failed. So it is with
 *   those who ask for more hosts of a kind than there are.
 * - A change costs the logarithm of how many wait: it moves somebody in the affected queues, and
 *   the limit between those within reach of a free host and those behind by one. In a fair queue
 *   the end of a session may rank those of its user again; as seldom as makes that a constant
 *   number of moves per session. A host kept for a user that becomes free is looked for along the
 *   queue.
 *
 *     prn_queue_add_host(queue, "local", worker, now_ns, &host, err);
 *     prn_queue_ask(queue, &request, now_ns, &session, err);
 *     while ((granted = prn_queue_next_granted(queue)))
 *         begin(prn_queue_session_data(granted), prn_queue_session_host(granted, "local"));
 *     …
 *     prn_queue_leave(queue, session, now_ns);
 *
 * After each call that takes `now_ns`, ask for those granted and those failed.
 */
#ifndef PRN_SERVICE_SESSION_QUEUE_H
#define PRN_SERVICE_SESSION_QUEUE_H

#include "base/error.h"

#include <stdbool.h>

struct prn_queue;
struct prn_queue_host;
struct prn_queue_session;

/* Different names of hardware, ever. */
#define PRN_QUEUE_HARDWARE_MAX 10000
/* No limit of backends. */
#define PRN_QUEUE_NO_LIMIT SIZE_MAX

PRONY_MUST_CHECK int prn_queue_new(struct prn_queue **ret_queue, struct prony_error *err);
struct prn_queue_policy {
    bool fair;       /* otherwise first come, first served, as at first */
    double window_s; /* over which what was had fades; a part of all ranks */
};

#define PRN_QUEUE_WINDOW_S 86400.0

/* Ranks those who wait again. */
void prn_queue_set_policy(struct prn_queue *queue, const struct prn_queue_policy *policy,
                          int64_t now_ns);
/* What a user had of a hardware until `ago_s` before now: known from before a restart. */
PRONY_MUST_CHECK int prn_queue_add_past(struct prn_queue *queue, const char *user,
                                        const char *hardware, double host_s, double ago_s,
                                        int64_t now_ns, struct prony_error *err);
/* With all of its hosts and sessions. NULL does nothing. */
void prn_queue_free(struct prn_queue *queue);

/* ---- Hosts ---- */

/* `data` is the caller's; the host lives until it is removed. Among free hosts the one that became
 * free last is taken first, so that those beyond the demand stay idle and may leave. */
PRONY_MUST_CHECK int prn_queue_add_host(struct prn_queue *queue, const char *hardware, void *data,
                                        int64_t now_ns, struct prn_queue_host **ret_host,
                                        struct prony_error *err);

/* Returns the session that held it, NULL when nobody did. That session keeps its other hosts until
 * it leaves. */
struct prn_queue_session *prn_queue_remove_host(struct prn_queue *queue,
                                                struct prn_queue_host *host, int64_t now_ns);

/* The host takes no further session, and counts no longer as one that sessions may wait for. A
 * holder keeps it. */
void prn_queue_drain_host(struct prn_queue *queue, struct prn_queue_host *host, int64_t now_ns);

/* The same until it is enabled again: it takes no further session, a holder keeps it, and sessions
 * may wait for it. */
void prn_queue_disable_host(struct prn_queue *queue, struct prn_queue_host *host, bool disabled,
                            int64_t now_ns);
/* While a hardware is paused, nobody is granted hosts of it; holders keep theirs, and sessions may
 * ask and wait. False: nobody ever named it. */
bool prn_queue_pause(struct prn_queue *queue, const char *hardware, bool paused, int64_t now_ns);

/* Hosts that something else will bring: workers that the service starts, jobs of a scheduler. Zero,
 * as at first: none. While it isn't zero, sessions may wait although no host is there. */
PRONY_MUST_CHECK int prn_queue_promise(struct prn_queue *queue, const char *hardware, size_t hosts,
                                       int64_t now_ns, struct prony_error *err);

/* So many hosts of a hardware are kept for a user: those that the user holds, those that are free,
 * and others as they become free. Zero, as at first: none. */
PRONY_MUST_CHECK int prn_queue_keep(struct prn_queue *queue, const char *hardware, const char *user,
                                    size_t hosts, int64_t now_ns, struct prony_error *err);
/* The same for one host, beside these; `user` NULL: it isn't kept by itself any more. One that
 * drains can't be kept. */
PRONY_MUST_CHECK int prn_queue_keep_host(struct prn_queue *queue, struct prn_queue_host *host,
                                         const char *user, int64_t now_ns, struct prony_error *err);
/* NULL: nobody. */
const char *prn_queue_host_kept_for(const struct prn_queue *queue,
                                    const struct prn_queue_host *host);

void *prn_queue_host_data(const struct prn_queue_host *host);
/* NULL: nobody. */
struct prn_queue_session *prn_queue_host_holder(const struct prn_queue_host *host);
bool prn_queue_host_disabled(const struct prn_queue_host *host);
bool prn_queue_host_draining(const struct prn_queue_host *host);

/* ---- Sessions ---- */

struct prn_queue_request {
    const char *user;
    size_t quota;   /* most backends of this user's sessions, waiting ones included */
    size_t waiting; /* most of this user's sessions that wait, this one included */
    /* One name per backend. Those that are equal share a host, unless each has its own. */
    const char *const *hardware;
    size_t n;
    bool own_hosts;
    double share;      /* of the user, against others' 1; 0: 1 */
    int priority;      /* 0: as most; more is earlier */
    int64_t waited_ns; /* it asked so long ago, before a restart */
    bool first;        /* before all others: it had its hosts before a restart */
    void *data;
};

/*
 * The session lives until it leaves; it may be granted at once. Fails with
 * - PRONY_EUSAGE: no hardware at all
 * - PRONY_ENOENT: no host has that hardware, or not enough have, and nothing promises one; the text
 *   names it
 * - PRONY_ELIMIT: over the quota. Sessions that wait count too, or a queue could be flooded. Or it
 *   would have to wait, and too many of the user's do.
 */
PRONY_MUST_CHECK int prn_queue_ask(struct prn_queue *queue, const struct prn_queue_request *request,
                                   int64_t now_ns, struct prn_queue_session **ret_session,
                                   struct prony_error *err);

/* Ends a session in whatever state it is: its hosts are free, its places in the queues are gone. */
void prn_queue_leave(struct prn_queue *queue, struct prn_queue_session *session, int64_t now_ns);

/* Sessions that were granted since the last call, in the order of their grants, each of them once;
 * NULL: no more. */
struct prn_queue_session *prn_queue_next_granted(struct prn_queue *queue);

/* The same for those that wait no longer because their hardware is gone; prn_queue_session_missing
 * says which. They must leave. */
struct prn_queue_session *prn_queue_next_failed(struct prn_queue *queue);

enum prn_queue_state {
    PRN_QUEUE_WAITING,
    PRN_QUEUE_GRANTED,
    PRN_QUEUE_FAILED,
};

enum prn_queue_state prn_queue_session_state(const struct prn_queue_session *session);
void *prn_queue_session_data(const struct prn_queue_session *session);
const char *prn_queue_session_user(const struct prn_queue_session *session);
int64_t prn_queue_session_asked_ns(const struct prn_queue_session *session);
/* Whether it is served first, by rank. */
bool prn_queue_session_before(const struct prn_queue_session *a, const struct prn_queue_session *b);
/* Until the grant, or until `now_ns` while it waits. */
int64_t prn_queue_session_waited_ns(const struct prn_queue_session *session, int64_t now_ns);
/* NULL unless it failed. */
const char *prn_queue_session_missing(const struct prn_queue_session *session);

/* The names of hardware that it has hosts of, sorted; NULL past the last. */
const char *prn_queue_session_hardware(const struct prn_queue_session *session, size_t index);
/* The data of one of its hosts of a kind, from 0; NULL when it isn't granted, or has lost that
 * host, or never asked for it. */
void *prn_queue_session_host(const struct prn_queue_session *session, const char *hardware,
                             size_t which);

/* From 1; 0 when it doesn't wait, or not for this hardware. */
size_t prn_queue_session_place(const struct prn_queue_session *session, const char *hardware);
/* The worst of its places. */
size_t prn_queue_session_worst_place(const struct prn_queue_session *session);

/* ---- To look at ---- */

struct prn_queue_hardware {
    const char *name;
    size_t hosts; /* all that are there */
    size_t free;  /* that any session could get */
    size_t kept;  /* that are free, but kept for users */
    size_t held;
    size_t draining; /* held or not */
    size_t disabled; /* likewise */
    bool paused;
    size_t promised;
    size_t waiting; /* hosts that sessions wait for */
};

/* In the order in which they were first named; false past the last. */
bool prn_queue_hardware(const struct prn_queue *queue, size_t index,
                        struct prn_queue_hardware *ret_hardware);
/* False when nobody ever named it. */
bool prn_queue_find_hardware(const struct prn_queue *queue, const char *hardware,
                             struct prn_queue_hardware *ret_hardware);

/* Whether a session may ask for it. */
bool prn_queue_has(const struct prn_queue *queue, const char *hardware);

/* All hosts of a hardware, in no order: NULL begins, NULL ends. */
struct prn_queue_host *prn_queue_next_host(const struct prn_queue *queue, const char *hardware,
                                           const struct prn_queue_host *after);
/* Those who wait for it, first those with hosts kept for them, each by rank: NULL begins, NULL
 * ends.
 */
struct prn_queue_session *prn_queue_next_waiting(const struct prn_queue *queue,
                                                 const char *hardware,
                                                 const struct prn_queue_session *after);

/* Of all sessions, and of a user's backends as the quota counts them. */
size_t prn_queue_waiting(const struct prn_queue *queue);
size_t prn_queue_user_backends(const struct prn_queue *queue, const char *user);

#endif
