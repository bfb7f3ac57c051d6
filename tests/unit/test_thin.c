/* What is left of big data: extremes and counts. */
#include "unit.h"

#include "report/thin.h"

#include <stdlib.h>

#define MANY 100003

static void series_that_is_short_enough_stays(void **state)
{
    (void)state;
    const int64_t values[] = {5, 3, 9};
    struct prn_thin_bucket buckets[8];
    assert_int_equal(prn_thin_series(values, 3, 8, buckets), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(buckets[i].first, i);
        assert_int_equal(buckets[i].count, 1);
        assert_int_equal(buckets[i].low, values[i]);
        assert_int_equal(buckets[i].high, values[i]);
    }
    assert_int_equal(prn_thin_series(values, 0, 8, buckets), 0);
}

static void series_keeps_extremes_and_every_value_once(void **state)
{
    (void)state;
    int64_t *values = calloc(MANY, sizeof *values);
    struct prn_thin_bucket buckets[97];
    assert_non_null(values);
    for (size_t i = 0; i < MANY; i++)
        values[i] = (int64_t)(i * 7919 % 1009);
    values[50001] = -7;
    values[MANY - 1] = 12345;
    assert_int_equal(prn_thin_series(values, MANY, 97, buckets), 97);
    size_t next = 0;
    for (size_t i = 0; i < 97; i++) {
        assert_int_equal(buckets[i].first, next);
        assert_in_range(buckets[i].count, MANY / 97, MANY / 97 + 1);
        for (size_t k = next; k < next + buckets[i].count; k++)
            assert_true(values[k] >= buckets[i].low && values[k] <= buckets[i].high);
        next += buckets[i].count;
    }
    assert_int_equal(next, MANY);
    assert_int_equal(buckets[50001 * 97 / MANY].low, -7);
    assert_int_equal(buckets[96].high, 12345);
    free(values);
}

static uint64_t sum(const uint64_t *counts, size_t n)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += counts[i];
    return total;
}

static void histogram_counts_all(void **state)
{
    (void)state;
    int64_t sorted[100];
    uint64_t counts[10];
    for (size_t i = 0; i < 100; i++)
        sorted[i] = 1000 + (int64_t)i;
    struct prn_thin_histogram h = prn_thin_histogram(sorted, 100, 10, counts);
    assert_int_equal(h.low, 1000);
    assert_int_equal(h.high, 1099);
    assert_int_equal(h.above, 0);
    assert_int_equal(sum(counts, 10), 100);
    assert_int_equal(counts[0], 10);
    assert_int_equal(counts[9], 10);
}

static void histogram_sets_outliers_apart(void **state)
{
    (void)state;
    int64_t sorted[100];
    uint64_t counts[10];
    for (size_t i = 0; i < 98; i++)
        sorted[i] = 1000 + (int64_t)i;
    sorted[98] = 90000;
    sorted[99] = 1000000;
    struct prn_thin_histogram h = prn_thin_histogram(sorted, 100, 10, counts);
    /* The quartiles are 1025 and 1075. */
    assert_int_equal(h.high, 1075 + 6 * 50);
    assert_int_equal(h.above, 2);
    assert_int_equal(sum(counts, 10), 98);
}

static void histogram_of_equal_values(void **state)
{
    (void)state;
    const int64_t sorted[] = {7, 7, 7, 9000};
    uint64_t counts[4];
    struct prn_thin_histogram h = prn_thin_histogram(sorted, 3, 4, counts);
    assert_int_equal(h.low, 7);
    assert_int_equal(h.high, 7);
    assert_int_equal(counts[0], 3);
    h = prn_thin_histogram(sorted, 1, 4, counts);
    assert_int_equal(h.above, 0);
    assert_int_equal(counts[0], 1);
    h = prn_thin_histogram(sorted, 4, 4, counts);
    assert_int_equal(sum(counts, 4) + h.above, 4);
}

static void spans_that_are_few_are_only_sorted(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT(1 << 20);
    struct prn_thin_span spans[] = {{30, 5, 0, 0, 0}, {10, 5, 1, 1, 0}, {10, 50, 1, 2, 0}};
    struct prn_thin_spans thinned;
    assert_int_equal(prn_thin_spans(spans, 3, 10, 10, 50, 100, &arena, &thinned, NULL), 0);
    assert_int_equal(thinned.n, 3);
    assert_int_equal(thinned.n_rest, 0);
    /* What contains another comes before it. */
    assert_int_equal(spans[0].name, 2);
    assert_int_equal(spans[1].name, 1);
    assert_int_equal(spans[2].name, 0);
    assert_int_equal(prn_thin_spans(NULL, 0, 10, 0, 0, 100, &arena, &thinned, NULL), 0);
    assert_int_equal(thinned.n + thinned.n_rest, 0);
    prn_arena_release(&arena);
}

static void longest_spans_are_kept_and_the_rest_is_counted(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT(1 << 20);
    struct prn_thin_span spans[1000];
    struct prn_thin_spans thinned;
    uint64_t count = 0;
    int64_t busy_ns = 0;
    for (uint32_t i = 0; i < 1000; i++)
        spans[i] = (struct prn_thin_span){10 * (int64_t)i, i % 100 == 7 ? 9 : 1, i % 2, i, 0};
    assert_int_equal(prn_thin_spans(spans, 1000, 10, 0, 10000, 50, &arena, &thinned, NULL), 0);
    assert_int_equal(thinned.n, 10);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(spans[i].name, 100 * i + 7);
    for (size_t i = 0; i < thinned.n_rest; i++) {
        assert_in_range(thinned.rest[i].pixel, 0, 49);
        count += thinned.rest[i].count;
        busy_ns += thinned.rest[i].busy_ns;
    }
    assert_int_equal(thinned.n_rest, 2 * 50);
    assert_int_equal(count, 990);
    assert_int_equal(busy_ns, 990);
    prn_arena_release(&arena);
}

static void spans_need_memory(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT(8);
    struct prn_thin_span spans[20] = {0};
    struct prn_thin_spans thinned;
    struct prony_error err;
    assert_int_equal(prn_thin_spans(spans, 20, 1, 0, 0, 50, &arena, &thinned, &err), PRONY_ENOMEM);
    prn_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series_that_is_short_enough_stays),
        cmocka_unit_test(series_keeps_extremes_and_every_value_once),
        cmocka_unit_test(histogram_counts_all),
        cmocka_unit_test(histogram_sets_outliers_apart),
        cmocka_unit_test(histogram_of_equal_values),
        cmocka_unit_test(spans_that_are_few_are_only_sorted),
        cmocka_unit_test(longest_spans_are_kept_and_the_rest_is_counted),
        cmocka_unit_test(spans_need_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
