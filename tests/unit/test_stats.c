#include "unit.h"

#include "base/error.h"
#include "base/random.h"
#include "base/stats.h"

static void test_sort(void **state)
{
    (void)state;
    double values[] = {3, -1, 2, 2, -7.5};
    const double sorted[] = {-7.5, -1, 2, 2, 3};
    prn_stats_sort(values, 5);
    assert_memory_equal(values, sorted, sizeof sorted);
    prn_stats_sort(values, 0);
}

/* numpy.quantile([1, 2, 4, 8, 16], q) and friends, method "linear". */
static void test_quantiles(void **state)
{
    (void)state;
    const double v[] = {1, 2, 4, 8, 16};
    static const double expected[][2] = {{0, 1},    {0.1, 1.4},  {0.25, 2},     {0.5, 4},
                                         {0.75, 8}, {0.9, 12.8}, {0.99, 15.68}, {1, 16}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(expected); i++)
        assert_near(prn_stats_quantile(v, 5, expected[i][0]), expected[i][1], 1e-12);
    assert_near(prn_stats_median(v, 4), 3, 0);
    assert_near(prn_stats_median(v, 1), 1, 0);
    assert_near(prn_stats_quantile(v, 1, 0.99), 1, 0);
    assert_near(prn_stats_quantile(v, 2, 0.3), 1.3, 1e-12);
}

static void test_mean_and_sd(void **state)
{
    (void)state;
    const double v[] = {2, 4, 4, 4, 5, 5, 7, 9};
    assert_near(prn_stats_mean(v, 8), 5, 1e-15);
    assert_near(prn_stats_sd(v, 8), sqrt(32.0 / 7), 1e-14);
    assert_near(prn_stats_sd(v, 1), 0, 0);
    assert_near(prn_stats_mean(v, 0), 0, 0);
    /* A large offset must not eat the digits. */
    double far[8];
    for (size_t i = 0; i < 8; i++)
        far[i] = v[i] + 1e12;
    assert_near(prn_stats_mean(far, 8), 1e12 + 5, 1e-3);
    assert_near(prn_stats_sd(far, 8), sqrt(32.0 / 7), 1e-3);
}

/* From the usual tables, to nine decimals. */
static void test_student_table(void **state)
{
    (void)state;
    static const double table[][3] = {
        {0.975, 1, 12.706204736},
        {0.975, 2, 4.302652730},
        {0.975, 3, 3.182446305},
        {0.975, 4, 2.776445105},
        {0.975, 5, 2.570581836},
        {0.975, 10, 2.228138852},
        {0.975, 20, 2.085963447},
        {0.975, 30, 2.042272456},
        {0.975, 60, 2.000297822},
        {0.975, 100, 1.983971519},
        {0.975, 1000, 1.962339081},
        {0.95, 5, 2.015048373},
        {0.99, 10, 2.763769458},
        {0.995, 2, 9.924843201},
        {0.9995, 1, 636.619248769},
        {0.9, 3, 1.637744354},
        {0.75, 1, 1},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(table); i++) {
        assert_near(prn_stats_student_quantile(table[i][0], table[i][1]), table[i][2], 1e-6);
        assert_near(prn_stats_student_quantile(1 - table[i][0], table[i][1]), -table[i][2], 1e-6);
    }
    assert_near(prn_stats_student_quantile(0.5, 7), 0, 1e-9);
}

/* One and two degrees of freedom have closed forms; many are nearly a normal variable. */
static void test_student_formulas(void **state)
{
    (void)state;
    for (int i = 51; i < 100; i++) {
        double p = i / 100.0;
        double t1 = tan(3.141592653589793 * (p - 0.5));
        double t2 = (2 * p - 1) / sqrt(2 * p * (1 - p));
        assert_near(prn_stats_student_quantile(p, 1) / t1, 1, 1e-9);
        assert_near(prn_stats_student_quantile(p, 2) / t2, 1, 1e-9);
    }
    const double z = 1.959963984540054;
    double df = 1e4;
    for (int i = 4; i <= 8; i++) {
        assert_near(prn_stats_student_quantile(0.975, df), z + (z * z * z + z) / (4 * df), 1e-6);
        df *= 10;
    }
}

/* The closed forms of one and two degrees of freedom, far out in the tail too. */
static void test_student_cdf(void **state)
{
    (void)state;
    static const double ts[] = {0, 0.1, 1, 3, 30, 1e3, 1e6};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(ts); i++) {
        double t = ts[i];
        double tail1 = atan2(1, t) / 3.141592653589793;
        double root = sqrt(2 + t * t);
        double tail2 = 1 / (root * (root + t));
        assert_near(prn_stats_student_cdf(-t, 1) / tail1, 1, 1e-10);
        assert_near(prn_stats_student_cdf(-t, 2) / tail2, 1, 1e-10);
        assert_near(prn_stats_student_cdf(t, 1), 1 - tail1, 1e-12);
        assert_near(prn_stats_student_cdf(t, 2), 1 - tail2, 1e-12);
    }
    assert_near(prn_stats_student_cdf(-INFINITY, 5), 0, 0);
    /* Nearly a normal variable, which is below -10 with probability 7.6199e-24. */
    assert_near(prn_stats_student_cdf(-1.959963984540054, 1e7), 0.025, 1e-7);
    assert_near(prn_stats_student_cdf(-10, 1e7) / 7.6199e-24, 1, 1e-3);
}

/* Worked out by hand: the smallest of m is multiplied by m, the next by m - 1, …, and none may be
 * below the one before it. */
/* Worked out with SciPy: ttest_ind(a, b, equal_var=False) and its confidence_interval(). */
static void test_welch(void **state)
{
    (void)state;
    const double a[] = {1.1, 1.2, 1.3, 1.25, 1.15};
    const double b[] = {1.0, 1.05, 0.9, 1.1};
    struct prn_welch w = prn_stats_welch(a, 5, b, 4);
    assert_near(w.difference.estimate, 0.1875, 1e-12);
    assert_near(w.difference.low, 0.053420045517272086, 1e-9);
    assert_near(w.difference.high, 0.3215799544827279, 1e-9);
    assert_near(w.p, 0.01374117275697108, 1e-11);
    const double wide[] = {1, 1.25, 1.75, 9};
    const double two[] = {5, 5.5};
    w = prn_stats_welch(two, 2, wide, 4);
    assert_near(w.difference.low, -4.060642196383445, 1e-9);
    assert_near(w.difference.high, 8.060642196383444, 1e-9);
    assert_near(w.p, 0.37602521324958943, 1e-10);
    /* The other way round it is the same difference. */
    struct prn_welch back = prn_stats_welch(wide, 4, two, 2);
    assert_near(back.difference.low, -w.difference.high, 1e-12);
    assert_near(back.p, w.p, 1e-15);
}

static void test_welch_knows_its_limits(void **state)
{
    (void)state;
    const double a[] = {3, 3, 3};
    const double b[] = {2, 2};
    struct prn_welch w = prn_stats_welch(a, 1, b, 2);
    assert_true(isinf(w.difference.low) && isinf(w.difference.high) && isnan(w.p));
    w = prn_stats_welch(a, 3, b, 1);
    assert_true(isinf(w.difference.low) && isinf(w.difference.high) && isnan(w.p));
    /* Units that don't vary leave no doubt. */
    w = prn_stats_welch(a, 3, b, 2);
    assert_true(w.difference.low == 1 && w.difference.high == 1 && w.p == 0);
    w = prn_stats_welch(a, 3, a, 2);
    assert_true(w.difference.low == 0 && w.difference.high == 0 && w.p == 1);
}

static void test_holm(void **state)
{
    (void)state;
    const double p[] = {0.01, 0.04, 0.03, 0.005};
    const double expected[] = {0.03, 0.06, 0.06, 0.02};
    double adjusted[7];
    assert_int_equal(prn_stats_holm(p, 4, adjusted), 0);
    for (size_t i = 0; i < 4; i++)
        assert_near(adjusted[i], expected[i], 1e-15);

    /* Without the two NAN there are five: 1e-20 × 5, 0.2 × 4, 0.2 × 3 raised to 0.8, 0.3 × 2 raised
     * to 0.8, 0.9 × 1. */
    const double q[] = {NAN, 0.3, 1e-20, 0.2, NAN, 0.2, 0.9};
    const double expected_q[] = {NAN, 0.8, 5e-20, 0.8, NAN, 0.8, 0.9};
    assert_int_equal(prn_stats_holm(q, 7, adjusted), 0);
    for (size_t i = 0; i < 7; i++) {
        assert_true(isnan(adjusted[i]) == isnan(expected_q[i]));
        if (!isnan(expected_q[i]))
            assert_near(adjusted[i], expected_q[i], 1e-15);
    }
    const double large[] = {0.6, 0.5, 0};
    assert_int_equal(prn_stats_holm(large, 3, adjusted), 0);
    assert_true(adjusted[0] == 1 && adjusted[1] == 1 && adjusted[2] == 0);
    assert_int_equal(prn_stats_holm(NULL, 0, NULL), 0);
}

static void test_percentile_need(void **state)
{
    (void)state;
    assert_int_equal(prn_stats_percentile_need(0.5), 1);
    assert_int_equal(prn_stats_percentile_need(0.25), 1);
    assert_int_equal(prn_stats_percentile_need(0.9), 64);
    assert_int_equal(prn_stats_percentile_need(0.95), 130);
    assert_int_equal(prn_stats_percentile_need(0.99), 662);
    assert_int_equal(prn_stats_percentile_need(0.999), 6636);
    assert_int_equal(prn_stats_percentile_need(0.9999), SIZE_MAX);
}

static void test_mean_interval(void **state)
{
    (void)state;
    const double v[] = {2, 4, 4, 4, 5, 5, 7, 9};
    struct prn_interval i = prn_stats_mean_interval(v, 8);
    /* t(0.975, 7) = 2.364624252 */
    double half = 2.364624252 * sqrt(32.0 / 7) / sqrt(8);
    assert_near(i.estimate, 5, 1e-12);
    assert_near(i.low, 5 - half, 1e-6);
    assert_near(i.high, 5 + half, 1e-6);
    /* Times and rates aren't below 0, however much they vary. */
    const double wild[] = {1, 1, 1, 1, 100};
    assert_true(prn_stats_mean_interval(wild, 5).low < 0);
    i = prn_stats_amount_interval(wild, 5);
    assert_true(i.low == 0 && i.high > 75);
    assert_true(prn_stats_amount_interval(v, 8).low == prn_stats_mean_interval(v, 8).low);
    assert_true(isinf(prn_stats_amount_interval(v, 1).low));
    i = prn_stats_mean_interval(v, 1);
    assert_true(isinf(i.low) && i.low < 0 && isinf(i.high) && i.high > 0);
    assert_near(i.estimate, 2, 0);
}

/* Of many 95 % intervals from normal samples about 95 % hold the mean. */
static void test_interval_covers(void **state)
{
    (void)state;
    struct prn_random random;
    prn_random_seed(&random, 1);
    int covered = 0;
    for (int round = 0; round < 4000; round++) {
        double units[5];
        for (size_t i = 0; i < 5; i++)
            units[i] = 10 + 3 * prn_random_normal(&random);
        struct prn_interval interval = prn_stats_mean_interval(units, 5);
        covered += interval.low <= 10 && 10 <= interval.high;
    }
    assert_in_range(covered, 3740, 3860);
}

static void test_random(void **state)
{
    (void)state;
    struct prn_random r;
    prn_random_seed(&r, 0);
    /* Published outputs: xoshiro256++ seeded with splitmix64(0). */
    assert_true(prn_random_u64(&r) == 0x53175d61490b23dfu);
    assert_true(prn_random_u64(&r) == 0x61da6f3dc380d507u);
    double sum = 0;
    double squares = 0;
    int counts[7] = {0};
    for (int i = 0; i < 70000; i++) {
        counts[prn_random_below(&r, 7)]++;
        double u = prn_random_double(&r);
        assert_true(u >= 0 && u < 1);
        double z = prn_random_normal(&r);
        sum += z;
        squares += z * z;
    }
    for (size_t i = 0; i < 7; i++)
        assert_in_range(counts[i], 9500, 10500);
    assert_near(sum / 70000, 0, 0.02);
    assert_near(squares / 70000, 1, 0.03);
    assert_int_equal(prn_random_below(&r, 1), 0);
}

static void test_shuffle(void **state)
{
    (void)state;
    struct prn_random r;
    prn_random_seed(&r, 3);
    int first[4] = {0};
    for (int round = 0; round < 4000; round++) {
        size_t order[4];
        prn_random_shuffle(&r, order, 4);
        assert_int_equal((1u << order[0]) | (1u << order[1]) | (1u << order[2]) | (1u << order[3]),
                         15);
        first[order[0]]++;
    }
    for (size_t i = 0; i < 4; i++)
        assert_in_range(first[i], 850, 1150);
    prn_random_shuffle(&r, NULL, 0);
}

static void test_rank_sum(void **state)
{
    (void)state;
    /* Of the 20 ways to choose 3 of 6, two are as far out. */
    assert_near(prn_stats_rank_sum((double[]){1, 2, 3}, 3, (double[]){4, 5, 6}, 3), 0.1, 1e-15);
    assert_near(prn_stats_rank_sum((double[]){4, 5, 6}, 3, (double[]){1, 2, 3}, 3), 0.1, 1e-15);
    assert_near(prn_stats_rank_sum((double[]){1, 4, 5}, 3, (double[]){2, 3, 6}, 3), 1, 1e-15);
    /* An outlier is one rank, however far out it is. */
    double far = prn_stats_rank_sum((double[]){1, 2, 3, 1e9}, 4, (double[]){4, 5, 6, 7}, 4);
    double near = prn_stats_rank_sum((double[]){1, 2, 3, 8}, 4, (double[]){4, 5, 6, 7}, 4);
    assert_true(far == near);
    /* Equal values share ranks: 2.5 of {1, 2} in 10 of the 20 ways, and so on by hand. */
    assert_near(prn_stats_rank_sum((double[]){1, 1, 2}, 3, (double[]){2, 3, 3}, 3), 0.2, 1e-15);
    assert_near(prn_stats_rank_sum((double[]){5, 5}, 2, (double[]){5, 5, 5}, 3), 1, 1e-15);
    assert_near(prn_stats_rank_sum((double[]){1}, 1, NULL, 0), 1, 1e-15);
    /* The normal distribution takes over without a jump, and on the cautious side far out. */
    double a[20];
    double b[20];
    for (int i = 0; i < 20; i++) {
        a[i] = i;
        b[i] = i + 6.5;
    }
    assert_near(prn_stats_rank_sum(a, 16, b, 16), 0.001238157, 1e-9);
    double wide = prn_stats_rank_sum(a, 17, b, 16); /* exactly 0.00283 */
    assert_true(wide > 0.0028 && wide < 0.004);
    for (int i = 0; i < 20; i++)
        b[i] = i + 100;
    double apart = prn_stats_rank_sum(a, 20, b, 20);
    assert_true(apart < 1e-6 && apart > 2 / 1.378e11);
}

static void test_persistence(void **state)
{
    (void)state;
    struct prn_random random;
    prn_random_seed(&random, 3);
    double values[1000];
    /* Independent values, then ones that keep half of the one before, then a drift. */
    for (int i = 0; i < 1000; i++)
        values[i] = prn_random_normal(&random);
    assert_near(prn_stats_persistence(values, 1000), 1, 0.15);
    for (int i = 1; i < 1000; i++)
        values[i] = 0.5 * values[i - 1] + sqrt(0.75) * prn_random_normal(&random);
    assert_near(prn_stats_persistence(values, 1000), 3, 0.5);
    values[500] = 1e9; /* an outlier is one rank */
    assert_near(prn_stats_persistence(values, 1000), 3, 0.5);
    for (int i = 0; i < 1000; i++)
        values[i] = i;
    assert_near(prn_stats_persistence(values, 1000), 19, 1e-9);
    for (int i = 0; i < 1000; i++)
        values[i] = i % 2;
    assert_near(prn_stats_persistence(values, 1000), 1, 1e-9);
    memset(values, 0, sizeof values);
    assert_near(prn_stats_persistence(values, 1000), 1, 0.01);
    assert_near(prn_stats_persistence(values, 7), 1, 1e-9);
    assert_near(prn_stats_z_of_p(0.05), 1.959964, 1e-6);
    assert_near(prn_stats_p_of_z(prn_stats_z_of_p(1e-30)) / 1e-30, 1, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort),
        cmocka_unit_test(test_quantiles),
        cmocka_unit_test(test_mean_and_sd),
        cmocka_unit_test(test_student_table),
        cmocka_unit_test(test_student_formulas),
        cmocka_unit_test(test_student_cdf),
        cmocka_unit_test(test_welch),
        cmocka_unit_test(test_welch_knows_its_limits),
        cmocka_unit_test(test_holm),
        cmocka_unit_test(test_percentile_need),
        cmocka_unit_test(test_mean_interval),
        cmocka_unit_test(test_interval_covers),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_shuffle),
        cmocka_unit_test(test_rank_sum),
        cmocka_unit_test(test_persistence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
