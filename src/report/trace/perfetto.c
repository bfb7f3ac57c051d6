/*
 * Events as Chrome's JSON trace format, which Perfetto's page opens. Events on one track must nest,
 * so CPU threads and GPU streams are tracks of their own, and so are the runs of each thread that
 * asked for some. What allocators say are counters. Written while the trace is read, so its size
 * doesn't matter.
 */
#include "report/trace/report.h"

#include "base/format.h"
#include "base/io.h"
#include "format/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FLUSH_BYTES ((size_t)256 << 10)
#define BUFFER_MAX (FLUSH_BYTES + 4 * PRN_TRACE_EVENT_MAX)
#define COUNTERS_MAX (2 * PRN_TRACE_ALLOCATORS_MAX)
#define TRACKS_MAX 4096 /* of each kind; what is beyond shares the last one */

enum process { PROCESS_RUNS = 1, PROCESS_CPU, PROCESS_GPU, PROCESS_COUNT };

static const struct {
    const char *name, *track;
} processes[PROCESS_COUNT] = {[PROCESS_RUNS] = {"Runs", "runs"},
                              [PROCESS_CPU] = {"CPU", "thread"},
                              [PROCESS_GPU] = {"GPU", "stream"}};

struct tracks {
    int64_t ids[TRACKS_MAX];
    size_t n;
    size_t last; /* found last: the next event is likely on the same */
};

/* A counter, of a provider: what it showed last. */
struct counter {
    const struct prn_symbol *provider;
    const char *what;
    int64_t bytes;
    bool begun;
};

struct prn_perfetto {
    int fd;
    const char *name;
    struct prn_buffer out;
    struct tracks tracks[PROCESS_COUNT];
    struct counter counters[COUNTERS_MAX];
    size_t n_counters;
    bool begun;
};

static void begin_event(struct prn_perfetto *p)
{
    prn_buffer_add(&p->out, p->begun ? ",\n" : "\n");
    p->begun = true;
}

static void name_track(struct prn_perfetto *p, enum process process, size_t track, const char *what,
                       const char *name)
{
    begin_event(p);
    prn_buffer_printf(&p->out,
                      "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%zu,\"args\":{\"name\":"
                      "\"%s\"}}",
                      what, process, track, name);
}

/* Tracks are numbered from 1. */
static size_t find_track(struct prn_perfetto *p, enum process process, int64_t id)
{
    struct tracks *tracks = &p->tracks[process];
    if (tracks->n > 0 && tracks->ids[tracks->last] == id)
        return tracks->last + 1;
    size_t i = 0;
    while (i < tracks->n && tracks->ids[i] != id)
        i++;
    if (i == TRACKS_MAX)
        return TRACKS_MAX;
    if (i == tracks->n) {
        char name[32];
        tracks->ids[tracks->n++] = id;
        snprintf(name, sizeof name, "%s %zu", processes[process].track, i + 1);
        name_track(p, process, i + 1, "thread_name", name);
    }
    tracks->last = i;
    return i + 1;
}

static int flush(struct prn_perfetto *p, struct prony_error *err)
{
    int code = prn_buffer_error(&p->out, err);
    if (code < 0)
        return code;
    if (prn_write_all(p->fd, prn_buffer_text(&p->out), p->out.len) < 0)
        return prn_fail_errno(err, errno, "write", p->name);
    prn_buffer_clear(&p->out);
    return 0;
}

int prn_perfetto_new(int fd, const char *name, struct prn_perfetto **ret_perfetto,
                     struct prony_error *err)
{
    struct prn_perfetto *p = calloc(1, sizeof *p);
    if (!p)
        return prn_fail_memory(err);
    p->fd = fd;
    p->name = name;
    p->out = PRN_BUFFER_INIT(BUFFER_MAX);
    prn_buffer_add(&p->out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for (enum process i = PROCESS_RUNS; i < PROCESS_COUNT; i++)
        name_track(p, i, 0, "process_name", processes[i].name);
    *ret_perfetto = p;
    return 0;
}

/* NULL: there are too many providers. */
static struct counter *find_counter(struct prn_perfetto *p, const struct prn_symbol *provider,
                                    const char *what)
{
    for (size_t i = 0; i < p->n_counters; i++)
        if (p->counters[i].provider == provider && p->counters[i].what == what)
            return &p->counters[i];
    if (p->n_counters == COUNTERS_MAX)
        return NULL;
    p->counters[p->n_counters] = (struct counter){.provider = provider, .what = what};
    return &p->counters[p->n_counters++];
}

/* A value that holds from here on. */
static void count(struct prn_perfetto *p, const struct prn_symbol *provider, const char *what,
                  int64_t ns, int64_t bytes)
{
    struct counter *counter = find_counter(p, provider, what);
    char at[PRN_FORMAT_SIZE];
    if (!counter || (counter->begun && counter->bytes == bytes))
        return;
    counter->begun = true;
    counter->bytes = bytes;
    struct prn_buffer name = PRN_BUFFER_INIT(PRN_TRACE_EVENT_MAX);
    prn_buffer_printf(&name, "%s%s%s", what, provider ? ", " : "", provider ? provider->text : "");
    begin_event(p);
    prn_buffer_printf(&p->out, "{\"ph\":\"C\",\"pid\":%d,\"ts\":%s,\"name\":", PROCESS_CPU,
                      prn_format_shortest(at, (double)ns / 1e3));
    prn_json_quote(&p->out, prn_buffer_text(&name));
    prn_buffer_printf(&p->out, ",\"args\":{\"bytes\":%" PRId64 "}}", bytes);
    if (name.error)
        p->out.error = name.error;
    prn_buffer_release(&name);
}

/* Before and after the node: what was given back between two nodes shows, too. */
static void count_memory(struct prn_perfetto *p, const struct prn_trace_event *event)
{
    static const char in_use[] = "Memory in use";
    static const char held[] = "Arena held";
    const struct prn_trace_mem *m = &event->memory;
    int64_t before, end_ns;
    if (!m->known || __builtin_sub_overflow(m->in_use, m->in_use_delta, &before) ||
        __builtin_add_overflow(event->start_ns, event->duration_ns, &end_ns))
        return;
    count(p, event->provider, in_use, event->start_ns, before);
    count(p, event->provider, in_use, end_ns, m->in_use);
    count(p, event->provider, held, end_ns, m->held);
}

int prn_perfetto_event(struct prn_perfetto *p, const struct prn_trace_event *event, uint64_t run,
                       struct prony_error *err)
{
    bool is_run = event->name->role == PRN_TRACE_ROLE_MODEL_RUN;
    enum process process = is_run                                ? PROCESS_RUNS
                           : event->category == PRN_TRACE_KERNEL ? PROCESS_GPU
                                                                 : PROCESS_CPU;
    size_t track = find_track(p, process, event->thread);
    char start[PRN_FORMAT_SIZE];
    char duration[PRN_FORMAT_SIZE];
    char name[32];
    begin_event(p);
    prn_buffer_printf(&p->out,
                      "{\"ph\":\"X\",\"pid\":%d,\"tid\":%zu,\"ts\":%s,\"dur\":%s,\"cat\":", process,
                      track, prn_format_shortest(start, (double)event->start_ns / 1e3),
                      prn_format_shortest(duration, (double)event->duration_ns / 1e3));
    prn_json_quote(&p->out, event->op ? event->op->text : "session");
    prn_buffer_add(&p->out, ",\"name\":");
    if (is_run)
        snprintf(name, sizeof name, "run %" PRIu64, run);
    prn_json_quote(&p->out, is_run ? name : event->name->symbol.text);
    prn_buffer_add(&p->out, ",\"args\":");
    prn_buffer_append(&p->out, event->args, event->args_len);
    prn_buffer_add(&p->out, "}");
    count_memory(p, event);
    return p->out.len >= FLUSH_BYTES ? flush(p, err) : 0;
}

int prn_perfetto_end(struct prn_perfetto *p, struct prony_error *err)
{
    prn_buffer_add(&p->out, "\n]}\n");
    return flush(p, err);
}

void prn_perfetto_free(struct prn_perfetto *p)
{
    if (!p)
        return;
    prn_buffer_release(&p->out);
    free(p);
}
