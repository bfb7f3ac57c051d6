#include "service/store/state.h"

#include "base/io.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SCHEMA_VERSION 6

struct prn_state {
    char folder[PATH_MAX];
    int fd;
    int serve_fd; /* the lock of `prony serve`; -1: not taken */
};

/* The generation of tokens counts their changes, so that whoever keeps them in memory needs no
 * comparison. */
static const char *const steps[SCHEMA_VERSION] = {
    "CREATE TABLE tokens (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, user TEXT NOT NULL,"
    "  role INTEGER NOT NULL, created_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE generations (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
    "INSERT INTO generations VALUES ('tokens', 1);"
    "CREATE TRIGGER tokens_added AFTER INSERT ON tokens BEGIN"
    "  UPDATE generations SET value = value + 1 WHERE name = 'tokens'; END;"
    "CREATE TRIGGER tokens_revoked AFTER DELETE ON tokens BEGIN"
    "  UPDATE generations SET value = value + 1 WHERE name = 'tokens'; END;"
    "CREATE TABLE blobs (sha256 BLOB PRIMARY KEY, bytes INTEGER NOT NULL,"
    "  used_ms INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, user TEXT NOT NULL,"
    "  backends TEXT NOT NULL, created_ms INTEGER NOT NULL, ready_ms INTEGER NOT NULL,"
    "  ended_ms INTEGER NOT NULL, models INTEGER NOT NULL, runs INTEGER NOT NULL,"
    "  outcome TEXT NOT NULL);"
    "CREATE TABLE measurements (id INTEGER PRIMARY KEY AUTOINCREMENT, user TEXT NOT NULL,"
    "  model TEXT NOT NULL, backends TEXT NOT NULL, created_ms INTEGER NOT NULL,"
    "  duration_ms INTEGER NOT NULL, report_bytes INTEGER NOT NULL);"
    /* Apart, so that a list of measurements doesn't step over their reports. */
    "CREATE TABLE reports (id INTEGER PRIMARY KEY REFERENCES measurements, json BLOB NOT NULL);",
    "CREATE TABLE slurm_jobs (job INTEGER PRIMARY KEY, hardware TEXT NOT NULL,"
    "  label TEXT NOT NULL, key BLOB, token BLOB);"
    "CREATE TABLE slurm_service (one INTEGER PRIMARY KEY, id TEXT NOT NULL);",
    /* What a list shows of a report, as JSON; "": not known, as of reports from before. */
    "ALTER TABLE measurements ADD COLUMN summary TEXT NOT NULL DEFAULT '';",
    /* What workers of a hardware offered when they were last connected: a Hello. */
    "CREATE TABLE known_hardware (hardware TEXT PRIMARY KEY, hello BLOB NOT NULL) WITHOUT ROWID;",
    "CREATE TABLE uses (month TEXT NOT NULL, user TEXT NOT NULL, hardware TEXT NOT NULL,"
    "  sessions INTEGER NOT NULL, host_s REAL NOT NULL, usd REAL NOT NULL,"
    "  PRIMARY KEY (month, user, hardware)) WITHOUT ROWID;"
    "CREATE TABLE bookings (id INTEGER PRIMARY KEY AUTOINCREMENT, target TEXT NOT NULL,"
    "  user TEXT NOT NULL, is_host INTEGER NOT NULL, hosts INTEGER NOT NULL,"
    "  from_ms INTEGER NOT NULL, to_ms INTEGER NOT NULL);",
    /* Open sessions, as the messages that their clients sent. */
    "CREATE TABLE live_sessions (n INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE,"
    "  user TEXT NOT NULL, role INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
    "  ready_ms INTEGER NOT NULL, request BLOB NOT NULL);"
    "CREATE TABLE live_parts (n INTEGER PRIMARY KEY, session BLOB NOT NULL, kind INTEGER NOT NULL,"
    "  request BLOB NOT NULL);"
    "CREATE INDEX live_parts_of ON live_parts (session);"
    "CREATE TRIGGER live_sessions_ended AFTER DELETE ON live_sessions BEGIN"
    "  DELETE FROM live_parts WHERE session = old.id; END;",
};

static const struct prn_db_schema state_schema = {
    PRN_DB_SERVICE, "'" PRN_STATE_DATABASE "' of the state folder", SCHEMA_VERSION, steps};

int prn_state_migrate(sqlite3 *db, struct prony_error *err)
{
    return prn_db_migrate(db, &state_schema, err);
}

/* Nobody else may look at hashes of tokens and at users' models, or change them. */
static int check_folder(int fd, const char *path, struct prony_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return prn_fail_errno(err, errno, "look at folder", path);
    if (st.st_uid != geteuid())
        return prn_fail(err, PRONY_EDENIED, "state folder '%s' belongs to another user", path);
    if (st.st_mode & 077)
        return prn_fail(err, PRONY_EDENIED,
                        "state folder '%s' is open to other users; close it with chmod 700", path);
    return 0;
}

int prn_state_folder_open(const char *folder, int *ret_fd, struct prony_error *err)
{
    char path[PATH_MAX];
    if (!*folder || strlen(folder) >= PATH_MAX)
        return prn_fail(err, PRONY_EUSAGE, "'%s' is not a folder name", folder);
    memcpy(path, folder, strlen(folder) + 1);
    int code = prn_make_folders(path, err);
    if (code < 0)
        return code;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open folder", path);
    code = check_folder(fd, path, err);
    if (code < 0)
        close(fd);
    else
        *ret_fd = fd;
    return code;
}

static int open_folder(struct prn_state *state, const char *folder, struct prony_error *err)
{
    char own[PATH_MAX];
    int code = folder ? 0 : prn_state_default("the state of the service", own, err);
    if (code == 0)
        code = prn_state_folder_open(folder ? folder : own, &state->fd, err);
    if (code == 0 && !realpath(folder ? folder : own, state->folder))
        code = prn_fail_errno(err, errno, "open folder", folder ? folder : own);
    return code;
}

/* A file of this name, locked for as long as it is open; -1 with errno when that fails. */
static int open_lock(const struct prn_state *state, const char *name, int operation)
{
    int fd = openat(state->fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    while (flock(fd, operation) < 0) {
        if (errno == EINTR)
            continue;
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int take_serve_lock(struct prn_state *state, struct prony_error *err)
{
    state->serve_fd = open_lock(state, "serve.lock", LOCK_EX | LOCK_NB);
    if (state->serve_fd >= 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return prn_fail(err, PRONY_EUNAVAILABLE, "another 'prony serve' uses the state folder '%s'",
                        state->folder);
    return prn_fail_errno(err, errno, "lock folder", state->folder);
}

/* Two processes that make the database at the same time take turns: changing to WAL doesn't wait
 * as other statements do. */
static int prepare_database(const struct prn_state *state, struct prony_error *err)
{
    int lock = open_lock(state, "open.lock", LOCK_EX);
    if (lock < 0)
        return prn_fail_errno(err, errno, "lock folder", state->folder);
    /* The files that SQLite makes beside it get its mode. */
    int fd = openat(state->fd, PRN_STATE_DATABASE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int code = fd < 0 ? prn_fail_errno(err, errno, "create a database in", state->folder) : 0;
    if (fd >= 0)
        close(fd);
    sqlite3 *db = NULL;
    if (code == 0)
        code = prn_state_connect(state, true, &db, err);
    if (code == 0)
        code = prn_db_exec(db, "PRAGMA journal_mode = WAL", err);
    if (code == 0)
        code = prn_state_migrate(db, err);
    sqlite3_close(db);
    close(lock);
    return code;
}

/* A database that is there already is somebody's. */
static int check_empty(const struct prn_state *state, struct prony_error *err)
{
    if (faccessat(state->fd, PRN_STATE_DATABASE, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    return prn_fail(err, PRONY_EUSAGE, "'%s' has the state of a service already; name a new folder",
                    state->folder);
}

static int open_for(const char *folder, bool serve, bool empty, struct prn_state **ret_state,
                    struct prony_error *err)
{
    struct prn_state *state = calloc(1, sizeof *state);
    if (!state)
        return prn_fail_memory(err);
    state->fd = state->serve_fd = -1;
    int code = open_folder(state, folder, err);
    if (code == 0 && serve)
        code = take_serve_lock(state, err);
    if (code == 0)
        code = empty ? check_empty(state, err) : prepare_database(state, err);
    if (code < 0)
        prn_state_close(state);
    else
        *ret_state = state;
    return code;
}

int prn_state_open(const char *folder, bool serve, struct prn_state **ret_state,
                   struct prony_error *err)
{
    return open_for(folder, serve, false, ret_state, err);
}

int prn_state_open_empty(const char *folder, struct prn_state **ret_state, struct prony_error *err)
{
    return open_for(folder, true, true, ret_state, err);
}

void prn_state_close(struct prn_state *state)
{
    if (!state)
        return;
    if (state->serve_fd >= 0)
        close(state->serve_fd);
    if (state->fd >= 0)
        close(state->fd);
    free(state);
}

const char *prn_state_folder(const struct prn_state *state)
{
    return state->folder;
}

int prn_state_fd(const struct prn_state *state)
{
    return state->fd;
}

int prn_state_subfolder(const struct prn_state *state, const char *name, int *ret_fd,
                        struct prony_error *err)
{
    if (mkdirat(state->fd, name, 0700) < 0 && errno != EEXIST)
        return prn_fail_errno(err, errno, "create folder", name);
    int fd = openat(state->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open folder", name);
    int code = check_folder(fd, name, err);
    if (code < 0)
        close(fd);
    else
        *ret_fd = fd;
    return code;
}

int prn_state_connect(const struct prn_state *state, bool durable, sqlite3 **ret_db,
                      struct prony_error *err)
{
    char path[PATH_MAX + sizeof PRN_STATE_DATABASE + 1];
    snprintf(path, sizeof path, "%s/" PRN_STATE_DATABASE, state->folder);
    sqlite3 *db = NULL;
    int code = 0;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
            SQLITE_OK ||
        sqlite3_busy_timeout(db, PRN_DB_BUSY_TIMEOUT_MS) != SQLITE_OK)
        code = prn_db_fail(db, err);
    if (code == 0)
        code = prn_db_exec(
            db, durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", err);
    if (code < 0)
        sqlite3_close(db);
    else
        *ret_db = db;
    return code;
}
