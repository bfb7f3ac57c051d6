/* What a trace says of memory: tables for people, records for programs. */
#include "report/trace/view.h"

#include "base/format.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Records ---- */

#define PRN_OF struct prn_trace_use
static const struct prn_member use_members[] = {PRN_TRACE_MEMORY_LIST(PRN_DESCRIBE)};
const struct prn_schema prn_trace_use_schema = PRN_SCHEMA(
    "Use", use_members,
    "Memory of a group: the most of run 0 and the analysed runs. What the allocator says "
    "covers whatever else uses it; If, Loop and Scan contain their bodies.",
    PRN_PRESENT(events));
#undef PRN_OF

#define PRN_OF struct prn_trace_run_memory
static const struct prn_member run_members[] = {PRN_TRACE_RUN_MEMORY_LIST(PRN_DESCRIBE)};
static const struct prn_schema run_schema =
    PRN_SCHEMA("RunMemory", run_members, "Memory of a run.", PRN_PRESENT(events));
#undef PRN_OF

static const char *const whens[][2] = {[PRN_TRACE_PEAK_IN] = {"in", "at"},
                                       [PRN_TRACE_PEAK_BEFORE] = {"before", "reached before"},
                                       [PRN_TRACE_PEAK_BY] = {"by", "reached at or before"}};

struct allocator {
    const char *provider;
    int64_t peak_bytes;
    const char *peak_when;
    const char *peak_node;
    uint64_t peak_run;
    int64_t live_bytes, arena_bytes;
};

#define PRN_OF struct allocator
static const struct prn_member allocator_members[] = {
    PRN_TEXT(provider, "The provider whose memory it is; null where events name none.",
             .flags = PRN_NULL),
    PRN_INTEGER(peak_bytes, "Most bytes in use since it was made."),
    PRN_TEXT(peak_when, "When: `in` a node, `before` it began, or `by` its end, if nothing is "
                        "known of what came before."),
    PRN_TEXT(peak_node, "That node; null past the limit of names.", .flags = PRN_NULL),
    PRN_UINT64(peak_run, "The run of that node."),
    PRN_INTEGER(live_bytes, "Most bytes in use after a node."),
    PRN_INTEGER(arena_bytes, "Most that its arena took from the system."),
};
static const struct prn_schema allocator_schema =
    PRN_SCHEMA("Allocator", allocator_members, "An allocator, over the whole trace.");
#undef PRN_OF

struct memory {
    struct allocator allocators[PRN_TRACE_ALLOCATORS_MAX];
    const struct allocator *at;
    size_t n;
    const struct prn_trace_run_memory *runs;
    size_t n_runs;
    bool hidden, shared;
};

#define PRN_OF struct memory
static const struct prn_member memory_members[] = {
    PRN_ARRAY(at, n, &allocator_schema, "One for each provider.", .key = "allocators"),
    PRN_ARRAY(runs, n_runs, &run_schema,
              "Each run, if there are no more than 10,000; null for one without such events.",
              .flags = PRN_NULL_ITEMS),
    PRN_BOOL(hidden,
             "After run 0 few nodes show growth: memory patterns take it in one piece before the "
             "first node.",
             .key = "growth_hidden"),
    PRN_BOOL(shared, "Runs or nodes overlap, so a node's figures contain what others did.",
             .key = "shared"),
};
static const struct prn_schema memory_schema = PRN_SCHEMA(
    "Memory", memory_members, "What node events say of memory, in bytes.", PRN_PRESENT(n));
#undef PRN_OF

/* Whether more than one node runs at a time, in one run or in several. */
static bool is_shared(const struct prn_trace *t)
{
    double node = t->ledger_ns[PRN_LEDGER_NODE];
    return t->overlapping > 0 || (node > 0 && t->ledger_node_sum_ns > 1.01 * node);
}

int prn_trace_memory_json(struct prn_json_writer *w, const struct prn_trace *t,
                          struct prony_error *err)
{
    struct memory m = {
        .n = t->memory.n, .hidden = prn_trace_memory_is_hidden(&t->memory), .shared = is_shared(t)};
    struct prn_buffer names[PRN_TRACE_ALLOCATORS_MAX];
    int code = 0;
    for (size_t i = 0; i < m.n; i++) {
        const struct prn_trace_allocator *a = &t->memory.allocators[i];
        names[i] = PRN_BUFFER_INIT(PRN_TRACE_EVENT_MAX);
        m.allocators[i] = (struct allocator){
            .provider = a->provider ? a->provider->text : NULL,
            .peak_bytes = a->peak_bytes,
            .peak_when = whens[a->peak_when][0],
            .peak_node = a->peak_node ? prn_trace_node_name(a->peak_node, &names[i]) : NULL,
            .peak_run = a->peak_run,
            .live_bytes = a->live_bytes,
            .arena_bytes = a->arena_bytes};
        code = code < 0 ? code : prn_buffer_error(&names[i], err);
    }
    m.at = m.allocators;
    struct prn_trace_run_memory *runs = NULL;
    if (t->n_runs <= PRN_TRACE_RUNS_LISTED && t->n_runs > 0) {
        m.runs = runs = calloc(t->n_runs, sizeof *runs);
        m.n_runs = runs ? t->n_runs : 0;
        for (uint64_t i = 0; i < m.n_runs; i++)
            runs[i] = t->runs[i].memory;
        code = code == 0 && !runs ? prn_fail_memory(err) : code;
    }
    if (code == 0)
        prn_schema_write(w, "memory", &memory_schema, &m);
    free(runs);
    for (size_t i = 0; i < m.n; i++)
        prn_buffer_release(&names[i]);
    return code;
}

/* ---- Tables ---- */

static void bytes_cell(struct prn_table *t, int64_t bytes)
{
    char text[PRN_FORMAT_SIZE];
    double size = (double)bytes;
    prn_table_cell(t, "%s%s", bytes < 0 ? "-" : "",
                   prn_format_bytes(text, bytes < 0 ? -size : size));
}

static int by_growth(const void *a, const void *b)
{
    const struct prn_trace_use *x = &(*(const struct prn_trace_group *const *)a)->memory;
    const struct prn_trace_use *y = &(*(const struct prn_trace_group *const *)b)->memory;
    const int64_t pairs[][2] = {{x->growth_bytes, y->growth_bytes},
                                {x->workspace_bytes, y->workspace_bytes},
                                {x->live_bytes, y->live_bytes}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(pairs); i++)
        if (pairs[i][0] != pairs[i][1])
            return pairs[i][0] < pairs[i][1] ? 1 : -1;
    return 0;
}

static int write_groups(const struct prn_trace_report *r, const struct prn_trace_group **groups,
                        size_t n, enum prn_table_style style, struct prn_buffer *out,
                        struct prony_error *err)
{
    struct prn_table *t = prn_table_new();
    prn_table_width(t, r->options.width);
    prn_table_rest(t, PRN_TRACE_MORE, 1);
    prn_trace_key_columns(t, r->cpu.table->by, false, NULL);
    prn_table_columns(t, ">Growth|>Live|>Rounding|>Workspace|>Arena growth");
    for (size_t i = 0; i < n; i++) {
        const struct prn_trace_use *use = &groups[i]->memory;
        prn_trace_key_cells(t, r->cpu.table->by, &groups[i]->key);
        bytes_cell(t, use->growth_bytes);
        bytes_cell(t, use->live_bytes);
        bytes_cell(t, use->waste_bytes);
        bytes_cell(t, use->workspace_bytes);
        bytes_cell(t, use->arena_growth_bytes);
    }
    return prn_table_end(t, style, out, err);
}

/* Runs that differ from the one before: an arena that grew stays as it is. */
static int write_runs(const struct prn_trace_report *r, enum prn_table_style style,
                      struct prn_buffer *out, struct prony_error *err)
{
    const struct prn_trace *trace = r->trace;
    uint64_t n = trace->n_runs < PRN_TRACE_RUNS_LISTED ? trace->n_runs : PRN_TRACE_RUNS_LISTED;
    const struct prn_trace_run_memory *last = NULL;
    struct prn_table *t = prn_table_new();
    prn_table_width(t, r->options.width);
    prn_table_columns(t, ">From run|>Live|>Rounding|>Peak so far|>Arena|>Nodes that grew");
    size_t shown = 0;
    for (uint64_t i = 0; i < n && shown < r->options.count; i++) {
        const struct prn_trace_run_memory *m = &trace->runs[i].memory;
        bool same = last && m->live_bytes == last->live_bytes &&
                    m->peak_bytes == last->peak_bytes && m->arena_bytes == last->arena_bytes &&
                    m->growing_nodes == last->growing_nodes;
        if (m->events == 0 || same)
            continue;
        prn_table_cell(t, "%" PRIu64, i);
        bytes_cell(t, m->live_bytes);
        bytes_cell(t, m->waste_bytes);
        bytes_cell(t, m->peak_bytes);
        bytes_cell(t, m->arena_bytes);
        prn_table_cell(t, "%" PRId64 " of %" PRIu64, m->growing_nodes, m->events);
        last = m;
        shown++;
    }
    return prn_table_end(t, style, out, err);
}

/* ---- Text ---- */

static void write_peaks(const struct prn_trace *t, struct prn_prose *prose)
{
    struct prn_buffer name = PRN_BUFFER_INIT(PRN_TRACE_EVENT_MAX);
    char text[PRN_FORMAT_SIZE];
    for (size_t i = 0; i < t->memory.n; i++) {
        const struct prn_trace_allocator *a = &t->memory.allocators[i];
        prn_buffer_printf(&prose->line, "The peak%s%s is %s", t->memory.n > 1 ? " of " : "",
                          t->memory.n > 1 && a->provider ? a->provider->text : "",
                          prn_format_bytes(text, (double)a->peak_bytes));
        prn_buffer_printf(&prose->line, ", %s %s in run %" PRIu64, whens[a->peak_when][1],
                          a->peak_node ? prn_trace_node_name(a->peak_node, &name) : "a node",
                          a->peak_run);
        prn_prose_paragraph(prose, "; the arena holds %s.",
                            prn_format_bytes(text, (double)a->arena_bytes));
    }
    prn_buffer_release(&name);
}

/* What the reader must know to read the tables right. */
static void write_notes(const struct prn_trace *t, struct prn_prose *prose)
{
    const struct prn_trace_memory *m = &t->memory;
    if (prn_trace_memory_is_hidden(m))
        prn_prose_paragraph(prose,
                            "Memory patterns hide growth after run 0: %" PRIu64 " of %" PRIu64
                            " nodes grew in run 0, %" PRIu64 " of %" PRIu64
                            " later. Record with enable_mem_pattern "
                            "off to see it in each run.",
                            m->first_growing, m->first_events, m->later_growing, m->later_events);
    if (is_shared(t))
        prn_prose_paragraph(prose, "Runs or nodes overlap and share an allocator: the figures of a "
                                   "node include what others did meanwhile.");
    if (t->ledger_nested_ns > 0)
        prn_prose_paragraph(prose, "Nodes with bodies (If, Loop, Scan) include what their bodies "
                                   "did.");
}

int prn_trace_memory_text(const struct prn_trace_report *r, bool markdown, struct prn_buffer *out,
                          struct prony_error *err)
{
    const struct prn_trace *t = r->trace;
    enum prn_table_style style = markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT;
    if (t->memory.n == 0 || r->cpu.n == 0)
        return 0;
    const struct prn_trace_group **groups = calloc(r->cpu.n, sizeof(struct prn_trace_group *));
    if (!groups)
        return prn_fail_memory(err);
    size_t n = 0;
    for (size_t i = 0; i < r->cpu.n; i++)
        if (r->cpu.groups[i]->memory.events > 0)
            groups[n++] = r->cpu.groups[i];
    qsort(groups, n, sizeof(struct prn_trace_group *), by_growth);
    size_t shown = n < r->options.count ? n : r->options.count;
    prn_heading(out, markdown, "Memory");
    struct prn_prose prose = prn_trace_prose(&r->options, markdown, out);
    write_peaks(t, &prose);
    write_notes(t, &prose);
    prn_prose_release(&prose);
    prn_buffer_add_char(out, '\n');
    int code = n > 0 ? write_groups(r, groups, shown, style, out, err) : 0;
    free(groups);
    if (code == 0 && t->n_runs > 0) {
        prn_buffer_add_char(out, '\n');
        code = write_runs(r, style, out, err);
    }
    return code;
}

/* ---- Two traces ---- */

/* The allocator of the same provider; NULL: that trace doesn't tell. */
static const struct prn_trace_allocator *find_twin(const struct prn_trace *t,
                                                   const struct prn_symbol *provider)
{
    for (size_t i = 0; i < t->memory.n; i++) {
        const struct prn_symbol *other = t->memory.allocators[i].provider;
        if (provider == other || (provider && other && strcmp(provider->text, other->text) == 0))
            return &t->memory.allocators[i];
    }
    return NULL;
}

static const struct prn_trace_use *use_of(const struct prn_trace_group *group)
{
    return group && group->memory.events > 0 ? &group->memory : NULL;
}

/* Calls for each allocator of either trace, the first's first. */
static void each_allocator(const struct prn_trace *a, const struct prn_trace *b, void *context,
                           void (*call)(void *context, const struct prn_symbol *provider,
                                        const struct prn_trace_allocator *a,
                                        const struct prn_trace_allocator *b))
{
    for (size_t i = 0; i < a->memory.n; i++) {
        const struct prn_trace_allocator *own = &a->memory.allocators[i];
        call(context, own->provider, own, find_twin(b, own->provider));
    }
    for (size_t i = 0; i < b->memory.n; i++) {
        const struct prn_trace_allocator *own = &b->memory.allocators[i];
        if (!find_twin(a, own->provider))
            call(context, own->provider, NULL, own);
    }
}

static void json_bytes(struct prn_json_writer *w, const char *key, const int64_t *bytes)
{
    if (bytes)
        prn_json_integer(w, key, *bytes);
    else
        prn_json_null(w, key);
}

static void json_allocator(void *context, const struct prn_symbol *provider,
                           const struct prn_trace_allocator *a, const struct prn_trace_allocator *b)
{
    struct prn_json_writer *w = context;
    prn_json_object(w, NULL);
    if (provider)
        prn_json_text(w, "provider", provider->text);
    else
        prn_json_null(w, "provider");
    json_bytes(w, "first_peak_bytes", a ? &a->peak_bytes : NULL);
    json_bytes(w, "second_peak_bytes", b ? &b->peak_bytes : NULL);
    json_bytes(w, "first_arena_bytes", a ? &a->arena_bytes : NULL);
    json_bytes(w, "second_arena_bytes", b ? &b->arena_bytes : NULL);
    prn_json_end(w);
}

void prn_trace_memory_compare_json(struct prn_json_writer *w, const struct prn_trace_comparison *c,
                                   const struct prn_trace *a, const struct prn_trace *b,
                                   struct prn_buffer *scratch)
{
    prn_json_object(w, "memory");
    prn_json_array(w, "allocators");
    each_allocator(a, b, w, json_allocator);
    prn_json_end(w);
    prn_json_array(w, "groups");
    for (size_t i = 0; i < c->n[0]; i++) {
        const struct prn_trace_use *uses[] = {use_of(c->rows[0][i].a), use_of(c->rows[0][i].b)};
        static const char *const keys[] = {"first", "second"};
        if (!uses[0] && !uses[1])
            continue;
        prn_json_object(w, NULL);
        prn_trace_key_members(w, c->rows[0][i].key, scratch);
        for (size_t side = 0; side < 2; side++)
            if (uses[side])
                prn_schema_write(w, keys[side], &prn_trace_use_schema, uses[side]);
            else
                prn_json_null(w, keys[side]);
        prn_json_end(w);
    }
    prn_json_end(w);
    prn_json_end(w);
}

static void say_peaks(void *context, const struct prn_symbol *provider,
                      const struct prn_trace_allocator *a, const struct prn_trace_allocator *b)
{
    struct prn_prose *prose = context;
    char text[4][PRN_FORMAT_SIZE];
    const char *of = provider ? " of " : "";
    const char *name = provider ? provider->text : "";
    if (a && b)
        prn_prose_paragraph(prose,
                            "The peak%s%s is %s in the first and %s in the second; the arena holds "
                            "%s and %s.",
                            of, name, prn_format_bytes(text[0], (double)a->peak_bytes),
                            prn_format_bytes(text[1], (double)b->peak_bytes),
                            prn_format_bytes(text[2], (double)a->arena_bytes),
                            prn_format_bytes(text[3], (double)b->arena_bytes));
    else
        prn_prose_paragraph(prose, "The peak%s%s is %s in the %s; the %s does not tell.", of, name,
                            prn_format_bytes(text[0], (double)(a ? a : b)->peak_bytes),
                            a ? "first" : "second", a ? "second" : "first");
}

/* How much two sides differ; what only one has differs by all of it. */
static int64_t distance(const struct prn_trace_difference *row, bool growth)
{
    const struct prn_trace_use *a = use_of(row->a);
    const struct prn_trace_use *b = use_of(row->b);
    int64_t was = !a ? 0 : growth ? a->growth_bytes : a->live_bytes;
    int64_t is = !b ? 0 : growth ? b->growth_bytes : b->live_bytes;
    int64_t difference;
    if (__builtin_sub_overflow(is, was, &difference) || difference == INT64_MIN)
        return INT64_MAX;
    return difference < 0 ? -difference : difference;
}

static int by_distance(const void *a, const void *b)
{
    const struct prn_trace_difference *x = *(const struct prn_trace_difference *const *)a;
    const struct prn_trace_difference *y = *(const struct prn_trace_difference *const *)b;
    for (int growth = 1; growth >= 0; growth--) {
        int64_t dx = distance(x, growth);
        int64_t dy = distance(y, growth);
        if (dx != dy)
            return dx < dy ? 1 : -1;
    }
    return x < y ? -1 : x > y;
}

static void use_cell(struct prn_table *t, const struct prn_trace_use *use, bool growth)
{
    if (use)
        bytes_cell(t, growth ? use->growth_bytes : use->live_bytes);
    else
        prn_table_cell(t, "-");
}

/* Groups that differ, the largest difference first. */
static int write_differences(const struct prn_trace_comparison *c, unsigned by,
                             const struct prn_trace_report_options *options,
                             enum prn_table_style style, struct prn_buffer *out,
                             struct prony_error *err)
{
    const struct prn_trace_difference **rows =
        calloc(c->n[0] + 1, sizeof(struct prn_trace_difference *));
    size_t n = 0;
    if (!rows)
        return prn_fail_memory(err);
    for (size_t i = 0; i < c->n[0]; i++)
        if (distance(&c->rows[0][i], true) > 0 || distance(&c->rows[0][i], false) > 0)
            rows[n++] = &c->rows[0][i];
    qsort(rows, n, sizeof(struct prn_trace_difference *), by_distance);
    struct prn_table *t = prn_table_new();
    prn_table_width(t, options->width);
    prn_table_rest(t, PRN_TRACE_MORE, 1);
    prn_trace_key_columns(t, by, false, NULL);
    prn_table_columns(t, ">First growth|>Second growth|>First live|>Second live");
    for (size_t i = 0; i < n && i < options->count; i++) {
        prn_trace_key_cells(t, by, rows[i]->key);
        for (int growth = 1; growth >= 0; growth--) {
            use_cell(t, use_of(rows[i]->a), growth);
            use_cell(t, use_of(rows[i]->b), growth);
        }
    }
    free(rows);
    if (n > 0)
        return prn_table_end(t, style, out, err);
    prn_table_free(t);
    prn_buffer_add(out, "Growth and live bytes are the same in both.\n");
    return 0;
}

int prn_trace_memory_compare_text(const struct prn_trace_comparison *c, const struct prn_trace *a,
                                  const struct prn_trace *b,
                                  const struct prn_trace_report_options *options, bool markdown,
                                  struct prn_buffer *out, struct prony_error *err)
{
    if (a->memory.n == 0 && b->memory.n == 0)
        return 0;
    prn_heading(out, markdown, "Memory");
    struct prn_prose prose = prn_prose_init(
        &(struct prn_look){.markdown = markdown,
                           .width = options->width ? options->width : PRN_LOOK_UNLIMITED},
        out);
    each_allocator(a, b, &prose, say_peaks);
    prn_prose_release(&prose);
    if (a->memory.n == 0 || b->memory.n == 0 || c->n[0] == 0)
        return 0;
    prn_buffer_add_char(out, '\n');
    return write_differences(c, a->cpu[0].by, options,
                             markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT, out, err);
}
