#include "pipeline/schedule_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int prn_space_fail_size(const struct prn_pipeline *p, struct prony_error *err)
{
    size_t hosts = 0;
    size_t types = 0;
    for (size_t t = 0; t < p->n_types; t++) {
        hosts += p->types[t].n_hosts;
        types += p->types[t].n_hosts > 0;
    }
    return prn_fail(err, PRONY_ELIMIT,
                    "%zu layers on %zu hosts of %zu types are too many to search in %zu MiB; "
                    "--max-stages or --hosts limits the search",
                    p->n_layers, hosts, types, PRN_SCHEDULE_MEMORY_MAX >> 20);
}

/* An allocation of the space; ENOMEM, or ELIMIT past the memory allowed. */
static int take(struct prn_space *s, size_t count, size_t size, void *ret, struct prony_error *err)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || !prn_arena_has_room(&s->arena, bytes))
        return prn_space_fail_size(s->pipeline, err);
    void *memory = prn_arena_alloc(&s->arena, bytes);
    if (!memory)
        return prn_fail_memory(err);
    memcpy(ret, &memory, sizeof memory);
    return 0;
}

/* ---- Types and tables ---- */

static int choose_types(struct prn_space *s, size_t max_stages, struct prony_error *err)
{
    const struct prn_pipeline *p = s->pipeline;
    size_t *types, *counts;
    size_t hosts = 0;
    int code = take(s, p->n_types, sizeof *types, &types, err);
    if (code == 0)
        code = take(s, p->n_types, sizeof *counts, &counts, err);
    if (code < 0)
        return code;
    size_t most = max_stages && max_stages < p->n_layers ? max_stages : p->n_layers;
    for (size_t t = 0; t < p->n_types; t++) {
        size_t n = p->types[t].n_hosts < most ? p->types[t].n_hosts : most;
        if (n == 0)
            continue;
        types[s->n_types] = t;
        counts[s->n_types++] = n;
        hosts += n;
    }
    s->types = types;
    s->counts = counts;
    s->depth = hosts < most ? hosts : most;
    return 0;
}

/* A stage fits or not whatever its neighbours are: longer ones may fit where shorter ones don't,
 * when less leaves them. */
static void fill_stages_from(struct prn_space *s, size_t type, size_t done)
{
    const struct prn_pipeline *p = s->pipeline;
    double *row = s->stage + (type * s->n_layers + done) * s->n_layers;
    double available = prn_pipeline_type_memory(p, s->types[type]);
    double weights = 0;
    double time = 0;
    for (size_t j = 0; j < s->n_layers; j++) {
        if (j < done) {
            row[j] = INFINITY;
            continue;
        }
        weights += prn_pipeline_layer_memory(p, j + 1);
        time += p->types[s->types[type]].time_s[j];
        double need = weights + prn_pipeline_buffer_memory(p, done + 1, j + 1);
        row[j] = available > need ? time : INFINITY;
    }
}

static void fill_stages(struct prn_space *s)
{
    for (size_t v = 0; v < s->n_types; v++)
        for (size_t done = 0; done < s->n_layers; done++)
            fill_stages_from(s, v, done);
}

static void fill_links(struct prn_space *s)
{
    size_t k = s->n_types;
    for (size_t u = 0; u < k; u++)
        for (size_t v = 0; v < k; v++)
            for (size_t j = 0; j < s->n_layers; j++)
                s->link[(u * k + v) * s->n_layers + j] =
                    prn_pipeline_link_time(s->pipeline, j + 1, s->types[u], s->types[v]);
}

/* ---- Vectors ---- */

static int compare_codes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int set_radices(struct prn_space *s, struct prony_error *err)
{
    int code = take(s, s->n_types, sizeof *s->radices, &s->radices, err);
    uint64_t radix = 1;
    for (size_t v = 0; code == 0 && v < s->n_types; v++) {
        s->radices[v] = radix;
        if (__builtin_mul_overflow(radix, s->counts[v] + 1, &radix))
            code = prn_space_fail_size(s->pipeline, err);
    }
    return code;
}

/* How many vectors each level has, type by type; false when they are too many. */
static bool count_vectors(const struct prn_space *s, double *counts)
{
    counts[0] = 1;
    for (size_t v = 0; v < s->n_types; v++)
        for (size_t level = s->depth + 1; level-- > 0;) {
            double sum = 0;
            for (size_t used = 0; used <= s->counts[v] && used <= level; used++)
                sum += counts[level - used];
            counts[level] = sum;
        }
    double total = 0;
    for (size_t level = 0; level <= s->depth; level++)
        total += counts[level];
    return total * (double)(s->n_types * s->n_layers) <= PRN_SCHEDULE_STATES_MAX;
}

/* Every vector comes from exactly one of the level before: by adding a host of its last type. */
static void make_level(struct prn_space *s, size_t level)
{
    size_t at = s->levels[level];
    for (size_t i = s->levels[level - 1]; i < s->levels[level]; i++) {
        size_t last = 0;
        for (size_t v = 0; v < s->n_types; v++)
            if (prn_space_used(s, i, v) > 0)
                last = v;
        for (size_t v = last; v < s->n_types; v++)
            if (prn_space_used(s, i, v) < s->counts[v])
                s->vectors[at++] = s->vectors[i] + s->radices[v];
    }
    s->levels[level + 1] = at;
    qsort(s->vectors + s->levels[level], at - s->levels[level], sizeof *s->vectors, compare_codes);
}

static void link_level(struct prn_space *s, size_t level)
{
    const uint64_t *former = s->vectors + s->levels[level - 1];
    size_t n_former = s->levels[level] - s->levels[level - 1];
    for (size_t i = s->levels[level]; i < s->levels[level + 1]; i++)
        for (size_t v = 0; v < s->n_types; v++) {
            uint32_t found = PRN_NO_VECTOR;
            if (prn_space_used(s, i, v) > 0) {
                uint64_t code = s->vectors[i] - s->radices[v];
                const uint64_t *at = bsearch(&code, former, n_former, sizeof code, compare_codes);
                found = (uint32_t)(at - s->vectors);
            }
            s->predecessor[i * s->n_types + v] = found;
        }
}

static int make_vectors(struct prn_space *s, struct prony_error *err)
{
    double *counts;
    int code = set_radices(s, err);
    if (code == 0)
        code = take(s, s->depth + 1, sizeof *counts, &counts, err);
    if (code == 0)
        code = take(s, s->depth + 2, sizeof *s->levels, &s->levels, err);
    if (code == 0 && !count_vectors(s, counts))
        code = prn_space_fail_size(s->pipeline, err);
    if (code < 0)
        return code;
    for (size_t level = 0; level <= s->depth; level++)
        s->n_vectors += (size_t)counts[level];
    code = take(s, s->n_vectors, sizeof *s->vectors, &s->vectors, err);
    if (code == 0)
        code = take(s, s->n_vectors, s->n_types * sizeof *s->predecessor, &s->predecessor, err);
    if (code < 0)
        return code;
    s->levels[1] = 1; /* the empty vector */
    for (size_t level = 1; level <= s->depth; level++) {
        make_level(s, level);
        link_level(s, level);
    }
    return 0;
}

static int make_tables(struct prn_space *s, const struct prn_pipeline *p, size_t max_stages,
                       struct prony_error *err)
{
    *s = (struct prn_space){
        .pipeline = p, .n_layers = p->n_layers, .arena = PRN_ARENA_INIT(PRN_SCHEDULE_MEMORY_MAX)};
    int code = choose_types(s, max_stages, err);
    if (code == 0)
        code = take(s, s->n_types * s->n_layers, s->n_layers * sizeof *s->stage, &s->stage, err);
    if (code == 0)
        code = take(s, s->n_types * s->n_types, s->n_layers * sizeof *s->link, &s->link, err);
    if (code < 0)
        return code;
    fill_stages(s);
    fill_links(s);
    return 0;
}

int prn_space_init(struct prn_space *s, const struct prn_pipeline *p, size_t max_stages,
                   struct prony_error *err)
{
    int code = make_tables(s, p, max_stages, err);
    if (code == 0)
        code = make_vectors(s, err);
    if (code < 0)
        prn_space_release(s);
    return code;
}

int prn_space_init_unlimited(struct prn_space *s, const struct prn_pipeline *p,
                             struct prony_error *err)
{
    int code = make_tables(s, p, 0, err);
    s->depth = s->n_layers;
    if (code < 0)
        prn_space_release(s);
    return code;
}

void prn_space_release(struct prn_space *s)
{
    prn_arena_release(&s->arena);
}

/* ---- Moves ---- */

static void fill_sets(struct prn_moves *m, double period)
{
    const struct prn_space *s = m->space;
    for (size_t v = 0; v < s->n_types; v++) {
        for (size_t done = 0; done < s->n_layers; done++) {
            const double *times = prn_space_stage(s, v, done);
            uint64_t *set = m->next + (v * s->n_layers + done) * m->words;
            /* Longer stages take longer, where they fit at all. */
            for (size_t j = done; j < s->n_layers && (times[j] <= period || isinf(times[j])); j++)
                if (isfinite(times[j]))
                    set[j / 64] |= (uint64_t)1 << (j % 64);
        }
        for (size_t u = 0; u < s->n_types; u++) {
            const double *times = prn_space_link(s, u, v);
            uint64_t *set = m->pass + (u * s->n_types + v) * m->words;
            for (size_t j = 0; j + 1 < s->n_layers; j++)
                if (times[j] <= period && isfinite(times[j]))
                    set[j / 64] |= (uint64_t)1 << (j % 64);
        }
    }
}

static bool intersect(const uint64_t *a, const uint64_t *b, size_t words)
{
    for (size_t w = 0; w < words; w++)
        if (a[w] & b[w])
            return true;
    return false;
}

static bool can_go_on(const struct prn_moves *m, size_t left, size_t u, size_t done)
{
    for (size_t v = 0; v < m->space->n_types; v++)
        if (prn_set_has(prn_moves_pass(m, u, v), done - 1) &&
            intersect(prn_moves_next(m, v, done), prn_moves_finish(m, left - 1, v), m->words))
            return true;
    return false;
}

static void fill_finish(struct prn_moves *m)
{
    const struct prn_space *s = m->space;
    size_t level_words = s->n_types * m->words;
    size_t end = s->n_layers - 1;
    for (size_t left = 0; left <= s->depth; left++) {
        uint64_t *level = m->finish + left * level_words;
        for (size_t u = 0; u < s->n_types; u++) {
            uint64_t *set = level + u * m->words;
            set[end / 64] |= (uint64_t)1 << (end % 64);
            for (size_t done = 1; left > 0 && done <= end; done++)
                if (can_go_on(m, left, u, done))
                    set[(done - 1) / 64] |= (uint64_t)1 << ((done - 1) % 64);
        }
        /* What another stage doesn't help, no number of stages does. */
        if (left == 0 || memcmp(level, level - level_words, level_words * sizeof *level) != 0)
            continue;
        for (size_t more = left + 1; more <= s->depth; more++)
            memcpy(m->finish + more * level_words, level, level_words * sizeof *level);
        return;
    }
}

int prn_moves_init(struct prn_moves *m, const struct prn_space *s, double period, bool finish,
                   struct prony_error *err)
{
    *m = (struct prn_moves){.space = s, .words = (s->n_layers + 63) / 64};
    size_t left = finish ? s->depth + 1 : 0;
    m->next = calloc(s->n_types * s->n_layers * m->words + 1, sizeof *m->next);
    m->pass = calloc(s->n_types * s->n_types * m->words + 1, sizeof *m->pass);
    m->finish = calloc(left * s->n_types * m->words + 1, sizeof *m->finish);
    if (!m->next || !m->pass || !m->finish) {
        prn_moves_release(m);
        return prn_fail_memory(err);
    }
    fill_sets(m, period);
    if (finish)
        fill_finish(m);
    return 0;
}

void prn_moves_release(struct prn_moves *m)
{
    free(m->next);
    free(m->pass);
    free(m->finish);
    *m = (struct prn_moves){0};
}
