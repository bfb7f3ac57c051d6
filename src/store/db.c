#include "store/db.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int prn_db_fail(sqlite3 *db, struct prony_error *err)
{
    int code = db ? sqlite3_errcode(db) : SQLITE_NOMEM;
    if (code == SQLITE_NOMEM)
        return prn_fail_memory(err);
    return prn_fail(err, code == SQLITE_FULL ? PRONY_ELIMIT : PRONY_EIO,
                    "cannot use the database: %s", sqlite3_errmsg(db));
}

int prn_db_exec(sqlite3 *db, const char *sql, struct prony_error *err)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : prn_db_fail(db, err);
}

int prn_db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret_statement,
                   struct prony_error *err)
{
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret_statement, NULL) !=
        SQLITE_OK)
        return prn_db_fail(db, err);
    return 0;
}

int prn_db_run(sqlite3 *db, sqlite3_stmt *statement, struct prony_error *err)
{
    int code = sqlite3_step(statement) == SQLITE_DONE ? 0 : prn_db_fail(db, err);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return code;
}

bool prn_db_next(sqlite3 *db, sqlite3_stmt *statement, int *code, struct prony_error *err)
{
    int step = *code == 0 ? sqlite3_step(statement) : SQLITE_DONE;
    if (step != SQLITE_ROW && step != SQLITE_DONE)
        *code = prn_db_fail(db, err);
    return step == SQLITE_ROW;
}

int prn_db_number(sqlite3 *db, sqlite3_stmt *statement, int64_t *ret_value, struct prony_error *err)
{
    int code = sqlite3_step(statement) == SQLITE_ROW ? 0 : prn_db_fail(db, err);
    if (code == 0)
        *ret_value = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return code;
}

int prn_db_end(sqlite3 *db, int code, struct prony_error *err)
{
    if (code == 0)
        code = prn_db_exec(db, "COMMIT", err);
    if (code < 0)
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return code;
}

int prn_db_integer(sqlite3 *db, const char *sql, int *ret_value, struct prony_error *err)
{
    sqlite3_stmt *statement = NULL;
    int64_t value = 0;
    int code = prn_db_prepare(db, sql, &statement, err);
    if (code == 0)
        code = prn_db_number(db, statement, &value, err);
    if (code == 0)
        *ret_value = (int)value;
    sqlite3_finalize(statement);
    return code;
}

/* Of an empty file everything is 0; a file without our mark that has tables is somebody else's. */
static int check_owner(sqlite3 *db, const struct prn_db_schema *schema, int version,
                       struct prony_error *err)
{
    int application = 0;
    int tables = 0;
    int code = prn_db_integer(db, "PRAGMA application_id", &application, err);
    if (code == 0)
        code = prn_db_integer(db, "SELECT count(*) FROM sqlite_master", &tables, err);
    if (code < 0)
        return code;
    bool fresh = version == 0 && application == 0 && tables == 0;
    if (!fresh && application != schema->application)
        return prn_fail(err, PRONY_EFORMAT, "%s is not prony's", schema->name);
    if (version > schema->version)
        return prn_fail(err, PRONY_EUNSUPPORTED,
                        "%s was used by a newer prony (schema %d, this one knows %d)", schema->name,
                        version, schema->version);
    if (version < 0)
        return prn_fail(err, PRONY_EFORMAT, "%s has no version", schema->name);
    return 0;
}

int prn_db_migrate(sqlite3 *db, const struct prn_db_schema *schema, struct prony_error *err)
{
    int version = 0;
    int code = prn_db_integer(db, "PRAGMA user_version", &version, err);
    if (code == 0)
        code = check_owner(db, schema, version, err);
    if (code < 0 || version == schema->version)
        return code;
    /* Another process may have been here meanwhile. */
    code = prn_db_exec(db, "BEGIN IMMEDIATE", err);
    if (code == 0)
        code = prn_db_integer(db, "PRAGMA user_version", &version, err);
    if (code == 0)
        code = check_owner(db, schema, version, err);
    for (int i = version; code == 0 && i < schema->version; i++)
        code = prn_db_exec(db, schema->steps[i], err);
    char mark[96];
    snprintf(mark, sizeof mark, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             schema->application, schema->version);
    if (code == 0)
        code = prn_db_exec(db, mark, err);
    return prn_db_end(db, code, err);
}

int prn_state_default(const char *what, char folder[PATH_MAX], struct prony_error *err)
{
    const char *state = secure_getenv("XDG_STATE_HOME");
    const char *home = secure_getenv("HOME");
    int n = -1;
    if (state && *state == '/')
        n = snprintf(folder, PATH_MAX, "%s/prony", state);
    else if (home && *home == '/')
        n = snprintf(folder, PATH_MAX, "%s/.local/state/prony", home);
    if (n < 0)
        return prn_fail(err, PRONY_EUSAGE, "no place for %s: HOME is not set; name one", what);
    return n < PATH_MAX ? 0 : prn_fail_errno(err, ENAMETOOLONG, "use folder", "prony");
}
