#include "measure/job.h"

#include "measure/discover.h"
#include "measure/inputs.h"
#include "model/bindings.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ARENA_BYTES ((size_t)256 << 20)

/* What a job holds besides the profile that it makes. */
struct work {
    const struct prn_job *job;
    struct prn_profile *profile;
    struct prn_arena arena;
    struct prn_spec *backends;
    struct prn_inputs inputs;
    char model_path[PATH_MAX];
    char model_folder[PATH_MAX];
    bool external; /* the model keeps data in other files of its folder */
};

static const char *keep(struct work *w, const char *text)
{
    return prn_arena_strdup(&w->profile->arena, text);
}

static int add_note(struct work *w, const char *text, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    const char **notes = PRN_ARENA_ARRAY(&p->arena, p->n_notes + 1, const char *);
    const char *copy = keep(w, text);
    if (!notes || !copy)
        return prn_fail_memory(err);
    for (size_t i = 0; i < p->n_notes; i++)
        notes[i] = p->notes[i];
    notes[p->n_notes++] = copy;
    p->notes = notes;
    return 0;
}

/* Dimensions that nobody bound became 1; the reader of the report must know. */
static int note_open_dims(struct work *w, const struct prn_model *model,
                          const struct prn_input *inputs, struct prony_error *err)
{
    struct prn_buffer list = PRN_BUFFER_INIT((size_t)64 << 10);
    const char *example = NULL;
    for (size_t i = 0; i < model->n_inputs; i++)
        for (size_t k = 0; k < inputs[i].rank; k++) {
            if (!inputs[i].assumed[k])
                continue;
            const struct prn_value *value = model->inputs[i];
            const char *param = k < value->rank ? value->dims[k].param : NULL;
            if (param && !example)
                example = param;
            prn_buffer_printf(&list, "%s%s%s%s of '%s'", list.len ? ", " : "",
                              param ? "'" : "dimension ", param ? param : "", param ? "'" : "",
                              inputs[i].name);
            if (!param)
                prn_buffer_printf(&list, " (number %zu)", k);
        }
    int code = prn_buffer_error(&list, err);
    if (code == 0 && list.len > 0) {
        struct prn_buffer note = PRN_BUFFER_INIT((size_t)128 << 10);
        prn_buffer_printf(&note, "left open and taken as 1: %s; ", prn_buffer_text(&list));
        if (example)
            prn_buffer_printf(&note, "--dim %s=N sets it", example);
        else
            prn_buffer_add(&note, "--shape NAME=DIMS sets it");
        code = add_note(w, prn_buffer_text(&note), err);
        prn_buffer_release(&note);
    }
    prn_buffer_release(&list);
    return code;
}

static int describe_point(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    const struct prn_inputs *inputs = &w->inputs;
    struct prn_point *point = PRN_ARENA_ARRAY(&p->arena, 1, struct prn_point);
    if (!point)
        return prn_fail_memory(err);
    point->label = "";
    point->inputs = PRN_ARENA_ARRAY(&p->arena, inputs->n + 1, struct prn_profile_input);
    if (!point->inputs)
        return prn_fail_memory(err);
    for (size_t i = 0; i < inputs->n; i++) {
        const struct prn_place *place = &inputs->places[i];
        int64_t *dims = PRN_ARENA_ARRAY(&p->arena, place->rank + 1, int64_t);
        struct prn_profile_input input = {.name = keep(w, place->name),
                                          .dtype = place->dtype,
                                          .rank = place->rank,
                                          .dims = dims,
                                          .source = keep(w, inputs->sources[i])};
        if (!dims || !input.name || !input.source)
            return prn_fail_memory(err);
        memcpy(dims, place->dims, place->rank * sizeof *dims);
        point->inputs[point->n_inputs++] = input;
    }
    bool batched = inputs->n > 0 && inputs->places[0].rank >= 2 && inputs->places[0].dims[0] > 0;
    point->batch = batched ? inputs->places[0].dims[0] : 1;
    point->flops = NAN;
    p->points = point;
    p->n_points = 1;
    return 0;
}

static int parse_sources(struct work *w, struct prn_input_source **ret_sources,
                         struct prony_error *err)
{
    const struct prn_texts *texts = &w->job->inputs;
    struct prn_input_source *sources =
        PRN_ARENA_ARRAY(&w->arena, texts->n + 1, struct prn_input_source);
    if (!sources)
        return prn_fail_memory(err);
    for (size_t i = 0; i < texts->n; i++) {
        int code = prn_input_source_parse(texts->items[i], &w->arena, &sources[i], err);
        if (code < 0)
            return code;
    }
    *ret_sources = sources;
    return 0;
}

/* Everything that needs the model's graph; it is closed again before anything is measured. */
static int read_model(struct work *w, struct prony_error *err)
{
    const struct prn_job *job = w->job;
    struct prn_model *model = NULL;
    struct prn_work *work = NULL;
    struct prn_input *inputs = NULL;
    struct prn_bindings bindings = {0};
    struct prn_input_source *sources = NULL;
    int code = prn_bindings_parse(job->dims.items, job->dims.n, job->shapes.items, job->shapes.n,
                                  &w->arena, &bindings, err);
    if (code == 0)
        code = parse_sources(w, &sources, err);
    if (code == 0)
        code = prn_model_open(job->model_path, &model, err);
    if (code == 0)
        code = prn_model_bind(model, &bindings, &w->arena, &inputs, err);
    if (code == 0)
        code = prn_inputs_make(inputs, model->n_inputs, sources, job->inputs.n, job->inputs_folder,
                               job->settings.seed, &w->profile->arena, &w->inputs, err);
    if (code == 0)
        code = describe_point(w, err);
    if (code == 0)
        code = note_open_dims(w, model, inputs, err);
    if (code == 0)
        code = prn_model_analyse(model, inputs, &work, err);
    if (code == 0) {
        w->profile->model_bytes = (int64_t)(model->file_bytes + model->external_bytes);
        w->external = model->n_external_files > 0;
        w->profile->model_parameters = (int64_t)model->n_parameters;
        w->profile->points[0].flops = work->flops;
        w->profile->points[0].flops_complete = work->n_uncounted == 0;
        /* Names must outlive the model. */
        for (size_t i = 0; i < w->inputs.n; i++)
            w->inputs.places[i].name = w->profile->points[0].inputs[i].name;
    }
    prn_work_free(work);
    prn_model_free(model);
    return code;
}

/* Makes the path absolute. With external data its last part stays as it is: a symbolic link's data
 * lies beside the link, not beside what it points to. */
static int resolve_path(struct work *w, struct prony_error *err)
{
    const char *path = w->job->model_path;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char folder[PATH_MAX];
    if (!w->external)
        return realpath(path, w->model_path) ? 0 : prn_fail_errno(err, errno, "open", path);
    if (name - path >= PATH_MAX)
        return prn_fail_errno(err, ENAMETOOLONG, "open", path);
    snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
    if (!realpath(slash ? folder : ".", w->model_folder))
        return prn_fail_errno(err, errno, "open", path);
    const char *separator = w->model_folder[1] ? "/" : "";
    if (snprintf(w->model_path, sizeof w->model_path, "%s%s%s", w->model_folder, separator, name) >=
        PATH_MAX)
        return prn_fail_errno(err, ENAMETOOLONG, "open", path);
    return 0;
}

static int check_backend(const struct prn_spec *spec, struct prony_error *err)
{
    if (strcmp(spec->hardware, "local") != 0)
        return prn_fail(err, PRONY_EUNAVAILABLE,
                        "backend '%s': this machine is 'local', there is no '%s' here", spec->name,
                        spec->hardware);
    const struct prn_runtime_ops *ops = prn_runtime_find(spec->software);
    if (!ops) {
        struct prn_buffer list = PRN_BUFFER_INIT(400);
        prn_runtime_list(&list);
        int code = prn_fail(err, PRONY_EUNAVAILABLE, "backend '%s': no software '%s'; known: %s",
                            spec->name, spec->software, prn_buffer_text(&list));
        prn_buffer_release(&list);
        return code;
    }
    return prn_runtime_check_options(ops, spec->options, spec->n_options, err);
}

static int parse_backends(struct work *w, struct prony_error *err)
{
    const struct prn_texts *texts = &w->job->backends;
    w->backends = PRN_ARENA_ARRAY(&w->arena, texts->n + 1, struct prn_spec);
    if (!w->backends)
        return prn_fail_memory(err);
    for (size_t i = 0; i < texts->n; i++) {
        int code = prn_spec_parse(texts->items[i], true, &w->arena, &w->backends[i], err);
        if (code == 0)
            code = check_backend(&w->backends[i], err);
        if (code < 0)
            return code;
    }
    w->profile->n_results = texts->n;
    return 0;
}

/* No backend was asked for: all that work here, with their defaults. */
static int find_backends(struct work *w, struct prony_error *err)
{
    struct prn_found_runtime *found;
    size_t n;
    int code = prn_discover(w->job->ort_library, &w->arena, &found, &n, err);
    if (code < 0)
        return code;
    w->backends = PRN_ARENA_ARRAY(&w->arena, n + 1, struct prn_spec);
    if (!w->backends)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        if (!found[i].available)
            continue;
        code = prn_spec_parse(found[i].ops->software, true, &w->arena,
                              &w->backends[w->profile->n_results++], err);
        if (code < 0)
            return code;
    }
    if (w->profile->n_results == 0)
        return prn_fail(err, PRONY_EUNAVAILABLE, "no runtime works here: %s", found[0].reason);
    return 0;
}

static int prepare_results(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    int code = w->job->backends.n > 0 ? parse_backends(w, err) : find_backends(w, err);
    struct prn_hardware_table hardware = {0};
    if (code == 0)
        code = prn_hardware_load(w->job->hardware_file, &hardware, err);
    if (code < 0)
        return code;
    p->results = PRN_ARENA_ARRAY(&p->arena, p->n_results + 1, struct prn_result);
    if (!p->results)
        code = prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < p->n_results; i++) {
        const struct prn_spec *spec = &w->backends[i];
        struct prn_hardware known = prn_hardware_find(&hardware, spec->hardware);
        struct prn_result *r = &p->results[i];
        r->name = keep(w, spec->name);
        r->hardware = keep(w, spec->hardware);
        r->software = keep(w, spec->software);
        r->processor = known.processor ? keep(w, known.processor) : NULL;
        r->usd_per_hour = known.usd_per_hour;
        r->ratio = (struct prn_interval){NAN, NAN, NAN};
        if (!r->name || !r->hardware || !r->software || (known.processor && !r->processor))
            code = prn_fail_memory(err);
    }
    prn_hardware_release(&hardware);
    return code;
}

static int begin_profile(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    char now[32];
    time_t seconds = time(NULL);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &utc);
    p->prony_version = prony_version();
    p->created = keep(w, now);
    p->model_path = keep(w, w->job->model_path);
    p->settings = w->job->settings;
    if (!p->created || !p->model_path)
        return prn_fail_memory(err);
    return prn_environment_read(&p->environment, &p->arena) < 0 ? prn_fail_memory(err) : 0;
}

/* A fixed number of repeats is a promise; the reader must know when time was up before. */
static int note_missing_repeats(struct work *w, struct prony_error *err)
{
    const struct prn_profile *p = w->profile;
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_result *r = &p->results[i];
        bool ended = r->error_code || (r->flags & PRN_FLAG_INTERRUPTED);
        if (!ended && (int64_t)r->n_samples < p->settings.repeats)
            return add_note(w, "--max-time was up before all --repeats were measured", err);
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
    if (!rejected || w->job->inputs.n > 0 || w->job->inputs_folder || w->inputs.n == 0)
        return 0;
    return add_note(w,
                    "the first run failed with inputs that prony made up; --input NAME=@FILE or "
                    "--inputs DIR gives the model real ones",
                    err);
}

int prn_job_run(const struct prn_job *job, struct prn_profile **ret_profile,
                struct prony_error *err)
{
    struct work w = {.job = job,
                     .profile = prn_profile_new(),
                     .arena = PRN_ARENA_INIT(ARENA_BYTES),
                     .inputs = {.fd = -1}};
    if (!w.profile)
        return prn_fail_memory(err);
    int code = begin_profile(&w, err);
    if (code == 0)
        code = read_model(&w, err);
    if (code == 0)
        code = resolve_path(&w, err);
    if (code == 0)
        code = prepare_results(&w, err);
    if (code == 0) {
        struct prn_measure_request request = {
            .model_path = w.model_path,
            .model_folder = w.external ? w.model_folder : NULL,
            .backends = w.backends,
            .ort_library = job->ort_library,
            .inputs = &w.inputs,
            .timeout_s = job->timeout_s,
            .cancelled = job->cancelled,
            .progress = job->progress,
            .context = job->context,
        };
        code = prn_measure(&request, w.profile, err);
    }
    if (code == 0)
        code = note_missing_repeats(&w, err);
    if (code == 0)
        code = note_made_up_inputs(&w, err);
    if (code == 0)
        code = prn_summarise(w.profile, err);
    prn_inputs_release(&w.inputs);
    prn_arena_release(&w.arena);
    if (code < 0)
        prn_profile_free(w.profile);
    else
        *ret_profile = w.profile;
    return code;
}
