#include "measure/job.h"

#include "measure/backends.h"
#include "measure/ops.h"
#include "measure/points.h"
#include "measure/resume.h"

#include <string.h>

#define ARENA_BYTES ((size_t)256 << 20)

/* What a job holds besides the profile that it makes. */
struct work {
    const struct prn_job *job;
    struct prn_profile *profile;
    struct prn_arena arena;
    struct prn_texts backend_texts; /* without lists */
    struct prn_spec *backends;
    size_t n_backends; /* before they are spread over the points */
    struct prn_feed feed;
    struct prn_model_place place;
};

static const char *keep(struct work *w, const char *text)
{
    return prn_arena_strdup(&w->profile->arena, text);
}

static int prepare_results(struct work *w, struct prony_error *err)
{
    size_t n;
    const struct prn_job_place *place = w->job->place;
    if (place)
        return place->resolve(place->context, w->job, &w->backend_texts, &w->arena, w->profile,
                              &w->backends, &w->n_backends, err);
    const struct prn_backends_here here = {.hardware = w->job->hardware,
                                           .ort_library = w->job->ort_library};
    int code = prn_backends_resolve(&w->backend_texts, &here, &w->arena, &w->backends, &n, err);
    return code < 0 ? code
                    : prn_backends_describe(w->backends, n, w->job->hardware_file, w->profile, err);
}

static int fail_too_many_rows(struct prony_error *err)
{
    return prn_fail(err, PRONY_EUSAGE,
                    "the sweep has more than %d rows (points times backends); sweep fewer values",
                    PRN_RESULTS_MAX);
}

/* Lists in the options of backends become texts without; backends that nobody named are those of
 * the profile to go on with. */
static int expand_backends(struct work *w, struct prony_error *err)
{
    const struct prn_texts *given = &w->job->backends;
    size_t n = 0;
    const char **texts = PRN_ARENA_ARRAY(&w->arena, PRN_RESULTS_MAX, const char *);
    if (!texts)
        return prn_fail_memory(err);
    if (given->n == 0 && w->job->resume)
        return prn_resume_backends(w->job->resume, &w->arena, &w->backend_texts, err);
    for (size_t i = 0; i < given->n; i++) {
        const char **expanded;
        size_t n_expanded;
        int code = prn_spec_expand(given->items[i], true, &w->arena, &expanded, &n_expanded, err);
        if (code < 0)
            return code;
        if (n + n_expanded > PRN_RESULTS_MAX)
            return fail_too_many_rows(err);
        for (size_t k = 0; k < n_expanded; k++)
            texts[n++] = expanded[k];
    }
    w->backend_texts = (struct prn_texts){texts, n};
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

static int begin_profile(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    p->model_path = keep(w, w->job->model_path);
    p->settings = w->job->settings;
    return p->model_path ? prn_profile_stamp(p, err) : prn_fail_memory(err);
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

/* --reference must be one of the backends, under whatever spelling. */
static int resolve_reference(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    const struct prn_profile *resume = w->job->resume;
    struct prn_spec spec;
    if (!p->settings.reference)
        return 0;
    int code = prn_spec_parse(p->settings.reference, true, &p->arena, &spec, err);
    if (code < 0)
        return prn_fail_in(err, code, "--reference");
    size_t i = 0;
    while (i < p->n_results && strcmp(p->results[i].name, spec.name) != 0)
        i++;
    if (i == p->n_results)
        return prn_fail(err, PRONY_EUSAGE, "--reference '%s' is none of the backends", spec.name);
    if (resume && (!resume->settings.reference ||
                   strcmp(resume->settings.reference, p->results[i].name) != 0))
        return prn_fail(err, PRONY_EUSAGE,
                        "--reference '%s' isn't that of the profile to go on with; leave it out, "
                        "or measure anew without --resume",
                        spec.name);
    p->settings.reference = p->results[i].name;
    return 0;
}

static int prepare(struct work *w, struct prony_error *err)
{
    int code = begin_profile(w, err);
    if (code == 0)
        code = expand_backends(w, err);
    if (code == 0)
        code = prn_points_make(w->job, &w->arena, w->profile, &w->feed, err);
    if (code == 0)
        code = prn_model_locate(w->job->model_path, w->feed.external, &w->place, err);
    if (code == 0)
        code = prepare_results(w, err);
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
static int measure(struct work *w, struct prony_error *err)
{
    const struct prn_job *job = w->job;
    struct prn_measure_request request = {
        .model = {w->place.path, w->feed.external ? w->place.folder : NULL},
        .backends = w->backends,
        .ort_library = job->ort_library,
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
    int code = prepare(&w, err);
    if (code == 0 && job->place)
        code =
            job->place->measure(job->place->context, job, w.backends, w.n_backends, w.profile, err);
    else if (code == 0)
        code = measure(&w, err);
    prn_feed_release(&w.feed);
    prn_arena_release(&w.arena);
    if (code < 0)
        prn_profile_free(w.profile);
    else
        *ret_profile = w.profile;
    return code;
}
