/*
 * A stage of a pipeline, for a session: what `prony schedule --run` measures. The stage before
 * sends batches, the executor works on them, the next stage gets what comes out. Back on the same
 * connection comes 'R' when there is room for a batch, and 'A' when one has arrived: so a link's
 * time has no waiting in it, and whoever is slow holds up those before.
 */
#include "worker/job_parts.h"

#include "base/io.h"
#include "model/model.h"
#include "pipeline/simulate/launch.h"
#include "worker/link.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)16 << 20)
#define BUFFERS_MOST 1000000
#define DURATION_MOST_S 1e6
#define SECRET_LEAST 16
#define LABEL_MAX 256
#define SOURCE_MAX ((size_t)4 << 30)
#define ROOM 'R'
#define ARRIVED 'A'

struct stage_job {
    const Prony__Job *order;
    const Prony__Pipeline *pipeline;
    double timeout_s;
    struct prn_arena arena;
    struct prn_link in, out;
    struct prn_stage_links links;
    struct prn_pipeline shape; /* of which a launch needs the buffers */
    struct prn_simulation_request request;
    struct prn_stage_setup stage;
    struct prn_simulation_setup setup;
    struct prn_model_place place;
};

/* ---- Links ---- */

static int open_out(void *context, struct prony_error *err)
{
    struct stage_job *j = context;
    return prn_link_connect(&j->out, j->order->link->next, &j->order->link->secret, j->timeout_s,
                            err);
}

static int open_in(void *context, struct prony_error *err)
{
    struct stage_job *j = context;
    return prn_link_accept(&j->in, PRN_JOB_LINK_FD, &j->order->link->secret, j->timeout_s, err);
}

static int expect(struct prn_link *link, char wanted, struct prony_error *err)
{
    char got;
    int code = prn_link_read(link, &got, 1, err);
    return code == 0 && got != wanted
               ? prn_fail(err, PRONY_EFORMAT, "the next stage sent a malformed reply")
               : code;
}

static int wait_for_room(void *context, struct prony_error *err)
{
    struct stage_job *j = context;
    return expect(&j->out, ROOM, err);
}

static int put(void *context, const void *data, size_t bytes, struct prony_error *err)
{
    return prn_link_write(context, data, bytes, err);
}

static int get(void *context, void *data, size_t bytes, struct prony_error *err)
{
    return prn_link_read(context, data, bytes, err);
}

static int send_batch(void *context, const struct prn_batch *batch, const char *const *names,
                      size_t n, struct prony_error *err)
{
    struct stage_job *j = context;
    int code = prn_batch_store(batch, names, n, put, &j->out, err);
    return code == 0 ? expect(&j->out, ARRIVED, err) : code;
}

static int receive_batch(void *context, struct prn_batch *batch, struct prony_error *err)
{
    struct stage_job *j = context;
    static const char room = ROOM;
    static const char arrived = ARRIVED;
    int code = prn_link_write(&j->in, &room, 1, err);
    if (code == 0)
        code = prn_batch_fetch(batch, get, &j->in, err);
    return code == 0 ? prn_link_write(&j->in, &arrived, 1, err) : code;
}

static void stop(void *context)
{
    struct stage_job *j = context;
    prn_link_stop(&j->in);
    prn_link_stop(&j->out);
}

/* ---- Preparing ---- */

static int check_order(const struct stage_job *j, struct prony_error *err)
{
    const Prony__Pipeline *p = j->pipeline;
    const Prony__Link *link = j->order->link;
    bool sound = link && j->order->n_backends == 1 && link->stage < p->n_stages &&
                 link->secret.len >= SECRET_LEAST && p->buffers_in <= BUFFERS_MOST &&
                 p->buffers_out <= BUFFERS_MOST && p->duration_s > 0 &&
                 p->duration_s <= DURATION_MOST_S;
    for (size_t i = 0; i < p->n_stages; i++)
        sound = sound && strlen(p->stages[i]->label) <= LABEL_MAX;
    return sound ? 0 : prn_fail(err, PRONY_EUSAGE, "malformed order for a pipeline");
}

static int prepare_backend(struct stage_job *j, struct prony_error *err)
{
    const char *text = j->order->backends[0];
    const struct prn_texts texts = {&text, 1};
    const struct prn_backends_here here = {.hardware = j->order->hardware};
    struct prn_spec *backend;
    size_t n;
    int code = prn_backends_resolve(&texts, &here, &j->arena, &backend, &n, err);
    if (code == 0)
        j->setup.runtime = (struct prn_runtime_config){.software = backend->software,
                                                       .options = backend->options,
                                                       .n_options = backend->n_options};
    return code;
}

/* Looked at before any runtime sees it. */
static int prepare_model(struct stage_job *j, struct prony_error *err)
{
    const char *file = j->order->request->model_file;
    struct prn_model *model;
    int code = prn_model_open(file, &model, err);
    if (code < 0)
        return code;
    bool external = model->n_external_files > 0;
    prn_model_free(model);
    code = prn_model_locate(file, external, &j->place, err);
    j->stage.path = j->place.path;
    j->stage.folder = external ? j->place.folder : NULL;
    return code;
}

static int read_source(struct prn_batch *batch, size_t i, struct prony_error *err)
{
    struct prn_buffer bytes = PRN_BUFFER_INIT(SOURCE_MAX);
    char name[32];
    snprintf(name, sizeof name, "inputs/%zu", i);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    int code = fd < 0 ? prn_fail_errno(err, errno, "open", name)
                      : prn_buffer_read_fd(&bytes, fd, name, err);
    if (fd >= 0)
        close(fd);
    if (code == 0)
        code = prn_batch_parse(batch, prn_buffer_text(&bytes), bytes.len, err);
    prn_buffer_release(&bytes);
    return code;
}

static int read_sources(struct stage_job *j, struct prony_error *err)
{
    int code = 0;
    for (size_t i = 0; i < PRN_SIMULATION_SOURCES && code == 0; i++) {
        j->setup.sources[i] = prn_batch_new();
        code =
            j->setup.sources[i] ? read_source(j->setup.sources[i], i, err) : prn_fail_memory(err);
    }
    return code;
}

static int job_stage_prepare(struct stage_job *j, struct prony_error *err)
{
    int code = check_order(j, err);
    if (code < 0)
        return code;
    const Prony__Pipeline *p = j->pipeline;
    size_t index = j->order->link->stage;
    const Prony__Stage *own = p->stages[index];
    const Prony__Stage *next = index + 1 < p->n_stages ? p->stages[index + 1] : NULL;
    j->stage.label = own->label;
    j->stage.names = (const char *const *)own->takes;
    j->stage.n_names = own->n_takes;
    j->stage.results = own->results;
    j->stage.hands_on = next ? (const char *const *)next->takes : NULL;
    j->stage.n_hands_on = next ? next->n_takes : 0;
    j->shape.buffers_in = (int64_t)p->buffers_in;
    j->shape.buffers_out = (int64_t)p->buffers_out;
    j->request.models.pipeline = &j->shape;
    j->request.duration_s = p->duration_s;
    j->request.timeout_s = j->timeout_s;
    j->links = (struct prn_stage_links){.first = index == 0,
                                        .n = p->n_stages,
                                        .context = j,
                                        .open_out = open_out,
                                        .open_in = open_in,
                                        .wait = wait_for_room,
                                        .send = send_batch,
                                        .receive = receive_batch,
                                        .stop = stop};
    j->setup.request = &j->request;
    j->setup.stages = &j->stage;
    j->setup.n_stages = 1;
    j->setup.links = p->n_stages > 1 ? &j->links : NULL;
    code = prepare_backend(j, err);
    if (code == 0)
        code = prepare_model(j, err);
    return code == 0 && index == 0 ? read_sources(j, err) : code;
}

/* ---- What is told ---- */

/* What the model's outputs are compared with. */
static int tell_outputs(const struct prn_simulation_log *log, struct prony_error *err)
{
    int code = 0;
    for (size_t i = 0; i < PRN_SIMULATION_SOURCES && code == 0; i++) {
        const struct prn_kept *kept = &log->kept[i];
        struct prn_buffer out = PRN_BUFFER_INIT(PRN_JOB_MESSAGE_MAX - 64);
        struct prn_batch *batch = kept->fd >= 0 ? prn_batch_new() : NULL;
        if (kept->fd >= 0)
            code = batch ? prn_batch_read(batch, kept->places, kept->n, kept->fd, err)
                         : prn_fail_memory(err);
        if (batch && code == 0) {
            batch->number = i;
            code = prn_batch_write(batch, &out, err);
        }
        if (batch && code == 0)
            prn_job_tell_checkpoint(&out);
        prn_batch_free(batch);
        prn_buffer_release(&out);
    }
    return code;
}

static int64_t *flatten(const struct prn_spells *spells, struct prn_arena *arena, size_t *ret_n)
{
    int64_t *values = PRN_ARENA_ARRAY(arena, 5 * spells->n + 1, int64_t);
    for (size_t i = 0; values && i < spells->n; i++) {
        const struct prn_spell *s = &spells->items[i];
        const int64_t row[] = {(int64_t)s->number, s->alone, s->begin_ns, s->end_ns, s->run_ns};
        memcpy(values + 5 * i, row, sizeof row);
    }
    *ret_n = values ? 5 * spells->n : 0;
    return values;
}

static int write_result(struct prn_simulation_log *log, struct prn_buffer *out,
                        struct prony_error *err)
{
    Prony__StageResult r = PRONY__STAGE_RESULT__INIT;
    struct prn_arena arena = PRN_ARENA_INIT(PRN_JOB_MESSAGE_MAX);
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    r.version = log->version;
    r.host = host;
    r.runs = flatten(&log->stages[0], &arena, &r.n_runs);
    r.sends = flatten(&log->links[0], &arena, &r.n_sends);
    r.arrivals = flatten(&log->arrivals, &arena, &r.n_arrivals);
    r.whole = flatten(&log->whole, &arena, &r.n_whole);
    r.has_full_ns = r.has_end_ns = log->whole.n > 0;
    r.full_ns = log->full_ns;
    r.end_ns = log->end_ns;
    r.has_growth_bytes = !isnan(log->growth_bytes[0]);
    r.growth_bytes = log->growth_bytes[0];
    r.has_sent_bytes = 1;
    r.sent_bytes = log->link_bytes[0];
    size_t length = protobuf_c_message_get_packed_size(&r.base);
    uint8_t *packed = r.runs && r.sends && r.arrivals && r.whole ? malloc(length) : NULL;
    if (packed) {
        protobuf_c_message_pack(&r.base, packed);
        prn_buffer_append(out, packed, length);
    }
    int code = packed ? prn_buffer_error(out, err) : prn_fail_memory(err);
    free(packed);
    prn_arena_release(&arena);
    return code;
}

int prn_job_stage(const Prony__Job *order, double timeout_s, struct prn_buffer *out,
                  struct prony_error *err)
{
    struct stage_job j = {.order = order,
                          .pipeline = order->request->pipeline,
                          .timeout_s = timeout_s,
                          .arena = PRN_ARENA_INIT(ARENA_BYTES)};
    struct prn_simulation_log log;
    prn_link_init(&j.in);
    prn_link_init(&j.out);
    int code = job_stage_prepare(&j, err);
    if (code == 0)
        code = prn_simulation_launch(&j.setup, &log, err);
    if (code == 0) {
        code = tell_outputs(&log, err);
        if (code == 0)
            code = write_result(&log, out, err);
        prn_simulation_log_release(&log);
    }
    for (size_t i = 0; i < PRN_SIMULATION_SOURCES; i++)
        prn_batch_free(j.setup.sources[i]);
    prn_link_release(&j.in);
    prn_link_release(&j.out);
    prn_arena_release(&j.arena);
    return code;
}
