/* Intervals, ratios and verdicts from samples whose answers are known. */
#include "measure/measure.h"
#include "measure/canary.h"
#include "measure/groups.h"
#include "measure/inputs.h"

#include "unit.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

/* Every block of launch l has the times base[l] + 0, 1, 2 … so its median is known. */
static size_t fill(struct prn_sample *samples, const int64_t *base, int launches, int blocks,
                   int runs)
{
    size_t n = 0;
    for (int l = 0; l < launches; l++)
        for (int b = 0; b < blocks; b++)
            for (int i = 0; i < runs; i++)
                samples[n++] = (struct prn_sample){base[l] + i - runs / 2, l, l * blocks + b};
    return n;
}

static void interval_is_over_launches(void **state)
{
    (void)state;
    struct prn_sample samples[5 * 4 * 3];
    const int64_t base[] = {1000, 1010, 1020, 990, 980};
    size_t n = fill(samples, base, 5, 4, 3);
    struct prn_interval i = prn_median_interval(samples, n);
    assert_near(i.estimate, 1000, 0.01);
    /* sd of the logs of 980 … 1020 is 0.015813; t(0.975, 4) = 2.776445; over the root of 5 */
    assert_near(log(i.high / i.low) / 2, 0.015813 * 2.776445 / sqrt(5), 1e-5);
}

static void one_launch_uses_blocks(void **state)
{
    (void)state;
    struct prn_sample samples[12];
    for (int i = 0; i < 12; i++)
        samples[i] = (struct prn_sample){1000 + 10 * (i / 3), 0, i / 3};
    struct prn_interval i = prn_median_interval(samples, 12);
    assert_true(isfinite(i.high) && i.low < i.estimate && i.high > i.estimate);
    i = prn_median_interval(samples, 3);
    assert_true(isinf(i.high)); /* one block tells nothing about the next */
    i = prn_median_interval(NULL, 0);
    assert_true(isnan(i.estimate));
}

static void means_add_up(void **state)
{
    (void)state;
    /* A disturbance hits one run in four of either part, and half of the runs of the whole. */
    const int64_t a_ns[] = {100, 100, 100, 500};
    const int64_t b_ns[] = {200, 600, 200, 200};
    struct prn_sample a[8], b[8], whole[8];
    for (int i = 0; i < 8; i++) {
        a[i] = (struct prn_sample){a_ns[i % 4], i / 4, i / 2};
        b[i] = (struct prn_sample){b_ns[i % 4], i / 4, i / 2};
        whole[i] = (struct prn_sample){a[i].ns + b[i].ns, i / 4, i / 2};
    }
    assert_near(prn_mean_interval(a, 8).estimate, 200, 1e-9);
    assert_near(prn_mean_interval(b, 8).estimate, 300, 1e-9);
    assert_near(prn_mean_interval(whole, 8).estimate, 500, 1e-9);
    assert_near(prn_median_interval(whole, 8).estimate, 500, 1e-9);
    assert_near(prn_median_interval(a, 8).estimate + prn_median_interval(b, 8).estimate, 300, 1e-9);
    /* Launches whose means are alike are all that the interval sees. */
    struct prn_interval i = prn_mean_interval(a, 8);
    assert_near(i.low, 200, 1e-9);
    assert_near(i.high, 200, 1e-9);
    a[7].ns = 900;
    i = prn_mean_interval(a, 8); /* launches of 200 and 300 */
    assert_near(i.estimate, 250, 1e-9);
    assert_near(log(i.high / i.low) / 2, 12.7062 * log(1.5) / 2, 1e-3);
    assert_true(isinf(prn_mean_interval(a, 2).high));
    assert_true(isnan(prn_mean_interval(NULL, 0).estimate));
}

static void ratio_is_paired(void **state)
{
    (void)state;
    struct prn_sample a[60], b[60];
    /* Launches differ by half, the pairs within a launch always by 2 %. */
    const int64_t base_b[] = {100000, 150000, 100000, 130000, 90000};
    int64_t base_a[5];
    for (int i = 0; i < 5; i++)
        base_a[i] = base_b[i] * 102 / 100;
    size_t n = fill(a, base_a, 5, 4, 3);
    fill(b, base_b, 5, 4, 3);
    struct prn_interval r = prn_ratio_interval(a, n, b, n);
    assert_near(r.estimate, 1.02, 1e-6);
    assert_true(r.low > 1.019 && r.high < 1.021);
    assert_int_equal(prn_verdict_of(r, 0.005), PRN_VERDICT_SLOWER);
    r = prn_ratio_interval(b, n, a, n);
    assert_int_equal(prn_verdict_of(r, 0.005), PRN_VERDICT_FASTER);
    r = prn_ratio_interval(a, n, a, n);
    assert_int_equal(prn_verdict_of(r, 0.005), PRN_VERDICT_SAME);
}

static void ratio_uses_common_blocks_only(void **state)
{
    (void)state;
    struct prn_sample a[] = {{100, 0, 0}, {100, 0, 1}, {900, 0, 2}, {100, 1, 4}};
    struct prn_sample b[] = {{50, 0, 0}, {50, 0, 1}, {10, 0, 3}, {50, 1, 4}};
    struct prn_interval r = prn_ratio_interval(a, 4, b, 4);
    assert_near(r.estimate, 2, 1e-9);
    struct prn_sample apart[] = {{50, 0, 9}};
    assert_true(isnan(prn_ratio_interval(a, 4, apart, 1).estimate));
}

static void verdicts(void **state)
{
    (void)state;
    const struct {
        double low, high;
        enum prn_verdict verdict;
    } cases[] = {{1.006, 1.02, PRN_VERDICT_SLOWER},        {1.004, 1.02, PRN_VERDICT_UNSURE},
                 {0.998, 1.002, PRN_VERDICT_SAME},         {0.90, 0.99, PRN_VERDICT_FASTER},
                 {0.90, 0.999, PRN_VERDICT_UNSURE},        {NAN, NAN, PRN_VERDICT_NONE},
                 {-INFINITY, INFINITY, PRN_VERDICT_UNSURE}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_interval r = {cases[i].low, (cases[i].low + cases[i].high) / 2, cases[i].high};
        if (isinf(cases[i].high))
            r.estimate = 1;
        assert_int_equal(prn_verdict_of(r, 0.005), cases[i].verdict);
    }
}

static void summary_finds_best_and_counts_outliers(void **state)
{
    (void)state;
    struct prn_sample fast[100], slow[100];
    struct prn_result results[3] = {0};
    struct prn_profile profile = {.results = results, .n_results = 3, .n_models = 1};
    profile.settings.smallest_difference = 0.005;
    for (int i = 0; i < 100; i++) {
        fast[i] = (struct prn_sample){1000 + i % 5, i / 20, i / 5};
        slow[i] = (struct prn_sample){3000 + i % 5, i / 20, i / 5};
    }
    fast[7].ns = 9000;
    results[0] = (struct prn_result){.samples = slow, .n_samples = 100};
    results[1] = (struct prn_result){.samples = fast, .n_samples = 100};
    results[2] = (struct prn_result){.error_code = PRONY_ECRASH, .error = "crashed"};
    assert_int_equal(prn_summarise(&profile, NULL), 0);
    assert_near(results[1].stats.median_ns, 1002, 0);
    assert_int_equal(results[1].stats.outliers, 1);
    assert_near(results[1].stats.max_ns, 9000, 0);
    assert_near(results[1].ratio.estimate, 1, 0);
    assert_true(results[0].ratio.estimate > 2.9 && results[0].ratio.estimate < 3.1);
    assert_int_equal(results[0].verdict, PRN_VERDICT_SLOWER);
    assert_false(isnan(results[0].stats.p90_ns));
    assert_true(isnan(results[0].stats.p95_ns)); /* 100 samples are too few */
    assert_true(isnan(results[2].ratio.estimate));
}

/* With two launches Student's interval is 25 times as wide as what was seen: no interval is shown.
 * A large difference is one all the same. */
static void few_launches_have_no_interval(void **state)
{
    (void)state;
    for (int launches = 1; launches <= 5; launches++) {
        struct prn_sample fast[100], slow[100];
        struct prn_result results[2] = {0};
        struct prn_profile profile = {.results = results, .n_results = 2, .n_models = 1};
        profile.settings.smallest_difference = 0.005;
        for (int i = 0; i < 100; i++) {
            int32_t launch = i * launches / 100;
            fast[i] = (struct prn_sample){1000 + i % 5 + launch, launch, i / 5};
            slow[i] = (struct prn_sample){3000 + i % 5, launch, i / 5};
        }
        results[0] = (struct prn_result){.samples = slow, .n_samples = 100};
        results[1] = (struct prn_result){.samples = fast, .n_samples = 100};
        assert_int_equal(prn_summarise(&profile, NULL), 0);
        assert_int_equal(isnan(results[1].stats.low_ns), launches < 5);
        assert_int_equal(isnan(results[1].stats.high_ns), launches < 5);
        assert_int_equal(isnan(results[0].ratio.low), launches < 5);
        assert_int_equal(results[0].verdict, PRN_VERDICT_SLOWER);
        results[0].n_samples = 4;
        assert_int_equal(prn_summarise(&profile, NULL), 0);
        assert_true(isnan(results[0].stats.spread));
    }
}

/* Two processes of one model differ for their whole life, and one launch of each can't know that.
 */
static void one_launch_calls_nothing_small(void **state)
{
    (void)state;
    const struct {
        int64_t best_ns, other_ns;
        int launches;
        enum prn_verdict verdict;
    } cases[] = {
        {3000, 3030, 1, PRN_VERDICT_UNSURE},       {3000, 3000, 1, PRN_VERDICT_UNSURE},
        {3000, 3900, 1, PRN_VERDICT_UNSURE},       {3000, 6000, 1, PRN_VERDICT_SLOWER},
        {3000, 3030, 2, PRN_VERDICT_SLOWER},       {3000, 3000, 2, PRN_VERDICT_SAME},
        {3000000, 3030000, 1, PRN_VERDICT_UNSURE}, {3000000, 3900000, 1, PRN_VERDICT_SLOWER}};
    for (size_t c = 0; c < PRN_ARRAY_SIZE(cases); c++) {
        struct prn_sample best[100], other[100];
        struct prn_result results[2] = {0};
        struct prn_profile profile = {.results = results, .n_results = 2, .n_models = 1};
        profile.settings.smallest_difference = 0.005;
        for (int i = 0; i < 100; i++) {
            int32_t launch = i * cases[c].launches / 100;
            best[i] = (struct prn_sample){cases[c].best_ns, launch, i / 5};
            other[i] = (struct prn_sample){cases[c].other_ns, launch, i / 5};
        }
        results[0] = (struct prn_result){.samples = best, .n_samples = 100};
        results[1] = (struct prn_result){.samples = other, .n_samples = 100};
        assert_int_equal(prn_summarise(&profile, NULL), 0);
        assert_int_equal(results[1].verdict, cases[c].verdict);
    }
}

static void only_results_of_a_point_are_compared(void **state)
{
    (void)state;
    struct prn_sample samples[4][100];
    const int64_t ns[] = {2000, 1000, 8000, 4000};
    struct prn_result results[4] = {0};
    struct prn_point points[2] = {0};
    struct prn_profile profile = {
        .results = results, .n_results = 4, .points = points, .n_points = 2, .n_models = 1};
    for (int r = 0; r < 4; r++) {
        for (int i = 0; i < 100; i++)
            samples[r][i] = (struct prn_sample){ns[r], i / 20, i / 5};
        results[r] =
            (struct prn_result){.samples = samples[r], .n_samples = 100, .point = (size_t)r / 2};
    }
    assert_int_equal(prn_summarise(&profile, NULL), 0);
    assert_near(results[0].ratio.estimate, 2, 1e-9);
    assert_near(results[1].ratio.estimate, 1, 0);
    assert_near(results[2].ratio.estimate, 2, 1e-9);
    assert_near(results[3].ratio.estimate, 1, 0);
    assert_int_equal(results[3].verdict, PRN_VERDICT_NONE);
}

/* Two models on two backends: all four are compared with the best, and the second model with the
 * first on the same backend, block by block. */
static void models_are_compared_on_each_backend(void **state)
{
    (void)state;
    struct prn_sample samples[4][100];
    const int64_t ns[] = {2000, 6000, 1000, 9000};
    struct prn_result results[4] = {0};
    struct prn_point points[2] = {0};
    struct prn_profile profile = {
        .results = results, .n_results = 4, .points = points, .n_points = 2, .n_models = 2};
    for (int r = 0; r < 4; r++) {
        for (int i = 0; i < 100; i++)
            samples[r][i] = (struct prn_sample){ns[r] * (1 + i / 20), i / 20, i / 5};
        results[r] = (struct prn_result){.name = r % 2 ? "b" : "a",
                                         .samples = samples[r],
                                         .n_samples = 100,
                                         .point = (size_t)r / 2};
    }
    assert_int_equal(prn_summarise(&profile, NULL), 0);
    assert_near(results[0].ratio.estimate, 2, 1e-9);
    assert_near(results[1].ratio.estimate, 6, 1e-9);
    assert_near(results[3].ratio.estimate, 9, 1e-9);
    assert_true(isnan(results[0].model_ratio.estimate));
    assert_int_equal(results[1].model_verdict, PRN_VERDICT_NONE);
    assert_near(results[2].model_ratio.estimate, 0.5, 1e-9);
    assert_int_equal(results[2].model_verdict, PRN_VERDICT_FASTER);
    assert_near(results[3].model_ratio.estimate, 1.5, 1e-9);
    assert_int_equal(results[3].model_verdict, PRN_VERDICT_SLOWER);
}

/* Groups as letters: one for each row. */
static void expect_groups(const size_t *points, const int64_t *bytes, size_t n, int64_t available,
                          const char *want)
{
    struct prn_group_row rows[200];
    char got[201] = {0};
    for (size_t i = 0; i < n; i++)
        rows[i] = (struct prn_group_row){.point = points[i], .bytes = bytes[i]};
    size_t n_groups = prn_groups_plan(rows, n, available);
    for (size_t i = 0; i < n; i++)
        got[i] = (char)('a' + rows[i].group);
    assert_string_equal(got, want);
    assert_int_equal(n_groups, n > 0 ? (size_t)(want[n - 1] - 'a') + 1 : 0);
}

static void groups_fit_into_memory(void **state)
{
    (void)state;
    const size_t points[] = {0, 0, 1, 1, 2, 2};
    const int64_t bytes[] = {10, 10, 20, 20, 5, 5};
    expect_groups(points, bytes, 6, -1, "aaaaaa");
    expect_groups(points, bytes, 6, 70, "aaaaaa");
    expect_groups(points, bytes, 6, 69, "aaaabb"); /* 20 + 40, then 10 */
    expect_groups(points, bytes, 6, 50, "aabbbb"); /* 20, then 40 + 10 */
    expect_groups(points, bytes, 6, 40, "aabbcc");
    expect_groups(points, bytes, 6, 30, "aabccc"); /* a point of 40 is cut: 20, 20 + 10 */
    expect_groups(points, bytes, 6, 1, "abcdef");  /* too large even alone */
    expect_groups(points, bytes, 0, 1, "");
}

static void groups_have_a_limit(void **state)
{
    (void)state;
    size_t points[130];
    int64_t bytes[130] = {0};
    char want[131] = {0};
    for (size_t i = 0; i < 130; i++) {
        points[i] = i / 2;
        want[i] = (char)('a' + i / PRN_GROUP_ROWS_MAX);
    }
    expect_groups(points, bytes, 130, -1, want);
    for (size_t i = 0; i < 130; i++)
        points[i] = 0;
    expect_groups(points, bytes, 130, -1, want);
}

static void inputs_are_recalled(void **state)
{
    (void)state;
    struct prn_input_source s;
    assert_true(prn_input_source_recall("x", "@a b.npy", &s));
    assert_string_equal(s.file, "a b.npy");
    assert_string_equal(s.name, "x");
    assert_true(prn_input_source_recall("x", "0.1", &s));
    assert_near(s.number, 0.1, 0);
    assert_true(prn_input_source_recall("x", "random, seed 7", &s));
    assert_int_equal(s.fill, PRN_FILL_RANDOM);
    assert_null(s.file);
    assert_true(prn_input_source_recall("x", "zeros", &s));
    assert_int_equal(s.fill, PRN_FILL_ZEROS);
    assert_false(prn_input_source_recall("x", "random in [0,1), seed 7", &s));
    assert_false(prn_input_source_recall("x", "random ids below 30, seed 0", &s));
    assert_false(prn_input_source_recall("x", "\"a\"", &s));
}

static void canary_knows_its_best(void **state)
{
    (void)state;
    struct prn_canary canary = {0};
    double first = prn_canary_run(&canary);
    assert_true(canary.best_ns > 0 && canary.best_ns <= first);
    assert_false(prn_canary_disturbed(&canary, canary.best_ns * 1.09));
    assert_true(prn_canary_disturbed(&canary, canary.best_ns * 1.11));
}

static int file_of(const void *data, size_t len)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(write(fd, data, len), (ssize_t)len);
    return fd;
}

static void outputs_are_compared(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT(1 << 20);
    const float reference[] = {1, -2, 4, NAN};
    const float nearly[] = {1, -2.001f, 4, NAN};
    const float away[] = {1, -2, 4.1f, NAN};
    const float broken[] = {1, -2, NAN, NAN};
    const struct {
        const float *data;
        bool differs;
        double max_abs;
    } cases[] = {
        {reference, false, 0}, {nearly, false, 0.001}, {away, true, 0.1}, {broken, true, INFINITY}};
    struct prn_place place = {
        .name = "y", .dtype = PRN_DTYPE_FLOAT, .rank = 1, .dims = {4}, .bytes = sizeof reference};
    int reference_fd = file_of(reference, sizeof reference);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_output_check *check;
        int fd = file_of(cases[i].data, sizeof reference);
        assert_int_equal(
            prn_outputs_compare(reference_fd, &place, fd, &place, 1, &arena, &check, NULL), 0);
        assert_int_equal(prn_output_differs(check, PRN_TOLERANCE_DEFAULT), cases[i].differs);
        if (isinf(cases[i].max_abs))
            assert_true(isinf(check->max_abs));
        else
            assert_near(check->max_abs, cases[i].max_abs, 1e-6);
        close(fd);
    }
    struct prn_output_check *check;
    struct prn_place other = place;
    other.dims[0] = 2;
    other.rank = 2;
    other.dims[1] = 2;
    assert_int_equal(
        prn_outputs_compare(reference_fd, &place, reference_fd, &other, 1, &arena, &check, NULL),
        0);
    assert_true(!check->same_shape && prn_output_differs(check, PRN_TOLERANCE_DEFAULT));
    /* An executor may say anything. */
    const struct prn_place wrong[] = {
        {.name = "y", .dtype = 12345, .rank = 1, .dims = {4}, .bytes = sizeof reference},
        {.name = "y", .dtype = PRN_DTYPE_FLOAT, .rank = 1, .dims = {-4}, .bytes = 16},
        {.name = "y", .dtype = PRN_DTYPE_COMPLEX64, .rank = 1, .dims = {INT64_MAX}, .bytes = 16},
        {.name = "y", .dtype = PRN_DTYPE_FLOAT, .rank = 1, .dims = {1 << 20}, .bytes = 4 << 20}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(wrong); i++)
        assert_int_equal(prn_outputs_compare(reference_fd, &wrong[i], reference_fd, &wrong[i], 1,
                                             &arena, &check, NULL),
                         PRONY_EIO);
    close(reference_fd);
    prn_arena_release(&arena);
}

static void input_sources(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT(1 << 20);
    struct prn_input_source s;
    assert_int_equal(prn_input_source_parse("x=ones", &arena, &s, NULL), 0);
    assert_string_equal(s.name, "x");
    assert_int_equal(s.fill, PRN_FILL_ONES);
    assert_int_equal(prn_input_source_parse("a=b=-2.5", &arena, &s, NULL), 0);
    assert_string_equal(s.name, "a=b");
    assert_near(s.number, -2.5, 0);
    assert_int_equal(prn_input_source_parse("x=@a=b.npy", &arena, &s, NULL), 0);
    assert_string_equal(s.file, "a=b.npy");
    const char *const wrong[] = {"x", "=ones", "x=", "x=many", "x=@", "x=1.5e", ""};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(wrong); i++)
        assert_int_equal(prn_input_source_parse(wrong[i], &arena, &s, NULL), PRONY_EUSAGE);
    prn_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interval_is_over_launches),
        cmocka_unit_test(one_launch_uses_blocks),
        cmocka_unit_test(means_add_up),
        cmocka_unit_test(ratio_is_paired),
        cmocka_unit_test(ratio_uses_common_blocks_only),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(summary_finds_best_and_counts_outliers),
        cmocka_unit_test(few_launches_have_no_interval),
        cmocka_unit_test(one_launch_calls_nothing_small),
        cmocka_unit_test(only_results_of_a_point_are_compared),
        cmocka_unit_test(models_are_compared_on_each_backend),
        cmocka_unit_test(groups_fit_into_memory),
        cmocka_unit_test(groups_have_a_limit),
        cmocka_unit_test(inputs_are_recalled),
        cmocka_unit_test(canary_knows_its_best),
        cmocka_unit_test(outputs_are_compared),
        cmocka_unit_test(input_sources),
    };
    return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
