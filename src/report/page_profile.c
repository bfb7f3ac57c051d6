/* What a profile's page says beside its JSON: the answer in a sentence, the text report, and for
 * each result the figures and series that its pictures are made of. */
#include "report/page.h"

#include "base/format.h"
#include "format/json.h"
#include "measure/ops.h"
#include "report/load_report.h"
#include "report/profile_report.h"
#include "report/profile_view.h"
#include "report/recorded_view.h"
#include "report/thin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Functions of a recorded program that the answer tells of. */
#define FUNCTIONS_TOLD 3
/* Operators that make a difference. */
#define CAUSES_TOLD 3

/* ---- The answer ---- */

static const char *duration(char text[PRN_FORMAT_SIZE], double ns)
{
    return prn_format_duration(text, ns);
}

/* Of the results of a point, the one with the shortest time and the next; SIZE_MAX: none. */
static void find_fastest(const struct prn_profile *p, size_t *ret_first, size_t *ret_second)
{
    *ret_first = *ret_second = SIZE_MAX;
    for (size_t i = 0; i < p->n_results; i++) {
        if (!prn_result_measured(&p->results[i]))
            continue;
        double ns = p->results[i].stats.median_ns;
        if (*ret_first == SIZE_MAX || ns < p->results[*ret_first].stats.median_ns) {
            *ret_second = *ret_first;
            *ret_first = i;
        } else if (*ret_second == SIZE_MAX || ns < p->results[*ret_second].stats.median_ns) {
            *ret_second = i;
        }
    }
}

/* "; the difference is mostly Conv and Relu", if the profiled runs explain it: their differences
 * together are about that of plain runs, and a few of them make half of it. */
static void add_cause(const struct prn_profile *p, const struct prn_result *slower,
                      struct prn_buffer *out)
{
    const struct prn_ops *ops = slower->ops;
    if (slower->verdict != PRN_VERDICT_SLOWER || !ops || ops->baseline < 0)
        return;
    double gap_ns = slower->stats.median_ns - p->results[ops->baseline].stats.median_ns;
    double sum_ns = 0;
    double told_ns = 0;
    size_t n = 0;
    for (size_t i = 0; i < ops->n_operator_changes; i++) {
        double ns = ops->operator_changes[i].ns - ops->operator_changes[i].baseline_ns;
        sum_ns += ns;
        if (n == i && ns > 0 && told_ns < gap_ns / 2) {
            told_ns += ns;
            n++;
        }
    }
    if (sum_ns < gap_ns / 2 || sum_ns > 2 * gap_ns || told_ns < gap_ns / 2 || n > CAUSES_TOLD)
        return;
    prn_buffer_add(out, "; the difference is mostly ");
    for (size_t i = 0; i < n; i++)
        prn_buffer_printf(out, "%s%s",
                          i == 0      ? ""
                          : i + 1 < n ? ", "
                                      : " and ",
                          ops->operator_changes[i].name);
}

static void compare_fastest(const struct prn_view *view, size_t first, size_t second,
                            struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    const struct prn_result *slower = &p->results[second];
    char ratio[3][PRN_FORMAT_SIZE];
    prn_format_significant(ratio[0], slower->ratio.estimate, 3);
    if (slower->verdict == PRN_VERDICT_SAME) {
        prn_buffer_printf(out, "%s and %s are equally fast", view->names[first],
                          view->names[second]);
    } else {
        prn_buffer_printf(out, "%s is %s× ", view->names[first], ratio[0]);
        if (isfinite(slower->ratio.low) && isfinite(slower->ratio.high))
            prn_buffer_printf(out, "(%s-%s) ",
                              prn_format_significant(ratio[1], slower->ratio.low, 3),
                              prn_format_significant(ratio[2], slower->ratio.high, 3));
        prn_buffer_printf(out, "as fast as %s", view->names[second]);
        if (slower->verdict == PRN_VERDICT_UNSURE)
            prn_buffer_add(out, ", but that may be chance: more --launches would tell");
    }
    add_cause(p, slower, out);
    prn_buffer_add(out, ".");
}

/* "Best for latency: A (batch=1), 3.20 ms; for throughput: …" */
static void answer_sweep(const struct prn_view *view, struct prn_buffer *out)
{
    static const char *const names[] = {
#define PRN_X(name, text) text,
        PRN_MARK_MAP(PRN_X)
#undef PRN_X
    };
    const struct prn_profile *p = view->profile;
    char text[PRN_FORMAT_SIZE];
    bool begun = false;
    for (int mark = 0; mark < PRN_MARK_COUNT; mark++) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; view->sweep.best[mark] && i < p->n_results && best == SIZE_MAX; i++)
            best = view->sweep.best[mark][i] ? i : SIZE_MAX;
        if (best == SIZE_MAX)
            continue;
        const struct prn_result *r = &p->results[best];
        prn_buffer_printf(out, "%s %s: %s%s, ", begun ? "; for" : "Best for", names[mark],
                          view->names[best],
                          view->sweep.shared[mark] ? " and others that can't be told apart" : "");
        if (mark == PRN_MARK_LATENCY)
            prn_buffer_add(out, duration(text, r->stats.median_ns));
        else if (mark == PRN_MARK_THROUGHPUT)
            prn_buffer_printf(out, "%s/s", prn_format_significant(text, prn_result_rate(p, r), 4));
        else
            prn_buffer_printf(out, "%s per million",
                              prn_format_dollars(text, prn_result_cost(p, r)));
        begun = true;
    }
    if (begun)
        prn_buffer_add(out, ".");
}

static void answer_model(const struct prn_view *view, struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    size_t first;
    size_t second;
    char text[3][PRN_FORMAT_SIZE];
    find_fastest(p, &first, &second);
    if (first == SIZE_MAX) {
        prn_buffer_add(out, p->n_results ? "Nothing could be measured." : "Nothing was measured.");
    } else if (view->sweep.active) {
        answer_sweep(view, out);
    } else if (second != SIZE_MAX && p->n_points == 1 &&
               p->results[second].verdict != PRN_VERDICT_NONE) {
        compare_fastest(view, first, second, out);
    } else {
        const struct prn_sample_stats *s = &p->results[first].stats;
        prn_buffer_printf(out, "%s takes %s", view->names[first], duration(text[0], s->median_ns));
        if (isfinite(s->low_ns) && isfinite(s->high_ns))
            prn_buffer_printf(out, " (%s to %s)", duration(text[1], s->low_ns),
                              duration(text[2], s->high_ns));
        prn_buffer_add(out, " per run.");
    }
}

static void answer_limits(const struct prn_view *view, struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    char text[PRN_FORMAT_SIZE];
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_slo *slo = p->results[i].load ? p->results[i].load->slo : NULL;
        if (!slo)
            continue;
        prn_buffer_printf(out, "%s%s keeps ", out->len ? " " : "", view->names[i]);
        prn_slo_limit_text(slo, out);
        if (isfinite(prn_slo_holds_per_s(slo)))
            prn_buffer_printf(out, " up to %s.",
                              prn_load_rate_text(text, prn_slo_holds_per_s(slo)));
        else
            prn_buffer_add(out, " at no rate that was tried.");
    }
}

static void answer_recorded(const struct prn_recorded_view *view, struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    char text[PRN_FORMAT_SIZE];
    size_t told = 0;
    for (size_t i = 0; i < p->n_profiles && told < FUNCTIONS_TOLD; i++) {
        const struct prn_recorded *recorded = &p->profiles[i];
        size_t best = SIZE_MAX;
        for (size_t k = 0; k < p->n_results; k++)
            if (isfinite(recorded->totals[k].total_ns) &&
                (best == SIZE_MAX ||
                 recorded->totals[k].total_ns < recorded->totals[best].total_ns))
                best = k;
        if (best == SIZE_MAX)
            continue;
        prn_buffer_printf(out, "%s%s is fastest on %s: %s per run", out->len ? " " : "",
                          view->names[i].label, view->backends.names[best],
                          duration(text, recorded->totals[best].total_ns));
        prn_buffer_printf(out, ", %s of it %s.", duration(text, recorded->local_ns), view->local);
        told++;
    }
    if (out->len == 0)
        prn_buffer_add(out, "No backend has a total time.");
}

/* ---- Series ---- */

static int compare_ns(const void *a, const void *b)
{
    int64_t first = *(const int64_t *)a;
    int64_t second = *(const int64_t *)b;
    return (first > second) - (first < second);
}

/* Where each sample stands on an axis of blocks, which all backends share. */
static void place_samples(const struct prn_result *r, double *places)
{
    for (size_t first = 0; first < r->n_samples;) {
        size_t next = first;
        while (next < r->n_samples && r->samples[next].block == r->samples[first].block)
            next++;
        for (size_t i = first; i < next; i++)
            places[i] =
                r->samples[first].block + ((double)(i - first) + 0.5) / (double)(next - first);
        first = next;
    }
}

static void write_samples(struct prn_json_writer *w, const struct prn_result *r,
                          const double *places, const struct prn_thin_bucket *buckets, size_t n)
{
    bool all = n == r->n_samples;
    prn_json_object(w, "samples");
    prn_json_integer(w, "count", (int64_t)r->n_samples);
#define COLUMN(key, write, value)                      \
    prn_json_array_compact(w, key);                    \
    for (size_t i = 0; i < n; i++) {                   \
        const struct prn_thin_bucket *b = &buckets[i]; \
        write(w, NULL, value);                         \
    }                                                  \
    prn_json_end(w);
    COLUMN("block", prn_json_integer, r->samples[b->first].block)
    COLUMN("launch", prn_json_integer, r->samples[b->first].launch)
    COLUMN("place", prn_json_number, round(1e4 * places[b->first]) / 1e4)
    COLUMN("low_ns", prn_json_integer, b->low)
    if (!all) {
        COLUMN("high_ns", prn_json_integer, b->high)
        COLUMN("samples", prn_json_integer, (int64_t)b->count)
    }
#undef COLUMN
    prn_json_end(w);
}

static void write_histogram(struct prn_json_writer *w, const int64_t *sorted, size_t n)
{
    uint64_t counts[PRN_PAGE_BINS];
    struct prn_thin_histogram h = prn_thin_histogram(sorted, n, PRN_PAGE_BINS, counts);
    prn_json_object(w, "histogram");
    prn_json_integer(w, "low_ns", h.low);
    prn_json_integer(w, "high_ns", h.high);
    prn_json_integer(w, "above", (int64_t)h.above);
    prn_json_array_compact(w, "counts");
    for (size_t i = 0; i < PRN_PAGE_BINS; i++)
        prn_json_integer(w, NULL, (int64_t)counts[i]);
    prn_json_end(w);
    prn_json_end(w);
}

static int write_series(struct prn_json_writer *w, const struct prn_result *r, size_t most,
                        struct prony_error *err)
{
    size_t n = r->n_samples;
    int64_t *ns = calloc(n + 1, sizeof *ns);
    double *places = calloc(n + 1, sizeof *places);
    struct prn_thin_bucket *buckets = calloc(most, sizeof *buckets);
    int code = ns && places && buckets ? 0 : prn_fail_memory(err);
    if (code == 0 && n > 0) {
        for (size_t i = 0; i < n; i++)
            ns[i] = r->samples[i].ns;
        place_samples(r, places);
        write_samples(w, r, places, buckets, prn_thin_series(ns, n, most, buckets));
        qsort(ns, n, sizeof *ns, compare_ns);
        write_histogram(w, ns, n);
    }
    free(buckets);
    free(places);
    free(ns);
    return code;
}

/* ---- Results ---- */

/* No other is both faster and cheaper. */
static bool is_on_front(const struct prn_profile *p, size_t index)
{
    const struct prn_result *r = &p->results[index];
    double cost = prn_result_cost(p, r);
    if (!prn_result_measured(r) || !isfinite(cost))
        return false;
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_result *other = &p->results[i];
        double other_cost = prn_result_cost(p, other);
        if (prn_result_measured(other) && other_cost <= cost &&
            other->stats.median_ns <= r->stats.median_ns &&
            (other_cost < cost || other->stats.median_ns < r->stats.median_ns))
            return false;
    }
    return true;
}

static void known(struct prn_json_writer *w, const char *key, int64_t value)
{
    if (value < 0)
        prn_json_null(w, key);
    else
        prn_json_integer(w, key, value);
}

static void write_marks(struct prn_json_writer *w, const struct prn_view *view, size_t index)
{
    prn_json_array_compact(w, "best");
#define PRN_X(name, text)                                                              \
    if (view->sweep.best[PRN_MARK_##name] && view->sweep.best[PRN_MARK_##name][index]) \
        prn_json_text(w, NULL, text);
    PRN_MARK_MAP(PRN_X)
#undef PRN_X
    prn_json_end(w);
    prn_json_array_compact(w, "scaling");
    for (size_t i = 0; i < view->sweep.n_axes; i++)
        prn_json_number(w, NULL, view->sweep.axes[i].scaling[index]);
    prn_json_end(w);
}

static int write_result(struct prn_json_writer *w, const struct prn_view *view, size_t index,
                        size_t most, struct prony_error *err)
{
    const struct prn_profile *p = view->profile;
    const struct prn_result *r = &p->results[index];
    const struct prn_launch_figures *launches = &view->launches[index];
    bool measured = !p->recorded && prn_result_measured(r);
    prn_json_object(w, NULL);
    prn_json_text(w, "name", view->names[index]);
    prn_json_text(w, "backend", view->backends[index]);
    prn_json_bool(w, "measured", measured);
    prn_json_number(w, "half_width", measured ? prn_result_half_width(r) : NAN);
    prn_json_number(w, "item_ns", measured ? prn_result_item_ns(p, r) : NAN);
    prn_json_number(w, "inferences_per_s", measured ? prn_result_rate(p, r) : NAN);
    prn_json_number(w, "gflop_per_s", measured ? prn_result_gflops(p, r) : NAN);
    prn_json_number(w, "usd_per_million", measured ? prn_result_cost(p, r) : NAN);
    known(w, "load_ns", launches->load_ns);
    known(w, "first_run_ns", launches->first_run_ns);
    known(w, "peak_bytes", launches->peak_bytes);
    prn_json_bool(w, "front", !p->recorded && is_on_front(p, index));
    write_marks(w, view, index);
    int code = write_series(w, r, most, err);
    prn_json_end(w);
    return code;
}

static int write_results(struct prn_json_writer *w, const struct prn_view *view,
                         struct prony_error *err)
{
    size_t n = view->profile->n_results;
    size_t most = n > 0 ? PRN_PAGE_SAMPLES_ALL_MAX / n : 0;
    int code = 0;
    most = most > PRN_PAGE_SAMPLES_MAX ? PRN_PAGE_SAMPLES_MAX : most;
    prn_json_array(w, "axes");
    for (size_t i = 0; i < view->sweep.n_axes; i++)
        prn_json_text(w, NULL, view->sweep.axes[i].option); /* null: the batch */
    prn_json_end(w);
    prn_json_array(w, "results");
    for (size_t i = 0; i < n && code == 0; i++)
        code = write_result(w, view, i, most, err);
    prn_json_end(w);
    return code;
}

static void write_flags(struct prn_json_writer *w)
{
    prn_json_object(w, "flags");
#define PRN_X(name, bit, text) prn_json_text(w, #name, text);
    PRN_FLAG_MAP(PRN_X)
#undef PRN_X
    prn_json_end(w);
}

static int add_answer(const struct prn_view *view, struct prn_buffer *out, struct prony_error *err)
{
    if (!view->profile->recorded) {
        answer_model(view, out);
        answer_limits(view, out);
        return prn_buffer_error(out, err);
    }
    struct prn_recorded_view recorded;
    int code = prn_recorded_view_init(&recorded, view->profile, err);
    if (code < 0)
        return code;
    answer_recorded(&recorded, out);
    prn_recorded_view_release(&recorded);
    return prn_buffer_error(out, err);
}

/* The names of a recorded program's profiles: "predict[1/2]". */
static int write_labels(struct prn_json_writer *w, const struct prn_profile *profile,
                        struct prony_error *err)
{
    struct prn_recorded_view view;
    int code = profile->recorded ? prn_recorded_view_init(&view, profile, err) : 0;
    if (code < 0 || !profile->recorded)
        return code;
    prn_json_array(w, "labels");
    for (size_t i = 0; i < profile->n_profiles; i++)
        prn_json_text(w, NULL, view.names[i].label);
    prn_json_end(w);
    prn_json_text(w, "local", view.local);
    prn_recorded_view_release(&view);
    return 0;
}

int prn_page_profile_view(const struct prn_profile *profile, struct prn_buffer *out,
                          struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    struct prn_json_writer w = prn_json_writer_init(out);
    struct prn_view view;
    int code = prn_view_init(&view, profile, err);
    if (code < 0)
        return code;
    prn_json_object(&w, NULL);
    code = add_answer(&view, &text, err);
    prn_json_text(&w, "answer", prn_buffer_text(&text));
    prn_buffer_clear(&text);
    if (code == 0)
        code = prn_profile_report(profile, PRN_REPORT_FORMAT_TEXT, &text, err);
    prn_json_text(&w, "text", prn_buffer_text(&text));
    write_flags(&w);
    if (code == 0)
        code = write_labels(&w, profile, err);
    if (code == 0)
        code = write_results(&w, &view, err);
    prn_json_end(&w);
    prn_view_release(&view);
    prn_buffer_release(&text);
    return code == 0 ? prn_buffer_error(out, err) : code;
}
