#include "pipeline/layers/remote.h"

#include "record/connect.h"
#include "record/files.h"

#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)
#define NAMES_MAX 1024

struct work {
    const struct prn_layer_remote *remote;
    const struct prn_layer_job *job;
    struct prn_layer_profile *profile;
    struct prn_layer_measurement *measurement;
    const struct prn_remote_ops *ops;
    struct prn_remote *connection;
    struct prn_arena arena;
};

/* ---- The backend ---- */

/* "software[options]" of the only hardware that has it. */
static int find_hardware(struct work *w, const struct prn_remote_offer *offer, const char *text,
                         const char **ret_text, struct prony_error *err)
{
    struct prn_buffer found = PRN_BUFFER_INIT(NAMES_MAX);
    struct prn_spec spec;
    size_t n = 0;
    int code = prn_spec_parse(text, true, &w->arena, &spec, err);
    for (size_t i = 0; i < offer->n_backends && code == 0; i++)
        if (strcmp(offer->backends[i].spec.software, spec.software) == 0)
            prn_buffer_printf(&found, "%s%s", n++ > 0 ? ", " : "",
                              offer->backends[i].spec.hardware);
    if (code == 0 && n > 1)
        code =
            prn_fail(err, PRONY_EUSAGE, "'%s' has '%s' on %s; name one with --backend HARDWARE/%s",
                     w->remote->config.address, spec.software, prn_buffer_text(&found), text);
    /* Of none, what is there is listed when it isn't found. */
    if (code == 0 && n == 1) {
        prn_buffer_printf(&found, "/%s", text);
        *ret_text = prn_arena_strdup(&w->arena, prn_buffer_text(&found));
        code = *ret_text ? prn_buffer_error(&found, err) : prn_fail_memory(err);
    }
    prn_buffer_release(&found);
    return code;
}

/* What the service says of the runtime; NULL: nothing. */
static const char *version_of(const struct prn_remote_offer *offer, const struct prn_spec *backend)
{
    for (size_t i = 0; i < offer->n_backends; i++) {
        const struct prn_spec *spec = &offer->backends[i].spec;
        if (strcmp(spec->hardware, backend->hardware) == 0 &&
            strcmp(spec->software, backend->software) == 0)
            return offer->backends[i].version;
    }
    return NULL;
}

static int choose_backend(struct work *w, struct prn_spec **ret_backend, const char **ret_version,
                          struct prony_error *err)
{
    struct prn_remote_offer offer;
    const char *preset;
    const char *text = w->job->backend;
    size_t n;
    int code = w->ops->list(w->connection, &w->arena, &offer, err);
    if (code == 0 && text[strcspn(text, "/[")] != '/')
        code = find_hardware(w, &offer, text, &text, err);
    if (code == 0)
        code = prn_remote_choose(&offer, &(struct prn_texts){&text, 1}, w->remote->config.address,
                                 &w->arena, ret_backend, &n, &preset, err);
    if (code == 0)
        *ret_version = version_of(&offer, *ret_backend);
    return code;
}

/* ---- Measuring ---- */

/* It is borrowed; what is kept isn't. */
static int take_end(struct work *w, const struct prn_layer_measurement *told,
                    struct prony_error *err)
{
    struct prn_layer_measurement *m = w->measurement;
    m->runtime = prn_arena_strdup(&m->arena, told->runtime);
    m->cpu = prn_arena_strdup(&m->arena, told->cpu);
    m->has_whole = told->has_whole;
    memcpy(m->whole, told->whole, sizeof m->whole);
    m->fused = told->fused;
    m->difference = told->difference;
    m->repeatability = told->repeatability;
    m->mismatch = told->mismatch;
    return m->runtime && m->cpu ? 0 : prn_fail_memory(err);
}

static int take_event(void *context, const struct prn_remote_event *event, struct prony_error *err)
{
    struct work *w = context;
    if (event->progress && w->job->progress)
        w->job->progress(w->job->context, event->progress);
    if (event->layer)
        return prn_layer_keep(w->job, event->layer, event->row, w->profile, w->measurement, err);
    if (event->layers)
        return take_end(w, event->layers, err);
    if (event->error_code)
        return prn_fail(err, event->error_code, "%s", event->error);
    return 0;
}

/* The entries of the file. */
static int list_entries(struct work *w, struct prn_layer_order *order, struct prony_error *err)
{
    size_t n = prn_layer_profile_count(w->profile);
    struct prn_layer_entry *entries = PRN_ARENA_ARRAY(&w->arena, n + 1, struct prn_layer_entry);
    if (!entries)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        entries[i] = *prn_layer_profile_entry(w->profile, i);
    order->entries = entries;
    order->n_entries = n;
    return 0;
}

static int measure_there(struct work *w, struct prony_error *err)
{
    const struct prn_layer_job *job = w->job;
    const struct prn_layer_texts *texts = &w->remote->texts;
    const struct prn_files_wanted wanted = {.models = {&job->model->path, 1},
                                            .inputs = w->remote->inputs};
    const char *path = prn_layer_profile_path(w->profile);
    const char *slash = strrchr(path, '/');
    struct prn_layer_order order = {.cuts = texts->cuts,
                                    .max_tensors = texts->max_tensors,
                                    .batch = texts->batch,
                                    .layers = (int64_t)job->cuts->n_layers,
                                    .first = (int64_t)job->first,
                                    .last = (int64_t)job->last,
                                    .results = slash ? slash + 1 : path,
                                    .n_shapes = job->n_shapes,
                                    .shapes = job->shapes};
    struct prn_files_sent sent;
    int code = list_entries(w, &order, err);
    if (code == 0)
        code = prn_files_send(w->ops, w->connection, &wanted, 1, &w->arena, &sent, err);
    if (code < 0)
        return code;
    const struct prn_remote_measure request = {.model = sent.model,
                                               .model_file = PRN_FILES_MODEL,
                                               .model_name = job->model->path,
                                               .dims = texts->dims,
                                               .shapes = texts->shapes,
                                               .inputs = sent.inputs,
                                               .settings = &job->settings,
                                               .timeout_s = job->timeout_s,
                                               .layers = &order};
    return w->ops->measure(w->connection, &request, take_event, w, err);
}

static int connect_and_measure(struct work *w, struct prony_error *err)
{
    struct prn_remote_config config = w->remote->config;
    struct prn_spec *backend;
    const char *version = NULL;
    config.cancelled = w->job->cancelled;
    int code = prn_connect(&config, &w->ops, &w->connection, err);
    if (code == 0)
        code = choose_backend(w, &backend, &version, err);
    if (code == 0) {
        w->measurement->backend = prn_arena_strdup(&w->measurement->arena, backend->name);
        code = w->measurement->backend ? 0 : prn_fail_memory(err);
    }
    if (code == 0)
        code = prn_layer_job_begin(w->job, backend->name, version, w->profile, err);
    if (code == 0)
        code = w->ops->open(w->connection, backend, 1, err);
    if (code == 0)
        code = measure_there(w, err);
    if (w->connection)
        w->ops->free(w->connection);
    return code;
}

int prn_layer_remote_measure(void *context, const struct prn_layer_job *job,
                             struct prn_layer_profile *profile,
                             struct prn_layer_measurement *measurement, struct prony_error *err)
{
    struct work w = {.remote = context,
                     .job = job,
                     .profile = profile,
                     .measurement = measurement,
                     .arena = PRN_ARENA_INIT(ARENA_BYTES)};
    int code = connect_and_measure(&w, err);
    prn_arena_release(&w.arena);
    return code;
}
