/* `prony admin`: what an administrator does to a service that runs. */
#include "cli/command.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/table.h"
#include "cli/output.h"
#include "cli/server.h"

#include <string.h>
#include <time.h>

struct options {
    struct prn_server_options server;
    const char *user, *from, *to;
    double for_s; /* 0: not given */
    int64_t hosts;
};

#define HOSTS_MAX 10000
#define YEAR_S 31536000.0

/* What an action is about; NULL: nothing. */
static const struct {
    const char *name, *target;
} actions[] = {
    {"who", NULL},
    {"close", "a session"},
    {"drain", "a worker"},
    {"disable", "a worker"},
    {"enable", "a worker"},
    {"pause", "a pool"},
    {"resume", "a pool"},
    {"notice", NULL},
    {"reserve", "a pool or worker"},
    {"cancel", "a reservation"},
};

/* ---- Times of a reservation ---- */

/* "2026-11-18 15:00", UTC. */
static int read_time(const char *option, const char *text, int64_t *ret_ms, struct prony_error *err)
{
    static const char *const forms[] = {"%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%MZ", "%Y-%m-%dT%H:%M:%SZ"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(forms); i++) {
        struct tm tm = {0};
        const char *end = strptime(text, forms[i], &tm);
        if (end && *end == 0) {
            *ret_ms = (int64_t)timegm(&tm) * 1000;
            return 0;
        }
    }
    return prn_fail(err, PRONY_EUSAGE, "%s: '%s' is not a time, such as '2026-11-18 15:00' (UTC)",
                    option, text);
}

static int read_times(const struct options *o, struct prn_remote_order *order,
                      struct prony_error *err)
{
    int code = 0;
    order->from_ms = prn_wall_clock_ms();
    if (o->from)
        code = read_time("--from", o->from, &order->from_ms, err);
    if (code == 0 && o->to)
        code = read_time("--to", o->to, &order->to_ms, err);
    if (code == 0 && !o->to)
        order->to_ms = order->from_ms + (int64_t)(o->for_s * 1e3);
    return code;
}

/* Its options, which others don't take. */
static int check_reserve(const struct options *o, bool reserves, struct prony_error *err)
{
    if (!reserves && (o->user || o->from || o->to || o->for_s > 0 || o->hosts > 0))
        return prn_fail(err, PRONY_EUSAGE,
                        "--user, --from, --to, --for and --hosts are for 'reserve'");
    if (reserves && !o->user)
        return prn_fail(err, PRONY_EUSAGE, "'reserve' needs --user");
    if (reserves && !o->to == !(o->for_s > 0))
        return prn_fail(err, PRONY_EUSAGE, "'reserve' needs either --to or --for");
    return 0;
}

static int check_use(const struct options *o, const struct prn_strings *arguments,
                     struct prony_error *err)
{
    const char *action = arguments->items[0];
    size_t i = 0;
    while (i < PRN_ARRAY_SIZE(actions) && strcmp(actions[i].name, action) != 0)
        i++;
    if (i == PRN_ARRAY_SIZE(actions))
        return prn_fail(err, PRONY_EUSAGE,
                        "'%s' is not one of who, close, drain, disable, enable, pause, resume, "
                        "notice, reserve and cancel",
                        action);
    if (actions[i].target && arguments->n < 2)
        return prn_fail(err, PRONY_EUSAGE, "'%s' needs %s", action, actions[i].target);
    if (i == 0 && arguments->n > 1)
        return prn_fail(err, PRONY_EUSAGE, "'who' takes no argument, but there is '%s'",
                        arguments->items[1]);
    int code = check_reserve(o, strcmp(action, "reserve") == 0, err);
    if (code < 0)
        return code;
    if (!o->server.address)
        return prn_fail(err, PRONY_EUSAGE, "--server is needed");
    return prn_server_check(&o->server, err);
}

/* ---- Who holds what ---- */

static void cell_since(struct prn_table *t, int64_t ms)
{
    char text[PRN_FORMAT_SIZE];
    prn_table_cell(t, "%s", ms < 0 ? "-" : prn_format_duration(text, (double)ms * 1e6));
}

static int write_holders(const struct prn_remote_status *s, struct prn_buffer *out,
                         struct prony_error *err)
{
    struct prn_table *t = prn_table_new();
    prn_table_columns(t, "Worker|Host|Hardware|State|User|Session|>Held for");
    for (size_t i = 0; i < s->n_workers; i++) {
        const struct prn_remote_worker *k = &s->workers[i];
        const char *const cells[] = {k->id, k->name, k->hardware, k->state, k->user, k->session};
        for (size_t j = 0; j < PRN_ARRAY_SIZE(cells); j++)
            prn_table_cell_text(t, cells[j] && cells[j][0] ? cells[j] : "-");
        cell_since(t, k->held_ms);
    }
    int code = 0;
    if (s->n_workers == 0)
        prn_buffer_add(out, "No workers are connected.\n");
    else
        code = prn_table_write(t, PRN_TABLE_STYLE_TEXT, out, err);
    prn_table_free(t);
    return code;
}

static int show_holders(const struct prn_remote_ops *ops, struct prn_remote *remote,
                        struct prn_buffer *out, struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)64 << 20);
    struct prn_remote_status status;
    int code = ops->status(remote, &arena, &status, err);
    if (code == 0)
        code = write_holders(&status, out, err);
    prn_arena_release(&arena);
    return code;
}

/* ---- The command ---- */

static int admin_run(const void *opaque, const struct prn_strings *arguments,
                     struct prony_error *err)
{
    const struct options *o = opaque;
    const struct prn_remote_ops *ops;
    struct prn_remote *remote;
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)64 << 20);
    struct prn_remote_order order = {.user = o->user, .hosts = (uint64_t)o->hosts};
    int code = check_use(o, arguments, err);
    if (code == 0 && o->user)
        code = read_times(o, &order, err);
    if (code == 0)
        code = prn_server_connect(&o->server, NULL, &ops, &remote, err);
    if (code < 0)
        return code;
    const char *action = arguments->items[0];
    const char *argument = arguments->n > 1 ? arguments->items[1] : NULL;
    bool notice = strcmp(action, "notice") == 0;
    order.action = action;
    order.target = notice ? NULL : argument;
    order.text = notice ? argument : NULL;
    if (strcmp(action, "who") == 0)
        code = show_holders(ops, remote, &out, err);
    else
        code = ops->admin(remote, &order, &out, err);
    ops->free(remote);
    if (code == 0)
        code = prn_output(NULL, &out, err);
    prn_buffer_release(&out);
    return code;
}

static const struct prn_option option_table[] = {
    PRN_SERVER_ROWS(struct options),
    PRN_OPTION(TEXT, 0, "user", "USER", offsetof(struct options, user),
               "reserve: whom the hosts are kept for"),
    PRN_OPTION(TEXT, 0, "from", "TIME", offsetof(struct options, from),
               "reserve: when it begins, UTC, such as '2026-11-18 15:00' (default now)"),
    PRN_OPTION(TEXT, 0, "to", "TIME", offsetof(struct options, to),
               "reserve: when it ends, likewise"),
    PRN_OPTION(SECONDS, 0, "for", "DURATION", offsetof(struct options, for_s),
               "reserve: how long it lasts, instead of --to", .min = 1, .max = YEAR_S),
    PRN_OPTION(COUNT, 0, "hosts", "N", offsetof(struct options, hosts),
               "reserve: how many hosts of a pool (default 1)", .min = 1, .max = HOSTS_MAX),
    {0},
};

const struct prn_command prn_command_admin = {
    .name = "admin",
    .arguments = "ACTION [TARGET]",
    .summary = "operate a service: close sessions, disable hosts, pause pools",
    .description =
        "Acts on a running service; needs an administrator's token.\n"
        "'who' lists workers, who holds each, and for how long. 'close SESSION' ends a "
        "session. 'disable WORKER' gives a host no new sessions until 'enable WORKER'; 'drain "
        "WORKER' also stops the worker when its session ends. 'pause POOL' grants no hosts of "
        "that hardware until 'resume POOL'. Sessions that hold a host keep it. 'notice TEXT' "
        "is shown to all clients; 'notice' alone removes it. 'reserve POOL' or 'reserve "
        "WORKER' keeps hosts for a user for a time; 'prony status' lists reservations, and "
        "'cancel ID' ends one.",
    .examples =
        "# who holds what\n"
        "prony admin who --server localhost:50051\n"
        "# no further session on a worker\n"
        "prony admin disable w3 --server localhost:50051\n"
        "# tell everybody\n"
        "prony admin notice 'down for an upgrade at 18:00' --server localhost:50051\n"
        "# two hosts for one user, from now on\n"
        "prony admin reserve lab-cpu --user ann --for 2h --hosts 2 --server localhost:50051",
    .options = option_table,
    .options_size = sizeof(struct options),
    .min_arguments = 1,
    .max_arguments = 2,
    .run = admin_run,
};
