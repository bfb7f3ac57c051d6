/*
 * A schedule for when there is too much to search, and how far it can be from the best.
 *
 * The bound comes from relaxations, so it holds for every schedule:
 * - a host of any type for every stage, however many there are of it: one pass from the last layer
 *   to the first;
 * - layers in pieces, each spread over all hosts: a host of type v that works for T seconds at a
 *   rent of λ_v a second can't earn more than λ_v T, so with any rents that add up to 1 over all
 *   hosts T is at least Σ over the layers of the cheapest rent for it. A few rounds of raising the
 *   rent of what is in demand make that bound tight.
 *
 * The schedule comes from a beam: stage by stage, of all beginnings of schedules the most promising
 * are kept, at most BEAM of them.
 */
#include "pipeline/schedule/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BEAM 256
#define ENDS 24    /* of a stage that are tried */
#define ROUNDS 400 /* of raising rents */
#define STEPS 24   /* of halving what is between bound and schedule */

struct beginning {
    size_t former; /* in the list of all; SIZE_MAX: none */
    size_t type, done;
    double sum;   /* of stage times, and link times where they count */
    double cost;  /* of its hosts */
    double score; /* smaller is better */
};

struct approximation {
    const struct prn_pipeline *p;
    const struct prn_schedule_goal *goal;
    size_t depth;     /* most stages */
    double *rents;    /* per type */
    double *rented;   /* [done]: what the layers behind cost at these rents, at least */
    double *rest;     /* [type][done]: what they take at least, links included; done from 1 on */
    double *priced;   /* [done]: dollars for them at least, if hosts work all the time */
    double max_s;     /* no stage or link may take longer */
    double max_sum_s; /* of the sum */
    struct beginning *all;
    size_t n, capacity;
    size_t *used; /* scratch, per type */
    double *demand, *best_rents;
    bool by_slack; /* what leaves the most capacity is the most promising, whatever it costs */
    struct prony_error *err;
};

/* ---- What the pipeline says ---- */

static bool may_follow(const struct approximation *a, size_t from, size_t done, size_t type)
{
    double time = done > 0 ? prn_pipeline_link_time(a->p, done, from, type) : 0;
    return time <= a->max_s && time < INFINITY;
}

static double link_time(const struct approximation *a, size_t from, size_t done, size_t type)
{
    bool counts = a->goal->objective == PRN_OBJECTIVE_LATENCY || a->max_sum_s < INFINITY;
    return done > 0 && counts ? prn_pipeline_link_time(a->p, done, from, type) : 0;
}

/* The stages on a type that begin behind a layer, one after another; `last` is 0 at first. */
struct stages {
    size_t type, done, last;
    double weights, time;
};

static bool next_stage(const struct approximation *a, struct stages *s)
{
    if (s->last == 0) {
        s->last = s->done;
        s->weights = prn_pipeline_fixed_memory(a->p);
    } else if (a->p->ends) {
        return false; /* the only one was there */
    }
    while (s->last < a->p->n_layers) {
        s->last++;
        s->weights += prn_pipeline_layer_memory(a->p, s->last);
        s->time += a->p->types[s->type].time_s[s->last - 1];
        if (s->time > a->max_s)
            return false;
        bool ends = !a->p->ends || a->p->ends[s->last - 1];
        if (ends && prn_pipeline_type_memory(a->p, s->type) >
                        s->weights + prn_pipeline_buffer_memory(a->p, s->done + 1, s->last))
            return true;
        if (a->p->ends && ends)
            return false;
    }
    return false;
}

/* ---- Relaxations ---- */

/* The least that follows, if there were hosts enough of every type: time, or the number of stages.
 * Of the whole, in `*ret_whole`. */
static void relax(struct approximation *a, bool stages_only, double *ret_whole)
{
    size_t n = a->p->n_layers;
    size_t k = a->p->n_types;
    *ret_whole = INFINITY;
    for (size_t u = 0; u < k; u++)
        a->rest[u * (n + 1) + n] = 0;
    for (size_t done = n; done-- > 0;) {
        for (size_t u = 0; done > 0 && u < k; u++)
            a->rest[u * (n + 1) + done] = INFINITY;
        for (size_t v = 0; v < k; v++) {
            double least = INFINITY;
            struct stages s = {.type = v, .done = done};
            while (a->p->types[v].n_hosts > 0 && next_stage(a, &s))
                least = fmin(least, (stages_only ? 1 : s.time) + a->rest[v * (n + 1) + s.last]);
            if (done == 0)
                *ret_whole = fmin(*ret_whole, least);
            for (size_t u = 0; done > 0 && u < k; u++)
                if (may_follow(a, u, done, v)) {
                    double *rest = &a->rest[u * (n + 1) + done];
                    double link = stages_only ? 0 : prn_pipeline_link_time(a->p, done, u, v);
                    *rest = fmin(*rest, link + least);
                }
        }
    }
}

/* What the layers cost at the present rents; adds to `demand` what each type is asked for. */
static double rent_all(struct approximation *a, double *demand)
{
    a->rented[a->p->n_layers] = 0;
    for (size_t j = a->p->n_layers; j-- > 0;) {
        double least = INFINITY;
        size_t cheapest = 0;
        for (size_t v = 0; v < a->p->n_types; v++) {
            double rent = a->rents[v] * a->p->types[v].time_s[j];
            if (a->p->types[v].n_hosts > 0 && rent < least) {
                least = rent;
                cheapest = v;
            }
        }
        a->rented[j] = a->rented[j + 1] + least;
        demand[cheapest] += a->p->types[cheapest].time_s[j];
    }
    return a->rented[0];
}

static void scale_rents(struct approximation *a)
{
    double sum = 0;
    for (size_t v = 0; v < a->p->n_types; v++)
        sum += a->rents[v] * (double)a->p->types[v].n_hosts;
    for (size_t v = 0; v < a->p->n_types; v++)
        a->rents[v] /= sum;
}

/* The best bound that some rounds find; the rents that give it stay. */
static double raise_rents(struct approximation *a)
{
    size_t k = a->p->n_types;
    double *demand = a->demand;
    double *best_rents = a->best_rents;
    double best = 0;
    for (size_t v = 0; v < k; v++)
        a->rents[v] = best_rents[v] = 1;
    for (size_t round = 0; round < ROUNDS; round++) {
        scale_rents(a);
        memset(demand, 0, k * sizeof *demand);
        double bound = rent_all(a, demand);
        if (bound > best) {
            best = bound;
            memcpy(best_rents, a->rents, k * sizeof *best_rents);
        }
        double most = 0;
        for (size_t v = 0; v < k; v++)
            if (a->p->types[v].n_hosts > 0)
                most = fmax(most, demand[v] / (double)a->p->types[v].n_hosts);
        for (size_t v = 0; most > 0 && v < k; v++)
            if (a->p->types[v].n_hosts > 0) {
                double share = demand[v] / (double)a->p->types[v].n_hosts / most;
                a->rents[v] *= exp((share - 0.5) / sqrt((double)round + 1));
            }
    }
    memcpy(a->rents, best_rents, k * sizeof *best_rents);
    scale_rents(a);
    rent_all(a, demand);
    return best;
}

/* Dollars for the layers behind each, if every host that is paid works without a pause. */
static void price_layers(struct approximation *a)
{
    a->priced[a->p->n_layers] = 0;
    for (size_t j = a->p->n_layers; j-- > 0;) {
        double least = INFINITY;
        for (size_t v = 0; v < a->p->n_types; v++)
            if (a->p->types[v].n_hosts > 0)
                least =
                    fmin(least, a->p->types[v].usd_per_hour * a->p->types[v].time_s[j] / a->max_s);
        a->priced[j] = a->priced[j + 1] + (isfinite(least) ? least : 0);
    }
}

/* ---- The beam ---- */

static void count_used(struct approximation *a, size_t at)
{
    memset(a->used, 0, a->p->n_types * sizeof *a->used);
    for (; at != SIZE_MAX; at = a->all[at].former)
        a->used[a->all[at].type]++;
}

/* How promising it is: slack that is left, time or dollars that it will take at least. */
static double score(const struct approximation *a, const struct beginning *b)
{
    if (a->goal->objective == PRN_OBJECTIVE_LATENCY)
        return b->sum + a->rest[b->type * (a->p->n_layers + 1) + b->done];
    if (a->goal->objective == PRN_OBJECTIVE_COST && !a->by_slack)
        return b->cost + a->priced[b->done];
    double capacity = 0;
    for (size_t v = 0; v < a->p->n_types; v++) {
        size_t used = a->used[v] + (v == b->type);
        capacity += a->rents[v] * (double)(a->p->types[v].n_hosts - used);
    }
    return a->rented[b->done] - capacity * a->max_s;
}

static int add(struct approximation *a, const struct beginning *b)
{
    if (a->n == a->capacity) {
        size_t capacity = a->capacity ? 2 * a->capacity : 4096;
        struct beginning *all = realloc(a->all, capacity * sizeof *all);
        if (!all)
            return prn_fail_memory(a->err);
        a->all = all;
        a->capacity = capacity;
    }
    a->all[a->n++] = *b;
    return 0;
}

/* Whether a stage that ends here can lead to an end at all. */
static bool has_hope(const struct approximation *a, const struct beginning *b)
{
    double rest = a->rest[b->type * (a->p->n_layers + 1) + b->done];
    return rest < INFINITY && b->sum + rest <= a->max_sum_s;
}

/* The next stage on one type: the longest possible one, and some that are shorter. */
static int go_on(struct approximation *a, size_t from, size_t type)
{
    const struct beginning begin =
        from == SIZE_MAX ? (struct beginning){.former = SIZE_MAX} : a->all[from];
    struct beginning ends[ENDS];
    size_t seen = 0;
    if (a->used[type] == a->p->types[type].n_hosts || !may_follow(a, begin.type, begin.done, type))
        return 0;
    double sum = begin.sum + link_time(a, begin.type, begin.done, type);
    double price = a->p->types[type].usd_per_hour;
    struct stages s = {.type = type, .done = begin.done};
    while (next_stage(a, &s)) {
        struct beginning *b = &ends[seen % ENDS];
        *b = (struct beginning){.former = from,
                                .type = type,
                                .done = s.last,
                                .sum = sum + s.time,
                                .cost = begin.cost + (isnan(price) ? 0 : price)};
        if (!has_hope(a, b))
            continue;
        b->score = score(a, b);
        seen++;
    }
    int code = 0;
    for (size_t i = 0; i < (seen < ENDS ? seen : ENDS) && code == 0; i++)
        code = add(a, &ends[i]);
    return code;
}

static int compare_scores(const void *x, const void *y)
{
    const struct beginning *a = x;
    const struct beginning *b = y;
    if (a->score != b->score)
        return a->score < b->score ? -1 : 1;
    return (a->done < b->done) - (a->done > b->done);
}

/* The best end so far takes the place of `*best`; `done` is 0 when there is none yet. */
static void look_for_ends(const struct approximation *a, size_t from, struct beginning *best)
{
    bool cost = a->goal->objective == PRN_OBJECTIVE_COST;
    for (size_t i = from; i < a->n; i++) {
        const struct beginning *b = &a->all[i];
        if (b->done == a->p->n_layers &&
            (best->done == 0 || (cost ? b->cost < best->cost : b->sum < best->sum)))
            *best = *b;
    }
}

/* One stage more for each of the beginnings from..to; those that are left begin at `*ret_from`. */
static int add_level(struct approximation *a, size_t from, size_t to, size_t *ret_from)
{
    size_t first = a->n;
    int code = 0;
    for (size_t i = from; i < to && code == 0; i++) {
        if (a->all[i].done == a->p->n_layers)
            continue;
        count_used(a, i);
        for (size_t v = 0; v < a->p->n_types && code == 0; v++)
            code = go_on(a, i, v);
    }
    *ret_from = first;
    return code;
}

/* A schedule within the limits, if the beam finds one (`done` is 0 otherwise); the fewest stages
 * when all that is asked for is a period. */
static int search(struct approximation *a, struct beginning *ret_end)
{
    struct beginning best = {0};
    size_t from = 0;
    int code = 0;
    a->n = 0;
    memset(a->used, 0, a->p->n_types * sizeof *a->used);
    for (size_t v = 0; v < a->p->n_types && code == 0; v++)
        code = go_on(a, SIZE_MAX, v);
    for (size_t level = 1; code == 0 && from < a->n; level++) {
        look_for_ends(a, from, &best);
        if (level == a->depth || (best.done > 0 && a->goal->objective == PRN_OBJECTIVE_THROUGHPUT))
            break;
        qsort(a->all + from, a->n - from, sizeof *a->all, compare_scores);
        if (a->n - from > BEAM)
            a->n = from + BEAM;
        code = add_level(a, from, a->n, &from);
    }
    *ret_end = best;
    return code;
}

static int trace_back(const struct approximation *a, const struct beginning *end,
                      struct prn_schedule *ret)
{
    size_t n = 1;
    for (size_t i = end->former; i != SIZE_MAX; i = a->all[i].former)
        n++;
    struct prn_stage *stages = calloc(n + 1, sizeof *stages);
    if (!stages)
        return prn_fail_memory(a->err);
    for (size_t at = n; at-- > 0; end = at > 0 ? &a->all[end->former] : end)
        stages[at] =
            (struct prn_stage){.type = end->type,
                               .first = end->former == SIZE_MAX ? 1 : a->all[end->former].done + 1,
                               .last = end->done};
    prn_schedule_name_hosts(&(struct prn_schedule){.stages = stages, .n = n});
    *ret = (struct prn_schedule){.stages = stages, .n = n};
    return 0;
}

/* ---- Objectives ---- */

/* Whether hosts enough of every type would do within a period. */
static bool is_possible(struct approximation *a, double period)
{
    double stages;
    a->max_s = prn_pipeline_up_to(period);
    relax(a, true, &stages);
    return stages <= (double)a->depth;
}

/* The smallest period that isn't ruled out, from `bound` on, to a relative 1e-9. */
static double least_possible(struct approximation *a, double bound)
{
    double low = bound;
    double high = bound > 0 ? bound : 1e-9;
    if (is_possible(a, bound))
        return bound;
    while (!is_possible(a, high)) {
        low = high;
        high *= 2;
        if (isinf(high))
            return INFINITY;
    }
    while (high - low > 1e-9 * high) {
        double middle = low + (high - low) / 2;
        if (is_possible(a, middle))
            high = middle;
        else
            low = middle;
    }
    return low;
}

static int try_period(struct approximation *a, double period, struct prn_schedule *schedule)
{
    struct beginning end;
    double stages;
    a->max_s = prn_pipeline_up_to(period);
    relax(a, true, &stages);
    /* Here `rest` counts stages, and only whether there is an end matters. */
    int code = search(a, &end);
    if (code < 0 || end.done == 0)
        return code;
    struct prn_schedule found;
    code = trace_back(a, &end, &found);
    if (code == 0) {
        prn_schedule_release(schedule);
        *schedule = found;
    }
    return code;
}

static int approximate_throughput(struct approximation *a, double bound,
                                  struct prn_schedule *schedule, double *ret_bound)
{
    double low = least_possible(a, bound);
    double high = low;
    int code = 0;
    *ret_bound = low;
    if (isinf(low))
        return 0;
    for (size_t i = 0; i < 64 && schedule->n == 0 && code == 0; i++) {
        code = try_period(a, high, schedule);
        high = high > 0 ? 1.25 * high : 1e-9;
    }
    for (size_t i = 0; i < STEPS && code == 0 && schedule->n > 0; i++) {
        double best = prn_schedule_period(a->p, schedule);
        if (!prn_pipeline_less(low, best))
            break;
        double middle = low + (best - low) / 2;
        code = try_period(a, middle, schedule);
        if (!(prn_schedule_period(a->p, schedule) < best))
            low = middle; /* not found, though it may be there: the bound stays */
    }
    return code;
}

static int approximate_sum(struct approximation *a, struct prn_schedule *schedule,
                           double *ret_bound)
{
    struct beginning end;
    double least;
    bool cost = a->goal->objective == PRN_OBJECTIVE_COST;
    if (cost) {
        a->max_s = prn_pipeline_up_to(a->goal->max_period_s);
        a->max_sum_s = prn_pipeline_up_to(a->goal->max_latency_s);
        price_layers(a);
    }
    relax(a, false, &least);
    *ret_bound = least;
    if (cost && least <= a->max_sum_s) {
        double cheapest = INFINITY;
        for (size_t v = 0; v < a->p->n_types; v++)
            if (a->p->types[v].n_hosts > 0)
                cheapest = fmin(cheapest, a->p->types[v].usd_per_hour);
        *ret_bound = fmax(cheapest, a->priced[0]);
    } else if (cost) {
        *ret_bound = INFINITY;
    }
    if (isinf(*ret_bound))
        return 0;
    int code = search(a, &end);
    if (code == 0 && end.done == 0 && cost) {
        /* Cheap hosts run out. */
        raise_rents(a);
        a->by_slack = true;
        code = search(a, &end);
    }
    return code == 0 && end.done > 0 ? trace_back(a, &end, schedule) : code;
}

static bool take_memory(struct approximation *a)
{
    size_t n = a->p->n_layers + 1;
    size_t k = a->p->n_types;
    a->rents = calloc(k, sizeof *a->rents);
    a->rented = calloc(n, sizeof *a->rented);
    a->rest = calloc(n * k, sizeof *a->rest);
    a->priced = calloc(n, sizeof *a->priced);
    a->used = calloc(k, sizeof *a->used);
    a->demand = calloc(k, sizeof *a->demand);
    a->best_rents = calloc(k, sizeof *a->best_rents);
    return a->rents && a->rented && a->rest && a->priced && a->used && a->demand && a->best_rents;
}

static size_t most_stages(const struct prn_pipeline *p, const struct prn_schedule_goal *goal)
{
    size_t hosts = 0;
    for (size_t v = 0; v < p->n_types; v++)
        hosts += p->types[v].n_hosts;
    size_t most = hosts < p->n_layers ? hosts : p->n_layers;
    return goal->max_stages && goal->max_stages < most ? goal->max_stages : most;
}

int prn_schedule_approximate(const struct prn_pipeline *p, const struct prn_schedule_goal *goal,
                             struct prn_schedule *ret_schedule, double *ret_bound,
                             struct prony_error *err)
{
    struct approximation a = {.p = p,
                              .goal = goal,
                              .depth = most_stages(p, goal),
                              .max_s = INFINITY,
                              .max_sum_s = INFINITY,
                              .err = err};
    struct prn_schedule schedule = {0};
    double bound = INFINITY;
    int code = take_memory(&a) ? 0 : prn_fail_memory(err);
    if (code == 0 && a.depth > 0)
        code = goal->objective == PRN_OBJECTIVE_THROUGHPUT
                   ? approximate_throughput(&a, raise_rents(&a), &schedule, &bound)
                   : approximate_sum(&a, &schedule, &bound);
    free(a.rents);
    free(a.rented);
    free(a.rest);
    free(a.priced);
    free(a.used);
    free(a.all);
    free(a.demand);
    free(a.best_rents);
    if (code < 0) {
        prn_schedule_release(&schedule);
        return code;
    }
    *ret_schedule = schedule;
    *ret_bound = bound;
    return 0;
}
