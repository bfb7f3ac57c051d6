/* What a profile's page says beside its JSON: the text report, and for each result
 * the figures and series that its pictures are made of. */
#include "report/page.h"

#include "base/format.h"
#include "format/json.h"
#include "measure/ops/ops.h"
#include "report/load/report.h"
#include "report/ops/report.h"
#include "report/profile/report.h"
#include "report/profile/view.h"
#include "report/recorded/view.h"
#include "report/thin.h"
#include "report/verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* `sorted` has the samples in order within each bucket. */
static void write_samples(struct prn_json_writer *w, const struct prn_result *r,
                          const double *places, const int64_t *sorted,
                          const struct prn_thin_bucket *buckets, size_t n)
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
        COLUMN("median_ns", prn_json_integer, sorted[b->first + b->count / 2])
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

/* How many samples took at most how long: every sample, or an even selection, and of the longest
 * hundredth as many again. */
static void write_ecdf(struct prn_json_writer *w, const int64_t *sorted, size_t n)
{
    size_t most = n < PRN_PAGE_ECDF ? n : PRN_PAGE_ECDF;
    size_t tail = n / 100 < most ? n / 100 : most;
    size_t n_tail = most < n ? tail : 0;
    prn_json_object(w, "ecdf");
    for (int column = 0; column < 2; column++) {
        prn_json_array_compact(w, column == 0 ? "ns" : "rank");
        for (size_t i = 0; i < most + n_tail; i++) {
            size_t rank = i < most ? (n - (n_tail > 0 ? n / 100 : 0)) * (i + 1) / most
                                   : n - n / 100 + n / 100 * (i - most + 1) / n_tail;
            prn_json_integer(w, NULL, column == 0 ? sorted[rank - 1] : (int64_t)rank);
        }
        prn_json_end(w);
    }
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
        size_t n_buckets = prn_thin_series(ns, n, most, buckets);
        for (size_t i = 0; i < n_buckets; i++)
            qsort(ns + buckets[i].first, buckets[i].count, sizeof *ns, compare_ns);
        write_samples(w, r, places, ns, buckets, n_buckets);
        qsort(ns, n, sizeof *ns, compare_ns);
        write_histogram(w, ns, n);
        write_ecdf(w, ns, n);
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
        prn_json_text(w, NULL, view->sweep.shared[PRN_MARK_##name] ? text "?" : text);
    PRN_MARK_MAP(PRN_X)
#undef PRN_X
    prn_json_end(w);
    prn_json_array_compact(w, "scaling");
    for (size_t i = 0; i < view->sweep.n_axes; i++)
        prn_json_number(w, NULL, view->sweep.axes[i].scaling[index]);
    prn_json_end(w);
}

/* What a row is called in comparison with the shortest time of its point, which is the best if all
 * others are known to be slower. */
static const char *verdict_text(const struct prn_profile *p, const struct prn_result *r)
{
    static const char *const texts[] = {[PRN_VERDICT_NONE] = "",
                                        [PRN_VERDICT_SAME] = "same",
                                        [PRN_VERDICT_FASTER] = "faster",
                                        [PRN_VERDICT_SLOWER] = "slower",
                                        [PRN_VERDICT_UNSURE] = "unsure"};
    bool sure = true;
    bool compared = false;
    if (r->verdict != PRN_VERDICT_NONE || !prn_result_measured(r) || r->ratio.estimate != 1)
        return texts[r->verdict];
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_result *other = &p->results[i];
        if (other == r || other->point != r->point || other->verdict == PRN_VERDICT_NONE)
            continue;
        compared = true;
        sure = sure && other->verdict == PRN_VERDICT_SLOWER;
    }
    return !compared ? "" : sure ? "best" : "best?";
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
    prn_json_text(w, "verdict", p->recorded ? "" : verdict_text(p, r));
    prn_json_number(w, "half_width", measured ? prn_result_half_width(r) : NAN);
    prn_json_number(w, "item_ns", measured ? prn_result_item_ns(p, r) : NAN);
    prn_json_number(w, "inferences_per_s", measured ? prn_result_rate(p, r) : NAN);
    prn_json_number(w, "gflop_per_s", measured ? prn_result_gflops(p, r) : NAN);
    prn_json_number(w, "usd_per_million", measured ? prn_result_cost(p, r) : NAN);
    known(w, "load_ns", launches->load_ns);
    known(w, "first_run_ns", launches->first_run_ns);
    known(w, "peak_bytes", launches->peak_bytes);
    if (r->ops && r->ops->has_ledger) {
        struct prn_buffer profiled = PRN_BUFFER_INIT((size_t)1 << 12);
        prn_ops_runs_text(r, &profiled);
        prn_json_text(w, "profiled", prn_buffer_text(&profiled));
        prn_buffer_release(&profiled);
    }
    if (r->ops && r->ops->n_providers > 0) {
        struct prn_buffer placement = PRN_BUFFER_INIT((size_t)1 << 16);
        prn_ops_placement_text(r->ops, &placement);
        prn_json_text(w, "placement", prn_buffer_text(&placement));
        prn_buffer_release(&placement);
    }
    if (r->load && r->load->slo) {
        double holds = prn_slo_holds_per_s(r->load->slo);
        prn_json_number(w, "holds_per_s", holds);
        prn_json_number(w, "holds_usd_per_million", prn_load_cost(p, r, holds));
    }
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

/* ---- The answer ---- */

static void write_index(struct prn_json_writer *w, const char *key, size_t index)
{
    if (index == SIZE_MAX)
        prn_json_null(w, key);
    else
        prn_json_integer(w, key, (int64_t)index);
}

/* Which backend to take and how sure that is, where one model was measured at one size. */
static void write_decision(struct prn_json_writer *w, const struct prn_view *view)
{
    static const char *const certainties[] = {[PRN_CERTAINTY_NONE] = NULL,
                                              [PRN_CERTAINTY_CERTAIN] = "certain",
                                              [PRN_CERTAINTY_PROBABLY] = "probably",
                                              [PRN_CERTAINTY_SAME] = "same",
                                              [PRN_CERTAINTY_UNKNOWN] = "unknown"};
    static const char *const agreements[] = {[PRN_AGREEMENT_NONE] = NULL,
                                             [PRN_AGREEMENT_AGREE] = "agree",
                                             [PRN_AGREEMENT_PARTLY] = "partly",
                                             [PRN_AGREEMENT_DIFFER] = "differ"};
    const struct prn_profile *p = view->profile;
    struct prn_buffer cure = PRN_BUFFER_INIT((size_t)1 << 12);
    struct prn_decision d;
    if (p->recorded || p->n_points > 1 || view->sweep.active || view->n_measured == 0)
        return;
    prn_view_decide(view, &d, &cure);
    prn_json_object(w, "decision");
    write_index(w, "best", d.best);
    write_index(w, "next", d.next);
    prn_json_text(w, "certainty", certainties[d.certainty]);
    prn_json_text(w, "outputs", agreements[d.outputs]);
    prn_json_text(w, "cure", cure.len > 0 ? prn_buffer_text(&cure) : NULL);
    prn_json_end(w);
    if (cure.error)
        w->out->error = cure.error;
    prn_buffer_release(&cure);
}

/* What limits trust: a sentence on each line, as the text report has them. */
static void write_warnings(struct prn_json_writer *w, const struct prn_view *view)
{
    struct prn_buffer lines = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    if (!view->profile->recorded)
        prn_view_warnings(view, &lines);
    prn_json_text(w, "warnings", prn_buffer_text(&lines));
    if (lines.error)
        w->out->error = lines.error;
    prn_buffer_release(&lines);
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

/* The text on a page is for whoever wants it all. */
static const struct prn_look page_look = {.verbose = true, .width = PRN_PAGE_TEXT_WIDTH};

int prn_page_profile_view(const struct prn_profile *profile, struct prn_buffer *out,
                          struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    struct prn_buffer markdown = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    struct prn_json_writer w = prn_json_writer_init(out);
    struct prn_view view;
    int code = prn_view_init(&view, profile, err);
    if (code < 0)
        return code;
    prn_json_object(&w, NULL);
    code = prn_profile_report(profile, PRN_REPORT_FORMAT_TEXT, &page_look, &text, err);
    prn_json_text(&w, "text", prn_buffer_text(&text));
    if (code == 0)
        code = prn_profile_report(profile, PRN_REPORT_FORMAT_MARKDOWN, NULL, &markdown, err);
    prn_json_text(&w, "markdown", prn_buffer_text(&markdown));
    write_flags(&w);
    write_decision(&w, &view);
    write_warnings(&w, &view);
    if (code == 0)
        code = write_labels(&w, profile, err);
    if (code == 0)
        code = write_results(&w, &view, err);
    prn_json_end(&w);
    prn_view_release(&view);
    prn_buffer_release(&markdown);
    prn_buffer_release(&text);
    return code == 0 ? prn_buffer_error(out, err) : code;
}
