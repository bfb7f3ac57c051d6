#include "service/store/backup.h"

#include "base/io.h"
#include "service/store/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A database that is copied to a new file. */
struct copy {
    sqlite3 *from;
    const char *temporary;
    bool migrate;
};

static int open_database(const char *path, int flags, sqlite3 **ret_db, struct prony_error *err)
{
    if (sqlite3_open_v2(path, ret_db, flags | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK &&
        sqlite3_busy_timeout(*ret_db, PRN_DB_BUSY_TIMEOUT_MS) == SQLITE_OK)
        return 0;
    return prn_db_fail(*ret_db, err);
}

/* Sessions that were open when it was saved have nobody who comes back. */
static int migrate(const char *path, struct prony_error *err)
{
    sqlite3 *db = NULL;
    int code = open_database(path, SQLITE_OPEN_READWRITE, &db, err);
    if (code == 0)
        code = prn_state_migrate(db, err);
    if (code == 0)
        code = prn_db_exec(db, "DELETE FROM live_sessions", err);
    sqlite3_close(db);
    return code;
}

/* SQLite writes to the name; the descriptor is of the same file, and gets it onto the disk. */
static int write_copy(int fd, const char *name, void *context, struct prony_error *err)
{
    (void)fd;
    (void)name;
    const struct copy *copy = context;
    sqlite3_stmt *vacuum = NULL;
    int code = prn_db_prepare(copy->from, "VACUUM INTO ?1", &vacuum, err);
    if (code == 0 && sqlite3_bind_text(vacuum, 1, copy->temporary, -1, SQLITE_STATIC) != SQLITE_OK)
        code = prn_db_fail(copy->from, err);
    if (code == 0)
        code = prn_db_run(copy->from, vacuum, err);
    sqlite3_finalize(vacuum);
    return code == 0 && copy->migrate ? migrate(copy->temporary, err) : code;
}

/* It has what lets workers in, so nobody else may read it. */
static int copy_to(sqlite3 *from, const char *path, bool migrate_it, struct prony_error *err)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)getpid()) >=
        (int)sizeof temporary)
        return prn_fail_errno(err, ENAMETOOLONG, "write", path);
    struct copy copy = {from, temporary, migrate_it};
    return prn_write_and_rename(path, temporary, 0600, write_copy, &copy, err);
}

static int check_owner(sqlite3 *db, const char *path, struct prony_error *err)
{
    int application = 0;
    if (prn_db_integer(db, "PRAGMA application_id", &application, NULL) < 0 ||
        application != PRN_DB_SERVICE)
        return prn_fail(err, PRONY_EFORMAT, "'%s' is not the state of a service", path);
    return 0;
}

static int check_whole(sqlite3 *db, const char *path, struct prony_error *err)
{
    sqlite3_stmt *check = NULL;
    int code = prn_db_prepare(db, "PRAGMA integrity_check(1)", &check, err);
    const char *said = NULL;
    if (code == 0 && sqlite3_step(check) == SQLITE_ROW)
        said = (const char *)sqlite3_column_text(check, 0);
    if (code == 0 && (!said || strcmp(said, "ok") != 0))
        code = prn_fail(err, PRONY_EFORMAT, "backup '%s' is damaged", path);
    sqlite3_finalize(check);
    return code;
}

static int say(sqlite3 *db, const char *verb, const char *path, struct prn_buffer *out,
               struct prony_error *err)
{
    int tokens = 0, sessions = 0, reports = 0;
    int code = prn_db_integer(db, "SELECT count(*) FROM tokens", &tokens, err);
    if (code == 0)
        code = prn_db_integer(db, "SELECT count(*) FROM sessions", &sessions, err);
    if (code == 0)
        code = prn_db_integer(db, "SELECT count(*) FROM measurements", &reports, err);
    if (code == 0)
        prn_buffer_printf(out, "%s '%s': %d token%s, %d past session%s, %d measurement%s\n", verb,
                          path, tokens, tokens == 1 ? "" : "s", sessions, sessions == 1 ? "" : "s",
                          reports, reports == 1 ? "" : "s");
    return code == 0 ? prn_buffer_error(out, err) : code;
}

int prn_backup_write(const char *folder, const char *file, struct prn_buffer *out,
                     struct prony_error *err)
{
    char own[PATH_MAX], path[PATH_MAX + sizeof PRN_STATE_DATABASE + 1];
    sqlite3 *db = NULL;
    int code = folder ? 0 : prn_state_default("the state of the service", own, err);
    if (code < 0)
        return code;
    if (snprintf(path, sizeof path, "%s/" PRN_STATE_DATABASE, folder ? folder : own) >=
        (int)sizeof path)
        return prn_fail_errno(err, ENAMETOOLONG, "read", folder);
    if (access(path, R_OK) < 0)
        return prn_fail_errno(err, errno, "read", path);
    /* A reader of a database that is in use writes to the index that readers share. */
    code = open_database(path, SQLITE_OPEN_READWRITE, &db, err);
    if (code == 0)
        code = check_owner(db, path, err);
    if (code == 0)
        code = copy_to(db, file, false, err);
    sqlite3_close(db);
    db = NULL;
    if (code == 0) /* what is in the file, not what is there by now */
        code = open_database(file, SQLITE_OPEN_READONLY, &db, err);
    if (code == 0)
        code = say(db, "saved", file, out, err);
    sqlite3_close(db);
    return code;
}

int prn_backup_restore(const char *folder, const char *file, struct prn_buffer *out,
                       struct prony_error *err)
{
    char path[PATH_MAX + sizeof PRN_STATE_DATABASE + 1];
    struct prn_state *state = NULL;
    sqlite3 *db = NULL;
    int code = access(file, R_OK) < 0 ? prn_fail_errno(err, errno, "read", file) : 0;
    if (code == 0)
        code = open_database(file, SQLITE_OPEN_READONLY, &db, err);
    if (code == 0)
        code = check_owner(db, file, err);
    if (code == 0)
        code = check_whole(db, file, err);
    if (code == 0)
        code = prn_state_open_empty(folder, &state, err);
    if (code == 0) {
        snprintf(path, sizeof path, "%s/" PRN_STATE_DATABASE, prn_state_folder(state));
        code = copy_to(db, path, true, err);
    }
    if (code == 0 && fsync(prn_state_fd(state)) < 0)
        code = prn_fail_errno(err, errno, "write", path);
    if (code == 0)
        code = say(db, "restored", prn_state_folder(state), out, err);
    prn_state_close(state);
    sqlite3_close(db);
    return code;
}
