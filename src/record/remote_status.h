/* How a service is, as plain data. */
#ifndef PRN_RECORD_REMOTE_STATUS_H
#define PRN_RECORD_REMOTE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prn_remote_hardware {
    const char *name, *processor, *note;
    double usd_per_hour;
    int64_t hosts, free, waiting;
    bool paused;
};

struct prn_remote_session {
    const char *id, *user, *state, *note;
    signed char yours; /* of `you`; -1: nobody looks */
    size_t n_backends;
    const char *const *backends;
    int64_t age_ms, waited_ms, idle_ms, place, models, runs;
};

struct prn_remote_worker {
    const char *id, *name, *hardware, *state, *sandbox, *session, *user, *note;
    size_t n_software;
    const char *const *software;
    int64_t connected_ms, held_ms;
};

struct prn_remote_reservation {
    int64_t id;
    const char *target, *user; /* NULL: somebody else */
    int64_t hosts;             /* -1: a host of that name */
    int64_t from_ms, to_ms;    /* since 1970 */
    bool active;
};

/* What a user had of a hardware in a month. */
struct prn_remote_use {
    const char *month, *user, *hardware;
    int64_t sessions;
    double host_s, usd;
};

struct prn_remote_usage {
    size_t n;
    struct prn_remote_use *uses;
};

/* Texts may be NULL; numbers that weren't said are -1, or NAN. */
struct prn_remote_status {
    const char *version, *notice;
    int64_t uptime_ms;
    bool draining;
    size_t n_hardware, n_sessions, n_workers, n_reservations;
    struct prn_remote_hardware *hardware;
    struct prn_remote_session *sessions;
    struct prn_remote_worker *workers;
    struct prn_remote_reservation *reservations;
    int64_t sessions_others;      /* that are there but not shown */
    int64_t session_memory_bytes; /* limits; -1 and NAN: none, or not told */
    double run_timeout_s;
    bool has_cache;
    int64_t blobs, blob_bytes, blob_limit_bytes, hits, misses;
    /* Who looks at the service's page, and what it needs to know besides. */
    bool has_viewer;
    const char *you;
    bool you_are_admin;
    const char *signed_in_by; /* "token" or "loopback" */
    int64_t time_ms;          /* the service's clock, since 1970 */
    int64_t sessions_left_out, workers_left_out;
};

#endif
