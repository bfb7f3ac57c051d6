#include "unit.h"

#include "base/error.h"
#include "base/random.h"
#include "base/sketch.h"

#include <stdlib.h>

#define MANY 100000

static void add(struct prn_sketch *s, double value)
{
    assert_int_equal(prn_sketch_add(s, value), 0);
}

static void add_all(struct prn_sketch *s, const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add(s, values[i]);
}

static void test_empty(void **state)
{
    (void)state;
    struct prn_sketch s = PRN_SKETCH_INIT;
    assert_true(isnan(prn_sketch_quantile(&s, 0.5)));
    assert_true(isnan(prn_sketch_mean(&s)));
    assert_near(prn_sketch_sd(&s), 0, 0);
    assert_true(prn_sketch_is_exact(&s));
    assert_int_equal(prn_sketch_bytes(&s), 0);
    prn_sketch_add_zeros(&s, 0);
    assert_int_equal(s.count, 0);
    prn_sketch_release(&s);
    prn_sketch_release(&s);
}

/* Zeros among the values included; the values arrive unsorted. */
static void test_exact(void **state)
{
    (void)state;
    struct prn_random random;
    prn_random_seed(&random, 1);
    for (size_t n = 1; n <= PRN_SKETCH_EXACT; n++) {
        struct prn_sketch s = PRN_SKETCH_INIT;
        double values[PRN_SKETCH_EXACT + 3] = {0};
        for (size_t i = 0; i < n; i++)
            values[i] = prn_random_below(&random, 10) == 0 ? 0 : exp(prn_random_normal(&random));
        add_all(&s, values, n);
        prn_sketch_add_zeros(&s, 3);
        struct prn_interval expected = prn_stats_amount_interval(values, n + 3);
        struct prn_interval interval = prn_sketch_mean_interval(&s);
        assert_near(interval.estimate, expected.estimate, 1e-12);
        if (n + 3 < PRN_UNITS_MIN) {
            assert_true(interval.low == -INFINITY && interval.high == INFINITY);
        } else {
            assert_near(interval.low, expected.low, 1e-12);
            assert_near(interval.high, expected.high, 1e-12);
        }
        assert_near(prn_sketch_sd(&s), prn_stats_sd(values, n + 3), 1e-12);
        prn_stats_sort(values, n + 3);
        for (int q = 0; q <= 20; q++)
            assert_true(prn_sketch_quantile(&s, q / 20.0) ==
                        prn_stats_quantile(values, n + 3, q / 20.0));
        assert_near(s.min, 0, 0);
        assert_near(s.max, values[n + 2], 0);
        assert_int_equal(s.count, n + 3);
        assert_true(prn_sketch_is_exact(&s));
        assert_true(prn_sketch_bytes(&s) <= 8 * (n < 4 ? 4 : 2 * n));
        prn_sketch_release(&s);
    }
}

static double lognormal(struct prn_random *random, size_t i)
{
    (void)i;
    return 3e6 * exp(0.3 * prn_random_normal(random));
}

static double wide_lognormal(struct prn_random *random, size_t i)
{
    (void)i;
    return 3e6 * exp(1.5 * prn_random_normal(random));
}

static double narrow(struct prn_random *random, size_t i)
{
    (void)i;
    return 5e8 * (1 + 0.002 * prn_random_normal(random));
}

static double bimodal(struct prn_random *random, size_t i)
{
    (void)i;
    double mode = prn_random_below(random, 10) < 7 ? 1e5 : 1e7;
    return mode * exp(0.02 * prn_random_normal(random));
}

static double heavy_tailed(struct prn_random *random, size_t i)
{
    (void)i;
    return 1e4 / (1 - prn_random_double(random));
}

static double drifting_up(struct prn_random *random, size_t i)
{
    return 1e6 * (1 + 3 * (double)i / MANY) * exp(0.01 * prn_random_normal(random));
}

static double drifting_down(struct prn_random *random, size_t i)
{
    return 1e6 / (1 + 30 * (double)i / MANY) * exp(0.01 * prn_random_normal(random));
}

static double stepping(struct prn_random *random, size_t i)
{
    return (i < MANY / 3 ? 1e6 : 5e6) * exp(0.05 * prn_random_normal(random));
}

/* Now and then a run is 100 times slower, but less often than the sketch cares for. */
static double interrupted(struct prn_random *random, size_t i)
{
    (void)i;
    double value = 1e6 * exp(0.01 * prn_random_normal(random));
    return prn_random_below(random, 100) < 3 ? 100 * value : value;
}

/* Rounded to whole microseconds, so that few different values are left. */
static double rounded(struct prn_random *random, size_t i)
{
    (void)i;
    return 1000 * round(12 + 0.8 * prn_random_normal(random));
}

static double from_zero(struct prn_random *random, size_t i)
{
    (void)i;
    return 1000.0 * (double)prn_random_below(random, 2000);
}

static void test_quality(void **state)
{
    (void)state;
    double (*const shapes[])(struct prn_random *, size_t) = {
        lognormal,     wide_lognormal, narrow,      bimodal, heavy_tailed, drifting_up,
        drifting_down, stepping,       interrupted, rounded, from_zero};
    double *values = calloc(MANY, sizeof *values);
    assert_non_null(values);
    for (size_t shape = 0; shape < PRN_ARRAY_SIZE(shapes); shape++) {
        struct prn_random random;
        prn_random_seed(&random, shape);
        struct prn_sketch s = PRN_SKETCH_INIT;
        for (size_t i = 0; i < MANY; i++)
            values[i] = shapes[shape](&random, i);
        add_all(&s, values, MANY);
        assert_false(prn_sketch_is_exact(&s));
        assert_true(prn_sketch_bytes(&s) <= 2048);
        assert_near(prn_sketch_mean(&s) / prn_stats_mean(values, MANY), 1, 1e-12);
        assert_near(prn_sketch_sd(&s) / prn_stats_sd(values, MANY), 1, 1e-9);
        prn_stats_sort(values, MANY);
        for (int k = 0; k < 2; k++) {
            double q = k == 0 ? 0.5 : 0.9;
            double expected = prn_stats_quantile(values, MANY, q);
            double error = prn_sketch_quantile(&s, q) / expected - 1;
            if (fabs(error) > 0.005)
                fail_msg("shape %zu: p%.0f is off by %.3f %%", shape, 100 * q, 100 * error);
        }
        assert_true(prn_sketch_quantile(&s, 0) == values[0]);
        assert_true(prn_sketch_quantile(&s, 1) == values[MANY - 1]);
        prn_sketch_release(&s);
    }
    free(values);
}

static void test_constant(void **state)
{
    (void)state;
    struct prn_sketch s = PRN_SKETCH_INIT;
    const double value = 1234567;
    for (int i = 0; i < 5000; i++)
        add(&s, value);
    prn_sketch_add_zeros(&s, 2000);
    assert_true(prn_sketch_quantile(&s, 0.5) == value);
    assert_true(prn_sketch_quantile(&s, 0.9) == value);
    assert_true(prn_sketch_quantile(&s, 1) == value);
    assert_true(prn_sketch_quantile(&s, 0.25) == 0);
    assert_near(prn_sketch_mean(&s), value * 5 / 7, 1e-6);
    /* p50 and p90 stay where they are with values far away on both sides. */
    for (int i = 0; i < 100; i++) {
        add(&s, 1);
        add(&s, 1e12);
    }
    assert_near(prn_sketch_quantile(&s, 0.5) / value, 1, 2e-5);
    assert_near(prn_sketch_quantile(&s, 0.9) / value, 1, 2e-5);
    prn_sketch_release(&s);
}

static void test_zeros_only(void **state)
{
    (void)state;
    struct prn_sketch s = PRN_SKETCH_INIT;
    prn_sketch_add_zeros(&s, UINT64_C(1) << 40);
    add(&s, 0);
    assert_true(prn_sketch_quantile(&s, 0.5) == 0);
    assert_true(s.max == 0 && s.mean == 0 && s.m2 == 0);
    assert_true(s.zeros == s.count);
    add(&s, 7);
    assert_true(prn_sketch_quantile(&s, 1) == 7);
    assert_int_equal(prn_sketch_bytes(&s), 32);
    prn_sketch_release(&s);
}

/* Values of any size double can have: nothing leaves its range, and quantiles ascend. */
static void test_extremes(void **state)
{
    (void)state;
    struct prn_random random;
    for (uint64_t seed = 0; seed < 30; seed++) {
        prn_random_seed(&random, seed);
        struct prn_sketch s = PRN_SKETCH_INIT;
        double range = seed < 10 ? 600 : 10.0 * (double)seed;
        for (int i = 0; i < 3000; i++)
            add(&s, exp(range * (prn_random_double(&random) * 2 - 1)));
        double before = s.min;
        for (int q = 0; q <= 1000; q++) {
            double value = prn_sketch_quantile(&s, q / 1000.0);
            assert_true(value >= before && value <= s.max);
            before = value;
        }
        struct prn_sketch_order order;
        prn_sketch_order_init(&order, &s);
        assert_int_equal(order.end[PRN_SKETCH_BUCKETS - 1], 3000);
        prn_sketch_release(&s);
    }
}

/* A single early outlier must not cost resolution, nor a change of scale after the first values. */
static void test_scale_changes(void **state)
{
    (void)state;
    struct prn_random random;
    prn_random_seed(&random, 5);
    double values[4000];
    struct prn_sketch s = PRN_SKETCH_INIT;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(values); i++)
        values[i] = (i < 400 ? 1e9 : 1e3) * exp(0.2 * prn_random_normal(&random));
    add_all(&s, values, PRN_ARRAY_SIZE(values));
    prn_stats_sort(values, PRN_ARRAY_SIZE(values));
    double expected = prn_stats_median(values, PRN_ARRAY_SIZE(values));
    assert_near(prn_sketch_quantile(&s, 0.5) / expected, 1, 0.02);
    prn_sketch_release(&s);
}

static void resample_medians(const double *values, size_t n, struct prn_random *random, double *out,
                             size_t rounds)
{
    for (size_t i = 0; i < rounds; i++) {
        double sample[64];
        for (size_t j = 0; j < n; j++)
            sample[j] = values[prn_random_below(random, n)];
        prn_stats_sort(sample, n);
        out[i] = prn_stats_median(sample, n);
    }
}

/* The interval is the one that plain resampling finds, for odd and even numbers of units. */
static void test_ratio_like_resampling(void **state)
{
    (void)state;
    enum { ROUNDS = 20000 };
    static const size_t sizes[][2] = {{7, 9}, {8, 12}, {25, 40}, {2, 3}};
    static double a_medians[ROUNDS];
    static double b_medians[ROUNDS];
    struct prn_random random;
    prn_random_seed(&random, 11);
    for (size_t k = 0; k < PRN_ARRAY_SIZE(sizes); k++) {
        struct prn_sketch a = PRN_SKETCH_INIT;
        struct prn_sketch b = PRN_SKETCH_INIT;
        double a_values[64];
        double b_values[64];
        for (size_t i = 0; i < 64; i++) {
            a_values[i] = 1e6 * exp(0.1 * prn_random_normal(&random));
            b_values[i] = 1.1e6 * exp(0.1 * prn_random_normal(&random));
        }
        add_all(&a, a_values, sizes[k][0]);
        add_all(&b, b_values, sizes[k][1]);
        resample_medians(a_values, sizes[k][0], &random, a_medians, ROUNDS);
        resample_medians(b_values, sizes[k][1], &random, b_medians, ROUNDS);
        for (size_t i = 0; i < ROUNDS; i++)
            b_medians[i] /= a_medians[i];
        prn_stats_sort(b_medians, ROUNDS);
        struct prn_ratio r = prn_sketch_median_ratio(&a, &b, 0, 3, NULL);
        assert_near(r.ratio.estimate, prn_sketch_quantile(&b, 0.5) / prn_sketch_quantile(&a, 0.5),
                    1e-12);
        assert_near(r.ratio.low, prn_stats_quantile(b_medians, ROUNDS, 0.025), 0.012);
        assert_near(r.ratio.high, prn_stats_quantile(b_medians, ROUNDS, 0.975), 0.012);
        struct prn_ratio again = prn_sketch_median_ratio(&a, &b, 0, 3, NULL);
        assert_memory_equal(&r, &again, sizeof r);
        prn_sketch_release(&a);
        prn_sketch_release(&b);
    }
}

static struct prn_ratio compare_normal(struct prn_random *random, size_t n, double factor)
{
    struct prn_sketch a = PRN_SKETCH_INIT;
    struct prn_sketch b = PRN_SKETCH_INIT;
    for (size_t i = 0; i < n; i++) {
        add(&a, 1000 * round(1e3 * exp(0.03 * prn_random_normal(random))));
        add(&b, 1000 * round(1e3 * factor * exp(0.03 * prn_random_normal(random))));
    }
    struct prn_ratio r = prn_sketch_median_ratio(&a, &b, 289, prn_random_u64(random), NULL);
    prn_sketch_release(&a);
    prn_sketch_release(&b);
    return r;
}

/* Of equal distributions few seem different, and their intervals hold 1; p says the same as the
 * interval. With few units the bootstrap of a median is known to be rough. */
static void test_ratio_calibration(void **state)
{
    (void)state;
    struct prn_random random;
    prn_random_seed(&random, 12);
    static const size_t sizes[] = {10, 50, 300};
    for (size_t k = 0; k < PRN_ARRAY_SIZE(sizes); k++) {
        int small_p = 0;
        int covered = 0;
        enum { ROUNDS = 200 };
        for (int i = 0; i < ROUNDS; i++) {
            struct prn_ratio r = compare_normal(&random, sizes[k], 1);
            small_p += r.p < 0.05;
            covered += r.ratio.low <= 1 && r.ratio.high >= 1;
        }
        assert_in_range(small_p, 0, ROUNDS / 10);
        assert_in_range(covered, ROUNDS * 9 / 10, ROUNDS);
    }
    struct prn_ratio r = compare_normal(&random, 300, 1.1);
    assert_near(r.ratio.estimate, 1.1, 0.01);
    assert_true(r.ratio.low > 1.08 && r.ratio.high < 1.12);
    assert_true(r.p < 1e-30 && r.p > 0);
}

static void test_ratio_constant(void **state)
{
    (void)state;
    struct prn_sketch a = PRN_SKETCH_INIT;
    struct prn_sketch b = PRN_SKETCH_INIT;
    for (int i = 0; i < 16; i++) {
        add(&a, 12000);
        add(&b, 13000);
    }
    struct prn_ratio r = prn_sketch_median_ratio(&a, &b, 289, 0, NULL);
    /* More of the same values say no more about what was cut off. */
    double error = 289 * hypot(1 / 12000.0, 1 / 13000.0);
    double width = prn_stats_student_quantile(0.975, 15) * error;
    assert_near(r.ratio.low, 13.0 / 12 * exp(-width), 1e-12);
    assert_near(r.ratio.high, 13.0 / 12 * exp(width), 1e-12);
    double t = log(13.0 / 12) / error;
    assert_near(r.p, 2 * prn_stats_student_cdf(-t, 15), 1e-12);
    assert_true(r.p > 0.01 && r.p < 0.05);
    r = prn_sketch_median_ratio(&a, &b, 0, 0, NULL);
    assert_near(r.p, 2 / 601080390.0, 1e-15); /* of the ways to choose 16 of 32 */
    assert_near(r.ratio.low, 13.0 / 12, 1e-12);
    assert_near(r.ratio.high, 13.0 / 12, 1e-12);
    r = prn_sketch_median_ratio(&a, &a, 0, 0, NULL);
    assert_true(r.p == 1 && r.ratio.estimate == 1);
    prn_sketch_release(&a);
    prn_sketch_release(&b);
}

/* Two sketches of the same values with different buckets: the difference that the buckets make must
 * not be found significant, although there are many units. */
static void test_ratio_of_buckets(void **state)
{
    (void)state;
    struct prn_random random;
    for (uint64_t seed = 0; seed < 20; seed++) {
        prn_random_seed(&random, seed);
        struct prn_sketch a = PRN_SKETCH_INIT;
        struct prn_sketch b = PRN_SKETCH_INIT;
        double value = 1000.0 * (double)(100 + prn_random_below(&random, 3000));
        for (int i = 0; i < 20000; i++) {
            double off = 1000.0 * (double)(prn_random_below(&random, 8) == 0);
            add(&a, i % 10 == 0 ? 50 * value : value + off);
            add(&b, value + off);
        }
        struct prn_ratio r = prn_sketch_median_ratio(&a, &b, 289, seed, NULL);
        assert_near(r.ratio.estimate, 1, 0.005);
        assert_true(r.p > 0.01);
        prn_sketch_release(&a);
        prn_sketch_release(&b);
    }
}

/* Times near a whole µs: which side of it half of the runs are cut to, and so the median, is a coin
 * toss. The same near 0. */
static void test_ratio_of_cut_times(void **state)
{
    (void)state;
    struct prn_random random;
    prn_random_seed(&random, 13);
    static const size_t sizes[] = {10, 50, 300, 10, 50, 300};
    for (size_t k = 0; k < PRN_ARRAY_SIZE(sizes); k++) {
        int small_p = 0;
        enum { ROUNDS = 200 };
        for (int i = 0; i < ROUNDS; i++) {
            struct prn_sketch a = PRN_SKETCH_INIT;
            struct prn_sketch b = PRN_SKETCH_INIT;
            for (size_t n = 0; n < sizes[k]; n++) {
                double least = k < 3 ? 0 : 3000;
                add(&a, least + 1000.0 * (double)prn_random_below(&random, 2));
                add(&b, least + 1000.0 * (double)prn_random_below(&random, 2));
            }
            struct prn_ratio r =
                prn_sketch_median_ratio(&a, &b, 289, prn_random_u64(&random), NULL);
            small_p += r.p < 0.05;
            prn_sketch_release(&a);
            prn_sketch_release(&b);
        }
        assert_in_range(small_p, 0, ROUNDS / 10);
    }
}

/* One in ten runs takes up to five times as long: what machines with other work look like. */
static double noisy_time(struct prn_random *random)
{
    double time = 200 * exp(0.05 * prn_random_normal(random));
    if (prn_random_below(random, 10) == 0)
        time *= 1 + 4 * prn_random_double(random);
    return 1000 * floor(time);
}

/* Samples that don't overlap differ, whatever outliers they have. */
static void test_ratio_with_outliers(void **state)
{
    (void)state;
    struct prn_random random;
    prn_random_seed(&random, 14);
    static const size_t sizes[] = {10, 20, 60, 300};
    for (size_t k = 0; k < PRN_ARRAY_SIZE(sizes); k++) {
        struct prn_sketch a = PRN_SKETCH_INIT;
        struct prn_sketch b = PRN_SKETCH_INIT;
        for (size_t i = 0; i < sizes[k]; i++) {
            bool out = i % 5 < 2; /* far out on the other side of nothing */
            add(&a, out ? 1e3 + 1e3 * (double)i : 1e6 + 1e3 * (double)i);
            add(&b, out ? 9e6 + 1e3 * (double)i : 2e6 + 1e3 * (double)i);
        }
        struct prn_ratio r = prn_sketch_median_ratio(&a, &b, 289, 0, NULL);
        assert_true(r.ratio.low > 1);
        assert_true(r.p < 2e-5);
        prn_sketch_release(&a);
        prn_sketch_release(&b);
    }
}

/* Of families of rows that don't differ at most one in twenty may have a row that seems to. */
static void test_ratio_families(void **state)
{
    (void)state;
    enum { FAMILIES = 40, ROWS = 8 };
    static const size_t sizes[][2] = {{5, 5}, {20, 20}, {12, 90}, {150, 150}, {20, 200}};
    struct prn_random random;
    prn_random_seed(&random, 15);
    int alarms = 0;
    for (size_t k = 0; k < PRN_ARRAY_SIZE(sizes); k++)
        for (int f = 0; f < FAMILIES; f++) {
            double p[ROWS];
            double holm[ROWS];
            for (int row = 0; row < ROWS; row++) {
                struct prn_sketch a = PRN_SKETCH_INIT;
                struct prn_sketch b = PRN_SKETCH_INIT;
                for (size_t i = 0; i < sizes[k][0]; i++)
                    add(&a, noisy_time(&random));
                for (size_t i = 0; i < sizes[k][1]; i++)
                    add(&b, noisy_time(&random));
                p[row] = prn_sketch_median_ratio(&a, &b, 289, 0, NULL).p;
                prn_sketch_release(&a);
                prn_sketch_release(&b);
            }
            assert_int_equal(prn_stats_holm(p, ROWS, holm), 0);
            bool alarm = false;
            for (int row = 0; row < ROWS; row++)
                alarm = alarm || holm[row] < 0.05;
            alarms += alarm;
        }
    int families = FAMILIES * (int)PRN_ARRAY_SIZE(sizes);
    assert_in_range(alarms, 1, families / 20);
}

static void test_ratio_of_little(void **state)
{
    (void)state;
    struct prn_sketch none = PRN_SKETCH_INIT;
    struct prn_sketch one = PRN_SKETCH_INIT;
    struct prn_sketch many = PRN_SKETCH_INIT;
    struct prn_sketch zeros = PRN_SKETCH_INIT;
    struct prn_sketch seldom = PRN_SKETCH_INIT;
    add(&one, 3);
    prn_sketch_add_zeros(&zeros, 10);
    prn_sketch_add_zeros(&seldom, 9);
    for (int i = 1; i < 12; i++) {
        add(&many, 6);
        add(&seldom, i);
    }
    struct prn_ratio r = prn_sketch_median_ratio(&one, &many, 0, 1, NULL);
    assert_true(r.ratio.estimate == 2 && r.p == 1);
    assert_true(isinf(r.ratio.low) && isinf(r.ratio.high));
    r = prn_sketch_median_ratio(&none, &many, 0, 1, NULL);
    assert_true(isnan(r.ratio.estimate) && isnan(r.ratio.low) && r.p == 1);
    /* There is no ratio to 0, but there is a difference. */
    r = prn_sketch_median_ratio(&zeros, &many, 0, 1, NULL);
    assert_true(isinf(r.ratio.estimate) && isnan(r.ratio.low) && r.p < 1e-5);
    r = prn_sketch_median_ratio(&many, &zeros, 0, 1, NULL);
    assert_true(r.ratio.estimate == 0 && isnan(r.ratio.high) && r.p < 1e-5);
    double t = 6 / (2 * sqrt(2));
    r = prn_sketch_median_ratio(&zeros, &many, 2, 1, NULL);
    assert_near(r.p, 2 * prn_stats_student_cdf(-t, 9), 1e-9);
    r = prn_sketch_median_ratio(&zeros, &zeros, 0, 1, NULL);
    assert_true(isnan(r.ratio.estimate) && isnan(r.p));
    /* The median is above 0 by one unit only. */
    r = prn_sketch_median_ratio(&seldom, &many, 0, 1, NULL);
    assert_near(r.ratio.estimate, 6 / 1.5, 1e-12);
    assert_true(isinf(r.ratio.high) && r.p > 0.01 && r.p < 0.2);
    prn_sketch_release(&one);
    prn_sketch_release(&many);
    prn_sketch_release(&zeros);
    prn_sketch_release(&seldom);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_quality),
        cmocka_unit_test(test_constant),
        cmocka_unit_test(test_zeros_only),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_scale_changes),
        cmocka_unit_test(test_ratio_like_resampling),
        cmocka_unit_test(test_ratio_calibration),
        cmocka_unit_test(test_ratio_constant),
        cmocka_unit_test(test_ratio_of_buckets),
        cmocka_unit_test(test_ratio_of_cut_times),
        cmocka_unit_test(test_ratio_with_outliers),
        cmocka_unit_test(test_ratio_families),
        cmocka_unit_test(test_ratio_of_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
