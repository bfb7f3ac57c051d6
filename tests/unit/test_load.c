/* Load: options, the arithmetic from requests to rows, and the search for a rate. */
#include "measure/load/parts.h"

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

static void note(struct prn_slo *slo, enum prn_slo_verdict verdict, bool confirms)
{
    double rate = prn_slo_next_per_s(slo);
    assert_true(rate > 0 && rate < slo->capacity_per_s);
    slo->trials[slo->n_trials++] =
        (struct prn_slo_trial){.rate_per_s = rate, .verdict = verdict, .confirms = confirms};
}

/* The search brackets a rate, and only a confirmed one is called held. */
static void rate_is_found_by_bisection(void **state)
{
    (void)state;
    struct prn_slo_trial trials[PRN_SLO_TRIALS_MAX];
    struct prn_slo slo = {
        .percentile = 0.99, .limit_ns = 100e6, .capacity_per_s = 100, .trials = trials};
    slo.single_ns = 10e6;
    for (int i = 0; i < PRN_SLO_TRIALS_MAX && !isnan(prn_slo_next_per_s(&slo)); i++) {
        bool holds = prn_slo_next_per_s(&slo) <= 61;
        note(&slo, holds ? PRN_SLO_VERDICT_HOLDS : PRN_SLO_VERDICT_FAILS, false);
    }
    assert_true(slo.n_trials < 9);
    assert_true(prn_slo_seen_per_s(&slo) <= 61 && prn_slo_fails_per_s(&slo) > 61);
    assert_true(prn_slo_fails_per_s(&slo) <= 1.09 * prn_slo_seen_per_s(&slo));
    assert_true(isnan(prn_slo_holds_per_s(&slo)));
    assert_null(prn_slo_confirmation(&slo));
    slo.trials[slo.n_trials++] = (struct prn_slo_trial){
        .rate_per_s = 58, .verdict = PRN_SLO_VERDICT_HOLDS, .confirms = true};
    assert_near(prn_slo_holds_per_s(&slo), 58, 0);
    assert_ptr_equal(prn_slo_confirmation(&slo), &slo.trials[slo.n_trials - 1]);
    /* A limit that lone requests just about hold: few may wait, but a tenth may. */
    struct prn_slo tight = {
        .percentile = 0.9, .limit_ns = 10e6, .single_ns = 10e6, .capacity_per_s = 100};
    assert_true(prn_slo_next_per_s(&tight) >= 5 && prn_slo_next_per_s(&tight) <= 10);
    /* What isn't known doesn't hold, but it doesn't fail either. */
    struct prn_slo_trial unsure[PRN_SLO_TRIALS_MAX];
    struct prn_slo open = slo;
    open.trials = unsure;
    open.n_trials = 0;
    note(&open, PRN_SLO_VERDICT_UNSURE, false);
    assert_true(isnan(prn_slo_fails_per_s(&open)) && isnan(prn_slo_seen_per_s(&open)));
    assert_true(prn_slo_next_per_s(&open) < unsure[0].rate_per_s);
}

static void hopeless_search_ends(void **state)
{
    (void)state;
    struct prn_slo_trial trials[PRN_SLO_TRIALS_MAX];
    struct prn_slo slo = {
        .percentile = 0.99, .limit_ns = 1e9, .capacity_per_s = 64, .trials = trials};
    for (int i = 0; i < PRN_SLO_TRIALS_MAX && !isnan(prn_slo_next_per_s(&slo)); i++)
        note(&slo, PRN_SLO_VERDICT_FAILS, false);
    assert_in_range(slo.n_trials, 3, 12);
    assert_true(prn_slo_fails_per_s(&slo) <= 0.02 * 64);
    assert_true(isnan(prn_slo_holds_per_s(&slo)));
    struct prn_slo single = {.percentile = 0.99, .capacity_per_s = 64, .single_fails = true};
    assert_true(isnan(prn_slo_next_per_s(&single)));
    struct prn_slo unknown = {.percentile = 0.99, .capacity_per_s = NAN};
    assert_true(isnan(prn_slo_next_per_s(&unknown)));
}

/* The closer to capacity, the longer a trial; never less than 2 s, 30 busy periods, and the
 * requests that a percentile needs. */
static void trials_last_until_the_queue_has_settled(void **state)
{
    (void)state;
    struct prn_slo fast = {.percentile = 0.9, .capacity_per_s = 10000};
    assert_true(prn_slo_trial_s(&fast, 1000) >= 2);
    struct prn_slo slow = {.percentile = 0.9, .capacity_per_s = 100};
    assert_true(prn_slo_trial_s(&slow, 50) >= 30 / (50 * 0.5));
    assert_true(prn_slo_trial_s(&slow, 90) > 3 * prn_slo_trial_s(&slow, 80));
    struct prn_slo tail = {.percentile = 0.999, .capacity_per_s = 100};
    assert_true(prn_slo_trial_s(&tail, 50) * 50 >= 7992);
    struct prn_slo varied = {.percentile = 0.9, .capacity_per_s = 100, .variation = 3};
    assert_near(prn_slo_trial_s(&varied, 90), 4 * prn_slo_trial_s(&slow, 90), 1e-9);
    assert_true(prn_slo_confirm_s(&slow, 90, 60) >= 2 * prn_slo_trial_s(&slow, 90));
    assert_near(prn_slo_confirm_s(&fast, 1000, 60), 15, 1e-9);
}

/* ---- The search on a simulated queue ---- */

/* Service times of a model: a mean, of which a share takes longer by a factor. A fresh process is
 * slower or faster by a percent or two, and the machine wanders by 3 % within half a minute. */
struct simulation {
    double service_ns, slow_share, slow_factor, spread;
    double drift, drift_sd, drift_until_s; /* of the logarithm of the time, in steps of DRIFT_S */
    double speed[3];
    double now_s;
    struct prn_random random;
    struct prn_drive_request *requests;
};

#define SIMULATED_ROOM 262144
#define DRIFT_S 0.1
#define DRIFT_MEMORY_S 30

static double drawn_speed(struct simulation *s)
{
    return 1 + s->spread * (2 * prn_random_double(&s->random) - 1);
}

/* A first-order autoregression. */
static double machine_at(struct simulation *s, double at_s)
{
    const double keeps = exp(-DRIFT_S / DRIFT_MEMORY_S);
    while (s->drift_until_s < at_s) {
        s->drift = keeps * s->drift +
                   sqrt(1 - keeps * keeps) * s->drift_sd * prn_random_normal(&s->random);
        s->drift_until_s += DRIFT_S;
    }
    return exp(s->drift);
}

static double drawn_service(struct simulation *s, size_t launch, int64_t start_ns)
{
    bool slow = prn_random_double(&s->random) < s->slow_share;
    return s->service_ns * s->speed[launch] * (slow ? s->slow_factor : 1) *
           machine_at(s, s->now_s + 1e-9 * (double)start_ns);
}

static int simulate(void *context, size_t launch, double rate_per_s, double seconds,
                    struct prn_load_tally *tally, struct prony_error *err)
{
    struct simulation *s = context;
    double room_s = 0.9 * SIMULATED_ROOM / rate_per_s;
    struct prn_drive_plan plan = {.workers = 1,
                                  .rate = rate_per_s,
                                  .seed = prn_random_u64(&s->random),
                                  .most_requests = SIMULATED_ROOM,
                                  .span_ns = (int64_t)(fmin(seconds, room_s) * 1e9)};
    struct prn_drive_end end = {.n = prn_drive_schedule(&plan, s->requests)};
    int64_t free_ns = 0;
    for (size_t i = 0; i < end.n; i++) {
        struct prn_drive_request *r = &s->requests[i];
        r->ready_ns = free_ns;
        r->start_ns = r->due_ns > free_ns ? r->due_ns : free_ns;
        r->end_ns = free_ns = r->start_ns + (int64_t)drawn_service(s, launch, r->start_ns);
    }
    s->now_s += (double)(free_ns > plan.span_ns ? free_ns : plan.span_ns) * 1e-9;
    return prn_load_tally_add(tally, &plan, s->requests, &end, (int32_t)launch, false, err);
}

static int renew(void *context, struct prony_error *err)
{
    (void)err;
    struct simulation *s = context;
    s->speed[2] = drawn_speed(s);
    s->now_s += 0.5;
    return 0;
}

static double simulated_now(void *context)
{
    return ((struct simulation *)context)->now_s;
}

static struct simulation new_simulation(double service_ns, uint64_t seed)
{
    struct simulation s = {.service_ns = service_ns, .slow_share = 0.02, .slow_factor = 4};
    s.spread = 0.02;
    s.drift_sd = 0.03;
    prn_random_seed(&s.random, seed);
    s.drift = s.drift_sd * prn_random_normal(&s.random);
    s.requests = calloc(SIMULATED_ROOM, sizeof *s.requests);
    assert_non_null(s.requests);
    for (size_t i = 0; i < 3; i++)
        s.speed[i] = drawn_speed(&s);
    return s;
}

static struct prn_slo simulated_slo(const struct simulation *s, double percentile, double limit)
{
    double mean = 1 + s->slow_share * (s->slow_factor - 1);
    double square = 1 + s->slow_share * (s->slow_factor * s->slow_factor - 1);
    return (struct prn_slo){.percentile = percentile,
                            .limit_ns = limit * s->service_ns,
                            .capacity_per_s = 1e9 / (mean * s->service_ns),
                            .single_ns = s->service_ns,
                            .variation = square / (mean * mean) - 1,
                            .needed_s = NAN};
}

/* Whether a rate holds for 30 s in a process that the search didn't see. */
static bool holds_for_30_s(struct simulation *s, const struct prn_slo *slo, double rate_per_s)
{
    struct prn_load_tally t = PRN_LOAD_TALLY_INIT;
    s->speed[0] = drawn_speed(s);
    double left_s = 30;
    while (left_s > 0.01) {
        assert_int_equal(simulate(s, 0, rate_per_s, left_s, &t, NULL), 0);
        left_s -= 0.9 * SIMULATED_ROOM / rate_per_s;
    }
    double share = prn_load_share_over(t.samples, t.n, slo->limit_ns).estimate;
    prn_load_tally_release(&t);
    return share <= 1 - slo->percentile;
}

/* Rates that are called held hold for 30 s: at least 95 % of them. What was confirmed doesn't: of
 * those without anything to spare one in ten fails. The search finds nearly always a rate. */
static void held_rates_hold(void **state)
{
    (void)state;
    static const struct {
        double service_ns, percentile, limit; /* in services */
        double max_time_s;
    } cases[] = {{1e5, 0.9, 20, 60},  {1e6, 0.99, 20, 60}, {1e6, 0.9, 30, 15},
                 {1e6, 0.99, 50, 60}, {1e7, 0.9, 5, 60},   {1e7, 0.99, 20, 60}};
    int searches = 0;
    int held = 0;
    int wrong = 0;
    int wrong_confirmed = 0;
    for (size_t c = 0; c < PRN_ARRAY_SIZE(cases); c++)
        for (uint64_t seed = 0; seed < 10; seed++, searches++) {
            struct simulation s = new_simulation(cases[c].service_ns, seed * 7 + c);
            struct prn_slo_trial trials[PRN_SLO_TRIALS_MAX];
            struct prn_slo slo = simulated_slo(&s, cases[c].percentile, cases[c].limit);
            slo.trials = trials;
            const struct prn_slo_world world = {&s, 3, simulate, renew, simulated_now};
            assert_int_equal(prn_slo_find(&world, cases[c].max_time_s, &slo, NULL), 0);
            assert_true(s.now_s < 1.6 * cases[c].max_time_s);
            double rate = prn_slo_holds_per_s(&slo);
            for (size_t i = 0; i < slo.n_trials; i++)
                assert_true(trials[i].duration_s >= 1.9);
            if (!isnan(rate)) {
                held++;
                wrong += !holds_for_30_s(&s, &slo, rate);
                wrong_confirmed +=
                    !holds_for_30_s(&s, &slo, prn_slo_confirmation(&slo)->rate_per_s);
            } else {
                assert_true(slo.complete || slo.needed_s > cases[c].max_time_s);
            }
            free(s.requests);
        }
    print_message("of %d searches %d found a rate; %d of these failed, %d of those confirmed\n",
                  searches, held, wrong, wrong_confirmed);
    assert_true(held >= searches * 3 / 4);
    assert_true(wrong * 20 <= held);
}

/* Without the time for it nothing is called held, and it is said how much it would take. */
static void too_little_time_is_said(void **state)
{
    (void)state;
    struct simulation s = new_simulation(1e7, 1);
    struct prn_slo_trial trials[PRN_SLO_TRIALS_MAX];
    struct prn_slo slo = simulated_slo(&s, 0.99, 10);
    slo.trials = trials;
    const struct prn_slo_world world = {&s, 3, simulate, renew, simulated_now};
    assert_int_equal(prn_slo_find(&world, 5, &slo, NULL), 0);
    assert_true(isnan(prn_slo_holds_per_s(&slo)));
    assert_false(slo.complete);
    assert_true(slo.needed_s > 5 && s.now_s < 10);
    double needed_s = slo.needed_s;
    slo.n_trials = 0;
    slo.needed_s = NAN;
    assert_int_equal(prn_slo_find(&world, 2 * needed_s, &slo, NULL), 0);
    assert_false(isnan(prn_slo_holds_per_s(&slo)));
    free(s.requests);
}

/* Within the limit, but growing from slice to slice: not known. */
static void a_queue_that_grows_is_not_held(void **state)
{
    (void)state;
    struct prn_load_tally t = PRN_LOAD_TALLY_INIT;
    t.slices = 10;
    for (int64_t i = 0; i < 2000; i++) {
        int64_t due = i * 5 * MS;
        int64_t start = due + i * MS / 200;
        requests[i] = (struct prn_drive_request){due, due, start, start + 1 * MS};
    }
    add(&t, (struct prn_drive_plan){.workers = 1, .rate = 200, .span_ns = (int64_t)10000 * MS},
        2000, 0);
    struct prn_slo slo = {.percentile = 0.9, .limit_ns = 20.0 * MS, .capacity_per_s = 1000};
    struct prn_slo_trial trial = {.rate_per_s = 200};
    assert_true(prn_load_tally_grows(&t, slo.limit_ns));
    assert_false(prn_load_tally_grows(&t, 1e10));
    assert_int_equal(prn_slo_judge(&slo, &t, &trial, NULL), 0);
    assert_int_equal(trial.verdict, PRN_SLO_VERDICT_UNSURE);
    prn_load_tally_release(&t);
    t.slices = 10;
    for (int64_t i = 0; i < 2000; i++)
        requests[i].end_ns = requests[i].due_ns + (i % 7 + 1) * MS;
    add(&t, (struct prn_drive_plan){.workers = 1, .rate = 200, .span_ns = (int64_t)10000 * MS},
        2000, 0);
    assert_false(prn_load_tally_grows(&t, slo.limit_ns));
    assert_int_equal(prn_slo_judge(&slo, &t, &trial, NULL), 0);
    assert_int_equal(trial.verdict, PRN_SLO_VERDICT_HOLDS);
    prn_load_tally_release(&t);
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
        cmocka_unit_test(trials_last_until_the_queue_has_settled),
        cmocka_unit_test(held_rates_hold),
        cmocka_unit_test(too_little_time_is_said),
        cmocka_unit_test(a_queue_that_grows_is_not_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
