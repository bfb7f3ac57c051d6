/*
 * Workers: each is a stream, on which commands go out and reports come back. What a session's host
 * has to do is a row of parts; the thread of a host of this machine does them itself (local.c), for
 * others they become commands here, one at a time, and the report to one sends the next.
 */
#include "service/host/host.h"

#include "base/clock.h"
#include "rpc/capability.h"
#include "rpc/relay.h"
#include "service/pool.h"
#include "service/slurm/slurm.h"
#include "service/web/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define END_NS ((int64_t)5 * 1000000000) /* for a worker to end a session; then it is cut off */
#define HELLO_NS ((int64_t)10 * 1000000000)
#define SOFTWARE_MAX 64
#define PEER_MAX 300 /* bytes of an address */
#define FETCH_BYTES ((size_t)1 << 20)

/* ---- Commands ---- */

static void send_next_locked(struct prn_host *host) PRN_HOLDS(prn_service)
{
    struct prn_event *event = host->first_out;
    if (!event || host->sending || host->gone)
        return;
    host->first_out = event->next;
    if (!host->first_out)
        host->last_out = NULL;
    host->sending = true;
    prn_rpc_call_send(host->call, event->out);
    free(event);
}

static bool enqueue_locked(struct prn_host *host, struct prn_out *out) PRN_HOLDS(prn_service)
{
    struct prn_event *event = calloc(1, sizeof *event);
    if (!event || !out || host->gone) {
        free(event);
        prn_out_free(out);
        return false;
    }
    event->out = out;
    if (host->last_out)
        host->last_out->next = event;
    else
        host->first_out = event;
    host->last_out = event;
    send_next_locked(host);
    return true;
}

/* Notes who gets the answer; the id that the command must have, 0: no memory. */
static uint64_t expect_locked(struct prn_host *host, const struct prn_command_wait *wait)
    PRN_HOLDS(prn_service)
{
    struct prn_command_wait *kept = malloc(sizeof *kept);
    if (!kept)
        return 0;
    *kept = *wait;
    kept->id = ++host->next_id;
    kept->next = host->waits;
    host->waits = kept;
    return kept->id;
}

static struct prn_command_wait *take_wait(struct prn_host *host, uint64_t id)
{
    struct prn_command_wait **at = &host->waits;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    struct prn_command_wait *wait = *at;
    if (wait)
        *at = wait->next;
    return wait;
}

static const struct prn_command_wait *find_wait_locked(const struct prn_host *host, uint64_t id)
    PRN_HOLDS(prn_service)
{
    const struct prn_command_wait *wait = host->waits;
    while (wait && wait->id != id)
        wait = wait->next;
    return wait;
}

uint64_t prn_host_command_locked(struct prn_host *host, Prony__WorkerCommand *command,
                                 const struct prn_command_wait *wait)
{
    command->id = expect_locked(host, wait);
    if (command->id == 0 || !enqueue_locked(host, prn_rpc_pack(&command->base))) {
        free(take_wait(host, command->id));
        return 0;
    }
    return command->id;
}

Prony__WorkerReport *prn_host_call_locked(struct prn_host *host, Prony__WorkerCommand *command,
                                          double timeout_s, struct prony_error *err)
{
    struct prn_command_wait wait = {.waited = true};
    uint64_t id = prn_host_command_locked(host, command, &wait);
    int64_t deadline_ns = prn_monotonic_ns() + (int64_t)(timeout_s * 1e9);
    const struct prn_command_wait *kept;
    bool in_time = true;
    while (id && !host->gone && in_time && (kept = find_wait_locked(host, id)) && !kept->answered)
        in_time = prn_service_wait_locked(host->service, &host->answered, deadline_ns);
    struct prn_command_wait *taken = id ? take_wait(host, id) : NULL;
    Prony__WorkerReport *report = taken ? taken->report : NULL;
    free(taken);
    if (report && report->body_case == PRONY__WORKER_REPORT__BODY_ERROR) {
        prn_fail(err, PRONY_ERUNTIME, "%s", report->error->message);
        protobuf_c_message_free_unpacked(&report->base, NULL);
        return NULL;
    }
    if (!report)
        prn_fail(err, PRONY_EUNAVAILABLE, "the host is lost: %s",
                 !host->gone    ? "its worker doesn't answer"
                 : host->why[0] ? host->why
                                : "its worker went away");
    return report;
}

/* ---- Files, for a worker elsewhere ---- */

/* Fills the list; its memory belongs to `arena`. A worker of this machine is told where they lie.
 */
static int list_files(struct prn_arena *arena, const struct prn_session_file *files, bool local,
                      Prony__ModelFile ***ret_files, size_t *ret_n)
{
    size_t n = 0;
    for (const struct prn_session_file *file = files; file; file = file->next)
        n++;
    Prony__ModelFile *messages = PRN_ARENA_ARRAY(arena, n + 1, Prony__ModelFile);
    Prony__ModelFile **pointers = PRN_ARENA_ARRAY(arena, n + 1, Prony__ModelFile *);
    if (!messages || !pointers)
        return PRONY_ENOMEM;
    size_t i = 0;
    for (const struct prn_session_file *file = files; file; file = file->next, i++) {
        prony__model_file__init(&messages[i]);
        messages[i].name = file->name;
        messages[i].bytes = prn_blob_bytes(file->blob);
        messages[i].sha256 = (ProtobufCBinaryData){
            PRN_SHA256_BYTES, (uint8_t *)(uintptr_t)prn_blob_sha256(file->blob)};
        if (local)
            messages[i].path = (char *)(uintptr_t)prn_blob_path(file->blob);
        pointers[i] = &messages[i];
    }
    *ret_files = pointers;
    *ret_n = n;
    return 0;
}

/* ---- What a worker is told ---- */

int prn_spec_message(struct prn_arena *arena, const struct prn_spec *spec,
                     OctomlProfile__BackendSpec *message)
{
    octoml_profile__backend_spec__init(message);
    message->hardware_platform = (char *)(uintptr_t)spec->hardware;
    message->software_backend = (char *)(uintptr_t)spec->software;
    OctomlProfile__BackendOption *options =
        PRN_ARENA_ARRAY(arena, spec->n_options + 1, OctomlProfile__BackendOption);
    message->backend_options =
        PRN_ARENA_ARRAY(arena, spec->n_options + 1, OctomlProfile__BackendOption *);
    if (!options || !message->backend_options)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < spec->n_options; i++) {
        octoml_profile__backend_option__init(&options[i]);
        options[i].key = (char *)(uintptr_t)spec->options[i].key;
        options[i].value = (char *)(uintptr_t)spec->options[i].value;
        message->backend_options[i] = &options[i];
    }
    message->n_backend_options = spec->n_options;
    return 0;
}

int prn_host_begin_locked(struct prn_held *held, struct prony_error *err)
{
    struct prn_session *session = held->session;
    const struct prn_config_limits *limits = &session->limits;
    Prony__WorkerCommand command = PRONY__WORKER_COMMAND__INIT;
    Prony__Begin begin = PRONY__BEGIN__INIT;
    char folder[PATH_MAX];
    if (held->told)
        return 0;
    begin.session = (ProtobufCBinaryData){PRN_SESSION_ID_BYTES, session->id};
    begin.has_memory_bytes = limits->session_memory_bytes > 0;
    begin.memory_bytes = limits->session_memory_bytes;
    begin.has_timeout_s = true;
    begin.timeout_s = limits->run_timeout_s;
    begin.n_backends = held->n_backends;
    OctomlProfile__BackendSpec *specs =
        PRN_ARENA_ARRAY(&session->arena, held->n_backends, OctomlProfile__BackendSpec);
    begin.backends =
        PRN_ARENA_ARRAY(&session->arena, held->n_backends, OctomlProfile__BackendSpec *);
    if (!specs || !begin.backends)
        return prn_fail_memory(err);
    for (size_t i = 0; i < held->n_backends; i++) {
        begin.backends[i] = &specs[i];
        if (prn_spec_message(&session->arena, &session->backends[held->backends[i]], &specs[i]) < 0)
            return prn_fail_memory(err);
    }
    if (held->host->local) {
        int code = prn_session_folder_locked(session, err);
        if (code < 0)
            return code;
        if (snprintf(folder, sizeof folder, "%s/%s", session->service->sessions_folder,
                     session->name) >= (int)sizeof folder)
            return prn_fail(err, PRONY_ELIMIT, "the state folder's name is too long");
        begin.folder = folder;
        begin.cache = session->service->cache[0] ? session->service->cache : NULL;
        begin.has_launch = true;
        begin.launch = session->service->options->ends_with_input;
    }
    command.body_case = PRONY__WORKER_COMMAND__BODY_BEGIN;
    command.begin = &begin;
    held->told = true;
    /* Its answer says nothing that matters: what is wrong with a backend shows when it loads. */
    if (prn_host_command_locked(held->host, &command, &(struct prn_command_wait){0}) == 0)
        return prn_fail(err, PRONY_EUNAVAILABLE, "the host is lost");
    return 0;
}

static uint64_t send_load_locked(struct prn_part *part, size_t k) PRN_HOLDS(prn_service)
{
    struct prn_task *task = part->task;
    struct prn_held *held = part->held;
    Prony__WorkerCommand command = PRONY__WORKER_COMMAND__INIT;
    Prony__Load load = PRONY__LOAD__INIT;
    load.model_id = task->model_id;
    load.backend = (uint32_t)k;
    load.format = task->load->model_format;
    load.n_input_names = task->load->n_input_names;
    load.input_names = task->load->input_names;
    load.n_output_names = task->load->n_output_names;
    load.output_names = task->load->output_names;
    if (list_files(&task->arena, task->files[held->backends[k]], false, &load.files,
                   &load.n_files) < 0)
        return 0;
    command.body_case = PRONY__WORKER_COMMAND__BODY_LOAD;
    command.load = &load;
    return prn_host_command_locked(held->host, &command, &(struct prn_command_wait){.part = part});
}

/* The client's message goes on to the worker, its data as it came, piece by piece. */
static uint64_t send_run_locked(struct prn_part *part, size_t k) PRN_HOLDS(prn_service)
{
    struct prn_task *task = part->task;
    struct prn_held *held = part->held;
    const struct prn_rpc_run *q = &task->run;
    const struct prn_rpc_map *map = q->n_maps ? &q->maps[held->backends[k]] : NULL;
    struct prn_relay_run run = {.model_id = task->model_id,
                                .backend = (uint32_t)k,
                                .n_inputs = map ? map->n : q->n_inputs,
                                .warmups = q->warmups,
                                .repeats = q->repeats,
                                .repeat_for_ms = q->repeat_for_ms,
                                .outputs = q->inference};
    if (task->deadline_ns != INT64_MAX)
        run.timeout_s = fmax(1e-3, (double)(task->deadline_ns - prn_monotonic_ns()) * 1e-9);
    run.inputs = PRN_ARENA_ARRAY(&task->arena, run.n_inputs + 1, struct prn_rpc_tensor);
    if (!run.inputs)
        return 0;
    for (size_t i = 0; i < run.n_inputs; i++)
        run.inputs[i] = q->inputs[map ? (size_t)map->indices[i] : i];
    struct prn_bytes *source = prn_bytes_ref(task->bytes);
    uint64_t id = source ? expect_locked(held->host, &(struct prn_command_wait){.part = part}) : 0;
    if (id == 0)
        prn_bytes_free(source);
    else if (enqueue_locked(held->host, prn_relay_write_run(id, &run, source)))
        return id;
    free(take_wait(held->host, id));
    return 0;
}

/* Who comes after this stage; false: its host is gone. */
static bool fill_link_locked(const struct prn_part *part, Prony__Link *link) PRN_HOLDS(prn_service)
{
    const struct prn_session *session = part->held->session;
    size_t stage = (size_t)(part->held - session->held);
    const struct prn_host *next = session->held[(stage + 1) % session->n_held].host;
    static char alone[] = "";
    if (!next)
        return false;
    link->stage = (uint32_t)stage;
    link->next = next->hello->peer ? next->hello->peer : alone;
    link->secret = (ProtobufCBinaryData){sizeof part->task->secret, part->task->secret};
    return true;
}

uint64_t prn_host_measure_locked(struct prn_part *part)
{
    struct prn_task *task = part->task;
    struct prn_held *held = part->held;
    Prony__WorkerCommand command = PRONY__WORKER_COMMAND__INIT;
    Prony__MeasureModel measure = PRONY__MEASURE_MODEL__INIT;
    Prony__Link link = PRONY__LINK__INIT;
    if (list_files(&task->arena, task->files[held->backends[0]], held->host->local, &measure.files,
                   &measure.n_files) < 0)
        return 0;
    measure.request = task->measure;
    const struct prn_config_pool *pool = prn_config_pool(&task->service->config, held->hardware);
    measure.processor =
        pool && pool->processor ? (char *)(uintptr_t)pool->processor : held->host->hello->processor;
    measure.has_usd_per_hour = pool && !isnan(pool->usd_per_hour);
    measure.usd_per_hour = measure.has_usd_per_hour ? pool->usd_per_hour : 0;
    if (task->measure->pipeline && !fill_link_locked(part, &link))
        return 0;
    measure.link = task->measure->pipeline ? &link : NULL;
    command.body_case = PRONY__WORKER_COMMAND__BODY_MEASURE;
    command.measure = &measure;
    return prn_host_command_locked(held->host, &command, &(struct prn_command_wait){.part = part});
}

/* ---- Parts, on a worker elsewhere ---- */

static void advance_locked(struct prn_held *held) PRN_HOLDS(prn_service);

/* Sends the next command of the part, or ends it. */
static void step_locked(struct prn_part *part) PRN_HOLDS(prn_service)
{
    struct prn_held *held = part->held;
    struct prn_task *task = part->task;
    part->command_id = 0;
    while (prn_part_next_locked(part)) {
        size_t k = prn_part_backend(part);
        part->command_id = task->kind == PRN_TASK_LOAD  ? send_load_locked(part, k)
                           : task->kind == PRN_TASK_RUN ? send_run_locked(part, k)
                                                        : prn_host_measure_locked(part);
        if (part->command_id)
            return;
        prn_task_fail(part, held->backends[k], PRONY_EUNAVAILABLE, "the host is lost");
    }
    prn_part_end_locked(part);
    advance_locked(held);
}

static void advance_locked(struct prn_held *held) PRN_HOLDS(prn_service)
{
    struct prony_error err;
    if (held->now || !held->first || !held->host || held->ending)
        return;
    struct prn_part *part = prn_part_take_locked(held);
    if (prn_host_begin_locked(held, &err) < 0)
        prn_part_fail_all_locked(part, PRONY_EUNAVAILABLE, err.text);
    step_locked(part);
}

const char *prn_host_beyond_locked(const struct prn_held *held, const Prony__MeasureRequest *what)
{
    const Prony__Hello *hello = held->host ? held->host->hello : NULL;
    if (!hello)
        return NULL;
    if (what->pipeline && !prn_hello_can(hello, PRN_CAPABILITY_PIPELINE))
        return "run stages of pipelines";
    if (what->n_models > 0 && !prn_hello_can(hello, PRN_CAPABILITY_MODELS))
        return "measure several models side by side";
    if (held->session->limits.session_memory_bytes > 0 &&
        !prn_hello_can(hello, PRN_CAPABILITY_LIMITS))
        return "hold the service's memory limit in measurements";
    return NULL;
}

bool prn_host_work_locked(struct prn_held *held, struct prn_part *part)
{
    if (!held->host) {
        char text[PRONY_ERROR_TEXT_SIZE];
        snprintf(text, sizeof text, "the host that ran it was lost%s%s; open a new session",
                 held->lost[0] ? ": " : "", held->lost);
        prn_part_fail_all_locked(part, PRONY_EUNAVAILABLE, text);
        prn_part_end_locked(part);
        return false;
    }
    prn_part_wait_locked(part);
    held->ended = false;
    if (held->host->local)
        return prn_local_work_locked(held, part);
    advance_locked(held);
    return false;
}

void prn_host_cancel_locked(struct prn_held *held)
{
    Prony__WorkerCommand command = PRONY__WORKER_COMMAND__INIT;
    Prony__Cancel cancel = PRONY__CANCEL__INIT;
    __atomic_store_n(&held->cancelled, 1, __ATOMIC_RELAXED);
    if (!held->host || !held->now || held->now->command_id == 0)
        return;
    cancel.id = held->now->command_id;
    command.id = ++held->host->next_id;
    command.body_case = PRONY__WORKER_COMMAND__BODY_CANCEL;
    command.cancel = &cancel;
    enqueue_locked(held->host, prn_rpc_pack(&command.base));
}

/* ---- What is due ---- */

/* `list` is of those that wait as long as this one. */
static void set_due_locked(struct prn_host *host, struct prn_host_list *list, int64_t wait_ns)
    PRN_HOLDS(prn_service)
{
    host->due_ns = prn_monotonic_ns() + wait_ns;
    TAILQ_INSERT_TAIL(list, host, in_due);
    prn_service_look_by_locked(host->service, host->due_ns);
}

static void clear_due_locked(struct prn_host *host) PRN_HOLDS(prn_service)
{
    struct prn_service *s = host->service;
    if (host->due_ns == 0)
        return;
    TAILQ_REMOVE(host->hello ? &s->ending : &s->silent, host, in_due);
    host->due_ns = 0;
}

/* ---- The end of a session ---- */

/* The worker forgets the session, and the host is free when it says so. */
void prn_host_send_end_locked(struct prn_held *held)
{
    struct prn_host *host = held->host;
    Prony__WorkerCommand command = PRONY__WORKER_COMMAND__INIT;
    Prony__End end = PRONY__END__INIT;
    /* Whoever found out that it is gone gives it back, and is at it (prn_host_lose). */
    if (host->gone)
        return;
    if (!held->told) {
        prn_session_host_back_locked(held);
        return;
    }
    end.session = (ProtobufCBinaryData){PRN_SESSION_ID_BYTES, held->session->id};
    command.body_case = PRONY__WORKER_COMMAND__BODY_END;
    command.end = &end;
    clear_due_locked(host);
    set_due_locked(host, &host->service->ending, END_NS);
    if (prn_host_command_locked(host, &command, &(struct prn_command_wait){.end = true}) == 0)
        prn_rpc_call_fail(host->call, PRN_STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

void prn_host_end_locked(struct prn_held *held)
{
    held->ending = true;
    prn_host_cancel_locked(held);
    if (held->host->local) {
        prn_local_wake(held->host);
        return;
    }
    prn_host_send_end_locked(held);
    prn_held_abandon_locked(held, PRONY_ECANCELED, "the session was closed");
}

/* ---- Reports ---- */

static void take_error_locked(struct prn_part *part, const OctomlProfile__ErrorValue *error)
    PRN_HOLDS(prn_service)
{
    struct prn_held *held = part->held;
    if (part->task->kind == PRN_TASK_MEASURE) {
        Prony__MeasureEvent event = PRONY__MEASURE_EVENT__INIT;
        event.error = (OctomlProfile__ErrorValue *)(uintptr_t)error;
        prn_task_event_locked(part, &event);
        part->at = held->n_backends;
        return;
    }
    /* What it may say of an executor; anything else is the runtime's fault. */
    int code = error->has_prony_code &&
                       (error->prony_code == PRONY_ECRASH || error->prony_code == PRONY_ETIMEDOUT)
                   ? error->prony_code
                   : PRONY_ERUNTIME;
    prn_task_fail(part, held->backends[prn_part_backend(part)], code, error->message);
    part->at++;
}

static void take_loaded(struct prn_part *part, const Prony__Loaded *loaded)
{
    struct prn_held *held = part->held;
    struct prn_arena *arena = &part->task->arena;
    struct prn_task_outcome *o = &part->task->outcomes[held->backends[prn_part_backend(part)]];
    o->load_ns = (int64_t)loaded->load_ns;
    o->version = loaded->version ? prn_arena_strdup(arena, loaded->version) : NULL;
    o->sandbox = loaded->sandbox ? prn_arena_strdup(arena, loaded->sandbox) : NULL;
    part->at++;
}

/* A report to a part's command; consumes neither. */
static void take_part_report_locked(struct prn_part *part, const Prony__WorkerReport *report)
    PRN_HOLDS(prn_service)
{
    switch (report->body_case) {
    case PRONY__WORKER_REPORT__BODY_ERROR:
        take_error_locked(part, report->error);
        break;
    case PRONY__WORKER_REPORT__BODY_LOADED:
        take_loaded(part, report->loaded);
        break;
    default:
        part->at = part->held->n_backends;
        break;
    }
    if (part->held->host->local)
        pthread_cond_broadcast(&part->held->host->answered);
    else
        step_locked(part);
}

/* What a worker elsewhere was at when it said that the session has ended. Should it answer later,
 * nobody asks any more. */
static void end_now_locked(struct prn_held *held) PRN_HOLDS(prn_service)
{
    struct prn_part *part = held->now;
    for (struct prn_command_wait *wait = held->host->waits; wait; wait = wait->next)
        if (wait->part == part)
            wait->part = NULL;
    prn_part_fail_all_locked(part, PRONY_ECANCELED, "the session was closed");
    prn_part_end_locked(part);
}

static void end_answered_locked(struct prn_host *host) PRN_HOLDS(prn_service)
{
    struct prn_held *held = host->held;
    clear_due_locked(host);
    if (!held)
        return;
    struct prn_session *session = prn_session_ref_locked(held->session);
    if (held->now && !host->local)
        end_now_locked(held);
    prn_session_host_back_locked(held);
    prn_session_unref_locked(session);
}

/* Consumes the report. */
static void take_report_locked(struct prn_host *host, Prony__WorkerReport *report)
    PRN_HOLDS(prn_service)
{
    if (report->body_case == PRONY__WORKER_REPORT__BODY_EVENT) {
        const struct prn_command_wait *wait = find_wait_locked(host, report->id);
        if (wait && wait->part)
            prn_task_event_locked(wait->part, report->event);
        protobuf_c_message_free_unpacked(&report->base, NULL);
        return;
    }
    struct prn_command_wait *wait = take_wait(host, report->id);
    if (wait && wait->waited) {
        wait->answered = true;
        wait->report = report;
        wait->next = host->waits;
        host->waits = wait;
        pthread_cond_broadcast(&host->answered);
        return;
    }
    bool end = wait && wait->end;
    struct prn_part *part = wait ? wait->part : NULL;
    free(wait);
    if (end)
        end_answered_locked(host);
    else if (part && part->held->now == part)
        take_part_report_locked(part, report);
    protobuf_c_message_free_unpacked(&report->base, NULL);
}

/* A result of a run stays in its message, and its data goes to the client from there. */
static void take_ran_locked(struct prn_host *host, uint64_t id, struct prn_bytes *message)
    PRN_HOLDS(prn_service)
{
    struct prony_error err;
    struct prn_command_wait *wait = take_wait(host, id);
    struct prn_part *part = wait ? wait->part : NULL;
    free(wait);
    if (!part || part->held->now != part || part->task->kind != PRN_TASK_RUN) {
        prn_bytes_free(message);
        return;
    }
    size_t backend = part->held->backends[prn_part_backend(part)];
    struct prn_task_outcome *o = &part->task->outcomes[backend];
    o->report = message;
    int code = prn_relay_read_ran(message, &part->task->arena, &o->ran, &err);
    if (code < 0)
        prn_task_fail(part, backend, PRONY_EUNAVAILABLE, "the host sent a malformed reply");
    part->at++;
    step_locked(part);
}

/* ---- Coming ---- */

void prn_attach_begin(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    struct prn_identity identity;
    prn_bytes_free(message);
    if (!prn_access_worker(call, &identity))
        return;
    struct prn_host *host = calloc(1, sizeof *host);
    if (!host) {
        prn_refuse(call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
        return;
    }
    *host = (struct prn_host){.service = s,
                              .call = prn_rpc_call_ref(call),
                              .owner = identity,
                              .references = 1,
                              .connected_ns = prn_monotonic_ns()};
    prn_condition_init(&host->answered);
    prn_condition_init(&host->work);
    prn_rpc_call_set_data(call, host);
    prn_service_lock(s);
    host->next = s->hosts;
    s->hosts = host;
    set_due_locked(host, &s->silent, HELLO_NS);
    prn_service_unlock(s);
    prn_rpc_call_read(call);
}

static int check_hello_locked(struct prn_service *s, const Prony__Hello *hello,
                              struct prony_error *err) PRN_HOLDS(prn_service)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)64 << 10);
    struct prn_buffer text = PRN_BUFFER_INIT(4096);
    struct prn_spec spec;
    const struct prn_config_pool *pool = prn_config_pool(&s->config, hello->hardware);
    prn_buffer_printf(&text, "%s/software", hello->hardware);
    int code = prn_spec_parse(prn_buffer_text(&text), false, &arena, &spec, err);
    if (code == 0 && !prn_version_is_near(hello->version, prony_version()))
        code = prn_fail(err, PRONY_EUNSUPPORTED,
                        "the worker is of prony %.60s, the service of %s; they may differ by one "
                        "minor version",
                        hello->version ? hello->version : "?", prony_version());
    if (code == 0 && s->config.n_pools > 0 && !pool)
        code = prn_fail(err, PRONY_EUSAGE, "the service has no pool of hardware '%s'",
                        hello->hardware);
    if (code == 0 && hello->peer && strlen(hello->peer) > PEER_MAX)
        code = prn_fail(err, PRONY_ELIMIT, "its address is too long");
    if (code == 0 && hello->n_software > SOFTWARE_MAX)
        code = prn_fail(err, PRONY_ELIMIT, "%zu kinds of software are too many", hello->n_software);
    prn_buffer_release(&text);
    prn_arena_release(&arena);
    return code;
}

const char *prn_host_id(const struct prn_host *host, char ret_id[PRN_HOST_ID_SIZE])
{
    snprintf(ret_id, PRN_HOST_ID_SIZE, "w%llu", (unsigned long long)host->number);
    return ret_id;
}

/* One that was granted a session but hasn't heard of it yet would go, so it is told later. */
static void tell_leave_locked(struct prn_host *host) PRN_HOLDS(prn_service)
{
    Prony__WorkerCommand command = PRONY__WORKER_COMMAND__INIT;
    Prony__Leave body = PRONY__LEAVE__INIT;
    if (!host->leave || host->held)
        return;
    host->leave = false;
    command.body_case = PRONY__WORKER_COMMAND__BODY_LEAVE;
    command.leave = &body;
    prn_host_command_locked(host, &command, &(struct prn_command_wait){0});
}

void prn_host_leave_locked(struct prn_host *host)
{
    prn_queue_drain_host(host->service->queue, host->place, prn_monotonic_ns());
    host->leave = true;
    tell_leave_locked(host);
}

void prn_host_freed_locked(struct prn_host *host)
{
    host->held = NULL;
    tell_leave_locked(host);
}

static void take_hello_locked(struct prn_host *host, Prony__WorkerReport *report)
    PRN_HOLDS(prn_service)
{
    struct prn_service *s = host->service;
    struct prony_error err;
    Prony__Hello *hello = report->hello;
    int code = host->hello ? prn_fail(&err, PRONY_EUSAGE, "it has said hello before")
                           : check_hello_locked(s, hello, &err);
    if (code == 0 && hello->key) {
        host->local = prn_local_find_locked(s, hello->key);
        if (!host->local)
            code = prn_fail(&err, PRONY_EDENIED, "the key isn't one of this service's");
    }
    if (code == 0 && host->local)
        code = prn_local_attach_locked(host, &err);
    if (code == 0)
        code = prn_slurm_attach_locked(host, hello, &err);
    if (code == 0) {
        clear_due_locked(host);
        host->hello = hello;
        host->number = ++s->n_attached;
        report->body_case = PRONY__WORKER_REPORT__BODY__NOT_SET;
        code = prn_queue_add_host(s->queue, hello->hardware, host, prn_monotonic_ns(), &host->place,
                                  &err);
        if (code == 0)
            prn_bookings_host_locked(host);
    }
    protobuf_c_message_free_unpacked(&report->base, NULL);
    if (code < 0) {
        PRN_LOG(s->log, PRN_LOG_WARNING, "worker.refused", PRN_LOG_TEXT("error", err.text));
        prn_refuse(host->call, prn_status_of(code), "%s", err.text);
        return;
    }
    PRN_LOG(s->log, PRN_LOG_INFO, "worker.joined", PRN_LOG_TEXT("hardware", hello->hardware),
            PRN_LOG_TEXT("host", hello->host), PRN_LOG_INTEGER("software", hello->n_software),
            PRN_LOG_TEXT("sandbox", hello->sandbox));
    prn_known_learn_locked(s, hello);
    prn_sessions_settle_locked(s);
    if (s->list_waits)
        prn_service_look_by_locked(s, 0);
}

void prn_attach_message(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_host *host = prn_rpc_call_data(call);
    struct prn_service *s = prn_rpc_call_service(call);
    Prony__WorkerReport *report = NULL;
    struct prony_error err;
    uint64_t id;
    unsigned body;
    if (!host || !message) {
        prn_bytes_free(message);
        if (host)
            prn_rpc_call_finish(call, NULL);
        return;
    }
    if (prn_relay_peek(message, &id, &body, &err) < 0) {
        prn_bytes_free(message);
        prn_refuse(call, PRN_STATUS_INVALID_ARGUMENT, "%s", err.text);
        return;
    }
    bool ran = body == PRN_RELAY_REPORT_RAN;
    if (!ran && !(report = prn_unpack(call, message, &prony__worker_report__descriptor)))
        return;
    prn_service_lock(s);
    if (ran) {
        take_ran_locked(host, id, message);
    } else if (report->body_case == PRONY__WORKER_REPORT__BODY_HELLO) {
        take_hello_locked(host, report);
    } else if (report->body_case == PRONY__WORKER_REPORT__BODY_LEAVING) {
        if (host->place)
            prn_queue_drain_host(s->queue, host->place, prn_monotonic_ns());
        prn_sessions_settle_locked(s);
        protobuf_c_message_free_unpacked(&report->base, NULL);
    } else {
        take_report_locked(host, report);
    }
    prn_service_unlock(s);
    prn_rpc_call_read(call);
}

void prn_attach_sent(struct prn_rpc_call *call, bool ok)
{
    struct prn_host *host = prn_rpc_call_data(call);
    struct prn_service *s = prn_rpc_call_service(call);
    if (!host)
        return;
    prn_service_lock(s);
    host->sending = false;
    if (ok)
        send_next_locked(host);
    prn_service_unlock(s);
}

/* ---- Going ---- */

void prn_host_unref_locked(struct prn_host *host)
{
    if (--host->references > 0)
        return;
    for (struct prn_command_wait *wait = host->waits; wait;) {
        struct prn_command_wait *next = wait->next;
        if (wait->report)
            protobuf_c_message_free_unpacked(&wait->report->base, NULL);
        free(wait);
        wait = next;
    }
    if (host->hello)
        protobuf_c_message_free_unpacked(&host->hello->base, NULL);
    pthread_cond_destroy(&host->answered);
    pthread_cond_destroy(&host->work);
    prn_rpc_call_unref(host->call);
    free(host);
}

/* What its session had to do there fails; the session itself goes on without. */
void prn_host_lose_locked(struct prn_host *host)
{
    struct prn_held *held = host->held;
    if (!held)
        return;
    struct prn_session *session = prn_session_ref_locked(held->session);
    PRN_LOG(host->service->log, PRN_LOG_WARNING, "worker.lost",
            PRN_LOG_TEXT("hardware", held->hardware), PRN_LOG_TEXT("session", session->label));
    prn_meter_add(host->service->counted.lost, 1);
    __atomic_store_n(&held->cancelled, 1, __ATOMIC_RELAXED);
    snprintf(held->lost, sizeof held->lost, "%s", host->why);
    struct prn_part *part = held->now;
    const char *colon = host->why[0] ? ": " : "";
    char text[PRONY_ERROR_TEXT_SIZE];
    if (part) {
        snprintf(text, sizeof text, "the host was lost while it ran%s%s", colon, host->why);
        prn_part_fail_all_locked(part, PRONY_EUNAVAILABLE, text);
        prn_part_end_locked(part);
    }
    snprintf(text, sizeof text, "the host was lost%s%s", colon, host->why);
    prn_held_abandon_locked(held, PRONY_EUNAVAILABLE, text);
    prn_session_host_back_locked(held);
    prn_session_unref_locked(session);
}

void prn_attach_ended(struct prn_rpc_call *call, bool cancelled)
{
    (void)cancelled;
    struct prn_host *host = prn_rpc_call_data(call);
    struct prn_service *s = prn_rpc_call_service(call);
    if (!host)
        return;
    prn_service_lock(s);
    struct prn_host **at = &s->hosts;
    while (*at != host)
        at = &(*at)->next;
    *at = host->next;
    host->gone = true;
    clear_due_locked(host);
    for (struct prn_event *event = host->first_out; event;) {
        struct prn_event *next = event->next;
        prn_out_free(event->out);
        free(event);
        event = next;
    }
    host->first_out = host->last_out = NULL;
    if (host->place)
        prn_queue_remove_host(s->queue, host->place, prn_monotonic_ns());
    host->place = NULL;
    prn_slurm_detach_locked(host);
    /* The thread of a host of this machine gives its session back itself. */
    if (!host->local)
        prn_host_lose_locked(host);
    if (host->local) {
        prn_local_lost_locked(host);
        prn_local_wake(host);
    }
    pthread_cond_broadcast(&host->answered);
    prn_sessions_settle_locked(s);
    prn_host_unref_locked(host);
    prn_service_unlock(s);
}

static int64_t end_late_locked(const struct prn_host_list *list, int64_t now_ns, const char *why)
    PRN_HOLDS(prn_service)
{
    struct prn_host *host;
    while ((host = TAILQ_FIRST(list)) && host->due_ns <= now_ns) {
        clear_due_locked(host);
        prn_refuse(host->call, PRN_STATUS_ABORTED, "%s", why);
    }
    return host ? host->due_ns : INT64_MAX;
}

int64_t prn_hosts_tick_locked(struct prn_service *s, int64_t now_ns)
{
    int64_t silent_ns = end_late_locked(&s->silent, now_ns, "there was no hello");
    int64_t ending_ns = end_late_locked(&s->ending, now_ns, "the session wasn't ended in time");
    return silent_ns < ending_ns ? silent_ns : ending_ns;
}

/* ---- Fetching ---- */

struct fetch {
    struct prn_pool_job job;
    struct prn_job_line line;
    struct prn_service *service;
    struct prn_rpc_call *call;
    struct prn_blob *blob;
    int fd;
    uint64_t offset;
    size_t references; /* the call's, and a job's that is under way */
};

static void unref_fetch(struct fetch *f)
{
    struct prn_service *s = f->service;
    prn_service_lock(s);
    bool last = --f->references == 0;
    prn_service_unlock(s);
    if (!last)
        return;
    if (f->fd >= 0)
        close(f->fd);
    prn_blob_release(f->blob);
    prn_rpc_call_unref(f->call);
    free(f);
}

static void send_chunk(struct fetch *f)
{
    Prony__FetchChunk message = PRONY__FETCH_CHUNK__INIT;
    unsigned char *data = malloc(FETCH_BYTES);
    ssize_t n = data ? pread(f->fd, data, FETCH_BYTES, (off_t)f->offset) : -1;
    if (n < 0) {
        prn_refuse(f->call, PRN_STATUS_INTERNAL, "the file can't be read");
    } else if (n == 0) {
        prn_rpc_call_finish(f->call, NULL);
    } else {
        message.chunk = (ProtobufCBinaryData){(size_t)n, data};
        f->offset += (uint64_t)n;
        prn_rpc_call_send(f->call, prn_rpc_pack(&message.base));
    }
    free(data);
}

static void run_fetch(struct prn_pool_job *job)
{
    struct fetch *f = (struct fetch *)job;
    struct prony_error err;
    if (!prn_rpc_call_over(f->call)) {
        if (f->fd < 0 && prn_blob_open(f->blob, &f->fd, &err) < 0)
            prn_refuse(f->call, PRN_STATUS_INTERNAL, "%s", err.text);
        else
            send_chunk(f);
    }
}

static void fetch_over(struct prn_pool_job *job)
{
    unref_fetch((struct fetch *)job);
}

static void next_chunk(struct fetch *f)
{
    prn_service_lock(f->service);
    f->references++;
    prn_service_unlock(f->service);
    prn_pool_add(f->service->pool, &f->line, &f->job);
}

/* A worker may have what the session that it serves has, and nothing else. */
static struct prn_blob *find_blob_locked(struct prn_service *s, const struct prn_identity *identity,
                                         const uint8_t *sha256) PRN_HOLDS(prn_service)
{
    for (struct prn_host *host = s->hosts; host; host = host->next) {
        if (!host->held || strcmp(host->owner.user, identity->user) != 0)
            continue;
        const struct prn_session *session = host->held->session;
        for (const struct prn_session_model *model = session->models; model; model = model->next)
            for (size_t i = 0; i < session->n_backends; i++)
                for (const struct prn_session_file *file = model->on[i].files; file;
                     file = file->next)
                    if (memcmp(prn_blob_sha256(file->blob), sha256, PRN_SHA256_BYTES) == 0)
                        return prn_blob_ref(file->blob);
    }
    return NULL;
}

void prn_fetch_begin(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    struct prn_identity identity;
    if (!prn_access_worker(call, &identity)) {
        prn_bytes_free(message);
        return;
    }
    Prony__FetchRequest *q = prn_unpack(call, message, &prony__fetch_request__descriptor);
    if (!q)
        return;
    struct prn_blob *blob = NULL;
    if (q->sha256.len == PRN_SHA256_BYTES) {
        prn_service_lock(s);
        blob = find_blob_locked(s, &identity, q->sha256.data);
        prn_service_unlock(s);
    }
    protobuf_c_message_free_unpacked(&q->base, NULL);
    struct fetch *f = blob ? calloc(1, sizeof *f) : NULL;
    if (!f) {
        prn_refuse(call, PRN_STATUS_NOT_FOUND, "no session of this worker has the file");
        prn_blob_release(blob);
        return;
    }
    *f = (struct fetch){.job = {.run = run_fetch, .over = fetch_over},
                        .service = s,
                        .call = prn_rpc_call_ref(call),
                        .blob = blob,
                        .fd = -1,
                        .references = 1};
    prn_rpc_call_set_data(call, f);
    next_chunk(f);
}

void prn_fetch_sent(struct prn_rpc_call *call, bool ok)
{
    struct fetch *f = prn_rpc_call_data(call);
    if (f && ok)
        next_chunk(f);
}

void prn_fetch_ended(struct prn_rpc_call *call, bool cancelled)
{
    (void)cancelled;
    struct fetch *f = prn_rpc_call_data(call);
    if (f)
        unref_fetch(f);
}
