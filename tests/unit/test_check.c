/* A check: which limits are broken, kept, or not shown, and by which rules. */
#include "measure/check/check.h"

#include "measure/measure.h"
#include "report/check/report.h"
#include "unit.h"

#include <stdlib.h>

#define LAUNCHES 5
#define BLOCKS 4
#define RUNS 3

static const int64_t usual[LAUNCHES] = {10000, 10030, 9980, 10020, 9950};
static const int64_t slow[LAUNCHES] = {10800, 10840, 10780, 10820, 10750}; /* +8 % */
static const int64_t noisy[LAUNCHES] = {10000, 10900, 9300, 10500, 9600};

static const struct prn_check_limits unlimited = {NAN, NAN, NAN, false, NAN};

/* ---- Synthetic profiles ---- */

static struct prn_profile *new_profile(size_t n_models, size_t n_results)
{
    static const int64_t dims[] = {1, 8};
    static struct prn_profile_input input = {"x", PRN_DTYPE_FLOAT, 2, dims, "ones"};
    struct prn_profile *p = prn_profile_new();
    assert_non_null(p);
    p->models = PRN_ARENA_ARRAY(&p->arena, n_models, struct prn_profile_model);
    p->n_models = p->n_points = n_models;
    p->points = PRN_ARENA_ARRAY(&p->arena, n_models, struct prn_point);
    for (size_t i = 0; i < n_models; i++) {
        p->models[i] = (struct prn_profile_model){.name = i ? "new" : "old",
                                                  .path = i ? "new.onnx" : "old.onnx",
                                                  .bytes = i ? 1050 : 1000};
        p->points[i] = (struct prn_point){.label = "", .n_inputs = 1, .inputs = &input};
    }
    p->settings.smallest_difference = 0.005;
    p->environment.cpu = "Example CPU";
    p->environment.cores = 2;
    p->canary_best_ns = 100000;
    p->n_results = n_results;
    p->results = PRN_ARENA_ARRAY(&p->arena, n_results, struct prn_result);
    return p;
}

/* A result whose launches have these medians and this peak. */
static void fill_result(struct prn_profile *p, size_t index, size_t point, const int64_t *medians,
                        size_t launches, int64_t peak)
{
    struct prn_result *r = &p->results[index];
    r->name = "local/onnxrt-cpu";
    r->hardware = "local";
    r->software = "onnxrt-cpu";
    r->usd_per_hour = NAN;
    r->point = point;
    r->samples = PRN_ARENA_ARRAY(&p->arena, launches * BLOCKS * RUNS, struct prn_sample);
    r->launches = PRN_ARENA_ARRAY(&p->arena, launches, struct prn_launch);
    r->n_launches = launches;
    for (size_t l = 0; l < launches; l++) {
        r->launches[l] = (struct prn_launch){1000, 100, 10, peak + (int64_t)l, 1, true};
        for (int b = 0; b < BLOCKS; b++)
            for (int i = 0; i < RUNS; i++)
                r->samples[r->n_samples++] = (struct prn_sample){
                    medians[l] + i - RUNS / 2, (int32_t)l, (int32_t)l * BLOCKS + b};
    }
}

/* Old and new that took turns. */
static struct prn_profile *side_by_side(const int64_t *before, const int64_t *after,
                                        size_t launches)
{
    struct prn_profile *p = new_profile(2, 2);
    fill_result(p, 0, 0, before, launches, 100000);
    fill_result(p, 1, 1, after, launches, 104000);
    assert_int_equal(prn_summarise(p, NULL), 0);
    return p;
}

static struct prn_profile *alone(const int64_t *medians)
{
    struct prn_profile *p = new_profile(1, 1);
    fill_result(p, 0, 0, medians, LAUNCHES, 100000);
    assert_int_equal(prn_summarise(p, NULL), 0);
    return p;
}

static struct prn_check *new_check(void)
{
    struct prn_check *check;
    assert_int_equal(prn_check_new("prony.yml", 2, &check, NULL), 0);
    return check;
}

static struct prn_check *check_pair(struct prn_profile *p, struct prn_check_limits limits)
{
    const struct prn_check_model model = {.name = "m", .path = "new.onnx", .limits = limits};
    const struct prn_check_pair pair = {&model, "old.onnx", 1, 1};
    struct prn_check *check = new_check();
    assert_int_equal(prn_check_add(check, &pair, p, NULL), 0);
    prn_profile_free(p);
    return check;
}

static struct prn_check *check_saved(struct prn_profile *before, struct prn_profile *after,
                                     struct prn_check_limits limits, bool force)
{
    const struct prn_check_model model = {.name = "m", .path = "new.onnx", .limits = limits};
    const struct prn_check_pair pair = {&model, "old.json", 0, 0};
    struct prn_check *check = new_check();
    assert_int_equal(prn_check_add_saved(check, &pair, before, after, force, NULL), 0);
    prn_profile_free(before);
    prn_profile_free(after);
    return check;
}

static const struct prn_check_row *row_of(const struct prn_check *check,
                                          enum prn_check_figure figure)
{
    for (size_t i = 0; i < check->results[0].n_rows; i++)
        if (check->results[0].rows[i].figure == figure)
            return &check->results[0].rows[i];
    fail_msg("no row of %s", prn_check_figure_names[figure]);
    return NULL;
}

static enum prn_check_status time_status(struct prn_check *check)
{
    enum prn_check_status status = row_of(check, PRN_CHECK_FIGURE_TIME)->status;
    prn_check_free(check);
    return status;
}

static struct prn_check_limits time_limit(double limit)
{
    struct prn_check_limits limits = unlimited;
    limits.time = limit;
    return limits;
}

/* ---- Side by side ---- */

static void a_limit_is_broken_when_the_interval_is_beyond_it(void **state)
{
    (void)state;
    assert_int_equal(time_status(check_pair(side_by_side(usual, slow, 5), time_limit(0.03))),
                     PRN_CHECK_STATUS_REGRESSION);
    assert_int_equal(time_status(check_pair(side_by_side(usual, slow, 5), time_limit(0.2))),
                     PRN_CHECK_STATUS_HOLDS);
    assert_int_equal(time_status(check_pair(side_by_side(slow, usual, 5), time_limit(0))),
                     PRN_CHECK_STATUS_HOLDS);
    assert_int_equal(time_status(check_pair(side_by_side(usual, slow, 5), unlimited)),
                     PRN_CHECK_STATUS_UNLIMITED);
}

static void between_them_nothing_is_shown(void **state)
{
    (void)state;
    struct prn_check *check = check_pair(side_by_side(usual, noisy, 5), time_limit(0.03));
    const struct prn_check_row *row = row_of(check, PRN_CHECK_FIGURE_TIME);
    assert_int_equal(row->status, PRN_CHECK_STATUS_NOT_SHOWN);
    assert_non_null(strstr(row->reason, "includes the limit"));
    assert_false(prn_check_regressed(check));
    check->strict = true;
    assert_true(prn_check_regressed(check));
    prn_check_free(check);
    /* However far apart: processes of one model differ, and two say little of how much. */
    check = check_pair(side_by_side(usual, slow, 2), time_limit(0.03));
    row = row_of(check, PRN_CHECK_FIGURE_TIME);
    assert_int_equal(row->status, PRN_CHECK_STATUS_NOT_SHOWN);
    assert_non_null(strstr(row->reason, "too few processes"));
    prn_check_free(check);
}

/* Without it, a limit of 0 would call every other copy of a model slower. */
static void a_limit_is_no_smaller_than_what_counts(void **state)
{
    (void)state;
    static const int64_t a_bit[LAUNCHES] = {10030, 10060, 10010, 10050, 9980}; /* +0.3 % */
    assert_int_equal(time_status(check_pair(side_by_side(usual, a_bit, 5), time_limit(0))),
                     PRN_CHECK_STATUS_HOLDS);
}

static void memory_and_size_have_limits_of_their_own(void **state)
{
    (void)state;
    struct prn_check_limits limits = unlimited;
    limits.memory = 0.03;
    limits.size = 0.05;
    struct prn_check *check = check_pair(side_by_side(usual, usual, 5), limits);
    assert_int_equal(row_of(check, PRN_CHECK_FIGURE_MEMORY)->status, PRN_CHECK_STATUS_REGRESSION);
    assert_int_equal(row_of(check, PRN_CHECK_FIGURE_SIZE)->status, PRN_CHECK_STATUS_HOLDS);
    prn_check_free(check);
    limits.memory = 0.05;
    limits.size = 0.049;
    check = check_pair(side_by_side(usual, usual, 5), limits);
    assert_int_equal(row_of(check, PRN_CHECK_FIGURE_MEMORY)->status, PRN_CHECK_STATUS_HOLDS);
    assert_int_equal(row_of(check, PRN_CHECK_FIGURE_SIZE)->status, PRN_CHECK_STATUS_REGRESSION);
    prn_check_free(check);
}

static void a_backend_that_fails_now_is_a_regression(void **state)
{
    (void)state;
    struct prn_profile *p = side_by_side(usual, usual, 5);
    p->results[1].error_code = PRONY_ERUNTIME;
    p->results[1].error = "no such operator";
    struct prn_check *check = check_pair(p, time_limit(0.03));
    const struct prn_check_row *row = row_of(check, PRN_CHECK_FIGURE_TIME);
    assert_int_equal(row->status, PRN_CHECK_STATUS_REGRESSION);
    assert_non_null(strstr(row->reason, "no such operator"));
    prn_check_free(check);

    p = side_by_side(usual, usual, 5);
    p->results[0].error_code = PRONY_ERUNTIME;
    assert_int_equal(time_status(check_pair(p, time_limit(0.03))), PRN_CHECK_STATUS_NOT_SHOWN);
    p = side_by_side(usual, usual, 5);
    p->results[0].error_code = p->results[1].error_code = PRONY_ERUNTIME;
    assert_int_equal(time_status(check_pair(p, time_limit(0.03))), PRN_CHECK_STATUS_FAILED);
}

static enum prn_check_status outputs_status(struct prn_output_check output, int64_t differing,
                                            size_t before, size_t after)
{
    struct prn_profile *p = side_by_side(usual, usual, 5);
    struct prn_check_limits limits = unlimited;
    limits.outputs = true;
    p->points[1].outputs = &output;
    p->points[1].n_outputs = output.name ? 1 : 0;
    p->points[1].outputs_differing = differing;
    const struct prn_check_model model = {.name = "m", .path = "new.onnx", .limits = limits};
    const struct prn_check_pair pair = {&model, "old.onnx", before, after};
    struct prn_check *check = new_check();
    assert_int_equal(prn_check_add(check, &pair, p, NULL), 0);
    enum prn_check_status status = row_of(check, PRN_CHECK_FIGURE_OUTPUTS)->status;
    prn_profile_free(p);
    prn_check_free(check);
    return status;
}

/* What wasn't compared isn't the same. */
static void outputs_hold_only_if_all_were_compared(void **state)
{
    (void)state;
    struct prn_output_check equal = {.name = "y", .same_shape = true};
    struct prn_output_check nan = {.name = "y", .same_shape = true, .both_nan = 3};
    struct prn_output_check none = {0};
    assert_int_equal(outputs_status(equal, 0, 1, 1), PRN_CHECK_STATUS_HOLDS);
    assert_int_equal(outputs_status(equal, 1, 1, 1), PRN_CHECK_STATUS_REGRESSION);
    assert_int_equal(outputs_status(equal, 0, 2, 1), PRN_CHECK_STATUS_REGRESSION);
    assert_int_equal(outputs_status(equal, 0, 2, 2), PRN_CHECK_STATUS_NOT_SHOWN);
    assert_int_equal(outputs_status(nan, 0, 1, 1), PRN_CHECK_STATUS_NOT_SHOWN);
    assert_int_equal(outputs_status(none, 0, 1, 1), PRN_CHECK_STATUS_NOT_SHOWN);
}

/* ---- Against a saved profile ---- */

static void a_saved_profile_is_judged_by_the_rules_for_files(void **state)
{
    (void)state;
    assert_int_equal(time_status(check_saved(alone(usual), alone(slow), time_limit(0.03), false)),
                     PRN_CHECK_STATUS_REGRESSION);
    assert_int_equal(time_status(check_saved(alone(usual), alone(usual), time_limit(0.03), false)),
                     PRN_CHECK_STATUS_HOLDS);

    struct prn_profile *other = alone(usual);
    other->environment.cpu = "Another CPU";
    assert_int_equal(time_status(check_saved(other, alone(slow), time_limit(0.03), false)),
                     PRN_CHECK_STATUS_NOT_SHOWN);
    other = alone(usual);
    other->environment.cpu = "Another CPU";
    assert_int_equal(time_status(check_saved(other, alone(slow), time_limit(0.03), true)),
                     PRN_CHECK_STATUS_REGRESSION);
}

/* The canary took 6 % longer: 8 % more time may be 2 %, and equal times may hide 6 %. */
static void the_canary_counts_for_neither_side(void **state)
{
    (void)state;
    const struct {
        const int64_t *after;
        double limit;
        enum prn_check_status status;
    } cases[] = {{slow, 0.03, PRN_CHECK_STATUS_NOT_SHOWN},
                 {slow, 0.005, PRN_CHECK_STATUS_REGRESSION},
                 {usual, 0.03, PRN_CHECK_STATUS_NOT_SHOWN},
                 {usual, 0.1, PRN_CHECK_STATUS_HOLDS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct prn_profile *after = alone(cases[i].after);
        after->canary_best_ns = 106000;
        assert_int_equal(
            time_status(check_saved(alone(usual), after, time_limit(cases[i].limit), false)),
            cases[i].status);
    }
}

/* What an earlier check saved has old and new: the new one of then is the old one of today. */
static void of_a_saved_pair_the_last_counts(void **state)
{
    (void)state;
    struct prn_check *check =
        check_saved(side_by_side(usual, slow, 5), alone(slow), time_limit(0.03), false);
    const struct prn_check_row *row = row_of(check, PRN_CHECK_FIGURE_TIME);
    assert_int_equal(row->status, PRN_CHECK_STATUS_HOLDS);
    assert_near(row->before, 10800, 1);
    assert_int_equal(check->results[0].n_rows, 3);
    assert_near(row_of(check, PRN_CHECK_FIGURE_SIZE)->before, 1050, 0);
    prn_check_free(check);
}

/* ---- The file ---- */

static void refuse(const char *text, const char *says)
{
    struct prn_check_config config;
    struct prony_error err = {0};
    assert_true(prn_check_config_parse(text, strlen(text), "prony.yml", &config, &err) < 0);
    if (!strstr(err.text, says))
        fail_msg("'%s' does not say '%s'", err.text, says);
}

static void faults_of_the_file_are_named(void **state)
{
    (void)state;
    refuse("", "'prony.yml' is empty");
    refuse("limits: {time: 3%}\n", "'models' is missing");
    refuse("models: []\n", "list of 1 to");
    refuse("limts: {time: 3%}\nmodels: [m.onnx]\n",
           "line 1: unknown key 'limts'; did you mean 'limits'?");
    refuse("models: [m.onnx]\nlimits:\n  time: 3%\n  tim: 3%\n",
           "line 4: unknown key 'tim'; did you mean 'time'?");
    refuse("models: [m.onnx]\nlimits: {time: 3}\n", "line 2: 'time': '3' is not a percentage");
    refuse("models: [m.onnx]\nlimits: {time: -3%}\n", "'-3%' is not a percentage");
    refuse("models: [m.onnx]\nlimits: {outputs: equal}\n", "is not same, any, or a percentage");
    refuse("models: [m.onnx]\n", "'m.onnx' has no limits");
    refuse("models: [m.onnx, m.onnx]\nlimits: {time: 3%}\n", "two models are called 'm.onnx'");
    refuse("models: [{name: m}]\nlimits: {time: 3%}\n", "a model needs a 'path'");
    refuse("old: {git: HEAD, report: a.json}\nmodels: [m.onnx]\nlimits: {time: 3%}\n",
           "line 1: 'old': 'report' cannot be combined");
    refuse("models: [m.onnx]\nlimits: {time: 3%}\nmeasure: {max_time: soon}\n",
           "line 3: 'max_time': 'soon' is not a duration");
    refuse("models: [m.onnx]\nlimits: {time: 3%}\nbackends: {a: b}\n", "'backends': not a list");
    refuse("models: [m.onnx]\nlimits: {time: 3%}\ndims: [batch=8]\n", "is not a map");
}

static void what_is_for_all_models_is_for_each(void **state)
{
    (void)state;
    static const char text[] = "models:\n"
                               "- a.onnx\n"
                               "- {path: /b.onnx, name: b, old: {git: v1, path: c.onnx},\n"
                               "   limits: {time: none, size: +10 %}, inputs: {x: '@x.npy'}}\n"
                               "old: old/a.onnx\n"
                               "limits: {time: +3%, outputs: 1%}\n"
                               "dims: {batch: [1, 8], seq: 128}\n"
                               "measure: {max_time: 1.5m, launches: 7, precision: 0.5%}\n";
    struct prn_check_config c;
    struct prony_error err = {0};
    if (prn_check_config_parse(text, strlen(text), "sub/prony.yml", &c, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(c.n_models, 2);
    assert_string_equal(c.folder, "sub/");
    const struct prn_check_model *a = &c.models[0];
    const struct prn_check_model *b = &c.models[1];
    assert_string_equal(a->name, "a.onnx");
    assert_string_equal(a->path, "sub/a.onnx");
    assert_string_equal(a->old.path, "sub/old/a.onnx");
    assert_int_equal(a->old.source, PRN_CHECK_SOURCE_FILE);
    assert_near(a->limits.time, 0.03, 1e-9);
    assert_true(a->limits.outputs);
    assert_near(a->limits.tolerance, 0.01, 1e-9);
    assert_int_equal(a->dims.n, 2);
    assert_string_equal(a->dims.items[0], "batch=1,8");
    assert_string_equal(a->dims.items[1], "seq=128");
    assert_string_equal(b->path, "/b.onnx");
    assert_int_equal(b->old.source, PRN_CHECK_SOURCE_GIT);
    assert_string_equal(b->old.revision, "v1");
    assert_string_equal(b->old.path, "c.onnx");
    assert_true(isnan(b->limits.time));
    assert_near(b->limits.size, 0.1, 1e-9);
    assert_string_equal(b->inputs.items[0], "x=@sub/x.npy");
    assert_near(c.settings.max_time_s, 90, 1e-9);
    assert_int_equal(c.settings.launches, 7);
    assert_near(c.settings.precision, 0.005, 1e-9);
    prn_check_config_release(&c);
}

/* ---- Reports ---- */

static void junit_escapes_what_it_is_given(void **state)
{
    (void)state;
    struct prn_profile *p = side_by_side(usual, usual, 5);
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)1 << 20);
    p->results[1].error_code = PRONY_ERUNTIME;
    p->results[1].error = "a < b & \"c\"\x01\n";
    struct prn_check *check = check_pair(p, time_limit(0.03));
    assert_int_equal(prn_check_report(check, PRN_CHECK_FORMAT_JUNIT, NULL, &out, NULL), 0);
    assert_non_null(strstr(prn_buffer_text(&out), "a &lt; b &amp; &quot;c&quot;"));
    assert_null(strchr(prn_buffer_text(&out), '\x01'));
    prn_buffer_release(&out);
    prn_check_free(check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_is_broken_when_the_interval_is_beyond_it),
        cmocka_unit_test(between_them_nothing_is_shown),
        cmocka_unit_test(a_limit_is_no_smaller_than_what_counts),
        cmocka_unit_test(memory_and_size_have_limits_of_their_own),
        cmocka_unit_test(a_backend_that_fails_now_is_a_regression),
        cmocka_unit_test(outputs_hold_only_if_all_were_compared),
        cmocka_unit_test(a_saved_profile_is_judged_by_the_rules_for_files),
        cmocka_unit_test(the_canary_counts_for_neither_side),
        cmocka_unit_test(of_a_saved_pair_the_last_counts),
        cmocka_unit_test(faults_of_the_file_are_named),
        cmocka_unit_test(what_is_for_all_models_is_for_each),
        cmocka_unit_test(junit_escapes_what_it_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
