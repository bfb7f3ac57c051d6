/*
 * Whether the end can be reached at all within a period.
 *
 * prn_reach() knows it: sets of layers as bits, one per vector and type of the last stage. One
 * level follows from the one before; the first that holds the end has the fewest stages.
 *
 * prn_reach_greedily() only finds out that it can: it follows the longest stages alone, one layer
 * instead of a set. It misses a way where a long stage ends before a layer that needs much memory
 * or sends much; that is seldom, and it takes a fraction of the time.
 */
#include "pipeline/schedule/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reach {
    const struct prn_space *space;
    struct prn_moves moves;
    uint64_t *sets; /* [vector of the level][type], of two levels by turns */
    uint64_t *former;
    uint64_t *from; /* where the next stage may begin */
};

/* Behind which layers a stage on `type` may begin, coming from a vector of the level before. */
static bool gather(struct reach *r, size_t former, size_t type)
{
    size_t words = r->moves.words;
    uint64_t any = 0;
    memset(r->from, 0, words * sizeof *r->from);
    for (size_t u = 0; u < r->space->n_types; u++) {
        const uint64_t *set = r->former + (former * r->space->n_types + u) * words;
        const uint64_t *pass = prn_moves_pass(&r->moves, u, type);
        for (size_t w = 0; w < words; w++) {
            r->from[w] |= set[w] & pass[w];
            any |= r->from[w];
        }
    }
    return any != 0;
}

/* Where stages on `type` may end that begin behind one of the layers gathered. */
static void spread(const struct reach *r, size_t type, uint64_t *set)
{
    size_t words = r->moves.words;
    for (size_t w = 0; w < words; w++)
        for (uint64_t bits = r->from[w]; bits; bits &= bits - 1) {
            size_t done = w * 64 + (size_t)__builtin_ctzll(bits) + 1;
            const uint64_t *next = prn_moves_next(&r->moves, type, done);
            for (size_t k = done / 64; k < words; k++)
                set[k] |= next[k];
        }
}

/* One vector of a level; whether the end is in it. */
static bool visit(struct reach *r, size_t level, size_t vector)
{
    const struct prn_space *s = r->space;
    size_t words = r->moves.words;
    bool end = false;
    for (size_t v = 0; v < s->n_types; v++) {
        uint64_t *set = r->sets + ((vector - s->levels[level]) * s->n_types + v) * words;
        uint32_t former = s->predecessor[vector * s->n_types + v];
        memset(set, 0, words * sizeof *set);
        if (former == PRN_NO_VECTOR)
            continue;
        if (level == 1)
            memcpy(set, prn_moves_next(&r->moves, v, 0), words * sizeof *set);
        else if (gather(r, former - s->levels[level - 1], v))
            spread(r, v, set);
        const uint64_t *finish = prn_moves_finish(&r->moves, s->depth - level, v);
        for (size_t w = 0; w < words; w++)
            set[w] &= finish[w];
        end = end || prn_set_has(set, s->n_layers - 1);
    }
    return end;
}

static size_t walk(struct reach *r)
{
    const struct prn_space *s = r->space;
    for (size_t level = 1; level <= s->depth; level++) {
        for (size_t i = s->levels[level]; i < s->levels[level + 1]; i++)
            if (visit(r, level, i))
                return level;
        uint64_t *swap = r->former;
        r->former = r->sets;
        r->sets = swap;
    }
    return 0;
}

static size_t widest_level(const struct prn_space *s)
{
    size_t widest = 0;
    for (size_t level = 0; level <= s->depth; level++)
        if (s->levels[level + 1] - s->levels[level] > widest)
            widest = s->levels[level + 1] - s->levels[level];
    return widest;
}

int prn_reach(const struct prn_space *s, double period, size_t *ret_stages, struct prony_error *err)
{
    struct reach r = {.space = s};
    int code = prn_moves_init(&r.moves, s, period, err);
    if (code < 0)
        return code;
    size_t n = widest_level(s) * s->n_types * r.moves.words + 1;
    uint64_t *memory = calloc(2 * n + r.moves.words, sizeof *memory);
    if (memory) {
        r.sets = memory;
        r.former = memory + n;
        r.from = memory + 2 * n;
        *ret_stages = walk(&r);
    } else {
        code = prn_fail_memory(err);
    }
    free(memory);
    prn_moves_release(&r.moves);
    return code;
}

/* ---- The longest stages alone ---- */

struct greedy {
    const struct prn_space *space;
    double period;
    bool *left;        /* [type][layer - 1]: a stage may end here: it is the end, or a link is short
                          enough */
    uint32_t *longest; /* [type][done]: where the longest stage ends that can be followed by
                          another; 0: nowhere */
    uint32_t *ends;    /* [vector][type]: how far the stages so far come; 0: nowhere */
};

static bool may_pass(const struct greedy *g, size_t u, size_t v, size_t done)
{
    double time = prn_space_link(g->space, u, v)[done - 1];
    return time <= g->period && time < INFINITY;
}

static void find_longest(struct greedy *g)
{
    const struct prn_space *s = g->space;
    for (size_t v = 0; v < s->n_types; v++) {
        bool *left = g->left + v * s->n_layers;
        for (size_t done = 1; done < s->n_layers; done++)
            for (size_t u = 0; u < s->n_types && !left[done - 1]; u++)
                left[done - 1] = may_pass(g, v, u, done);
        left[s->n_layers - 1] = true;
        for (size_t done = 0; done < s->n_layers; done++) {
            const double *times = prn_space_stage(s, v, done);
            uint32_t *longest = &g->longest[v * s->n_layers + done];
            size_t stop = prn_space_stop(s, done);
            /* Longer stages take longer, where they fit at all. */
            for (size_t j = done; j < stop && (times[j] <= g->period || isinf(times[j])); j++)
                if (left[j] && isfinite(times[j]))
                    *longest = (uint32_t)j + 1;
        }
    }
}

/* How far a stage on `type` comes behind the stages of a vector. */
static uint32_t go_on(const struct greedy *g, size_t former, size_t type)
{
    const struct prn_space *s = g->space;
    uint32_t farthest = 0;
    if (former == 0)
        return g->longest[type * s->n_layers];
    for (size_t u = 0; u < s->n_types; u++) {
        uint32_t done = g->ends[former * s->n_types + u];
        if (done == 0 || !may_pass(g, u, type, done))
            continue;
        uint32_t end = g->longest[type * s->n_layers + done];
        if (end > farthest)
            farthest = end;
    }
    return farthest;
}

static bool walk_greedily(struct greedy *g)
{
    const struct prn_space *s = g->space;
    find_longest(g);
    for (size_t i = 1; i < s->n_vectors; i++)
        for (size_t v = 0; v < s->n_types; v++) {
            uint32_t former = s->predecessor[i * s->n_types + v];
            if (former == PRN_NO_VECTOR)
                continue;
            uint32_t end = go_on(g, former, v);
            if (end == s->n_layers)
                return true;
            g->ends[i * s->n_types + v] = end;
        }
    return false;
}

int prn_reach_greedily(const struct prn_space *s, double period, bool *ret_reached,
                       struct prony_error *err)
{
    struct greedy g = {.space = s, .period = period};
    int code = 0;
    g.left = calloc(s->n_types * s->n_layers + 1, sizeof *g.left);
    g.longest = calloc(s->n_types * s->n_layers + 1, sizeof *g.longest);
    g.ends = calloc(s->n_vectors * s->n_types + 1, sizeof *g.ends);
    if (g.left && g.longest && g.ends)
        *ret_reached = walk_greedily(&g);
    else
        code = prn_fail_memory(err);
    free(g.left);
    free(g.longest);
    free(g.ends);
    return code;
}
