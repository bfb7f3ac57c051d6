/*
 * What the service did: sessions that ended, and measurements with their reports. Both are kept up
 * to a number, reports also up to a size; the oldest go first. All functions may be called from
 * several threads; adding waits for no disk.
 */
#ifndef PRN_SERVICE_STORE_HISTORY_H
#define PRN_SERVICE_STORE_HISTORY_H

#include "base/buffer.h"
#include "service/store/state.h"

struct prn_history;

struct prn_history_limits {
    uint64_t sessions;     /* 0: 10,000 */
    uint64_t measurements; /* 0: 1,000 */
    uint64_t report_bytes; /* of all reports; 0: 256 MiB. One may have an eighth of it. */
};

/* `limits` NULL for the defaults. */
PRONY_MUST_CHECK int prn_history_new(const struct prn_state *state,
                                     const struct prn_history_limits *limits,
                                     struct prn_history **ret_history, struct prony_error *err);
void prn_history_free(struct prn_history *history); /* NULL does nothing */

/* Times in milliseconds since 1970. */
struct prn_history_session {
    int64_t id; /* given by add; counts up */
    const char *user;
    const char *backends; /* "local/onnxrt-cpu, local/openvino-cpu" */
    int64_t created_ms;
    int64_t ready_ms; /* 0: never */
    int64_t ended_ms;
    uint64_t models, runs;
    const char *outcome; /* "closed", "lost", "left the queue", … */
};

struct prn_history_measurement {
    int64_t id;
    const char *user;
    const char *model; /* for people */
    const char *backends;
    int64_t created_ms;
    int64_t duration_ms;
    const char *summary;   /* prn_profile_summary() of the report, "" when it has none */
    uint64_t report_bytes; /* by queries */
};

PRONY_MUST_CHECK int prn_history_add_session(struct prn_history *history,
                                             const struct prn_history_session *session,
                                             struct prony_error *err);
/* `report` is JSON. PRONY_ELIMIT: it has more than prn_history_report_max() bytes. */
PRONY_MUST_CHECK int prn_history_add_measurement(struct prn_history *history,
                                                 const struct prn_history_measurement *measurement,
                                                 const void *report, size_t bytes, int64_t *ret_id,
                                                 struct prony_error *err);

uint64_t prn_history_report_max(const struct prn_history *history);

/* Newest first. */
struct prn_history_query {
    const char *user;  /* NULL: everybody's */
    int64_t before_id; /* 0: from the newest; else the last id of the page before */
    size_t limit;      /* 0: 100 */
};

/* What they get is borrowed for the call; anything but 0 ends the query, which returns it. They
 * must not call this history. */
typedef int prn_history_session_visit(const struct prn_history_session *session, void *context);
typedef int prn_history_measurement_visit(const struct prn_history_measurement *measurement,
                                          void *context);

PRONY_MUST_CHECK int prn_history_sessions(struct prn_history *history,
                                          const struct prn_history_query *query,
                                          prn_history_session_visit *visit, void *context,
                                          struct prony_error *err);
PRONY_MUST_CHECK int prn_history_measurements(struct prn_history *history,
                                              const struct prn_history_query *query,
                                              prn_history_measurement_visit *visit, void *context,
                                              struct prony_error *err);

/* Appends the report; `user` NULL: anybody's, otherwise only if it is theirs. PRONY_ENOENT. */
PRONY_MUST_CHECK int prn_history_report(struct prn_history *history, int64_t id, const char *user,
                                        struct prn_buffer *out, struct prony_error *err);

#endif
