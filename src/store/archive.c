#include "store/archive.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/text.h"
#include "report/profile/json.h"
#include "store/archive_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#define FILE_NAME "history.db"
#define SERVICE_FILE "state.db"
/* Longer than others write: a history has no user who waits for an answer. */
#define BUSY_TIMEOUT_MS 60000
#define PACK_LEVEL 9
#define TEXT_MAX ((size_t)1 << 20)

#define SCHEMA_VERSION 1
static const char *const steps[SCHEMA_VERSION] = {
    "CREATE TABLE reports (id INTEGER PRIMARY KEY AUTOINCREMENT, identity BLOB NOT NULL UNIQUE,"
    "  created TEXT, created_ms INTEGER NOT NULL, added_ms INTEGER NOT NULL, git_commit TEXT,"
    "  branch TEXT, changed INTEGER NOT NULL, bytes INTEGER NOT NULL);"
    /* Apart, so that nothing else steps over them. */
    "CREATE TABLE contents (report INTEGER PRIMARY KEY REFERENCES reports ON DELETE CASCADE,"
    "  packed BLOB NOT NULL);"
    "CREATE TABLE results (report INTEGER NOT NULL REFERENCES reports ON DELETE CASCADE,"
    "  place INTEGER NOT NULL, series TEXT NOT NULL, model TEXT NOT NULL, backend TEXT NOT NULL,"
    "  sizes TEXT NOT NULL, machine TEXT NOT NULL, runtime_version TEXT, launches INTEGER NOT NULL,"
    "  samples INTEGER NOT NULL, median_ns REAL, low_ns REAL, high_ns REAL, log_error REAL,"
    "  canary_ns REAL, smallest_difference REAL NOT NULL, flags INTEGER NOT NULL, error TEXT,"
    "  PRIMARY KEY (report, place)) WITHOUT ROWID;"
    "CREATE INDEX results_by_model ON results (model);",
};

static const struct prn_db_schema archive_schema = {PRN_DB_HISTORY, "the database", SCHEMA_VERSION,
                                                    steps};

int prn_archive_in(const struct prn_archive *a, int code, struct prony_error *err)
{
    return code < 0 ? prn_fail_in(err, code, "'%s'", a->path) : code;
}

/* ---- Opening ---- */

static int connect_to(struct prn_archive *a, int flags, const char *uri, struct prony_error *err)
{
    if (sqlite3_open_v2(uri ? uri : a->path, &a->db, flags | SQLITE_OPEN_NOMUTEX, NULL) !=
            SQLITE_OK ||
        sqlite3_busy_timeout(a->db, BUSY_TIMEOUT_MS) != SQLITE_OK)
        return prn_db_fail(a->db, err);
    return prn_db_exec(a->db, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON", err);
}

static void disconnect(struct prn_archive *a)
{
    sqlite3_close(a->db);
    a->db = NULL;
}

/* Processes that make the file at the same time take turns: changing to WAL doesn't wait as other
 * statements do. The descriptor is closed while no connection is open, since that gives up the
 * locks that SQLite has on the file. */
static int prepare_file(struct prn_archive *a, struct prony_error *err)
{
    int fd = open(a->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open", a->path);
    while (flock(fd, LOCK_EX) < 0 && errno == EINTR)
        ;
    int application = 0;
    int code = connect_to(a, SQLITE_OPEN_READWRITE, NULL, err);
    if (code == 0)
        code = prn_db_integer(a->db, "PRAGMA application_id", &application, err);
    if (code == 0 && application == PRN_DB_SERVICE)
        code = prn_fail(err, PRONY_EUNSUPPORTED,
                        "it is the history of a service, which adds and removes by itself");
    if (code == 0)
        code = prn_db_migrate(a->db, &archive_schema, err);
    if (code == 0)
        code = prn_db_exec(a->db, "PRAGMA journal_mode = WAL", err);
    disconnect(a);
    close(fd);
    return prn_archive_in(a, code, err);
}

/* Where nothing can be written beside it, SQLite can't keep its notes, and nobody else changes it
 * either; unless somebody has left some. */
static bool is_immutable(const char *path)
{
    char folder[PATH_MAX];
    char wal[PATH_MAX + 8];
    snprintf(folder, sizeof folder, "%s", path);
    snprintf(wal, sizeof wal, "%s-wal", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    return access(slash ? folder : ".", W_OK) != 0 && access(wal, F_OK) != 0;
}

/* "file:" and the path with what means something in it escaped. */
static void immutable_uri(const char *path, char *uri, size_t size)
{
    size_t n = (size_t)snprintf(uri, size, "file:");
    for (const char *p = path; *p && n + 32 < size; p++)
        n += (size_t)snprintf(uri + n, size - n, strchr("?#%", *p) ? "%%%02x" : "%c",
                              (unsigned char)*p);
    snprintf(uri + n, size - n, "?immutable=1");
}

/* Whoever may write also clears away what SQLite notes beside the file. */
static int connect_for_reading(struct prn_archive *a, struct prony_error *err)
{
    char uri[3 * PATH_MAX + 32];
    if (!is_immutable(a->path)) {
        bool writable = access(a->path, W_OK) == 0;
        int code =
            connect_to(a, writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY, NULL, err);
        return code < 0 ? code : prn_db_exec(a->db, "PRAGMA query_only = ON", err);
    }
    immutable_uri(a->path, uri, sizeof uri);
    return connect_to(a, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, uri, err);
}

static int fail_no_history(const struct prn_archive *a, struct prony_error *err)
{
    return prn_fail(err, PRONY_ENOENT,
                    "there is no history '%s' yet: 'prony history add REPORT.json' begins one",
                    a->path);
}

/* A history of a service has another shape: what is in it goes through memory. */
static int take_service(struct prn_archive *a, struct prony_error *err)
{
    sqlite3 *service = a->db;
    a->db = NULL;
    int code = connect_to(a, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY,
                          ":memory:", err);
    if (code == 0)
        code = prn_db_migrate(a->db, &archive_schema, err);
    if (code == 0)
        code = prn_archive_take_service(a, service, err);
    sqlite3_close(service);
    return code;
}

static int open_for_reading(struct prn_archive *a, struct prony_error *err)
{
    struct stat st;
    int application = 0;
    int version = 0;
    if (stat(a->path, &st) < 0)
        return errno == ENOENT ? fail_no_history(a, err)
                               : prn_fail_errno(err, errno, "open", a->path);
    if (st.st_size == 0)
        return fail_no_history(a, err);
    int code = connect_for_reading(a, err);
    if (code == 0)
        code = prn_db_integer(a->db, "PRAGMA application_id", &application, err);
    if (code == 0)
        code = prn_db_integer(a->db, "PRAGMA user_version", &version, err);
    if (code == 0 && application == PRN_DB_SERVICE)
        code = take_service(a, err);
    else if (code == 0 && application == PRN_DB_HISTORY && version < SCHEMA_VERSION)
        code = prn_fail(err, PRONY_EUNSUPPORTED,
                        "it is of an older prony: 'prony history add' brings it up to date");
    else if (code == 0)
        code = prn_db_migrate(a->db, &archive_schema, err);
    return prn_archive_in(a, code, err);
}

static int open_for_writing(struct prn_archive *a, struct prony_error *err)
{
    int code = prepare_file(a, err);
    if (code == 0)
        code = prn_archive_in(a, connect_to(a, SQLITE_OPEN_READWRITE, NULL, err), err);
    return code;
}

static int find_path(struct prn_archive *a, const char *path, enum prn_archive_use use,
                     struct prony_error *err)
{
    char folder[PATH_MAX];
    struct stat st;
    int n;
    if (path) {
        bool inside = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
        n = snprintf(a->path, sizeof a->path, "%s%s", path, inside ? "/" SERVICE_FILE : "");
    } else {
        int code = prn_state_default("the history", folder, err);
        if (code == 0 && use == PRN_ARCHIVE_WRITE)
            code = prn_make_folders(folder, err);
        if (code < 0)
            return code;
        n = snprintf(a->path, sizeof a->path, "%s/" FILE_NAME, folder);
    }
    return n < (int)sizeof a->path ? 0 : prn_fail_errno(err, ENAMETOOLONG, "open", path);
}

int prn_archive_open(const char *path, enum prn_archive_use use, struct prn_archive **ret_archive,
                     struct prony_error *err)
{
    struct prn_archive *a = calloc(1, sizeof *a);
    if (!a)
        return prn_fail_memory(err);
    int code = find_path(a, path, use, err);
    if (code == 0)
        code = use == PRN_ARCHIVE_WRITE ? open_for_writing(a, err) : open_for_reading(a, err);
    if (code < 0)
        prn_archive_close(a);
    else
        *ret_archive = a;
    return code;
}

void prn_archive_close(struct prn_archive *archive)
{
    if (!archive)
        return;
    sqlite3_close(archive->db);
    free(archive);
}

/* ---- Adding ---- */

static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return mix(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* What was measured, in 128 bits: two hashes that begin differently. */
static void identify(const struct prn_profile *p, uint64_t identity[2])
{
    for (int k = 0; k < 2; k++) {
        uint64_t hash = k ? 0x9e3779b97f4a7c15u : 0xcbf29ce484222325u;
        hash = mix_text(hash, p->created);
        for (size_t i = 0; i < p->n_results; i++) {
            const struct prn_result *r = &p->results[i];
            hash = mix_text(hash, r->name);
            hash = mix(hash, &r->point, sizeof r->point);
            hash = mix(hash, r->samples, r->n_samples * sizeof *r->samples);
        }
        identity[k] = hash;
    }
}

/* "2026-01-02T03:04:05Z"; -1: something else. */
static int64_t parse_created(const char *created)
{
    struct tm tm = {0};
    const char *end = created ? strptime(created, "%Y-%m-%dT%H:%M:%SZ", &tm) : NULL;
    return end && !*end ? (int64_t)timegm(&tm) * 1000 : -1;
}

int64_t prn_archive_created_ms(const struct prn_profile *profile)
{
    return parse_created(profile->created);
}

int prn_archive_model(const struct prn_archive_report *report, const struct prn_result *result,
                      struct prn_arena *arena, const char **ret_model, struct prony_error *err)
{
    const struct prn_profile_model *m = prn_result_model(report->profile, result);
    const char *name = report->model;
    if (!name && report->profile->n_models > 1)
        name = m->name;
    if (!name && m->path) {
        const char *slash = strrchr(m->path, '/');
        name = slash ? slash + 1 : m->path;
    }
    struct prn_buffer clean = PRN_BUFFER_INIT(TEXT_MAX);
    prn_text_clean(&clean, name && *name ? name : "unnamed");
    int code = prn_buffer_error(&clean, err);
    *ret_model = code == 0 ? prn_arena_strdup(arena, prn_buffer_text(&clean)) : NULL;
    if (code == 0 && !*ret_model)
        code = prn_fail_memory(err);
    prn_buffer_release(&clean);
    return code;
}

/* "AMD EPYC, 2 cores", of the host where it was measured. */
static void machine_text(const struct prn_archive_report *report, const struct prn_result *result,
                         struct prn_buffer *out)
{
    const struct prn_profile *p = report->profile;
    const struct prn_environment *e = &p->environment;
    bool here = !result->hardware || strcmp(result->hardware, "local") == 0 || p->n_hosts == 0;
    for (size_t i = 0; i < p->n_hosts; i++)
        if (result->hardware && strcmp(p->hosts[i].hardware, result->hardware) == 0) {
            e = &p->hosts[i].environment;
            here = true;
        }
    const char *processor = here ? e->cpu : result->processor;
    if (report->machine) {
        prn_text_clean(out, report->machine);
        return;
    }
    prn_text_clean(out, processor ? processor : "unknown processor");
    if (here && e->cores > 0)
        prn_buffer_printf(out, ", %lld core%s", (long long)e->cores, e->cores == 1 ? "" : "s");
}

/* A row of `results`, and the texts that are made for it. */
struct row {
    struct prn_arena arena; /* the model's name */
    const char *model;
    struct prn_buffer series, backend, sizes, machine;
};

/* Of equal backends in one report the n-th is the n-th. */
static size_t ordinal_of(const struct prn_profile *p, const struct prn_result *result)
{
    size_t n = 1;
    for (const struct prn_result *r = p->results; r < result; r++)
        n += r->point == result->point && strcmp(r->name, result->name) == 0;
    return n;
}

static int fill_row(struct row *row, const struct prn_archive_report *report,
                    const struct prn_result *result, struct prony_error *err)
{
    size_t ordinal = ordinal_of(report->profile, result);
    int code = prn_archive_model(report, result, &row->arena, &row->model, err);
    if (code < 0)
        return code;
    machine_text(report, result, &row->machine);
    prn_text_clean(&row->backend, result->name);
    prn_point_text(prn_result_point(report->profile, result), &row->sizes);
    prn_buffer_printf(&row->series, "%s\n%s\n", row->model, prn_buffer_text(&row->machine));
    code = prn_comparison_key(report->profile, result, &row->series, err);
    if (code == 0 && ordinal > 1) {
        prn_buffer_printf(&row->backend, " #%zu", ordinal);
        prn_buffer_printf(&row->series, "\n%zu", ordinal);
    }
    struct prn_buffer *all[] = {&row->series, &row->backend, &row->sizes, &row->machine};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(all) && code == 0; i++)
        code = prn_buffer_error(all[i], err);
    return code;
}

static void bind_text(sqlite3_stmt *s, int at, const char *text)
{
    if (text)
        sqlite3_bind_text(s, at, text, -1, SQLITE_TRANSIENT);
    else
        sqlite3_bind_null(s, at);
}

/* SQLite makes NULL of NAN. */
static void bind_point(sqlite3_stmt *s, int at, const struct prn_trend_point *p)
{
    bind_text(s, at++, p->origin.runtime_version);
    sqlite3_bind_int64(s, at++, p->launches);
    sqlite3_bind_int64(s, at++, p->samples);
    sqlite3_bind_double(s, at++, p->median_ns);
    sqlite3_bind_double(s, at++, p->low_ns);
    sqlite3_bind_double(s, at++, p->high_ns);
    sqlite3_bind_double(s, at++, p->log_error);
    sqlite3_bind_double(s, at++, p->canary_ns);
    sqlite3_bind_double(s, at++, p->smallest_difference);
    sqlite3_bind_int64(s, at++, p->flags);
    bind_text(s, at, p->error);
}

static int add_result(struct prn_archive *a, sqlite3_stmt *insert,
                      const struct prn_archive_report *report, size_t place,
                      struct prony_error *err)
{
    const struct prn_result *result = &report->profile->results[place];
    struct row row = {.arena = PRN_ARENA_INIT(TEXT_MAX),
                      .series = PRN_BUFFER_INIT(64 * TEXT_MAX),
                      .backend = PRN_BUFFER_INIT(TEXT_MAX),
                      .sizes = PRN_BUFFER_INIT(TEXT_MAX),
                      .machine = PRN_BUFFER_INIT(TEXT_MAX)};
    struct prn_trend_point point = prn_trend_point(report->profile, result);
    int code = fill_row(&row, report, result, err);
    if (code == 0) {
        sqlite3_bind_int64(insert, 1, report->id);
        sqlite3_bind_int64(insert, 2, (int64_t)place);
        bind_text(insert, 3, prn_buffer_text(&row.series));
        bind_text(insert, 4, row.model);
        bind_text(insert, 5, prn_buffer_text(&row.backend));
        bind_text(insert, 6, prn_buffer_text(&row.sizes));
        bind_text(insert, 7, prn_buffer_text(&row.machine));
        bind_point(insert, 8, &point);
        code = prn_db_run(a->db, insert, err);
    }
    prn_arena_release(&row.arena);
    prn_buffer_release(&row.series);
    prn_buffer_release(&row.backend);
    prn_buffer_release(&row.sizes);
    prn_buffer_release(&row.machine);
    return code;
}

static int add_results(struct prn_archive *a, const struct prn_archive_report *report,
                       struct prony_error *err)
{
    sqlite3_stmt *insert = NULL;
    int code = prn_db_prepare(
        a->db, "INSERT INTO results VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", &insert, err);
    for (size_t i = 0; i < report->profile->n_results && code == 0; i++)
        code = add_result(a, insert, report, i, err);
    sqlite3_finalize(insert);
    return code;
}

static int add_content(struct prn_archive *a, const struct prn_archive_report *report,
                       struct prony_error *err)
{
    size_t room = ZSTD_compressBound(report->len);
    void *packed = malloc(room);
    size_t size = packed ? ZSTD_compress(packed, room, report->json, report->len, PACK_LEVEL) : 0;
    sqlite3_stmt *insert = NULL;
    int code = packed && !ZSTD_isError(size) ? 0 : prn_fail_memory(err);
    if (code == 0)
        code = prn_db_prepare(a->db, "INSERT INTO contents VALUES (?, ?)", &insert, err);
    if (code == 0) {
        sqlite3_bind_int64(insert, 1, report->id);
        sqlite3_bind_blob64(insert, 2, packed, size, SQLITE_STATIC);
        code = prn_db_run(a->db, insert, err);
    }
    sqlite3_finalize(insert);
    free(packed);
    return code;
}

/* Finds the report that has this identity; `ret_known` tells whether there is one. */
static int find_known(struct prn_archive *a, const uint64_t identity[2],
                      struct prn_archive_report *report, struct prony_error *err)
{
    sqlite3_stmt *find = NULL;
    int code = prn_db_prepare(a->db, "SELECT id FROM reports WHERE identity = ?", &find, err);
    if (code < 0)
        return code;
    sqlite3_bind_blob(find, 1, identity, 2 * sizeof *identity, SQLITE_STATIC);
    int step = sqlite3_step(find);
    report->known = step == SQLITE_ROW;
    if (report->known)
        report->id = sqlite3_column_int64(find, 0);
    else if (step != SQLITE_DONE)
        code = prn_db_fail(a->db, err);
    sqlite3_finalize(find);
    return code;
}

static int add_origin(struct prn_archive *a, const uint64_t identity[2],
                      struct prn_archive_report *report, struct prony_error *err)
{
    sqlite3_stmt *insert = NULL;
    int64_t now_ms = prn_wall_clock_ms();
    int64_t created_ms = parse_created(report->profile->created);
    int code = prn_db_prepare(a->db,
                              "INSERT INTO reports (identity, created, created_ms, added_ms,"
                              " git_commit, branch, changed, bytes) VALUES (?,?,?,?,?,?,?,?)",
                              &insert, err);
    if (code < 0)
        return code;
    sqlite3_bind_blob(insert, 1, identity, 2 * sizeof *identity, SQLITE_STATIC);
    bind_text(insert, 2, report->profile->created);
    sqlite3_bind_int64(insert, 3, created_ms >= 0 ? created_ms : now_ms);
    sqlite3_bind_int64(insert, 4, now_ms);
    bind_text(insert, 5, report->commit);
    bind_text(insert, 6, report->branch);
    sqlite3_bind_int(insert, 7, report->changed);
    sqlite3_bind_int64(insert, 8, (int64_t)report->len);
    code = prn_db_run(a->db, insert, err);
    sqlite3_finalize(insert);
    report->id = sqlite3_last_insert_rowid(a->db);
    return code;
}

static int add_report(struct prn_archive *a, struct prn_archive_report *report,
                      struct prony_error *err)
{
    uint64_t identity[2];
    identify(report->profile, identity);
    int code = find_known(a, identity, report, err);
    if (code < 0 || report->known)
        return code;
    code = add_origin(a, identity, report, err);
    if (code == 0)
        code = add_content(a, report, err);
    if (code == 0)
        code = add_results(a, report, err);
    return code;
}

int prn_archive_check(const struct prn_archive_report *report, struct prony_error *err)
{
    if (report->profile->recorded)
        return prn_fail(err, PRONY_EUNSUPPORTED,
                        "cannot add '%s': it is a recorded program; a history keeps what 'prony "
                        "profile' measured of models",
                        report->name);
    if (report->profile->n_results == 0)
        return prn_fail(err, PRONY_EFORMAT, "cannot add '%s': it has no results", report->name);
    return 0;
}

int prn_archive_add(struct prn_archive *archive, struct prn_archive_report *reports, size_t n,
                    struct prony_error *err)
{
    int code = prn_db_exec(archive->db, "BEGIN IMMEDIATE", err);
    if (code < 0)
        return prn_archive_in(archive, code, err);
    for (size_t i = 0; i < n && code == 0; i++)
        code = add_report(archive, &reports[i], err);
    if (code == 0)
        code = prn_db_exec(archive->db, "COMMIT", err);
    if (code < 0)
        sqlite3_exec(archive->db, "ROLLBACK", NULL, NULL, NULL);
    return prn_archive_in(archive, code, err);
}
