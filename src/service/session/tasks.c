/*
 * Calls that hosts work on. A task has a part for each host that takes part; a host does its parts
 * one after the other, and in each the backends take turns. When the last part is done, the client
 * gets its answer, with one entry per backend of the session.
 *
 * A client that goes away, or whose deadline passes, ends what is under way for it.
 */
#include "service/host/host.h"

#include "base/text.h"
#include "base/clock.h"
#include "report/profile/report.h"
#include "runtime/runtime.h"
#include "service/audit.h"
#include "service/pool.h"
#include "service/store/history.h"
#include "service/web/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define ARENA_BYTES ((size_t)64 << 20)
#define MODEL_NAME_MAX 255 /* in the history */
#define EVENTS_MAX 64 /* of a measurement that may wait for a slow client; progress is dropped */

/* ---- Texts without paths ---- */

/* Where files lie on this machine is nobody's business: the session's folder goes from the text. */
static char *without_paths(const struct prn_session *session, const char *text)
{
    struct prn_buffer out = PRN_BUFFER_INIT(PRONY_ERROR_TEXT_SIZE * 2);
    const char *folder = session->service->sessions_folder;
    size_t length = strlen(folder);
    for (const char *c = text; *c;) {
        if (strncmp(c, folder, length) != 0) {
            prn_buffer_add_char(&out, *c++);
            continue;
        }
        c += length;
        /* "/SESSION/MODEL/BACKEND/" */
        for (int part = 0; part < 4 && *c; c++)
            part += *c == '/';
    }
    return prn_buffer_detach(&out);
}

void prn_task_fail(struct prn_part *part, size_t backend, int code, const char *text)
{
    struct prn_task_outcome *o = &part->task->outcomes[backend];
    if (o->code == 0) {
        o->code = code;
        o->error = without_paths(part->task->session, text);
    }
}

/* ---- Life of a task ---- */

static void free_events(struct prn_task *task) PRN_ALONE
{
    for (struct prn_event *event = task->first_event; event;) {
        struct prn_event *next = event->next;
        prn_out_free(event->out);
        free(event);
        event = next;
    }
}

/* One that has no session yet. */
static void drop_task(struct prn_task *task)
{
    if (task->request)
        protobuf_c_message_free_unpacked(task->request, NULL);
    prn_bytes_free(task->bytes);
    prn_arena_release(&task->arena);
    free(task);
}

static void free_task(struct prn_task *task)
{
    struct prn_service *s = task->service;
    for (size_t i = 0; task->outcomes && i < task->session->n_backends; i++) {
        prn_instance_result_release(task->outcomes[i].result);
        prn_bytes_free(task->outcomes[i].report);
        free(task->outcomes[i].error);
    }
    free_events(task);
    if (task->call)
        prn_rpc_call_unref(task->call);
    prn_service_lock(s);
    if (!task->gone)
        prn_session_exit_locked(task->session, false);
    prn_session_unref_locked(task->session);
    prn_service_unlock(s);
    drop_task(task);
}

/* Without the lock, because to free one takes it. */
static void unref_task(struct prn_task *task)
{
    struct prn_service *s = task->service;
    prn_service_lock(s);
    bool last = --task->references == 0;
    prn_service_unlock(s);
    if (last)
        free_task(task);
}

/* Takes one of the two; without memory the call is refused. */
static struct prn_task *new_task(struct prn_rpc_call *call, enum prn_task_kind kind,
                                 ProtobufCMessage *request, struct prn_bytes *bytes)
{
    struct prn_task *task = calloc(1, sizeof *task);
    if (!task) {
        prn_refuse(call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
        if (request)
            protobuf_c_message_free_unpacked(request, NULL);
        prn_bytes_free(bytes);
        return NULL;
    }
    *task = (struct prn_task){.service = prn_rpc_call_service(call),
                              .request = request,
                              .bytes = bytes,
                              .call = call,
                              .kind = kind,
                              .references = 1,
                              .arena = PRN_ARENA_INIT(ARENA_BYTES),
                              .deadline_ns = prn_rpc_call_deadline_ns(call),
                              .start_ns = prn_monotonic_ns()};
    return task;
}

/* From here on the task belongs to the call and to its parts. */
static int adopt_session_locked(struct prn_task *task, struct prn_session *session)
    PRN_HOLDS(prn_service)
{
    size_t n = session->n_backends;
    task->outcomes = PRN_ARENA_ARRAY(&task->arena, n, struct prn_task_outcome);
    task->parts = PRN_ARENA_ARRAY(&task->arena, session->n_held, struct prn_part);
    task->files = PRN_ARENA_ARRAY(&task->arena, n, const struct prn_session_file *);
    if (!task->outcomes || !task->parts || !task->files) {
        prn_refuse(task->call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
        return PRONY_ENOMEM;
    }
    task->session = prn_session_ref_locked(session);
    prn_session_enter_locked(session);
    prn_rpc_call_ref(task->call);
    prn_rpc_call_set_data(task->call, task);
    return 0;
}

/* ---- Answers ---- */

static OctomlProfile__ErrorCode error_code(const struct prn_task *task,
                                           const struct prn_task_outcome *o)
{
    if (o->code == PRONY_EUNAVAILABLE)
        return OCTOML_PROFILE__ERROR_CODE__ERROR_INTERNAL;
    return task->kind == PRN_TASK_LOAD ? OCTOML_PROFILE__ERROR_CODE__ERROR_MODEL_LOAD
                                       : OCTOML_PROFILE__ERROR_CODE__ERROR_MODEL_INFERENCE;
}

static const char *error_text(const struct prn_task_outcome *o)
{
    return o->error ? o->error : prony_error_text(o->code);
}

static void answer_load(struct prn_task *task)
{
    size_t n = task->session->n_backends;
    OctomlProfile__LoadModelReply reply = OCTOML_PROFILE__LOAD_MODEL_REPLY__INIT;
    OctomlProfile__LoadModelResult results[PRN_SESSION_BACKENDS_MAX];
    OctomlProfile__LoadModelResult *pointers[PRN_SESSION_BACKENDS_MAX];
    OctomlProfile__LoadModelResultValue values[PRN_SESSION_BACKENDS_MAX];
    OctomlProfile__ErrorValue errors[PRN_SESSION_BACKENDS_MAX];
    OctomlProfile__LoadModelSkipped skipped = OCTOML_PROFILE__LOAD_MODEL_SKIPPED__INIT;
    for (size_t i = 0; i < n; i++) {
        const struct prn_task_outcome *o = &task->outcomes[i];
        octoml_profile__load_model_result__init(&results[i]);
        octoml_profile__load_model_result_value__init(&values[i]);
        octoml_profile__error_value__init(&errors[i]);
        pointers[i] = &results[i];
        if (o->skipped) {
            results[i].result_case = OCTOML_PROFILE__LOAD_MODEL_RESULT__RESULT_SKIPPED;
            results[i].skipped = &skipped;
        } else if (o->code < 0) {
            errors[i].message = (char *)(uintptr_t)error_text(o);
            errors[i].code = error_code(task, o);
            results[i].result_case = OCTOML_PROFILE__LOAD_MODEL_RESULT__RESULT_ERROR_VALUE;
            results[i].error_value = &errors[i];
        } else {
            values[i].has_load_ns = true;
            values[i].load_ns = (uint64_t)o->load_ns;
            values[i].runtime_version = (char *)(uintptr_t)o->version;
            values[i].sandbox = (char *)(uintptr_t)o->sandbox;
            results[i].result_case = OCTOML_PROFILE__LOAD_MODEL_RESULT__RESULT_RESULT_VALUE;
            results[i].result_value = &values[i];
        }
    }
    reply.n_result_per_backend = n;
    reply.result_per_backend = pointers;
    prn_reply(task->call, &reply.base);
}

/* The data of outputs is borrowed by the message, and the task lives until that has been sent. */
static void release_outputs(void *opaque)
{
    unref_task(opaque);
}

static void answer_run(struct prn_task *task)
{
    size_t n = task->session->n_backends;
    struct prn_rpc_result *results = PRN_ARENA_ARRAY(&task->arena, n, struct prn_rpc_result);
    if (!results) {
        prn_refuse(task->call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const struct prn_task_outcome *o = &task->outcomes[i];
        if (o->code < 0)
            results[i] = (struct prn_rpc_result){.error = error_text(o),
                                                 .error_code = (int)error_code(task, o)};
        else if (o->report) {
            results[i] = o->ran;
            results[i].source = o->report;
        } else if (o->result)
            results[i] = (struct prn_rpc_result){.n_times = o->result->n_times,
                                                 .times_ns = o->result->times_ns,
                                                 .prepare_ns = o->result->prepare_ns,
                                                 .n_outputs = o->result->n_outputs,
                                                 .outputs = o->result->outputs,
                                                 .names = o->result->names};
    }
    prn_service_lock(task->service);
    task->references++;
    prn_service_unlock(task->service);
    struct prn_out *out = prn_rpc_write_results(results, n, release_outputs, task);
    if (out && task->one_of_many)
        prn_rpc_call_send(task->call, out);
    else if (out)
        prn_rpc_call_finish(task->call, out);
    else
        prn_refuse(task->call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
}

/* Its session goes on after a restart of the service, and this call doesn't. */
static bool was_interrupted(const struct prn_task *task)
{
    bool interrupted = false;
    for (size_t i = 0; task->session->kept && i < task->session->n_backends; i++)
        interrupted = interrupted || task->outcomes[i].code == PRONY_ECANCELED;
    return interrupted && task->kind != PRN_TASK_MEASURE;
}

void prn_tasks_answer(struct prn_task *done)
{
    while (done) {
        struct prn_task *task = done;
        done = task->next_done;
        bool wanted = task->wanted && task->call;
        if (wanted && was_interrupted(task))
            prn_refuse(task->call, PRN_STATUS_UNAVAILABLE,
                       "the service ended during this call, which was not finished");
        else if (wanted && task->kind == PRN_TASK_LOAD)
            answer_load(task);
        else if (wanted && task->kind == PRN_TASK_RUN)
            answer_run(task);
        /* A measurement is answered by its last event. */
        unref_task(task);
    }
}

static void send_next_event_locked(struct prn_task *task) PRN_HOLDS(prn_service);

/* What a later Run must know. */
static void note_loaded_locked(struct prn_task *task) PRN_HOLDS(prn_service)
{
    struct prn_session_model *model = prn_model_find_locked(task->session, task->model_id);
    bool any = false;
    for (size_t i = 0; model && i < task->session->n_backends; i++) {
        const struct prn_task_outcome *o = &task->outcomes[i];
        struct prn_model_on *on = &model->on[i];
        if (o->skipped)
            continue;
        free(on->error);
        on->loaded = o->code == 0;
        on->error = o->code < 0 ? strdup(error_text(o)) : NULL;
        on->n_inputs = task->load->n_input_names;
        any = any || on->loaded;
    }
    if (any && task->call)
        prn_keep_load_locked(task->session, task->load);
}

/* After the last one the client is answered, by whoever gives the lock up next. */
static void part_done_locked(struct prn_part *part) PRN_HOLDS(prn_service)
{
    struct prn_task *task = part->task;
    struct prn_service *s = task->service;
    if (--task->parts_left > 0)
        return;
    if (task->kind == PRN_TASK_LOAD)
        note_loaded_locked(task);
    if (task->kind != PRN_TASK_LOAD)
        task->session->runs++;
    if (task->kind == PRN_TASK_RUN)
        prn_meter_add(s->counted.runs, 1);
    prn_watch_task_locked(task);
    if (task->kind == PRN_TASK_MEASURE)
        send_next_event_locked(task);
    task->wanted = !task->over;
    *s->done_end = task;
    s->done_end = &task->next_done;
}

void prn_part_wait_locked(struct prn_part *part)
{
    struct prn_held *held = part->held;
    part->next = NULL;
    if (held->last)
        held->last->next = part;
    else
        held->first = part;
    held->last = part;
}

static struct prn_part *leave_line_locked(struct prn_held *held) PRN_HOLDS(prn_service)
{
    struct prn_part *part = held->first;
    held->first = part ? part->next : NULL;
    if (!held->first)
        held->last = NULL;
    return part;
}

struct prn_part *prn_part_take_locked(struct prn_held *held)
{
    struct prn_part *part = leave_line_locked(held);
    held->now = part;
    __atomic_store_n(&held->cancelled, 0, __ATOMIC_RELAXED);
    return part;
}

void prn_part_put_back_locked(struct prn_part *part)
{
    struct prn_held *held = part->held;
    held->now = NULL;
    part->next = held->first;
    held->first = part;
    if (!held->last)
        held->last = part;
}

bool prn_part_next_locked(struct prn_part *part)
{
    const struct prn_held *held = part->held;
    for (; part->at < held->n_backends; part->at++) {
        size_t backend = held->backends[prn_part_backend(part)];
        const struct prn_task_outcome *o = &part->task->outcomes[backend];
        if (o->skipped || o->code < 0)
            continue;
        if (!part->task->over && !held->ending)
            return true;
        prn_task_fail(part, backend, PRONY_ECANCELED, "the client is gone");
    }
    return false;
}

void prn_part_end_locked(struct prn_part *part)
{
    part->held->now = NULL;
    part_done_locked(part);
}

void prn_task_ended(struct prn_rpc_call *call, bool cancelled)
{
    struct prn_task *task = prn_rpc_call_data(call);
    if (!task)
        return;
    struct prn_session *session = task->session;
    prn_service_lock(task->service);
    task->over = true;
    task->gone = cancelled;
    if (cancelled)
        prn_session_exit_locked(session, true);
    /* Nobody wants the result any more: what runs for it ends. */
    for (size_t i = 0; cancelled && task->parts_left > 0 && i < session->n_held; i++) {
        struct prn_held *held = &session->held[i];
        if (held->now && held->now->task == task)
            prn_host_cancel_locked(held);
    }
    prn_service_unlock(task->service);
    unref_task(task);
}

size_t prn_part_backend(const struct prn_part *part)
{
    return (part->at + part->turn) % part->held->n_backends;
}

void prn_part_fail_all_locked(struct prn_part *part, int code, const char *text)
{
    const struct prn_held *held = part->held;
    struct prn_task *task = part->task;
    if (task->kind == PRN_TASK_MEASURE) {
        Prony__MeasureEvent event = PRONY__MEASURE_EVENT__INIT;
        OctomlProfile__ErrorValue error = OCTOML_PROFILE__ERROR_VALUE__INIT;
        error.message = (char *)(uintptr_t)text;
        error.code = OCTOML_PROFILE__ERROR_CODE__ERROR_INTERNAL;
        event.error = &error;
        prn_task_event_locked(part, &event);
    }
    for (; part->at < held->n_backends; part->at++) {
        size_t backend = held->backends[prn_part_backend(part)];
        if (!task->outcomes[backend].skipped)
            prn_task_fail(part, backend, code, text);
    }
}

void prn_held_abandon_locked(struct prn_held *held, int code, const char *text)
{
    struct prn_part *part;
    while ((part = leave_line_locked(held))) {
        prn_part_fail_all_locked(part, code, text);
        part_done_locked(part);
    }
}

/* Gives the parts to their hosts. Returns the one that is the caller's to finish, or NULL. */
static struct prn_part *start_locked(struct prn_task *task) PRN_HOLDS(prn_service)
{
    struct prn_session *session = task->session;
    struct prn_part *quick = NULL;
    task->references++; /* the parts' */
    task->parts_left = 1;
    for (size_t i = 0; i < session->n_held; i++) {
        struct prn_held *held = &session->held[i];
        bool wanted = false;
        for (size_t k = 0; k < held->n_backends; k++) {
            const struct prn_task_outcome *o = &task->outcomes[held->backends[k]];
            wanted |= !o->skipped && o->code == 0;
        }
        if (!wanted)
            continue;
        struct prn_part *part = &task->parts[i];
        *part =
            (struct prn_part){.task = task, .held = held, .turn = session->runs % held->n_backends};
        task->parts_left++;
        if (prn_host_work_locked(held, part))
            quick = part;
    }
    /* A part of its own, so that the task can't be done before all have begun. */
    task->parts[0].task = task;
    part_done_locked(&task->parts[0]);
    return quick;
}

/* ---- LoadModel ---- */

static bool takes_format(const char *software, int format)
{
    return prn_runtime_takes_onnx(software) !=
           (format == OCTOML_PROFILE__MODEL_FORMAT__MODEL_FORMAT_FXPROTO);
}

static bool prepare_load_locked(struct prn_task *task, struct prn_session *session)
    PRN_HOLDS(prn_service)
{
    const OctomlProfile__LoadModelRequest *q = task->load;
    const struct prn_session_model *model = prn_model_find_locked(session, q->model_id);
    bool skip[PRN_SESSION_BACKENDS_MAX];
    if (!model) {
        prn_refuse(task->call, PRN_STATUS_NOT_FOUND, "no file of model %llu was uploaded",
                   (unsigned long long)q->model_id);
        return false;
    }
    if (!prn_skip_mask(task->call, session, q->backends_to_skip_bitmask.data,
                       q->backends_to_skip_bitmask.len, skip))
        return false;
    if (adopt_session_locked(task, session) < 0)
        return false;
    for (size_t i = 0; i < session->n_backends; i++) {
        struct prn_task_outcome *o = &task->outcomes[i];
        const char *software = session->backends[i].software;
        o->skipped = skip[i];
        task->files[i] = model->on[i].files;
        if (!skip[i] && !takes_format(software, (int)q->model_format)) {
            o->code = PRONY_EUNSUPPORTED;
            o->error = strdup(prn_runtime_takes_onnx(software)
                                  ? "this backend takes models as ONNX, not as FXPROTO"
                                  : "this backend takes models as FXPROTO, not as ONNX");
        }
    }
    return true;
}

/* A load without a client; NULL: out of memory. Takes the request. */
static struct prn_task *new_reload_locked(struct prn_session *session,
                                          OctomlProfile__LoadModelRequest *q) PRN_HOLDS(prn_service)
{
    struct prn_task *task = calloc(1, sizeof *task);
    if (!task) {
        octoml_profile__load_model_request__free_unpacked(q, NULL);
        return NULL;
    }
    *task = (struct prn_task){.service = session->service,
                              .request = &q->base,
                              .load = q,
                              .kind = PRN_TASK_LOAD,
                              .model_id = q->model_id,
                              .arena = PRN_ARENA_INIT(ARENA_BYTES),
                              .deadline_ns = INT64_MAX,
                              .start_ns = prn_monotonic_ns()};
    size_t n = session->n_backends;
    task->outcomes = PRN_ARENA_ARRAY(&task->arena, n, struct prn_task_outcome);
    task->parts = PRN_ARENA_ARRAY(&task->arena, session->n_held, struct prn_part);
    task->files = PRN_ARENA_ARRAY(&task->arena, n, const struct prn_session_file *);
    if (!task->outcomes || !task->parts || !task->files) {
        drop_task(task);
        return NULL;
    }
    task->session = prn_session_ref_locked(session);
    prn_session_enter_locked(session);
    return task;
}

void prn_tasks_reload_locked(struct prn_session *session)
{
    while (session->reloads) {
        struct prn_reload *reload = session->reloads;
        const OctomlProfile__LoadModelRequest *q = reload->request;
        const struct prn_session_model *model = prn_model_find_locked(session, q->model_id);
        struct prn_task *task = new_reload_locked(session, reload->request);
        session->reloads = reload->next;
        free(reload);
        for (size_t i = 0; task && i < session->n_backends; i++) {
            const ProtobufCBinaryData *mask = &q->backends_to_skip_bitmask;
            task->files[i] = model ? model->on[i].files : NULL;
            task->outcomes[i].skipped =
                !task->files[i] || (i / 8 < mask->len && (mask->data[i / 8] >> (i % 8) & 1)) ||
                !takes_format(session->backends[i].software, (int)q->model_format);
            if (!task->outcomes[i].skipped) {
                /* A run that comes now waits for this load. */
                model->on[i].loaded = true;
                model->on[i].n_inputs = q->n_input_names;
            }
        }
        if (task)
            start_locked(task);
    }
}

/* The common frame of the three: the request is in `task`, and `prepare` checks it against the
 * session and adopts that. */
/* Which model is loaded or measured where, known by the hash of the file that came first. Runs are
 * too many, and say nothing new. */
static void audit_task_locked(const struct prn_task *task) PRN_HOLDS(prn_service)
{
    const struct prn_session *session = task->session;
    const struct prn_service *s = task->service;
    char sha256[2 * PRN_SHA256_BYTES + 1] = "";
    const struct prn_session_file *file = NULL;
    if (!s->audit || task->kind == PRN_TASK_RUN)
        return;
    struct prn_buffer backends = PRN_BUFFER_INIT((size_t)64 << 10);
    for (size_t i = 0; i < session->n_backends; i++) {
        if (task->outcomes[i].skipped)
            continue;
        prn_buffer_printf(&backends, "%s%s", backends.len ? ", " : "", session->backends[i].name);
        file = file ? file : task->files[i];
    }
    while (file && file->next)
        file = file->next;
    if (file)
        prn_text_hex(prn_blob_sha256(file->blob), PRN_SHA256_BYTES, sha256);
    PRN_AUDIT(s->audit, task->kind == PRN_TASK_LOAD ? "load" : "measure",
              PRN_LOG_TEXT("user", session->owner.user),
              PRN_LOG_TEXT("from", prn_rpc_call_peer(task->call)),
              PRN_LOG_TEXT("session", session->label), PRN_LOG_INTEGER("model", task->model_id),
              PRN_LOG_TEXT("sha256", sha256[0] ? sha256 : NULL),
              PRN_LOG_TEXT("backends", prn_buffer_text(&backends)));
    prn_buffer_release(&backends);
}

static void begin_task(struct prn_task *task, const struct prn_identity *identity,
                       const uint8_t *session_id, size_t length,
                       bool (*prepare)(struct prn_task *, struct prn_session *))
{
    struct prn_service *s = task->service;
    prn_service_lock(s);
    struct prn_session *session =
        prn_session_find_ready_locked(s, task->call, identity, session_id, length);
    bool ready = session && prepare(task, session);
    if (ready)
        audit_task_locked(task);
    struct prn_part *quick = ready ? start_locked(task) : NULL;
    prn_service_unlock(s);
    if (quick)
        prn_local_finish(quick);
    else if (!ready && !task->session)
        drop_task(task);
}

void prn_load_model(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_identity identity;
    OctomlProfile__LoadModelRequest *q =
        prn_request(call, message, &octoml_profile__load_model_request__descriptor, &identity);
    struct prn_task *task = q ? new_task(call, PRN_TASK_LOAD, &q->base, NULL) : NULL;
    if (!task)
        return;
    task->load = q;
    task->model_id = q->model_id;
    begin_task(task, &identity, q->session_uuid.data, q->session_uuid.len, prepare_load_locked);
}

/* ---- Run ---- */

static bool check_maps(struct prn_task *task, const struct prn_session *session,
                       const struct prn_session_model *model)
{
    const struct prn_rpc_run *run = &task->run;
    if (run->n_maps != 0 && run->n_maps != session->n_backends) {
        prn_refuse(task->call, PRN_STATUS_INVALID_ARGUMENT,
                   "input_map_per_backend has %zu entries for %zu backends", run->n_maps,
                   session->n_backends);
        return false;
    }
    for (size_t i = 0; i < session->n_backends; i++) {
        size_t n = run->n_maps ? run->maps[i].n : run->n_inputs;
        const struct prn_model_on *on = &model->on[i];
        if (on->loaded && on->n_inputs > 0 && n != on->n_inputs) {
            prn_refuse(task->call, PRN_STATUS_INVALID_ARGUMENT,
                       "backend %zu gets %zu inputs, but the model has %zu", i, n, on->n_inputs);
            return false;
        }
    }
    return true;
}

static bool prepare_run_locked(struct prn_task *task, struct prn_session *session)
    PRN_HOLDS(prn_service)
{
    const struct prn_session_model *model = prn_model_find_locked(session, task->model_id);
    bool asked = false;
    for (size_t i = 0; model && i < session->n_backends; i++)
        asked |= model->on[i].loaded || model->on[i].error;
    if (!asked) {
        prn_refuse(task->call, PRN_STATUS_NOT_FOUND, "model %llu was not loaded",
                   (unsigned long long)task->model_id);
        return false;
    }
    if (!check_maps(task, session, model) || adopt_session_locked(task, session) < 0)
        return false;
    for (size_t i = 0; i < session->n_backends; i++) {
        const struct prn_model_on *on = &model->on[i];
        if (on->loaded)
            continue;
        task->outcomes[i].code = PRONY_ENOENT;
        task->outcomes[i].error =
            strdup(on->error ? on->error : "this backend was not asked to load the model");
    }
    return true;
}

void prn_run(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_identity identity;
    struct prony_error err;
    if (!prn_access(call, &identity)) {
        prn_bytes_free(message);
        return;
    }
    struct prn_task *task = new_task(call, PRN_TASK_RUN, NULL, message);
    if (!task)
        return;
    task->one_of_many = prn_rpc_call_method(call)->kind == PRN_METHOD_BOTH;
    int code = prn_rpc_read_run(message, &task->arena, &task->run, &err);
    if (code < 0) {
        prn_refuse(call, prn_status_of(code), "%s", err.text);
        drop_task(task);
        return;
    }
    task->model_id = task->run.model_id;
    begin_task(task, &identity, task->run.session, PRN_SESSION_ID_BYTES, prepare_run_locked);
}

/* ---- Runs ---- */

void prn_runs_begin(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_identity identity;
    prn_bytes_free(message); /* there is none */
    if (prn_access(call, &identity))
        prn_rpc_call_read(call);
}

void prn_runs_message(struct prn_rpc_call *call, struct prn_bytes *message)
{
    if (message)
        prn_run(call, message);
    else
        prn_rpc_call_finish(call, NULL);
}

/* The call is done with the task, and has room for the next one. */
void prn_runs_sent(struct prn_rpc_call *call, bool ok)
{
    struct prn_task *task = prn_rpc_call_data(call);
    prn_rpc_call_set_data(call, NULL);
    unref_task(task);
    if (ok)
        prn_rpc_call_read(call);
}

/* ---- Measure ---- */

static bool is_loopback(const char *peer)
{
    return strncmp(peer, "127.", 4) == 0 || strncmp(peer, "[::1]", 5) == 0;
}

/* Whether all hosts can be stages of one pipeline, and if not, why. */
static int check_peers_locked(const struct prn_session *session, struct prony_error *err)
    PRN_HOLDS(prn_service)
{
    const char *first = NULL;
    for (size_t i = 0; i < session->n_held; i++) {
        const struct prn_host *host = session->held[i].host;
        const char *peer = host ? host->hello->peer : NULL;
        first = i == 0 ? peer : first;
        if (!host)
            return prn_fail(err, PRONY_EUNAVAILABLE, "stage %zu has lost its host", i + 1);
        if (!peer && session->n_held > 1)
            return prn_fail(err, PRONY_EUNAVAILABLE,
                            "the host of stage %zu, '%.100s', cannot be reached by others: start "
                            "its worker with --peers",
                            i + 1, session->held[i].hardware);
        if (peer && is_loopback(peer) != is_loopback(first))
            return prn_fail(err, PRONY_EUNAVAILABLE,
                            "the hosts of stages 1 and %zu cannot reach each other: one of their "
                            "workers listens on its own machine only; start it with --peers",
                            i + 1);
    }
    return 0;
}

static bool check_pipeline_locked(struct prn_task *task, const struct prn_session *session)
    PRN_HOLDS(prn_service)
{
    struct prony_error err;
    if (!session->own_hosts || task->measure->pipeline->n_stages != session->n_backends)
        prn_refuse(task->call, PRN_STATUS_INVALID_ARGUMENT,
                   "a pipeline needs a session with a host of its own for each stage");
    else if (check_peers_locked(session, &err) < 0)
        prn_refuse(task->call, PRN_STATUS_FAILED_PRECONDITION, "%s", err.text);
    else if (getrandom(task->secret, sizeof task->secret, 0) != sizeof task->secret)
        prn_refuse(task->call, PRN_STATUS_INTERNAL, "no random numbers for a secret");
    else
        return true;
    return false;
}

/* Workers of the version before can't do everything. */
static bool check_workers_locked(const struct prn_task *task, const struct prn_session *session)
    PRN_HOLDS(prn_service)
{
    for (size_t i = 0; i < session->n_held; i++) {
        const char *beyond = prn_host_beyond_locked(&session->held[i], task->measure);
        if (!beyond)
            continue;
        prn_refuse(task->call, PRN_STATUS_FAILED_PRECONDITION,
                   "the worker of '%s' is of prony %s, which cannot %s; upgrade it",
                   session->held[i].hardware, session->held[i].host->hello->version, beyond);
        return false;
    }
    return true;
}

/* An older worker takes no limit but what it is asked for. */
static void limit_measure(Prony__MeasureRequest *q, const struct prn_session *session)
{
    if (q->has_timeout_s && q->timeout_s > session->limits.run_timeout_s)
        q->timeout_s = session->limits.run_timeout_s;
}

static bool prepare_measure_locked(struct prn_task *task, struct prn_session *session)
    PRN_HOLDS(prn_service)
{
    const struct prn_session_model *model = prn_model_find_locked(session, task->model_id);
    if (!model) {
        prn_refuse(task->call, PRN_STATUS_NOT_FOUND, "no file of model %llu was uploaded",
                   (unsigned long long)task->model_id);
        return false;
    }
    if (!check_workers_locked(task, session))
        return false;
    if (task->measure->pipeline && !check_pipeline_locked(task, session))
        return false;
    if (adopt_session_locked(task, session) < 0)
        return false;
    for (size_t i = 0; i < session->n_backends; i++)
        task->files[i] = model->on[i].files;
    limit_measure(task->measure, session);
    return true;
}

void prn_measure_model(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_identity identity;
    Prony__MeasureRequest *q =
        prn_request(call, message, &prony__measure_request__descriptor, &identity);
    struct prn_task *task = q ? new_task(call, PRN_TASK_MEASURE, &q->base, NULL) : NULL;
    if (!task)
        return;
    task->measure = q;
    task->model_id = q->model_id;
    begin_task(task, &identity, q->session_uuid.data, q->session_uuid.len, prepare_measure_locked);
}

/* One message at a time is under way; after the last one the call ends. */
static void send_next_event_locked(struct prn_task *task) PRN_HOLDS(prn_service)
{
    struct prn_event *event = task->first_event;
    if (task->sending || task->over)
        return;
    if (!event) {
        if (task->parts_left == 0)
            prn_rpc_call_finish(task->call, NULL);
        return;
    }
    task->first_event = event->next;
    if (!task->first_event)
        task->last_event = NULL;
    task->sending = true;
    prn_rpc_call_send(task->call, event->out);
    free(event);
}

void prn_task_sent(struct prn_rpc_call *call, bool ok)
{
    struct prn_task *task = prn_rpc_call_data(call);
    if (!task)
        return;
    prn_service_lock(task->service);
    task->sending = false;
    if (ok)
        send_next_event_locked(task);
    prn_service_unlock(task->service);
}

static size_t events_waiting_locked(const struct prn_task *task) PRN_HOLDS(prn_service)
{
    size_t n = 0;
    for (const struct prn_event *event = task->first_event; event; event = event->next)
        n++;
    return n;
}

/* A measurement on its way into the history, which takes the disk's time. */
struct memory {
    struct prn_pool_job job;
    struct prn_job_line line;
    struct prn_service *service;
    struct prn_identity owner;
    char model[MODEL_NAME_MAX + 1];
    struct prn_buffer backends;
    struct prn_history_measurement measurement;
    struct prn_buffer report, summary;
};

static void warn_of_history(struct prn_service *s, const char *text)
{
    PRN_LOG(s->log, PRN_LOG_WARNING, "history", PRN_LOG_TEXT("error", text));
}

static void run_memory(struct prn_pool_job *job)
{
    struct memory *m = (struct memory *)job;
    struct prony_error err;
    int64_t id;
    int code = prn_buffer_error(&m->report, &err);
    /* It is a worker's report: one that can't be read is kept without a summary. */
    if (code == 0 &&
        prn_profile_summary(prn_buffer_text(&m->report), m->report.len, &m->summary, &err) == 0)
        m->measurement.summary = prn_buffer_text(&m->summary);
    if (code == 0)
        code = prn_history_add_measurement(m->service->history, &m->measurement,
                                           prn_buffer_text(&m->report), m->report.len, &id, &err);
    if (code < 0)
        warn_of_history(m->service, err.text);
}

static void memory_over(struct prn_pool_job *job)
{
    struct memory *m = (struct memory *)job;
    prn_buffer_release(&m->backends);
    prn_buffer_release(&m->report);
    prn_buffer_release(&m->summary);
    free(m);
}

/* What its user calls it, which the request doesn't have to say, or all of several. */
static void write_model(const Prony__MeasureRequest *request, char *text, size_t size)
{
    const char *name = request->model_name ? request->model_name : request->model_file;
    size_t length = 0;
    snprintf(text, size, "%s", request->n_models == 0 && name ? name : "");
    for (size_t i = 0; i < request->n_models && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%s", i ? ", " : "",
                                   request->models[i]->name);
}

/* The result of one host: of its backends. */
static void keep_report(const struct prn_part *part, const ProtobufCBinaryData *report)
{
    const struct prn_task *task = part->task;
    const struct prn_session *session = task->session;
    struct prn_service *s = task->service;
    int64_t took_ms = (prn_monotonic_ns() - task->start_ns) / 1000000;
    struct memory *m = calloc(1, sizeof *m);
    if (!m || report->len > prn_history_report_max(s->history)) {
        free(m);
        warn_of_history(s, "a report is too large to be kept");
        return;
    }
    *m = (struct memory){.job = {.run = run_memory, .over = memory_over},
                         .service = s,
                         .owner = session->owner,
                         .backends = PRN_BUFFER_INIT((size_t)64 << 10),
                         .report = PRN_BUFFER_INIT(report->len),
                         .summary = PRN_BUFFER_INIT(PRN_SUMMARY_MAX)};
    write_model(task->measure, m->model, sizeof m->model);
    for (size_t i = 0; i < part->held->n_backends; i++)
        prn_buffer_printf(&m->backends, "%s%s", i ? ", " : "",
                          session->backends[part->held->backends[i]].name);
    prn_buffer_append(&m->report, report->data, report->len);
    m->measurement = (struct prn_history_measurement){.user = m->owner.user,
                                                      .model = m->model,
                                                      .backends = prn_buffer_text(&m->backends),
                                                      .created_ms = prn_wall_clock_ms() - took_ms,
                                                      .duration_ms = took_ms};
    prn_pool_add(s->pool, &m->line, &m->job);
}

void prn_task_event_locked(struct prn_part *part, const Prony__MeasureEvent *report)
{
    struct prn_task *task = part->task;
    struct prn_session *session = task->session;
    /* A copy: what is added to it is borrowed, and the report frees what it has. */
    Prony__MeasureEvent told = *report;
    Prony__MeasureEvent *event = &told;
    event->has_host = true;
    event->host = (uint32_t)(part->held - session->held);
    event->hardware = (char *)(uintptr_t)part->held->hardware;
    /* What ended is known better here than there. */
    OctomlProfile__ErrorValue closed = OCTOML_PROFILE__ERROR_VALUE__INIT;
    char why[PRONY_ERROR_TEXT_SIZE];
    if (event->error && session->state == PRN_SESSION_CLOSED) {
        snprintf(why, sizeof why, "the session is closed: %s", session->outcome);
        closed.message = why;
        closed.code = event->error->code;
        event->error = &closed;
    }
    /* A client that reads slowly misses progress, not results. */
    bool only_progress = !event->has_checkpoint && !event->has_result && !event->error;
    if (event->has_result && !task->measure->pipeline)
        keep_report(part, &event->result);
    struct prn_event *waiting = calloc(1, sizeof *waiting);
    if (task->over || !waiting || (only_progress && events_waiting_locked(task) > EVENTS_MAX)) {
        free(waiting);
        return;
    }
    waiting->out = prn_rpc_pack(&event->base);
    if (task->last_event)
        task->last_event->next = waiting;
    else
        task->first_event = waiting;
    task->last_event = waiting;
    send_next_event_locked(task);
}
