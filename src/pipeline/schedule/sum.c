/*
 * The smallest sum over states: level by level, for every vector, type of the last stage and layer
 * the smallest sum of times up to there. Two levels of sums are kept, and of every state where it
 * came from.
 *
 * A state is dropped when the end can't be reached from it with the stages that are left, or not
 * within the limit: `rest` is what remains at least, were there enough hosts of every type. Sums
 * taken in another order differ in the last digits, so dropping leaves a margin.
 */
#include "pipeline/schedule/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN 1e-9

#define NO_ROW UINT32_MAX

/* The states of a level. A row is a vector with a type of the last stage; only those are kept from
 * which the end can be reached. */
struct level {
    uint32_t *row;     /* [vector of the level][type]: index of its row, or NO_ROW */
    double *sums;      /* [row][done - 1] */
    uint64_t *sets;    /* [row]: where there is a sum */
    uint16_t *origins; /* [row][done - 1]: former type × layers + former done; when the level is
                          complete, only those where there is a sum */
    uint32_t *packed;  /* [row]: its first origin then */
    size_t n, capacity;
};

struct sum {
    const struct prn_space *space;
    const struct prn_sum_goal *goal;
    struct prn_moves moves;
    double *rest;         /* [type][done - 1] */
    uint32_t *stop;       /* [type][done]: where the longest stage ends */
    struct level *levels; /* of those before the last two, the sums are gone */
    double *from;         /* [done]: smallest sum with which a stage may begin there */
    uint16_t *from_type;
    uint64_t *from_set; /* where it may */
    size_t used_bytes;
    /* The best end so far. */
    size_t level, vector, type;
    double best, cost;
};

/* Makes `*array` larger, from nothing at first, within the memory allowed. */
static int grow(struct sum *x, void *array, size_t count, size_t new_count, size_t size,
                struct prony_error *err)
{
    size_t bytes;
    void *memory;
    memcpy(&memory, array, sizeof memory);
    size_t room = prn_space_room(x->space) - x->used_bytes;
    if (__builtin_mul_overflow(new_count, size, &bytes) || bytes - count * size > room)
        return prn_space_fail_size(x->space, err);
    memory = realloc(memory, bytes + 1);
    if (!memory)
        return prn_fail_memory(err);
    x->used_bytes += bytes - count * size;
    memcpy(array, &memory, sizeof memory);
    return 0;
}

static int take(struct sum *x, size_t count, size_t size, void *ret, struct prony_error *err)
{
    return grow(x, ret, 0, count, size, err);
}

/* ---- What is known beforehand ---- */

static void fill_stop(struct sum *x)
{
    const struct prn_space *s = x->space;
    for (size_t v = 0; v < s->n_types; v++)
        for (size_t done = 0; done < s->n_layers; done++) {
            const uint64_t *next = prn_moves_next(&x->moves, v, done);
            size_t w = x->moves.words;
            while (w > 0 && next[w - 1] == 0)
                w--;
            x->stop[v * s->n_layers + done] =
                w > 0 ? (uint32_t)(w * 64) - (uint32_t)__builtin_clzll(next[w - 1]) : 0;
        }
}

static double link_weight(const struct sum *x, size_t u, size_t v, size_t done)
{
    return x->goal->links ? prn_space_link(x->space, u, v)[done - 1] : 0;
}

/* The least that a stage on `type` from `done` on, and all that follow it, can take. */
static double rest_from(const struct sum *x, size_t type, size_t done)
{
    const double *times = prn_space_stage(x->space, type, done);
    const double *rest = x->rest + type * x->space->n_layers;
    double least = INFINITY;
    size_t stop = x->stop[type * x->space->n_layers + done];
    for (size_t j = done; j < stop; j++)
        if (times[j] <= x->goal->period)
            least = fmin(least, times[j] + rest[j]);
    return least;
}

static void fill_rest(struct sum *x)
{
    const struct prn_space *s = x->space;
    size_t n = s->n_layers;
    for (size_t u = 0; u < s->n_types; u++)
        x->rest[u * n + n - 1] = 0;
    for (size_t done = n - 1; done > 0; done--) {
        for (size_t u = 0; u < s->n_types; u++)
            x->rest[u * n + done - 1] = INFINITY;
        for (size_t v = 0; v < s->n_types; v++) {
            double after = rest_from(x, v, done);
            for (size_t u = 0; u < s->n_types; u++) {
                double *rest = &x->rest[u * n + done - 1];
                if (prn_set_has(prn_moves_pass(&x->moves, u, v), done - 1))
                    *rest = fmin(*rest, link_weight(x, u, v, done) + after);
            }
        }
    }
}

/* ---- One level from the one before ---- */

/* With what sum a stage on `type` may begin where. */
static void gather(struct sum *x, const struct level *former, size_t slot, size_t type)
{
    const struct prn_space *s = x->space;
    size_t words = x->moves.words;
    memset(x->from_set, 0, words * sizeof *x->from_set);
    /* Downwards: of equals, hosts of one type are spread along the pipeline. */
    for (size_t u = s->n_types; u-- > 0;) {
        uint32_t row = former->row[slot * s->n_types + u];
        if (row == NO_ROW)
            continue;
        const double *sums = former->sums + row * s->n_layers;
        const uint64_t *set = former->sets + row * words;
        const uint64_t *pass = prn_moves_pass(&x->moves, u, type);
        for (size_t w = 0; w < words; w++) {
            for (uint64_t bits = set[w] & pass[w]; bits; bits &= bits - 1) {
                size_t done = w * 64 + (size_t)__builtin_ctzll(bits) + 1;
                double sum = sums[done - 1] + link_weight(x, u, type, done);
                if (prn_set_has(x->from_set, done - 1) && !(sum < x->from[done]))
                    continue;
                x->from[done] = sum;
                x->from_type[done] = (uint16_t)u;
                x->from_set[w] |= bits & -bits;
            }
        }
    }
}

static void extend(const struct sum *x, size_t type, size_t done, double sum, uint16_t origin,
                   double *sums, uint16_t *origins)
{
    const double *times = prn_space_stage(x->space, type, done);
    double period = x->goal->period;
    size_t stop = x->stop[type * x->space->n_layers + done];
    for (size_t j = done; j < stop; j++)
        if (times[j] <= period && sum + times[j] < sums[j]) {
            sums[j] = sum + times[j];
            origins[j] = origin;
        }
}

static void extend_all(const struct sum *x, size_t type, double *sums, uint16_t *origins)
{
    for (size_t w = 0; w < x->moves.words; w++)
        for (uint64_t bits = x->from_set[w]; bits; bits &= bits - 1) {
            size_t done = w * 64 + (size_t)__builtin_ctzll(bits) + 1;
            size_t origin = x->from_type[done] * x->space->n_layers + done;
            extend(x, type, done, x->from[done], (uint16_t)origin, sums, origins);
        }
}

/* Notes where the sums are that may still lead to something; whether there are any. */
static bool note_hopes(const struct sum *x, size_t level, size_t type, const double *sums,
                       uint64_t *set)
{
    const struct prn_space *s = x->space;
    const uint64_t *finish = prn_moves_finish(&x->moves, x->goal->max_stages - level, type);
    const double *rest = x->rest + type * s->n_layers;
    double limit = x->goal->limit;
    uint64_t any = 0;
    if (x->goal->order == PRN_SUM_LEAST && x->best < limit)
        limit = x->best;
    for (size_t w = 0; w < x->moves.words; w++) {
        set[w] = 0;
        for (uint64_t bits = finish[w]; bits; bits &= bits - 1) {
            size_t j = w * 64 + (size_t)__builtin_ctzll(bits);
            if (sums[j] < INFINITY && (sums[j] + rest[j]) * (1 - MARGIN) <= limit)
                set[w] |= bits & -bits;
        }
        any |= set[w];
    }
    return any != 0;
}

static double vector_cost(const struct prn_space *s, size_t vector)
{
    double cost = 0;
    for (size_t v = 0; v < s->n_types; v++)
        cost += (double)prn_space_used(s, vector, v) * s->pipeline->types[s->types[v]].usd_per_hour;
    return cost;
}

/* A state at the end: is it the best so far? With PRN_SUM_FEWEST, levels behind the first that
 * reaches the end aren't visited. */
static void consider(struct sum *x, size_t level, size_t vector, size_t type, double sum)
{
    double cost = x->goal->order == PRN_SUM_CHEAPEST ? vector_cost(x->space, vector) : 0;
    bool better = x->goal->order == PRN_SUM_CHEAPEST ? cost < x->cost : sum < x->best;
    if (!(sum <= x->goal->limit) || sum == INFINITY || (x->level && !better))
        return;
    x->level = level;
    x->vector = vector;
    x->type = type;
    x->best = sum;
    x->cost = cost;
}

static int make_room(struct sum *x, struct level *l, struct prony_error *err)
{
    if (l->n < l->capacity)
        return 0;
    size_t layers = x->space->n_layers;
    size_t words = x->moves.words;
    size_t old = l->capacity;
    size_t capacity = old ? 2 * old : 16;
    int code = grow(x, &l->sums, old * layers, capacity * layers, sizeof *l->sums, err);
    if (code == 0)
        code = grow(x, &l->sets, old * words, capacity * words, sizeof *l->sets, err);
    if (code == 0)
        code = grow(x, &l->origins, old * layers, capacity * layers, sizeof *l->origins, err);
    if (code == 0)
        l->capacity = capacity;
    return code;
}

/* Whether a vector's hosts cost more than they may, or as much as others that were found. */
static bool is_dear(const struct sum *x, size_t vector)
{
    const struct prn_sum_goal *goal = x->goal;
    if (goal->order == PRN_SUM_CHEAPEST)
        return x->level && !(vector_cost(x->space, vector) < x->cost);
    return goal->max_cost < INFINITY && vector_cost(x->space, vector) > goal->max_cost;
}

/* The row of a vector whose last stage is on `type`, if there is anything in it. */
static int visit(struct sum *x, size_t level, size_t vector, size_t type, struct prony_error *err)
{
    const struct prn_space *s = x->space;
    struct level *l = &x->levels[level];
    uint32_t former = s->predecessor[vector * s->n_types + type];
    uint32_t *row = &l->row[(vector - s->levels[level]) * s->n_types + type];
    *row = NO_ROW;
    if (former == PRN_NO_VECTOR)
        return 0;
    int code = make_room(x, l, err);
    if (code < 0)
        return code;
    double *sums = l->sums + l->n * s->n_layers;
    uint16_t *origins = l->origins + l->n * s->n_layers;
    uint64_t *set = l->sets + l->n * x->moves.words;
    for (size_t j = 0; j < s->n_layers; j++)
        sums[j] = INFINITY;
    if (level == 1) {
        extend(x, type, 0, 0, 0, sums, origins);
    } else {
        gather(x, l - 1, former - s->levels[level - 1], type);
        extend_all(x, type, sums, origins);
    }
    if (!note_hopes(x, level, type, sums, set))
        return 0;
    if (prn_set_has(set, s->n_layers - 1))
        consider(x, level, vector, type, sums[s->n_layers - 1]);
    *row = (uint32_t)l->n++;
    return 0;
}

static int visit_all(struct sum *x, size_t level, struct prony_error *err)
{
    const struct prn_space *s = x->space;
    struct level *l = &x->levels[level];
    size_t n = (s->levels[level + 1] - s->levels[level]) * s->n_types;
    int code = take(x, n, sizeof *l->row, &l->row, err);
    for (size_t i = s->levels[level]; code == 0 && i < s->levels[level + 1]; i++) {
        bool dear = is_dear(x, i);
        for (size_t v = 0; v < s->n_types && code == 0; v++) {
            if (dear)
                l->row[(i - s->levels[level]) * s->n_types + v] = NO_ROW;
            else
                code = visit(x, level, i, v, err);
        }
    }
    return code;
}

/* Leaves out the origins that lead nowhere, most of them. */
static int pack(struct sum *x, struct level *l, struct prony_error *err)
{
    size_t layers = x->space->n_layers;
    size_t words = x->moves.words;
    size_t at = 0;
    int code = take(x, l->n, sizeof *l->packed, &l->packed, err);
    if (code < 0)
        return code;
    for (size_t row = 0; row < l->n; row++) {
        l->packed[row] = (uint32_t)at;
        for (size_t w = 0; w < words; w++)
            for (uint64_t bits = l->sets[row * words + w]; bits; bits &= bits - 1)
                l->origins[at++] =
                    l->origins[row * layers + w * 64 + (size_t)__builtin_ctzll(bits)];
    }
    uint16_t *smaller = realloc(l->origins, at * sizeof *smaller + 1);
    l->origins = smaller ? smaller : l->origins;
    x->used_bytes -= (l->capacity * layers - at) * sizeof *l->origins;
    return 0;
}

static uint16_t origin_of(const struct sum *x, const struct level *l, uint32_t row, size_t done)
{
    const uint64_t *set = l->sets + row * x->moves.words;
    size_t index = l->packed[row];
    size_t bit = done - 1;
    for (size_t w = 0; w < bit / 64; w++)
        index += (size_t)__builtin_popcountll(set[w]);
    uint64_t below = ((uint64_t)1 << (bit % 64)) - 1;
    return l->origins[index + (size_t)__builtin_popcountll(set[bit / 64] & below)];
}

static void forget_sums(struct sum *x, struct level *l)
{
    x->used_bytes -= l->capacity * x->space->n_layers * sizeof *l->sums;
    free(l->sums);
    l->sums = NULL;
}

static int walk(struct sum *x, struct prony_error *err)
{
    for (size_t level = 1; level <= x->goal->max_stages; level++) {
        int code = visit_all(x, level, err);
        if (code == 0)
            code = pack(x, &x->levels[level], err);
        if (code < 0)
            return code;
        forget_sums(x, &x->levels[level - 1]);
        if (x->levels[level].n == 0 || (x->level && x->goal->order == PRN_SUM_FEWEST))
            break;
    }
    return 0;
}

/* ---- The way back ---- */

static int trace_back(const struct sum *x, struct prn_schedule *ret_schedule,
                      struct prony_error *err)
{
    const struct prn_space *s = x->space;
    struct prn_stage *stages = calloc(x->level + 1, sizeof *stages);
    if (!stages)
        return prn_fail_memory(err);
    size_t vector = x->vector;
    size_t type = x->type;
    size_t done = s->n_layers;
    for (size_t level = x->level; level > 0; level--) {
        size_t slot = vector - s->levels[level];
        uint32_t row = x->levels[level].row[slot * s->n_types + type];
        uint16_t origin = origin_of(x, &x->levels[level], row, done);
        size_t former = origin % s->n_layers;
        stages[level - 1] =
            (struct prn_stage){.type = s->types[type], .first = former + 1, .last = done};
        vector = s->predecessor[vector * s->n_types + type];
        type = origin / s->n_layers;
        done = former;
    }
    *ret_schedule = (struct prn_schedule){stages, x->level};
    return 0;
}

static void sum_release(struct sum *x)
{
    for (size_t level = 0; x->levels && level <= x->goal->max_stages; level++) {
        free(x->levels[level].row);
        free(x->levels[level].sums);
        free(x->levels[level].sets);
        free(x->levels[level].origins);
        free(x->levels[level].packed);
    }
    free(x->levels);
    free(x->rest);
    free(x->stop);
    free(x->from);
    free(x->from_type);
    free(x->from_set);
    prn_moves_release(&x->moves);
}

static int sum_prepare(struct sum *x, struct prony_error *err)
{
    const struct prn_space *s = x->space;
    if (s->n_types * s->n_layers > UINT16_MAX)
        return prn_space_fail_size(s, err);
    int code = prn_moves_init(&x->moves, s, x->goal->period, err);
    if (code == 0)
        code = take(x, s->n_types * s->n_layers, sizeof *x->rest, &x->rest, err);
    if (code == 0)
        code = take(x, s->n_layers, sizeof *x->from, &x->from, err);
    if (code == 0)
        code = take(x, s->n_layers, sizeof *x->from_type, &x->from_type, err);
    if (code == 0)
        code = take(x, x->moves.words, sizeof *x->from_set, &x->from_set, err);
    if (code == 0)
        code = take(x, s->n_types * s->n_layers, sizeof *x->stop, &x->stop, err);
    if (code < 0)
        return code;
    x->levels = calloc(x->goal->max_stages + 1, sizeof *x->levels);
    if (!x->levels)
        return prn_fail_memory(err);
    fill_stop(x);
    fill_rest(x);
    return 0;
}

int prn_sum_search(const struct prn_space *s, const struct prn_sum_goal *goal,
                   struct prn_schedule *ret_schedule, struct prony_error *err)
{
    struct sum x = {.space = s, .goal = goal, .best = INFINITY, .cost = INFINITY};
    int code = sum_prepare(&x, err);
    if (code == 0)
        code = walk(&x, err);
    if (code == 0)
        code = trace_back(&x, ret_schedule, err);
    sum_release(&x);
    return code;
}
