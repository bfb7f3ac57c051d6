/* The verdict on a model: who is fastest and by how much, which row of a sweep to take, which rate
 * a backend holds. */
#include "report/verdict.h"

#include "base/format.h"
#include "measure/ops/ops.h"
#include "report/load/report.h"

#include <math.h>
#include <string.h>

/* Operators that make a difference. */
#define CAUSES_TOLD 3
/* Nobody waits longer than this for a verdict. */
#define PATIENCE_S 3600

static bool is_measured(const struct prn_view *view, size_t i)
{
    return prn_result_measured(&view->profile->results[i]);
}

static size_t fastest(const struct prn_view *view)
{
    const struct prn_profile *p = view->profile;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < p->n_results; i++)
        if (is_measured(view, i) &&
            (best == SIZE_MAX || p->results[i].stats.median_ns < p->results[best].stats.median_ns))
            best = i;
    return best;
}

/* The fastest of those that aren't it. */
static size_t runner_up(const struct prn_view *view, size_t best)
{
    const struct prn_profile *p = view->profile;
    size_t next = SIZE_MAX;
    for (size_t i = 0; i < p->n_results; i++)
        if (i != best && is_measured(view, i) &&
            (next == SIZE_MAX || p->results[i].stats.median_ns < p->results[next].stats.median_ns))
            next = i;
    return next;
}

/* ---- Failures ---- */

static const char *reason(const struct prn_result *r)
{
    return r->error ? r->error : prony_error_text(r->error_code);
}

static void say_nothing_measured(const struct prn_view *view, struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    size_t first = 0;
    while (first < p->n_results && p->results[first].error_code == 0)
        first++;
    if (first == p->n_results)
        prn_buffer_add(out, "Nothing was measured.");
    else if (p->n_results == 1)
        prn_buffer_printf(out, "%s failed: %s", view->calls[0], reason(&p->results[0]));
    else
        prn_buffer_printf(out, "Nothing could be measured. %s failed: %s", view->calls[first],
                          reason(&p->results[first]));
    if (out->len > 0 && !strchr(".!?", out->data[out->len - 1]))
        prn_buffer_add_char(out, '.');
}

/* " c and d failed." */
static void add_failures(const struct prn_view *view, struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    size_t n = 0;
    size_t i = 0;
    for (size_t k = 0; k < p->n_results; k++)
        n += p->results[k].error_code != 0;
    if (n == 0)
        return;
    prn_buffer_add_char(out, ' ');
    for (size_t k = 0; k < p->n_results; k++)
        if (p->results[k].error_code != 0)
            prn_verdict_name(i++, n, view->calls[k], out);
    prn_buffer_add(out, " failed.");
}

/* ---- Outputs ---- */

/* Whether the outputs of all backends agree, how many differ. NONE: nothing was compared. */
static enum prn_agreement compare_outputs(const struct prn_view *view, size_t *ret_differ)
{
    const struct prn_profile *p = view->profile;
    size_t compared = 0;
    size_t differ = 0;
    bool unknown = false;
    for (size_t k = 0; k < p->n_results; k++) {
        const struct prn_result *r = &p->results[k];
        if (!prn_result_measured(r) || r->n_outputs == 0)
            continue;
        compared++;
        differ += (r->flags & PRN_FLAG_MISMATCH) != 0;
        for (size_t o = 0; o < r->n_outputs; o++)
            unknown |= r->outputs[o].both_nan > 0 || !isfinite(r->outputs[o].max_rel);
    }
    *ret_differ = differ;
    if (compared == 0 || !view->any_compared)
        return PRN_AGREEMENT_NONE;
    return differ > 0 ? PRN_AGREEMENT_DIFFER : unknown ? PRN_AGREEMENT_PARTLY : PRN_AGREEMENT_AGREE;
}

/* "; outputs agree", "; outputs of b differ", "; outputs are NaN". */
static void add_outputs(const struct prn_view *view, struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    size_t differ;
    size_t i = 0;
    switch (compare_outputs(view, &differ)) {
    case PRN_AGREEMENT_NONE:
        break;
    case PRN_AGREEMENT_AGREE:
        prn_buffer_add(out, "; outputs agree");
        break;
    case PRN_AGREEMENT_PARTLY:
        prn_buffer_add(out, "; not all outputs could be compared");
        break;
    case PRN_AGREEMENT_DIFFER:
        prn_buffer_add(out, "; outputs of ");
        for (size_t k = 0; k < p->n_results; k++)
            if (prn_result_measured(&p->results[k]) && (p->results[k].flags & PRN_FLAG_MISMATCH))
                prn_verdict_name(i++, differ, view->calls[k], out);
        prn_buffer_add(out, " differ");
        break;
    }
}

/* ---- Backends ---- */

/* "; the difference is mostly Conv and Relu", if the profiled runs explain it: their differences
 * together are about that of plain runs, and a few of them make half of it. */
static void add_cause(const struct prn_profile *p, const struct prn_result *slower,
                      struct prn_buffer *out)
{
    const struct prn_ops *ops = slower->ops;
    if (!ops || ops->baseline < 0)
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
        prn_verdict_name(i, n, ops->operator_changes[i].name, out);
}

/* Time that the runs of a point took, warm-up aside. */
static double spent_s(const struct prn_profile *p)
{
    double ns = 0;
    for (size_t i = 0; i < p->n_results; i++)
        for (size_t k = 0; k < p->results[i].n_samples; k++)
            ns += (double)p->results[i].samples[k].ns;
    return fmax(ns * 1e-9, isfinite(p->settings.max_time_s) ? p->settings.max_time_s : 0);
}

/* How long it would take to tell, if intervals narrow with the root of the time: what the interval
 * has to be narrower than is the distance to the nearer side of the smallest difference. */
static void add_cure(const struct prn_profile *p, const struct prn_result *r,
                     struct prn_buffer *out)
{
    const struct prn_settings *s = &p->settings;
    double edge = isfinite(s->smallest_difference) ? s->smallest_difference : 0;
    double half = log(r->ratio.high / r->ratio.low) / 2;
    double room = fabs(fabs(log(r->ratio.estimate)) - log1p(edge));
    double factor = half / room;
    double seconds = spent_s(p) * factor * factor;
    if (s->launches > 0 || s->repeats > 0)
        prn_buffer_printf(out, "more --%s would tell", s->launches > 0 ? "launches" : "repeats");
    else if (!(seconds > 0) || seconds > PATIENCE_S)
        prn_buffer_add(out, "a difference this small takes hours to show");
    else if (r->flags & PRN_FLAG_IMPRECISE)
        prn_buffer_printf(out, "about --max-time %.0f would tell", ceil(seconds / 10) * 10);
    else
        prn_buffer_printf(out, "--precision %.2g%% would tell",
                          fmax(0.01, 100 * prn_result_half_width(r) / fmax(factor, 1)));
}

/* The same where there are too few processes for an interval. */
static void add_launches_cure(const struct prn_profile *p, const struct prn_result *r,
                              struct prn_buffer *out)
{
    prn_buffer_printf(out, "%s would do", prn_view_launches_cure(p, r->n_launches));
}

/* What can't be told from the fastest, itself included. */
static size_t count_tied(const struct prn_view *view)
{
    size_t n = 0;
    for (size_t i = 0; i < view->profile->n_results; i++)
        n += is_measured(view, i) && view->profile->results[i].verdict != PRN_VERDICT_SLOWER;
    return n;
}

static void name_tied(const struct prn_view *view, size_t best, size_t n, struct prn_buffer *out)
{
    size_t i = 0;
    prn_verdict_name(i++, n, view->calls[best], out);
    for (size_t k = 0; k < view->profile->n_results; k++)
        if (k != best && is_measured(view, k) &&
            view->profile->results[k].verdict != PRN_VERDICT_SLOWER)
            prn_verdict_name(i++, n, view->calls[k], out);
}

/* How far apart the tied ones may be, as a fraction; NAN when one has no interval. */
static double widest_tie(const struct prn_view *view, size_t best, size_t *ret_widest,
                         bool *ret_same)
{
    double widest = 0;
    *ret_same = true;
    *ret_widest = best;
    for (size_t i = 0; i < view->profile->n_results; i++) {
        const struct prn_result *r = &view->profile->results[i];
        if (i == best || !is_measured(view, i) || r->verdict == PRN_VERDICT_SLOWER)
            continue;
        *ret_same &= r->verdict == PRN_VERDICT_SAME;
        if (isnan(r->ratio.low) || isnan(r->ratio.high)) {
            *ret_widest = i;
            return NAN;
        }
        double far = fmax(r->ratio.high, 1 / r->ratio.low) - 1;
        if (far > widest) {
            widest = far;
            *ret_widest = i;
        }
    }
    return widest;
}

static void say_tie(const struct prn_view *view, size_t best, size_t n, struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    char text[2][PRN_FORMAT_SIZE];
    size_t widest;
    bool same;
    double within = widest_tie(view, best, &widest, &same);
    const struct prn_result *other = &p->results[widest];
    name_tied(view, best, n, out);
    if (same && isfinite(p->settings.smallest_difference)) {
        prn_buffer_printf(out, " are equally fast, within %.3g %%",
                          100 * p->settings.smallest_difference);
    } else if (isnan(within) && other->n_launches >= PRN_UNITS_MIN) {
        prn_buffer_printf(out, " were not compared: %s against %s",
                          prn_format_duration(text[0], p->results[best].stats.median_ns),
                          prn_format_duration(text[1], other->stats.median_ns));
    } else if (isnan(within)) {
        prn_buffer_printf(out,
                          " can't be told apart: %s against %s, but %zu process%s of each %s too "
                          "few to compare",
                          prn_format_duration(text[0], p->results[best].stats.median_ns),
                          prn_format_duration(text[1], other->stats.median_ns), other->n_launches,
                          other->n_launches == 1 ? "" : "es",
                          other->n_launches == 1 ? "is" : "are");
        prn_buffer_add(out, "; ");
        add_launches_cure(p, other, out);
    } else {
        prn_buffer_add(out, " can't be told apart");
        if (within <= 1)
            prn_buffer_printf(
                out, ": within %s %%",
                prn_format_significant(text[0], 100 * fmax(within, 0.001), within < 0.1 ? 1 : 2));
        prn_buffer_add(out, "; ");
        add_cure(p, other, out);
    }
    if (n < view->n_measured)
        prn_buffer_printf(out, "; %s slower",
                          view->n_measured - n == 1 ? "the other is" : "all others are");
}

static void say_winner(const struct prn_view *view, size_t best, size_t next,
                       struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    const struct prn_result *other = &p->results[next];
    if (view->n_measured > 2)
        prn_buffer_printf(out, "%s is the fastest of %zu: ", view->calls[best], view->n_measured);
    else
        prn_buffer_printf(out, "%s is ", view->calls[best]);
    prn_verdict_ratio(other->ratio.estimate, out);
    prn_buffer_printf(out, " as fast as %s%s", view->calls[next],
                      view->n_measured > 2 ? ", the next" : "");
    prn_verdict_interval(other->ratio.low, other->ratio.high, out);
    if (isnan(other->ratio.low))
        prn_buffer_printf(out, " (%zu process%s of each: no interval)", other->n_launches,
                          other->n_launches == 1 ? "" : "es");
    add_cause(p, other, out);
}

static void say_one(const struct prn_view *view, size_t index, struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    const struct prn_result *r = &p->results[index];
    char text[PRN_FORMAT_SIZE];
    double half = prn_result_half_width(r);
    double rate = prn_result_rate(p, r);
    prn_buffer_printf(out, "%s takes %s", view->calls[index],
                      prn_format_duration(text, r->stats.median_ns));
    if (isfinite(half)) {
        prn_buffer_add(out, half > 1 ? " (± unknown)" : " ±");
        if (half <= 1)
            prn_view_half_width(out, half);
    }
    prn_buffer_add(out, " per run");
    if (isfinite(rate))
        prn_buffer_printf(out, ": %s per second", prn_format_count(text, rate));
}

static void say_backends(const struct prn_view *view, struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    size_t best = fastest(view);
    size_t next = runner_up(view, best);
    size_t tied = count_tied(view);
    if (next == SIZE_MAX)
        say_one(view, best, out);
    else if (tied > 1)
        say_tie(view, best, tied, out);
    else
        say_winner(view, best, next, out);
    if (next != SIZE_MAX && tied == 1 && (p->results[best].flags & PRN_FLAG_MISMATCH))
        prn_buffer_add(out, ", but its outputs differ: a wrong answer doesn't count");
    else
        add_outputs(view, out);
    prn_buffer_add_char(out, '.');
    add_failures(view, out);
}

/* How likely it is that `r` is slower than the fastest: by the interval of its ratio, taken for one
 * of a normal distribution, at least nine in ten? */
static bool is_likely_slower(const struct prn_result *r)
{
    const double nine_in_ten = 1.2816 / 1.96;
    double half = log(r->ratio.high / r->ratio.low) / 2;
    return r->verdict == PRN_VERDICT_SLOWER ||
           (r->verdict == PRN_VERDICT_UNSURE && log(r->ratio.estimate) >= nine_in_ten * half);
}

void prn_view_decide(const struct prn_view *view, struct prn_decision *ret_decision,
                     struct prn_buffer *cure)
{
    const struct prn_profile *p = view->profile;
    struct prn_decision d = {.best = fastest(view), .certainty = PRN_CERTAINTY_NONE};
    size_t differ;
    size_t widest;
    bool same;
    d.outputs = compare_outputs(view, &differ);
    d.next = d.best == SIZE_MAX ? SIZE_MAX : runner_up(view, d.best);
    if (d.next != SIZE_MAX) {
        double within = widest_tie(view, d.best, &widest, &same);
        bool likely = true;
        for (size_t i = 0; i < p->n_results; i++)
            likely &= i == d.best || !is_measured(view, i) || is_likely_slower(&p->results[i]);
        if (count_tied(view) == 1)
            d.certainty =
                isnan(p->results[d.next].ratio.low) ? PRN_CERTAINTY_UNKNOWN : PRN_CERTAINTY_CERTAIN;
        else if (same)
            d.certainty = PRN_CERTAINTY_SAME;
        else
            d.certainty = likely ? PRN_CERTAINTY_PROBABLY : PRN_CERTAINTY_UNKNOWN;
        const struct prn_result *open = &p->results[count_tied(view) == 1 ? d.next : widest];
        if (d.certainty == PRN_CERTAINTY_CERTAIN || d.certainty == PRN_CERTAINTY_SAME)
            open = NULL;
        if (open && isfinite(open->ratio.low) && isfinite(within))
            add_cure(p, open, cure);
        else if (open && open->n_launches < PRN_UNITS_MIN)
            add_launches_cure(p, open, cure);
    }
    *ret_decision = d;
}

/* ---- Models ---- */

/* "; outputs agree", "; outputs differ": of the models. */
static void add_model_outputs(const struct prn_profile *p, size_t model, struct prn_buffer *out)
{
    size_t compared = 0;
    bool differ = false;
    for (size_t i = model; i < p->n_points; i += p->n_models) {
        compared += p->points[i].n_outputs;
        differ |= p->points[i].outputs_differing > 0;
    }
    if (compared > 0)
        prn_buffer_add(out, differ ? "; outputs differ" : "; outputs agree");
}

/* "is 1.25× as fast as old.onnx on onnxrt-cpu (95 %: 1.21 to 1.29)" */
static void add_model_row(const struct prn_view *view, size_t index, bool first,
                          struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    const struct prn_result *r = &p->results[index];
    const struct prn_interval *ratio = &r->model_ratio;
    const bool same = r->model_verdict == PRN_VERDICT_SAME;
    const bool unsure = r->model_verdict == PRN_VERDICT_UNSURE;
    double far = fmax(ratio->high, 1 / ratio->low) - 1;
    if (same || unsure) {
        prn_buffer_add(out, same ? "takes the same time" : "can't be told");
    } else {
        prn_buffer_add(out, r->model_verdict == PRN_VERDICT_SLOWER ? "is slower, " : "is ");
        prn_verdict_ratio(1 / ratio->estimate, out);
        prn_buffer_add(out, " as fast");
    }
    if (first)
        prn_buffer_printf(out, " %s %s", unsure ? "from" : "as", p->models[0].name);
    else if (unsure)
        prn_buffer_add(out, " from it");
    if (p->n_results > p->n_points)
        prn_buffer_printf(out, " on %s", view->fulls[index]);
    if (prn_result_point(p, r)->label[0])
        prn_buffer_printf(out, " at %s", prn_result_point(p, r)->label);
    if (same)
        prn_buffer_printf(out, ", within %.3g %%", 100 * p->settings.smallest_difference);
    else if (!unsure)
        prn_verdict_interval(1 / ratio->high, 1 / ratio->low, out);
    else if (far <= 1)
        prn_buffer_printf(out, " (within %.2g %%)", 100 * fmax(far, 0.001));
}

/* One sentence for each model but the first; of many rows they count. */
static void say_model(const struct prn_view *view, size_t model, struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    size_t counts[PRN_VERDICT_UNSURE + 1] = {0};
    size_t n = 0;
    for (size_t i = 0; i < p->n_results; i++)
        if (p->results[i].point % p->n_models == model)
            counts[p->results[i].model_verdict]++;
    n = counts[PRN_VERDICT_SAME] + counts[PRN_VERDICT_FASTER] + counts[PRN_VERDICT_SLOWER] +
        counts[PRN_VERDICT_UNSURE];
    prn_buffer_printf(out, "%s%s ", model > 1 ? " " : "", p->models[model].name);
    if (n == 0) {
        prn_buffer_printf(out, "could not be compared with %s", p->models[0].name);
    } else if (n > PRN_VERDICT_NAMED) {
        prn_buffer_printf(out,
                          "against %s: faster in %zu of %zu rows, slower in %zu, the same in %zu, "
                          "not told apart in %zu",
                          p->models[0].name, counts[PRN_VERDICT_FASTER], n,
                          counts[PRN_VERDICT_SLOWER], counts[PRN_VERDICT_SAME],
                          counts[PRN_VERDICT_UNSURE]);
    } else {
        size_t told = 0;
        for (size_t i = 0; i < p->n_results; i++) {
            const struct prn_result *r = &p->results[i];
            if (r->point % p->n_models != model || r->model_verdict == PRN_VERDICT_NONE)
                continue;
            prn_buffer_add(out, told > 0 ? "; it " : "");
            add_model_row(view, i, told++ == 0, out);
        }
    }
    add_model_outputs(p, model, out);
    prn_buffer_add_char(out, '.');
}

static void say_models(const struct prn_view *view, struct prn_buffer *out)
{
    for (size_t i = 1; i < view->profile->n_models; i++)
        say_model(view, i, out);
    add_failures(view, out);
}

/* ---- Sweeps ---- */

/* What the best rows are held against: the row with the fewest options set, at the first point. */
static size_t default_row(const struct prn_view *view)
{
    const struct prn_profile *p = view->profile;
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < p->n_results; i++) {
        bool plain = !strchr(prn_result_spec(&p->results[i]), '[');
        if (!is_measured(view, i) || p->results[i].point != 0)
            continue;
        if (plain)
            return i;
        found = found == SIZE_MAX ? i : found;
    }
    return found;
}

/* How much better the best row is than the one to hold it against: times, rates and costs. */
static double gain(const struct prn_profile *p, const struct prn_result *best,
                   const struct prn_result *base, int mark)
{
    if (mark == PRN_MARK_LATENCY)
        return base->stats.median_ns / best->stats.median_ns;
    if (mark == PRN_MARK_THROUGHPUT)
        return prn_result_rate(p, best) / prn_result_rate(p, base);
    return prn_result_cost(p, base) / prn_result_cost(p, best);
}

static void add_best(const struct prn_view *view, int mark, size_t best, size_t n,
                     struct prn_buffer *out)
{
    const struct prn_profile *p = view->profile;
    const struct prn_result *r = &p->results[best];
    char text[PRN_FORMAT_SIZE];
    size_t base = default_row(view);
    prn_buffer_printf(out, "%s", view->calls[best]);
    if (n > 1)
        prn_buffer_printf(out, " and %zu that can't be told from it", n - 1);
    if (mark == PRN_MARK_LATENCY)
        prn_buffer_printf(out, ", %s", prn_format_duration(text, r->stats.median_ns));
    else if (mark == PRN_MARK_THROUGHPUT)
        prn_buffer_printf(out, ", %s/s", prn_format_count(text, prn_result_rate(p, r)));
    else
        prn_buffer_printf(out, ", %s per million", prn_format_dollars(text, prn_result_cost(p, r)));
    /* What can't be told from the best isn't held against it. */
    bool apart = base != SIZE_MAX && !view->sweep.best[mark][base];
    double ratio = apart ? gain(p, r, &p->results[base], mark) : NAN;
    if (!isfinite(ratio) || ratio <= 1)
        return;
    prn_buffer_add(out, " (");
    prn_verdict_ratio(ratio, out);
    prn_buffer_printf(out, " %s %s)",
                      mark == PRN_MARK_LATENCY      ? "as fast as"
                      : mark == PRN_MARK_THROUGHPUT ? "that of"
                                                    : "as cheap as",
                      view->calls[base]);
}

/* "Best for latency: a (batch=1), 3.20 ms (1.80× as fast as b); for throughput: …" */
static void say_sweep(const struct prn_view *view, struct prn_buffer *out)
{
    static const char *const names[] = {
#define PRN_X(name, text) text,
        PRN_MARK_MAP(PRN_X)
#undef PRN_X
    };
    const struct prn_profile *p = view->profile;
    bool begun = false;
    for (int mark = 0; mark < PRN_MARK_COUNT; mark++) {
        size_t best = SIZE_MAX;
        size_t n = 0;
        for (size_t i = 0; view->sweep.best[mark] && i < p->n_results; i++) {
            if (!view->sweep.best[mark][i])
                continue;
            n++;
            if (best == SIZE_MAX || gain(p, &p->results[i], &p->results[best], mark) > 1)
                best = i;
        }
        if (best == SIZE_MAX)
            continue;
        prn_buffer_printf(out, "%s %s: ", begun ? "; for" : "Best for", names[mark]);
        add_best(view, mark, best, n, out);
        begun = true;
    }
    if (begun) {
        add_outputs(view, out);
        prn_buffer_add(out, ".");
    } else {
        say_one(view, fastest(view), out);
        prn_buffer_add(out, ".");
    }
    add_failures(view, out);
}

void prn_view_verdict(const struct prn_view *view, struct prn_buffer *out)
{
    size_t before = out->len;
    prn_load_verdict(view, out);
    if (out->len > before)
        add_failures(view, out);
    else if (view->n_measured == 0)
        say_nothing_measured(view, out);
    else if (view->profile->n_models > 1)
        say_models(view, out);
    else if (view->sweep.active || view->profile->n_points > 1)
        say_sweep(view, out);
    else
        say_backends(view, out);
}
