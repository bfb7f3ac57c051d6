#include "report/trace/timeline.h"

#include "base/array.h"
#include "format/json.h"
#include "report/thin.h"
#include "report/trace/view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_MAX ((size_t)256 << 20)
#define NAMES_MAX 100000
#define LANES_MAX 256 /* what is beyond shares the last one */

enum lane_kind { LANE_RUN, LANE_CPU, LANE_GPU };

struct lane {
    enum lane_kind kind;
    int64_t thread;
};

/* What an allocator had in use before and after a node. */
struct level {
    uint32_t name, op;
    int64_t before_bytes, after_bytes, peak_bytes, arena_bytes;
};

/* The nodes of a run as the allocator with the highest peak saw them. */
struct levels {
    const char *provider; /* of the trace that was read before; NULL: events name none */
    int64_t peak_bytes;
    uint64_t run;
    struct level *items;
    size_t n;
    uint64_t nodes; /* also those that were too many */
    bool wanted;
};

struct prn_timeline {
    struct prn_arena arena;
    struct prn_symbols names, ops;
    struct lane lanes[LANES_MAX];
    size_t n_lanes;
    struct prn_thin_span *spans;
    size_t n;
    uint64_t events; /* also those that were too many */
    uint64_t run;
    int64_t start_ns, end_ns;
    struct prn_buffer scratch;
    struct levels levels;
};

/* Which run: the one whose time is closest to the median of those selected. */
static uint64_t choose(const struct prn_trace *trace)
{
    uint64_t listed = trace->n_runs < PRN_TRACE_RUNS_LISTED ? trace->n_runs : PRN_TRACE_RUNS_LISTED;
    double median = prn_sketch_quantile(&trace->ledger[PRN_LEDGER_TOTAL], 0.5);
    uint64_t best = 0;
    double closest = INFINITY;
    for (uint64_t i = 0; i < listed; i++) {
        double distance = fabs((double)trace->runs[i].duration_ns - median);
        /* Run 0 is warm-up: another that is as close shows more. */
        if (distance < closest || (best == 0 && distance <= closest)) {
            best = i;
            closest = distance;
        }
    }
    return best;
}

static uint32_t lane_of(struct prn_timeline *t, enum lane_kind kind, int64_t thread)
{
    size_t i = 0;
    while (i < t->n_lanes && (t->lanes[i].kind != kind || t->lanes[i].thread != thread))
        i++;
    if (i == LANES_MAX)
        return LANES_MAX - 1;
    if (i == t->n_lanes)
        t->lanes[t->n_lanes++] = (struct lane){kind, thread};
    return (uint32_t)i;
}

/* The number of a text; past the limit, that of the last one. */
static int number_of(struct prn_symbols *symbols, const char *text, size_t len, uint32_t *ret,
                     struct prony_error *err)
{
    const struct prn_symbol *symbol;
    int code = prn_symbols_get(symbols, text, len, &symbol);
    if (code == PRONY_ELIMIT) {
        *ret = NAMES_MAX - 1;
        return 0;
    }
    if (code < 0)
        return prn_fail_memory(err);
    *ret = symbol->id;
    return 0;
}

static int number_texts(struct prn_timeline *t, const struct prn_trace_event *event,
                        uint32_t *ret_name, uint32_t *ret_op, struct prony_error *err)
{
    const struct prn_symbol *symbol = &event->name->symbol;
    const char *name =
        event->category == PRN_TRACE_NODE ? prn_trace_node_name(symbol, &t->scratch) : symbol->text;
    int code = prn_buffer_error(&t->scratch, err);
    if (code == 0)
        code = number_of(&t->names, name, strlen(name), ret_name, err);
    return code < 0 ? code
                    : number_of(&t->ops, event->op ? event->op->text : "",
                                event->op ? event->op->len : 0, ret_op, err);
}

static bool is_of_levels(const struct levels *l, const struct prn_trace_event *event, uint64_t run)
{
    const char *provider = event->provider ? event->provider->text : NULL;
    bool same =
        provider && l->provider ? strcmp(provider, l->provider) == 0 : !provider == !l->provider;
    return l->wanted && run == l->run && event->memory.known && same;
}

static int add_level(struct prn_timeline *t, const struct prn_trace_event *event,
                     struct prony_error *err)
{
    struct levels *l = &t->levels;
    const struct prn_trace_mem *m = &event->memory;
    struct level level = {.after_bytes = m->in_use, .peak_bytes = m->peak, .arena_bytes = m->held};
    if (__builtin_sub_overflow(m->in_use, m->in_use_delta, &level.before_bytes) ||
        l->nodes++ >= PRN_TIMELINE_NODES_MAX)
        return 0;
    int code = number_texts(t, event, &level.name, &level.op, err);
    if (code < 0)
        return code;
    struct level *grown = prn_array_grow(l->items, l->n, sizeof *grown);
    if (!grown)
        return prn_fail_memory(err);
    l->items = grown;
    l->items[l->n++] = level;
    return 0;
}

static int add_event(void *context, const struct prn_trace_event *event, uint64_t run,
                     struct prony_error *err)
{
    struct prn_timeline *t = context;
    bool is_run = event->name->role == PRN_TRACE_ROLE_MODEL_RUN;
    enum lane_kind kind = event->category == PRN_TRACE_KERNEL ? LANE_GPU : LANE_CPU;
    struct prn_thin_span span = {event->start_ns, event->duration_ns, 0, 0, 0};
    int code = is_of_levels(&t->levels, event, run) ? add_level(t, event, err) : 0;
    if (code < 0 || event->category == PRN_TRACE_NONE || run != t->run)
        return code;
    if (t->events++ >= PRN_TIMELINE_EVENTS_MAX)
        return 0;
    code = number_texts(t, event, &span.name, &span.op, err);
    if (code < 0)
        return code;
    span.lane = lane_of(t, is_run ? LANE_RUN : kind, event->thread);
    struct prn_thin_span *grown = prn_array_grow(t->spans, t->n, sizeof *grown);
    if (!grown)
        return prn_fail_memory(err);
    t->spans = grown;
    t->spans[t->n++] = span;
    t->start_ns = t->n == 1 || span.start_ns < t->start_ns ? span.start_ns : t->start_ns;
    int64_t end_ns = span.start_ns + span.duration_ns;
    t->end_ns = t->n == 1 || end_ns > t->end_ns ? end_ns : t->end_ns;
    return 0;
}

static int read_events(struct prn_trace_files *files, struct prn_trace_options *options,
                       struct prony_error *err)
{
    struct prn_trace *trace;
    int code = prn_trace_files_rewind(files, err);
    if (code == 0)
        code = prn_trace_read(files, options, &trace, err);
    if (code == 0)
        prn_trace_free(trace);
    return code;
}

/* The allocator with the highest peak. */
static void choose_levels(const struct prn_trace *trace, struct levels *l)
{
    for (size_t i = 0; i < trace->memory.n; i++) {
        const struct prn_trace_allocator *a = &trace->memory.allocators[i];
        if (l->wanted && a->peak_bytes <= l->peak_bytes)
            continue;
        *l = (struct levels){.provider = a->provider ? a->provider->text : NULL,
                             .peak_bytes = a->peak_bytes,
                             .run = trace->whole_is_one_run ? 0 : a->peak_run,
                             .wanted = true};
    }
}

int prn_timeline_read(struct prn_trace_files *files, const struct prn_trace *trace,
                      const struct prn_trace_options *options, struct prn_timeline **ret_timeline,
                      struct prony_error *err)
{
    struct prn_timeline *t = calloc(1, sizeof *t);
    if (!t)
        return prn_fail_memory(err);
    t->arena = PRN_ARENA_INIT(ARENA_MAX);
    t->names = PRN_SYMBOLS_INIT(NAMES_MAX, &t->arena);
    t->ops = PRN_SYMBOLS_INIT(NAMES_MAX, &t->arena);
    t->scratch = PRN_BUFFER_INIT(PRN_TRACE_EVENT_MAX);
    t->run = trace->whole_is_one_run ? 0 : choose(trace);
    struct prn_trace_options one = *options;
    one.runs = (struct prn_run_choice){PRN_RUN_UNSET, PRN_RUN_UNSET, NULL};
    choose_levels(trace, &t->levels);
    char chosen[64];
    snprintf(chosen, sizeof chosen, "[%" PRIu64 ", %" PRIu64 "]", t->run,
             t->levels.wanted ? t->levels.run : t->run);
    if (!trace->whole_is_one_run)
        one.runs.gather = chosen;
    one.on_event = add_event;
    one.on_progress = NULL;
    one.context = t;
    int code = read_events(files, &one, err);
    if (code < 0)
        prn_timeline_free(t);
    else
        *ret_timeline = t;
    return code;
}

void prn_timeline_free(struct prn_timeline *t)
{
    if (!t)
        return;
    prn_symbols_release(&t->names);
    prn_symbols_release(&t->ops);
    prn_buffer_release(&t->scratch);
    prn_arena_release(&t->arena);
    free(t->spans);
    free(t->levels.items);
    free(t);
}

/* ---- Writing ---- */

static void write_lanes(const struct prn_timeline *t, struct prn_json_writer *w)
{
    static const char *const kinds[] = {
        [LANE_RUN] = "run", [LANE_CPU] = "thread", [LANE_GPU] = "stream"};
    size_t numbers[PRN_ARRAY_SIZE(kinds)] = {0};
    prn_json_array(w, "lanes");
    for (size_t i = 0; i < t->n_lanes; i++) {
        prn_json_object(w, NULL);
        prn_json_text(w, "kind", kinds[t->lanes[i].kind]);
        prn_json_integer(w, "number", (int64_t)++numbers[t->lanes[i].kind]);
        prn_json_end(w);
    }
    prn_json_end(w);
}

/* Only texts that are used: those of events that are left out would fill the page. */
static int write_texts(const struct prn_timeline *t, struct prn_json_writer *w, const char *key,
                       const struct prn_symbols *texts, size_t n, bool ops, struct prony_error *err)
{
    uint32_t *numbers = calloc(texts->n + 1, sizeof *numbers);
    uint32_t next = 0;
    if (!numbers)
        return prn_fail_memory(err);
    prn_json_array(w, key);
    for (size_t i = 0; i < n; i++) {
        uint32_t *number = ops ? &t->spans[i].op : &t->spans[i].name;
        if (numbers[*number] == 0) {
            prn_json_text(w, NULL, texts->items[*number]->text);
            numbers[*number] = ++next;
        }
        *number = numbers[*number] - 1;
    }
    prn_json_end(w);
    free(numbers);
    return 0;
}

static double since_us(const struct prn_timeline *t, int64_t ns)
{
    return (double)(ns - t->start_ns) / 1e3;
}

static void write_spans(const struct prn_timeline *t, struct prn_json_writer *w, size_t n)
{
    prn_json_object(w, "spans");
#define COLUMN(key, write, value)                        \
    prn_json_array_compact(w, key);                      \
    for (size_t i = 0; i < n; i++) {                     \
        const struct prn_thin_span *span = &t->spans[i]; \
        write(w, NULL, value);                           \
    }                                                    \
    prn_json_end(w);
    COLUMN("lane", prn_json_integer, span->lane)
    COLUMN("name", prn_json_integer, span->name)
    COLUMN("op", prn_json_integer, span->op)
    COLUMN("start_us", prn_json_number, since_us(t, span->start_ns))
    COLUMN("duration_us", prn_json_number, (double)span->duration_ns / 1e3)
#undef COLUMN
    prn_json_end(w);
}

static void write_rest(struct prn_json_writer *w, const struct prn_thin_spans *thinned)
{
    prn_json_object(w, "rest");
#define COLUMN(key, write, value)                \
    prn_json_array_compact(w, key);              \
    for (size_t i = 0; i < thinned->n_rest; i++) \
        write(w, NULL, value);                   \
    prn_json_end(w);
    COLUMN("lane", prn_json_integer, thinned->rest[i].lane)
    COLUMN("pixel", prn_json_integer, thinned->rest[i].pixel)
    COLUMN("count", prn_json_integer, (int64_t)thinned->rest[i].count)
    COLUMN("busy_us", prn_json_number, (double)thinned->rest[i].busy_ns / 1e3)
#undef COLUMN
    prn_json_end(w);
}

static void write_levels(const struct prn_timeline *t, struct prn_json_writer *w)
{
    const struct levels *l = &t->levels;
    prn_json_object(w, "memory");
    prn_json_integer(w, "run", (int64_t)l->run);
    if (l->provider)
        prn_json_text(w, "provider", l->provider);
    else
        prn_json_null(w, "provider");
    prn_json_integer(w, "nodes", (int64_t)l->nodes);
    prn_json_integer(w, "peak_bytes", l->peak_bytes);
#define COLUMN(key, write, value)                 \
    prn_json_array_compact(w, key);               \
    for (size_t i = 0; i < l->n; i++) {           \
        const struct level *level = &l->items[i]; \
        write(w, NULL, value);                    \
    }                                             \
    prn_json_end(w);
    COLUMN("node", prn_json_text, t->names.items[level->name]->text)
    COLUMN("op", prn_json_text, t->ops.items[level->op]->text)
    COLUMN("before_bytes", prn_json_integer, level->before_bytes)
    COLUMN("after_bytes", prn_json_integer, level->after_bytes)
    COLUMN("allocator_peak_bytes", prn_json_integer, level->peak_bytes)
    COLUMN("arena_bytes", prn_json_integer, level->arena_bytes)
#undef COLUMN
    prn_json_end(w);
}

int prn_timeline_write(struct prn_timeline *t, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_json_writer writer = prn_json_writer_init(out);
    struct prn_json_writer *w = &writer;
    struct prn_thin_spans thinned;
    int64_t duration_ns = t->end_ns - t->start_ns;
    int code = prn_thin_spans(t->spans, t->n, PRN_TIMELINE_SPANS_MAX, t->start_ns, duration_ns,
                              PRN_TIMELINE_PIXELS, &t->arena, &thinned, err);
    if (code < 0)
        return code;
    prn_json_object(w, NULL);
    prn_json_integer(w, "run", (int64_t)t->run);
    prn_json_integer(w, "events", (int64_t)t->events);
    prn_json_integer(w, "shown", (int64_t)thinned.n);
    prn_json_integer(w, "pixels", PRN_TIMELINE_PIXELS);
    prn_json_number(w, "duration_us", (double)duration_ns / 1e3);
    if (t->levels.n > 0)
        write_levels(t, w);
    write_lanes(t, w);
    code = write_texts(t, w, "names", &t->names, thinned.n, false, err);
    if (code == 0)
        code = write_texts(t, w, "ops", &t->ops, thinned.n, true, err);
    if (code < 0)
        return code;
    write_spans(t, w, thinned.n);
    write_rest(w, &thinned);
    prn_json_end(w);
    return prn_buffer_error(out, err);
}
