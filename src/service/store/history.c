#include "service/store/history.h"

#include "base/lock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    ADD_SESSION,
    TRIM_SESSIONS,
    ADD_MEASUREMENT,
    ADD_REPORT,
    TOTAL,
    DROP_REPORT,
    DROP_MEASUREMENT,
    SESSIONS,
    MEASUREMENTS,
    REPORT,
    N_STATEMENTS
};

static const char *const sql[N_STATEMENTS] = {
    [ADD_SESSION] = "INSERT INTO sessions (user, backends, created_ms, ready_ms, ended_ms, models,"
                    " runs, outcome) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    [TRIM_SESSIONS] = "DELETE FROM sessions WHERE id <= ?",
    [ADD_MEASUREMENT] = "INSERT INTO measurements (user, model, backends, created_ms, duration_ms,"
                        " report_bytes, summary) VALUES (?, ?, ?, ?, ?, ?, ?)",
    [ADD_REPORT] = "INSERT INTO reports (id, json) VALUES (?, ?)",
    [TOTAL] = "SELECT count(*), total(report_bytes), min(id) FROM measurements",
    [DROP_REPORT] = "DELETE FROM reports WHERE id = ?",
    [DROP_MEASUREMENT] = "DELETE FROM measurements WHERE id = ?",
    [SESSIONS] = "SELECT id, user, backends, created_ms, ready_ms, ended_ms, models, runs, outcome"
                 " FROM sessions WHERE (?1 IS NULL OR user = ?1) AND id < ?2"
                 " ORDER BY id DESC LIMIT ?3",
    [MEASUREMENTS] =
        "SELECT id, user, model, backends, created_ms, duration_ms, report_bytes, summary"
        " FROM measurements WHERE (?1 IS NULL OR user = ?1) AND id < ?2"
        " ORDER BY id DESC LIMIT ?3",
    [REPORT] = "SELECT json FROM reports JOIN measurements USING (id)"
               " WHERE id = ?1 AND (?2 IS NULL OR user = ?2)",
};

PRN_LOCK(history);

struct prn_history {
    pthread_mutex_t lock;
    struct prn_history_limits limits;
    sqlite3 *db PRN_GUARDED(history);
    sqlite3_stmt *statements[N_STATEMENTS] PRN_GUARDED(history);
};

PRN_LOCK_FUNCTIONS(history, struct prn_history, lock)

int prn_history_new(const struct prn_state *state, const struct prn_history_limits *limits,
                    struct prn_history **ret_history, struct prony_error *err) PRN_ALONE
{
    struct prn_history *h = calloc(1, sizeof *h);
    if (!h)
        return prn_fail_memory(err);
    pthread_mutex_init(&h->lock, NULL);
    if (limits)
        h->limits = *limits;
    h->limits.sessions = h->limits.sessions ? h->limits.sessions : 10000;
    h->limits.measurements = h->limits.measurements ? h->limits.measurements : 1000;
    h->limits.report_bytes = h->limits.report_bytes ? h->limits.report_bytes : 256 << 20;
    int code = prn_state_connect(state, false, &h->db, err);
    for (size_t i = 0; code == 0 && i < N_STATEMENTS; i++)
        code = prn_db_prepare(h->db, sql[i], &h->statements[i], err);
    if (code < 0)
        prn_history_free(h);
    else
        *ret_history = h;
    return code;
}

void prn_history_free(struct prn_history *history) PRN_ALONE
{
    if (!history)
        return;
    for (size_t i = 0; i < N_STATEMENTS; i++)
        sqlite3_finalize(history->statements[i]);
    sqlite3_close(history->db);
    pthread_mutex_destroy(&history->lock);
    free(history);
}

static void bind_text(sqlite3_stmt *s, int at, const char *text)
{
    sqlite3_bind_text(s, at, text ? text : "", -1, SQLITE_STATIC);
}

static int add_session_locked(struct prn_history *h, const struct prn_history_session *session,
                              struct prony_error *err) PRN_HOLDS(history)
{
    sqlite3_stmt *s = h->statements[ADD_SESSION];
    bind_text(s, 1, session->user);
    bind_text(s, 2, session->backends);
    sqlite3_bind_int64(s, 3, session->created_ms);
    sqlite3_bind_int64(s, 4, session->ready_ms);
    sqlite3_bind_int64(s, 5, session->ended_ms);
    sqlite3_bind_int64(s, 6, (int64_t)session->models);
    sqlite3_bind_int64(s, 7, (int64_t)session->runs);
    bind_text(s, 8, session->outcome);
    int code = prn_db_run(h->db, s, err);
    if (code < 0)
        return code;
    /* Ids have no gaps but those that failures leave. */
    int64_t last = sqlite3_last_insert_rowid(h->db);
    sqlite3_bind_int64(h->statements[TRIM_SESSIONS], 1, last - (int64_t)h->limits.sessions);
    return prn_db_run(h->db, h->statements[TRIM_SESSIONS], err);
}

int prn_history_add_session(struct prn_history *history, const struct prn_history_session *session,
                            struct prony_error *err)
{
    history_lock(history);
    int code = prn_db_exec(history->db, "BEGIN IMMEDIATE", err);
    if (code == 0)
        code = prn_db_end(history->db, add_session_locked(history, session, err), err);
    history_unlock(history);
    return code;
}

/* Drops the oldest measurement if there are too many; `ret_more` tells whether it did. */
static int trim_measurements_locked(struct prn_history *h, bool *ret_more, struct prony_error *err)
    PRN_HOLDS(history)
{
    sqlite3_stmt *total = h->statements[TOTAL];
    int code = sqlite3_step(total) == SQLITE_ROW ? 0 : prn_db_fail(h->db, err);
    bool over = code == 0 && ((uint64_t)sqlite3_column_int64(total, 0) > h->limits.measurements ||
                              sqlite3_column_double(total, 1) > (double)h->limits.report_bytes);
    int64_t oldest = over ? sqlite3_column_int64(total, 2) : 0;
    sqlite3_reset(total);
    for (int i = DROP_REPORT; over && code == 0 && i <= DROP_MEASUREMENT; i++) {
        sqlite3_bind_int64(h->statements[i], 1, oldest);
        code = prn_db_run(h->db, h->statements[i], err);
    }
    *ret_more = over;
    return code;
}

static int add_measurement_locked(struct prn_history *h, const struct prn_history_measurement *m,
                                  const void *report, size_t bytes, int64_t *ret_id,
                                  struct prony_error *err) PRN_HOLDS(history)
{
    sqlite3_stmt *s = h->statements[ADD_MEASUREMENT];
    bind_text(s, 1, m->user);
    bind_text(s, 2, m->model);
    bind_text(s, 3, m->backends);
    sqlite3_bind_int64(s, 4, m->created_ms);
    sqlite3_bind_int64(s, 5, m->duration_ms);
    sqlite3_bind_int64(s, 6, (int64_t)bytes);
    bind_text(s, 7, m->summary);
    int code = prn_db_run(h->db, s, err);
    if (code < 0)
        return code;
    int64_t id = sqlite3_last_insert_rowid(h->db);
    sqlite3_bind_int64(h->statements[ADD_REPORT], 1, id);
    sqlite3_bind_blob64(h->statements[ADD_REPORT], 2, bytes ? report : "", bytes, SQLITE_STATIC);
    code = prn_db_run(h->db, h->statements[ADD_REPORT], err);
    for (bool more = true; code == 0 && more;)
        code = trim_measurements_locked(h, &more, err);
    *ret_id = id;
    return code;
}

uint64_t prn_history_report_max(const struct prn_history *history)
{
    return history->limits.report_bytes / 8;
}

int prn_history_add_measurement(struct prn_history *history,
                                const struct prn_history_measurement *measurement,
                                const void *report, size_t bytes, int64_t *ret_id,
                                struct prony_error *err)
{
    if (bytes > prn_history_report_max(history))
        return prn_fail(err, PRONY_ELIMIT, "a report of %zu bytes is too large for the history",
                        bytes);
    int64_t id = 0;
    history_lock(history);
    int code = prn_db_exec(history->db, "BEGIN IMMEDIATE", err);
    if (code == 0)
        code =
            prn_db_end(history->db,
                       add_measurement_locked(history, measurement, report, bytes, &id, err), err);
    history_unlock(history);
    if (code == 0)
        *ret_id = id;
    return code;
}

static const char *text_at(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text ? text : "";
}

static int visit_session(sqlite3_stmt *s, void *visit, void *context)
{
    const struct prn_history_session session = {
        .id = sqlite3_column_int64(s, 0),
        .user = text_at(s, 1),
        .backends = text_at(s, 2),
        .created_ms = sqlite3_column_int64(s, 3),
        .ready_ms = sqlite3_column_int64(s, 4),
        .ended_ms = sqlite3_column_int64(s, 5),
        .models = (uint64_t)sqlite3_column_int64(s, 6),
        .runs = (uint64_t)sqlite3_column_int64(s, 7),
        .outcome = text_at(s, 8),
    };
    return (*(prn_history_session_visit **)visit)(&session, context);
}

static int visit_measurement(sqlite3_stmt *s, void *visit, void *context)
{
    const struct prn_history_measurement measurement = {
        .id = sqlite3_column_int64(s, 0),
        .user = text_at(s, 1),
        .model = text_at(s, 2),
        .backends = text_at(s, 3),
        .created_ms = sqlite3_column_int64(s, 4),
        .duration_ms = sqlite3_column_int64(s, 5),
        .report_bytes = (uint64_t)sqlite3_column_int64(s, 6),
        .summary = text_at(s, 7),
    };
    return (*(prn_history_measurement_visit **)visit)(&measurement, context);
}

/* `visit` points to the caller's function, which `row` knows the type of. */
static int query_rows(struct prn_history *h, int statement, const struct prn_history_query *query,
                      int (*row)(sqlite3_stmt *s, void *visit, void *context), void *visit,
                      void *context, struct prony_error *err)
{
    history_lock(h);
    sqlite3_stmt *s = h->statements[statement];
    if (query->user)
        sqlite3_bind_text(s, 1, query->user, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, query->before_id > 0 ? query->before_id : INT64_MAX);
    sqlite3_bind_int64(s, 3, query->limit ? (int64_t)query->limit : 100);
    int code = 0;
    while (prn_db_next(h->db, s, &code, err))
        code = row(s, visit, context);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    history_unlock(h);
    return code;
}

int prn_history_sessions(struct prn_history *history, const struct prn_history_query *query,
                         prn_history_session_visit *visit, void *context, struct prony_error *err)
{
    return query_rows(history, SESSIONS, query, visit_session, &visit, context, err);
}

int prn_history_measurements(struct prn_history *history, const struct prn_history_query *query,
                             prn_history_measurement_visit *visit, void *context,
                             struct prony_error *err)
{
    return query_rows(history, MEASUREMENTS, query, visit_measurement, &visit, context, err);
}

int prn_history_report(struct prn_history *history, int64_t id, const char *user,
                       struct prn_buffer *out, struct prony_error *err)
{
    history_lock(history);
    sqlite3_stmt *s = history->statements[REPORT];
    sqlite3_bind_int64(s, 1, id);
    if (user)
        sqlite3_bind_text(s, 2, user, -1, SQLITE_STATIC);
    int code = 0;
    if (prn_db_next(history->db, s, &code, err))
        prn_buffer_append(out, sqlite3_column_blob(s, 0), (size_t)sqlite3_column_bytes(s, 0));
    else if (code == 0)
        code = prn_fail(err, PRONY_ENOENT, "no measurement %lld", (long long)id);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    history_unlock(history);
    return code < 0 ? code : prn_buffer_error(out, err);
}
