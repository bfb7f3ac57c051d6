/*
 * Comparing profiles: partners, ratios, verdicts. Intervals and p were worked out with SciPy,
 * ttest_ind(equal_var=False) on the logarithms of the medians.
 */
#include "measure/comparison/comparison.h"

#include "base/random.h"
#include "unit.h"

#include <stdlib.h>

#define LAUNCHES 5
#define BLOCKS 4
#define RUNS 3

/* ---- Synthetic profiles ---- */

static struct prn_profile *new_profile(size_t n_results)
{
    static const int64_t dims[] = {1, 8};
    static struct prn_profile_input input = {"x", PRN_DTYPE_FLOAT, 2, dims, "ones"};
    struct prn_profile *p = prn_profile_new();
    assert_non_null(p);
    p->models->path = "model.onnx";
    p->prony_version = "0.1.0";
    p->settings.smallest_difference = 0.005;
    p->environment.cpu = "Example CPU";
    p->environment.cores = 2;
    p->canary_best_ns = 100000;
    p->n_points = 1;
    p->points = PRN_ARENA_NEW(&p->arena, struct prn_point);
    p->points[0] = (struct prn_point){.label = "", .batch = 1, .n_inputs = 1, .inputs = &input};
    p->n_results = n_results;
    p->results = PRN_ARENA_ARRAY(&p->arena, n_results, struct prn_result);
    for (size_t i = 0; i < n_results; i++)
        p->results[i].usd_per_hour = NAN;
    return p;
}

/* A result whose launches have these medians. */
static struct prn_result *fill_result(struct prn_profile *p, size_t index, const char *name,
                                      const int64_t *medians, size_t launches)
{
    struct prn_result *r = &p->results[index];
    r->name = name;
    r->hardware = "local";
    r->software = "onnxrt-cpu";
    r->samples = PRN_ARENA_ARRAY(&p->arena, launches * BLOCKS * RUNS, struct prn_sample);
    r->launches = PRN_ARENA_ARRAY(&p->arena, launches, struct prn_launch);
    r->n_launches = launches;
    for (size_t l = 0; l < launches; l++) {
        r->launches[l] = (struct prn_launch){1000, 100, 10, 5000, 1, true};
        for (int b = 0; b < BLOCKS; b++)
            for (int i = 0; i < RUNS; i++)
                r->samples[r->n_samples++] = (struct prn_sample){
                    medians[l] + i - RUNS / 2, (int32_t)l, (int32_t)l * BLOCKS + b};
    }
    r->stats.median_ns = 1; /* known, which is all that is asked of it */
    return r;
}

static const int64_t usual[LAUNCHES] = {10000, 10030, 9980, 10020, 9950};
static const int64_t slow[LAUNCHES] = {10800, 10850, 10790, 10820, 10900};
static const int64_t noisy[LAUNCHES] = {10000, 10900, 9300, 10500, 9600};

static struct prn_profile *one_result(const int64_t *medians)
{
    struct prn_profile *p = new_profile(1);
    fill_result(p, 0, "local/onnxrt-cpu", medians, LAUNCHES);
    return p;
}

static const struct prn_compare_options plain = {.fail_over = NAN};

static struct prn_comparison *compare(const struct prn_profile *before,
                                      const struct prn_profile *after,
                                      struct prn_compare_options options)
{
    struct prn_comparison_side sides[] = {{"before.json", before}, {"after.json", after}};
    struct prn_comparison *c;
    struct prony_error err;
    assert_int_equal(prn_compare(&sides[0], &sides[1], 1, &options, &c, &err), 0);
    return c;
}

static void free_all(struct prn_comparison *c, struct prn_profile *before,
                     struct prn_profile *after)
{
    prn_comparison_free(c);
    prn_profile_free(before);
    prn_profile_free(after);
}

/* ---- Ratios ---- */

static void ratio_is_over_launches(void **state)
{
    (void)state;
    struct prn_profile *before = one_result(usual);
    struct prn_profile *after = one_result(slow);
    struct prn_comparison *c = compare(before, after, plain);
    const struct prn_comparison_row *row = &c->files[0].rows[0];
    const struct prn_unpaired *u = &row->time.ratio;
    assert_near(u->a, 10820, 1);
    assert_near(u->b, 10000, 1);
    assert_near(u->ratio.estimate, u->a / u->b, 1e-12);
    assert_near(u->ratio.low, 1.0777747235921828, 1e-9);
    assert_near(u->ratio.high, 1.08951841246313, 1e-9);
    assert_near(u->p, 1.3194423743594103e-09, 1e-15);
    assert_near(row->time.p_holm, u->p, 1e-20); /* one row: nothing to correct */
    assert_false(u->by_block);
    assert_int_equal(row->change, PRN_CHANGE_SLOWER);
    free_all(c, before, after);
}

/* A launch counts once, however many runs it has. */
static void more_runs_are_not_more_units(void **state)
{
    (void)state;
    struct prn_profile *before = one_result(usual);
    struct prn_profile *after = one_result(slow);
    struct prn_result *r = &after->results[0];
    struct prn_sample *twice = PRN_ARENA_ARRAY(&after->arena, 2 * r->n_samples, struct prn_sample);
    for (size_t i = 0; i < 2 * r->n_samples; i++)
        twice[i] = r->samples[i / 2];
    r->samples = twice;
    r->n_samples *= 2;
    struct prn_comparison *c = compare(before, after, plain);
    assert_near(c->files[0].rows[0].time.ratio.p, 1.3194423743594103e-09, 1e-15);
    free_all(c, before, after);
}

static void one_launch_is_weak(void **state)
{
    (void)state;
    struct prn_profile *before = new_profile(1);
    struct prn_profile *after = new_profile(1);
    fill_result(before, 0, "local/onnxrt-cpu", (const int64_t[]){900, 905, 910}, 3);
    struct prn_result *r = fill_result(after, 0, "local/onnxrt-cpu", (const int64_t[]){1000}, 1);
    for (size_t i = 0; i < r->n_samples; i++)
        r->samples[i].ns += 10 * r->samples[i].block; /* blocks of 1000, 1010, 1020, 1030 */
    struct prn_comparison *c = compare(before, after, plain);
    const struct prn_unpaired *u = &c->files[0].rows[0].time.ratio;
    assert_true(u->by_block);
    assert_near(u->ratio.low, 1.1001231523448394, 1e-9);
    assert_near(u->ratio.high, 1.143272507039986, 1e-9);
    assert_near(u->p, 5.2985270679193e-05, 1e-12);
    free_all(c, before, after);
}

static void one_block_tells_nothing(void **state)
{
    (void)state;
    struct prn_profile *before = one_result(usual);
    struct prn_profile *after = new_profile(1);
    struct prn_result *r = fill_result(after, 0, "local/onnxrt-cpu", slow, 1);
    r->n_samples = RUNS;
    struct prn_comparison *c = compare(before, after, plain);
    const struct prn_comparison_row *row = &c->files[0].rows[0];
    assert_true(isnan(row->time.p_holm) && isinf(row->time.ratio.ratio.high));
    assert_near(row->time.ratio.ratio.estimate, 1.08, 0.001);
    assert_int_equal(row->change, PRN_CHANGE_UNSURE);
    assert_int_equal(c->n_tested, 0);
    assert_int_equal(prn_comparison_unjudged(c, &c->files[0], row), PRN_UNJUDGED_UNITS);
    free_all(c, before, after);
}

static void launches_speak_for_memory(void **state)
{
    (void)state;
    static const int64_t peaks_before[] = {200000000, 201000000, 199000000};
    static const int64_t peaks_after[] = {210000000, 212000000, 215000000};
    struct prn_profile *before = new_profile(1);
    struct prn_profile *after = new_profile(1);
    struct prn_result *b = fill_result(before, 0, "local/onnxrt-cpu", usual, 3);
    struct prn_result *a = fill_result(after, 0, "local/onnxrt-cpu", usual, 3);
    for (int i = 0; i < 3; i++) {
        b->launches[i].peak_bytes = peaks_before[i];
        a->launches[i].peak_bytes = peaks_after[i];
        a->launches[i].load_ns = -1;
    }
    struct prn_comparison *c = compare(before, after, plain);
    const struct prn_compared *peak = &c->files[0].rows[0].figures[PRN_FIGURE_PEAK];
    assert_near(peak->ratio.ratio.estimate, 215.0 / 201, 1e-12); /* the largest of each */
    assert_near(peak->ratio.ratio.low, 1.0351853094168897, 1e-9);
    assert_near(peak->ratio.ratio.high, 1.0887417835975035, 1e-9);
    assert_near(peak->ratio.p, 0.005862176077526551, 1e-10);
    /* Two figures are tested beside the time: memory, and first runs that don't vary. */
    assert_near(peak->p_holm, 2 * 0.005862176077526551, 1e-10);
    assert_true(peak->differs);
    const struct prn_compared *load = &c->files[0].rows[0].figures[PRN_FIGURE_LOAD];
    assert_true(isnan(load->ratio.a) && load->ratio.b == 1000 && isnan(load->ratio.p));
    assert_false(load->differs);
    free_all(c, before, after);
}

/* ---- Verdicts ---- */

static enum prn_change verdict(const int64_t *before_medians, const int64_t *after_medians,
                               double after_canary, bool force)
{
    struct prn_profile *before = one_result(before_medians);
    struct prn_profile *after = one_result(after_medians);
    after->canary_best_ns = after_canary;
    struct prn_compare_options options = {.force = force, .fail_over = NAN};
    struct prn_comparison *c = compare(before, after, options);
    enum prn_change change = c->files[0].rows[0].change;
    assert_int_equal(c->files[0].counts[change], 1);
    free_all(c, before, after);
    return change;
}

static void verdicts(void **state)
{
    (void)state;
    static const int64_t steady[LAUNCHES] = {10000, 10001, 10002, 9999, 9998};
    static const int64_t barely[LAUNCHES] = {10030, 10031, 10032, 10029, 10028};
    assert_int_equal(verdict(usual, slow, 100000, false), PRN_CHANGE_SLOWER);
    assert_int_equal(verdict(slow, usual, 100000, false), PRN_CHANGE_FASTER);
    assert_int_equal(verdict(usual, noisy, 100000, false), PRN_CHANGE_UNSURE);
    assert_int_equal(verdict(usual, usual, 100000, false), PRN_CHANGE_SAME);
    /* 0.3 % is there beyond doubt, and doesn't count. */
    assert_int_equal(verdict(steady, barely, 100000, false), PRN_CHANGE_SAME);
}

static void the_canary_bounds_what_is_called(void **state)
{
    (void)state;
    /* The canary takes 5 % longer: 8 % are more than that, and equal times may hide a gain. */
    assert_int_equal(verdict(usual, slow, 105000, false), PRN_CHANGE_SLOWER);
    assert_int_equal(verdict(usual, usual, 105000, false), PRN_CHANGE_UNSURE);
    /* 10 % longer, or less: the machine may be all of it. */
    assert_int_equal(verdict(usual, slow, 110000, false), PRN_CHANGE_UNSURE);
    assert_int_equal(verdict(usual, slow, 90000, false), PRN_CHANGE_UNSURE);
    assert_int_equal(verdict(usual, slow, 110000, true), PRN_CHANGE_SLOWER);
    /* Within 3 % it is the same state; so it is when nobody knows. */
    assert_int_equal(verdict(usual, usual, 102900, false), PRN_CHANGE_SAME);
    assert_int_equal(verdict(usual, slow, NAN, false), PRN_CHANGE_SLOWER);
    assert_int_equal(verdict(usual, slow, 0, false), PRN_CHANGE_SLOWER);
}

static void the_larger_difference_counts(void **state)
{
    (void)state;
    struct prn_profile *before = one_result(usual);
    struct prn_profile *after = one_result(slow);
    before->settings.smallest_difference = 0.2;
    struct prn_comparison *c = compare(before, after, plain);
    assert_int_equal(c->files[0].rows[0].change, PRN_CHANGE_SAME);
    assert_true(c->files[0].smallest_difference == 0.2);
    prn_comparison_free(c);
    before->settings.smallest_difference = NAN;
    after->settings.smallest_difference = NAN;
    c = compare(before, after, plain);
    assert_true(c->files[0].smallest_difference == 0.005);
    free_all(c, before, after);
}

static void machines_are_told_apart(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        struct prn_profile *before = one_result(usual);
        struct prn_profile *after = one_result(slow);
        before->results[0].processor = "Example CPU";
        after->results[0].processor = what == 2 ? "Another CPU" : "Example CPU";
        if (what == 0)
            after->environment.cpu = "Another CPU";
        if (what == 1)
            after->environment.cores = 4;
        struct prn_comparison *c = compare(before, after, plain);
        const struct prn_comparison_row *row = &c->files[0].rows[0];
        assert_int_equal(row->change, PRN_CHANGE_MACHINES);
        assert_true(isnan(row->time.p_holm) && c->n_tested == 0 && !row->time.differs);
        assert_int_equal(prn_comparison_unjudged(c, &c->files[0], row), PRN_UNJUDGED_MACHINES);
        assert_int_equal(c->files[0].machines_differ, what < 2);
        prn_comparison_free(c);
        struct prn_compare_options force = {.force = true, .fail_over = NAN};
        c = compare(before, after, force);
        assert_int_equal(c->files[0].rows[0].change, PRN_CHANGE_SLOWER);
        free_all(c, before, after);
    }
}

static void holm_is_over_all_files(void **state)
{
    (void)state;
    struct prn_profile *before = one_result(usual);
    struct prn_profile *after[] = {one_result(slow), one_result(usual), one_result(slow)};
    struct prn_comparison_side sides[4] = {{"0", before}};
    for (int i = 0; i < 3; i++)
        sides[i + 1] = (struct prn_comparison_side){"n", after[i]};
    struct prn_comparison *c;
    struct prony_error err;
    assert_int_equal(prn_compare(sides, sides + 1, 3, &plain, &c, &err), 0);
    assert_int_equal(c->n_tested, 3);
    assert_near(c->files[0].rows[0].time.p_holm, 3 * 1.3194423743594103e-09, 1e-15);
    assert_near(c->files[2].rows[0].time.p_holm, 3 * 1.3194423743594103e-09, 1e-15);
    assert_true(c->files[1].rows[0].time.p_holm == 1);
    prn_comparison_free(c);
    prn_profile_free(before);
    for (int i = 0; i < 3; i++)
        prn_profile_free(after[i]);
}

static void regressions(void **state)
{
    (void)state;
    struct prn_profile *before = one_result(usual);
    struct prn_profile *after = one_result(slow);
    struct prn_compare_options options = {.fail_over = 0.05};
    struct prn_comparison *c = compare(before, after, options);
    assert_int_equal(c->n_regressions, 1);
    prn_comparison_free(c);
    options.fail_over = 0.085; /* the interval reaches beyond, but not the estimate */
    c = compare(before, after, options);
    assert_int_equal(c->n_regressions, 0);
    assert_int_equal(c->files[0].rows[0].change, PRN_CHANGE_SLOWER);
    prn_comparison_free(c);
    /* Slower by more than allowed, if it isn't the machine. */
    options.fail_over = 0.05;
    after->canary_best_ns = 110000;
    c = compare(before, after, options);
    assert_int_equal(c->n_regressions, 0);
    assert_int_equal(prn_comparison_unjudged(c, &c->files[0], &c->files[0].rows[0]),
                     PRN_UNJUDGED_STATE);
    prn_comparison_free(c);
    after->results[0].error_code = PRONY_ERUNTIME;
    c = compare(before, after, options);
    assert_int_equal(c->files[0].rows[0].change, PRN_CHANGE_FAILS);
    assert_int_equal(c->n_regressions, 1);
    prn_comparison_free(c);
    c = compare(after, before, options);
    assert_int_equal(c->files[0].rows[0].change, PRN_CHANGE_WORKS);
    assert_int_equal(c->n_regressions, 0);
    prn_comparison_free(c);
    after->n_results = 0;
    c = compare(before, after, options);
    assert_int_equal(c->files[0].rows[0].change, PRN_CHANGE_MISSING);
    assert_int_equal(c->n_regressions, 1);
    /* What never worked isn't missed. */
    prn_comparison_free(c);
    before->results[0].n_samples = 0;
    c = compare(before, after, options);
    assert_int_equal(c->n_regressions, 0);
    free_all(c, before, after);
}

/* ---- Partners ---- */

static void partners_have_the_same_backend(void **state)
{
    (void)state;
    static const char *const names_before[] = {"local/a[x=1,y=2]", "local/a", "local/a", "local/b",
                                               "bad[name"};
    static const char *const names_after[] = {"local/a", "bad[name", "a[y=2,x=1]",
                                              "local/a", "local/a",  "local/a[x=1,y=3]"};
    struct prn_profile *before = new_profile(5);
    struct prn_profile *after = new_profile(6);
    for (size_t i = 0; i < 5; i++)
        fill_result(before, i, names_before[i], usual, LAUNCHES);
    for (size_t i = 0; i < 6; i++)
        fill_result(after, i, names_after[i], usual, LAUNCHES);
    struct prn_comparison *c = compare(before, after, plain);
    const struct prn_comparison_file *file = &c->files[0];
    /* Partner of each result of the baseline, or -1; and the ordinal. */
    static const int partners[] = {2, 0, 3, -1, 1};
    static const size_t ordinals[] = {0, 1, 2, 0, 0};
    assert_int_equal(file->n_rows, 7);
    for (size_t i = 0; i < file->n_rows; i++) {
        const struct prn_comparison_row *row = &file->rows[i];
        if (!row->before)
            continue;
        size_t index = (size_t)(row->before - before->results);
        assert_int_equal(row->after ? row->after - after->results : -1, partners[index]);
        assert_int_equal(row->ordinal, ordinals[index]);
    }
    assert_int_equal(file->counts[PRN_CHANGE_SAME], 4);
    assert_int_equal(file->counts[PRN_CHANGE_MISSING], 1);
    assert_int_equal(file->counts[PRN_CHANGE_ADDED], 2);
    assert_int_equal(file->rows[6].ordinal + file->rows[5].ordinal, 3); /* a third local/a */
    free_all(c, before, after);
}

static void partners_have_the_same_inputs(void **state)
{
    (void)state;
    static const int64_t dims[] = {1, 8};
    static const int64_t others[] = {1, 9};
    struct prn_profile_input base[] = {{"x", PRN_DTYPE_FLOAT, 2, dims, "ones"},
                                       {"y", PRN_DTYPE_INT64, 1, dims, "ones"}};
    struct prn_profile_input swapped[] = {base[1], base[0]};
    struct prn_profile_input cases[][2] = {
        {{"x", PRN_DTYPE_FLOAT16, 2, dims, "ones"}, base[1]},
        {{"z", PRN_DTYPE_FLOAT, 2, dims, "ones"}, base[1]},
        {{"x", PRN_DTYPE_FLOAT, 2, others, "ones"}, base[1]},
        {{"x", PRN_DTYPE_FLOAT, 1, dims, "ones"}, base[1]},
    };
    struct prn_profile *before = one_result(usual);
    struct prn_profile *after = one_result(usual);
    struct prn_point *point = &after->points[0];
    before->points[0].inputs = base;
    before->points[0].n_inputs = 2;
    point->n_inputs = 2;
    point->inputs = swapped;
    point->label = "batch=1"; /* the order and labels don't count */
    struct prn_comparison *c = compare(before, after, plain);
    assert_int_equal(c->files[0].n_rows, 1);
    prn_comparison_free(c);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        point->inputs = cases[i];
        c = compare(before, after, plain);
        assert_int_equal(c->files[0].n_rows, 2);
        prn_comparison_free(c);
    }
    point->n_inputs = 1;
    c = compare(before, after, plain);
    assert_int_equal(c->files[0].n_rows, 2);
    free_all(c, before, after);
}

static void differences_are_listed(void **state)
{
    (void)state;
    struct prn_profile *before = one_result(usual);
    struct prn_profile *after = one_result(usual);
    before->models->path = "old/model.onnx";
    after->models->path = "/new/model.onnx";
    before->environment.load_before = 0.1;
    after->environment.load_before = 0.5; /* 0.2 per core */
    before->environment.memory_bytes = 1000000;
    after->environment.memory_bytes = 1010000;
    before->results[0].runtime_version = after->results[0].runtime_version = "R 1";
    before->results[0].runtime_library = after->results[0].runtime_library = "/lib/r";
    struct prn_comparison *c = compare(before, after, plain);
    assert_int_equal(c->files[0].n_differences, 0);
    prn_comparison_free(c);
    after->environment.load_before = 0.7;
    after->environment.memory_bytes = 2000000;
    after->environment.kernel = "7";
    after->models->path = "other.onnx";
    after->models->parameters = 1000;
    after->results[0].runtime_version = "R 2";
    after->results[0].runtime_library = "/lib/r2"; /* another version is another file: told once */
    after->prony_version = NULL;
    c = compare(before, after, plain);
    static const enum prn_difference_kind kinds[] = {
        PRN_DIFFERENCE_LOAD,  PRN_DIFFERENCE_MEMORY,           PRN_DIFFERENCE_KERNEL,
        PRN_DIFFERENCE_MODEL, PRN_DIFFERENCE_MODEL_PARAMETERS, PRN_DIFFERENCE_RUNTIME,
        PRN_DIFFERENCE_PRONY};
    assert_int_equal(c->files[0].n_differences, PRN_ARRAY_SIZE(kinds));
    for (size_t i = 0; i < PRN_ARRAY_SIZE(kinds); i++)
        assert_int_equal(c->files[0].differences[i].kind, kinds[i]);
    assert_null(c->files[0].differences[2].before);
    assert_string_equal(c->files[0].differences[5].after, "R 2");
    assert_null(c->files[0].differences[6].after);
    free_all(c, before, after);
}

static void recorded_programs_are_refused(void **state)
{
    (void)state;
    struct prn_profile *model = one_result(usual);
    struct prn_profile *program = one_result(usual);
    program->recorded = true;
    struct prn_comparison_side sides[] = {{"m.json", model}, {"p.json", program}};
    struct prn_comparison *c = NULL;
    struct prony_error err;
    assert_int_equal(prn_compare(&sides[0], &sides[1], 1, &plain, &c, &err), PRONY_EUNSUPPORTED);
    assert_contains(err.text, "'p.json' is a recorded program, the other a measured model");
    assert_int_equal(prn_compare(&sides[1], &sides[0], 1, &plain, &c, &err), PRONY_EUNSUPPORTED);
    assert_contains(err.text, "'p.json' is a recorded program, the other a measured model");
    assert_int_equal(prn_compare(&sides[1], &sides[1], 1, &plain, &c, &err), PRONY_EUNSUPPORTED);
    assert_contains(err.text, "recorded programs cannot be compared");
    assert_null(c);
    prn_profile_free(model);
    prn_profile_free(program);
}

static void what_matters_comes_first(void **state)
{
    (void)state;
    static const int64_t slower_still[LAUNCHES] = {12000, 12010, 12020, 11990, 11980};
    static const char *const names[] = {"same", "slow", "gone", "unsure", "slower still", "fast"};
    const int64_t *after_medians[] = {usual, slow, NULL, noisy, slower_still, usual};
    struct prn_profile *before = new_profile(6);
    struct prn_profile *after = new_profile(6);
    for (size_t i = 0; i < 6; i++) {
        fill_result(before, i, names[i], i == 5 ? slow : usual, LAUNCHES);
        fill_result(after, i, names[i], after_medians[i] ? after_medians[i] : usual, LAUNCHES);
    }
    after->results[2].error_code = PRONY_ECRASH;
    struct prn_comparison *c = compare(before, after, plain);
    static const char *const order[] = {"gone", "slower still", "slow", "fast", "unsure", "same"};
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(c->files[0].rows[i].before->name, order[i]);
    free_all(c, before, after);
}

/* ---- Does it keep its promises? ---- */

#define FAMILY 6 /* rows that are looked at together */

/* Processes differ by 0.6 % for their whole life, blocks by 0.3 %, runs by 1 %. */
static void simulate(struct prn_random *random, struct prn_result *r, double factor)
{
    for (size_t i = 0; i < r->n_samples;) {
        double launch = 0.006 * prn_random_normal(random);
        for (int b = 0; b < BLOCKS; b++) {
            double block = launch + 0.003 * prn_random_normal(random);
            for (int k = 0; k < RUNS; k++, i++)
                r->samples[i].ns =
                    (int64_t)(1e7 * factor * exp(block + 0.01 * prn_random_normal(random)));
        }
    }
}

/* How many of the rounds had a row that was called, with a small p, and found to be slower. */
struct tally {
    int called, small_p, slower;
};

static struct tally simulate_rounds(int rounds, size_t launches, double factor)
{
    struct prn_random random;
    prn_random_seed(&random, 2026);
    struct tally tally = {0};
    struct prn_profile *before = new_profile(FAMILY);
    struct prn_profile *after = new_profile(FAMILY);
    for (size_t i = 0; i < FAMILY; i++) {
        fill_result(before, i, "local/a", usual, LAUNCHES);
        fill_result(after, i, "local/a", usual, launches);
    }
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < FAMILY; i++) {
            simulate(&random, &before->results[i], 1);
            simulate(&random, &after->results[i], i == 0 ? factor : 1);
        }
        struct prn_comparison *c = compare(before, after, plain);
        const struct prn_comparison_file *file = &c->files[0];
        bool small = false;
        for (size_t i = 0; i < FAMILY; i++) {
            small = small || file->rows[i].time.p_holm < PRN_COMPARISON_LEVEL;
            tally.slower += file->rows[i].change == PRN_CHANGE_SLOWER &&
                            file->rows[i].before == &before->results[0];
        }
        tally.called += file->counts[PRN_CHANGE_SLOWER] + file->counts[PRN_CHANGE_FASTER] > 0;
        tally.small_p += small;
        prn_comparison_free(c);
    }
    prn_profile_free(before);
    prn_profile_free(after);
    return tally;
}

static void false_alarms_are_rare(void **state)
{
    (void)state;
    struct tally tally = simulate_rounds(1000, LAUNCHES, 1);
    assert_in_range(tally.called, 0, 50);
    /* p itself is right: 5 % of 1000 rounds, give or take three standard deviations, and no less
     * than a third, which a p that is always large would be. */
    assert_in_range(tally.small_p, 17, 70);
}

static void real_differences_are_found(void **state)
{
    (void)state;
    struct tally tally = simulate_rounds(300, LAUNCHES, 1.05);
    assert_in_range(tally.slower, 290, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratio_is_over_launches),
        cmocka_unit_test(more_runs_are_not_more_units),
        cmocka_unit_test(one_launch_is_weak),
        cmocka_unit_test(one_block_tells_nothing),
        cmocka_unit_test(launches_speak_for_memory),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(the_canary_bounds_what_is_called),
        cmocka_unit_test(the_larger_difference_counts),
        cmocka_unit_test(machines_are_told_apart),
        cmocka_unit_test(holm_is_over_all_files),
        cmocka_unit_test(regressions),
        cmocka_unit_test(partners_have_the_same_backend),
        cmocka_unit_test(partners_have_the_same_inputs),
        cmocka_unit_test(differences_are_listed),
        cmocka_unit_test(recorded_programs_are_refused),
        cmocka_unit_test(what_matters_comes_first),
        cmocka_unit_test(false_alarms_are_rare),
        cmocka_unit_test(real_differences_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
