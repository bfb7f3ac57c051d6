#include "pipeline/simulate/hosts.h"

#include "base/buffer.h"
#include "record/connect.h"
#include "record/files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)
#define NAME_MAX_BYTES 1024
#define BATCH_MAX ((size_t)4 << 30)

struct prn_stage_hosts {
    const struct prn_simulation_setup *setup;
    const struct prn_stage_models *models;
    const struct prn_remote_ops *ops;
    struct prn_remote *connection;
    uint64_t model;
    struct prn_arena arena;
    const char **names; /* of the hosts */
    /* Of the launch that is under way: */
    struct prn_simulation_log *log;
    struct prn_spells *arrivals; /* per stage */
    int code;                    /* of a failure that follows from another one */
    struct prony_error failure;
};

void prn_stage_told_release(struct prn_stage_told *told)
{
    free(told->runs.items);
    free(told->sends.items);
    free(told->arrivals.items);
    free(told->whole.items);
}

/* ---- The session ---- */

/* "board/onnxrt-cpu" of each stage, which the service must have. */
static int choose_backends(struct prn_stage_hosts *h, const char *backend,
                           struct prn_spec **ret_backends, struct prony_error *err)
{
    const struct prn_stage_models_request *m = &h->setup->request->models;
    size_t n = h->setup->n_stages;
    const char **texts = PRN_ARENA_ARRAY(&h->arena, n, const char *);
    struct prn_remote_offer offer;
    const char *preset;
    if (!texts)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        char text[NAME_MAX_BYTES];
        snprintf(text, sizeof text, "%s/%s", m->pipeline->types[m->schedule->stages[i].type].name,
                 backend);
        texts[i] = prn_arena_strdup(&h->arena, text);
        if (!texts[i])
            return prn_fail_memory(err);
    }
    int code = h->ops->list(h->connection, &h->arena, &offer, err);
    return code == 0 ? prn_remote_choose(&offer, &(struct prn_texts){texts, n},
                                         h->setup->request->server->address, &h->arena,
                                         ret_backends, &n, &preset, err)
                     : code;
}

/* All backends but one skip a file. */
static int skip_others(struct prn_stage_hosts *h, size_t stage, struct prn_remote_file *file,
                       struct prony_error *err)
{
    size_t n = h->setup->n_stages;
    uint8_t *skip = PRN_ARENA_ARRAY(&h->arena, n / 8 + 1, uint8_t);
    if (!skip)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        if (i != stage)
            skip[i / 8] |= (uint8_t)(1u << i % 8);
    file->skip = skip;
    file->n_skip = n / 8 + 1;
    return 0;
}

static int check_failures(const struct prony_error *failures, size_t n, struct prony_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (failures[i].code < 0)
            return prn_fail(err, failures[i].code, "stage %zu: %s", i + 1, failures[i].text);
    return 0;
}

static int send_files(struct prn_stage_hosts *h, struct prn_remote_file *files, size_t n_files,
                      size_t stage, struct prn_remote_model *model, struct prony_error *err)
{
    size_t n = h->setup->n_stages;
    struct prony_error *failures = calloc(n + 1, sizeof *failures);
    int code = failures ? 0 : prn_fail_memory(err);
    for (size_t i = 0; i < n_files && code == 0; i++)
        code = skip_others(h, stage, &files[i], err);
    if (code == 0)
        code = h->ops->upload(h->connection, model, files, n_files, failures, err);
    if (code == 0)
        code = check_failures(failures, n, err);
    free(failures);
    return code;
}

static int send_model(struct prn_stage_hosts *h, size_t stage, struct prn_remote_model *model,
                      struct prony_error *err)
{
    struct prn_files files = PRN_FILES_INIT;
    const char *path = h->models->stages[stage].path;
    struct prn_model *whole;
    int code = prn_model_open(path, &whole, err);
    if (code < 0)
        return code;
    code = prn_files_add_model(&files, "", path, whole, err);
    prn_model_free(whole);
    if (code == 0)
        code = send_files(h, files.items, files.n, stage, model, err);
    prn_files_release(&files);
    return code;
}

static int send_source(struct prn_stage_hosts *h, size_t i, struct prn_remote_model *model,
                       struct prony_error *err)
{
    struct prn_buffer bytes = PRN_BUFFER_INIT(BATCH_MAX);
    char name[32];
    snprintf(name, sizeof name, "inputs/%zu", i);
    int code = prn_batch_write(h->setup->sources[i], &bytes, err);
    struct prn_remote_file file = {
        .name = name, .fd = -1, .data = prn_buffer_text(&bytes), .bytes = bytes.len};
    if (code == 0)
        code = send_files(h, &file, 1, 0, model, err);
    prn_buffer_release(&bytes);
    return code;
}

static int send_all(struct prn_stage_hosts *h, struct prony_error *err)
{
    struct prn_remote_model model = {0};
    int code = 0;
    for (size_t i = 0; i < h->setup->n_stages && code == 0; i++)
        code = send_model(h, i, &model, err);
    for (size_t i = 0; i < PRN_SIMULATION_SOURCES && code == 0; i++)
        code = send_source(h, i, &model, err);
    h->model = model.id;
    return code;
}

int prn_stage_hosts_open(const struct prn_simulation_setup *setup,
                         const struct prn_stage_models *models, const char *backend,
                         struct prn_stage_hosts **ret_hosts, struct prony_error *err)
{
    struct prn_stage_hosts *h = calloc(1, sizeof *h);
    if (!h)
        return prn_fail_memory(err);
    *h = (struct prn_stage_hosts){
        .setup = setup, .models = models, .arena = PRN_ARENA_INIT(ARENA_BYTES)};
    h->names = PRN_ARENA_ARRAY(&h->arena, setup->n_stages, const char *);
    struct prn_remote_config config = *setup->request->server;
    config.cancelled = setup->request->models.cancelled;
    config.own_hosts = true;
    struct prn_spec *backends = NULL;
    int code = h->names ? prn_connect(&config, &h->ops, &h->connection, err) : prn_fail_memory(err);
    if (code == 0)
        code = choose_backends(h, backend, &backends, err);
    if (code == 0)
        code = h->ops->open(h->connection, backends, setup->n_stages, err);
    if (code == 0)
        code = send_all(h, err);
    if (code < 0)
        prn_stage_hosts_free(h);
    else
        *ret_hosts = h;
    return code;
}

void prn_stage_hosts_free(struct prn_stage_hosts *h)
{
    if (!h)
        return;
    if (h->connection)
        h->ops->free(h->connection);
    prn_arena_release(&h->arena);
    free(h);
}

const char *prn_stage_hosts_name(const struct prn_stage_hosts *h, size_t stage)
{
    return h->names[stage];
}

/* ---- A launch ---- */

static struct prn_spells take(struct prn_spells *from)
{
    struct prn_spells taken = *from;
    *from = (struct prn_spells){0};
    return taken;
}

static int keep_stage(struct prn_stage_hosts *h, size_t i, const struct prn_stage_told *from,
                      struct prony_error *err)
{
    struct prn_simulation_log *log = h->log;
    struct prn_stage_told *told = (struct prn_stage_told *)(uintptr_t)from; /* its lists are ours */
    log->stages[i] = take(&told->runs);
    log->links[i] = take(&told->sends);
    h->arrivals[i] = take(&told->arrivals);
    log->growth_bytes[i] = told->growth_bytes;
    log->link_bytes[i] = told->sent_bytes;
    if (!h->names[i])
        h->names[i] = prn_arena_strdup(&h->arena, told->host);
    if (i == 0) {
        log->whole = take(&told->whole);
        log->full_ns = told->full_ns;
        log->end_ns = told->end_ns;
        snprintf(log->version, sizeof log->version, "%s", told->version);
    }
    return h->names[i] ? 0 : prn_fail_memory(err);
}

static int keep_batch(struct prn_stage_hosts *h, size_t stage, const struct prn_remote_event *event,
                      struct prony_error *err)
{
    struct prn_batch *batch = prn_batch_new();
    int code = batch ? prn_batch_parse(batch, event->batch, event->batch_bytes, err)
                     : prn_fail_memory(err);
    struct prn_kept *kept = code == 0 && batch->number < PRN_SIMULATION_SOURCES
                                ? &h->log->kept[batch->number * h->log->n_stages + stage]
                                : NULL;
    if (code == 0 && (!kept || kept->fd >= 0))
        code = prn_fail(err, PRONY_EFORMAT, "stage %zu sent an unexpected batch", stage + 1);
    if (code == 0)
        code = prn_kept_copy(kept, batch, &h->log->arenas[stage], err);
    prn_batch_free(batch);
    return code;
}

/* A failure that another one caused may come first, and is only told if there is no other. */
static int take_event(void *context, const struct prn_remote_event *event, struct prony_error *err)
{
    struct prn_stage_hosts *h = context;
    if (event->batch)
        return keep_batch(h, event->host, event, err);
    if (event->stage)
        return keep_stage(h, event->host, event->stage, err);
    if (event->error_code == 0)
        return 0;
    const char *label = h->setup->stages[event->host].label;
    struct prony_error failure;
    int code = strncmp(event->error, label, strlen(label)) == 0
                   ? prn_fail(&failure, event->error_code, "%s", event->error)
                   : prn_fail(&failure, event->error_code, "%s: %s", label, event->error);
    if (!event->aftermath)
        return prn_fail(err, code, "%s", failure.text);
    if (h->code == 0) {
        h->code = code;
        h->failure = failure;
    }
    return 0;
}

static void shift(struct prn_spells *spells, int64_t ns)
{
    for (size_t i = 0; i < spells->n; i++) {
        spells->items[i].begin_ns += ns;
        spells->items[i].end_ns += ns;
    }
}

/* Each host has a clock of its own. A batch arrives before its sender knows of that, so no clock is
 * further behind the one before than the shortest such time; and that is the link's delay. */
static void align_clocks(struct prn_stage_hosts *h)
{
    struct prn_simulation_log *log = h->log;
    int64_t offset = 0;
    for (size_t i = 1; i < log->n_stages; i++) {
        const struct prn_spells *sent = &log->links[i - 1];
        const struct prn_spells *arrived = &h->arrivals[i];
        int64_t least = INT64_MAX;
        for (size_t k = 0; k < sent->n && k < arrived->n; k++) {
            int64_t apart = sent->items[k].end_ns - arrived->items[k].end_ns;
            least = apart < least ? apart : least;
        }
        offset =
            least == INT64_MAX ? offset : least; /* links before are on the first clock by now */
        shift(&log->stages[i], offset);
        shift(&log->links[i], offset);
    }
}

int prn_stage_hosts_launch(struct prn_stage_hosts *h, struct prn_simulation_log *ret_log,
                           struct prony_error *err)
{
    size_t n = h->setup->n_stages;
    struct prn_simulation_log log;
    const struct prn_simulation_request *request = h->setup->request;
    const struct prn_remote_measure measure = {.model = h->model,
                                               .model_file = PRN_FILES_MODEL,
                                               .model_name = request->models.model_path,
                                               .timeout_s = request->timeout_s,
                                               .pipeline = h->setup};
    int code = prn_simulation_log_init(&log, n, err);
    if (code < 0)
        return code;
    h->log = &log;
    h->code = 0;
    h->arrivals = calloc(n + 1, sizeof *h->arrivals);
    if (h->arrivals)
        code = h->ops->measure(h->connection, &measure, take_event, h, err);
    else
        code = prn_fail_memory(err);
    if (code == 0 && h->code < 0)
        code = prn_fail(err, h->code, "%s", h->failure.text);
    if (code == PRONY_ECANCELED)
        code = prn_fail(err, code, "interrupted while the stages ran on '%s'",
                        request->server->address);
    if (code == 0)
        align_clocks(h);
    for (size_t i = 0; h->arrivals && i < n; i++)
        free(h->arrivals[i].items);
    free(h->arrivals);
    h->log = NULL;
    if (code < 0)
        prn_simulation_log_release(&log);
    else
        *ret_log = log;
    return code;
}
