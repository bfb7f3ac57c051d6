/*
 * SQLite files of prony's own: which are theirs, of which version, and the shorthands of everybody
 * who has a connection. A file carries PRN_DB_… as its application, so that one of something else
 * isn't taken for it.
 */
#ifndef PRN_STORE_DB_H
#define PRN_STORE_DB_H

#include "base/error.h"

#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>

#define PRN_DB_SERVICE 0x70726f6e /* "pron": the state of a service */
#define PRN_DB_HISTORY 0x70726f68 /* "proh": a history of reports */

/* Steps from each version to the next; a new one is added, none is ever changed. */
struct prn_db_schema {
    int application;
    const char *name; /* for errors: "the history" */
    int version;      /* how many steps */
    const char *const *steps;
};

/* Brings a file up to the version of the schema. Refused are one of a newer version
 * (PRONY_EUNSUPPORTED) and one that isn't of this application (PRONY_EFORMAT). */
PRONY_MUST_CHECK int prn_db_migrate(sqlite3 *db, const struct prn_db_schema *schema,
                                    struct prony_error *err);

/* Reads the number that a PRAGMA gives. */
PRONY_MUST_CHECK int prn_db_integer(sqlite3 *db, const char *sql, int *ret_value,
                                    struct prony_error *err);

/* A failed call becomes PRONY_EIO (PRONY_ENOMEM, PRONY_ELIMIT for a full disk), without the path of
 * the database. */
int prn_db_fail(sqlite3 *db, struct prony_error *err);
PRONY_MUST_CHECK int prn_db_exec(sqlite3 *db, const char *sql, struct prony_error *err);
PRONY_MUST_CHECK int prn_db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret_statement,
                                    struct prony_error *err);
/* Runs a statement that gives no rows, and makes it ready for the next use. */
PRONY_MUST_CHECK int prn_db_run(sqlite3 *db, sqlite3_stmt *statement, struct prony_error *err);

/* Whether there is another row; false at the end, and with `code` set when there is a fault. A
 * fault of before ends a loop, too:
 *
 *     while (prn_db_next(db, statement, &code, err))
 *         code = take(statement);
 */
bool prn_db_next(sqlite3 *db, sqlite3_stmt *statement, int *code, struct prony_error *err);
/* Of a query that always has a row: the number in its first column. */
PRONY_MUST_CHECK int prn_db_number(sqlite3 *db, sqlite3_stmt *statement, int64_t *ret_value,
                                   struct prony_error *err);
/* Ends a transaction by what came of it. */
PRONY_MUST_CHECK int prn_db_end(sqlite3 *db, int code, struct prony_error *err);

/* How long a statement waits for another process. */
#define PRN_DB_BUSY_TIMEOUT_MS 5000

/* Where the user's state belongs: $XDG_STATE_HOME/prony, or ~/.local/state/prony. `what` is for the
 * error when there is no such place. */
PRONY_MUST_CHECK int prn_state_default(const char *what, char folder[PATH_MAX],
                                       struct prony_error *err);

#endif
