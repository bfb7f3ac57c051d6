/* What was recorded, as profiles: means, failures, totals, costs. */
#include "record/record.h"

#include "spec/spec.h"

#include <math.h>

static int fill_failures(const struct prn_tally_result *from, struct prn_arena *arena,
                         struct prn_segment_result *to)
{
    to->failures = PRN_ARENA_ARRAY(arena, from->n_failures + 1, struct prn_failure);
    if (!to->failures)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < from->n_failures; i++) {
        if (from->failures[i].count == 0) /* left over from runs that were discarded */
            continue;
        const char *message = prn_arena_strdup(arena, from->failures[i].message);
        if (!message)
            return PRONY_ENOMEM;
        to->failures[to->n_failures++] = (struct prn_failure){message, from->failures[i].count};
        to->failed += from->failures[i].count;
    }
    return 0;
}

static int fill_graph(const struct prn_tally *tally, size_t index, size_t n_backends,
                      struct prn_arena *arena, struct prn_segment *segment)
{
    segment->graph = tally->graphs[index];
    if (prn_series_finish(&tally->own[index], arena, &segment->local) < 0)
        return PRONY_ENOMEM;
    segment->results = PRN_ARENA_ARRAY(arena, n_backends + 1, struct prn_segment_result);
    if (!segment->results)
        return PRONY_ENOMEM;
    segment->n_results = n_backends;
    for (size_t b = 0; b < n_backends; b++) {
        const struct prn_tally_result *from = &tally->results[index * n_backends + b];
        struct prn_segment_result *to = &segment->results[b];
        if (prn_series_finish(&from->times, arena, &to->times) < 0 ||
            fill_failures(from, arena, to) < 0)
            return PRONY_ENOMEM;
    }
    return 0;
}

/* A graph without times on the backend counts with what the program took for it, if that is known;
 * a backend on which nothing ran has no total. */
static struct prn_recorded_total total_of(const struct prn_recorded *p,
                                          const struct prn_profile *profile, size_t backend)
{
    struct prn_recorded_total total = {.total_ns = NAN, .usd_per_million = NAN};
    size_t ran = 0;
    size_t graphs = 0;
    for (size_t i = 0; i < p->n_segments; i++) {
        const struct prn_segment *segment = &p->segments[i];
        if (segment->graph == 0)
            continue;
        const struct prn_series *times = &segment->results[backend].times;
        graphs++;
        ran += times->count > 0;
        if (times->count > 0)
            total.backend_ns += times->mean_ns;
        else if (!prn_segment_is_in_local(profile, segment))
            total.local_graphs_ns += segment->local.mean_ns; /* NAN: not known */
    }
    if (graphs > 0 && ran == 0)
        total.backend_ns = NAN;
    if (!p->compiled && isfinite(total.backend_ns + total.local_graphs_ns)) {
        total.total_ns = total.backend_ns + total.local_graphs_ns + p->local_ns;
        total.usd_per_million =
            prn_cost_per_million(profile->results[backend].usd_per_hour, total.total_ns);
    }
    return total;
}

static int fill_segments(const struct prn_tally *tally, size_t n_backends, struct prn_arena *arena,
                         struct prn_recorded *p)
{
    p->n_segments = 2 * tally->n_graphs + 1;
    p->segments = PRN_ARENA_ARRAY(arena, p->n_segments, struct prn_segment);
    if (!p->segments)
        return PRONY_ENOMEM;
    for (size_t i = 0; i <= tally->n_graphs; i++) {
        struct prn_segment *local = &p->segments[2 * i];
        if (prn_series_finish(&tally->local[i], arena, &local->local) < 0)
            return PRONY_ENOMEM;
        p->local_ns += local->local.mean_ns;
        if (i < tally->n_graphs && fill_graph(tally, i, n_backends, arena, local + 1) < 0)
            return PRONY_ENOMEM;
    }
    return 0;
}

static int fill_one(const struct prn_recorder *r, const char *function,
                    const struct prn_tally *tally, struct prn_profile *profile,
                    struct prn_recorded *p)
{
    struct prn_arena *arena = &profile->arena;
    *p = (struct prn_recorded){.function = function,
                               .runs = tally->runs,
                               .discarded = tally->discarded,
                               .repeats = r->repeats,
                               .compiled = tally->compiled};
    p->totals = PRN_ARENA_ARRAY(arena, r->n_backends + 1, struct prn_recorded_total);
    if (!p->totals || fill_segments(tally, r->n_backends, arena, p) < 0)
        return PRONY_ENOMEM;
    p->n_totals = r->n_backends;
    for (size_t b = 0; b < r->n_backends; b++)
        p->totals[b] = total_of(p, profile, b);
    return prn_recorded_summarise(profile, p);
}

static int fill_function(const struct prn_recorder *r, const struct prn_recorder_function *f,
                         struct prn_profile *profile)
{
    const char *name = prn_arena_strdup(&profile->arena, f->name);
    if (!name)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < f->n_tallies; i++) {
        if (f->tallies[i]->runs == 0) /* its first call couldn't be added */
            continue;
        if (fill_one(r, name, f->tallies[i], profile, &profile->profiles[profile->n_profiles]) < 0)
            return PRONY_ENOMEM;
        profile->n_profiles++;
    }
    return 0;
}

int prn_recorder_fill(const struct prn_recorder *r, struct prn_profile *profile,
                      struct prony_error *err)
{
    size_t most = 0;
    for (size_t i = 0; i < r->n_functions; i++)
        most += r->functions[i]->n_tallies;
    profile->recorded = true;
    profile->n_profiles = 0;
    profile->profiles = PRN_ARENA_ARRAY(&profile->arena, most + 1, struct prn_recorded);
    if (!profile->profiles)
        return prn_fail_memory(err);
    for (size_t i = 0; i < r->n_functions; i++)
        if (fill_function(r, r->functions[i], profile) < 0)
            return prn_fail_memory(err);
    return 0;
}
