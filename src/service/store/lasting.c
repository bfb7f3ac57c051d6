#include "service/store/lasting.h"

#include "base/lock.h"

#include <pthread.h>
#include <stdlib.h>

enum { OPEN, READY, ADD, END, SESSIONS, PARTS, N_STATEMENTS };

/* Parts go with their session (a trigger). */
static const char *const sql[N_STATEMENTS] = {
    [OPEN] = "INSERT OR REPLACE INTO live_sessions (id, user, role, created_ms, ready_ms, request)"
             " VALUES (?, ?, ?, ?, ?, ?)",
    [READY] = "UPDATE live_sessions SET ready_ms = ?2 WHERE id = ?1",
    [ADD] = "INSERT INTO live_parts (session, kind, request)"
            " SELECT ?1, ?2, ?3 FROM live_sessions WHERE id = ?1",
    [END] = "DELETE FROM live_sessions WHERE id = ?",
    [SESSIONS] = "SELECT id, user, role, created_ms, ready_ms, request FROM live_sessions"
                 " ORDER BY ready_ms = 0, n",
    [PARTS] = "SELECT kind, request FROM live_parts WHERE session = ? ORDER BY n",
};

PRN_LOCK(lasting);

struct prn_lasting {
    pthread_mutex_t lock;
    sqlite3 *db PRN_GUARDED(lasting);
    sqlite3_stmt *statements[N_STATEMENTS] PRN_GUARDED(lasting);
};

PRN_LOCK_FUNCTIONS(lasting, struct prn_lasting, lock)

int prn_lasting_new(const struct prn_state *state, struct prn_lasting **ret_live,
                    struct prony_error *err) PRN_ALONE
{
    struct prn_lasting *l = calloc(1, sizeof *l);
    if (!l)
        return prn_fail_memory(err);
    pthread_mutex_init(&l->lock, NULL);
    int code = prn_state_connect(state, false, &l->db, err);
    for (size_t i = 0; code == 0 && i < N_STATEMENTS; i++)
        code = prn_db_prepare(l->db, sql[i], &l->statements[i], err);
    if (code < 0)
        prn_lasting_free(l);
    else
        *ret_live = l;
    return code;
}

void prn_lasting_free(struct prn_lasting *live) PRN_ALONE
{
    if (!live)
        return;
    for (size_t i = 0; i < N_STATEMENTS; i++)
        sqlite3_finalize(live->statements[i]);
    sqlite3_close(live->db);
    pthread_mutex_destroy(&live->lock);
    free(live);
}

static void bind_id(sqlite3_stmt *s, const uint8_t *id)
{
    sqlite3_bind_blob(s, 1, id, PRN_LASTING_ID_BYTES, SQLITE_STATIC);
}

int prn_lasting_open(struct prn_lasting *live, const struct prn_lasting_session *session,
                     struct prony_error *err)
{
    lasting_lock(live);
    sqlite3_stmt *s = live->statements[OPEN];
    bind_id(s, session->id);
    sqlite3_bind_text(s, 2, session->user, -1, SQLITE_STATIC);
    sqlite3_bind_int(s, 3, session->role);
    sqlite3_bind_int64(s, 4, session->created_ms);
    sqlite3_bind_int64(s, 5, session->ready_ms);
    sqlite3_bind_blob64(s, 6, session->request, session->bytes, SQLITE_STATIC);
    int code = prn_db_run(live->db, s, err);
    lasting_unlock(live);
    return code;
}

int prn_lasting_ready(struct prn_lasting *live, const uint8_t *id, int64_t ready_ms,
                      struct prony_error *err)
{
    lasting_lock(live);
    bind_id(live->statements[READY], id);
    sqlite3_bind_int64(live->statements[READY], 2, ready_ms);
    int code = prn_db_run(live->db, live->statements[READY], err);
    lasting_unlock(live);
    return code;
}

int prn_lasting_add(struct prn_lasting *live, const uint8_t *id, enum prn_lasting_kind kind,
                    const void *request, size_t bytes, struct prony_error *err)
{
    lasting_lock(live);
    sqlite3_stmt *s = live->statements[ADD];
    bind_id(s, id);
    sqlite3_bind_int(s, 2, (int)kind);
    sqlite3_bind_blob64(s, 3, request, bytes, SQLITE_STATIC);
    int code = prn_db_run(live->db, s, err);
    lasting_unlock(live);
    return code;
}

int prn_lasting_end(struct prn_lasting *live, const uint8_t *id, struct prony_error *err)
{
    lasting_lock(live);
    bind_id(live->statements[END], id);
    int code = prn_db_run(live->db, live->statements[END], err);
    lasting_unlock(live);
    return code;
}

static int end_query_locked(struct prn_lasting *l, sqlite3_stmt *s, int code, int step,
                            struct prony_error *err) PRN_HOLDS(lasting)
{
    if (code == 0 && step != SQLITE_DONE)
        code = prn_db_fail(l->db, err);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return code;
}

int prn_lasting_sessions(struct prn_lasting *live, prn_lasting_session_visit *visit, void *context,
                         struct prony_error *err)
{
    int code = 0;
    int step = SQLITE_DONE;
    lasting_lock(live);
    sqlite3_stmt *s = live->statements[SESSIONS];
    while (code == 0 && (step = sqlite3_step(s)) == SQLITE_ROW) {
        const struct prn_lasting_session session = {.id = sqlite3_column_blob(s, 0),
                                                    .user = (const char *)sqlite3_column_text(s, 1),
                                                    .role = sqlite3_column_int(s, 2),
                                                    .created_ms = sqlite3_column_int64(s, 3),
                                                    .ready_ms = sqlite3_column_int64(s, 4),
                                                    .request = sqlite3_column_blob(s, 5),
                                                    .bytes = (size_t)sqlite3_column_bytes(s, 5)};
        if (session.id && session.user && sqlite3_column_bytes(s, 0) == PRN_LASTING_ID_BYTES)
            code = visit(&session, context);
    }
    code = end_query_locked(live, s, code, step, err);
    lasting_unlock(live);
    return code;
}

int prn_lasting_parts(struct prn_lasting *live, const uint8_t *id, prn_lasting_part_visit *visit,
                      void *context, struct prony_error *err)
{
    int code = 0;
    int step = SQLITE_DONE;
    lasting_lock(live);
    sqlite3_stmt *s = live->statements[PARTS];
    bind_id(s, id);
    while (code == 0 && (step = sqlite3_step(s)) == SQLITE_ROW)
        code = visit((enum prn_lasting_kind)sqlite3_column_int(s, 0), sqlite3_column_blob(s, 1),
                     (size_t)sqlite3_column_bytes(s, 1), context);
    code = end_query_locked(live, s, code, step, err);
    lasting_unlock(live);
    return code;
}
