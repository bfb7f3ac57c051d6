/* The load generator: its arrivals, and what its workers do with a runtime that isn't one. */
#include "exec/drive.h"
#include "exec/executor.h"

#include "unit.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define ROOM 20000

static struct prn_drive_request requests[ROOM];

/* ---- Arrivals ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void gaps_are_exponential(void **state)
{
    (void)state;
    static double gaps[ROOM];
    struct prn_drive_plan plan = {
        .rate = 1000, .seed = 1, .most_requests = ROOM, .span_ns = INT64_MAX / 2};
    assert_int_equal(prn_drive_schedule(&plan, requests), ROOM);
    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < ROOM; i++) {
        gaps[i] = (double)(requests[i].due_ns - (i ? requests[i - 1].due_ns : 0)) * 1e-6;
        assert_true(gaps[i] >= 0);
        sum += gaps[i];
        squares += gaps[i] * gaps[i];
    }
    /* A mean of 1 ms with a standard error of 1/√20000, and a variance of 1 with one of √(8/20000);
     * four of each. */
    double mean = sum / ROOM;
    assert_float_equal(mean, 1, 4 * 0.0070711);
    assert_float_equal(squares / ROOM - mean * mean, 1, 4 * 0.02);
    /* Kolmogorov and Smirnov: at 1 % the largest distance to 1 - exp(-x) is 1.628/√n. */
    qsort(gaps, ROOM, sizeof *gaps, by_size);
    double distance = 0;
    for (size_t i = 0; i < ROOM; i++) {
        double expected = 1 - exp(-gaps[i]);
        distance = fmax(distance, fabs(expected - (double)i / ROOM));
        distance = fmax(distance, fabs((double)(i + 1) / ROOM - expected));
    }
    assert_true(distance < 1.628 / sqrt(ROOM));
}

static void arrivals_keep_to_span_and_room(void **state)
{
    (void)state;
    struct prn_drive_plan plan = {
        .rate = 1000, .seed = 3, .most_requests = ROOM, .span_ns = 1000000000};
    size_t n = prn_drive_schedule(&plan, requests);
    /* 1000 expected, standard deviation 31.6. */
    assert_in_range(n, 870, 1130);
    assert_true(requests[n - 1].due_ns < plan.span_ns);
    int64_t first_ns = requests[0].due_ns;
    prn_drive_schedule(&plan, requests);
    assert_int_equal(requests[0].due_ns, first_ns); /* the same seed, the same times */
    plan.seed = 4;
    prn_drive_schedule(&plan, requests);
    assert_int_not_equal(requests[0].due_ns, first_ns);
    plan.most_requests = 10;
    assert_int_equal(prn_drive_schedule(&plan, requests), 10);
    plan.span_ns = 0;
    assert_int_equal(prn_drive_schedule(&plan, requests), 0);
}

/* ---- Workers ---- */

/* A runtime whose runs sleep, fail or stall by number. All lanes are the same one. */
struct prn_runtime {
    int64_t run_ns; /* each takes at least this */
    long stall_run; /* which one takes stall_ns more, from 1; 0: none */
    int64_t stall_ns;
    long stall_until; /* or as long as there were fewer runs than this */
    int together;     /* runs wait until there are so many at the same time */
    long fail_run;    /* which one fails; 0: none */
    atomic_int inside, most_inside;
    atomic_long runs, prepared;
};

static struct prn_runtime all;

static void sleep_ns(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static int fake_prepare(struct prn_runtime *r, struct prony_error *err)
{
    (void)err;
    atomic_fetch_add(&r->prepared, 1);
    return 0;
}

static int fake_run(struct prn_runtime *r, struct prony_error *err)
{
    int inside = atomic_fetch_add(&r->inside, 1) + 1;
    int most = atomic_load(&r->most_inside);
    while (inside > most && !atomic_compare_exchange_weak(&r->most_inside, &most, inside))
        ;
    long run = atomic_fetch_add(&r->runs, 1) + 1;
    while (atomic_load(&r->most_inside) < r->together)
        sleep_ns(100000);
    if (r->run_ns > 0)
        sleep_ns(r->run_ns);
    if (run == r->stall_run) {
        sleep_ns(r->stall_ns);
        while (atomic_load(&r->runs) < r->stall_until)
            sleep_ns(100000);
    }
    atomic_fetch_sub(&r->inside, 1);
    return run == r->fail_run ? prn_fail(err, PRONY_ERUNTIME, "run %ld failed", run) : 0;
}

static const struct prn_runtime_ops fake = {.prepare = fake_prepare, .run = fake_run};
static struct prn_runtime *const lanes[] = {&all, &all, &all, &all};

static struct prn_drive_end drive(struct prn_drive_plan plan)
{
    struct prn_drive_end end;
    struct prony_error err;
    plan.most_requests = plan.most_requests ? plan.most_requests : ROOM;
    plan.patience_ns = plan.patience_ns ? plan.patience_ns : 60000000000;
    if (prn_drive(&plan, &fake, lanes, requests, &end, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(end.n, atomic_load(&all.runs));
    assert_int_equal(end.n, atomic_load(&all.prepared));
    for (size_t i = 0; i < end.n; i++) {
        assert_true(requests[i].start_ns >= requests[i].due_ns);
        assert_true(requests[i].start_ns >= requests[i].ready_ns);
        assert_true(requests[i].end_ns - requests[i].start_ns >= all.run_ns);
    }
    return end;
}

static void every_arrival_is_answered(void **state)
{
    (void)state;
    all = (struct prn_runtime){.run_ns = 0};
    static struct prn_drive_request planned[ROOM];
    struct prn_drive_plan plan = {.workers = 3, .rate = 20000, .seed = 5, .span_ns = 100000000};
    plan.most_requests = ROOM;
    size_t n = prn_drive_schedule(&plan, planned);
    struct prn_drive_end end = drive(plan);
    assert_int_equal(end.n, n);
    assert_false(end.gave_up);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(requests[i].due_ns, planned[i].due_ns);
}

/* Requests that came while the only worker was stuck waited for the rest of the stall. */
static void stall_shows_in_all_that_came_during_it(void **state)
{
    (void)state;
    all = (struct prn_runtime){.stall_run = 50, .stall_ns = 200000000};
    struct prn_drive_end end =
        drive((struct prn_drive_plan){.workers = 1, .rate = 500, .seed = 6, .span_ns = 500000000});
    assert_true(end.n > 150);
    int64_t stuck_from = requests[49].start_ns;
    int64_t stuck_until = requests[49].end_ns;
    assert_true(stuck_until - stuck_from >= 200000000);
    size_t during = 0;
    for (size_t i = 50; i < end.n && requests[i].due_ns < stuck_until; i++) {
        if (requests[i].due_ns < stuck_from)
            continue;
        assert_true(requests[i].end_ns - requests[i].due_ns >= stuck_until - requests[i].due_ns);
        assert_true(requests[i].ready_ns > requests[i].due_ns);
        during++;
    }
    /* 100 are expected in 200 ms, and the schedule doesn't depend on the machine. */
    assert_true(during > 50);
}

/* With a second worker, what the first one is stuck with delays nobody: it isn't let go before all
 * the others were answered. */
static void another_worker_goes_on(void **state)
{
    (void)state;
    struct prn_drive_plan plan = {
        .workers = 2, .rate = 500, .seed = 7, .most_requests = ROOM, .span_ns = 100000000};
    long n = (long)prn_drive_schedule(&plan, requests);
    all = (struct prn_runtime){.stall_run = 10, .stall_until = n};
    struct prn_drive_end end = drive(plan);
    assert_int_equal(end.n, n);
    assert_int_equal(atomic_load(&all.most_inside), 2);
}

static void closed_loop_keeps_workers_busy(void **state)
{
    (void)state;
    all = (struct prn_runtime){.together = 4};
    struct prn_drive_end end =
        drive((struct prn_drive_plan){.workers = 4, .most_requests = 100, .span_ns = 60000000000});
    assert_int_equal(end.n, 100);
    assert_int_equal(atomic_load(&all.most_inside), 4);
    for (size_t i = 0; i < end.n; i++)
        assert_int_equal(requests[i].due_ns, requests[i].ready_ns);
    all = (struct prn_runtime){.run_ns = 2000000};
    end = drive((struct prn_drive_plan){.workers = 2, .span_ns = 20000000});
    assert_in_range(end.n, 0, 2 * 11); /* one is under way when time is up */
}

static void overload_is_given_up(void **state)
{
    (void)state;
    all = (struct prn_runtime){.run_ns = 5000000};
    /* Ten times as many as it can answer, for a minute. */
    struct prn_drive_end end = drive((struct prn_drive_plan){
        .workers = 1, .rate = 2000, .seed = 8, .span_ns = 60000000000, .patience_ns = 100000000});
    assert_true(end.gave_up);
    /* Waiting grows by at least 4.5 ms with each; 100 ms are reached by the thirtieth. */
    assert_in_range(end.n, 1, 40);
}

static void failure_ends_all_workers(void **state)
{
    (void)state;
    struct prn_drive_end end;
    struct prony_error err;
    all = (struct prn_runtime){.fail_run = 20};
    struct prn_drive_plan plan = {
        .workers = 4, .most_requests = ROOM, .span_ns = 60000000000, .patience_ns = 60000000000};
    assert_int_equal(prn_drive(&plan, &fake, lanes, requests, &end, &err), PRONY_ERUNTIME);
    assert_string_equal(err.text, "run 20 failed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_are_exponential),
        cmocka_unit_test(arrivals_keep_to_span_and_room),
        cmocka_unit_test(every_arrival_is_answered),
        cmocka_unit_test(stall_shows_in_all_that_came_during_it),
        cmocka_unit_test(another_worker_goes_on),
        cmocka_unit_test(closed_loop_keeps_workers_busy),
        cmocka_unit_test(overload_is_given_up),
        cmocka_unit_test(failure_ends_all_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
