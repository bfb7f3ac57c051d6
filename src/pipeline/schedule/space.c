#include "pipeline/schedule/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int prn_space_fail_size(const struct prn_space *s, struct prony_error *err)
{
    const struct prn_pipeline *p = s->pipeline;
    size_t hosts = 0;
    size_t types = 0;
    for (size_t t = 0; t < p->n_types; t++) {
        hosts += p->types[t].n_hosts;
        types += p->types[t].n_hosts > 0;
    }
    return prn_fail(err, PRONY_ELIMIT,
                    "%zu layers on %zu hosts of %zu types are too many to search in %zu MiB; "
                    "--max-memory allows more, --max-stages or --hosts limits the search",
                    p->n_layers, hosts, types, s->max_memory_bytes >> 20);
}

/* An allocation of the space; ENOMEM, or ELIMIT past the memory allowed. */
static int take(struct prn_space *s, size_t count, size_t size, void *ret, struct prony_error *err)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || !prn_arena_has_room(&s->arena, bytes))
        return prn_space_fail_size(s, err);
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

/* The most layers of a stage that takes no longer than the bound, on any type; at least one. */
static size_t widest_stage(const struct prn_space *s, double bound)
{
    size_t widest = 1;
    for (size_t v = 0; v < s->n_types; v++) {
        const double *times = s->pipeline->types[s->types[v]].time_s;
        /* Sums begin anew behind every layer, as those of the table do. */
        for (size_t done = 0; done + widest < s->n_layers; done++) {
            double time = 0;
            size_t j = done;
            while (j < s->n_layers && (time += times[j]) <= prn_pipeline_up_to(bound))
                j++;
            widest = j - done > widest ? j - done : widest;
        }
    }
    return widest;
}

/* A stage fits or not whatever its neighbours are: longer ones may fit where shorter ones don't,
 * when less leaves them. */
static void fill_stages_from(struct prn_space *s, size_t type, size_t done, double bound)
{
    const struct prn_pipeline *p = s->pipeline;
    double *row = s->stage + (type * s->n_layers + done) * s->width;
    double available = prn_pipeline_type_memory(p, s->types[type]);
    double weights = prn_pipeline_fixed_memory(p);
    double time = 0;
    size_t j = done;
    for (; j < prn_space_stop(s, done); j++) {
        weights += prn_pipeline_layer_memory(p, j + 1);
        time += p->types[s->types[type]].time_s[j];
        if (time > prn_pipeline_up_to(bound))
            break;
        double need = weights + prn_pipeline_buffer_memory(p, done + 1, j + 1);
        bool ends = !p->ends || p->ends[j];
        row[j - done] = available > need && ends ? time : INFINITY;
        if (p->ends && ends) {
            j++;
            break;
        }
    }
    for (; j < done + s->width; j++)
        row[j - done] = INFINITY;
}

int prn_space_set_bound(struct prn_space *s, double bound, struct prony_error *err)
{
    size_t bytes;
    free(s->stage);
    s->stage = NULL;
    s->stage_bytes = 0;
    s->width = widest_stage(s, bound);
    if (__builtin_mul_overflow(s->n_types * s->n_layers * sizeof *s->stage, s->width, &bytes) ||
        bytes > prn_space_room(s))
        return prn_space_fail_size(s, err);
    s->stage = malloc(bytes + 1);
    if (!s->stage)
        return prn_fail_memory(err);
    s->stage_bytes = bytes;
    for (size_t v = 0; v < s->n_types; v++)
        for (size_t done = 0; done < s->n_layers; done++)
            fill_stages_from(s, v, done, bound);
    return 0;
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
            code = prn_space_fail_size(s, err);
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
    /* More states than bytes would rarely fit, and are refused before any work is done. */
    return total < UINT32_MAX &&
           total * (double)(s->n_types * s->n_layers) <= (double)s->max_memory_bytes;
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
        code = prn_space_fail_size(s, err);
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
                       size_t max_memory_bytes, struct prony_error *err)
{
    size_t most = max_memory_bytes ? max_memory_bytes : PRN_SCHEDULE_MEMORY_DEFAULT;
    /* A sixteenth is for the rest of the program. */
    *s = (struct prn_space){.pipeline = p,
                            .n_layers = p->n_layers,
                            .max_memory_bytes = most,
                            .arena = PRN_ARENA_INIT(most - most / 16)};
    int code = choose_types(s, max_stages, err);
    if (code == 0)
        code = take(s, s->n_types * s->n_types, s->n_layers * sizeof *s->link, &s->link, err);
    if (code < 0)
        return code;
    fill_links(s);
    return 0;
}

int prn_space_init(struct prn_space *s, const struct prn_pipeline *p,
                   const struct prn_schedule_goal *goal, struct prony_error *err)
{
    int code = make_tables(s, p, goal->max_stages, goal->max_memory_bytes, err);
    if (code == 0)
        code = make_vectors(s, err);
    if (code < 0)
        prn_space_release(s);
    return code;
}

int prn_space_init_unlimited(struct prn_space *s, const struct prn_pipeline *p,
                             struct prony_error *err)
{
    int code = make_tables(s, p, 0, 0, err);
    if (code == 0)
        code = prn_space_set_bound(s, INFINITY, err);
    s->depth = s->n_layers;
    if (code < 0)
        prn_space_release(s);
    return code;
}

void prn_space_release(struct prn_space *s)
{
    free(s->stage);
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
            size_t stop = prn_space_stop(s, done);
            for (size_t j = done; j < stop && (times[j] <= period || isinf(times[j])); j++)
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

#define NEVER UINT32_MAX

/* The fewest stages behind a stage on `type` that begins behind layer `done`, whatever hosts there
 * are; `needed` knows it of all layers behind. */
static uint32_t fewest_behind(const struct prn_moves *m, const uint32_t *needed, size_t type,
                              size_t done)
{
    const uint64_t *next = prn_moves_next(m, type, done);
    uint32_t fewest = NEVER;
    for (size_t w = done / 64; w < m->words; w++)
        for (uint64_t bits = next[w]; bits; bits &= bits - 1) {
            size_t j = w * 64 + (size_t)__builtin_ctzll(bits);
            uint32_t n = needed[type * m->space->n_layers + j];
            fewest = n < fewest ? n : fewest;
        }
    return fewest;
}

static void fill_finish(struct prn_moves *m, uint32_t *needed)
{
    const struct prn_space *s = m->space;
    size_t level_words = s->n_types * m->words;
    for (size_t u = 0; u < s->n_types; u++)
        for (size_t j = 0; j < s->n_layers; j++)
            needed[u * s->n_layers + j] = j + 1 < s->n_layers ? NEVER : 0;
    for (size_t done = s->n_layers; done > 0; done--) {
        for (size_t v = 0; done < s->n_layers && v < s->n_types; v++) {
            uint32_t fewest = fewest_behind(m, needed, v, done);
            for (size_t u = 0; fewest != NEVER && u < s->n_types; u++) {
                uint32_t *n = &needed[u * s->n_layers + done - 1];
                if (fewest + 1 < *n && prn_set_has(prn_moves_pass(m, u, v), done - 1))
                    *n = fewest + 1;
            }
        }
        for (size_t u = 0; u < s->n_types; u++) {
            uint64_t *set = m->finish + u * m->words + (done - 1) / 64;
            for (size_t left = needed[u * s->n_layers + done - 1]; left <= s->depth; left++)
                set[left * level_words] |= (uint64_t)1 << ((done - 1) % 64);
        }
    }
}

int prn_moves_init(struct prn_moves *m, const struct prn_space *s, double period,
                   struct prony_error *err)
{
    *m = (struct prn_moves){.space = s, .words = (s->n_layers + 63) / 64};
    uint32_t *needed = malloc((s->n_types * s->n_layers + 1) * sizeof *needed);
    m->next = calloc(s->n_types * s->n_layers * m->words + 1, sizeof *m->next);
    m->pass = calloc(s->n_types * s->n_types * m->words + 1, sizeof *m->pass);
    m->finish = calloc((s->depth + 1) * s->n_types * m->words + 1, sizeof *m->finish);
    bool made = needed && m->next && m->pass && m->finish;
    if (made) {
        fill_sets(m, period);
        fill_finish(m, needed);
    } else {
        prn_moves_release(m);
    }
    free(needed);
    return made ? 0 : prn_fail_memory(err);
}

void prn_moves_release(struct prn_moves *m)
{
    free(m->next);
    free(m->pass);
    free(m->finish);
    *m = (struct prn_moves){0};
}
