#include "service/store/accounts.h"

#include "base/lock.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ADD, USES, BOOK, CANCEL, FORGET, BOOKINGS, N_STATEMENTS };

static const char *const sql[N_STATEMENTS] = {
    [ADD] = "INSERT INTO uses (month, user, hardware, sessions, host_s, usd)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
            " sessions = sessions + excluded.sessions, host_s = host_s + excluded.host_s,"
            " usd = usd + excluded.usd",
    [USES] = "SELECT month, user, hardware, sessions, host_s, usd FROM uses"
             " WHERE (?1 IS NULL OR user = ?1) AND (?2 IS NULL OR month >= ?2)"
             " ORDER BY month, user, hardware",
    [BOOK] = "INSERT INTO bookings (target, user, is_host, hosts, from_ms, to_ms)"
             " VALUES (?, ?, ?, ?, ?, ?)",
    [CANCEL] = "DELETE FROM bookings WHERE id = ?",
    [FORGET] = "DELETE FROM bookings WHERE to_ms <= ?",
    [BOOKINGS] = "SELECT id, target, user, is_host, hosts, from_ms, to_ms FROM bookings"
                 " ORDER BY from_ms, id",
};

PRN_LOCK(accounts);

struct prn_accounts {
    pthread_mutex_t lock;
    sqlite3 *db PRN_GUARDED(accounts);
    sqlite3_stmt *statements[N_STATEMENTS] PRN_GUARDED(accounts);
};

PRN_LOCK_FUNCTIONS(accounts, struct prn_accounts, lock)

int prn_accounts_new(const struct prn_state *state, struct prn_accounts **ret_accounts,
                     struct prony_error *err) PRN_ALONE
{
    struct prn_accounts *a = calloc(1, sizeof *a);
    if (!a)
        return prn_fail_memory(err);
    pthread_mutex_init(&a->lock, NULL);
    int code = prn_state_connect(state, false, &a->db, err);
    for (size_t i = 0; code == 0 && i < N_STATEMENTS; i++)
        code = prn_db_prepare(a->db, sql[i], &a->statements[i], err);
    if (code < 0)
        prn_accounts_free(a);
    else
        *ret_accounts = a;
    return code;
}

void prn_accounts_free(struct prn_accounts *accounts) PRN_ALONE
{
    if (!accounts)
        return;
    for (size_t i = 0; i < N_STATEMENTS; i++)
        sqlite3_finalize(accounts->statements[i]);
    sqlite3_close(accounts->db);
    pthread_mutex_destroy(&accounts->lock);
    free(accounts);
}

void prn_month_of(int64_t ms, char ret_month[PRN_MONTH_SIZE])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    if (!gmtime_r(&seconds, &tm) || strftime(ret_month, PRN_MONTH_SIZE, "%Y-%m", &tm) == 0)
        memcpy(ret_month, "0000-00", PRN_MONTH_SIZE);
}

bool prn_month_is(const char *text)
{
    static const char form[] = "0000-00";
    for (size_t i = 0; i < sizeof form; i++)
        if (form[i] == '0' ? !isdigit((unsigned char)text[i]) : text[i] != form[i])
            return false;
    int month = (text[5] - '0') * 10 + text[6] - '0';
    return month >= 1 && month <= 12;
}

/* ---- Use ---- */

static int add_locked(struct prn_accounts *a, const struct prn_use *use, struct prony_error *err)
    PRN_HOLDS(accounts)
{
    sqlite3_stmt *s = a->statements[ADD];
    sqlite3_bind_text(s, 1, use->month, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 2, use->user, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 3, use->hardware, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 4, (int64_t)use->sessions);
    sqlite3_bind_double(s, 5, use->host_s);
    sqlite3_bind_double(s, 6, use->usd);
    return prn_db_run(a->db, s, err);
}

int prn_accounts_add(struct prn_accounts *accounts, const struct prn_use *uses, size_t n,
                     struct prony_error *err)
{
    accounts_lock(accounts);
    int code = prn_db_exec(accounts->db, "BEGIN IMMEDIATE", err);
    if (code == 0) {
        for (size_t i = 0; code == 0 && i < n; i++)
            code = add_locked(accounts, &uses[i], err);
        if (code == 0)
            code = prn_db_exec(accounts->db, "COMMIT", err);
        if (code < 0)
            sqlite3_exec(accounts->db, "ROLLBACK", NULL, NULL, NULL);
    }
    accounts_unlock(accounts);
    return code;
}

static const char *text_at(sqlite3_stmt *s, int column)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text ? text : "";
}

/* Ends a query; `step` is what sqlite3_step() said last. */
static int end_query_locked(struct prn_accounts *a, sqlite3_stmt *s, int code, int step,
                            struct prony_error *err) PRN_HOLDS(accounts)
{
    if (code == 0 && step != SQLITE_DONE)
        code = prn_db_fail(a->db, err);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return code;
}

int prn_accounts_visit(struct prn_accounts *accounts, const char *user, const char *since,
                       prn_use_visit *visit, void *context, struct prony_error *err)
{
    int code = 0;
    int step = SQLITE_DONE;
    accounts_lock(accounts);
    sqlite3_stmt *s = accounts->statements[USES];
    if (user)
        sqlite3_bind_text(s, 1, user, -1, SQLITE_STATIC);
    if (since)
        sqlite3_bind_text(s, 2, since, -1, SQLITE_STATIC);
    while (code == 0 && (step = sqlite3_step(s)) == SQLITE_ROW) {
        const struct prn_use use = {.month = text_at(s, 0),
                                    .user = text_at(s, 1),
                                    .hardware = text_at(s, 2),
                                    .sessions = (uint64_t)sqlite3_column_int64(s, 3),
                                    .host_s = sqlite3_column_double(s, 4),
                                    .usd = sqlite3_column_double(s, 5)};
        code = visit(&use, context);
    }
    code = end_query_locked(accounts, s, code, step, err);
    accounts_unlock(accounts);
    return code;
}

/* ---- Reservations ---- */

int prn_accounts_book(struct prn_accounts *accounts, const struct prn_booking *booking,
                      int64_t *ret_id, struct prony_error *err)
{
    accounts_lock(accounts);
    sqlite3_stmt *s = accounts->statements[BOOK];
    sqlite3_bind_text(s, 1, booking->target, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 2, booking->user, -1, SQLITE_STATIC);
    sqlite3_bind_int(s, 3, booking->is_host);
    sqlite3_bind_int64(s, 4, (int64_t)booking->hosts);
    sqlite3_bind_int64(s, 5, booking->from_ms);
    sqlite3_bind_int64(s, 6, booking->to_ms);
    int code = prn_db_run(accounts->db, s, err);
    if (code == 0)
        *ret_id = sqlite3_last_insert_rowid(accounts->db);
    accounts_unlock(accounts);
    return code;
}

int prn_accounts_cancel(struct prn_accounts *accounts, int64_t id, struct prony_error *err)
{
    accounts_lock(accounts);
    sqlite3_bind_int64(accounts->statements[CANCEL], 1, id);
    int code = prn_db_run(accounts->db, accounts->statements[CANCEL], err);
    accounts_unlock(accounts);
    return code;
}

int prn_accounts_bookings(struct prn_accounts *accounts, int64_t now_ms, prn_booking_visit *visit,
                          void *context, struct prony_error *err)
{
    int step = SQLITE_DONE;
    accounts_lock(accounts);
    sqlite3_bind_int64(accounts->statements[FORGET], 1, now_ms);
    int code = prn_db_run(accounts->db, accounts->statements[FORGET], err);
    sqlite3_stmt *s = accounts->statements[BOOKINGS];
    while (code == 0 && (step = sqlite3_step(s)) == SQLITE_ROW) {
        const struct prn_booking booking = {.id = sqlite3_column_int64(s, 0),
                                            .target = text_at(s, 1),
                                            .user = text_at(s, 2),
                                            .is_host = sqlite3_column_int(s, 3) != 0,
                                            .hosts = (uint64_t)sqlite3_column_int64(s, 4),
                                            .from_ms = sqlite3_column_int64(s, 5),
                                            .to_ms = sqlite3_column_int64(s, 6)};
        code = visit(&booking, context);
    }
    code = end_query_locked(accounts, s, code, step, err);
    accounts_unlock(accounts);
    return code;
}
