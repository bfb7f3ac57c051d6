/* Puts a trace's groups in order, works out the mapping, and asks the demangler once. */
#include "report/trace/view.h"

#include "base/format.h"
#include "trace/demangle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TEXTS_MAX ((size_t)64 << 20)
#define DEMANGLER_TIMEOUT_MS 10000

const char *const prn_trace_formats[] = {"text", "json", "csv", "md", "perfetto", "html", NULL};

const char *prn_trace_node_name(const struct prn_symbol *symbol, struct prn_buffer *out)
{
    if (!out->error) /* a failure sticks, for whoever asks in the end */
        prn_buffer_clear(out);
    prn_buffer_append(out, symbol->text, prn_trace_node_length(symbol));
    return prn_buffer_text(out);
}

static int sort_rows(struct prn_trace_rows *rows, const struct prn_trace_table *table, size_t count,
                     struct prony_error *err)
{
    rows->table = table;
    int code = prn_trace_sorted(table, &rows->groups, &rows->n, err);
    rows->shown = rows->n < count ? rows->n : count;
    return code;
}

/* ---- Kernel names ---- */

int prn_trace_demangle(const char *demangler, const char *const *names, size_t n,
                       struct prn_arena *arena, const char *const **ret_names,
                       const char **ret_fault, struct prony_error *err)
{
    struct prony_error reason;
    *ret_names = names;
    *ret_fault = NULL;
    if (!demangler || n == 0)
        return 0;
    const char **demangled = PRN_ARENA_ARRAY(arena, n, const char *);
    if (!demangled)
        return prn_fail_memory(err);
    if (prn_demangle(demangler, names, n, DEMANGLER_TIMEOUT_MS, arena, demangled, &reason) == 0) {
        *ret_names = demangled;
        return 0;
    }
    *ret_fault = prn_arena_strndup(arena, reason.text, strlen(reason.text));
    return *ret_fault ? 0 : prn_fail_memory(err);
}

static int name_kernels(struct prn_trace_report *r, struct prony_error *err)
{
    struct prn_trace_rows *rows = &r->gpu;
    const char **names = PRN_ARENA_ARRAY(&r->arena, rows->shown + 1, const char *);
    if (!names)
        return prn_fail_memory(err);
    for (size_t i = 0; i < rows->shown; i++)
        names[i] = rows->groups[i]->key.node->text;
    return prn_trace_demangle(r->options.demangler, names, rows->shown, &r->arena, &rows->names,
                              &r->demangler_fault, err);
}

/* ---- Mapping ---- */

/* Which operator with its shapes launched a kernel; PRN_MAP_NONE unless both are in the selected
 * runs. */
static size_t op_of(const struct prn_trace *t, const struct prn_trace_group *kernel)
{
    struct prn_trace_key key = {.op = kernel->key.op, .shape = kernel->key.shape};
    size_t op = prn_map_get_n(&t->mapped.by_key, (const char *)&key, sizeof key);
    bool both =
        kernel->total.count > 0 && op != PRN_MAP_NONE && t->mapped.groups[op]->total.count > 0;
    return both ? op : PRN_MAP_NONE;
}

/* What the kernels of one operator with its shapes took together, by the operator's group. */
static int64_t *sum_ops(struct prn_trace_report *r)
{
    const struct prn_trace *t = r->trace;
    int64_t *sums = PRN_ARENA_ARRAY(&r->arena, t->mapped.n + 1, int64_t);
    for (size_t i = 0; sums && i < t->mapping.n; i++) {
        size_t op = op_of(t, t->mapping.groups[i]);
        if (op != PRN_MAP_NONE)
            sums[op] += t->mapping.groups[i]->total.ns;
    }
    return sums;
}

static int by_op_duration(const void *a, const void *b)
{
    const struct prn_trace_mapping_row *x = a;
    const struct prn_trace_mapping_row *y = b;
    if (x->op_ns != y->op_ns)
        return x->op_ns < y->op_ns ? 1 : -1;
    int order = strcmp(y->kernel->key.op->text, x->kernel->key.op->text);
    order = order ? order : strcmp(y->kernel->key.shape->text, x->kernel->key.shape->text);
    if (order || x->kernel->total.ns == y->kernel->total.ns)
        return order ? order : strcmp(x->kernel->key.node->text, y->kernel->key.node->text);
    return x->kernel->total.ns < y->kernel->total.ns ? 1 : -1;
}

static struct prn_trace_mapping_row map_kernel(const struct prn_trace *t,
                                               const struct prn_trace_group *kernel, int64_t op_ns,
                                               uint64_t op_count)
{
    double runs = (double)t->n_selected;
    /* Times are whole µs, so these are exact. */
    double us = (double)kernel->total.ns / 1e3;
    double op_us = (double)op_ns / 1e3;
    return (struct prn_trace_mapping_row){
        .kernel = kernel,
        .op_ns = op_ns,
        .op_count = (double)op_count / runs,
        .kernel_count = (double)kernel->total.count / runs,
        .kernel_average_us = us / (double)kernel->total.count,
        .kernel_total_us = us / runs,
        .op_us = op_us / runs,
        .op_average_us = op_us / (double)op_count,
        .kernel_pct = 100 * us / op_us,
    };
}

static int map_kernels(struct prn_trace_report *r, struct prony_error *err)
{
    const struct prn_trace *t = r->trace;
    int64_t *op_ns = sum_ops(r);
    r->mapping = PRN_ARENA_ARRAY(&r->arena, t->mapping.n + 1, struct prn_trace_mapping_row);
    if (!op_ns || !r->mapping)
        return prn_fail_memory(err);
    int64_t all_ns = 0;
    for (size_t i = 0; i < t->mapping.n; i++) {
        const struct prn_trace_group *kernel = t->mapping.groups[i];
        size_t op = op_of(t, kernel);
        if (op == PRN_MAP_NONE)
            continue;
        r->mapping[r->n_mapping++] =
            map_kernel(t, kernel, op_ns[op], t->mapped.groups[op]->total.count);
        all_ns += kernel->total.ns;
    }
    for (size_t i = 0; i < r->n_mapping; i++)
        r->mapping[i].op_pct = 100 * (double)r->mapping[i].op_ns / (double)all_ns;
    qsort(r->mapping, r->n_mapping, sizeof *r->mapping, by_op_duration);
    return 0;
}

/* ---- The whole ---- */

int prn_trace_report_new(const struct prn_trace *trace,
                         const struct prn_trace_report_options *options,
                         struct prn_trace_report **ret_report, struct prony_error *err)
{
    struct prn_trace_report *r = calloc(1, sizeof *r);
    if (!r)
        return prn_fail_memory(err);
    *r = (struct prn_trace_report){
        .trace = trace, .options = *options, .arena = PRN_ARENA_INIT(TEXTS_MAX)};
    int code = sort_rows(&r->cpu, &trace->cpu[0], options->count, err);
    if (code == 0)
        code = sort_rows(&r->gpu, &trace->gpu, options->count, err);
    if (code == 0)
        code = name_kernels(r, err);
    if (code == 0 && options->mapping)
        code = map_kernels(r, err);
    if (code < 0)
        prn_trace_report_free(r);
    else
        *ret_report = r;
    return code;
}

void prn_trace_report_free(struct prn_trace_report *r)
{
    if (!r)
        return;
    free(r->cpu.groups);
    free(r->gpu.groups);
    prn_arena_release(&r->arena);
    free(r);
}

/* ---- Warnings ---- */

struct speaker {
    prn_trace_say *say;
    void *context;
};

static void say(const struct speaker *s, const char *format, ...) PRN_PRINTF(2, 3);

static void say(const struct speaker *s, const char *format, ...)
{
    struct prony_error sentence; /* made safe for a terminal like an error */
    va_list args;
    va_start(args, format);
    prn_vfail(&sentence, 0, format, args);
    va_end(args);
    s->say(s->context, sentence.text);
}

static void warn_of_runs(const struct prn_trace *t, const struct speaker *s)
{
    if (t->whole_is_one_run)
        say(s, "'%s' has no 'model_run' event: all of it counts as one run", t->name);
    else if (t->includes_warm_up)
        say(s, "'%s' has one run only: its times include warm-up", t->name);
    if (t->overruled)
        say(s, "%s %s ignored: --gather names the runs", t->overruled,
            strchr(t->overruled, ' ') ? "are" : "is");
    if (t->missing)
        say(s, "--gather: the trace has %" PRIu64 " run%s; left out: %s", t->n_runs,
            t->n_runs == 1 ? "" : "s", t->missing);
    if (t->overlapping > 0)
        say(s, "%" PRIu64 " of %" PRIu64 " runs overlap: their events are told apart by thread",
            t->overlapping, t->n_runs);
    if (t->late_kernels > 0)
        say(s,
            "%" PRIu64 " kernels are written after the last run: they are assigned to runs by "
            "their time or order",
            t->late_kernels);
    if (t->outside > 0)
        say(s, "ignored %" PRIu64 " event%s outside any run", t->outside,
            t->outside == 1 ? "" : "s");
    if (t->ledger_approximate)
        say(s, "a run has more nodes at odds with their order than fit into memory: where its time "
               "goes is approximate");
}

static void warn_of_events(const struct prn_trace *t, const struct speaker *s)
{
    char text[PRN_FORMAT_SIZE];
    if (t->counts.lost == 0 && t->first_fault)
        say(s, "a fault outside the events was passed over: %s", t->first_fault);
    else if (t->counts.lost > 0)
        say(s, "%" PRIu64 " broken event%s skipped; the first fault: %s", t->counts.lost,
            t->counts.lost == 1 ? " was" : "s were", t->first_fault);
    const struct prn_trace_file *cut = prn_trace_cut_file(t);
    if (cut)
        say(s,
            "%s%s%s has %s events: ONNX Runtime keeps a million and drops the rest without a "
            "word, so the last runs are probably missing",
            t->n_files > 1 ? "'" : "the trace", t->n_files > 1 ? cut->name : "",
            t->n_files > 1 ? "'" : "", prn_format_integer(text, cut->events));
    if (t->counts.repaired > 0)
        say(s, "%" PRIu64 " event%s with quotes or backslashes that were not escaped: repaired",
            t->counts.repaired, t->counts.repaired == 1 ? "" : "s");
    if (t->counts.passed_over > 0)
        say(s,
            "%" PRIu64
            " event%s without cat, dur, args or name, or with two types in a shape, passed over",
            t->counts.passed_over, t->counts.passed_over == 1 ? "" : "s");
    if (t->without_op > 0)
        say(s, "%" PRIu64 " node event%s without op_name passed over", t->without_op,
            t->without_op == 1 ? "" : "s");
    if (t->kernels_unresolved > 0)
        say(s,
            "%" PRIu64 " of %" PRIu64 " kernels were launched by no node that was seen: their "
            "shapes are unknown",
            t->kernels_unresolved, t->kernels);
}

void prn_trace_warnings(const struct prn_trace *trace, prn_trace_say *sayer, void *context)
{
    struct speaker s = {sayer, context};
    warn_of_runs(trace, &s);
    warn_of_events(trace, &s);
}

void prn_trace_report_warnings(const struct prn_trace_report *r, prn_trace_say *sayer,
                               void *context)
{
    struct speaker s = {sayer, context};
    prn_trace_warnings(r->trace, sayer, context);
    if (r->demangler_fault)
        say(&s, "kernel names are as the compiler wrote them: %s", r->demangler_fault);
}
