/* Load: options, the arithmetic from requests to rows, and the search for a rate. */
#include "measure/load_engine.h"

#include "unit.h"

#include <math.h>
#include <stdlib.h>

#define MS 1000000
#define ROOM 30000

static struct prn_drive_request requests[ROOM];

/* ---- Options ---- */

static void rates_are_read(void **state)
{
    (void)state;
    struct prn_load_settings s = {0};
    assert_int_equal(prn_load_parse_rates("100/s,6000/min", &s, NULL), 0);
    assert_int_equal(prn_load_parse_rates("0.5/s", &s, NULL), 0);
    assert_int_equal(prn_load_parse_rates("1e3/s,36/h", &s, NULL), 0);
    const double expected[] = {100, 100, 0.5, 1000, 0.01};
    assert_int_equal(s.n_rates, 5);
    for (size_t i = 0; i < 5; i++)
        assert_near(s.rates[i], expected[i], 1e-12);
    assert_true(prn_load_wanted(&s));
    assert_int_equal(prn_load_check(&s, NULL), PRONY_EUSAGE); /* 100/s twice */
    static const char *const wrong[] = {"",      "100",    "/s",    "100/d", "-5/s", "0/s",
                                        "inf/s", "0x10/s", "1 0/s", "5/s,",  ",5/s", "5/ss",
                                        "1e9/s", "1e-9/s", "nan/s", "5 /s"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(wrong); i++) {
        struct prn_load_settings fresh = {0};
        assert_int_equal(prn_load_parse_rates(wrong[i], &fresh, NULL), PRONY_EUSAGE);
    }
    for (int i = 5; i < PRN_LOAD_RATES_MAX; i++)
        assert_int_equal(prn_load_parse_rates("1/s", &s, NULL), 0);
    assert_int_equal(prn_load_parse_rates("1/s", &s, NULL), PRONY_EUSAGE);
}

static void limits_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double percentile, ns;
    } right[] = {{"p99=20ms", 0.99, 20e6},
                 {"p50=1.5s", 0.5, 1.5e9},
                 {"p90=300us", 0.9, 300e3},
                 {"p95=7µs", 0.95, 7e3},
                 {"p99.9=100ns", 0.999, 100}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(right); i++) {
        struct prn_load_settings s = {0};
        assert_int_equal(prn_load_parse_slo(right[i].text, &s, NULL), 0);
        assert_true(s.percentile == right[i].percentile);
        assert_near(s.limit_ns, right[i].ns, 1e-6);
    }
    static const char *const wrong[] = {"",         "p99",      "p99=",     "p98=1ms",  "=1ms",
                                        "p99=1",    "p99=1min", "p99=-1ms", "p99=0ms",  "p99=1e9s",
                                        "p99=1ms ", "p999=1ms", "99=1ms",   "p99=nanms"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(wrong); i++) {
        struct prn_load_settings s = {0};
        assert_int_equal(prn_load_parse_slo(wrong[i], &s, NULL), PRONY_EUSAGE);
    }
}

static void duration_needs_a_load(void **state)
{
    (void)state;
    struct prn_load_settings s = {.duration_s = 1};
    assert_false(prn_load_wanted(&s));
    assert_int_equal(prn_load_check(&s, NULL), PRONY_EUSAGE);
    s.workers = 2;
    assert_int_equal(prn_load_check(&s, NULL), 0);
}

/* ---- From requests to a row ---- */

static void add(struct prn_load_tally *t, struct prn_drive_plan plan, size_t n, int32_t launch)
{
    struct prn_drive_end end = {.n = n};
    plan.most_requests = plan.most_requests ? plan.most_requests : ROOM;
    assert_int_equal(prn_load_tally_add(t, &plan, requests, &end, launch, false, NULL), 0);
}

static struct prn_load_row row_of(struct prn_load_tally *t, double asked, int64_t workers)
{
    struct prn_load_row row;
    assert_int_equal(prn_load_tally_row(t, asked, workers, &row, NULL), 0);
    prn_load_tally_release(t);
    return row;
}

static void row_by_hand(void **state)
{
    (void)state;
    /* due, ready, start, end in ms; the first one comes in the tenth that isn't counted */
    static const int64_t ms[][4] = {
        {50, 0, 50, 80}, {200, 80, 201, 231}, {210, 231, 231, 261}, {900, 261, 900, 930}};
    for (size_t i = 0; i < 4; i++)
        requests[i] =
            (struct prn_drive_request){ms[i][0] * MS, ms[i][1] * MS, ms[i][2] * MS, ms[i][3] * MS};
    struct prn_load_tally t = PRN_LOAD_TALLY_INIT;
    add(&t, (struct prn_drive_plan){.workers = 1, .rate = 4, .span_ns = 1000 * MS}, 4, 0);
    struct prn_load_row row = row_of(&t, 4, 1);
    assert_int_equal(row.requests, 3);
    assert_near(row.duration_s, 0.9, 1e-9);
    assert_near(row.achieved_per_s, 3 / 0.9, 1e-9);
    assert_near(row.p50_ns.estimate, 31.0 * MS, 1e-3); /* of 31, 51 and 30 */
    assert_true(isnan(row.p90_ns.estimate));
    assert_near(row.max_ns, 51.0 * MS, 1e-3);
    assert_near(row.wait_ns, 22.0 / 3 * MS, 1e-3); /* 1, 21 and 0 */
    assert_near(row.service_ns, 30.0 * MS, 1e-3);
    assert_near(row.mean_ns, (30 + 22.0 / 3) * MS, 1e-3);
    assert_near(row.utilisation, 0.1, 1e-9);
    /* Only two had a worker waiting for them: late by 1 and by 0; the third one queued. */
    assert_near(row.lateness_ns, 0.99 * MS, 1e-3);
    assert_int_equal(row.flags, 0);
}

/* Twice as many as can be answered. */
static void overload_by_hand(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 200; i++)
        requests[i] =
            (struct prn_drive_request){i * 5 * MS, i * 10 * MS, i * 10 * MS, (i + 1) * 10 * MS};
    struct prn_load_tally t = PRN_LOAD_TALLY_INIT;
    add(&t, (struct prn_drive_plan){.workers = 1, .rate = 200, .span_ns = 1000 * MS}, 200, 0);
    struct prn_load_row row = row_of(&t, 200, 1);
    assert_int_equal(row.flags, PRN_LOAD_FLAG_OVERLOADED);
    assert_near(row.achieved_per_s, 100, 1e-9);
    assert_near(row.utilisation, 1, 1e-9);
    assert_true(isnan(row.p50_ns.estimate) && isnan(row.wait_ns) && isnan(row.mean_ns));
    /* A block that was given up says it by itself. */
    struct prn_drive_plan plan = {
        .workers = 1, .rate = 10, .span_ns = 1000 * MS, .most_requests = ROOM};
    struct prn_drive_end end = {.n = 0, .gave_up = true};
    assert_int_equal(prn_load_tally_add(&t, &plan, requests, &end, 0, false, NULL), 0);
    assert_true(prn_load_tally_overloaded(&t));
    prn_load_tally_release(&t);
}

/* Two workers, each with a request of 40 ms after the other, looked at from 10 to 100 ms. */
static void closed_loop_by_hand(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 6; i++) {
        int64_t start = i / 2 * 40 * MS;
        requests[i] = (struct prn_drive_request){start, start, start, start + 40 * MS};
    }
    struct prn_load_tally t = PRN_LOAD_TALLY_INIT;
    add(&t, (struct prn_drive_plan){.workers = 2, .span_ns = 100 * MS}, 6, 0);
    struct prn_load_row row = row_of(&t, NAN, 2);
    assert_near(row.achieved_per_s, 50, 1e-9); /* two every 40 ms */
    assert_near(row.utilisation, 1, 1e-9);
    assert_int_equal(row.requests, 4); /* those that began after the lead */
    assert_near(row.p50_ns.estimate, 40.0 * MS, 1e-3);
    assert_true(isnan(row.wait_ns) && isnan(row.lateness_ns));
    assert_near(row.mean_ns, 40.0 * MS, 1e-3);
    assert_int_equal(row.flags, 0);
}

static void lateness_and_noise_are_flagged(void **state)
{
    (void)state;
    struct prn_drive_plan plan = {
        .workers = 1, .rate = 100, .span_ns = 1000 * MS, .most_requests = ROOM};
    struct prn_drive_end end = {.n = 90};
    for (int64_t i = 0; i < 90; i++)
        requests[i] = (struct prn_drive_request){(100 + 10 * i) * MS, (100 + 10 * i) * MS,
                                                 (101 + 10 * i) * MS, (105 + 10 * i) * MS};
    struct prn_load_tally t = PRN_LOAD_TALLY_INIT;
    for (int i = 0; i < 9; i++)
        assert_int_equal(prn_load_tally_add(&t, &plan, requests, &end, 0, i == 0, NULL), 0);
    /* One of nine is more than a tenth; 1 ms late of 5 is more than a twentieth. */
    assert_int_equal(row_of(&t, 100, 1).flags, PRN_LOAD_FLAG_NOISY | PRN_LOAD_FLAG_LATE);
    for (int i = 0; i < 10; i++)
        assert_int_equal(prn_load_tally_add(&t, &plan, requests, &end, 0, i == 0, NULL), 0);
    assert_int_equal(row_of(&t, 100, 1).flags, PRN_LOAD_FLAG_LATE);
}

/* The queue of one worker with a constant service time is the one thing about it that is known in
 * advance: the mean wait is ρS / (2 (1 - ρ)). */
static void queue_matches_theory(void **state)
{
    (void)state;
    const int64_t service_ns = 1 * MS;
    struct prn_load_tally t = PRN_LOAD_TALLY_INIT;
    for (int32_t block = 0; block < 20; block++) {
        struct prn_drive_plan plan = {.workers = 1,
                                      .rate = 500,
                                      .seed = (uint64_t)block,
                                      .most_requests = ROOM,
                                      .span_ns = (int64_t)50000 * MS};
        size_t n = prn_drive_schedule(&plan, requests);
        int64_t free_ns = 0;
        for (size_t i = 0; i < n; i++) {
            struct prn_drive_request *r = &requests[i];
            r->ready_ns = free_ns;
            r->start_ns = r->due_ns > free_ns ? r->due_ns : free_ns;
            r->end_ns = free_ns = r->start_ns + service_ns;
        }
        add(&t, plan, n, block / 4);
    }
    struct prn_load_row row = row_of(&t, 500, 1);
    assert_in_range(row.requests, 440000, 460000);
    assert_near(row.wait_ns, 0.5 * MS, 0.02 * MS);
    assert_near(row.utilisation, 0.5, 0.005);
    assert_near(row.achieved_per_s, 500, 3);
    assert_near(row.lateness_ns, 0, 1e-9);
    assert_int_equal(row.launches, 5);
    assert_int_equal(row.flags, 0);
    /* Half of the requests find nobody; 1 ms is the least. */
    assert_near(row.p50_ns.estimate, 1.0 * MS, 0.02 * MS);
    assert_true(row.p99_ns.low <= row.p99_ns.estimate && row.p99_ns.estimate <= row.p99_ns.high);
    assert_true(row.p99_ns.high - row.p99_ns.low < 0.1 * row.p99_ns.estimate);
}

/* ---- Shares ---- */

static size_t fill(struct prn_sample *samples, const int *over, int groups, int each, bool launches)
{
    size_t n = 0;
    for (int32_t g = 0; g < groups; g++)
        for (int i = 0; i < each; i++)
            samples[n++] = (struct prn_sample){i < over[g] ? 20 : 10, launches ? g : 0, g};
    return n;
}

/* Expected values from Wilson's formula with n over the design effect, computed with NumPy. */
static void shares_have_intervals(void **state)
{
    (void)state;
    static struct prn_sample samples[1000];
    static const struct {
        int over[5], groups, each;
        bool launches;
        double low, high;
    } cases[] = {
        {{0}, 5, 200, true, 0, 0.0076496787458322744},
        {{4, 4, 4, 4, 4}, 5, 200, true, 0.010888412965516693, 0.036455278630482285},
        {{0, 0, 0, 0, 20}, 5, 200, true, 0.002051864222949437, 0.16844501520704275},
        {{1, 2, 3}, 3, 100, false, 0.004109019826498167, 0.09168875831302063},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        size_t n = fill(samples, cases[i].over, cases[i].groups, cases[i].each, cases[i].launches);
        struct prn_interval share = prn_load_share_over(samples, n, 10);
        assert_near(share.low, cases[i].low, 1e-9);
        assert_near(share.high, cases[i].high, 1e-9);
    }
    assert_true(isnan(prn_load_share_over(samples, 0, 10).estimate));
    assert_near(prn_load_share_over(samples, 10, 5).high, 1, 0);
}

/* ---- The search for a rate ---- */

static void verdicts_follow_the_interval(void **state)
{
    (void)state;
    struct prn_slo slo = {.percentile = 0.99};
    struct prn_interval under = {0, 0.004, 0.01};
    struct prn_interval across = {0.002, 0.009, 0.02};
    struct prn_interval over = {0.011, 0.02, 0.03};
    assert_int_equal(prn_slo_verdict_of(&slo, under, 662), PRN_SLO_VERDICT_HOLDS);
    assert_int_equal(prn_slo_verdict_of(&slo, under, 661), PRN_SLO_VERDICT_UNSURE);
    assert_int_equal(prn_slo_verdict_of(&slo, across, 10000), PRN_SLO_VERDICT_UNSURE);
    assert_int_equal(prn_slo_verdict_of(&slo, over, 50), PRN_SLO_VERDICT_FAILS);
}

static void note(struct prn_slo *slo, double rate, enum prn_slo_verdict verdict)
{
    assert_near(prn_slo_next_per_s(slo), rate, 1e-9);
    slo->trials[slo->n_trials++] = (struct prn_slo_trial){.rate_per_s = rate, .verdict = verdict};
}

static void rate_is_found_by_bisection(void **state)
{
    (void)state;
    struct prn_slo_trial trials[20];
    struct prn_slo slo = {.percentile = 0.99, .capacity_per_s = 100, .trials = trials};
    note(&slo, 70, PRN_SLO_VERDICT_HOLDS);
    note(&slo, 85, PRN_SLO_VERDICT_FAILS);
    note(&slo, 77.5, PRN_SLO_VERDICT_HOLDS);
    note(&slo, 81.2, PRN_SLO_VERDICT_UNSURE); /* counts as not holding */
    assert_true(isnan(prn_slo_next_per_s(&slo)));
    assert_near(prn_slo_holds_per_s(&slo), 77.5, 0);
    assert_near(prn_slo_fails_per_s(&slo), 85, 0);
}

static void hopeless_search_ends(void **state)
{
    (void)state;
    struct prn_slo_trial trials[20];
    struct prn_slo slo = {.percentile = 0.99, .capacity_per_s = 64, .trials = trials};
    const double rates[] = {44.8, 22.4, 11.2, 5.6, 2.8, 1.4};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(rates); i++)
        note(&slo, rates[i], PRN_SLO_VERDICT_FAILS);
    note(&slo, 0.7, PRN_SLO_VERDICT_FAILS);
    assert_true(isnan(prn_slo_next_per_s(&slo)));
    assert_true(isnan(prn_slo_holds_per_s(&slo)));
    assert_near(prn_slo_fails_per_s(&slo), 0.7, 0);
    struct prn_slo single = {.percentile = 0.99, .capacity_per_s = 64, .single_fails = true};
    assert_true(isnan(prn_slo_next_per_s(&single)));
    struct prn_slo unknown = {.percentile = 0.99, .capacity_per_s = NAN};
    assert_true(isnan(prn_slo_next_per_s(&unknown)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_read),
        cmocka_unit_test(limits_are_read),
        cmocka_unit_test(duration_needs_a_load),
        cmocka_unit_test(row_by_hand),
        cmocka_unit_test(overload_by_hand),
        cmocka_unit_test(closed_loop_by_hand),
        cmocka_unit_test(lateness_and_noise_are_flagged),
        cmocka_unit_test(queue_matches_theory),
        cmocka_unit_test(shares_have_intervals),
        cmocka_unit_test(verdicts_follow_the_interval),
        cmocka_unit_test(rate_is_found_by_bisection),
        cmocka_unit_test(hopeless_search_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
