/* Looking into an archive: series, lists, reports; and removing what is old. */
#include "store/archive_parts.h"

#include "base/clock.h"
#include "base/text.h"
#include "report/profile/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define MODELS_TOLD 5
#define TEXT_MAX ((size_t)1 << 20)
#define COMMIT_SHOWN 7

/* ---- Rows ---- */

/* Reads the columns of a statement one after the other. */
struct columns {
    sqlite3_stmt *statement;
    int at;
    struct prn_arena *arena;
    bool failed; /* out of memory */
};

static const char *next_text(struct columns *c)
{
    const char *text = (const char *)sqlite3_column_text(c->statement, c->at++);
    const char *copy = text ? prn_arena_strdup(c->arena, text) : NULL;
    c->failed = c->failed || (text && !copy);
    return copy;
}

static int64_t next_integer(struct columns *c)
{
    return sqlite3_column_int64(c->statement, c->at++);
}

static double next_number(struct columns *c)
{
    bool known = sqlite3_column_type(c->statement, c->at) != SQLITE_NULL;
    double value = sqlite3_column_double(c->statement, c->at++);
    return known ? value : NAN;
}

#define ORIGIN_COLUMNS "id, created, git_commit, branch, changed, runtime_version"

static struct prn_report_origin next_origin(struct columns *c)
{
    struct prn_report_origin o;
    o.report = next_integer(c);
    o.created = next_text(c);
    o.commit = next_text(c);
    o.branch = next_text(c);
    o.changed = next_integer(c) != 0;
    o.runtime_version = next_text(c);
    return o;
}

#define POINT_COLUMNS                                                      \
    "launches, samples, median_ns, low_ns, high_ns, log_error, canary_ns," \
    " smallest_difference, flags, error"

static struct prn_trend_point next_point(struct columns *c)
{
    struct prn_trend_point p = {.origin = next_origin(c), .segment = -1};
    p.launches = next_integer(c);
    p.samples = next_integer(c);
    p.median_ns = next_number(c);
    p.low_ns = next_number(c);
    p.high_ns = next_number(c);
    p.log_error = next_number(c);
    p.canary_ns = next_number(c);
    p.smallest_difference = next_number(c);
    p.flags = (unsigned)next_integer(c);
    p.error = next_text(c);
    return p;
}

static void bind_optional(sqlite3_stmt *s, int at, const char *text)
{
    if (text)
        sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
}

/* ---- Which model ---- */

/* Appends "a.onnx, b.onnx and 3 more". */
static int name_models(struct prn_archive *a, struct prn_buffer *out, size_t *ret_n,
                       struct prony_error *err)
{
    sqlite3_stmt *s = NULL;
    size_t n = 0;
    int code = prn_db_prepare(a->db, "SELECT DISTINCT model FROM results ORDER BY model", &s, err);
    while (prn_db_next(a->db, s, &code, err)) {
        if (n < MODELS_TOLD)
            prn_buffer_printf(out, "%s%s", n ? ", " : "", (const char *)sqlite3_column_text(s, 0));
        n++;
    }
    if (n > MODELS_TOLD)
        prn_buffer_printf(out, " and %zu more", n - MODELS_TOLD);
    sqlite3_finalize(s);
    *ret_n = n;
    return code < 0 ? code : prn_buffer_error(out, err);
}

/* Reads one number of a query about a model, in its path or as it stands. */
static int count_model(struct prn_archive *a, const char *model, int64_t *ret_n,
                       struct prony_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = prn_db_prepare(a->db, "SELECT count(*) FROM results WHERE model = ?", &s, err);
    if (code == 0) {
        bind_optional(s, 1, model);
        code = prn_db_number(a->db, s, ret_n, err);
    }
    sqlite3_finalize(s);
    return code;
}

/* Whoever names a path means the model that is called by its last part. */
static int choose_model(struct prn_archive *a, const char *asked, struct prn_arena *arena,
                        const char **ret_model, struct prony_error *err)
{
    struct prn_buffer names = PRN_BUFFER_INIT(TEXT_MAX);
    size_t n_models = 0;
    int64_t n = 0;
    int code = name_models(a, &names, &n_models, err);
    const char *slash = asked ? strrchr(asked, '/') : NULL;
    const char *model = asked ? asked : prn_buffer_text(&names);
    if (code == 0 && n_models == 0)
        code = prn_fail(err, PRONY_ENOENT, "the history is empty");
    else if (code == 0 && !asked && n_models > 1)
        code =
            prn_fail(err, PRONY_EUSAGE, "which model? The history has %s", prn_buffer_text(&names));
    if (code == 0)
        code = count_model(a, model, &n, err);
    if (code == 0 && n == 0 && slash) {
        model = slash + 1;
        code = count_model(a, model, &n, err);
    }
    if (code == 0 && n == 0)
        code = prn_fail(err, PRONY_ENOENT, "there is no report of '%s'; the history has %s", asked,
                        prn_buffer_text(&names));
    const char *copy = code == 0 ? prn_arena_strdup(arena, model) : NULL;
    if (code == 0 && !copy)
        code = prn_fail_memory(err);
    if (code == 0)
        *ret_model = copy;
    prn_buffer_release(&names);
    return code;
}

/* ---- Series ---- */

#define SERIES_MAX ((size_t)10000)

/* Rows come by series, and in each by time. */
struct gathering {
    struct prn_trend *trend;
    const struct prn_archive_query *query;
    const char *series; /* which one is being gathered */
    struct prn_trend_point *points;
    size_t n, room;
    size_t series_room;
};

/* What was gathered becomes a series; of more points than are wanted the oldest go. */
static int end_series(struct gathering *g)
{
    if (!g->series)
        return 0;
    struct prn_trend_series *s = &g->trend->series[g->trend->n_series - 1];
    size_t most = g->query->last > 0 ? (size_t)g->query->last : PRN_CHANGES_MAX;
    size_t n = g->n < most ? g->n : most;
    s->points = PRN_ARENA_ARRAY(&g->trend->arena, n, struct prn_trend_point);
    if (!s->points)
        return PRONY_ENOMEM;
    memcpy(s->points, g->points + g->n - n, n * sizeof *s->points);
    s->n_points = n;
    s->left_out = (int64_t)(g->n - n);
    g->n = 0;
    return prn_trend_analyse(s, &g->trend->arena);
}

static int begin_series(struct gathering *g, struct columns *c)
{
    struct prn_trend *t = g->trend;
    int code = end_series(g);
    if (code < 0)
        return code;
    if (t->n_series == g->series_room) {
        size_t room = g->series_room ? 2 * g->series_room : 16;
        struct prn_trend_series *more = PRN_ARENA_ARRAY(&t->arena, room, struct prn_trend_series);
        if (!more || room > SERIES_MAX)
            return PRONY_ENOMEM;
        if (t->n_series > 0)
            memcpy(more, t->series, t->n_series * sizeof *more);
        t->series = more;
        g->series_room = room;
    }
    struct prn_trend_series *s = &t->series[t->n_series++];
    *s = (struct prn_trend_series){.model = t->model};
    c->at = 0;
    g->series = next_text(c);
    s->backend = next_text(c);
    s->sizes = next_text(c);
    s->machine = next_text(c);
    return c->failed ? PRONY_ENOMEM : 0;
}

#define SERIES_COLUMNS "series, backend, sizes, machine"
#define N_SERIES_COLUMNS 4

static int take_row(struct gathering *g, sqlite3_stmt *s)
{
    struct columns c = {.statement = s, .arena = &g->trend->arena};
    const char *series = (const char *)sqlite3_column_text(s, 0);
    const char *backend = (const char *)sqlite3_column_text(s, 1);
    if (g->query->backend && !prn_text_glob(g->query->backend, backend))
        return 0;
    if (!g->series || strcmp(g->series, series) != 0) {
        int code = begin_series(g, &c);
        if (code < 0)
            return code;
    }
    if (g->n == g->room) {
        size_t room = g->room ? 2 * g->room : 64;
        struct prn_trend_point *more = reallocarray(g->points, room, sizeof *more);
        if (!more)
            return PRONY_ENOMEM;
        g->points = more;
        g->room = room;
    }
    c.at = N_SERIES_COLUMNS;
    g->points[g->n++] = next_point(&c);
    return c.failed ? PRONY_ENOMEM : 0;
}

static int gather(struct prn_archive *a, struct gathering *g, struct prony_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = prn_db_prepare(a->db,
                              "SELECT " SERIES_COLUMNS ", " ORIGIN_COLUMNS ", " POINT_COLUMNS
                              " FROM results JOIN reports ON report = id"
                              " WHERE model = ?1 AND (?2 IS NULL OR branch = ?2)"
                              " ORDER BY series, created_ms, id, place",
                              &s, err);
    if (code < 0)
        return code;
    bind_optional(s, 1, g->trend->model);
    bind_optional(s, 2, g->query->branch);
    while (prn_db_next(a->db, s, &code, err))
        code = take_row(g, s);
    if (code == 0)
        code = end_series(g);
    if (code == PRONY_ENOMEM)
        code = prn_fail_memory(err);
    sqlite3_finalize(s);
    return code;
}

static int by_report(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* How many reports all series have together. */
static int count_reports(struct prn_trend *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_series; i++)
        n += t->series[i].n_points;
    int64_t *all = calloc(n + 1, sizeof *all);
    if (!all)
        return PRONY_ENOMEM;
    n = 0;
    for (size_t i = 0; i < t->n_series; i++)
        for (size_t k = 0; k < t->series[i].n_points; k++)
            all[n++] = t->series[i].points[k].origin.report;
    qsort(all, n, sizeof *all, by_report);
    for (size_t i = 0; i < n; i++)
        t->n_reports += i == 0 || all[i] != all[i - 1];
    free(all);
    return 0;
}

int prn_archive_trend(struct prn_archive *archive, const struct prn_archive_query *query,
                      struct prn_trend **ret_trend, struct prony_error *err)
{
    struct prn_trend *t = prn_trend_new();
    if (!t)
        return prn_fail_memory(err);
    struct gathering g = {.trend = t, .query = query};
    int code = choose_model(archive, query->model, &t->arena, &t->model, err);
    if (code == 0)
        code = gather(archive, &g, err);
    if (code == 0 && t->n_series == 0)
        code = prn_fail(err, PRONY_ENOENT, "there is no report of '%s'%s%s%s%s", t->model,
                        query->backend ? " on backend " : "", query->backend ? query->backend : "",
                        query->branch ? " of branch " : "", query->branch ? query->branch : "");
    if (code == 0 && count_reports(t) < 0)
        code = prn_fail_memory(err);
    free(g.points);
    if (code < 0)
        prn_trend_free(t);
    else
        *ret_trend = t;
    return prn_archive_in(archive, code, err);
}

/* ---- Lists ---- */

static int list_totals(struct prn_archive *a, const char *model, struct prn_trend_list *list,
                       struct prony_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = prn_db_prepare(a->db,
                              "WITH chosen AS (SELECT DISTINCT report FROM results"
                              " WHERE ?1 IS NULL OR model = ?1)"
                              "SELECT (SELECT count(*) FROM chosen),"
                              " (SELECT count(DISTINCT model) FROM results"
                              "  WHERE ?1 IS NULL OR model = ?1),"
                              " (SELECT count(DISTINCT machine) FROM results"
                              "  WHERE ?1 IS NULL OR model = ?1),"
                              " (SELECT coalesce(sum(bytes), 0) FROM reports"
                              "  WHERE id IN chosen)",
                              &s, err);
    if (code < 0)
        return code;
    bind_optional(s, 1, model);
    if (sqlite3_step(s) == SQLITE_ROW) {
        list->reports = sqlite3_column_int64(s, 0);
        list->models = sqlite3_column_int64(s, 1);
        list->machines = sqlite3_column_int64(s, 2);
        list->bytes = sqlite3_column_int64(s, 3);
    } else {
        code = prn_db_fail(a->db, err);
    }
    sqlite3_finalize(s);
    return code;
}

static struct prn_trend_listed next_listed(struct columns *c)
{
    struct prn_trend_listed row;
    row.model = next_text(c);
    row.backend = next_text(c);
    row.sizes = next_text(c);
    row.machine = next_text(c);
    row.reports = next_integer(c);
    row.median_ns = next_number(c);
    row.low_ns = next_number(c);
    row.high_ns = next_number(c);
    row.last = next_origin(c);
    return row;
}

static int list_rows(struct prn_archive *a, const char *model, struct prn_arena *arena,
                     struct prn_trend_list *list, struct prony_error *err)
{
    sqlite3_stmt *s = NULL;
    size_t room = 0;
    /* The last of each series is the first by time backwards. */
    int code = prn_db_prepare(
        a->db,
        "SELECT model, backend, sizes, machine, n, median_ns, low_ns, high_ns, " ORIGIN_COLUMNS
        " FROM (SELECT *, count(*) OVER (PARTITION BY series) AS n, row_number() OVER"
        "  (PARTITION BY series ORDER BY created_ms DESC, id DESC, place DESC) AS rank"
        "  FROM results JOIN reports ON report = id WHERE ?1 IS NULL OR model = ?1)"
        " WHERE rank = 1 ORDER BY model, backend, sizes, machine",
        &s, err);
    if (code < 0)
        return code;
    bind_optional(s, 1, model);
    struct prn_trend_listed *rows = NULL;
    while (prn_db_next(a->db, s, &code, err)) {
        struct columns c = {.statement = s, .arena = arena};
        if (list->n_rows == room) {
            room = room ? 2 * room : 64;
            struct prn_trend_listed *more = reallocarray(rows, room, sizeof *more);
            code = more ? 0 : prn_fail_memory(err);
            rows = more ? more : rows;
        }
        if (code == 0)
            rows[list->n_rows++] = next_listed(&c);
        if (code == 0 && c.failed)
            code = prn_fail_memory(err);
    }
    sqlite3_finalize(s);
    list->rows = PRN_ARENA_ARRAY(arena, list->n_rows, struct prn_trend_listed);
    if (code == 0 && !list->rows)
        code = prn_fail_memory(err);
    if (code == 0 && list->n_rows > 0)
        memcpy(list->rows, rows, list->n_rows * sizeof *rows);
    free(rows);
    return code;
}

int prn_archive_list(struct prn_archive *archive, const struct prn_archive_query *query,
                     struct prn_arena *arena, struct prn_trend_list *ret_list,
                     struct prony_error *err)
{
    struct prn_trend_list list = {.file = prn_arena_strdup(arena, archive->path)};
    const char *model = NULL;
    int code = list.file ? 0 : prn_fail_memory(err);
    if (code == 0 && query->model)
        code = choose_model(archive, query->model, arena, &model, err);
    if (code == 0)
        code = list_totals(archive, model, &list, err);
    if (code == 0)
        code = list_rows(archive, model, arena, &list, err);
    if (code == 0)
        *ret_list = list;
    return prn_archive_in(archive, code, err);
}

/* ---- Single reports ---- */

/* Newest first. A number is one before it is the beginning of a commit. */
static const char *const finders[] = {
    "SELECT id FROM reports WHERE id = CAST(?1 AS INTEGER) AND ?1 = CAST(id AS TEXT) AND "
    "(?2 IS NULL OR id IN (SELECT report FROM results WHERE model = ?2))",
    "SELECT id FROM reports WHERE length(?1) >= 4 AND substr(git_commit, 1, length(?1)) ="
    " lower(?1) AND (?2 IS NULL OR id IN (SELECT report FROM results WHERE model = ?2))"
    " ORDER BY created_ms DESC, id DESC LIMIT 1",
    "SELECT id FROM reports WHERE branch = ?1 AND"
    " (?2 IS NULL OR id IN (SELECT report FROM results WHERE model = ?2))"
    " ORDER BY created_ms DESC, id DESC LIMIT 1",
};

static int find_by(struct prn_archive *a, const char *sql, const char *which, const char *model,
                   int64_t *ret_id, struct prony_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = prn_db_prepare(a->db, sql, &s, err);
    if (code < 0)
        return code;
    bind_optional(s, 1, which);
    bind_optional(s, 2, model);
    if (prn_db_next(a->db, s, &code, err))
        *ret_id = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return code;
}

/* Whether reports of the same commit or branch are of other models than the one that was found. */
static int check_alone(struct prn_archive *a, const char *which, int64_t id,
                       struct prony_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = prn_db_prepare(
        a->db,
        "SELECT DISTINCT r.model FROM results r JOIN reports o ON r.report = o.id, reports f"
        " WHERE f.id = ?1 AND (o.git_commit = f.git_commit OR o.branch = ?2) AND r.model NOT IN"
        " (SELECT model FROM results WHERE report = ?1) LIMIT 1",
        &s, err);
    if (code < 0)
        return code;
    sqlite3_bind_int64(s, 1, id);
    bind_optional(s, 2, which);
    if (sqlite3_step(s) == SQLITE_ROW)
        code = prn_fail(err, PRONY_EUSAGE,
                        "'%s' has reports of several models, such as %s: choose one with --model, "
                        "or name reports by their numbers",
                        which, (const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
    return code;
}

int prn_archive_find(struct prn_archive *archive, const char *which, const char *model,
                     int64_t *ret_id, struct prony_error *err)
{
    int64_t id = 0;
    size_t by = 0;
    int code = 0;
    for (; by < PRN_ARRAY_SIZE(finders) && id == 0 && code == 0; by++)
        code = find_by(archive, finders[by], which, model, &id, err);
    if (code == 0 && id == 0)
        code = prn_fail(err, PRONY_ENOENT,
                        "no report%s%s has the number, commit or branch '%s'; 'prony history show' "
                        "lists them",
                        model ? " of " : "", model ? model : "", which);
    if (code == 0 && by > 1 && !model)
        code = check_alone(archive, which, id, err);
    if (code == 0)
        *ret_id = id;
    return prn_archive_in(archive, code, err);
}

/* A frame says how much is in it; a file that was changed by others may say anything. */
static int unpack(const void *packed, size_t size, struct prn_buffer *out, struct prony_error *err)
{
    unsigned long long len = ZSTD_getFrameContentSize(packed, size);
    if (len == ZSTD_CONTENTSIZE_ERROR || len == ZSTD_CONTENTSIZE_UNKNOWN ||
        len > PRN_PROFILE_FILE_MAX)
        return prn_fail(err, PRONY_EFORMAT, "the report in it is damaged");
    char *text = malloc((size_t)len + 1);
    if (!text)
        return prn_fail_memory(err);
    size_t got = ZSTD_decompress(text, (size_t)len, packed, size);
    int code = ZSTD_isError(got) || got != len
                   ? prn_fail(err, PRONY_EFORMAT, "the report in it is damaged")
                   : 0;
    if (code == 0)
        prn_buffer_append(out, text, got);
    free(text);
    return code < 0 ? code : prn_buffer_error(out, err);
}

int prn_archive_report(struct prn_archive *archive, int64_t id, struct prn_buffer *json,
                       struct prn_buffer *name, struct prony_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = prn_db_prepare(archive->db,
                              "SELECT packed, git_commit FROM contents JOIN reports ON report = id"
                              " WHERE id = ?",
                              &s, err);
    if (code == 0) {
        sqlite3_bind_int64(s, 1, id);
        code = sqlite3_step(s) == SQLITE_ROW ? 0 : prn_db_fail(archive->db, err);
    }
    if (code == 0) {
        const char *commit = (const char *)sqlite3_column_text(s, 1);
        prn_buffer_printf(name, "report %lld", (long long)id);
        if (commit)
            prn_buffer_printf(name, " (commit %.*s)", COMMIT_SHOWN, commit);
        const void *packed = sqlite3_column_blob(s, 0);
        code = unpack(packed, (size_t)sqlite3_column_bytes(s, 0), json, err);
    }
    if (code == 0)
        code = prn_buffer_error(name, err);
    sqlite3_finalize(s);
    return prn_archive_in(archive, code, err);
}

/* ---- Pruning ---- */

#define PRUNED                                                                 \
    "(SELECT report FROM (SELECT report, model, created_ms, row_number() OVER" \
    "  (PARTITION BY series ORDER BY created_ms DESC, id DESC) AS rank"        \
    "  FROM results JOIN reports ON report = id) GROUP BY report HAVING"       \
    " (?1 < 0 OR min(rank) > ?1) AND max(created_ms) < ?2 AND"                 \
    " (?3 IS NULL OR sum(model != ?3) = 0))"

static int bind_pruned(sqlite3_stmt *s, const struct prn_archive_prune *o)
{
    sqlite3_bind_int64(s, 1, o->keep);
    double before_ms = (double)prn_wall_clock_ms() - 1000 * o->older_than_s;
    sqlite3_bind_int64(s, 2, isnan(before_ms) ? INT64_MAX : (int64_t)before_ms);
    bind_optional(s, 3, o->model);
    return 0;
}

static int count_pruned(struct prn_archive *a, const struct prn_archive_prune *o,
                        struct prn_pruned *pruned, struct prony_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = prn_db_prepare(a->db,
                              "SELECT count(*), coalesce(sum(bytes), 0),"
                              " (SELECT count(*) FROM reports) FROM reports"
                              " WHERE id IN " PRUNED,
                              &s, err);
    if (code == 0)
        code = bind_pruned(s, o);
    if (code == 0 && sqlite3_step(s) != SQLITE_ROW)
        code = prn_db_fail(a->db, err);
    if (code == 0) {
        pruned->removed = sqlite3_column_int64(s, 0);
        pruned->removed_bytes = sqlite3_column_int64(s, 1);
        pruned->left = sqlite3_column_int64(s, 2) - pruned->removed;
    }
    sqlite3_finalize(s);
    return code;
}

static int remove_pruned(struct prn_archive *a, const struct prn_archive_prune *o,
                         struct prony_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = prn_db_prepare(a->db, "DELETE FROM reports WHERE id IN " PRUNED, &s, err);
    if (code == 0)
        code = bind_pruned(s, o);
    if (code == 0)
        code = prn_db_run(a->db, s, err);
    sqlite3_finalize(s);
    return code;
}

int prn_archive_prune(struct prn_archive *archive, const struct prn_archive_prune *options,
                      struct prn_pruned *ret_pruned, struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT(TEXT_MAX);
    struct prn_archive_prune o = *options;
    struct prn_pruned pruned = {.dry_run = options->dry};
    int code = 0;
    if (options->model)
        code = choose_model(archive, options->model, &arena, &o.model, err);
    if (code == 0)
        code = prn_db_exec(archive->db, "BEGIN IMMEDIATE", err);
    if (code == 0)
        code = count_pruned(archive, &o, &pruned, err);
    if (code == 0 && !o.dry)
        code = remove_pruned(archive, &o, err);
    code = prn_db_end(archive->db, code, err);
    if (code == 0)
        *ret_pruned = pruned;
    /* Without room for a copy the file keeps its size, and what is freed in it is used again. */
    if (code == 0 && pruned.removed > 0 && !o.dry)
        sqlite3_exec(archive->db, "VACUUM", NULL, NULL, NULL);
    prn_arena_release(&arena);
    return prn_archive_in(archive, code, err);
}

/* ---- The history of a service ---- */

/* What the service keeps is what it measured, so a report that can't be read is left out. */
static int take_report(struct prn_archive *a, sqlite3_stmt *s, struct prony_error *err)
{
    struct prn_profile *profile = NULL;
    struct prn_archive_report report = {.name = "a report of the service",
                                        .json = sqlite3_column_blob(s, 0),
                                        .len = (size_t)sqlite3_column_bytes(s, 0)};
    struct prony_error ignored;
    if (prn_profile_parse_json(report.json ? report.json : "", report.len, report.name, &profile,
                               &ignored) < 0)
        return 0;
    report.profile = profile;
    int code = prn_archive_check(&report, &ignored) < 0 ? 0 : prn_archive_add(a, &report, 1, err);
    prn_profile_free(profile);
    return code;
}

int prn_archive_take_service(struct prn_archive *archive, sqlite3 *service, struct prony_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = prn_db_prepare(service, "SELECT json FROM reports ORDER BY id", &s, err);
    while (prn_db_next(service, s, &code, err))
        code = take_report(archive, s, err);
    sqlite3_finalize(s);
    return code;
}
