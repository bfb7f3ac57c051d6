/* The objectives, each made of the two searches: what can be reached, and the smallest sum. */
#include "pipeline/schedule/schedule.h"

#include "base/stats.h"
#include "pipeline/schedule/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Throughput ---- */

/*
 * The period of a schedule is the time of one of its stages or links, so these are the candidates.
 * Those that are left lie in an array without order; every question halves it. Greedy questions are
 * cheap and settle nearly everything; an exact one then shows that nothing smaller is possible, or
 * the search goes on below with exact questions alone.
 */
struct candidates {
    double *times;
    size_t n;
};

static int collect(const struct prn_space *s, double below, struct candidates *ret_candidates,
                   struct prony_error *err)
{
    size_t n = 0;
    size_t stages = s->n_types * s->n_layers * s->width;
    size_t links = s->n_types * s->n_types * s->n_layers;
    /* A stage ends where there are layers. */
    size_t bytes = (stages - s->n_types * s->width * (s->width - 1) / 2 + links) * sizeof(double);
    if (bytes > prn_space_room(s))
        return prn_space_fail_size(s, err);
    double *times = malloc(bytes + 1);
    if (!times)
        return prn_fail_memory(err);
    for (size_t i = 0; i < stages; i++)
        if (s->stage[i] < below)
            times[n++] = s->stage[i];
    for (size_t i = 0; i < links; i++)
        if (s->link[i] < below)
            times[n++] = s->link[i];
    *ret_candidates = (struct candidates){times, n};
    return 0;
}

/* One of the middle ones, without looking at all of them. */
static double choose(const struct candidates *c)
{
    double sample[33];
    size_t n = PRN_ARRAY_SIZE(sample);
    for (size_t i = 0; i < n; i++)
        sample[i] = c->times[(2 * i + 1) * c->n / (2 * n)];
    prn_stats_sort(sample, n);
    return sample[n / 2];
}

/* Keeps the candidates on one side of `time`, which itself is dropped. */
static void keep(struct candidates *c, double time, bool smaller)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        if (smaller ? c->times[i] < time : c->times[i] > time)
            c->times[n++] = c->times[i];
    c->n = n;
}

static int ask(const struct prn_space *s, double period, bool exactly, bool *ret_reached,
               struct prony_error *err)
{
    if (!exactly)
        return prn_reach_greedily(s, period, ret_reached, err);
    size_t stages;
    int code = prn_reach(s, period, &stages, err);
    if (code == 0)
        *ret_reached = stages > 0;
    return code;
}

/* The smallest candidate below `*period` that is reached takes its place, if there is one. */
static int lower(const struct prn_space *s, bool exactly, double *period, struct prony_error *err)
{
    struct candidates c = {0};
    int code = collect(s, *period, &c, err);
    if (code < 0)
        return code;
    while (c.n > 0) {
        double time = choose(&c);
        bool reached = false;
        code = ask(s, time, exactly, &reached, err);
        if (code < 0)
            break;
        if (reached)
            *period = time;
        keep(&c, time, reached);
    }
    free(c.times);
    return code;
}

/* The largest candidate below a time; -INFINITY when there is none. */
static double next_below(const struct prn_space *s, double time)
{
    double next = -INFINITY;
    for (size_t i = 0; i < s->n_types * s->n_layers * s->width; i++)
        if (s->stage[i] < time && s->stage[i] > next)
            next = s->stage[i];
    for (size_t i = 0; i < s->n_types * s->n_types * s->n_layers; i++)
        if (s->link[i] < time && s->link[i] > next)
            next = s->link[i];
    return next;
}

/* Lowers `*period`, which is reached, to the smallest that is. */
static int lower_exactly(const struct prn_space *s, double *period, struct prony_error *err)
{
    bool reached = false;
    int code = lower(s, false, period, err);
    double smaller = next_below(s, *period);
    if (code == 0 && smaller >= 0)
        code = ask(s, smaller, true, &reached, err);
    if (code < 0 || !reached)
        return code;
    *period = smaller;
    return lower(s, true, period, err);
}

/* A period that is likely to be reached: twice the least that there could be, if layers could be
 * divided between all hosts, or that some layer takes. */
static double guess_period(const struct prn_space *s)
{
    double rate = 0;
    double longest = 0;
    for (size_t v = 0; v < s->n_types; v++) {
        const double *times = s->pipeline->types[s->types[v]].time_s;
        double sum = 0;
        for (size_t j = 0; j < s->n_layers; j++)
            sum += times[j];
        rate += (double)s->counts[v] / sum;
    }
    for (size_t j = 0; j < s->n_layers; j++) {
        double least = INFINITY;
        for (size_t v = 0; v < s->n_types; v++)
            least = fmin(least, s->pipeline->types[s->types[v]].time_s[j]);
        longest = fmax(longest, least);
    }
    return 2 * fmax(1 / rate, longest);
}

/* Finds a period that is reached; false: none is. What takes longer is out of the question then, so
 * the tables leave it out; most of all stages are that long. */
static int find_bound(struct prn_space *s, double *ret_period, bool *ret_found,
                      struct prony_error *err)
{
    double bound = guess_period(s);
    bool reached = false;
    for (;;) {
        int code = prn_space_set_bound(s, bound, err);
        if (code < 0)
            return code;
        double period = fmin(bound, next_below(s, INFINITY));
        code = ask(s, period, false, &reached, err);
        if (code == 0 && !reached)
            code = ask(s, period, true, &reached, err);
        if (code < 0)
            return code;
        *ret_period = period;
        *ret_found = reached;
        if (reached || !(bound < INFINITY))
            return 0;
        bound = bound > 0 && s->width < s->n_layers ? 4 * bound : INFINITY;
    }
}

/* The smallest period for which the end is reached, and with how many stages; 0: none is. */
static int least_period(struct prn_space *s, double *ret_period, size_t *ret_stages,
                        struct prony_error *err)
{
    bool found;
    size_t stages = 0;
    int code = find_bound(s, ret_period, &found, err);
    if (code == 0 && found)
        code = lower_exactly(s, ret_period, err);
    if (code == 0 && found)
        code = prn_reach(s, *ret_period, &stages, err);
    if (code == 0)
        *ret_stages = stages;
    return code;
}

/* ---- All objectives ---- */

/*
 * Each has two steps: the best figure that there is, then the fewest hosts with a figure that is
 * equal to it (pipeline.h). The first step sets the limits of the second; without stages nothing is
 * feasible.
 */
static int find_least_period(struct prn_space *s, struct prn_sum_goal *goal,
                             struct prony_error *err)
{
    double period;
    int code = least_period(s, &period, &goal->max_stages, err);
    if (code == 0 && goal->max_stages > 0)
        goal->period = prn_pipeline_up_to(period);
    return code;
}

static int find_least_sum(struct prn_space *s, const struct prn_schedule_goal *asked,
                          struct prn_sum_goal *goal, struct prony_error *err)
{
    struct prn_sum_goal first = *goal;
    struct prn_schedule best;
    bool cost = asked->objective == PRN_OBJECTIVE_COST;
    first.order = cost ? PRN_SUM_CHEAPEST : PRN_SUM_LEAST;
    int code = prn_space_set_bound(s, goal->period, err);
    if (code == 0)
        code = prn_sum_search(s, &first, &best, err);
    if (code < 0)
        return code;
    goal->max_stages = best.n;
    double limit = prn_pipeline_up_to(prn_schedule_value(s->pipeline, asked, &best));
    *(cost ? &goal->max_cost : &goal->limit) = limit;
    prn_schedule_release(&best);
    return 0;
}

static int find_best(struct prn_space *s, const struct prn_schedule_goal *asked,
                     struct prn_schedule *ret_schedule, struct prony_error *err)
{
    bool throughput = asked->objective == PRN_OBJECTIVE_THROUGHPUT;
    struct prn_sum_goal goal = {.order = PRN_SUM_FEWEST,
                                .max_stages = s->depth,
                                .period = INFINITY,
                                .limit = INFINITY,
                                .max_cost = INFINITY,
                                .links = !throughput};
    if (asked->objective == PRN_OBJECTIVE_COST) {
        goal.period = prn_pipeline_up_to(asked->max_period_s);
        goal.limit = prn_pipeline_up_to(asked->max_latency_s);
        goal.links = asked->max_latency_s < INFINITY;
    }
    int code = throughput ? find_least_period(s, &goal, err) : find_least_sum(s, asked, &goal, err);
    if (code < 0 || goal.max_stages == 0)
        return code;
    return prn_sum_search(s, &goal, ret_schedule, err);
}

void prn_schedule_name_hosts(struct prn_schedule *schedule)
{
    for (size_t i = 0; i < schedule->n; i++)
        for (size_t k = 0; k < i; k++)
            if (schedule->stages[k].type == schedule->stages[i].type)
                schedule->stages[i].host++;
}

int prn_schedule_find(const struct prn_pipeline *p, const struct prn_schedule_goal *goal,
                      struct prn_schedule *ret_schedule, struct prony_error *err)
{
    struct prn_schedule schedule = {0};
    struct prn_space space;
    int code = prn_space_init(&space, p, goal, err);
    if (code < 0)
        return code;
    code = find_best(&space, goal, &schedule, err);
    prn_space_release(&space);
    if (code < 0)
        return code;
    prn_schedule_name_hosts(&schedule);
    *ret_schedule = schedule;
    return 0;
}

int prn_schedule_with_one_more(const struct prn_pipeline *p, const struct prn_schedule_goal *goal,
                               size_t type, double known, double *ret_value,
                               struct prony_error *err)
{
    struct prn_pipeline more = *p;
    more.types = calloc(p->n_types, sizeof *more.types);
    if (!more.types)
        return prn_fail_memory(err);
    memcpy(more.types, p->types, p->n_types * sizeof *more.types);
    more.types[type].n_hosts++;
    int code;
    if (goal->objective == PRN_OBJECTIVE_THROUGHPUT && known < INFINITY) {
        struct prn_space space;
        code = prn_space_init(&space, &more, goal, err);
        if (code == 0) {
            double period = known;
            code = prn_space_set_bound(&space, known, err);
            if (code == 0)
                code = lower_exactly(&space, &period, err);
            if (code == 0)
                *ret_value = period;
            prn_space_release(&space);
        }
    } else {
        struct prn_schedule schedule;
        code = prn_schedule_find(&more, goal, &schedule, err);
        if (code == 0) {
            *ret_value = prn_schedule_value(&more, goal, &schedule);
            prn_schedule_release(&schedule);
        }
    }
    free(more.types);
    return code;
}

void prn_schedule_release(struct prn_schedule *s)
{
    free(s->stages);
    *s = (struct prn_schedule){0};
}

/* ---- What a schedule takes ---- */

static double stage_time(const struct prn_pipeline *p, const struct prn_stage *stage)
{
    return prn_pipeline_stage_time(p, stage->type, stage->first, stage->last);
}

static double link_time(const struct prn_pipeline *p, const struct prn_stage *stage)
{
    return prn_pipeline_link_time(p, stage->last, stage->type, stage[1].type);
}

double prn_schedule_period(const struct prn_pipeline *p, const struct prn_schedule *s)
{
    double period = 0;
    for (size_t i = 0; i < s->n; i++) {
        period = fmax(period, stage_time(p, &s->stages[i]));
        if (i + 1 < s->n)
            period = fmax(period, link_time(p, &s->stages[i]));
    }
    return period;
}

double prn_schedule_latency(const struct prn_pipeline *p, const struct prn_schedule *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        sum += stage_time(p, &s->stages[i]);
        if (i + 1 < s->n)
            sum += link_time(p, &s->stages[i]);
    }
    return sum;
}

double prn_schedule_cost(const struct prn_pipeline *p, const struct prn_schedule *s)
{
    double cost = 0;
    for (size_t t = 0; t < p->n_types; t++) {
        size_t used = 0;
        for (size_t i = 0; i < s->n; i++)
            used += s->stages[i].type == t;
        if (used > 0)
            cost += (double)used * p->types[t].usd_per_hour;
    }
    return cost;
}

double prn_schedule_value(const struct prn_pipeline *p, const struct prn_schedule_goal *goal,
                          const struct prn_schedule *s)
{
    if (s->n == 0)
        return INFINITY;
    switch (goal->objective) {
    case PRN_OBJECTIVE_LATENCY:
        return prn_schedule_latency(p, s);
    case PRN_OBJECTIVE_COST:
        return prn_schedule_cost(p, s);
    default:
        return prn_schedule_period(p, s);
    }
}
