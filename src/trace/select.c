/*
 * The selection of runs. A list of runs is kept sorted and without repeats, so that a run is found
 * by bisection and the list reads as ranges. Negative indices stay as they are, and stand in front,
 * until the number of runs is known.
 */
#include "trace/select.h"

#include "trace/gather.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define START_DEFAULT 1
/* Named in a message, and in a description. */
#define FAULTS_SHOWN 5
#define RANGES_SHOWN 12

struct prn_run_selection {
    int64_t start; /* PRN_RUN_UNSET: by default */
    int64_t end;
    bool is_gathered;
    struct prn_gather gathered; /* ascending, each once */
    char *missing;              /* of those; NULL: none */
    const char *overrules;      /* options that a list makes void; NULL: none */
};

/* Half-open. */
struct span {
    uint64_t first;
    uint64_t end;
};

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void sort_runs(struct prn_gather *g)
{
    if (g->n == 0)
        return;
    qsort(g->runs, g->n, sizeof *g->runs, ascending);
    size_t kept = 1;
    for (size_t i = 1; i < g->n; i++)
        if (g->runs[i] != g->runs[kept - 1])
            g->runs[kept++] = g->runs[i];
    g->n = kept;
}

static const char *overruled(const struct prn_run_choice *choice)
{
    bool has_start = choice->start != PRN_RUN_UNSET;
    bool has_end = choice->end != PRN_RUN_UNSET;
    if (!choice->gather || (!has_start && !has_end))
        return NULL;
    return !has_end ? "--start" : !has_start ? "--end" : "--start and --end";
}

int prn_run_selection_new(const struct prn_run_choice *choice,
                          struct prn_run_selection **ret_selection, struct prony_error *err)
{
    struct prn_gather gathered = {0};
    if (choice->gather) {
        int code = prn_gather_parse(choice->gather, &gathered, err);
        if (code < 0)
            return code;
        if (gathered.n == 0) {
            prn_gather_release(&gathered);
            return prn_fail(err, PRONY_EUSAGE, "--gather: the list is empty; no run is selected");
        }
    }
    struct prn_run_selection *s = calloc(1, sizeof *s);
    if (!s) {
        prn_gather_release(&gathered);
        return prn_fail_memory(err);
    }
    sort_runs(&gathered);
    s->is_gathered = choice->gather != NULL;
    s->start = s->is_gathered ? PRN_RUN_UNSET : choice->start;
    s->end = s->is_gathered ? PRN_RUN_UNSET : choice->end;
    s->overrules = overruled(choice);
    s->gathered = gathered;
    *ret_selection = s;
    return 0;
}

void prn_run_selection_free(struct prn_run_selection *s)
{
    if (s) {
        prn_gather_release(&s->gathered);
        free(s->missing);
    }
    free(s);
}

const char *prn_run_selection_missing(const struct prn_run_selection *s)
{
    return s->missing;
}

const char *prn_run_selection_overrules(const struct prn_run_selection *s)
{
    return s->overrules;
}

bool prn_run_selection_is_default(const struct prn_run_selection *s)
{
    return !s->is_gathered && s->start == PRN_RUN_UNSET && s->end == PRN_RUN_UNSET;
}

static bool from_end(int64_t index)
{
    return index < 0 && index != PRN_RUN_UNSET;
}

bool prn_run_selection_needs_total(const struct prn_run_selection *s)
{
    if (s->is_gathered)
        return s->gathered.runs[0] < 0;
    return from_end(s->start) || from_end(s->end);
}

/* Whether the trace has that run. */
static bool in_trace(int64_t index, uint64_t n_runs)
{
    return index < 0 ? 0 - (uint64_t)index <= n_runs : (uint64_t)index < n_runs;
}

/* For indices that are in the trace. */
static uint64_t absolute(int64_t index, uint64_t n_runs)
{
    return index < 0 ? n_runs - (0 - (uint64_t)index) : (uint64_t)index;
}

/* What --start and --end mean in a trace of that size. An end behind the trace is cut. */
static struct span resolved_span(const struct prn_run_selection *s, uint64_t n_runs)
{
    if (prn_run_selection_is_default(s) && n_runs == 1)
        return (struct span){0, 1};
    uint64_t first = s->start == PRN_RUN_UNSET ? START_DEFAULT : absolute(s->start, n_runs);
    uint64_t end = s->end == PRN_RUN_UNSET ? n_runs : absolute(s->end, n_runs);
    return (struct span){first, end < n_runs ? end : n_runs};
}

/* "the trace has 12 runs". */
static const char *trace_text(char text[64], uint64_t n_runs)
{
    if (n_runs == 0)
        snprintf(text, 64, "the trace has no runs");
    else
        snprintf(text, 64, "the trace has %s%" PRIu64 " run%s", n_runs == 1 ? "only " : "", n_runs,
                 n_runs == 1 ? "" : "s");
    return text;
}

/* "--start -2 (run 8)", "--start 1 (the default)". */
static void index_text(char text[80], const char *option, int64_t index, uint64_t run)
{
    if (index == PRN_RUN_UNSET)
        snprintf(text, 80, "%s %" PRIu64 " (the default)", option, run);
    else if (index < 0)
        snprintf(text, 80, "%s %" PRId64 " (run %" PRIu64 ")", option, index, run);
    else
        snprintf(text, 80, "%s %" PRId64, option, index);
}

static int check_span(const struct prn_run_selection *s, uint64_t n_runs, struct prony_error *err)
{
    char trace[64];
    trace_text(trace, n_runs);
    /* A start behind the trace selects nothing, which is said below; an end may be its length. */
    if (from_end(s->start) && !in_trace(s->start, n_runs))
        return prn_fail(err, PRONY_EUSAGE, "--start %" PRId64 " is outside the trace: %s", s->start,
                        trace);
    if (s->end != PRN_RUN_UNSET &&
        (s->end < 0 ? !in_trace(s->end, n_runs) : (uint64_t)s->end > n_runs))
        return prn_fail(err, PRONY_EUSAGE, "--end %" PRId64 " is outside the trace: %s", s->end,
                        trace);
    struct span span = resolved_span(s, n_runs);
    if (span.first < span.end)
        return 0;
    char start[80];
    char end[80];
    index_text(start, "--start", s->start, span.first);
    index_text(end, "--end", s->end, span.end);
    if (s->end == PRN_RUN_UNSET)
        return prn_fail(err, PRONY_EUSAGE, "no run is selected: %s, but %s", start, trace);
    return prn_fail(err, PRONY_EUSAGE, "no run is selected: %s is not before %s; %s", start, end,
                    trace);
}

/* "12, 13 and 7 more": those of the list that aren't in the trace. */
static void add_outside(const struct prn_gather *g, uint64_t n_runs, size_t n_outside,
                        struct prn_buffer *out)
{
    size_t shown = 0;
    for (size_t i = 0; i < g->n && shown < FAULTS_SHOWN; i++)
        if (!in_trace(g->runs[i], n_runs))
            prn_buffer_printf(out, "%s%" PRId64, shown++ ? ", " : "", g->runs[i]);
    if (n_outside > shown)
        prn_buffer_printf(out, " and %zu more", n_outside - shown);
}

static int check_gathered(struct prn_run_selection *s, uint64_t n_runs, struct prony_error *err)
{
    const struct prn_gather *g = &s->gathered;
    size_t n_outside = 0;
    for (size_t i = 0; i < g->n; i++)
        n_outside += !in_trace(g->runs[i], n_runs);
    if (n_outside == 0)
        return 0;
    struct prn_buffer runs = PRN_BUFFER_INIT(1000);
    add_outside(g, n_runs, n_outside, &runs);
    int code = prn_buffer_error(&runs, err);
    char trace[64];
    if (code == 0 && n_outside == g->n) {
        code = prn_fail(err, PRONY_EUSAGE, "--gather: run%s %s %s outside the trace: %s",
                        n_outside == 1 ? "" : "s", prn_buffer_text(&runs),
                        n_outside == 1 ? "is" : "are", trace_text(trace, n_runs));
    } else if (code == 0) {
        free(s->missing);
        s->missing = prn_buffer_detach(&runs);
        code = s->missing ? 0 : prn_fail_memory(err);
    }
    prn_buffer_release(&runs);
    return code;
}

int prn_run_selection_check(struct prn_run_selection *s, uint64_t n_runs, struct prony_error *err)
{
    return s->is_gathered ? check_gathered(s, n_runs, err) : check_span(s, n_runs, err);
}

int prn_run_selection_resolve(struct prn_run_selection *s, uint64_t n_runs, struct prony_error *err)
{
    int code = prn_run_selection_check(s, n_runs, err);
    if (code < 0)
        return code;
    if (from_end(s->start))
        s->start = (int64_t)absolute(s->start, n_runs);
    if (from_end(s->end))
        s->end = (int64_t)absolute(s->end, n_runs);
    size_t n = 0;
    for (size_t i = 0; i < s->gathered.n; i++)
        if (in_trace(s->gathered.runs[i], n_runs))
            s->gathered.runs[n++] = (int64_t)absolute(s->gathered.runs[i], n_runs);
    s->gathered.n = n;
    sort_runs(&s->gathered);
    return 0;
}

/* How many of the list are below `run`. */
static size_t gathered_below(const struct prn_gather *g, uint64_t run)
{
    size_t low = 0;
    size_t high = g->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uint64_t)g->runs[middle] < run)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool prn_run_selection_has(const struct prn_run_selection *s, uint64_t index)
{
    assert(!prn_run_selection_needs_total(s));
    if (s->is_gathered) {
        size_t i = gathered_below(&s->gathered, index);
        return i < s->gathered.n && (uint64_t)s->gathered.runs[i] == index;
    }
    uint64_t start = s->start == PRN_RUN_UNSET ? START_DEFAULT : (uint64_t)s->start;
    return index >= start && (s->end == PRN_RUN_UNSET || index < (uint64_t)s->end);
}

uint64_t prn_run_selection_count(const struct prn_run_selection *s, uint64_t n_runs)
{
    assert(!prn_run_selection_needs_total(s));
    if (s->is_gathered)
        return gathered_below(&s->gathered, n_runs);
    struct span span = resolved_span(s, n_runs);
    return span.first < span.end ? span.end - span.first : 0;
}

/* The range of the list that begins at its item `i`; not beyond item `n`. */
static struct span gathered_span(const struct prn_gather *g, size_t i, size_t n)
{
    size_t last = i;
    while (last + 1 < n && g->runs[last + 1] == g->runs[last] + 1)
        last++;
    return (struct span){(uint64_t)g->runs[i], (uint64_t)g->runs[last] + 1};
}

void prn_run_selection_describe(const struct prn_run_selection *s, uint64_t n_runs,
                                struct prn_buffer *out)
{
    uint64_t count = prn_run_selection_count(s, n_runs);
    uint64_t told = 0;
    for (int i = 0; i < RANGES_SHOWN && told < count; i++) {
        struct span span = s->is_gathered ? gathered_span(&s->gathered, (size_t)told, (size_t)count)
                                          : resolved_span(s, n_runs);
        prn_buffer_printf(out, "%s%" PRIu64, i > 0 ? ", " : "", span.first);
        if (span.end - span.first > 1)
            prn_buffer_printf(out, "-%" PRIu64, span.end - 1);
        told += span.end - span.first;
    }
    if (told < count)
        prn_buffer_printf(out, " and %" PRIu64 " more", count - told);
    if (count == 0)
        prn_buffer_add(out, "none");
}
