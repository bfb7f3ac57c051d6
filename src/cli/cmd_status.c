/* `prony status`: what a service is doing. */
#include "cli/command.h"

#include "cli/output.h"
#include "base/format.h"
#include "base/table.h"
#include "cli/server.h"
#include "report/prose.h"
#include "report/status_json.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WATCH_S 2

struct status_options {
    struct prn_server_options server;
    bool watch, usage;
    const char *since;
    int format;
};

enum { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV };

static const char *const formats[] = {"text", "json", "csv", NULL};

static volatile sig_atomic_t stopped;

static void on_interrupt(int number)
{
    (void)number;
    stopped = 1;
}

/* ---- Tables ---- */

struct column {
    const char *title; /* '>' aligns right, '~': names, which may be shortened */
    int rank;          /* > 0: may be left out, the highest first */
};

/* On a narrow terminal the last column, the note, wraps. */
static struct prn_table *new_table(const struct column *columns, size_t n)
{
    struct prn_table *t = prn_table_new();
    for (size_t i = 0; i < n; i++) {
        prn_table_columns(t, columns[i].title);
        if (columns[i].rank > 0)
            prn_table_omit_rank(t, columns[i].rank);
    }
    prn_table_wrap(t);
    prn_table_rest(t, "--format json or a wider terminal", 1);
    prn_table_width(t, prn_output_look(NULL, false, PRN_COLOUR_NEVER).width);
    return t;
}

/* Writes the table, if it has rows, below an empty line, and frees it. */
static int end_table(struct prn_table *t, struct prn_buffer *out, struct prony_error *err)
{
    int code = 0;
    if (prn_table_rows(t) > 0) {
        prn_buffer_add_char(out, '\n');
        code = prn_table_write(t, PRN_TABLE_STYLE_TEXT, out, err);
    }
    prn_table_free(t);
    return code;
}

static void cell_count(struct prn_table *t, int64_t value)
{
    if (value < 0)
        prn_table_cell(t, "-");
    else
        prn_table_cell(t, "%lld", (long long)value);
}

static void cell_duration(struct prn_table *t, int64_t ms)
{
    if (ms < 0)
        prn_table_cell(t, "-");
    else if (ms < 120000)
        prn_table_cell(t, "%.1f s", (double)ms / 1000);
    else if (ms < 7200000)
        prn_table_cell(t, "%.0f min", (double)ms / 60000);
    else
        prn_table_cell(t, "%.1f h", (double)ms / 3600000);
}

static void cell_list(struct prn_table *t, const char *const *texts, size_t n)
{
    struct prn_buffer list = PRN_BUFFER_INIT((size_t)1 << 16);
    for (size_t i = 0; i < n; i++)
        prn_buffer_printf(&list, "%s%s", i > 0 ? ", " : "", texts[i]);
    prn_table_cell_text(t, prn_buffer_text(&list));
    prn_buffer_release(&list);
}

static int hardware_table(const struct prn_remote_status *s, struct prn_buffer *out,
                          struct prony_error *err)
{
    static const struct column columns[] = {
        {"~Hardware", 0}, {"~Processor", 2}, {">Price ($/h)", 3}, {">Hosts", 0},
        {">Free", 0},     {">Waiting", 1},   {"Note", 0}};
    struct prn_table *t = new_table(columns, PRN_ARRAY_SIZE(columns));
    for (size_t i = 0; i < s->n_hardware; i++) {
        const struct prn_remote_hardware *h = &s->hardware[i];
        char price[PRN_FORMAT_SIZE];
        prn_table_cell_text(t, h->name);
        prn_table_cell_text(t, h->processor ? h->processor : "N/A");
        prn_table_cell(t, "%s",
                       isfinite(h->usd_per_hour) ? prn_format_dollars(price, h->usd_per_hour)
                                                 : "N/A");
        cell_count(t, h->hosts);
        cell_count(t, h->free);
        cell_count(t, h->waiting);
        prn_table_cell_text(t, h->note);
    }
    return end_table(t, out, err);
}

static int session_table(const struct prn_remote_status *s, struct prn_buffer *out,
                         struct prony_error *err)
{
    static const struct column columns[] = {{"~Session", 0},  {"~User", 0},   {"State", 0},
                                            {">Place", 1},    {">Age", 4},    {">Waited", 3},
                                            {">Idle", 5},     {">Models", 7}, {">Runs", 6},
                                            {"~Backends", 2}, {"Note", 0}};
    struct prn_table *t = new_table(columns, PRN_ARRAY_SIZE(columns));
    for (size_t i = 0; i < s->n_sessions; i++) {
        const struct prn_remote_session *session = &s->sessions[i];
        prn_table_cell_text(t, session->id);
        prn_table_cell_text(t, session->user);
        prn_table_cell_text(t, session->state);
        cell_count(t, session->place);
        cell_duration(t, session->age_ms);
        cell_duration(t, session->waited_ms);
        cell_duration(t, session->idle_ms);
        cell_count(t, session->models);
        cell_count(t, session->runs);
        cell_list(t, session->backends, session->n_backends);
        prn_table_cell_text(t, session->note);
    }
    return end_table(t, out, err);
}

static int worker_table(const struct prn_remote_status *s, struct prn_buffer *out,
                        struct prony_error *err)
{
    static const struct column columns[] = {{"~Worker", 0},  {"~Hardware", 1},  {"State", 0},
                                            {"~Session", 2}, {">Connected", 4}, {"~Software", 3},
                                            {"Note", 0}};
    struct prn_table *t = new_table(columns, PRN_ARRAY_SIZE(columns));
    for (size_t i = 0; i < s->n_workers; i++) {
        const struct prn_remote_worker *k = &s->workers[i];
        prn_table_cell_text(t, k->name);
        prn_table_cell_text(t, k->hardware);
        prn_table_cell_text(t, k->state);
        prn_table_cell_text(t, k->session && k->session[0] ? k->session : "-");
        cell_duration(t, k->connected_ms);
        cell_list(t, k->software, k->n_software);
        prn_table_cell_text(t, k->note);
    }
    return end_table(t, out, err);
}

static void cell_time(struct prn_table *t, int64_t ms)
{
    char text[32] = "";
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    if (gmtime_r(&seconds, &tm))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M", &tm);
    prn_table_cell_text(t, text);
}

static int reservation_table(const struct prn_remote_status *s, struct prn_buffer *out,
                             struct prony_error *err)
{
    static const struct column columns[] = {{"Reserved", 0}, {"~Target", 0},    {">Hosts", 0},
                                            {"~User", 0},    {"From (UTC)", 2}, {"To", 1},
                                            {"Note", 0}};
    struct prn_table *t = new_table(columns, PRN_ARRAY_SIZE(columns));
    for (size_t i = 0; i < s->n_reservations; i++) {
        const struct prn_remote_reservation *r = &s->reservations[i];
        cell_count(t, r->id);
        prn_table_cell_text(t, r->target);
        cell_count(t, r->hosts);
        prn_table_cell_text(t, r->user ? r->user : "another user");
        cell_time(t, r->from_ms);
        cell_time(t, r->to_ms);
        prn_table_cell_text(t, r->active ? "now" : "");
    }
    return end_table(t, out, err);
}

static void describe_cache(const struct prn_remote_status *s, struct prn_prose *p)
{
    char bytes[PRN_FORMAT_SIZE];
    char limit[PRN_FORMAT_SIZE];
    if (!s->has_cache)
        return;
    prn_buffer_printf(&p->line, "Cache: %lld file%s, %s", (long long)s->blobs,
                      s->blobs == 1 ? "" : "s", prn_format_bytes(bytes, (double)s->blob_bytes));
    if (s->blob_limit_bytes >= 0)
        prn_buffer_printf(&p->line, " of %s", prn_format_bytes(limit, (double)s->blob_limit_bytes));
    if (s->hits >= 0 && s->misses >= 0)
        prn_buffer_printf(&p->line, "; %lld hit%s, %lld miss%s", (long long)s->hits,
                          s->hits == 1 ? "" : "s", (long long)s->misses,
                          s->misses == 1 ? "" : "es");
    prn_buffer_add_char(p->out, '\n');
    prn_prose_flush(p, 0);
}

static void describe_limits(const struct prn_remote_status *s, struct prn_prose *p)
{
    char text[PRN_FORMAT_SIZE];
    if (!isfinite(s->run_timeout_s))
        return;
    prn_buffer_printf(&p->line, "Limits: %s for one run or load",
                      prn_format_duration(text, s->run_timeout_s * 1e9));
    if (s->session_memory_bytes >= 0)
        prn_buffer_printf(&p->line, ", %s of memory for an executor",
                          prn_format_bytes(text, (double)s->session_memory_bytes));
    prn_buffer_add_char(p->out, '\n');
    prn_prose_flush(p, 0);
}

static void add_uptime(struct prn_buffer *out, int64_t ms)
{
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"days", 86400e3}, {"h", 3600e3}, {"min", 60e3}, {"s", 1e3}};
    size_t k = 0;
    while (k + 1 < PRN_ARRAY_SIZE(units) && (double)ms < 2 * units[k].ms)
        k++;
    prn_buffer_printf(out, ", up for %.0f %s", (double)ms / units[k].ms, units[k].unit);
}

static void write_head(const struct prn_remote_status *s, const char *address, struct prn_prose *p)
{
    prn_buffer_printf(&p->line, "%s: prony %s", address,
                      s->version ? s->version : "of an unknown version");
    if (s->uptime_ms >= 0)
        add_uptime(&p->line, s->uptime_ms);
    prn_prose_paragraph(p, "%s", s->draining ? ", takes no new sessions" : "");
    if (s->notice && s->notice[0])
        prn_prose_paragraph(p, "Notice: %s", s->notice);
}

static int write_text(const struct prn_remote_status *s, const char *address,
                      struct prn_buffer *out, struct prony_error *err)
{
    const struct prn_look look = prn_output_look(NULL, false, PRN_COLOUR_NEVER);
    struct prn_prose prose = prn_prose_init(&look, out);
    write_head(s, address, &prose);
    int code = hardware_table(s, out, err);
    if (code == 0)
        code = session_table(s, out, err);
    if (code == 0 && s->sessions_others > 0)
        prn_buffer_printf(out, "\n%lld session%s of other users.\n", (long long)s->sessions_others,
                          s->sessions_others > 1 ? "s" : "");
    if (code == 0 && s->n_sessions == 0 && s->sessions_others <= 0)
        prn_buffer_add(out, "\nNo sessions.\n");
    if (code == 0)
        code = worker_table(s, out, err);
    if (code == 0)
        code = reservation_table(s, out, err);
    describe_limits(s, &prose);
    describe_cache(s, &prose);
    prn_prose_release(&prose);
    return code;
}

/* ---- What users had ---- */

static int write_usage(const struct prn_remote_usage *usage, bool csv, struct prn_buffer *out,
                       struct prony_error *err)
{
    struct prn_table *t = prn_table_new();
    prn_table_columns(t, csv ? "month|user|hardware|>sessions|>host_hours|>usd"
                             : "Month|~User|~Hardware|>Sessions|>Host-hours|>Price ($)");
    prn_table_width(t, prn_output_look(NULL, false, PRN_COLOUR_NEVER).width);
    for (size_t i = 0; i < usage->n; i++) {
        const struct prn_remote_use *use = &usage->uses[i];
        prn_table_cell_text(t, use->month);
        prn_table_cell_text(t, use->user);
        prn_table_cell_text(t, use->hardware);
        prn_table_cell(t, "%lld", (long long)use->sessions);
        prn_table_cell(t, csv ? "%.6f" : "%.3g", use->host_s / 3600);
        prn_table_cell(t, csv ? "%.6f" : "%.2f", use->usd);
    }
    int code = 0;
    if (usage->n == 0 && !csv)
        prn_buffer_add(out, "No host was held yet.\n");
    else
        code = prn_table_write(t, csv ? PRN_TABLE_STYLE_CSV : PRN_TABLE_STYLE_TEXT, out, err);
    prn_table_free(t);
    return code;
}

static int show_usage(const struct status_options *o, const struct prn_remote_ops *ops,
                      struct prn_remote *remote, struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)64 << 20);
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)64 << 20);
    struct prn_remote_usage usage;
    int code = ops->usage(remote, o->since, &arena, &usage, err);
    if (code == 0 && o->format == FORMAT_JSON)
        code = prn_usage_write_json(&usage, &out, err);
    else if (code == 0)
        code = write_usage(&usage, o->format == FORMAT_CSV, &out, err);
    if (code == 0)
        code = prn_output(NULL, &out, err);
    prn_buffer_release(&out);
    prn_arena_release(&arena);
    return code;
}

/* ---- The command ---- */

static int check_options(const struct status_options *o, struct prony_error *err)
{
    if (o->usage && o->watch)
        return prn_fail(err, PRONY_EUSAGE, "--usage cannot be combined with --watch");
    if (o->since && !o->usage)
        return prn_fail(err, PRONY_EUSAGE, "--since is for --usage");
    if (o->format == FORMAT_CSV && !o->usage)
        return prn_fail(err, PRONY_EUSAGE, "--format csv is for --usage");
    if (!o->server.address)
        return prn_fail(err, PRONY_EUSAGE, "--server is needed");
    return prn_server_check(&o->server, err);
}

static int show(const struct status_options *o, const struct prn_remote_ops *ops,
                struct prn_remote *remote, struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)64 << 20);
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)64 << 20);
    struct prn_remote_status status;
    int code = ops->status(remote, &arena, &status, err);
    if (code == 0 && o->format == FORMAT_JSON)
        code = prn_status_write_json(&status, &out, err);
    else if (code == 0)
        code = write_text(&status, o->server.address, &out, err);
    if (code == 0 && o->watch && o->format == FORMAT_TEXT && isatty(STDOUT_FILENO))
        fputs("\033[H\033[2J", stdout);
    fflush(stdout);
    if (code == 0)
        code = prn_output(NULL, &out, err);
    prn_buffer_release(&out);
    prn_arena_release(&arena);
    return code;
}

static int status_run(const void *opaque, const struct prn_strings *arguments,
                      struct prony_error *err)
{
    (void)arguments;
    const struct status_options *o = opaque;
    const struct prn_remote_ops *ops;
    struct prn_remote *remote;
    int code = check_options(o, err);
    if (code == 0)
        code = prn_server_connect(&o->server, &stopped, &ops, &remote, err);
    if (code < 0)
        return code;
    signal(SIGINT, o->watch ? on_interrupt : SIG_DFL);
    do {
        code = o->usage ? show_usage(o, ops, remote, err) : show(o, ops, remote, err);
        if (code == 0 && o->watch && !stopped)
            nanosleep(&(struct timespec){.tv_sec = WATCH_S}, NULL);
    } while (code == 0 && o->watch && !stopped);
    ops->free(remote);
    return stopped ? 0 : code;
}

#define FIELD(name) offsetof(struct status_options, name)

static const struct prn_option options[] = {
    PRN_SERVER_ROWS(struct status_options),
    PRN_OPTION(FLAG, 0, "watch", NULL, FIELD(watch), "refresh every two seconds, until Ctrl-C"),
    PRN_OPTION(FLAG, 0, "usage", NULL, FIELD(usage),
               "host-hours and dollars by month, user and hardware instead"),
    PRN_OPTION(TEXT, 0, "since", "MONTH", FIELD(since), "--usage: from this month on: 2026-11"),
    PRN_OPTION(CHOICE, 0, "format", "FORMAT", FIELD(format),
               "text, json or, with --usage, csv (default text)", .choices = formats),
    {0},
};

const struct prn_command prn_command_status = {
    .name = "status",
    .arguments = "",
    .summary = "show a service's hardware, queue, sessions, workers and cache",
    .description =
        "Shows a service's hardware and how many hosts are free, who holds them and who is "
        "waiting, its workers and its cache. Users see their own sessions and the number of "
        "others; administrators see all. --usage shows what users have held since the service "
        "keeps accounts, instead.",
    .examples = "# a service on this machine\n"
                "prony status --server localhost:50051\n"
                "# and keep watching\n"
                "prony status --server prony.example.org:443 --watch\n"
                "# who had how much, for a spreadsheet\n"
                "prony status --server localhost:50051 --usage --format csv\n",
    .options = options,
    .options_size = sizeof(struct status_options),
    .run = status_run,
};
