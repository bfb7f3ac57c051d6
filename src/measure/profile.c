#include "measure/profile.h"

#include "base/text.h"
#include "model/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Room for about a hundred million samples. */
#define PROFILE_ARENA_MAX ((size_t)2 << 30)

struct prn_profile *prn_profile_new(void)
{
    struct prn_profile *profile = calloc(1, sizeof *profile);
    if (!profile)
        return NULL;
    profile->arena = PRN_ARENA_INIT(PROFILE_ARENA_MAX);
    profile->models = PRN_ARENA_ARRAY(&profile->arena, 1, struct prn_profile_model);
    if (!profile->models) {
        free(profile);
        return NULL;
    }
    profile->models[0] = (struct prn_profile_model){.bytes = -1, .parameters = -1};
    profile->n_models = 1;
    profile->environment = (struct prn_environment){
        .cores = -1, .mhz = NAN, .memory_bytes = -1, .load_before = NAN, .load_after = NAN};
    profile->timer_ns = NAN;
    profile->canary_best_ns = NAN;
    return profile;
}

void prn_profile_free(struct prn_profile *profile)
{
    if (!profile)
        return;
    prn_arena_release(&profile->arena);
    free(profile);
}

static int compare_ids(const void *key, const void *item)
{
    int64_t id = *(const int64_t *)key;
    int64_t other = ((const struct prn_recorded_graph *)item)->id;
    return (id > other) - (id < other);
}

const struct prn_recorded_graph *prn_profile_graph(const struct prn_profile *profile, int64_t id)
{
    if (profile->n_graphs == 0)
        return NULL;
    return bsearch(&id, profile->graphs, profile->n_graphs, sizeof *profile->graphs, compare_ids);
}

int prn_profile_note(struct prn_profile *profile, const char *text, struct prony_error *err)
{
    for (size_t i = 0; i < profile->n_notes; i++)
        if (strcmp(profile->notes[i], text) == 0)
            return 0;
    const char **notes = PRN_ARENA_ARRAY(&profile->arena, profile->n_notes + 1, const char *);
    const char *copy = prn_arena_strdup(&profile->arena, text);
    if (!notes || !copy)
        return prn_fail_memory(err);
    for (size_t i = 0; i < profile->n_notes; i++)
        notes[i] = profile->notes[i];
    notes[profile->n_notes++] = copy;
    profile->notes = notes;
    return 0;
}

void prn_profile_keep_host(struct prn_profile *profile, const char *hardware)
{
    size_t n = 0;
    for (size_t i = 0; i < profile->n_results; i++)
        if (strcmp(profile->results[i].hardware, hardware) == 0)
            profile->results[n++] = profile->results[i];
    profile->n_results = n;
    for (size_t i = 0; i < profile->n_hosts; i++) {
        const struct prn_profile_host *host = &profile->hosts[i];
        if (strcmp(host->hardware, hardware) != 0)
            continue;
        profile->environment = host->environment;
        profile->timer_ns = host->timer_ns;
        profile->canary_best_ns = host->canary_best_ns;
    }
    profile->n_hosts = 0;
}

const char *prn_result_spec(const struct prn_result *result)
{
    return result->spec ? result->spec : result->name;
}

void prn_profile_keep_model(struct prn_profile *profile, size_t model)
{
    const size_t n_models = profile->n_models;
    size_t n = 0;
    for (size_t i = 0; i < profile->n_results; i++) {
        struct prn_result result = profile->results[i];
        if (result.point % n_models != model)
            continue;
        result.point /= n_models;
        result.model_ratio = (struct prn_interval){NAN, NAN, NAN};
        result.model_verdict = PRN_VERDICT_NONE;
        profile->results[n++] = result;
    }
    profile->n_results = n;
    for (n = 0; n * n_models + model < profile->n_points; n++)
        profile->points[n] = profile->points[n * n_models + model];
    profile->n_points = n;
    profile->models[0] = profile->models[model];
    profile->n_models = 1;
}

const struct prn_point *prn_result_point(const struct prn_profile *profile,
                                         const struct prn_result *result)
{
    static const struct prn_point unknown = {.label = "", .batch = 1, .flops = NAN};
    return result->point < profile->n_points ? &profile->points[result->point] : &unknown;
}

void prn_point_text(const struct prn_point *point, struct prn_buffer *out)
{
    char shape[PRN_RANK_MAX * 24];
    if (point->label[0])
        prn_text_clean(out, point->label);
    else if (point->n_inputs > 0)
        prn_buffer_add(
            out, prn_dims_text(point->inputs[0].dims, point->inputs[0].rank, shape, sizeof shape));
}

size_t prn_result_cohort(const struct prn_profile *profile, const struct prn_result *result)
{
    return result->point / profile->n_models;
}

const struct prn_profile_model *prn_result_model(const struct prn_profile *profile,
                                                 const struct prn_result *result)
{
    return &profile->models[result->point % profile->n_models];
}

const struct prn_result *prn_result_first_model(const struct prn_profile *profile,
                                                const struct prn_result *result)
{
    const size_t model = result->point % profile->n_models;
    const size_t n_backends = profile->n_points > 0 ? profile->n_results / profile->n_points : 0;
    const size_t index = (size_t)(result - profile->results);
    if (model == 0 || index < model * n_backends)
        return NULL;
    const struct prn_result *first = &profile->results[index - model * n_backends];
    bool partners = first->point == result->point - model && strcmp(first->name, result->name) == 0;
    return partners ? first : NULL;
}

bool prn_result_measured(const struct prn_result *r)
{
    return r->error_code == 0 && r->n_samples > 0 && isfinite(r->stats.median_ns);
}
