#include "unit.h"

#include "base/error.h"
#include "base/random.h"
#include "trace/ledger.h"

struct event {
    int64_t thread; /* -1: an Execute event */
    int64_t start;
    int64_t duration;
};

#define EXECUTE (-1)

static void node(struct prn_ledger *l, int64_t thread, int64_t start, int64_t duration)
{
    assert_int_equal(prn_ledger_node(l, thread, start, duration), 0);
}

static void execute(struct prn_ledger *l, int64_t start, int64_t duration)
{
    assert_int_equal(prn_ledger_execute(l, start, duration), 0);
}

static void add_event(struct prn_ledger *l, const struct event *e)
{
    if (e->thread == EXECUTE)
        execute(l, e->start, e->duration);
    else
        node(l, e->thread, e->start, e->duration);
}

static void check_sum(const struct prn_ledger_run *r)
{
    assert_int_equal(r->total, r->node + r->overhead + r->before + r->after + r->unexplained);
    assert_true(r->node >= 0 && r->overhead >= 0 && r->before >= 0 && r->after >= 0);
    assert_true(r->unexplained >= 0 && r->node_sum >= r->node);
}

static void check_run(const struct prn_ledger_run *actual, const struct prn_ledger_run *expected,
                      const char *name)
{
    check_sum(actual);
    const struct prn_ledger_run *a = actual;
    const struct prn_ledger_run *e = expected;
    if (a->total != e->total || a->node != e->node || a->overhead != e->overhead ||
        a->before != e->before || a->after != e->after || a->unexplained != e->unexplained ||
        a->node_sum != e->node_sum || a->nested != e->nested || a->nodes != e->nodes ||
        a->approximate != e->approximate)
        fail_msg("%s: total %jd node %jd overhead %jd before %jd after %jd unexplained %jd "
                 "node_sum %jd nested %jd nodes %ju approximate %d",
                 name, (intmax_t)a->total, (intmax_t)a->node, (intmax_t)a->overhead,
                 (intmax_t)a->before, (intmax_t)a->after, (intmax_t)a->unexplained,
                 (intmax_t)a->node_sum, (intmax_t)a->nested, (uintmax_t)a->nodes, a->approximate);
}

/* Runs from 100 to 200 unless said otherwise; worked out by hand. All use one ledger in turn, so a
 * run that left something behind would spoil the next. */
static void test_cases(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t n;
        struct event events[8];
        int64_t start;
        int64_t duration;
        struct prn_ledger_run expected;
    } cases[] = {
        {"sequential",
         4,
         {{1, 112, 20}, {1, 132, 30}, {1, 170, 10}, {EXECUTE, 110, 80}},
         100,
         100,
         {100, 60, 20, 10, 10, 0, 60, 0, 3, false}},
        /* 120–160 and 140–180: together 60, of which 20 twice. */
        {"two threads",
         3,
         {{1, 120, 40}, {2, 140, 40}, {EXECUTE, 110, 80}},
         100,
         100,
         {100, 60, 20, 10, 10, 0, 80, 0, 2, false}},
        /* If runs from 120 to 180 and reports the two nodes of its body and their Execute first. */
        {"nested if",
         6,
         {{1, 112, 6},
          {1, 125, 10},
          {1, 140, 30},
          {EXECUTE, 122, 50},
          {1, 120, 60},
          {EXECUTE, 110, 80}},
         100,
         100,
         {100, 66, 14, 10, 10, 0, 66, 40, 4, false}},
        {"no execute",
         2,
         {{1, 110, 10}, {1, 150, 20}},
         100,
         100,
         {100, 30, 0, 0, 0, 70, 30, 0, 2, false}},
        {"nothing", 0, {{0}}, 100, 100, {100, 0, 0, 0, 0, 100, 0, 0, 0, false}},
        /* Between them 140–150, of which a node takes 4. */
        {"two executes",
         5,
         {{1, 115, 10}, {EXECUTE, 110, 30}, {1, 143, 4}, {1, 155, 10}, {EXECUTE, 150, 40}},
         100,
         100,
         {100, 24, 50, 10, 10, 6, 24, 0, 3, false}},
        /* One before Execute, one across its start, one after its end. */
        {"nodes outside execute",
         5,
         {{1, 102, 3}, {1, 106, 8}, {1, 150, 10}, {EXECUTE, 110, 80}, {1, 195, 5}},
         100,
         100,
         {100, 26, 66, 3, 5, 0, 26, 0, 4, false}},
        {"outside the run",
         5,
         {{1, 50, 20}, {1, 90, 20}, {2, 190, 50}, {1, 300, 10}, {EXECUTE, 80, 300}},
         100,
         100,
         {100, 20, 80, 0, 0, 0, 20, 0, 4, false}},
        {"execute outside the run",
         2,
         {{1, 110, 10}, {EXECUTE, 20, 80}},
         100,
         100,
         {100, 10, 0, 0, 0, 90, 10, 0, 1, false}},
        {"execute of no length",
         2,
         {{1, 110, 10}, {EXECUTE, 115, 0}},
         100,
         100,
         {100, 10, 0, 10, 80, 0, 10, 0, 1, false}},
        {"run of no length",
         2,
         {{1, 90, 20}, {EXECUTE, 90, 20}},
         100,
         0,
         {0, 0, 0, 0, 0, 0, 0, 0, 1, false}},
        {"out of order",
         5,
         {{EXECUTE, 110, 80}, {1, 170, 10}, {2, 125, 10}, {1, 112, 20}, {1, 120, 20}},
         100,
         100,
         {100, 38, 42, 10, 10, 0, 48, 12, 4, false}},
        {"negative times",
         2,
         {{1, -80, 30}, {EXECUTE, -90, 80}},
         -100,
         100,
         {100, 30, 50, 10, 10, 0, 30, 0, 1, false}},
        {"negative durations",
         2,
         {{1, 150, -30}, {EXECUTE, 110, 80}},
         100,
         100,
         {100, 0, 80, 10, 10, 0, 0, 0, 1, false}},
    };
    struct prn_ledger *l = prn_ledger_new();
    assert_non_null(l);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        for (size_t j = 0; j < cases[i].n; j++)
            add_event(l, &cases[i].events[j]);
        struct prn_ledger_run run;
        prn_ledger_close(l, cases[i].start, cases[i].duration, &run);
        check_run(&run, &cases[i].expected, cases[i].name);
    }
    prn_ledger_free(l);
    prn_ledger_free(NULL);
}

static void test_clear(void **state)
{
    (void)state;
    struct prn_ledger *l = prn_ledger_new();
    assert_non_null(l);
    node(l, 1, 110, 20);
    execute(l, 110, 20);
    prn_ledger_clear(l);
    struct prn_ledger_run run;
    prn_ledger_close(l, 100, 100, &run);
    check_run(&run, &(struct prn_ledger_run){.total = 100, .unexplained = 100}, "cleared");
    prn_ledger_free(l);
}

/* The same from arrays with one entry per unit of time. */
enum { UNITS = 120, THREADS = 3 };

static struct prn_ledger_run brute_force(const struct event *events, size_t n, int64_t start,
                                         int64_t duration)
{
    bool busy[THREADS][UNITS] = {{false}};
    bool inside[UNITS] = {false};
    int64_t first = INT64_MAX;
    int64_t last = INT64_MIN;
    struct prn_ledger_run r = {.total = duration};
    for (size_t i = 0; i < n; i++) {
        int64_t from = events[i].start;
        int64_t to = from + events[i].duration;
        bool *line = events[i].thread == EXECUTE ? inside : busy[events[i].thread];
        for (int64_t t = from; t < to; t++) {
            r.nested += line != inside && line[t];
            line[t] = true;
        }
        r.nodes += events[i].thread != EXECUTE;
        if (events[i].thread == EXECUTE && from == to && from > start && to < start + duration) {
            first = first < from ? first : from;
            last = last > to ? last : to;
        }
    }
    for (int64_t t = start; t < start + duration; t++)
        if (inside[t]) {
            first = first < t ? first : t;
            last = last > t + 1 ? last : t + 1;
        }
    for (int64_t t = start; t < start + duration; t++) {
        int threads = 0;
        for (size_t k = 0; k < THREADS; k++)
            threads += busy[k][t];
        r.node_sum += threads;
        if (threads > 0)
            r.node++;
        else if (inside[t])
            r.overhead++;
        else if (first > last)
            r.unexplained++;
        else if (t < first)
            r.before++;
        else if (t >= last)
            r.after++;
        else
            r.unexplained++;
    }
    return r;
}

static void test_random_events(void **state)
{
    (void)state;
    struct prn_random random;
    prn_random_seed(&random, 21);
    struct prn_ledger *l = prn_ledger_new();
    assert_non_null(l);
    for (int round = 0; round < 20000; round++) {
        struct event events[16];
        size_t n = prn_random_below(&random, 17);
        uint64_t longest = 1 + prn_random_below(&random, 30);
        for (size_t i = 0; i < n; i++) {
            events[i].thread = (int64_t)prn_random_below(&random, THREADS + 1) - 1;
            events[i].duration = (int64_t)prn_random_below(&random, longest);
            events[i].start = (int64_t)prn_random_below(&random, UNITS - longest);
            add_event(l, &events[i]);
        }
        int64_t start = (int64_t)prn_random_below(&random, UNITS / 2);
        int64_t duration = (int64_t)prn_random_below(&random, UNITS / 2);
        struct prn_ledger_run expected = brute_force(events, n, start, duration);
        struct prn_ledger_run run;
        prn_ledger_close(l, start, duration, &run);
        check_run(&run, &expected, "random");
    }
    prn_ledger_free(l);
}

/* More nodes than the ledger keeps, in order: exact, because all of them are inside Execute. */
static void test_many_nodes(void **state)
{
    (void)state;
    enum { NODES = 1500000 };
    struct prn_ledger *l = prn_ledger_new();
    assert_non_null(l);
    for (int64_t i = 0; i < NODES; i++)
        node(l, i % 2, 1000 + 10 * i, 7 + 8 * (i % 2));
    execute(l, 500, 10 * NODES + 1000);
    struct prn_ledger_run run;
    prn_ledger_close(l, 0, 10 * NODES + 2000, &run);
    /* Thread 0 has [0, 7), thread 1 [10, 25), which covers the start of the next pair but for the
     * first: 17 of each 20. */
    check_run(
        &run,
        &(struct prn_ledger_run){.total = 10 * NODES + 2000,
                                 .node = 7 + 17 * (NODES / 2 - 1) + 15,
                                 .overhead = 10 * NODES + 1000 - (7 + 17 * (NODES / 2 - 1) + 15),
                                 .before = 500,
                                 .after = 500,
                                 .node_sum = 22 * (int64_t)(NODES / 2),
                                 .nodes = NODES},
        "many");

    /* One that reaches back into settled time, a run that cuts it, and an Execute that does. */
    for (int k = 0; k < 3; k++) {
        for (int64_t i = 0; i < NODES; i++)
            node(l, 1, 10 * i, 5);
        if (k == 0)
            node(l, 2, 3, 100);
        execute(l, k == 2 ? 5000000 : 0, 10 * NODES);
        prn_ledger_close(l, k == 1 ? 1000000 : 0, 10 * NODES, &run);
        check_sum(&run);
        assert_true(run.approximate);
        assert_near((double)run.node, 5.0 * NODES, k == 1 ? 600000 : 100);
    }
    node(l, 1, 10, 20);
    prn_ledger_close(l, 0, 100, &run);
    assert_false(run.approximate);
    assert_int_equal(run.node, 20);
    prn_ledger_free(l);
}

/* Nodes that touch are one interval, and need no room. */
static void test_many_touching(void **state)
{
    (void)state;
    struct prn_ledger *l = prn_ledger_new();
    assert_non_null(l);
    for (int64_t i = 0; i < 1000000; i++)
        node(l, 1, i, 1);
    struct prn_ledger_run run;
    node(l, 2, 0, 1000000);
    prn_ledger_close(l, 0, 1000000, &run);
    assert_false(run.approximate);
    assert_int_equal(run.node, 1000000);
    assert_int_equal(run.node_sum, 2000000);
    prn_ledger_free(l);
}

/* As many threads as nodes, all at the same time. */
static void test_many_threads(void **state)
{
    (void)state;
    enum { NODES = 600000 };
    struct prn_ledger *l = prn_ledger_new();
    assert_non_null(l);
    for (int64_t i = 0; i < NODES; i++)
        node(l, i, i, NODES);
    struct prn_ledger_run run;
    prn_ledger_close(l, 0, 2 * NODES, &run);
    check_sum(&run);
    assert_int_equal(run.nodes, NODES);
    prn_ledger_free(l);
}

static void test_many_executes(void **state)
{
    (void)state;
    enum { EXECUTES = 200000 };
    struct prn_ledger *l = prn_ledger_new();
    assert_non_null(l);
    struct prn_ledger_run run;
    for (int outer = 0; outer < 2; outer++) {
        for (int64_t i = 0; i < EXECUTES; i++)
            execute(l, 10 * i, 4);
        if (outer)
            execute(l, 0, 10 * EXECUTES);
        prn_ledger_close(l, 0, 10 * EXECUTES, &run);
        check_sum(&run);
        /* The bodies of a loop are inside the outermost Execute, which makes it exact again. */
        assert_int_equal(run.approximate, !outer);
        if (outer)
            assert_int_equal(run.overhead, 10 * EXECUTES);
    }
    prn_ledger_free(l);
}

static void test_hostile_values(void **state)
{
    (void)state;
    static const int64_t values[] = {INT64_MIN, INT64_MIN + 1, INT64_MIN / 2, -1,       0,
                                     1,         INT64_MAX / 2, INT64_MAX - 1, INT64_MAX};
    struct prn_random random;
    prn_random_seed(&random, 22);
    struct prn_ledger *l = prn_ledger_new();
    assert_non_null(l);
    for (int round = 0; round < 20000; round++) {
        int64_t pick[9];
        for (int k = 0; k < 3; k++) {
            for (size_t i = 0; i < 9; i++)
                pick[i] = values[prn_random_below(&random, PRN_ARRAY_SIZE(values))];
            node(l, pick[0], pick[1], pick[2]);
            node(l, pick[3], pick[4], pick[5]);
            execute(l, pick[6], pick[7]);
        }
        struct prn_ledger_run run;
        prn_ledger_close(l, pick[8], pick[0], &run);
        check_sum(&run);
    }
    prn_ledger_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),         cmocka_unit_test(test_clear),
        cmocka_unit_test(test_random_events), cmocka_unit_test(test_many_nodes),
        cmocka_unit_test(test_many_touching), cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_many_executes), cmocka_unit_test(test_hostile_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
