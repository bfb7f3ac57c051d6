/*
 * Schedules against exhaustive search, which tries every way to cut the layers and every sequence
 * of device types, with its own arithmetic, and against cases worked out by hand.
 */
#include "unit.h"

#include "base/random.h"
#include "pipeline/schedule/schedule.h"

#include <stdlib.h>

#define INSTANCES 12000
#define LAYERS_MAX 7
#define TYPES_MAX 4

/* ---- Instances ---- */

struct instance {
    struct prn_pipeline pipeline;
    struct prn_pipeline_type types[TYPES_MAX];
    double times[TYPES_MAX][LAYERS_MAX];
    double mem_mb[LAYERS_MAX], bytes_out[LAYERS_MAX];
    double pairs[TYPES_MAX * TYPES_MAX];
    bool ends[LAYERS_MAX];
};

/* Small whole numbers make ties, tenths make ties but for the last digits, fractions make rounding
 * errors. */
enum kind { WHOLE, TENTHS, FRACTIONS, N_KINDS };

static double random_amount(struct prn_random *r, enum kind kind, double most)
{
    if (kind == FRACTIONS)
        return prn_random_double(r) * most;
    return (double)prn_random_below(r, (uint64_t)most + 1) / (kind == WHOLE ? 1 : 10);
}

static void make_instance(struct prn_random *r, struct instance *x)
{
    memset(x, 0, sizeof *x);
    enum kind kind = (enum kind)prn_random_below(r, N_KINDS);
    bool tight = prn_random_below(r, 2);
    size_t layers = 1 + prn_random_below(r, LAYERS_MAX);
    size_t n_types = 1 + prn_random_below(r, TYPES_MAX);
    for (size_t j = 0; j < layers; j++) {
        x->mem_mb[j] = random_amount(r, kind, 4);
        x->bytes_out[j] = 1048576.0 / 8 * (double)prn_random_below(r, 5);
    }
    for (size_t t = 0; t < n_types; t++) {
        for (size_t j = 0; j < layers; j++)
            x->times[t][j] = random_amount(r, kind, 5);
        x->types[t] = (struct prn_pipeline_type){
            .name = "type",
            .mem_mb = tight ? random_amount(r, kind, 14) : 1000,
            .bw_mbps = prn_random_below(r, 6) == 0 ? 0 : 1 + (double)prn_random_below(r, 3),
            .usd_per_hour = (double)prn_random_below(r, 4) / (kind == WHOLE ? 1 : 10),
            .time_s = x->times[t],
            .n_hosts = prn_random_below(r, 4)};
    }
    x->pipeline = (struct prn_pipeline){.n_layers = layers,
                                        .layer_mem_mb = x->mem_mb,
                                        .fixed_mem_mb =
                                            prn_random_below(r, 2) ? random_amount(r, kind, 3) : 0,
                                        .bytes_in = 1048576.0 / 8 * (double)prn_random_below(r, 5),
                                        .bytes_out = x->bytes_out,
                                        .batch_size = 8,
                                        .buffers_in = (int64_t)prn_random_below(r, 3),
                                        .buffers_out = (int64_t)prn_random_below(r, 3),
                                        .types = x->types,
                                        .n_types = n_types};
    if (prn_random_below(r, 4) == 0)
        x->pipeline.pair_mbps = x->pairs;
    for (size_t i = 0; i < n_types * n_types; i++)
        x->pairs[i] = (double)prn_random_below(r, 5);
    if (prn_random_below(r, 4) == 0)
        x->pipeline.link_share = 0.25;
    if (prn_random_below(r, 6) == 0)
        x->pipeline.ends = x->ends;
    for (size_t j = 0; j < layers; j++)
        x->ends[j] = j + 1 == layers || prn_random_below(r, 2);
}

static struct prn_schedule_goal random_goal(struct prn_random *r, enum prn_objective objective)
{
    struct prn_schedule_goal goal = PRN_SCHEDULE_GOAL_INIT;
    goal.objective = objective;
    goal.max_stages = prn_random_below(r, 3) == 0 ? 1 + prn_random_below(r, 4) : 0;
    if (objective == PRN_OBJECTIVE_COST) {
        uint64_t which = prn_random_below(r, 3);
        double unit = prn_random_below(r, 2) ? 1 : 0.1;
        if (which != 0)
            goal.max_period_s = unit * (1 + (double)prn_random_below(r, 12));
        if (which != 1)
            goal.max_latency_s = unit * (1 + (double)prn_random_below(r, 20));
    }
    return goal;
}

/* ---- Exhaustive search ---- */

struct figures {
    double first; /* the objective */
    size_t hosts;
    double last; /* what decides between equals */
};

struct search {
    const struct instance *x;
    const struct prn_schedule_goal *goal;
    size_t used[TYPES_MAX];
    size_t stages;
    double period, latency, stage_sum;
    double limit; /* of the objective */
    bool ties;    /* all within the limit are equal: hosts decide */
    struct figures best;
    size_t found;
};

static double up_to(double limit)
{
    return limit * (1 + 1e-12);
}

static bool less(const struct figures *a, const struct figures *b)
{
    if (a->hosts != b->hosts)
        return a->hosts < b->hosts;
    return a->last < b->last;
}

static void at_the_end(struct search *s)
{
    const struct prn_schedule_goal *g = s->goal;
    struct figures now = {.hosts = s->stages};
    double cost = 0;
    for (size_t t = 0; t < s->x->pipeline.n_types; t++)
        cost += (double)s->used[t] * s->x->types[t].usd_per_hour;
    switch (g->objective) {
    case PRN_OBJECTIVE_THROUGHPUT:
        now.first = s->period;
        now.last = s->stage_sum;
        break;
    case PRN_OBJECTIVE_LATENCY:
        now.first = s->latency;
        break;
    default:
        if (s->period > up_to(g->max_period_s) || s->latency > up_to(g->max_latency_s))
            return;
        now.first = cost;
        now.last = isinf(g->max_latency_s) ? s->stage_sum : s->latency;
    }
    if (now.first > s->limit)
        return;
    if (s->found++ == 0 || (s->ties ? less(&now, &s->best) : now.first < s->best.first))
        s->best = now;
}

static bool fits(const struct instance *x, size_t type, size_t first, size_t last)
{
    const struct prn_pipeline *p = &x->pipeline;
    double need = p->fixed_mem_mb * 1024 * 1024;
    for (size_t j = first; j <= last; j++)
        need += fmax(0, x->mem_mb[j - 1] - p->fixed_mem_mb) * 1024 * 1024;
    double in = first == 1 ? p->bytes_in : x->bytes_out[first - 2];
    double out = x->bytes_out[last - 1];
    double buffers = (first == 1 ? 0 : in * (double)p->buffers_in) + out * (double)p->buffers_out;
    return x->types[type].mem_mb * 1024 * 1024 > need + (buffers + in + out);
}

static void try_all(struct search *s, size_t done, size_t former_type)
{
    const struct prn_pipeline *p = &s->x->pipeline;
    if (done == p->n_layers) {
        at_the_end(s);
        return;
    }
    if (s->goal->max_stages && s->stages == s->goal->max_stages)
        return;
    for (size_t t = 0; t < p->n_types; t++) {
        if (s->used[t] == s->x->types[t].n_hosts)
            continue;
        double link = 0;
        if (done > 0 && s->x->bytes_out[done - 1] > 0) {
            double bw = fmin(s->x->types[t].bw_mbps, s->x->types[former_type].bw_mbps);
            if (p->pair_mbps)
                bw = s->x->pairs[former_type * p->n_types + t];
            if (bw == 0)
                continue;
            double share = p->link_share > 0 ? p->link_share : 1;
            link = s->x->bytes_out[done - 1] * share / (bw * 1024 * 1024 / 8);
        }
        double time = 0;
        for (size_t last = done + 1; last <= p->n_layers; last++) {
            time += s->x->times[t][last - 1];
            if (p->ends && last > done + 1 && s->x->ends[last - 2])
                break;
            if (!fits(s->x, t, done + 1, last) || (p->ends && !s->x->ends[last - 1]))
                continue;
            struct search deeper = *s;
            deeper.used[t]++;
            deeper.stages++;
            deeper.period = fmax(fmax(s->period, link), time);
            deeper.latency = s->latency + link + time;
            deeper.stage_sum = s->stage_sum + time;
            try_all(&deeper, last, t);
            s->best = deeper.best;
            s->found = deeper.found;
        }
    }
}

/* The best figure first, then the fewest hosts with one that is equal to it. */
static struct search exhaust(const struct instance *x, const struct prn_schedule_goal *goal)
{
    struct search best = {.x = x, .goal = goal, .limit = INFINITY};
    try_all(&best, 0, 0);
    struct search all = {.x = x, .goal = goal, .limit = up_to(best.best.first), .ties = true};
    try_all(&all, 0, 0);
    return all;
}

/* ---- Comparison ---- */

/* Layers in order, hosts of a type in order, everything fits; and what it takes. */
static struct figures check(const struct instance *x, const struct prn_schedule_goal *goal,
                            const struct prn_schedule *s)
{
    const struct prn_pipeline *p = &x->pipeline;
    size_t used[TYPES_MAX] = {0};
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct prn_stage *stage = &s->stages[i];
        assert_int_equal(stage->first, i == 0 ? 1 : s->stages[i - 1].last + 1);
        assert_true(stage->last >= stage->first);
        assert_int_equal(stage->host, used[stage->type]);
        assert_true(++used[stage->type] <= x->types[stage->type].n_hosts);
        assert_true(fits(x, stage->type, stage->first, stage->last));
        sum += prn_pipeline_stage_time(p, stage->type, stage->first, stage->last);
    }
    assert_int_equal(s->stages[s->n - 1].last, p->n_layers);
    struct figures f = {.first = prn_schedule_value(p, goal, s), .hosts = s->n, .last = sum};
    if (goal->objective == PRN_OBJECTIVE_LATENCY)
        f.last = 0;
    else if (goal->objective == PRN_OBJECTIVE_COST && !isinf(goal->max_latency_s))
        f.last = prn_schedule_latency(p, s);
    return f;
}

static void compare(enum prn_objective objective)
{
    struct prn_random r;
    prn_random_seed(&r, 1 + (uint64_t)objective);
    size_t feasible = 0;
    for (int i = 0; i < INSTANCES; i++) {
        struct instance x;
        make_instance(&r, &x);
        struct prn_schedule_goal goal = random_goal(&r, objective);
        struct search all = exhaust(&x, &goal);
        struct prn_schedule found;
        struct prony_error err;
        assert_int_equal(prn_schedule_find(&x.pipeline, &goal, &found, &err), 0);
        if ((found.n > 0) != (all.found > 0))
            fail_msg("instance %d: %zu stages, but %zu schedules", i, found.n, all.found);
        if (found.n > 0) {
            struct figures f = check(&x, &goal, &found);
            if (f.first > all.limit || less(&f, &all.best) || less(&all.best, &f))
                fail_msg("instance %d: (%.17g, %zu, %.17g), but the best is (%.17g, %zu, %.17g)", i,
                         f.first, f.hosts, f.last, all.best.first, all.best.hosts, all.best.last);
            feasible++;
        }
        prn_schedule_release(&found);
    }
    /* Both sides of the question are asked often enough. */
    assert_in_range(feasible, INSTANCES / 5, INSTANCES - INSTANCES / 10);
}

static void throughput_is_the_optimum(void **state)
{
    (void)state;
    compare(PRN_OBJECTIVE_THROUGHPUT);
}

static void latency_is_the_optimum(void **state)
{
    (void)state;
    compare(PRN_OBJECTIVE_LATENCY);
}

static void cost_is_the_optimum(void **state)
{
    (void)state;
    compare(PRN_OBJECTIVE_COST);
}

static void one_more_host_is_what_the_search_says(void **state)
{
    (void)state;
    struct prn_random r;
    prn_random_seed(&r, 9);
    size_t better = 0;
    for (int i = 0; i < 3000; i++) {
        struct instance x;
        make_instance(&r, &x);
        struct prn_schedule_goal goal = random_goal(&r, (enum prn_objective)(i % 3));
        struct prn_schedule found;
        struct prony_error err;
        size_t type = prn_random_below(&r, x.pipeline.n_types);
        assert_int_equal(prn_schedule_find(&x.pipeline, &goal, &found, &err), 0);
        double known = prn_schedule_value(&x.pipeline, &goal, &found);
        prn_schedule_release(&found);
        double more;
        assert_int_equal(prn_schedule_with_one_more(&x.pipeline, &goal, type, known, &more, &err),
                         0);
        x.types[type].n_hosts++;
        assert_int_equal(prn_schedule_find(&x.pipeline, &goal, &found, &err), 0);
        double then = prn_schedule_value(&x.pipeline, &goal, &found);
        assert_true(!prn_pipeline_less(more, then) && !prn_pipeline_less(then, more));
        assert_false(prn_pipeline_less(known, more));
        better += prn_pipeline_less(more, known);
        prn_schedule_release(&found);
    }
    assert_in_range(better, 100, 2900);
}

/* ---- By hand ---- */

/* 12 layers; A takes 10 s a layer and has two hosts, B 1 s and one: 1, 10 and 1 layers on A, B, A
 * take 10 s each. */
static void a_slow_type_helps_a_fast_one(void **state)
{
    (void)state;
    double slow[12], fast[12], mem[12] = {0}, out[12] = {0};
    for (size_t j = 0; j < 12; j++) {
        slow[j] = 10;
        fast[j] = 1;
    }
    struct prn_pipeline_type types[] = {
        {.name = "A", .mem_mb = 1, .bw_mbps = 1, .time_s = slow, .n_hosts = 2},
        {.name = "B", .mem_mb = 1, .bw_mbps = 1, .time_s = fast, .n_hosts = 1}};
    struct prn_pipeline p = {.n_layers = 12,
                             .layer_mem_mb = mem,
                             .bytes_out = out,
                             .batch_size = 8,
                             .types = types,
                             .n_types = 2};
    struct prn_schedule_goal goal = PRN_SCHEDULE_GOAL_INIT;
    struct prn_schedule s;
    struct prony_error err;
    assert_int_equal(prn_schedule_find(&p, &goal, &s, &err), 0);
    assert_int_equal(s.n, 3);
    static const size_t ends[] = {1, 11, 12};
    static const size_t expected_types[] = {0, 1, 0};
    static const size_t hosts[] = {0, 0, 1};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(s.stages[i].last, ends[i]);
        assert_int_equal(s.stages[i].type, expected_types[i]);
        assert_int_equal(s.stages[i].host, hosts[i]);
    }
    assert_true(prn_schedule_period(&p, &s) == 10);
    assert_true(prn_schedule_latency(&p, &s) == 30);
    prn_schedule_release(&s);
}

/* 0.1 + 0.2 is more than 0.3 by an ulp, and 2 hosts are as good as 3 all the same. */
static void ulps_need_no_host(void **state)
{
    (void)state;
    double time[3] = {0.1, 0.2, 0.3}, mem[3] = {0}, out[3] = {0};
    struct prn_pipeline_type type = {
        .name = "A", .mem_mb = 1, .bw_mbps = 1, .usd_per_hour = 0.1, .time_s = time, .n_hosts = 3};
    struct prn_pipeline p = {.n_layers = 3,
                             .layer_mem_mb = mem,
                             .bytes_out = out,
                             .batch_size = 8,
                             .types = &type,
                             .n_types = 1};
    struct prn_schedule_goal goal = PRN_SCHEDULE_GOAL_INIT;
    struct prn_schedule s;
    struct prony_error err;
    assert_int_equal(prn_schedule_find(&p, &goal, &s, &err), 0);
    assert_int_equal(s.n, 2);
    prn_schedule_release(&s);
    goal.objective = PRN_OBJECTIVE_COST;
    goal.max_period_s = 0.3;
    assert_int_equal(prn_schedule_find(&p, &goal, &s, &err), 0);
    assert_int_equal(s.n, 2);
    prn_schedule_release(&s);
    goal.max_period_s = INFINITY;
    goal.max_latency_s = 0.3 + 0.3; /* 0.1 + 0.2 + 0.3 is more */
    assert_int_equal(prn_schedule_find(&p, &goal, &s, &err), 0);
    assert_int_equal(s.n, 1);
    prn_schedule_release(&s);
}

/* What is printed as the best can be asked for. */
static void an_optimum_is_a_limit(void **state)
{
    (void)state;
    struct prn_random r;
    prn_random_seed(&r, 5);
    for (int i = 0; i < 2000; i++) {
        struct instance x;
        make_instance(&r, &x);
        struct prn_schedule_goal goal = PRN_SCHEDULE_GOAL_INIT;
        struct prn_schedule s;
        struct prony_error err;
        assert_int_equal(prn_schedule_find(&x.pipeline, &goal, &s, &err), 0);
        double period = prn_schedule_value(&x.pipeline, &goal, &s);
        size_t n = s.n;
        prn_schedule_release(&s);
        if (n == 0 || period == 0)
            continue;
        goal.objective = PRN_OBJECTIVE_COST;
        goal.max_period_s = 8 / (8 / period);
        assert_int_equal(prn_schedule_find(&x.pipeline, &goal, &s, &err), 0);
        assert_true(s.n > 0);
        prn_schedule_release(&s);
    }
}

/* Bounds hold, and schedules are feasible and near the best. */
static void approximations_are_bounded(void **state)
{
    (void)state;
    struct prn_random r;
    prn_random_seed(&r, 4);
    size_t found = 0;
    size_t best = 0;
    size_t feasible = 0;
    for (int i = 0; i < 1500; i++) {
        struct instance x;
        make_instance(&r, &x);
        struct prn_schedule_goal goal = random_goal(&r, (enum prn_objective)(i % 3));
        struct prn_schedule exact, near;
        struct prony_error err;
        double bound;
        assert_int_equal(prn_schedule_find(&x.pipeline, &goal, &exact, &err), 0);
        assert_int_equal(prn_schedule_approximate(&x.pipeline, &goal, &near, &bound, &err), 0);
        double value = prn_schedule_value(&x.pipeline, &goal, &exact);
        if (exact.n > 0 && prn_pipeline_less(value * (1 + 1e-9), bound))
            fail_msg("instance %d: bound %.17g, but the best is %.17g", i, bound, value);
        assert_true(exact.n > 0 || near.n == 0);
        if (near.n > 0) {
            check(&x, &goal, &near);
            double there = prn_schedule_value(&x.pipeline, &goal, &near);
            assert_false(prn_pipeline_less(there, value));
            assert_true(prn_schedule_period(&x.pipeline, &near) <= up_to(goal.max_period_s));
            assert_true(prn_schedule_latency(&x.pipeline, &near) <= up_to(goal.max_latency_s));
            best += !prn_pipeline_less(value, there);
            found++;
        }
        feasible += exact.n > 0;
        prn_schedule_release(&exact);
        prn_schedule_release(&near);
    }
    /* So small, nearly all are found, and nearly all are the best. */
    assert_in_range(found, feasible * 98 / 100, feasible);
    assert_in_range(best, feasible * 90 / 100, feasible);
}

static void what_is_too_large_is_refused(void **state)
{
    (void)state;
    double time[40], mem[40] = {0}, out[40] = {0};
    struct prn_pipeline_type types[12];
    for (size_t j = 0; j < 40; j++)
        time[j] = (double)(j + 1);
    for (size_t t = 0; t < 12; t++)
        types[t] = (struct prn_pipeline_type){
            .name = "t", .mem_mb = 1, .bw_mbps = 1, .time_s = time, .n_hosts = 30};
    struct prn_pipeline p = {
        .n_layers = 40, .layer_mem_mb = mem, .bytes_out = out, .types = types, .n_types = 12};
    struct prn_schedule_goal goal = PRN_SCHEDULE_GOAL_INIT;
    struct prn_schedule s = {.n = 77};
    struct prony_error err;
    assert_int_equal(prn_schedule_find(&p, &goal, &s, &err), PRONY_ELIMIT);
    assert_contains(err.text, "40 layers on 360 hosts of 12 types");
    assert_int_equal(s.n, 77);
    /* But approximated: all hosts are alike, so 40 layers on 40 hosts take as long as the last. */
    double bound;
    assert_int_equal(prn_schedule_approximate(&p, &goal, &s, &bound, &err), 0);
    assert_true(prn_schedule_period(&p, &s) == 40);
    assert_true(bound > 39.9 && bound <= 40 * (1 + 1e-9));
    prn_schedule_release(&s);
    goal.max_stages = 3;
    assert_int_equal(prn_schedule_find(&p, &goal, &s, &err), 0);
    assert_int_equal(s.n, 3);
    prn_schedule_release(&s);
    /* With less memory that is too much again. */
    goal.max_stages = 6;
    goal.max_memory_bytes = (size_t)1 << 20;
    assert_int_equal(prn_schedule_find(&p, &goal, &s, &err), PRONY_ELIMIT);
    assert_contains(err.text, "in 1 MiB; --max-memory allows more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(throughput_is_the_optimum),
        cmocka_unit_test(latency_is_the_optimum),
        cmocka_unit_test(cost_is_the_optimum),
        cmocka_unit_test(one_more_host_is_what_the_search_says),
        cmocka_unit_test(a_slow_type_helps_a_fast_one),
        cmocka_unit_test(ulps_need_no_host),
        cmocka_unit_test(an_optimum_is_a_limit),
        cmocka_unit_test(approximations_are_bounded),
        cmocka_unit_test(what_is_too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
