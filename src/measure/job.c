#include "measure/memory/memory.h"
#include "measure/job.h"

#include "measure/backends.h"
#include "measure/ops/ops.h"
#include "measure/points.h"
#include "measure/resume.h"

#include <string.h>

#define ARENA_BYTES ((size_t)256 << 20)

/* What a job holds besides the profile that it makes. */
struct work {
    const struct prn_job *job;
    struct prn_profile *profile;
    struct prn_arena arena;
    struct prn_named_texts given; /* backends, without lists */
    struct prn_spec *backends;
    size_t n_backends; /* before they are spread over the points */
    struct prn_feed feed;
    struct prn_model_file *files; /* one for each point */
};

static const char *keep(struct work *w, const char *text)
{
    return prn_arena_strdup(&w->profile->arena, text);
}

static int prepare_results(struct work *w, struct prony_error *err)
{
    const struct prn_job_place *place = w->job->place;
    const struct prn_backends_here here = {.hardware = w->job->hardware};
    int code;
    if (place) {
        code = place->resolve(place->context, w->job, &w->given.texts, &w->arena, w->profile,
                              &w->backends, &w->n_backends, err);
    } else {
        code = prn_backends_resolve(&w->given.texts, &here, &w->arena, &w->backends, &w->n_backends,
                                    err);
        if (code == 0)
            code = prn_backends_describe(w->backends, w->n_backends, w->job->hardware_file,
                                         w->profile, err);
    }
    return code == 0 ? prn_backends_name(&w->given, w->backends, w->profile, err) : code;
}

static int fail_too_many_rows(struct prony_error *err)
{
    return prn_fail(err, PRONY_EUSAGE,
                    "the sweep has more than %d rows (points times backends); sweep fewer values",
                    PRN_RESULTS_MAX);
}

/* Lists in the options of backends become texts without; backends that nobody named are those of
 * the profile being resumed. */
static int expand_backends(struct work *w, struct prony_error *err)
{
    const struct prn_texts *given = &w->job->backends;
    size_t n = 0;
    const char **texts = PRN_ARENA_ARRAY(&w->arena, PRN_RESULTS_MAX, const char *);
    const char **names = PRN_ARENA_ARRAY(&w->arena, PRN_RESULTS_MAX, const char *);
    if (!texts || !names)
        return prn_fail_memory(err);
    if (given->n == 0 && w->job->resume)
        return prn_resume_backends(w->job->resume, &w->arena, &w->given, err);
    for (size_t i = 0; i < given->n; i++) {
        struct prn_named_spec *expanded;
        size_t n_expanded;
        int code = prn_spec_expand(given->items[i], true, &w->arena, &expanded, &n_expanded, err);
        if (code < 0)
            return code;
        if (n + n_expanded > PRN_RESULTS_MAX)
            return fail_too_many_rows(err);
        for (size_t k = 0; k < n_expanded; k++, n++) {
            texts[n] = expanded[k].text;
            names[n] = expanded[k].name;
        }
    }
    w->given = (struct prn_named_texts){{texts, n}, names};
    return 0;
}

/* One result for each backend became one for each point and backend, point by point. */
static int spread_over_points(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    size_t n_backends = p->n_results;
    if (n_backends > PRN_RESULTS_MAX / p->n_points)
        return fail_too_many_rows(err);
    size_t n = n_backends * p->n_points;
    struct prn_result *results = PRN_ARENA_ARRAY(&p->arena, n + 1, struct prn_result);
    struct prn_spec *backends = PRN_ARENA_ARRAY(&w->arena, n + 1, struct prn_spec);
    if (!results || !backends)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        results[i] = p->results[i % n_backends];
        results[i].point = i / n_backends;
        backends[i] = w->backends[i % n_backends];
    }
    p->results = results;
    p->n_results = n;
    w->backends = backends;
    return 0;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Tables tell models apart by name: by the one given, by that of the file, by its path where two
 * files have the same name, and by a number where a file is measured twice. */
static const char *model_name(struct work *w, size_t index)
{
    const struct prn_job_model *models = w->job->models;
    const struct prn_job_model *own = &models[index];
    const char *name = own->name ? own->name : file_name(own->path);
    size_t before = 0;
    for (size_t i = 0; i < w->job->n_models; i++) {
        const char *other = models[i].name ? models[i].name : file_name(models[i].path);
        if (strcmp(models[i].path, own->path) == 0)
            before += i < index;
        else if (!own->name && strcmp(other, name) == 0)
            name = own->path;
    }
    if (own->name || before == 0)
        return keep(w, name);
    struct prn_buffer numbered = PRN_BUFFER_INIT((size_t)16 << 10);
    prn_buffer_printf(&numbered, "%s (%zu)", name, before + 1);
    const char *kept =
        prn_buffer_error(&numbered, NULL) == 0 ? keep(w, prn_buffer_text(&numbered)) : NULL;
    prn_buffer_release(&numbered);
    return kept;
}

static int name_models(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    p->models = PRN_ARENA_ARRAY(&p->arena, w->job->n_models, struct prn_profile_model);
    if (!p->models)
        return prn_fail_memory(err);
    p->n_models = w->job->n_models;
    for (size_t i = 0; i < p->n_models; i++) {
        struct prn_profile_model *model = &p->models[i];
        *model = (struct prn_profile_model){.name = model_name(w, i),
                                            .path = keep(w, w->job->models[i].path)};
        if (!model->name || !model->path)
            return prn_fail_memory(err);
        for (size_t k = 0; k < i; k++)
            if (strcmp(p->models[k].name, model->name) == 0)
                return prn_fail(err, PRONY_EUSAGE, "two models are called '%s'", model->name);
    }
    return 0;
}

static int begin_profile(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    p->settings = w->job->settings;
    int code = name_models(w, err);
    return code == 0 ? prn_profile_stamp(p, err) : code;
}

/* A fixed number of repeats is a promise; the reader must know when time was up before. */
static int note_missing_repeats(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_result *r = &p->results[i];
        bool ended = r->error_code || (r->flags & PRN_FLAG_INTERRUPTED);
        if (!ended && (int64_t)r->n_samples < p->settings.repeats)
            return prn_profile_note(p, PRN_NOTE_MISSING_REPEATS, err);
    }
    return 0;
}

/* A model that rejects made-up inputs needs real ones. */
static int note_made_up_inputs(struct work *w, struct prony_error *err)
{
    bool rejected = false;
    for (size_t i = 0; i < w->profile->n_results; i++) {
        const struct prn_result *r = &w->profile->results[i];
        rejected |= r->error_code == PRONY_ERUNTIME && r->n_launches > 0 &&
                    r->launches[0].load_ns >= 0 && r->launches[0].first_run_ns < 0;
    }
    if (!rejected || w->job->inputs.n > 0 || w->job->inputs_folder || w->feed.inputs[0].n == 0)
        return 0;
    return prn_profile_note(w->profile, PRN_NOTE_MADE_UP_INPUTS, err);
}

/* Sizes of 1 are a guess, so a runtime that fails may only say that they don't fit. */
static int hint_open_dims(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    for (size_t i = 0; w->feed.open_dims && i < p->n_results; i++) {
        struct prn_result *r = &p->results[i];
        if (r->error_code != PRONY_ERUNTIME)
            continue;
        struct prn_buffer text = PRN_BUFFER_INIT((size_t)2 << 20);
        prn_buffer_printf(&text, PRN_OPEN_DIMS_FAILURE ": %s", w->feed.open_dims, r->error);
        r->error = keep(w, prn_buffer_text(&text));
        prn_buffer_release(&text);
        if (!r->error)
            return prn_fail_memory(err);
    }
    return 0;
}

/* Nobody stands in for a reference that failed; the reader must know that nothing was compared. */
static int note_missing_reference(struct work *w, struct prony_error *err)
{
    const struct prn_profile *p = w->profile;
    const char *reference = p->settings.reference;
    bool missing = false;
    for (size_t i = 0; reference && i < p->n_results; i++)
        missing |= p->results[i].error_code && strcmp(p->results[i].name, reference) == 0;
    if (!missing)
        return 0;
    struct prn_buffer note = PRN_BUFFER_INIT((size_t)16 << 10);
    prn_buffer_printf(&note, "outputs were not compared where the reference %s failed", reference);
    int code = prn_buffer_error(&note, err);
    if (code == 0)
        code = prn_profile_note(w->profile, prn_buffer_text(&note), err);
    prn_buffer_release(&note);
    return code;
}

/* The first result that has a name or, if none has, that spec; SIZE_MAX: neither. */
static size_t find_result(const struct prn_profile *p, const char *name, const char *spec)
{
    for (size_t i = 0; i < p->n_results; i++)
        if (strcmp(p->results[i].name, name) == 0)
            return i;
    for (size_t i = 0; i < p->n_results; i++)
        if (strcmp(prn_result_spec(&p->results[i]), spec) == 0)
            return i;
    return SIZE_MAX;
}

/* --reference must be one of the backends, by name or under whatever spelling of its spec. */
static int resolve_reference(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    const struct prn_profile *resume = w->job->resume;
    const char *wanted = p->settings.reference;
    struct prn_spec spec = {.name = wanted};
    if (!wanted)
        return 0;
    size_t i = find_result(p, wanted, wanted);
    int code = i < SIZE_MAX ? 0 : prn_spec_parse(wanted, true, &p->arena, &spec, err);
    if (code < 0)
        return prn_fail_in(err, code, "--reference");
    if (i == SIZE_MAX)
        i = find_result(p, spec.name, spec.name);
    if (i == SIZE_MAX)
        return prn_fail(err, PRONY_EUSAGE, "--reference '%s' is not one of the backends",
                        spec.name);
    /* A host that resumes its part of a profile has no names, only specs. */
    const char *before = resume ? resume->settings.reference : NULL;
    size_t was = before ? find_result(resume, before, before) : SIZE_MAX;
    if (resume && (was == SIZE_MAX || strcmp(prn_result_spec(&resume->results[was]),
                                             prn_result_spec(&p->results[i])) != 0))
        return prn_fail(
            err, PRONY_EUSAGE,
            "--reference '%s' is not the reference of the profile being resumed; leave it out, "
            "or start over without --resume",
            spec.name);
    p->settings.reference = p->results[i].name;
    return 0;
}

/* Kernels of a quantised model round each value to one of 256 steps, and not all alike. */
static int choose_tolerance(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    bool quantised = false;
    for (size_t i = 0; i < p->n_models; i++)
        quantised |= p->models[i].quantised;
    if (!w->job->tolerance_by_model || !quantised)
        return 0;
    p->settings.tolerance = PRN_TOLERANCE_QUANTISED;
    if (p->n_results < 2)
        return 0;
    return prn_profile_note(p,
                            "the model computes with 8 bits or fewer, so outputs of backends that "
                            "differ by up to 5 % count as the same; --tolerance sets another limit",
                            err);
}

static int locate_models(struct work *w, struct prony_error *err)
{
    const size_t n_models = w->profile->n_models;
    struct prn_model_place *places = PRN_ARENA_ARRAY(&w->arena, n_models, struct prn_model_place);
    w->files = PRN_ARENA_ARRAY(&w->arena, w->feed.n, struct prn_model_file);
    if (!places || !w->files)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n_models; i++) {
        int code =
            prn_model_locate(w->profile->models[i].path, w->feed.external[i], &places[i], err);
        if (code < 0)
            return code;
    }
    for (size_t i = 0; i < n_models; i++)
        for (size_t point = i; point < w->feed.n; point += n_models)
            w->files[point] = (struct prn_model_file){
                places[i].path, w->feed.external[i] ? places[i].folder : NULL};
    return 0;
}

static int job_prepare(struct work *w, struct prony_error *err)
{
    int code = begin_profile(w, err);
    if (code == 0)
        code = expand_backends(w, err);
    if (code == 0)
        code = prn_points_make(w->job, &w->arena, w->profile, &w->feed, err);
    if (code == 0)
        code = locate_models(w, err);
    if (code == 0)
        code = prepare_results(w, err);
    if (code == 0)
        code = choose_tolerance(w, err);
    if (code == 0)
        code = resolve_reference(w, err);
    if (code == 0)
        code = spread_over_points(w, err);
    /* Elsewhere, that is where the saved machine can be held against the real one. */
    if (code == 0 && w->job->resume && !w->job->place)
        code = prn_resume_adopt(w->job->resume, w->job->hardware_file != NULL, w->profile, err);
    return code;
}

/* Measures one request at a time and then, when it is asked for, under load. */
static int job_measure(struct work *w, struct prony_error *err)
{
    const struct prn_job *job = w->job;
    struct prn_measure_request request = {
        .models = w->files,
        .backends = w->backends,
        .inputs = w->feed.inputs,
        .timeout_s = job->timeout_s,
        .cancelled = job->cancelled,
        .progress = job->progress,
        .checkpoint = job->checkpoint,
        .context = job->context,
    };
    int code = prn_measure(&request, w->profile, err);
    if (code == 0 && job->ops)
        code = prn_ops_measure(&request, w->feed.graphs, w->profile, err);
    if (code == 0 && job->memory)
        code = prn_memory_measure(&request, w->feed.graphs, w->feed.lives, w->profile, err);
    if (code == 0)
        code = note_missing_repeats(w, err);
    if (code == 0)
        code = note_made_up_inputs(w, err);
    if (code == 0)
        code = note_missing_reference(w, err);
    if (code == 0)
        code = prn_summarise(w->profile, err);
    if (code == 0)
        code = prn_ops_compare(w->profile, err);
    if (code == 0 && prn_load_wanted(&job->load))
        code = prn_load_measure(&request, &job->load, w->profile, err);
    return code;
}

int prn_job_run(const struct prn_job *job, struct prn_profile **ret_profile,
                struct prony_error *err)
{
    struct work w = {
        .job = job, .profile = prn_profile_new(), .arena = PRN_ARENA_INIT(ARENA_BYTES)};
    if (!w.profile)
        return prn_fail_memory(err);
    int code = job_prepare(&w, err);
    if (code == 0 && job->place)
        code =
            job->place->measure(job->place->context, job, w.backends, w.n_backends, w.profile, err);
    else if (code == 0)
        code = job_measure(&w, err);
    if (code == 0)
        code = hint_open_dims(&w, err);
    prn_feed_release(&w.feed);
    prn_arena_release(&w.arena);
    if (code < 0)
        prn_profile_free(w.profile);
    else
        *ret_profile = w.profile;
    return code;
}
