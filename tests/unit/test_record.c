/* Recording: footprints, discarded runs, failures, fallbacks, totals; regions of threads. */
#include "record/record.h"
#include "base/clock.h"
#include "record/region.h"
#include "record/turn.h"
#include "unit.h"

#include "exec/executor.h"

#include <pthread.h>
#include <stdlib.h>

#define BACKENDS 2
#define REPEATS 3

/* ---- Series ---- */

static void series_of_few_keeps_all(void **state)
{
    (void)state;
    struct prn_series_builder s = {0};
    struct prn_series_budget budget = {1000};
    struct prn_arena arena = PRN_ARENA_INIT(1 << 20);
    const int64_t times[] = {20, 40, 90};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(prn_series_reserve(&s, 1, &budget), 0);
        prn_series_add(&s, times[i]);
    }
    struct prn_series series;
    assert_int_equal(prn_series_finish(&s, &arena, &series), 0);
    assert_int_equal(series.count, 3);
    assert_near(series.mean_ns, 50, 1e-12);
    /* squared distances 900, 100, 1600; over n - 1 = 2: 1300 */
    assert_near(series.sd_ns, sqrt(1300), 1e-9);
    assert_near(series.min_ns, 20, 0);
    assert_near(series.max_ns, 90, 0);
    assert_int_equal(series.n_samples, 3);
    assert_memory_equal(series.samples_ns, times, sizeof times);
    prn_series_clear(&s);
    assert_int_equal(prn_series_finish(&s, &arena, &series), 0);
    assert_int_equal(series.count, 0);
    assert_int_equal(series.n_samples, 0);
    assert_true(isnan(series.mean_ns) && isnan(series.sd_ns) && isnan(series.min_ns));
    prn_series_release(&s);
    prn_arena_release(&arena);
}

/* The i-th sample is i, so that what is kept shows where it came from. */
static void fill_series(struct prn_series_builder *s, int64_t n, size_t budget_samples)
{
    struct prn_series_budget budget = {budget_samples};
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(prn_series_reserve(s, 1, &budget), 0);
        prn_series_add(s, i);
    }
}

static void assert_even_selection(const struct prn_series_builder *s, int64_t n, int64_t stride)
{
    assert_int_equal(s->count, n);
    assert_int_equal(s->n_kept, (n + stride - 1) / stride);
    for (size_t i = 0; i < s->n_kept; i++)
        assert_int_equal(s->kept[i], (int64_t)i * stride);
    assert_near(s->mean, (double)(n - 1) / 2, 1e-6 * (double)n);
}

static void series_of_many_keeps_an_even_selection(void **state)
{
    (void)state;
    static const struct {
        int64_t n, stride;
    } cases[] = {
        {PRN_SERIES_MAX - 1, 1}, {PRN_SERIES_MAX, 1},         {PRN_SERIES_MAX + 1, 2},
        {2 * PRN_SERIES_MAX, 2}, {2 * PRN_SERIES_MAX + 1, 4}, {4 * PRN_SERIES_MAX + 12345, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct prn_series_builder s = {0};
        fill_series(&s, cases[i].n, SIZE_MAX);
        assert_even_selection(&s, cases[i].n, cases[i].stride);
        prn_series_release(&s);
    }
}

static void a_budget_thins_series_out_earlier(void **state)
{
    (void)state;
    struct prn_series_builder s = {0};
    fill_series(&s, 1000, 100); /* 16, 32, 64 fit; 128 doesn't */
    assert_even_selection(&s, 1000, 16);
    prn_series_release(&s);
    fill_series(&s, 100, 0); /* even without any there is room for 16 */
    assert_even_selection(&s, 100, 8);
    prn_series_release(&s);
}

/* ---- Recorder ---- */

static struct prn_recorder recorder(void)
{
    return PRN_RECORDER_INIT(BACKENDS, REPEATS);
}

/* What both backends made of a graph: three samples around a mean, or a failure. */
struct made {
    int64_t mean_ns[BACKENDS];
    const char *failure[BACKENDS];
};

static int add_graph(struct prn_call *call, int64_t local_ns, int64_t graph, struct made made,
                     struct prony_error *err)
{
    int64_t samples[BACKENDS][REPEATS];
    struct prn_graph_outcome outcomes[BACKENDS];
    for (size_t b = 0; b < BACKENDS; b++) {
        for (int k = 0; k < REPEATS; k++)
            samples[b][k] = made.mean_ns[b] + (k - 1) * 10;
        outcomes[b] =
            (struct prn_graph_outcome){samples[b], made.failure[b] ? 0 : REPEATS, made.failure[b]};
    }
    return prn_call_graph(call, local_ns, graph, -1, outcomes, err);
}

/* One call: 100 ns of local code, graph 1 with `made`, and `last_ns` of local code. */
static void call_once(struct prn_recorder *r, bool compiled, struct made made, int64_t last_ns)
{
    struct prn_call *call;
    assert_int_equal(prn_recorder_begin(r, "predict", &call, NULL), 0);
    assert_int_equal(add_graph(call, 100, 1, made, NULL), 0);
    if (compiled)
        prn_call_compiled(call);
    assert_int_equal(prn_recorder_end(r, call, last_ns, NULL), 0);
}

/* The profile of what was recorded, on backends of 3.6 $/h and of unknown price. */
static struct prn_profile *filled(const struct prn_recorder *r, const char *second_ran_locally)
{
    struct prn_profile *p = prn_profile_new();
    assert_non_null(p);
    p->n_results = BACKENDS;
    p->results = PRN_ARENA_ARRAY(&p->arena, BACKENDS, struct prn_result);
    p->results[0].usd_per_hour = 3.6;
    p->results[1].usd_per_hour = NAN;
    p->n_graphs = 2;
    p->graphs = PRN_ARENA_ARRAY(&p->arena, 2, struct prn_recorded_graph);
    p->graphs[0] = (struct prn_recorded_graph){.id = 1, .name = "a"};
    p->graphs[1] =
        (struct prn_recorded_graph){.id = 2, .name = "b", .local_reason = second_ran_locally};
    assert_int_equal(prn_recorder_fill(r, p, NULL), 0);
    assert_true(p->recorded);
    return p;
}

static const struct made fine = {.mean_ns = {1000, 2000}};

static void segments_and_totals(void **state)
{
    (void)state;
    struct prn_recorder r = recorder();
    struct prn_call *call;
    for (int run = 0; run < 2; run++) {
        assert_int_equal(prn_recorder_begin(&r, "predict", &call, NULL), 0);
        assert_int_equal(add_graph(call, 100 + run * 100, 1, fine, NULL), 0);
        assert_int_equal(
            add_graph(call, 50, 2, (struct made){.mean_ns = {500, 700 + run * 200}}, NULL), 0);
        assert_int_equal(prn_recorder_end(&r, call, 300, NULL), 0);
    }
    struct prn_profile *p = filled(&r, NULL);
    assert_int_equal(p->n_profiles, 1);
    const struct prn_recorded *f = &p->profiles[0];
    assert_string_equal(f->function, "predict");
    assert_int_equal(f->runs, 2);
    assert_int_equal(f->discarded, 0);
    assert_int_equal(f->repeats, REPEATS);
    assert_false(f->compiled);
    assert_int_equal(f->n_segments, 5);
    static const int64_t graphs[] = {0, 1, 0, 2, 0};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(f->segments[i].graph, graphs[i]);
    assert_int_equal(f->segments[0].local.count, 2);
    assert_near(f->segments[0].local.mean_ns, 150, 1e-9);
    assert_int_equal(f->segments[1].results[0].times.count, 2 * REPEATS);
    assert_near(f->segments[1].results[0].times.mean_ns, 1000, 1e-9);
    assert_near(f->segments[3].results[1].times.mean_ns, 800, 1e-9); /* of 700 and 900 */
    assert_near(f->local_ns, 150 + 50 + 300, 1e-9);
    assert_near(f->totals[0].backend_ns, 1500, 1e-9);
    assert_near(f->totals[0].total_ns, 2000, 1e-9);
    /* 3.6 $/h is 0.001 $/s; a million times 2 µs are 2 s */
    assert_near(f->totals[0].usd_per_million, 0.002, 1e-12);
    assert_near(f->totals[1].backend_ns, 2800, 1e-9);
    assert_near(f->totals[1].total_ns, 3300, 1e-9);
    assert_true(isnan(f->totals[1].usd_per_million));
    prn_profile_free(p);
    prn_recorder_release(&r);
}

static void a_profile_per_footprint(void **state)
{
    (void)state;
    struct prn_recorder r = recorder();
    static const struct {
        const char *function;
        int64_t graphs[3];
    } calls[] = {{"f", {0}},       {"f", {1}}, {"f", {1, 2}}, {"g", {1}},       {"f", {2, 1}},
                 {"f", {1, 2}},    {"f", {0}}, {"f", {1, 1}}, {"f", {1, 2, 1}}, {"f", {1}},
                 {"f", {1, 2, 1}}, {"g", {1}}, {"f", {0}}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct prn_call *call;
        assert_int_equal(prn_recorder_begin(&r, calls[i].function, &call, NULL), 0);
        assert_string_equal(prn_call_function(call), calls[i].function);
        for (size_t k = 0; k < 3 && calls[i].graphs[k]; k++)
            assert_int_equal(add_graph(call, 1, calls[i].graphs[k], fine, NULL), 0);
        assert_int_equal(prn_recorder_end(&r, call, 1, NULL), 0);
    }
    struct prn_profile *p = filled(&r, NULL);
    static const struct {
        const char *function;
        size_t n_graphs;
        int64_t first, runs;
    } expected[] = {{"f", 0, 0, 3}, {"f", 1, 1, 2}, {"f", 2, 1, 2}, {"f", 2, 2, 1},
                    {"f", 2, 1, 1}, {"f", 3, 1, 2}, {"g", 1, 1, 2}};
    assert_int_equal(p->n_profiles, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < p->n_profiles; i++) {
        const struct prn_recorded *f = &p->profiles[i];
        assert_string_equal(f->function, expected[i].function);
        assert_int_equal(f->n_segments, 2 * expected[i].n_graphs + 1);
        assert_int_equal(f->runs, expected[i].runs);
        if (expected[i].n_graphs)
            assert_int_equal(f->segments[1].graph, expected[i].first);
    }
    /* Only local code: that is the total, everywhere. */
    assert_near(p->profiles[0].totals[1].backend_ns, 0, 0);
    assert_near(p->profiles[0].totals[1].total_ns, 1, 1e-9);
    prn_profile_free(p);
    prn_recorder_release(&r);
}

/* Every order of up to four calls, compiling ('c') or not ('n'), against the rule as it is written:
 * with one that doesn't compile, only those count; otherwise all do, and are marked. */
static void discards_in_every_order(void **state)
{
    (void)state;
    for (unsigned length = 1; length <= 4; length++)
        for (unsigned order = 0; order < 1u << length; order++) {
            struct prn_recorder r = recorder();
            int64_t compiling = 0;
            double sum[2] = {0, 0}; /* of the last local segments, without and with compiling */
            for (unsigned i = 0; i < length; i++) {
                bool compiled = order >> i & 1;
                compiling += compiled;
                sum[compiled] += 1000.0 * (i + 1);
                call_once(&r, compiled, fine, 1000 * (int64_t)(i + 1));
            }
            struct prn_profile *p = filled(&r, NULL);
            assert_int_equal(p->n_profiles, 1);
            const struct prn_recorded *f = &p->profiles[0];
            bool all = compiling == length;
            int64_t runs = all ? compiling : (int64_t)length - compiling;
            assert_int_equal(f->compiled, all);
            assert_int_equal(f->runs, runs);
            assert_int_equal(f->discarded, all ? 0 : compiling);
            assert_int_equal(f->segments[1].results[0].times.count, runs * REPEATS);
            assert_near(f->segments[2].local.mean_ns, sum[all] / (double)runs, 1e-6);
            assert_int_equal(isnan(f->totals[0].total_ns), all);
            assert_int_equal(isnan(f->totals[0].usd_per_million), all);
            assert_near(f->totals[0].backend_ns, 1000, 1e-9);
            prn_profile_free(p);
            prn_recorder_release(&r);
        }
}

static void failures_stay_on_their_backend(void **state)
{
    (void)state;
    struct prn_recorder r = recorder();
    call_once(&r, false, fine, 0);
    call_once(&r, false, (struct made){{1000, 0}, {NULL, "out of memory"}}, 0);
    call_once(&r, false, (struct made){{1000, 0}, {NULL, "it hangs"}}, 0);
    call_once(&r, false, (struct made){{1000, 0}, {NULL, "out of memory"}}, 0);
    struct prn_profile *p = filled(&r, NULL);
    const struct prn_recorded *f = &p->profiles[0];
    const struct prn_segment_result *results = f->segments[1].results;
    assert_int_equal(f->runs, 4);
    assert_int_equal(results[0].failed, 0);
    assert_int_equal(results[0].n_failures, 0);
    assert_int_equal(results[0].times.count, 4 * REPEATS);
    assert_near(f->totals[0].total_ns, 1100, 1e-9);
    assert_int_equal(results[1].failed, 3 * REPEATS);
    assert_int_equal(results[1].n_failures, 2);
    assert_string_equal(results[1].failures[0].message, "out of memory");
    assert_int_equal(results[1].failures[0].count, 2 * REPEATS);
    assert_string_equal(results[1].failures[1].message, "it hangs");
    assert_int_equal(results[1].failures[1].count, REPEATS);
    assert_int_equal(results[1].times.count, REPEATS);
    /* What ran there counts. */
    assert_near(f->totals[1].backend_ns, 2000, 1e-9);
    assert_near(f->totals[1].total_ns, 2100, 1e-9);
    prn_profile_free(p);
    prn_recorder_release(&r);
}

/* A backend that never gave a time has no sum either; failures of discarded runs are forgotten. */
static void failures_without_times(void **state)
{
    (void)state;
    struct prn_recorder r = recorder();
    call_once(&r, true, (struct made){{0, 0}, {"first", "second"}}, 0);
    call_once(&r, false, (struct made){{1000, 0}, {NULL, "second"}}, 0);
    struct prn_profile *p = filled(&r, NULL);
    const struct prn_recorded *f = &p->profiles[0];
    assert_int_equal(f->segments[1].results[0].n_failures, 0);
    assert_int_equal(f->segments[1].results[0].failed, 0);
    assert_near(f->totals[0].total_ns, 1100, 1e-9);
    assert_int_equal(f->segments[1].results[1].failed, REPEATS);
    assert_true(isnan(f->totals[1].backend_ns));
    assert_true(isnan(f->totals[1].total_ns));
    prn_profile_free(p);
    prn_recorder_release(&r);
}

static void distinct_messages_are_bounded(void **state)
{
    (void)state;
    struct prn_recorder r = recorder();
    const int calls = PRN_RECORD_MESSAGES_MAX + 10;
    for (int i = 0; i < calls; i++) {
        char text[32];
        snprintf(text, sizeof text, "failure %d", i);
        call_once(&r, false, (struct made){{1, 1}, {NULL, text}}, 0);
    }
    struct prn_profile *p = filled(&r, NULL);
    const struct prn_segment_result *result = &p->profiles[0].segments[1].results[1];
    assert_int_equal(result->failed, calls * REPEATS);
    assert_int_equal(result->n_failures, PRN_RECORD_MESSAGES_MAX + 1);
    assert_string_equal(result->failures[0].message, "failure 0");
    assert_contains(result->failures[PRN_RECORD_MESSAGES_MAX].message, "further");
    assert_int_equal(result->failures[PRN_RECORD_MESSAGES_MAX].count, 10 * REPEATS);
    prn_profile_free(p);
    prn_recorder_release(&r);
}

/* A graph that one backend can't run counts there with what the program took for it; where none of
 * the graphs ran, there is no total. */
static void a_missing_graph_counts_with_its_local_time(void **state)
{
    (void)state;
    struct prn_recorder r = recorder();
    struct prn_call *call;
    const struct prn_graph_outcome refused[] = {{(const int64_t[]){9, 9, 9, 9}, REPEATS, NULL},
                                                {NULL, 0, "unknown type"}};
    assert_true(REPEATS <= 4);
    assert_int_equal(prn_recorder_begin(&r, "predict", &call, NULL), 0);
    assert_int_equal(add_graph(call, 100, 1, fine, NULL), 0);
    assert_int_equal(prn_call_graph(call, 100, 2, 700, refused, NULL), 0);
    assert_int_equal(prn_recorder_end(&r, call, 50, NULL), 0);
    assert_int_equal(prn_recorder_begin(&r, "alone", &call, NULL), 0);
    assert_int_equal(prn_call_graph(call, 100, 2, 700, refused, NULL), 0);
    assert_int_equal(prn_recorder_end(&r, call, 50, NULL), 0);
    struct prn_profile *p = filled(&r, NULL);
    const struct prn_recorded *f = &p->profiles[0];
    assert_int_equal(f->segments[3].local.count, 1);
    assert_near(f->segments[3].local.mean_ns, 700, 0);
    assert_near(f->totals[0].total_ns, 1000 + 9 + 250, 1e-9);
    assert_int_equal(f->totals[0].flags, 0);
    assert_near(f->totals[1].backend_ns, 2000, 1e-9);
    assert_near(f->totals[1].local_graphs_ns, 700, 0);
    assert_near(f->totals[1].total_ns, 2000 + 700 + 250, 1e-9);
    assert_near(f->totals[1].median_ns, 2000 + 700 + 250, 1e-9);
    assert_int_equal(f->totals[1].flags, PRN_FLAG_PARTIAL);
    assert_near(p->profiles[1].totals[0].total_ns, 9 + 150, 1e-9);
    assert_true(isnan(p->profiles[1].totals[1].total_ns));
    prn_profile_free(p);
    prn_recorder_release(&r);
}

/* What the program did instead of a graph that ran nowhere is local code. */
static void a_fallback_is_local_code(void **state)
{
    (void)state;
    struct prn_recorder r = recorder();
    struct prn_call *call;
    const struct made nowhere = {{0, 0}, {"unknown operator", "unknown operator"}};
    call_once(&r, false, fine, 0); /* another footprint, without graph 2 */
    assert_int_equal(prn_recorder_begin(&r, "predict", &call, NULL), 0);
    assert_int_equal(add_graph(call, 100, 1, fine, NULL), 0);
    assert_int_equal(add_graph(call, 100, 2, nowhere, NULL), 0);
    assert_int_equal(prn_recorder_end(&r, call, 5000, NULL), 0);
    struct prn_profile *p = filled(&r, "no backend could load it");
    assert_int_equal(p->n_profiles, 2);
    assert_near(p->profiles[0].totals[0].total_ns, 1100, 1e-9);
    const struct prn_recorded *f = &p->profiles[1];
    assert_near(f->local_ns, 5200, 1e-9);
    assert_int_equal(f->segments[3].local.count, 0);
    assert_true(isnan(f->segments[3].local.mean_ns));
    for (size_t b = 0; b < BACKENDS; b++) {
        assert_near(f->totals[b].total_ns, f->segments[1].results[b].times.mean_ns + 5200, 1e-9);
        assert_near(f->totals[b].local_graphs_ns, 0, 0);
        assert_int_equal(f->totals[b].flags, PRN_FLAG_PARTIAL);
    }
    prn_profile_free(p);
    prn_recorder_release(&r);
}

static void a_cancelled_call_leaves_nothing(void **state)
{
    (void)state;
    struct prn_recorder r = recorder();
    struct prn_call *first;
    struct prn_call *second;
    assert_int_equal(prn_recorder_begin(&r, "f", &first, NULL), 0);
    assert_int_equal(prn_recorder_begin(&r, "f", &second, NULL), 0);
    assert_ptr_not_equal(first, second);
    assert_int_equal(add_graph(first, 1, 1, (struct made){{1, 1}, {"x", NULL}}, NULL), 0);
    prn_call_compiled(first);
    prn_recorder_cancel(&r, first);
    assert_int_equal(prn_recorder_end(&r, second, 7, NULL), 0);
    call_once(&r, false, fine, 1); /* in the memory of one of them */
    struct prn_profile *p = filled(&r, NULL);
    assert_int_equal(p->n_profiles, 2);
    assert_int_equal(p->profiles[0].n_segments, 1);
    assert_int_equal(p->profiles[1].runs, 1);
    assert_false(p->profiles[1].compiled);
    assert_int_equal(p->profiles[1].segments[1].results[0].failed, 0);
    prn_profile_free(p);
    prn_recorder_release(&r);
}

/* ---- Limits ---- */

static void names_are_checked(void **state)
{
    (void)state;
    struct prn_recorder r = recorder();
    struct prn_call *call;
    struct prony_error err;
    char name[PRN_RECORD_NAME_MAX + 2];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_int_equal(prn_recorder_begin(&r, name, &call, &err), PRONY_EUSAGE);
    assert_contains(err.text, "1 to 1024 bytes");
    assert_int_equal(prn_recorder_begin(&r, "", &call, &err), PRONY_EUSAGE);
    name[PRN_RECORD_NAME_MAX] = '\0';
    assert_int_equal(prn_recorder_begin(&r, name, &call, &err), 0);
    assert_int_equal(prn_recorder_end(&r, call, 1, NULL), 0);
    prn_recorder_release(&r);
}

static void functions_are_bounded(void **state)
{
    (void)state;
    struct prn_recorder r = recorder();
    struct prn_call *call;
    struct prony_error err;
    char name[32];
    for (int i = 0; i < PRN_RECORD_FUNCTIONS_MAX; i++) {
        snprintf(name, sizeof name, "function %d", i);
        assert_int_equal(prn_recorder_begin(&r, name, &call, NULL), 0);
        assert_int_equal(prn_recorder_end(&r, call, i, NULL), 0);
    }
    assert_int_equal(prn_recorder_begin(&r, "one more", &call, &err), PRONY_ELIMIT);
    assert_contains(err.text, "1000 different regions");
    assert_int_equal(prn_recorder_begin(&r, "function 7", &call, &err), 0);
    assert_int_equal(prn_recorder_end(&r, call, 7, NULL), 0);
    struct prn_profile *p = filled(&r, NULL);
    assert_int_equal(p->n_profiles, PRN_RECORD_FUNCTIONS_MAX);
    assert_int_equal(p->profiles[7].runs, 2);
    prn_profile_free(p);
    prn_recorder_release(&r);
}

static void footprints_are_bounded(void **state)
{
    (void)state;
    struct prn_recorder r = recorder();
    struct prn_call *call;
    struct prony_error err;
    for (int i = 0; i <= PRN_RECORD_FOOTPRINTS_MAX; i++) {
        assert_int_equal(prn_recorder_begin(&r, "f", &call, NULL), 0);
        assert_int_equal(add_graph(call, 1, i + 1, fine, NULL), 0);
        int code = prn_recorder_end(&r, call, 1, &err);
        assert_int_equal(code, i < PRN_RECORD_FOOTPRINTS_MAX ? 0 : PRONY_ELIMIT);
    }
    assert_contains(err.text, "1000 different sequences of graphs");
    prn_recorder_release(&r);
}

static void graphs_of_a_call_are_bounded(void **state)
{
    (void)state;
    struct prn_recorder r = recorder();
    struct prn_call *call;
    struct prony_error err;
    assert_int_equal(prn_recorder_begin(&r, "f", &call, NULL), 0);
    for (int i = 0; i < PRN_RECORD_GRAPHS_MAX; i++) {
        assert_int_equal(prn_call_check(call, NULL), 0);
        assert_int_equal(add_graph(call, 1, 1, fine, NULL), 0);
    }
    assert_int_equal(prn_call_check(call, &err), PRONY_ELIMIT);
    assert_contains(err.text, "more than 10000 graphs");
    assert_int_equal(add_graph(call, 1, 1, fine, &err), PRONY_ELIMIT);
    assert_int_equal(prn_recorder_end(&r, call, 1, NULL), 0);
    struct prn_profile *p = filled(&r, NULL);
    assert_int_equal(p->profiles[0].n_segments, 2 * PRN_RECORD_GRAPHS_MAX + 1);
    prn_profile_free(p);
    prn_recorder_release(&r);
}

/* ---- Regions ---- */

static void regions_do_not_nest(void **state)
{
    (void)state;
    struct prn_regions regions = PRN_REGIONS_INIT(BACKENDS, REPEATS);
    struct prony_error err;
    assert_int_equal(prn_region_end(&regions, &err), PRONY_EUSAGE);
    assert_contains(err.text, "no region is open");
    prn_region_cancel(&regions); /* nothing to cancel is no fault */
    assert_int_equal(prn_region_begin(&regions, "outer", &err), 0);
    assert_int_equal(prn_region_begin(&regions, "inner", &err), PRONY_EUSAGE);
    assert_contains(err.text, "'inner'");
    assert_contains(err.text, "'outer'");
    assert_int_equal(prn_region_end(&regions, &err), 0); /* the outer one is as it was */
    assert_int_equal(prn_region_end(&regions, &err), PRONY_EUSAGE);
    assert_int_equal(prn_region_begin(&regions, "", &err), PRONY_EUSAGE);
    assert_int_equal(prn_region_begin(&regions, "left open", &err), 0);
    struct prn_profile *p = filled(&regions.recorder, NULL);
    assert_int_equal(p->n_profiles, 1);
    assert_string_equal(p->profiles[0].function, "outer");
    prn_profile_free(p);
    prn_regions_release(&regions);
}

static void recording_begins_anew(void **state)
{
    (void)state;
    struct prn_regions regions = PRN_REGIONS_INIT(BACKENDS, REPEATS);
    struct prony_error err;
    assert_int_equal(prn_region_begin(&regions, "before", &err), 0);
    assert_int_equal(prn_regions_restart(&regions, 1, &err), PRONY_EUSAGE);
    assert_contains(err.text, "'before'");
    assert_int_equal(prn_region_end(&regions, &err), 0);
    assert_int_equal(prn_regions_restart(&regions, REPEATS + 1, &err), 0);
    assert_int_equal(prn_region_begin(&regions, "after", &err), 0);
    assert_int_equal(prn_region_end(&regions, &err), 0);
    struct prn_profile *p = filled(&regions.recorder, NULL);
    assert_int_equal(p->n_profiles, 1);
    assert_string_equal(p->profiles[0].function, "after");
    assert_int_equal(p->profiles[0].repeats, REPEATS + 1);
    prn_profile_free(p);
    prn_regions_release(&regions);
}

static void a_spoiled_region_says_so_at_its_end(void **state)
{
    (void)state;
    struct prn_regions regions = PRN_REGIONS_INIT(BACKENDS, REPEATS);
    struct prony_error err;
    const struct prony_error first = {PRONY_ECANCELED, "interrupted"};
    const struct prony_error later = {PRONY_EIO, "something else"};
    assert_int_equal(prn_region_begin(&regions, "f", &err), 0);
    struct prn_region *region = prn_region_pause(&regions);
    prn_region_spoil(region, &first);
    prn_region_spoil(region, &later);
    prn_region_resume(region);
    assert_int_equal(prn_region_end(&regions, &err), PRONY_ECANCELED);
    assert_string_equal(err.text, "region 'f' is not recorded: interrupted");
    assert_int_equal(prn_region_begin(&regions, "f", &err), 0); /* the next one isn't spoiled */
    assert_int_equal(prn_region_end(&regions, &err), 0);
    struct prn_profile *p = filled(&regions.recorder, NULL);
    assert_int_equal(p->profiles[0].runs, 1);
    prn_profile_free(p);
    prn_regions_release(&regions);
}

/* Time passes between the calls: local code is what lies outside of pause and resume. */
static void a_clock_that_was_stopped_twice(void **state)
{
    (void)state;
    struct prn_regions regions = PRN_REGIONS_INIT(BACKENDS, REPEATS);
    struct prony_error err;
    assert_int_equal(prn_region_begin(&regions, "f", &err), 0);
    struct prn_region *region = prn_region_pause(&regions);
    uint64_t number = prn_region_number(region);
    assert_true(number > 0);
    assert_ptr_equal(prn_region_pause(&regions), region);
    prn_region_resume(region);
    assert_ptr_equal(prn_region_if(region, number), region);
    /* Still stopped, for a run that isn't finished: then the region can't be recorded. */
    assert_int_equal(prn_region_end(&regions, &err), PRONY_EUSAGE);
    assert_string_equal(err.text, "region 'f' is not recorded: a run of a graph isn't finished");
    assert_null(prn_region_if(region, number));
    /* The next one uses the same memory, and is another one. */
    assert_int_equal(prn_region_begin(&regions, "f", &err), 0);
    struct prn_region *next = prn_region_pause(&regions);
    assert_null(prn_region_if(next, number));
    prn_region_resume(next);
    assert_int_equal(prn_region_end(&regions, &err), 0);
    assert_int_equal(prn_region_number(NULL), 0);
    assert_null(prn_region_if(NULL, 0));
    prn_regions_release(&regions);
}

/* ---- Turns ---- */

struct waiter {
    struct prn_turn *turn;
    int *shared; /* what turns are for */
    int code;
};

static void *take_turns(void *opaque)
{
    struct waiter *w = opaque;
    for (int i = 0; i < 1000 && w->code == 0; i++) {
        w->code = prn_turn_take(w->turn, NULL);
        if (w->code == 0) {
            ++*w->shared;
            prn_turn_give(w->turn);
        }
    }
    return NULL;
}

static void one_thread_at_a_time(void **state)
{
    (void)state;
    struct prn_turn turn = PRN_TURN_INIT;
    struct prony_error err;
    int shared = 0;
    struct waiter waiters[3];
    pthread_t threads[3];
    assert_int_equal(prn_turn_take(&turn, &err), 0);
    assert_int_equal(prn_turn_take(&turn, &err), PRONY_EUSAGE); /* it would wait for itself */
    assert_contains(err.text, "isn't finished");
    for (size_t i = 0; i < 3; i++) {
        waiters[i] = (struct waiter){.turn = &turn, .shared = &shared};
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &waiters[i]), 0);
    }
    assert_int_equal(shared, 0);
    prn_turn_give(&turn);
    for (size_t i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(waiters[i].code, 0);
    }
    assert_int_equal(shared, 3000);
    assert_int_equal(prn_turn_take(&turn, &err), 0);
    prn_turn_give(&turn);
    prn_turn_release(&turn);
}

static void paused_time_is_not_local(void **state)
{
    (void)state;
    struct prn_regions regions = PRN_REGIONS_INIT(BACKENDS, REPEATS);
    const int64_t pause_ns = 20000000;
    assert_null(prn_region_pause(&regions));
    int64_t start = prn_clock_ns();
    assert_int_equal(prn_region_begin(&regions, "f", NULL), 0);
    struct prn_region *region = prn_region_pause(&regions);
    int64_t paused = prn_clock_ns();
    while (prn_clock_ns() - paused < pause_ns)
        ;
    prn_region_resume(region);
    assert_int_equal(prn_region_end(&regions, NULL), 0);
    int64_t all_ns = prn_clock_ns() - start;
    struct prn_profile *p = filled(&regions.recorder, NULL);
    assert_true(p->profiles[0].local_ns >= 0);
    assert_true(p->profiles[0].local_ns <= (double)(all_ns - pause_ns));
    prn_profile_free(p);
    prn_regions_release(&regions);
}

#define THREADS 4
#define THREAD_CALLS 2000

static void *record_in_thread(void *context)
{
    struct prn_regions *regions = context;
    int64_t samples[REPEATS] = {10, 20, 30};
    const struct prn_graph_outcome outcomes[BACKENDS] = {{samples, REPEATS, NULL},
                                                         {samples, REPEATS, NULL}};
    for (int i = 0; i < THREAD_CALLS; i++) {
        if (prn_region_begin(regions, i % 2 ? "odd" : "even", NULL) < 0)
            return NULL;
        struct prn_region *region = prn_region_pause(regions);
        if (prn_region_graph(region, 1 + i % 3, -1, outcomes, NULL) < 0)
            return NULL;
        prn_region_resume(region);
        if (i % 10 == 9)
            prn_region_cancel(regions);
        else if (prn_region_end(regions, NULL) < 0)
            return NULL;
    }
    return regions;
}

static void threads_have_regions_of_their_own(void **state)
{
    (void)state;
    struct prn_regions regions = PRN_REGIONS_INIT(BACKENDS, REPEATS);
    pthread_t threads[THREADS];
    assert_int_equal(prn_region_begin(&regions, "main", NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record_in_thread, &regions), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, &regions);
    }
    assert_int_equal(prn_region_end(&regions, NULL), 0);
    struct prn_profile *p = prn_profile_new();
    p->n_results = BACKENDS;
    p->results = PRN_ARENA_ARRAY(&p->arena, BACKENDS, struct prn_result);
    assert_int_equal(prn_regions_fill(&regions, p, NULL), 0);
    int64_t runs = 0;
    int64_t samples = 0;
    for (size_t i = 0; i < p->n_profiles; i++) {
        runs += p->profiles[i].runs;
        if (p->profiles[i].n_segments > 1)
            samples += p->profiles[i].segments[1].results[1].times.count;
    }
    const int64_t kept = (int64_t)THREADS * THREAD_CALLS * 9 / 10;
    assert_int_equal(p->n_profiles, 7); /* two names of three footprints, and main */
    assert_int_equal(runs, kept + 1);
    assert_int_equal(samples, kept * REPEATS);
    prn_profile_free(p);
    prn_regions_release(&regions);
}

static void *leave_open(void *context)
{
    return prn_region_begin(context, "left open", NULL) < 0 ? NULL : context;
}

static void *has_none(void *context)
{
    return prn_region_pause(context) ? NULL : context;
}

/* A thread that comes later, perhaps under the same number of the system, doesn't inherit it. */
static void a_region_ends_with_its_thread(void **state)
{
    (void)state;
    struct prn_regions regions = PRN_REGIONS_INIT(BACKENDS, REPEATS);
    void *(*const steps[])(void *) = {leave_open, has_none, leave_open};
    for (size_t i = 0; i < 3; i++) {
        pthread_t thread;
        void *result;
        assert_int_equal(pthread_create(&thread, NULL, steps[i], &regions), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, &regions);
    }
    prn_regions_release(&regions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series_of_few_keeps_all),
        cmocka_unit_test(series_of_many_keeps_an_even_selection),
        cmocka_unit_test(a_budget_thins_series_out_earlier),
        cmocka_unit_test(segments_and_totals),
        cmocka_unit_test(a_profile_per_footprint),
        cmocka_unit_test(discards_in_every_order),
        cmocka_unit_test(failures_stay_on_their_backend),
        cmocka_unit_test(failures_without_times),
        cmocka_unit_test(distinct_messages_are_bounded),
        cmocka_unit_test(a_fallback_is_local_code),
        cmocka_unit_test(a_missing_graph_counts_with_its_local_time),
        cmocka_unit_test(a_cancelled_call_leaves_nothing),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(functions_are_bounded),
        cmocka_unit_test(footprints_are_bounded),
        cmocka_unit_test(graphs_of_a_call_are_bounded),
        cmocka_unit_test(regions_do_not_nest),
        cmocka_unit_test(recording_begins_anew),
        cmocka_unit_test(a_spoiled_region_says_so_at_its_end),
        cmocka_unit_test(a_clock_that_was_stopped_twice),
        cmocka_unit_test(one_thread_at_a_time),
        cmocka_unit_test(paused_time_is_not_local),
        cmocka_unit_test(threads_have_regions_of_their_own),
        cmocka_unit_test(a_region_ends_with_its_thread),
    };
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
