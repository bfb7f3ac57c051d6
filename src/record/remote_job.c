#include "record/remote_job.h"

#include "measure/ops/ops.h"
#include "record/connect.h"
#include "record/files.h"
#include "runtime/runtime.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)

/* One host of the session. */
struct host {
    const char *hardware;
    struct prn_profile *latest; /* what it last sent to be saved, or its result; NULL: nothing */
    bool finished;
    int error_code;
    const char *error;
};

struct work {
    struct prn_remote_job *remote;
    const struct prn_job *job;
    const struct prn_remote_ops *ops;
    struct prn_remote *connection;
    struct prn_remote_offer offer;
    struct prn_arena arena;
    const struct prn_spec *backends;
    size_t n_backends, n_hosts;
    struct host *hosts;
    struct prn_profile *profile;
};

/* ---- Backends ---- */

/* A preset may have what takes graphs of PyTorch programs alone. */
static size_t keep_for_onnx(struct prn_spec *backends, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (prn_runtime_takes_onnx(backends[i].software))
            backends[kept++] = backends[i];
    return kept;
}

static int resolve(void *context, const struct prn_job *job, const struct prn_texts *texts,
                   struct prn_arena *arena, struct prn_profile *profile,
                   struct prn_spec **ret_backends, size_t *ret_n, struct prony_error *err)
{
    struct work *w = context;
    const char *preset = NULL;
    int code = prn_connect(&w->remote->config, &w->ops, &w->connection, err);
    if (code == 0)
        code = w->ops->list(w->connection, &w->arena, &w->offer, err);
    if (code == 0)
        code = prn_remote_choose(&w->offer, texts, w->remote->config.address, arena, ret_backends,
                                 ret_n, &preset, err);
    if (code == 0 && preset)
        *ret_n = keep_for_onnx(*ret_backends, *ret_n);
    if (code == 0 && *ret_n == 0)
        code =
            prn_fail(err, PRONY_EUNAVAILABLE, "no backend of the preset '%s' takes ONNX", preset);
    if (code < 0)
        return code;
    if (preset && w->remote->chosen)
        w->remote->chosen(w->remote->config.context, preset, *ret_n);
    return prn_remote_describe(&w->offer, *ret_backends, *ret_n, job->hardware_file, profile, err);
}

static int find_hosts(struct work *w, struct prony_error *err)
{
    while (prn_remote_hardware(w->backends, w->n_backends, w->n_hosts))
        w->n_hosts++;
    w->hosts = PRN_ARENA_ARRAY(&w->arena, w->n_hosts, struct host);
    if (!w->hosts)
        return prn_fail_memory(err);
    for (size_t i = 0; i < w->n_hosts; i++)
        w->hosts[i].hardware = prn_remote_hardware(w->backends, w->n_backends, i);
    return 0;
}

/* ---- From hosts to one profile ---- */

/* What a host sent must be about its own backends. */
static int check_profile(const struct work *w, size_t host, const struct prn_profile *p,
                         struct prony_error *err)
{
    size_t at = 0;
    /* An older service knows of the first model alone. */
    if (p->n_models == 1 && w->profile->n_models > 1)
        return prn_fail(err, PRONY_EUNSUPPORTED,
                        "'%s' measures one model at a time: its prony is older than this one",
                        w->remote->config.address);
    bool fits =
        p->n_points == w->profile->n_points && p->n_models == w->profile->n_models && !p->recorded;
    for (size_t i = 0; fits && i < w->profile->n_results; i++) {
        size_t backend = i % w->n_backends;
        if (prn_remote_host(w->backends, backend) != host)
            continue;
        fits = at < p->n_results && p->results[at].point == w->profile->results[i].point &&
               strcmp(p->results[at].software, w->backends[backend].software) == 0;
        at++;
    }
    if (fits && at == p->n_results)
        return 0;
    return prn_fail(err, PRONY_EFORMAT, "'%s' of '%s' sent a profile of something else",
                    w->hosts[host].hardware, w->remote->config.address);
}

/* The result keeps who it is and what it costs; all else is the host's. */
static void take_result(struct prn_result *to, const struct prn_result *from)
{
    struct prn_result own = *to;
    *to = *from;
    to->name = own.name;
    to->spec = own.spec;
    to->hardware = own.hardware;
    to->software = own.software;
    to->processor = own.processor;
    to->usd_per_hour = own.usd_per_hour;
    to->point = own.point;
    if (!to->runtime_version)
        to->runtime_version = own.runtime_version;
}

/* Hosts compare outputs of models on their own; the one that found most differences counts. */
static void take_outputs(struct prn_profile *to, const struct prn_profile *from)
{
    for (size_t i = 0; i < to->n_points; i++) {
        const struct prn_point *point = &from->points[i];
        if (to->points[i].n_outputs > 0 &&
            to->points[i].outputs_differing >= point->outputs_differing)
            continue;
        to->points[i].n_outputs = point->n_outputs;
        to->points[i].outputs = point->outputs;
        to->points[i].outputs_differing = point->outputs_differing;
    }
}

/* Puts the latest of each host where it belongs; it is borrowed from the hosts' profiles. */
static int gather(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    for (size_t i = 0; i < p->n_points; i++)
        p->points[i].n_outputs = 0;
    for (size_t h = 0; h < w->n_hosts; h++) {
        const struct prn_profile *latest = w->hosts[h].latest;
        size_t at = 0;
        for (size_t i = 0; latest && i < p->n_results; i++)
            if (prn_remote_host(w->backends, i % w->n_backends) == h)
                take_result(&p->results[i], &latest->results[at++]);
        if (!latest)
            continue;
        take_outputs(p, latest);
        p->hosts[h].environment = latest->environment;
        p->hosts[h].timer_ns = latest->timer_ns;
        p->hosts[h].canary_best_ns = latest->canary_best_ns;
    }
    p->environment = p->hosts[0].environment;
    p->timer_ns = p->hosts[0].timer_ns;
    p->canary_best_ns = p->hosts[0].canary_best_ns;
    return prn_summarise(p, err);
}

static int make_hosts(struct work *w, struct prony_error *err)
{
    struct prn_profile *p = w->profile;
    p->hosts = PRN_ARENA_ARRAY(&p->arena, w->n_hosts, struct prn_profile_host);
    if (!p->hosts)
        return prn_fail_memory(err);
    p->n_hosts = w->n_hosts;
    for (size_t i = 0; i < w->n_hosts; i++) {
        p->hosts[i] = (struct prn_profile_host){
            .hardware = prn_arena_strdup(&p->arena, w->hosts[i].hardware),
            .environment = {.cores = -1,
                            .mhz = NAN,
                            .memory_bytes = -1,
                            .load_before = NAN,
                            .load_after = NAN},
            .timer_ns = NAN,
            .canary_best_ns = NAN,
        };
        if (!p->hosts[i].hardware)
            return prn_fail_memory(err);
    }
    return 0;
}

static int take_notes(struct work *w, struct prony_error *err)
{
    int code = 0;
    for (size_t h = 0; h < w->n_hosts; h++) {
        const struct prn_profile *latest = w->hosts[h].latest;
        for (size_t i = 0; code == 0 && latest && i < latest->n_notes; i++)
            code = prn_profile_note(w->profile, latest->notes[i], err);
    }
    if (code == 0 && w->n_hosts > 1)
        code = prn_profile_note(w->profile, "outputs were compared on each host separately", err);
    return code;
}

/* A host that didn't finish: what it had sent counts, and where that is nothing, the reason does.
 */
static void mark_unfinished(struct work *w, int code, const char *reason)
{
    for (size_t i = 0; i < w->profile->n_results; i++) {
        const struct host *host = &w->hosts[prn_remote_host(w->backends, i % w->n_backends)];
        struct prn_result *r = &w->profile->results[i];
        if (host->finished && !host->error_code)
            continue;
        if (!host->error_code)
            r->flags |= PRN_FLAG_INTERRUPTED;
        if (host->error_code || r->n_samples == 0) {
            r->error_code = host->error_code ? host->error_code : code;
            r->error = host->error_code ? host->error : reason;
        }
    }
}

/* The profile owns from now on what its results point to. */
static void adopt(struct work *w)
{
    for (size_t i = 0; i < w->n_hosts; i++)
        if (w->hosts[i].latest) {
            prn_arena_join(&w->profile->arena, &w->hosts[i].latest->arena);
            prn_profile_free(w->hosts[i].latest);
            w->hosts[i].latest = NULL;
        }
}

/* ---- Measuring ---- */

static int take_profile(struct work *w, const struct prn_remote_event *event,
                        struct prony_error *err)
{
    struct host *host = &w->hosts[event->host];
    int code = check_profile(w, event->host, event->profile, err);
    if (code < 0) {
        prn_profile_free(event->profile);
        return code;
    }
    struct prn_profile *former = host->latest;
    host->latest = event->profile;
    code = gather(w, err);
    prn_profile_free(former);
    if (code == 0 && w->job->checkpoint)
        w->job->checkpoint(w->job->context, w->profile);
    return code;
}

/* Hosts know backends by their specs. */
static void show_progress(const struct work *w, const struct prn_progress *progress)
{
    struct prn_progress shown = *progress;
    for (size_t i = 0; shown.backend && i < w->profile->n_results; i++) {
        const struct prn_result *r = &w->profile->results[i];
        if (r->spec && strcmp(r->spec, progress->backend) == 0) {
            shown.backend = r->name;
            break;
        }
    }
    w->job->progress(w->job->context, &shown);
}

static int take_event(void *context, const struct prn_remote_event *event, struct prony_error *err)
{
    struct work *w = context;
    struct host *host = &w->hosts[event->host];
    if (event->progress && w->job->progress)
        show_progress(w, event->progress);
    int code = event->profile ? take_profile(w, event, err) : 0;
    if (code == 0 && event->finished) {
        host->finished = true;
        host->error_code = event->error_code;
        host->error = event->error ? prn_arena_strdup(&w->profile->arena, event->error) : "";
        if (!host->error)
            code = prn_fail_memory(err);
    }
    return code;
}

static const char *without_folders(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* What a service calls a model: by its name without folders, and a number where two are alike. */
static const char *name_there(struct work *w, size_t index)
{
    const struct prn_profile_model *models = w->profile->models;
    const char *own = without_folders(models[index].name);
    bool alike = false;
    for (size_t i = 0; i < w->profile->n_models; i++)
        alike |= i != index && strcmp(without_folders(models[i].name), own) == 0;
    if (!alike)
        return own;
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)64 << 10);
    prn_buffer_printf(&text, "%s, model %zu", own, index + 1);
    const char *kept = prn_buffer_error(&text, NULL) == 0
                           ? prn_arena_strdup(&w->arena, prn_buffer_text(&text))
                           : NULL;
    prn_buffer_release(&text);
    return kept;
}

/* Several models side by side; nothing where there is one. */
static int name_models(struct work *w, const struct prn_files_sent *sent,
                       struct prn_remote_measure *request, struct prony_error *err)
{
    size_t n = w->profile->n_models;
    if (n < 2)
        return 0;
    struct prn_job_model *models = PRN_ARENA_ARRAY(&w->arena, n, struct prn_job_model);
    if (!models)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        models[i] = (struct prn_job_model){name_there(w, i), sent->models.items[i]};
        if (!models[i].name)
            return prn_fail_memory(err);
    }
    request->models = models;
    request->n_models = n;
    return 0;
}

static int send_models(struct work *w, struct prn_files_sent *ret_sent, struct prony_error *err)
{
    const struct prn_job *job = w->job;
    const char **paths = PRN_ARENA_ARRAY(&w->arena, job->n_models, const char *);
    if (!paths)
        return prn_fail_memory(err);
    for (size_t i = 0; i < job->n_models; i++)
        paths[i] = job->models[i].path;
    const struct prn_files_wanted wanted = {
        {paths, job->n_models}, job->inputs, job->inputs_folder};
    return prn_files_send(w->ops, w->connection, &wanted, w->n_backends, &w->arena, ret_sent, err);
}

static int measure_there(struct work *w, struct prony_error *err)
{
    const struct prn_job *job = w->job;
    struct prn_files_sent sent;
    struct prn_settings settings = w->profile->settings;
    for (size_t i = 0; settings.reference && i < w->profile->n_results; i++)
        if (strcmp(w->profile->results[i].name, settings.reference) == 0) {
            settings.reference = prn_result_spec(&w->profile->results[i]);
            break;
        }
    int code = send_models(w, &sent, err);
    if (code < 0)
        return code;
    struct prn_remote_measure request = {
        .model = sent.model,
        .model_file = PRN_FILES_MODEL,
        .model_name = job->models->path,
        .dims = job->dims,
        .shapes = job->shapes,
        .inputs = sent.inputs,
        .inputs_folder = sent.inputs_folder,
        .settings = &settings,
        .load = &job->load,
        .ops = job->ops,
        .timeout_s = job->timeout_s,
        .resume = job->resume,
    };
    code = name_models(w, &sent, &request, err);
    return code == 0 ? w->ops->measure(w->connection, &request, take_event, w, err) : code;
}

/* When every host fails with the same words, it is the job that is wrong. */
static int common_failure(const struct work *w, struct prony_error *err)
{
    const struct host *first = &w->hosts[0];
    for (size_t i = 0; i < w->n_hosts; i++)
        if (!w->hosts[i].error_code || strcmp(w->hosts[i].error, first->error) != 0)
            return 0;
    return prn_fail(err, first->error_code, "%s", first->error);
}

static bool any_sent(const struct work *w)
{
    for (size_t i = 0; i < w->n_hosts; i++)
        if (w->hosts[i].latest)
            return true;
    return false;
}

static int remote_job_measure(void *context, const struct prn_job *job,
                              const struct prn_spec *backends, size_t n,
                              struct prn_profile *profile, struct prony_error *err)
{
    struct work *w = context;
    struct prony_error fault = {0};
    w->job = job;
    w->backends = backends;
    w->n_backends = n;
    w->profile = profile;
    int code = find_hosts(w, err);
    if (code == 0)
        code = make_hosts(w, err);
    if (code == 0)
        code = w->ops->open(w->connection, backends, n, err);
    if (code < 0)
        return code;
    int ended = measure_there(w, &fault);
    w->ops->close(w->connection);
    if (ended == 0)
        code = common_failure(w, err);
    else if (ended == PRONY_ENOMEM || !any_sent(w))
        code = prn_fail(err, ended, "%s", fault.text);
    if (code < 0)
        return code;
    mark_unfinished(w, ended, "it ended before anything was measured");
    code = take_notes(w, err);
    if (code == 0)
        code = prn_summarise(profile, err);
    if (code == 0)
        code = prn_ops_compare(profile, err);
    if (ended < 0 && ended != PRONY_ECANCELED)
        w->remote->lost = fault;
    adopt(w);
    return code;
}

int prn_remote_job_run(struct prn_remote_job *remote, const struct prn_job *job,
                       struct prn_profile **ret_profile, struct prony_error *err)
{
    struct work w = {.remote = remote, .arena = PRN_ARENA_INIT(ARENA_BYTES)};
    struct prn_job_place place = {.resolve = resolve, .measure = remote_job_measure, .context = &w};
    struct prn_job there = *job;
    there.place = &place;
    remote->config.cancelled = job->cancelled;
    remote->lost.code = 0;
    int code = prn_job_run(&there, ret_profile, err);
    for (size_t i = 0; i < w.n_hosts; i++)
        prn_profile_free(w.hosts[i].latest);
    if (w.connection)
        w.ops->free(w.connection);
    prn_arena_release(&w.arena);
    return code;
}
