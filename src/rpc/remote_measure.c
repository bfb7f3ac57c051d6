/* Measuring on a service: a stream of events of all hosts until each has its result. */
#include "rpc/remote_parts.h"

#include "base/buffer.h"
#include "pipeline/simulate/hosts.h"
#include "report/layers/json.h"
#include "report/load/json.h"
#include "report/profile/json.h"
#include "report/profile/report.h"
#include "report/progress_json.h"

#include <math.h>
#include <prony.pb-c.h>
#include <string.h>

#define SLICE_S 1.0 /* after which the session's life is looked at again */
#define SETTINGS_MAX ((size_t)1 << 20)
#define EVENT_ARENA_MAX ((size_t)1 << 20)
#define LAYER_ARENA_MAX ((size_t)16 << 20)
#define LAYERS_MAX ((size_t)14 << 20) /* of the text: what the service takes in one message */

struct measuring {
    struct prn_remote *r;
    bool layers;   /* are what the events tell of */
    bool pipeline; /* is */
    int (*event)(void *context, const struct prn_remote_event *event, struct prony_error *err);
    void *context;
    size_t finished;
    bool done[PRN_REMOTE_BACKENDS_MAX]; /* by host */
};

/* ---- The request ---- */

/* Memory belongs to `arena`; texts are borrowed. */
static Prony__Pipeline *wire_pipeline(const struct prn_simulation_setup *setup,
                                      struct prn_arena *arena)
{
    size_t n = setup->n_stages;
    Prony__Pipeline *p = PRN_ARENA_ARRAY(arena, 1, Prony__Pipeline);
    Prony__Stage *stages = PRN_ARENA_ARRAY(arena, n + 1, Prony__Stage);
    if (!p || !stages)
        return NULL;
    prony__pipeline__init(p);
    p->stages = PRN_ARENA_ARRAY(arena, n + 1, Prony__Stage *);
    if (!p->stages)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const struct prn_stage_setup *from = &setup->stages[i];
        prony__stage__init(&stages[i]);
        stages[i].label = (char *)(uintptr_t)from->label;
        stages[i].n_takes = from->n_names;
        stages[i].takes = (char **)(uintptr_t)from->names;
        stages[i].results = from->results;
        p->stages[p->n_stages++] = &stages[i];
    }
    p->buffers_in = (uint64_t)setup->request->models.pipeline->buffers_in;
    p->buffers_out = (uint64_t)setup->request->models.pipeline->buffers_out;
    p->duration_s = setup->request->duration_s;
    return p;
}

/* Memory belongs to `arena`; texts are borrowed. */
static int wire_models(const struct prn_remote_measure *m, struct prn_arena *arena,
                       Prony__MeasureRequest *request, struct prony_error *err)
{
    Prony__MeasuredModel *models = PRN_ARENA_ARRAY(arena, m->n_models, Prony__MeasuredModel);
    request->models = PRN_ARENA_ARRAY(arena, m->n_models, Prony__MeasuredModel *);
    if (!models || !request->models)
        return prn_fail_memory(err);
    for (size_t i = 0; i < m->n_models; i++) {
        prony__measured_model__init(&models[i]);
        models[i].file = (char *)(uintptr_t)m->models[i].path;
        models[i].name = (char *)(uintptr_t)m->models[i].name;
        request->models[request->n_models++] = &models[i];
    }
    return 0;
}

struct texts {
    struct prn_buffer settings, load, resume, layers;
};

static int write_texts(const struct prn_remote_measure *m, struct texts *t, struct prony_error *err)
{
    int code = m->settings ? prn_settings_write_json(m->settings, &t->settings, err) : 0;
    if (code == 0 && m->load && prn_load_wanted(m->load))
        code = prn_load_settings_write_json(m->load, &t->load, err);
    if (code == 0 && m->resume)
        code = prn_profile_write_json(m->resume, &t->resume, err);
    if (code == 0 && m->layers)
        code = prn_layer_order_write_json(m->layers, &t->layers, err);
    return code;
}

static void fill_request(const struct prn_remote *r, const struct prn_remote_measure *m,
                         const struct texts *t, Prony__MeasureRequest *request)
{
    request->session_uuid =
        (ProtobufCBinaryData){sizeof r->session, (uint8_t *)(uintptr_t)r->session};
    request->model_id = m->model;
    request->model_file = (char *)(uintptr_t)m->model_file;
    const char *slash = m->model_name ? strrchr(m->model_name, '/') : NULL;
    request->model_name = (char *)(uintptr_t)(slash ? slash + 1 : m->model_name);
    request->n_dims = m->dims.n;
    request->dims = (char **)(uintptr_t)m->dims.items;
    request->n_shapes = m->shapes.n;
    request->shapes = (char **)(uintptr_t)m->shapes.items;
    request->n_inputs = m->inputs.n;
    request->inputs = (char **)(uintptr_t)m->inputs.items;
    request->inputs_folder = (char *)(uintptr_t)m->inputs_folder;
    request->settings = m->settings ? (char *)(uintptr_t)prn_buffer_text(&t->settings) : NULL;
    request->has_ops = 1;
    request->ops = m->ops;
    request->load = t->load.len ? (char *)(uintptr_t)prn_buffer_text(&t->load) : NULL;
    request->has_timeout_s = 1;
    request->timeout_s = m->timeout_s;
    request->has_resume = m->resume != NULL;
    request->resume =
        (ProtobufCBinaryData){t->resume.len, (uint8_t *)(uintptr_t)prn_buffer_text(&t->resume)};
    request->layers = m->layers ? (char *)(uintptr_t)prn_buffer_text(&t->layers) : NULL;
}

/* NULL: out of memory, as from prn_rpc_pack(). */
static int pack_request(const struct prn_remote *r, const struct prn_remote_measure *m,
                        struct prn_out **ret_out, struct prony_error *err)
{
    Prony__MeasureRequest request = PRONY__MEASURE_REQUEST__INIT;
    struct texts t = {PRN_BUFFER_INIT(SETTINGS_MAX), PRN_BUFFER_INIT(SETTINGS_MAX),
                      PRN_BUFFER_INIT(PRN_REPORT_MAX), PRN_BUFFER_INIT(LAYERS_MAX)};
    struct prn_arena arena = PRN_ARENA_INIT(SETTINGS_MAX);
    int code = write_texts(m, &t, err);
    if (code == 0 && m->pipeline && !(request.pipeline = wire_pipeline(m->pipeline, &arena)))
        code = prn_fail_memory(err);
    if (code == 0 && m->n_models > 0)
        code = wire_models(m, &arena, &request, err);
    if (code == 0) {
        fill_request(r, m, &t, &request);
        *ret_out = prn_rpc_pack(&request.base);
    }
    prn_arena_release(&arena);
    prn_buffer_release(&t.settings);
    prn_buffer_release(&t.load);
    prn_buffer_release(&t.resume);
    prn_buffer_release(&t.layers);
    return code;
}

/* ---- Events ---- */

static int take_progress(struct measuring *m, const Prony__MeasureEvent *wire,
                         struct prn_remote_event *event, struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT(EVENT_ARENA_MAX);
    struct prn_progress progress;
    int code = prn_progress_parse_json(wire->progress, &arena, &progress, err);
    if (code == 0) {
        event->progress = &progress;
        code = m->event(m->context, event, err);
    }
    event->progress = NULL;
    prn_arena_release(&arena);
    return code;
}

static int take_profile(struct measuring *m, const ProtobufCBinaryData *json, bool finished,
                        struct prn_remote_event *event, struct prony_error *err)
{
    int code = prn_profile_parse_json((const char *)json->data, json->len, "the host's profile",
                                      &event->profile, err);
    if (code < 0)
        return code;
    event->finished = finished;
    code = m->event(m->context, event, err);
    event->profile = NULL;
    return code;
}

/* One layer, or what there is to say when all are measured. */
static int take_layers(struct measuring *m, const ProtobufCBinaryData *json, bool finished,
                       struct prn_remote_event *event, struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT(LAYER_ARENA_MAX);
    struct prn_layer_entry entry;
    struct prn_layer_row row;
    struct prn_layer_measurement measurement = {.runtime = "", .cpu = ""};
    const char *text = (const char *)json->data;
    int code = finished ? prn_layers_parse_json(text, json->len, &arena, &measurement, err)
                        : prn_layer_parse_json(text, json->len, &arena, &entry, &row, err);
    if (code == 0) {
        event->finished = finished;
        event->layer = finished ? NULL : &entry;
        event->row = finished ? NULL : &row;
        event->layers = finished ? &measurement : NULL;
        code = m->event(m->context, event, err);
        event->layer = NULL;
        event->row = NULL;
        event->layers = NULL;
    }
    prn_arena_release(&arena);
    return code;
}

static int take_spells(const int64_t *values, size_t n, struct prn_spells *spells)
{
    int code = n % 5 == 0 ? 0 : PRONY_EFORMAT;
    for (size_t i = 0; code == 0 && i < n; i += 5) {
        struct prn_spell spell = {.number = (size_t)values[i],
                                  .alone = values[i + 1] != 0,
                                  .begin_ns = values[i + 2],
                                  .end_ns = values[i + 3],
                                  .run_ns = values[i + 4]};
        code = values[i] < 0 ? PRONY_EFORMAT : prn_spells_add(spells, &spell);
    }
    return code;
}

/* What a stage saw. */
static int take_stage(struct measuring *m, const ProtobufCBinaryData *bytes,
                      struct prn_remote_event *event, struct prony_error *err)
{
    Prony__StageResult *r = prony__stage_result__unpack(NULL, bytes->len, bytes->data);
    struct prn_stage_told told = {0};
    if (!r)
        return prn_remote_odd(m->r, "with a malformed result of a stage", err);
    int code = take_spells(r->runs, r->n_runs, &told.runs);
    if (code == 0)
        code = take_spells(r->sends, r->n_sends, &told.sends);
    if (code == 0)
        code = take_spells(r->arrivals, r->n_arrivals, &told.arrivals);
    if (code == 0)
        code = take_spells(r->whole, r->n_whole, &told.whole);
    told.version = r->version;
    told.host = r->host;
    told.full_ns = r->full_ns;
    told.end_ns = r->end_ns;
    told.growth_bytes = r->has_growth_bytes ? r->growth_bytes : NAN;
    told.sent_bytes = r->sent_bytes;
    event->stage = &told;
    event->finished = true;
    if (code == PRONY_EFORMAT)
        code = prn_remote_odd(m->r, "with a malformed result of a stage", err);
    else if (code < 0)
        code = prn_fail_memory(err);
    else
        code = m->event(m->context, event, err);
    event->stage = NULL;
    prn_stage_told_release(&told);
    prony__stage_result__free_unpacked(r, NULL);
    return code;
}

static int take_pipeline(struct measuring *m, const ProtobufCBinaryData *bytes, bool finished,
                         struct prn_remote_event *event, struct prony_error *err)
{
    if (finished)
        return take_stage(m, bytes, event, err);
    event->batch = bytes->data;
    event->batch_bytes = bytes->len;
    int code = m->event(m->context, event, err);
    event->batch = NULL;
    return code;
}

static int take_event(struct measuring *m, const Prony__MeasureEvent *wire, struct prony_error *err)
{
    struct prn_remote_event event = {.host = wire->has_host ? wire->host : 0};
    if (event.host >= m->r->n_hosts || m->done[event.host])
        return prn_remote_odd(m->r, "for a host that the session doesn't have", err);
    int code = 0;
    int (*take)(struct measuring *, const ProtobufCBinaryData *, bool, struct prn_remote_event *,
                struct prony_error *) = m->pipeline ? take_pipeline
                                        : m->layers ? take_layers
                                                    : take_profile;
    if (wire->progress)
        code = take_progress(m, wire, &event, err);
    if (code == 0 && wire->has_checkpoint)
        code = take(m, &wire->checkpoint, false, &event, err);
    if (code == 0 && wire->has_result)
        code = take(m, &wire->result, true, &event, err);
    if (code == 0 && !wire->has_result && wire->error) {
        event.finished = true;
        event.aftermath = wire->aftermath;
        event.error_code = prn_remote_error_code((int)wire->error->code);
        event.error = wire->error->message;
        code = m->event(m->context, &event, err);
    }
    if (code == 0 && event.finished) {
        m->done[event.host] = true;
        m->finished++;
    }
    return code;
}

static int receive(struct measuring *m, struct prn_stream *stream, struct prony_error *err)
{
    while (m->finished < m->r->n_hosts) {
        struct prn_bytes *bytes = NULL;
        ProtobufCMessage *message = NULL;
        int code = prn_stream_receive(stream, SLICE_S, &bytes, err);
        if (code == PRONY_ETIMEDOUT && prn_remote_is_alive(m->r))
            continue;
        if (code == PRONY_ETIMEDOUT)
            return prn_fail(err, PRONY_EUNAVAILABLE, "'%s' has stopped answering",
                            m->r->config.address);
        if (code == 0 && !bytes)
            return prn_remote_odd(m->r, "without a result of every host", err);
        if (code == 0)
            code = prn_rpc_unpack(bytes, &prony__measure_event__descriptor, &message, err);
        prn_bytes_free(bytes);
        if (code == 0)
            code = take_event(m, (Prony__MeasureEvent *)message, err);
        if (message)
            protobuf_c_message_free_unpacked(message, NULL);
        if (code < 0)
            return code;
    }
    return 0;
}

int prn_remote_measure(struct prn_remote *r, const struct prn_remote_measure *request,
                       int (*event)(void *context, const struct prn_remote_event *event,
                                    struct prony_error *err),
                       void *context, struct prony_error *err)
{
    struct measuring m = {.r = r,
                          .layers = request->layers != NULL,
                          .pipeline = request->pipeline != NULL,
                          .event = event,
                          .context = context};
    struct prn_stream *stream = NULL;
    struct prn_out *out = NULL;
    int code = pack_request(r, request, &out, err);
    if (code == 0)
        code = prn_stream_open(r->calls, "/prony.Prony/Measure", 0, &stream, err);
    if (code < 0) {
        prn_out_free(out);
        return code;
    }
    code = prn_stream_send(stream, out, PRN_REMOTE_CALL_S, err);
    if (code == 0)
        code = prn_stream_end(stream, err);
    if (code == 0)
        code = receive(&m, stream, err);
    prn_stream_free(stream);
    return code;
}
