#include "report/recorded/view.h"

#include "base/map.h"
#include "base/stats.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Longest function name in a heading, in characters; CSV and JSON have all of it. */
#define NAME_WIDTH 80

/* ---- Names ---- */

/* Which profiles are of the same function. */
static int link_profiles(struct prn_recorded_view *view)
{
    const struct prn_profile *p = view->profile;
    struct prn_map last_of = PRN_MAP_INIT;
    int code = 0;
    for (size_t i = 0; i < p->n_profiles && code == 0; i++) {
        struct prn_recorded_name *name = &view->names[i];
        size_t last = prn_map_get(&last_of, p->profiles[i].function);
        name->number = last == PRN_MAP_NONE ? 1 : view->names[last].number + 1;
        name->next = PRN_RECORDED_NONE;
        if (last != PRN_MAP_NONE)
            view->names[last].next = i;
        view->n_functions += last == PRN_MAP_NONE;
        code = prn_map_set(&last_of, p->profiles[i].function, i);
    }
    for (size_t i = 0; i < p->n_profiles && code == 0; i++) {
        size_t last = prn_map_get(&last_of, p->profiles[i].function);
        view->names[i].of = view->names[last].number;
    }
    prn_map_release(&last_of);
    return code;
}

static int make_name(struct prn_recorded_view *view, size_t index)
{
    struct prn_recorded_name *name = &view->names[index];
    struct prn_buffer clean = PRN_BUFFER_INIT((size_t)1 << 20);
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_text_clean(&clean, view->profile->profiles[index].function);
    prn_text_shorten(&text, prn_buffer_text(&clean), NAME_WIDTH);
    if (!clean.error && !text.error)
        name->function = prn_arena_strdup(&view->arena, prn_buffer_text(&text));
    prn_buffer_printf(&text, "[%zu/%zu]", name->number, name->of);
    if (name->function && !text.error)
        name->label = prn_arena_strdup(&view->arena, prn_buffer_text(&text));
    prn_buffer_release(&clean);
    prn_buffer_release(&text);
    return name->label ? 0 : PRONY_ENOMEM;
}

int prn_recorded_view_init(struct prn_recorded_view *view, const struct prn_profile *profile,
                           struct prony_error *err)
{
    struct prn_recorded_view v = {.profile = profile,
                                  .arena = PRN_ARENA_INIT((size_t)256 << 20),
                                  .local = profile->language == PRN_LANGUAGE_PYTHON ? "local python"
                                                                                    : "local code"};
    int code = prn_view_init(&v.backends, profile, err);
    if (code < 0)
        return code;
    v.names = PRN_ARENA_ARRAY(&v.arena, profile->n_profiles, struct prn_recorded_name);
    if (!v.names || link_profiles(&v) < 0)
        code = prn_fail_memory(err);
    for (size_t i = 0; i < profile->n_profiles && code == 0; i++)
        if (make_name(&v, i) < 0)
            code = prn_fail_memory(err);
    if (code < 0)
        prn_recorded_view_release(&v);
    else
        *view = v;
    return code;
}

void prn_recorded_view_release(struct prn_recorded_view *view)
{
    prn_view_release(&view->backends);
    prn_arena_release(&view->arena);
}

/* ---- Graphs ---- */

size_t prn_recorded_calls(const struct prn_recorded *recorded)
{
    size_t calls = 0;
    for (size_t i = 0; i < recorded->n_segments; i++)
        calls += recorded->segments[i].graph != 0;
    return calls;
}

static int compare_graphs(const void *a, const void *b)
{
    int64_t x = (*(const struct prn_segment *const *)a)->graph;
    int64_t y = (*(const struct prn_segment *const *)b)->graph;
    return (x > y) - (x < y);
}

static int compare_times(const void *a, const void *b)
{
    const struct prn_subgraph *x = a;
    const struct prn_subgraph *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static void add_call(struct prn_subgraph *subgraph, const struct prn_segment *segment,
                     size_t n_backends)
{
    subgraph->calls++;
    for (size_t i = 0; i < n_backends; i++) {
        const struct prn_segment_result *result = &segment->results[i];
        struct prn_subgraph_time *time = &subgraph->times[i];
        time->run_ns += result->times.count > 0 ? result->times.mean_ns : NAN;
        /* Only a file that lies has so many failures. */
        if (__builtin_add_overflow(time->failed, result->failed, &time->failed))
            time->failed = INT64_MAX;
    }
}

static double mean_time(const struct prn_subgraph *subgraph, size_t n_backends)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < n_backends; i++)
        if (isfinite(subgraph->times[i].run_ns)) {
            sum += subgraph->times[i].run_ns;
            n++;
        }
    return n > 0 ? sum / (double)n : -1;
}

int prn_recorded_subgraphs(const struct prn_profile *profile, const struct prn_recorded *recorded,
                           struct prn_arena *arena, size_t *ret_n,
                           struct prn_subgraph **ret_subgraphs, struct prony_error *err)
{
    size_t n_calls = prn_recorded_calls(recorded);
    const struct prn_segment **calls = PRN_ARENA_ARRAY(arena, n_calls, const struct prn_segment *);
    struct prn_subgraph *subgraphs = PRN_ARENA_ARRAY(arena, n_calls, struct prn_subgraph);
    if (!calls || !subgraphs)
        return prn_fail_memory(err);
    size_t filled = 0;
    for (size_t i = 0; i < recorded->n_segments; i++)
        if (recorded->segments[i].graph != 0)
            calls[filled++] = &recorded->segments[i];
    qsort(calls, n_calls, sizeof *calls, compare_graphs);
    size_t n = 0;
    for (size_t i = 0; i < n_calls; i++) {
        if (i == 0 || calls[i]->graph != calls[i - 1]->graph) {
            struct prn_subgraph_time *times =
                PRN_ARENA_ARRAY(arena, profile->n_results, struct prn_subgraph_time);
            if (!times)
                return prn_fail_memory(err);
            subgraphs[n++] = (struct prn_subgraph){.id = calls[i]->graph, .times = times};
        }
        add_call(&subgraphs[n - 1], calls[i], profile->n_results);
    }
    for (size_t i = 0; i < n; i++)
        subgraphs[i].time_ns = mean_time(&subgraphs[i], profile->n_results);
    qsort(subgraphs, n, sizeof *subgraphs, compare_times);
    *ret_n = n;
    *ret_subgraphs = subgraphs;
    return 0;
}

/* ---- Figures ---- */

const char *prn_recorded_share(char buffer[PRN_FORMAT_SIZE], double part_ns, double whole_ns)
{
    double percent = part_ns / whole_ns * 100;
    if (!isfinite(percent))
        snprintf(buffer, PRN_FORMAT_SIZE, "N/A");
    else if (percent > 0 && percent < 0.05)
        snprintf(buffer, PRN_FORMAT_SIZE, "<0.1");
    else if (percent >= 1e6) /* only in a file that lies */
        prn_format_significant(buffer, percent, 3);
    else
        snprintf(buffer, PRN_FORMAT_SIZE, "%.1f", percent);
    return buffer;
}

/* The mean of the samples of one run out of `runs`: samples are in time order, an equal number of
 * them for each run. */
static double time_in_run(const struct prn_series *s, size_t run, size_t runs)
{
    size_t begin = run * s->n_samples / runs;
    size_t end = (run + 1) * s->n_samples / runs;
    double sum = 0;
    for (size_t i = begin; i < end; i++)
        sum += (double)s->samples_ns[i];
    return sum / (double)(end - begin);
}

/* Mean and deviation in one pass (Welford). */
struct running {
    size_t n;
    double mean, squares;
};

static void add_value(struct running *r, double value)
{
    double before = value - r->mean;
    r->n++;
    r->mean += before / (double)r->n;
    r->squares += before * (value - r->mean);
}

static double half_width(const struct running *r)
{
    if (r->n < PRN_UNITS_MIN)
        return NAN;
    double sd = sqrt(r->squares / (double)(r->n - 1));
    struct prn_interval interval = prn_stats_interval(r->mean, sd, r->n);
    double half = (interval.high - interval.low) / 2 / r->mean;
    return isfinite(half) ? half : NAN;
}

/* Runs that the samples can be told apart by. */
static size_t known_runs(const struct prn_series *s, size_t runs)
{
    return s->n_samples < runs ? s->n_samples : runs;
}

double prn_series_half_width(const struct prn_series *series, int64_t runs)
{
    struct running r = {0};
    size_t n = known_runs(series, runs > 0 ? (size_t)runs : 0);
    for (size_t run = 0; run < n; run++)
        add_value(&r, time_in_run(series, run, n));
    return half_width(&r);
}

double prn_recorded_half_width(const struct prn_recorded_total *total)
{
    return (total->high_ns - total->low_ns) / 2 / total->median_ns;
}
