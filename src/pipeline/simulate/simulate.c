#include "measure/canary.h"
#include "pipeline/simulate/hosts.h"
#include "pipeline/simulate/launch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)256 << 20)
#define LABEL_SIZE 256
#define CANARY_RUNS 5

/* What a simulation holds besides its result. */
struct work {
    const struct prn_simulation_request *request;
    struct prn_simulation *result;
    struct prn_stage_models *models;
    struct prn_stage_hosts *hosts; /* NULL: stages run here */
    const char *backend_text;      /* as it was asked for */
    struct prn_spec *backend;
    struct prn_simulation_setup setup;
    struct prn_stage_setup *stages;
    struct prn_stage_setup whole;
    struct prn_model_place place; /* of the whole model */
    struct prn_arena arena;
    struct prn_kept expected[PRN_SIMULATION_SOURCES]; /* the whole model's outputs */
    struct prn_simulate_tally *tally;
    struct prn_canary canary;
};

/* ---- Preparing ---- */

static bool takes_threads(const struct prn_spec *backend)
{
    const struct prn_runtime_option *o = prn_runtime_find(backend->software)->options;
    while (o->key && strcmp(o->key, "threads") != 0)
        o++;
    return o->key && !prn_spec_option(backend, "threads");
}

/* A stage has as many threads as cores, unless the backend says otherwise. */
static int set_threads(struct work *w, size_t threads, struct prony_error *err)
{
    struct prn_spec *b = w->backend;
    struct prn_spec_option *options =
        PRN_ARENA_ARRAY(&w->arena, b->n_options + 1, struct prn_spec_option);
    char text[32];
    snprintf(text, sizeof text, "%zu", threads);
    const char *value = prn_arena_strdup(&w->arena, text);
    if (!options || !value)
        return prn_fail_memory(err);
    for (size_t i = 0; i < b->n_options; i++)
        options[i] = b->options[i];
    options[b->n_options++] = (struct prn_spec_option){"threads", value};
    b->options = options;
    return 0;
}

/* Each stage gets the same number of cores, or if there are too few they share all. */
static void share_cores(struct work *w)
{
    size_t n = w->setup.n_stages;
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) < 0)
        CPU_ZERO(&all);
    w->result->n_cores = (size_t)CPU_COUNT(&all);
    size_t each = w->request->server ? 0 : w->result->n_cores / n;
    w->result->pinned = each > 0;
    size_t given = 0;
    for (int core = 0; core < CPU_SETSIZE && given < each * n; core++)
        if (CPU_ISSET(core, &all))
            CPU_SET(core, &w->stages[given++ / each].cores);
    for (size_t i = 0; i < n; i++) {
        w->result->stages[i].memory_bytes = NAN;
        w->stages[i].pinned = w->result->pinned;
        w->result->stages[i].cores = each;
    }
}

static int prepare_backend(struct work *w, struct prony_error *err)
{
    w->backend_text = w->request->backend ? w->request->backend : "onnxrt-cpu";
    const char *text = w->backend_text;
    struct prn_texts texts = {&text, 1};
    size_t n;
    const struct prn_backends_here here = {.program = w->request->program};
    int code = prn_backends_resolve(&texts, &here, &w->arena, &w->backend, &n, err);
    if (code < 0)
        return code;
    w->result->backend = prn_arena_strdup(&w->result->arena, w->backend->name);
    if (!w->result->backend)
        return prn_fail_memory(err);
    size_t cores = w->result->stages[0].cores;
    if (takes_threads(w->backend) && !w->request->server)
        code = set_threads(w, cores ? cores : 1, err);
    w->setup.runtime = (struct prn_runtime_config){.software = w->backend->software,
                                                   .options = w->backend->options,
                                                   .n_options = w->backend->n_options};
    return code;
}

static int prepare_stage(struct work *w, size_t i, struct prony_error *err)
{
    const struct prn_pipeline *p = w->request->models.pipeline;
    const struct prn_schedule *schedule = w->request->models.schedule;
    const struct prn_stage *stage = &schedule->stages[i];
    const struct prn_stage_model *model = &w->models->stages[i];
    struct prn_stage_setup *s = &w->stages[i];
    char label[LABEL_SIZE];
    snprintf(label, sizeof label, "stage %zu (%.100s)", i + 1,
             p->types[stage->type].hosts[stage->host]);
    const char **names = PRN_ARENA_ARRAY(&w->arena, model->layer->n_in + 1, const char *);
    s->label = prn_arena_strdup(&w->arena, label);
    if (!names || !s->label)
        return prn_fail_memory(err);
    for (size_t k = 0; k < model->layer->n_in; k++)
        names[k] = model->layer->in[k]->value.name;
    s->names = names;
    s->n_names = model->layer->n_in;
    s->path = model->path;
    s->folder = model->external ? w->models->folder : NULL;
    s->results = model->layer->n_results > 0;
    if (i > 0) {
        s[-1].hands_on = names;
        s[-1].n_hands_on = s->n_names;
    }
    if (i + 1 == schedule->n || w->request->no_links || w->request->server)
        return 0;
    s->link_s = prn_pipeline_link_time(p, stage->last, stage->type, stage[1].type);
    if (s->link_s > w->request->timeout_s)
        return prn_fail(err, PRONY_EUSAGE,
                        "the link from stage %zu to stage %zu takes %.3g s by the files, more than "
                        "--timeout %.3g; --no-links leaves the links out",
                        i + 1, i + 2, s->link_s, w->request->timeout_s);
    return 0;
}

static int prepare_whole(struct work *w, struct prony_error *err)
{
    const struct prn_model *model = w->models->model;
    const char **names = PRN_ARENA_ARRAY(&w->arena, model->n_inputs + 1, const char *);
    if (!names)
        return prn_fail_memory(err);
    for (size_t i = 0; i < model->n_inputs; i++)
        names[i] = model->inputs[i]->name;
    bool external = model->n_external_files > 0;
    int code = prn_model_locate(w->request->models.model_path, external, &w->place, err);
    w->whole = (struct prn_stage_setup){.label = "the whole model",
                                        .path = w->place.path,
                                        .folder = external ? w->place.folder : NULL,
                                        .names = names,
                                        .n_names = model->n_inputs};
    return code;
}

static int make_source(struct work *w, size_t seed, struct prony_error *err)
{
    struct prn_inputs made;
    struct prn_batch *batch = prn_batch_new();
    w->setup.sources[seed] = batch;
    if (!batch)
        return prn_fail_memory(err);
    int code = prn_inputs_make(w->models->inputs, w->models->model->n_inputs, NULL, 0, NULL, seed,
                               &w->arena, &made, err);
    if (code < 0)
        return code;
    code = prn_batch_read(batch, made.places, made.n, made.fd, err);
    prn_inputs_release(&made);
    return code;
}

static int check_memory(const struct work *w, struct prony_error *err)
{
    const struct prn_schedule *s = w->request->models.schedule;
    double bytes = 0;
    for (size_t i = 0; i < s->n; i++)
        bytes += prn_pipeline_buffer_memory(w->request->models.pipeline, s->stages[i].first,
                                            s->stages[i].last);
    int64_t available = prn_memory_available();
    if (!w->request->server && available > 0 && bytes > (double)available)
        return prn_fail(err, PRONY_ELIMIT,
                        "the buffers between the stages take %.3g GB, but this machine has %.3g GB "
                        "left; --buffers-in and --buffers-out say how many there are",
                        bytes * 1e-9, (double)available * 1e-9);
    return 0;
}

static int simulate_prepare(struct work *w, struct prony_error *err)
{
    size_t n = w->request->models.schedule->n;
    struct prn_simulation *s = w->result;
    w->stages = PRN_ARENA_ARRAY(&w->arena, n, struct prn_stage_setup);
    s->stages = PRN_ARENA_ARRAY(&s->arena, n, struct prn_simulated_stage);
    s->model_path = prn_arena_strdup(&s->arena, w->request->models.model_path);
    w->tally = prn_tally_new(n, w->request->launches);
    if (!w->stages || !s->stages || !s->model_path || !w->tally)
        return prn_fail_memory(err);
    s->n_stages = w->setup.n_stages = n;
    s->links = !w->request->no_links;
    w->setup.request = w->request;
    w->setup.stages = w->stages;
    share_cores(w);
    int code = prepare_backend(w, err);
    if (code == 0)
        code = check_memory(w, err);
    if (code == 0)
        code = prn_stage_models_cut(&w->request->models, &w->models, err);
    for (size_t i = 0; i < n && code == 0; i++)
        code = prepare_stage(w, i, err);
    if (code == 0)
        code = prepare_whole(w, err);
    for (size_t i = 0; i < PRN_SIMULATION_SOURCES && code == 0; i++)
        code = make_source(w, i, err);
    return code;
}

/* ---- Outputs ---- */

/* What the whole model gives for each of the batches. */
static int run_whole(struct work *w, struct prony_error *err)
{
    struct prn_stage_process process = {.inputs_fd = -1};
    struct prn_batch *out = prn_batch_new();
    int code = out ? 0 : prn_fail_memory(err);
    if (code == 0)
        code = prn_stage_process_start(&w->setup, &w->whole, w->request->models.cancelled, &process,
                                       err);
    for (size_t i = 0; i < PRN_SIMULATION_SOURCES && code == 0; i++) {
        int64_t run_ns;
        code = prn_stage_process_work(&process, &w->whole, w->setup.sources[i], out, &run_ns, err);
        if (code == 0)
            code = prn_kept_copy(&w->expected[i], out, &w->arena, err);
    }
    prn_stage_process_stop(&process);
    prn_batch_free(out);
    return code < 0 ? prn_fail_in(err, code, "%s", w->whole.label) : 0;
}

static int prepare_checks(struct work *w, struct prony_error *err)
{
    struct prn_simulation *s = w->result;
    const struct prn_kept *expected = &w->expected[0];
    s->outputs = PRN_ARENA_ARRAY(&s->arena, expected->n + 1, struct prn_output_check);
    if (!s->outputs)
        return prn_fail_memory(err);
    for (size_t i = 0; i < expected->n; i++) {
        s->outputs[i] =
            (struct prn_output_check){.name = prn_arena_strdup(&s->arena, expected->places[i].name),
                                      .same_shape = true,
                                      .cosine = 1};
        if (!s->outputs[i].name)
            return prn_fail_memory(err);
    }
    s->n_outputs = expected->n;
    return 0;
}

static const struct prn_place *find_result(const struct work *w, const struct prn_kept *kept,
                                           const char *name, int *ret_fd)
{
    for (size_t stage = 0; stage < w->setup.n_stages; stage++) {
        const struct prn_layer *layer = w->models->stages[stage].layer;
        bool gives = false;
        for (size_t k = 0; k < layer->n_results && !gives; k++)
            gives = strcmp(layer->results[k]->value.name, name) == 0;
        for (size_t k = 0; gives && k < kept[stage].n; k++)
            if (strcmp(kept[stage].places[k].name, name) == 0) {
                *ret_fd = kept[stage].fd;
                return &kept[stage].places[k];
            }
    }
    return NULL;
}

static void keep_worst(struct prn_output_check *worst, const struct prn_output_check *check)
{
    worst->same_shape = worst->same_shape && check->same_shape;
    worst->max_abs = fmax(worst->max_abs, check->max_abs);
    worst->max_rel = fmax(worst->max_rel, check->max_rel);
    worst->cosine = fmin(worst->cosine, check->cosine);
    worst->whole = check->whole;
}

static int compare(struct work *w, const struct prn_simulation_log *log, struct prony_error *err)
{
    for (size_t source = 0; source < PRN_SIMULATION_SOURCES; source++) {
        const struct prn_kept *expected = &w->expected[source];
        for (size_t i = 0; i < expected->n; i++) {
            int fd;
            struct prn_output_check *check;
            const struct prn_place *found = find_result(w, log->kept + source * w->setup.n_stages,
                                                        expected->places[i].name, &fd);
            if (!found)
                return prn_fail(err, PRONY_ERUNTIME, "no stage gives the model's output '%s'",
                                expected->places[i].name);
            int code = prn_outputs_compare(expected->fd, &expected->places[i], fd, found, 1,
                                           &w->arena, &check, err);
            if (code < 0)
                return code;
            keep_worst(&w->result->outputs[i], check);
        }
    }
    return 0;
}

/* ---- Launches ---- */

/* The fastest of several: one may be interrupted on any machine. */
static double run_canary(struct work *w)
{
    double best = prn_canary_run(&w->canary);
    for (size_t i = 1; i < CANARY_RUNS; i++)
        best = fmin(best, prn_canary_run(&w->canary));
    return best;
}

/* What its buffers hold isn't in a stage's process, but it would be on a host. */
static void note_memory(struct work *w, const struct prn_simulation_log *log)
{
    const struct prn_pipeline *p = w->request->models.pipeline;
    const struct prn_schedule *schedule = w->request->models.schedule;
    for (size_t i = 0; i < w->setup.n_stages; i++) {
        const struct prn_stage *stage = &schedule->stages[i];
        double in = i > 0 ? log->link_bytes[i - 1] * (double)p->buffers_in : 0;
        double out = i + 1 < schedule->n ? log->link_bytes[i] : p->bytes_out[stage->last - 1];
        double bytes = log->growth_bytes[i] + in + out * (double)p->buffers_out;
        double *most = &w->result->stages[i].memory_bytes;
        *most = fmax(*most, bytes); /* NAN where not known */
    }
}

static int launch(struct work *w, struct prony_error *err)
{
    struct prn_simulation *s = w->result;
    struct prn_simulation_log log;
    double canary_ns = w->hosts ? 0 : run_canary(w);
    int code = w->hosts ? prn_stage_hosts_launch(w->hosts, &log, err)
                        : prn_simulation_launch(&w->setup, &log, err);
    if (code < 0)
        return code;
    if (!w->hosts) {
        canary_ns = fmax(canary_ns, run_canary(w));
        s->disturbed += log.disturbed || prn_canary_disturbed(&w->canary, canary_ns);
    }
    note_memory(w, &log);
    struct prn_tally_launch seen = {.stages = log.stages,
                                    .links = log.links,
                                    .whole = &log.whole,
                                    .full_ns = log.full_ns,
                                    .end_ns = log.end_ns};
    prn_tally_add(w->tally, &seen);
    for (size_t i = 0; i < s->n_stages; i++)
        s->stages[i].link_bytes = i + 1 < s->n_stages ? log.link_bytes[i] : NAN;
    if (!s->version)
        s->version = prn_arena_strdup(&s->arena, log.version);
    code = s->version ? compare(w, &log, err) : prn_fail_memory(err);
    prn_simulation_log_release(&log);
    return code;
}

static int name_hosts(struct work *w, struct prony_error *err)
{
    struct prn_simulation *s = w->result;
    s->server = prn_arena_strdup(&s->arena, w->request->server->address);
    bool failed = !s->server;
    for (size_t i = 0; i < s->n_stages; i++) {
        s->stages[i].host = prn_arena_strdup(&s->arena, prn_stage_hosts_name(w->hosts, i));
        failed |= !s->stages[i].host;
    }
    return failed ? prn_fail_memory(err) : 0;
}

static void simulate_release(struct work *w)
{
    for (size_t i = 0; i < PRN_SIMULATION_SOURCES; i++) {
        prn_batch_free(w->setup.sources[i]);
        prn_kept_release(&w->expected[i]);
    }
    prn_stage_hosts_free(w->hosts);
    prn_stage_models_free(w->models);
    prn_tally_free(w->tally);
    prn_arena_release(&w->arena);
    free(w);
}

int prn_simulate(const struct prn_simulation_request *request,
                 struct prn_simulation **ret_simulation, struct prony_error *err)
{
    struct work *w = calloc(1, sizeof *w);
    struct prn_simulation *s = calloc(1, sizeof *s);
    if (!w || !s) {
        free(w);
        free(s);
        return prn_fail_memory(err);
    }
    w->request = request;
    w->result = s;
    w->arena = PRN_ARENA_INIT(ARENA_BYTES);
    s->arena = PRN_ARENA_INIT(ARENA_BYTES);
    for (size_t i = 0; i < PRN_SIMULATION_SOURCES; i++)
        w->expected[i].fd = -1;
    int code = simulate_prepare(w, err);
    if (code == 0)
        code = run_whole(w, err);
    if (code == 0)
        code = prepare_checks(w, err);
    if (code == 0 && request->server)
        code = prn_stage_hosts_open(&w->setup, w->models, w->backend_text, &w->hosts, err);
    for (size_t i = 0; i < request->launches && code == 0; i++)
        code = launch(w, err);
    if (code == 0 && request->server)
        code = name_hosts(w, err);
    if (code == 0)
        prn_tally_finish(w->tally, s);
    else if (w->models)
        code = prn_open_dims_fail(w->models->model, w->models->inputs, code, err);
    simulate_release(w);
    if (code < 0)
        prn_simulation_free(s);
    else
        *ret_simulation = s;
    return code;
}

void prn_simulation_free(struct prn_simulation *s)
{
    if (!s)
        return;
    prn_arena_release(&s->arena);
    free(s);
}
