/* Judges the rows of a comparison: ratios, Holm's correction, verdicts, regressions. */
#include "measure/comparison/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Room for a hundred files of a thousand rows. */
#define ARENA_MAX ((size_t)2 << 30)

#define DEFAULT_DIFFERENCE 0.005

const char *const prn_change_names[PRN_CHANGE_COUNT] = {
#define PRN_X(name, text) text,
    PRN_CHANGE_MAP(PRN_X)
#undef PRN_X
};

const char *const prn_difference_names[PRN_DIFFERENCE_COUNT] = {
#define PRN_X(name, text) text,
    PRN_DIFFERENCE_MAP(PRN_X)
#undef PRN_X
};

/* ---- Ratios ---- */

static const struct prn_compared unknown = {
    .ratio = {.a = NAN, .b = NAN, .ratio = {NAN, NAN, NAN}, .p = NAN}, .p_holm = NAN};

static bool row_is_measured(const struct prn_comparison_row *row)
{
    return row->before && row->after && prn_result_measured(row->before) &&
           prn_result_measured(row->after);
}

/* What tells processors apart that go by the same name of hardware. */
static bool row_crosses_machines(const struct prn_comparison_file *file,
                                 const struct prn_comparison_row *row)
{
    const char *before = row->before->processor;
    const char *after = row->after->processor;
    return file->machines_differ || (before && after && strcmp(before, after) != 0);
}

static int measure_figures(struct prn_comparison_row *row)
{
    const struct prn_result *after = row->after;
    const struct prn_result *before = row->before;
    struct prn_launch_figures a;
    struct prn_launch_figures b;
    int code = prn_launch_figures(after, &a);
    if (code == 0)
        code = prn_launch_figures(before, &b);
#define PRN_X(name, field, title)                                                                 \
    if (code == 0)                                                                                \
        code =                                                                                    \
            prn_launch_ratio(after, a.field, before, b.field, offsetof(struct prn_launch, field), \
                             &row->figures[PRN_FIGURE_##name].ratio);
    PRN_FIGURE_MAP(PRN_X)
#undef PRN_X
    return code;
}

static double median_of(const struct prn_result *r)
{
    return r && prn_result_measured(r) ? r->stats.median_ns : NAN;
}

/* Every row has its ratios; where machines differ they are shown, but not tested. */
static int measure_row(const struct prn_comparison *c, const struct prn_comparison_file *file,
                       struct prn_comparison_row *row)
{
    row->time = unknown;
    for (size_t i = 0; i < PRN_FIGURE_COUNT; i++)
        row->figures[i] = unknown;
    if (!row_is_measured(row)) {
        row->time.ratio.a = median_of(row->after);
        row->time.ratio.b = median_of(row->before);
        return 0;
    }
    int code = prn_ratio_unpaired(row->after->samples, row->after->n_samples, row->before->samples,
                                  row->before->n_samples, &row->time.ratio);
    if (code == 0)
        code = measure_figures(row);
    if (code == 0 && row_crosses_machines(file, row) && !c->options.force) {
        row->change = PRN_CHANGE_MACHINES;
        row->time.ratio.p = NAN;
        for (size_t i = 0; i < PRN_FIGURE_COUNT; i++)
            row->figures[i].ratio.p = NAN;
    }
    return code;
}

/* ---- Holm's correction ---- */

/* Corrects n figures together. */
static int correct(struct prn_compared *const *figures, size_t n)
{
    double *p = calloc(2 * n + 1, sizeof *p);
    if (!p)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < n; i++)
        p[i] = figures[i]->ratio.p;
    int code = prn_stats_holm(p, n, p + n);
    for (size_t i = 0; i < n && code == 0; i++)
        figures[i]->p_holm = p[n + i];
    free(p);
    return code;
}

/* Times make one family, because they are what is asked; the rest makes another. */
static int correct_all(struct prn_comparison *c)
{
    size_t n_rows = 0;
    for (size_t f = 0; f < c->n_files; f++)
        n_rows += c->files[f].n_rows;
    struct prn_compared **times =
        calloc(n_rows * (1 + PRN_FIGURE_COUNT) + 1, sizeof(struct prn_compared *));
    if (!times)
        return PRONY_ENOMEM;
    struct prn_compared **others = times + n_rows;
    size_t n = 0;
    for (size_t f = 0; f < c->n_files; f++)
        for (size_t i = 0; i < c->files[f].n_rows; i++, n++) {
            times[n] = &c->files[f].rows[i].time;
            for (size_t k = 0; k < PRN_FIGURE_COUNT; k++)
                others[n * PRN_FIGURE_COUNT + k] = &c->files[f].rows[i].figures[k];
        }
    int code = correct(times, n);
    if (code == 0)
        code = correct(others, n * PRN_FIGURE_COUNT);
    free(times);
    return code;
}

/* ---- Verdicts ---- */

static bool differs(const struct prn_compared *compared, double must_clear)
{
    enum prn_verdict verdict = prn_verdict_of(compared->ratio.ratio, must_clear);
    return compared->p_holm < PRN_COMPARISON_LEVEL &&
           (verdict == PRN_VERDICT_SLOWER || verdict == PRN_VERDICT_FASTER);
}

static enum prn_change judge_time(const struct prn_comparison_file *file,
                                  const struct prn_comparison_row *row)
{
    const struct prn_interval *ratio = &row->time.ratio.ratio;
    if (row->time.differs)
        return ratio->estimate > 1 ? PRN_CHANGE_SLOWER : PRN_CHANGE_FASTER;
    /* When the machine changed its state, equal times may hide a difference. */
    bool same_state = file->must_clear <= file->smallest_difference;
    bool same = prn_verdict_of(*ratio, file->smallest_difference) == PRN_VERDICT_SAME;
    return same && same_state ? PRN_CHANGE_SAME : PRN_CHANGE_UNSURE;
}

static enum prn_change judge_presence(const struct prn_comparison_row *row)
{
    if (!row->after)
        return PRN_CHANGE_MISSING;
    if (!row->before)
        return PRN_CHANGE_ADDED;
    if (prn_result_measured(row->before))
        return PRN_CHANGE_FAILS;
    return prn_result_measured(row->after) ? PRN_CHANGE_WORKS : PRN_CHANGE_NEITHER;
}

static bool is_regression(const struct prn_comparison_row *row, double fail_over)
{
    if (isnan(fail_over))
        return false;
    if (row->change == PRN_CHANGE_SLOWER)
        return row->time.ratio.ratio.estimate > 1 + fail_over;
    return row->change == PRN_CHANGE_FAILS ||
           (row->change == PRN_CHANGE_MISSING && prn_result_measured(row->before));
}

enum prn_unjudged prn_comparison_unjudged(const struct prn_comparison *c,
                                          const struct prn_comparison_file *file,
                                          const struct prn_comparison_row *row)
{
    if (row->change == PRN_CHANGE_MACHINES)
        return PRN_UNJUDGED_MACHINES;
    if (!row_is_measured(row) || row->change != PRN_CHANGE_UNSURE)
        return PRN_JUDGED;
    if (isnan(row->time.p_holm))
        return PRN_UNJUDGED_UNITS;
    bool beyond = row->time.ratio.ratio.estimate > 1 + c->options.fail_over;
    return beyond && differs(&row->time, file->smallest_difference) ? PRN_UNJUDGED_STATE
                                                                    : PRN_JUDGED;
}

static void judge_row(struct prn_comparison *c, struct prn_comparison_file *file,
                      struct prn_comparison_row *row)
{
    row->time.differs = differs(&row->time, file->must_clear);
    for (size_t i = 0; i < PRN_FIGURE_COUNT; i++) {
        /* The state of the machine changes times, not sizes. */
        double must_clear = i == PRN_FIGURE_PEAK ? file->smallest_difference : file->must_clear;
        row->figures[i].differs = differs(&row->figures[i], must_clear);
    }
    if (!row_is_measured(row))
        row->change = judge_presence(row);
    else if (row->change != PRN_CHANGE_MACHINES)
        row->change = judge_time(file, row);
    row->regression = is_regression(row, c->options.fail_over);
    file->counts[row->change]++;
    c->n_tested += !isnan(row->time.p_holm);
    c->n_regressions += row->regression;
}

static int by_importance(const void *a, const void *b)
{
    const struct prn_comparison_row *x = a;
    const struct prn_comparison_row *y = b;
    if (x->change != y->change)
        return x->change < y->change ? -1 : 1;
    double ratio_x = fabs(log(x->time.ratio.ratio.estimate));
    double ratio_y = fabs(log(y->time.ratio.ratio.estimate));
    if (ratio_x > ratio_y || ratio_x < ratio_y)
        return ratio_x > ratio_y ? -1 : 1;
    /* Otherwise as they stood: results of one file are one array. */
    const struct prn_result *at_x = x->before ? x->before : x->after;
    const struct prn_result *at_y = y->before ? y->before : y->after;
    return (at_x > at_y) - (at_x < at_y);
}

/* ---- The whole ---- */

static int refuse_recorded(const struct prn_comparison_side *before,
                           const struct prn_comparison_side *after, struct prony_error *err)
{
    const struct prn_comparison_side *recorded = before->profile->recorded ? before : after;
    if (before->profile->recorded != after->profile->recorded)
        return prn_fail(err, PRONY_EUNSUPPORTED,
                        "cannot compare '%s' with '%s': '%s' is a recorded program, the other a "
                        "measured model",
                        after->name, before->name, recorded->name);
    if (before->profile->recorded)
        return prn_fail(err, PRONY_EUNSUPPORTED,
                        "cannot compare '%s' with '%s': recorded programs cannot be compared",
                        after->name, before->name);
    return 0;
}

static int prepare_file(struct prn_comparison *c, const struct prn_comparison_side *after,
                        struct prn_comparison_file *file, struct prony_error *err)
{
    const struct prn_profile *before = c->before.profile;
    file->after = *after;
    int code = refuse_recorded(&c->before, after, err);
    if (code == 0)
        code = prn_comparison_match(before, file, &c->arena, err);
    if (code == 0)
        code = prn_comparison_differ(before, file, &c->arena, err);
    if (code < 0)
        return code;
    double smallest =
        fmax(before->settings.smallest_difference, after->profile->settings.smallest_difference);
    double shift = exp(fabs(log(file->canary_ratio))) - 1;
    file->smallest_difference = isfinite(smallest) ? smallest : DEFAULT_DIFFERENCE;
    file->must_clear = file->smallest_difference;
    if (shift > PRN_CANARY_SHIFT && !c->options.force)
        file->must_clear = fmax(shift, file->smallest_difference);
    for (size_t i = 0; i < file->n_rows && code == 0; i++)
        code = measure_row(c, file, &file->rows[i]);
    return code < 0 ? prn_fail_memory(err) : 0;
}

static void judge_file(struct prn_comparison *c, struct prn_comparison_file *file)
{
    for (size_t i = 0; i < file->n_rows; i++)
        judge_row(c, file, &file->rows[i]);
    qsort(file->rows, file->n_rows, sizeof *file->rows, by_importance);
}

int prn_compare(const struct prn_comparison_side *before, const struct prn_comparison_side *after,
                size_t n_after, const struct prn_compare_options *options,
                struct prn_comparison **ret_comparison, struct prony_error *err)
{
    struct prn_comparison *c = calloc(1, sizeof *c);
    if (!c)
        return prn_fail_memory(err);
    *c = (struct prn_comparison){
        .arena = PRN_ARENA_INIT(ARENA_MAX), .before = *before, .options = *options};
    c->files = PRN_ARENA_ARRAY(&c->arena, n_after, struct prn_comparison_file);
    int code = c->files ? 0 : prn_fail_memory(err);
    for (size_t i = 0; i < n_after && code == 0; i++) {
        code = prepare_file(c, &after[i], &c->files[i], err);
        c->n_files = i + 1;
    }
    if (code == 0 && correct_all(c) < 0)
        code = prn_fail_memory(err);
    if (code < 0) {
        prn_comparison_free(c);
        return code;
    }
    for (size_t i = 0; i < n_after; i++)
        judge_file(c, &c->files[i]);
    *ret_comparison = c;
    return 0;
}

void prn_comparison_free(struct prn_comparison *c)
{
    if (!c)
        return;
    prn_arena_release(&c->arena);
    free(c);
}
