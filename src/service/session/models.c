/*
 * Files of sessions. They come by upload or from the cache, belong to a model on some of the
 * session's backends, and are put into the session's folder when a backend loads the model:
 *
 *     SESSION/MODEL/BACKEND/name
 *
 * The cache has each file once; folders have further names of it.
 */
#include "base/text.h"
#include "service/audit.h"
#include "service/session/session.h"

#include "instance/names.h"
#include "service/pool.h"
#include "service/web/metrics.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES_MAX 10000 /* of one model on one backend */
#define AHEAD 2         /* messages of an upload that may wait for the disk */
#define PIECES_MAX 256  /* of a message that are written together */
#define ARENA_BYTES ((size_t)1 << 20)

struct prn_session_model *prn_model_find_locked(const struct prn_session *session, uint64_t id)
{
    struct prn_session_model *model = session->models;
    while (model && model->id != id)
        model = model->next;
    return model;
}

static void free_model(struct prn_session_model *model, size_t n_backends)
{
    for (size_t i = 0; model->on && i < n_backends; i++) {
        struct prn_model_on *on = &model->on[i];
        for (const struct prn_session_file *file = on->files; file;) {
            const struct prn_session_file *next = file->next;
            prn_blob_release(file->blob);
            free(file->name);
            free((void *)(uintptr_t)file);
            file = next;
        }
        free(on->error);
    }
    free(model->on);
    free(model);
}

void prn_models_free(struct prn_session *session)
{
    for (struct prn_session_model *model = session->models; model;) {
        struct prn_session_model *next = model->next;
        free_model(model, session->n_backends);
        model = next;
    }
    session->models = NULL;
}

static struct prn_session_model *make_model_locked(struct prn_session *session, uint64_t id)
    PRN_HOLDS(prn_service)
{
    struct prn_session_model *model = calloc(1, sizeof *model);
    if (!model)
        return NULL;
    model->id = id;
    model->on = calloc(session->n_backends, sizeof *model->on);
    if (!model->on) {
        free(model);
        return NULL;
    }
    model->next = session->models;
    session->models = model;
    session->n_models++;
    return model;
}

bool prn_skip_mask(struct prn_rpc_call *call, const struct prn_session *session,
                   const uint8_t *mask, size_t length, bool *skip)
{
    size_t n = session->n_backends;
    for (size_t i = 0; i < n; i++)
        skip[i] = i / 8 < length && (mask[i / 8] >> (i % 8) & 1);
    if (length == 0)
        return true;
    bool beyond = length != (n + 7) / 8;
    for (size_t i = n; !beyond && i < 8 * length; i++)
        beyond = mask[i / 8] >> (i % 8) & 1;
    if (beyond)
        prn_refuse(call, PRN_STATUS_INVALID_ARGUMENT,
                   "backends_to_skip_bitmask isn't one of %zu backends", n);
    return !beyond;
}

/* ---- A file becomes a part of a model ---- */

/* What a client says of a file. */
struct component {
    uint64_t model_id, component_id;
    char *name;
    bool skip[PRN_SESSION_BACKENDS_MAX];
};

static int check_component(const struct component *c, struct prony_error *err)
{
    if (c->component_id == 0)
        return prn_fail(err, PRONY_EUSAGE, "model_component_id counts from 1");
    return prn_name_check(c->name, strlen(c->name), err);
}

static bool has_file(const struct prn_model_on *on, const char *name, size_t *ret_n)
{
    bool found = false;
    *ret_n = 0;
    for (const struct prn_session_file *file = on->files; file; file = file->next, ++*ret_n)
        found |= strcmp(file->name, name) == 0;
    return found;
}

static int add_file(struct prn_model_on *on, const char *name, struct prn_blob *blob)
{
    struct prn_session_file *file = calloc(1, sizeof *file);
    char *copy = strdup(name);
    if (!file || !copy) {
        free(file);
        free(copy);
        return PRONY_ENOMEM;
    }
    *file = (struct prn_session_file){.name = copy, .blob = prn_blob_ref(blob), .next = on->files};
    on->files = file;
    return 0;
}

static int attach_file_locked(struct prn_session *session, const struct component *c,
                              struct prn_blob *blob, struct prony_error *err) PRN_HOLDS(prn_service)
{
    const struct prn_config_limits *limits = &session->limits;
    struct prn_session_model *model = prn_model_find_locked(session, c->model_id);
    if (!model && session->n_models >= limits->models_per_session)
        return prn_fail(err, PRONY_ELIMIT, "the session has %zu models, the limit",
                        session->n_models);
    if (!model && !(model = make_model_locked(session, c->model_id)))
        return prn_fail_memory(err);
    if (prn_blob_bytes(blob) > limits->model_bytes - model->bytes)
        return prn_fail(err, PRONY_ELIMIT,
                        "graph %llu: its files take more than %llu bytes, the limit of a model",
                        (unsigned long long)c->model_id, (unsigned long long)limits->model_bytes);
    for (size_t i = 0; i < session->n_backends; i++) {
        size_t n;
        if (c->skip[i])
            continue;
        if (has_file(&model->on[i], c->name, &n))
            return prn_fail(err, PRONY_EUSAGE, "the model has a file '%s' already", c->name);
        if (n >= FILES_MAX)
            return prn_fail(err, PRONY_ELIMIT, "the model has %d files, the limit", FILES_MAX);
    }
    for (size_t i = 0; i < session->n_backends; i++)
        if (!c->skip[i] && add_file(&model->on[i], c->name, blob) < 0)
            return prn_fail_memory(err);
    model->bytes += prn_blob_bytes(blob);
    return 0;
}

int prn_model_attach_locked(struct prn_session *session, uint64_t model_id, char *name,
                            const bool *skip, struct prn_blob *blob, struct prony_error *err)
{
    struct component c = {.model_id = model_id, .component_id = 1, .name = name};
    memcpy(c.skip, skip, session->n_backends * sizeof c.skip[0]);
    int code = check_component(&c, err);
    return code < 0 ? code : attach_file_locked(session, &c, blob, err);
}

/* One entry per backend: attached, or skipped. The two replies have the same shape. */
static void reply_attached(struct prn_rpc_call *call, const struct prn_session *session,
                           const bool *skip, bool cached)
{
    OctomlProfile__LoadModelComponentResult results[PRN_SESSION_BACKENDS_MAX];
    OctomlProfile__LoadModelComponentResult *pointers[PRN_SESSION_BACKENDS_MAX];
    OctomlProfile__LoadModelComponentResultValue value =
        OCTOML_PROFILE__LOAD_MODEL_COMPONENT_RESULT_VALUE__INIT;
    OctomlProfile__LoadModelComponentSkipped skipped =
        OCTOML_PROFILE__LOAD_MODEL_COMPONENT_SKIPPED__INIT;
    OctomlProfile__LoadModelComponentReply reply = OCTOML_PROFILE__LOAD_MODEL_COMPONENT_REPLY__INIT;
    OctomlProfile__LoadCachedModelComponentReply cached_reply =
        OCTOML_PROFILE__LOAD_CACHED_MODEL_COMPONENT_REPLY__INIT;
    for (size_t i = 0; i < session->n_backends; i++) {
        octoml_profile__load_model_component_result__init(&results[i]);
        pointers[i] = &results[i];
        if (skip[i]) {
            results[i].result_case = OCTOML_PROFILE__LOAD_MODEL_COMPONENT_RESULT__RESULT_SKIPPED;
            results[i].skipped = &skipped;
        } else {
            results[i].result_case =
                OCTOML_PROFILE__LOAD_MODEL_COMPONENT_RESULT__RESULT_RESULT_VALUE;
            results[i].result_value = &value;
        }
    }
    reply.n_result_per_backend = cached_reply.n_result_per_backend = session->n_backends;
    reply.result_per_backend = cached_reply.result_per_backend = pointers;
    prn_reply(call, cached ? &cached_reply.base : &reply.base);
}

/* The blob is in the cache: it becomes the session's, if that is still there. Consumes `blob`. */
/* A file of a model: sent, or known by its hash. */
static void audit_file(const struct prn_rpc_call *call, const struct prn_session *session,
                       const struct component *c, const struct prn_blob *blob, bool cached)
{
    char sha256[2 * PRN_SHA256_BYTES + 1];
    prn_text_hex(prn_blob_sha256(blob), PRN_SHA256_BYTES, sha256);
    if (!cached)
        PRN_LOG(session->service->log, PRN_LOG_INFO, "upload",
                PRN_LOG_TEXT("session", session->label), PRN_LOG_TEXT("user", session->owner.user),
                PRN_LOG_TEXT("sha256", sha256), PRN_LOG_INTEGER("bytes", prn_blob_bytes(blob)));
    PRN_AUDIT(session->service->audit, cached ? "cached" : "upload",
              PRN_LOG_TEXT("user", session->owner.user),
              PRN_LOG_TEXT("from", prn_rpc_call_peer(call)),
              PRN_LOG_TEXT("session", session->label), PRN_LOG_INTEGER("model", c->model_id),
              PRN_LOG_TEXT("file", c->name), PRN_LOG_TEXT("sha256", sha256),
              PRN_LOG_INTEGER("bytes", prn_blob_bytes(blob)));
}

static void finish_component(struct prn_rpc_call *call, struct prn_session *session,
                             const struct component *c, struct prn_blob *blob, bool cached)
{
    struct prn_service *s = session->service;
    struct prony_error err;
    prn_service_lock(s);
    if (session->state != PRN_SESSION_READY) {
        prn_refuse(call, PRN_STATUS_FAILED_PRECONDITION, "the session has been closed");
    } else {
        int code = attach_file_locked(session, c, blob, &err);
        if (code < 0)
            prn_refuse(call, prn_status_of(code), "%s", err.text);
        else
            reply_attached(call, session, c->skip, cached);
        if (code == 0)
            audit_file(call, session, c, blob, cached);
        if (code == 0)
            prn_keep_file_locked(session, c->model_id, c->name, blob, c->skip);
    }
    prn_service_unlock(s);
    prn_blob_release(blob);
}

/* ---- Uploads ---- */

struct chunk {
    struct prn_pool_job job;
    struct upload *upload;
    struct prn_bytes *bytes; /* NULL: the client has sent all */
    struct prn_range range;
};

struct upload {
    struct prn_service *service;
    struct prn_rpc_call *call;
    struct prn_identity identity;
    struct prn_session *session; /* NULL before the first message */
    struct component component;
    struct prn_blob_writer *writer;
    struct prn_job_line line;
    size_t references; /* the call's, and each chunk's */
    size_t ahead;      /* chunks that wait for the disk */
    uint64_t received; /* bytes, written or not */
    bool reading;      /* the next message was asked for */
    atomic_bool failed;
};

static void unref_upload_locked(struct upload *u) PRN_HOLDS(prn_service)
{
    if (--u->references > 0)
        return;
    prn_blob_writer_abort(u->writer);
    if (u->session)
        prn_session_unref_locked(u->session);
    free(u->component.name);
    prn_rpc_call_unref(u->call);
    free(u);
}

static void fail_upload(struct upload *u, enum prn_status status, const char *text)
{
    u->failed = true;
    prn_refuse(u->call, status, "%s", text);
}

void prn_upload_begin(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    struct prn_identity identity;
    prn_bytes_free(message);
    if (!prn_access(call, &identity))
        return;
    struct upload *u = calloc(1, sizeof *u);
    if (!u) {
        prn_refuse(call, PRN_STATUS_RESOURCE_EXHAUSTED, "the service is out of memory");
        return;
    }
    *u = (struct upload){.service = s,
                         .call = prn_rpc_call_ref(call),
                         .identity = identity,
                         .references = 1,
                         .reading = true};
    prn_rpc_call_set_data(call, u);
    prn_rpc_call_read(call);
}

static int write_pieces(struct upload *u, const struct chunk *chunk, struct prony_error *err)
{
    struct iovec pieces[PIECES_MAX];
    struct prn_range rest = chunk->range;
    while (rest.length > 0) {
        size_t n = 0;
        const void *data;
        while (n < PIECES_MAX && prn_bytes_next(chunk->bytes, &rest, &data, &pieces[n].iov_len))
            pieces[n++].iov_base = (void *)(uintptr_t)data;
        int code = prn_blob_writer_write(u->writer, pieces, n, err);
        if (code < 0)
            return code;
    }
    return 0;
}

static void finish_upload(struct upload *u)
{
    struct prn_blob *blob;
    struct prony_error err;
    uint64_t bytes = prn_blob_writer_bytes(u->writer);
    int code = prn_blob_writer_finish(u->writer, NULL, &blob, &err);
    u->writer = NULL;
    if (code < 0) {
        fail_upload(u, prn_status_of(code), err.text);
        return;
    }
    prn_meter_add(u->service->counted.uploads, 1);
    prn_meter_add(u->service->counted.uploaded, (double)bytes);
    finish_component(u->call, u->session, &u->component, blob, false);
}

/* One chunk after the other, by the pool. */
static void run_chunk(struct prn_pool_job *job)
{
    struct chunk *chunk = (struct chunk *)job;
    struct upload *u = chunk->upload;
    struct prn_service *s = u->service;
    struct prony_error err;
    if (!u->failed && !prn_rpc_call_over(u->call)) {
        int code = chunk->bytes ? write_pieces(u, chunk, &err) : 0;
        if (code < 0)
            fail_upload(u, prn_status_of(code), err.text);
        else if (!chunk->bytes)
            finish_upload(u);
    }
    prn_bytes_free(chunk->bytes);
    prn_service_lock(s);
    u->ahead--;
    bool read = !u->reading && !u->failed && u->ahead < AHEAD;
    u->reading |= read;
    if (read)
        prn_rpc_call_read(u->call);
    prn_service_unlock(s);
}

static void chunk_over(struct prn_pool_job *job)
{
    struct chunk *chunk = (struct chunk *)job;
    struct upload *u = chunk->upload;
    struct prn_service *s = u->service;
    free(chunk);
    prn_service_lock(s);
    unref_upload_locked(u);
    prn_service_unlock(s);
}

/* The first message says what it is. */
static bool begin_upload_locked(struct upload *u, const struct prn_rpc_component *first)
    PRN_HOLDS(prn_service)
{
    struct prn_service *s = u->service;
    struct component *c = &u->component;
    struct prony_error err;
    if (!first->first) {
        fail_upload(u, PRN_STATUS_INVALID_ARGUMENT,
                    "the first message lacks the session, the model or the file's name");
        return false;
    }
    struct prn_session *session = prn_session_find_ready_locked(
        s, u->call, &u->identity, first->session, PRN_SESSION_ID_BYTES);
    if (!session) {
        u->failed = true;
        return false;
    }
    c->model_id = first->model_id;
    c->component_id = first->component_id;
    c->name = strdup(first->filename);
    int code = c->name ? check_component(c, &err) : prn_fail_memory(&err);
    if (code == 0)
        code = prn_blob_writer_new(s->blobs, &u->writer, &err);
    if (code < 0) {
        fail_upload(u, prn_status_of(code), err.text);
        return false;
    }
    if (!prn_skip_mask(u->call, session, first->skip, first->n_skip, c->skip)) {
        u->failed = true;
        return false;
    }
    u->session = prn_session_ref_locked(session);
    prn_session_enter_locked(session);
    return true;
}

/* Takes the message apart and hands its data to the pool. */
static void take_message_locked(struct upload *u, struct prn_bytes *message) PRN_HOLDS(prn_service)
{
    struct prn_arena arena = PRN_ARENA_INIT(ARENA_BYTES);
    struct prn_rpc_component component = {0};
    struct prony_error err;
    struct chunk *chunk = calloc(1, sizeof *chunk);
    int code = chunk ? 0 : prn_fail_memory(&err);
    if (code == 0 && message)
        code = prn_rpc_read_component(message, &arena, &component, &err);
    if (code < 0)
        fail_upload(u, prn_status_of(code), err.text);
    else if (!message && !u->session)
        fail_upload(u, PRN_STATUS_INVALID_ARGUMENT, "there was no message");
    else if (message && u->session && component.first)
        fail_upload(u, PRN_STATUS_INVALID_ARGUMENT, "only the first message may name the file");
    else if (message && !u->session)
        begin_upload_locked(u, &component);
    if (!u->failed && message &&
        (u->received += component.chunk.length) > u->session->limits.model_bytes)
        fail_upload(u, PRN_STATUS_RESOURCE_EXHAUSTED, "the file is larger than a model may be");
    prn_arena_release(&arena);
    if (u->failed) {
        prn_bytes_free(message);
        free(chunk);
        return;
    }
    *chunk = (struct chunk){.job = {.run = run_chunk, .over = chunk_over},
                            .upload = u,
                            .bytes = message,
                            .range = component.chunk};
    u->references++;
    u->ahead++;
    prn_pool_add(u->service->pool, &u->line, &chunk->job);
}

void prn_upload_message(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct upload *u = prn_rpc_call_data(call);
    struct prn_service *s = prn_rpc_call_service(call);
    if (!u) {
        prn_bytes_free(message);
        return;
    }
    prn_service_lock(s);
    u->reading = false;
    bool more = message != NULL;
    if (u->session)
        prn_session_live_locked(u->session);
    if (!u->failed)
        take_message_locked(u, message);
    else
        prn_bytes_free(message);
    /* The next one may arrive while this one is written. */
    if (more && !u->failed && u->ahead < AHEAD) {
        u->reading = true;
        prn_rpc_call_read(call);
    }
    if (!more)
        u->reading = true; /* nothing is left to be asked for */
    prn_service_unlock(s);
}

void prn_upload_ended(struct prn_rpc_call *call, bool cancelled)
{
    struct upload *u = prn_rpc_call_data(call);
    struct prn_service *s = prn_rpc_call_service(call);
    if (!u)
        return;
    prn_service_lock(s);
    if (u->session)
        prn_session_exit_locked(u->session, cancelled);
    unref_upload_locked(u);
    prn_service_unlock(s);
}

/* ---- From the cache ---- */

struct lookup {
    struct prn_pool_job job;
    struct prn_job_line line;
    struct prn_service *service;
    struct prn_rpc_call *call;
    struct prn_session *session;
    struct component component;
    uint8_t sha256[PRN_SHA256_BYTES];
};

static void run_lookup(struct prn_pool_job *job)
{
    struct lookup *l = (struct lookup *)job;
    struct prn_service *s = l->service;
    struct prn_blob *blob;
    struct prony_error err;
    int code = prn_blobs_find(s->blobs, l->sha256, &blob, &err);
    if (code == PRONY_ENOENT)
        prn_refuse(l->call, PRN_STATUS_NOT_FOUND, "the service doesn't have this file; upload it");
    else if (code < 0)
        prn_refuse(l->call, prn_status_of(code), "%s", err.text);
    else
        finish_component(l->call, l->session, &l->component, blob, true);
    prn_service_lock(s);
    prn_session_exit_locked(l->session, false);
    prn_session_unref_locked(l->session);
    prn_service_unlock(s);
}

static void lookup_over(struct prn_pool_job *job)
{
    struct lookup *l = (struct lookup *)job;
    prn_rpc_call_unref(l->call);
    free(l->component.name);
    free(l);
}

static void begin_lookup_locked(struct prn_service *s, struct prn_rpc_call *call,
                                struct prn_session *session,
                                const OctomlProfile__LoadCachedModelComponentRequest *q)
    PRN_HOLDS(prn_service)
{
    struct lookup *l = calloc(1, sizeof *l);
    struct prony_error err;
    int code = l ? 0 : prn_fail_memory(&err);
    if (code == 0) {
        l->component = (struct component){.model_id = q->model_id,
                                          .component_id = q->model_component_id,
                                          .name = strdup(q->filename)};
        code = l->component.name ? check_component(&l->component, &err) : prn_fail_memory(&err);
    }
    if (code == 0 && q->sha256_hash.len != PRN_SHA256_BYTES)
        code = prn_fail(&err, PRONY_EUSAGE, "sha256_hash has %zu bytes instead of %d",
                        q->sha256_hash.len, PRN_SHA256_BYTES);
    bool valid = code == 0 && prn_skip_mask(call, session, q->backends_to_skip_bitmask.data,
                                            q->backends_to_skip_bitmask.len, l->component.skip);
    if (code < 0)
        prn_refuse(call, prn_status_of(code), "%s", err.text);
    if (!valid) {
        if (l)
            free(l->component.name);
        free(l);
        return;
    }
    memcpy(l->sha256, q->sha256_hash.data, PRN_SHA256_BYTES);
    l->job.run = run_lookup;
    l->job.over = lookup_over;
    l->service = s;
    l->call = prn_rpc_call_ref(call);
    l->session = prn_session_ref_locked(session);
    prn_session_enter_locked(session);
    prn_pool_add(s->pool, &l->line, &l->job);
}

void prn_load_cached(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_service *s = prn_rpc_call_service(call);
    struct prn_identity identity;
    OctomlProfile__LoadCachedModelComponentRequest *q = prn_request(
        call, message, &octoml_profile__load_cached_model_component_request__descriptor, &identity);
    if (!q)
        return;
    prn_service_lock(s);
    struct prn_session *session = prn_session_find_ready_locked(
        s, call, &identity, q->session_uuid.data, q->session_uuid.len);
    if (session)
        begin_lookup_locked(s, call, session, q);
    prn_service_unlock(s);
    protobuf_c_message_free_unpacked(&q->base, NULL);
}

/* ---- Folders ---- */

/* The file among them that is the model; NULL: none. */
static const struct prn_session_file *main_file_of(const struct prn_session_file *files, int format)
{
    const char *wanted =
        format == OCTOML_PROFILE__MODEL_FORMAT__MODEL_FORMAT_FXPROTO ? "model.dat" : "model.onnx";
    const struct prn_session_file *only = NULL;
    size_t n = 0;
    for (const struct prn_session_file *file = files; file; file = file->next) {
        const char *ending = strrchr(file->name, '.');
        if (strcmp(file->name, wanted) == 0)
            return file;
        if (ending && strcmp(ending, strrchr(wanted, '.')) == 0) {
            only = file;
            n++;
        }
    }
    return n == 1 ? only : NULL;
}

int prn_session_folder_locked(struct prn_session *session, struct prony_error *err)
{
    if (session->folder_fd >= 0)
        return 0;
    return prn_folder_make(session->service->sessions_fd, session->name, &session->folder_fd, err);
}

int prn_model_place(const struct prn_session *session, const struct prn_session_file *files,
                    uint64_t model_id, size_t backend, int format, char ret_path[PATH_MAX],
                    struct prony_error *err)
{
    const struct prn_session_file *main_file = main_file_of(files, format);
    int folder_fd;
    const char *last;
    char name[64];
    if (!main_file)
        return prn_fail(err, PRONY_EUSAGE, "none of the model's files is the model itself, '%s'",
                        format == OCTOML_PROFILE__MODEL_FORMAT__MODEL_FORMAT_FXPROTO
                            ? "model.dat"
                            : "model.onnx");
    /* The folder in front of a name is made when it isn't there. */
    snprintf(name, sizeof name, "%llu/%zu/-", (unsigned long long)model_id, backend);
    int code = prn_name_folder(session->folder_fd, name, &folder_fd, &last, err);
    if (code < 0)
        return code;
    for (const struct prn_session_file *file = files; file && code == 0; file = file->next) {
        struct prony_error fault;
        int linked = prn_blob_link(file->blob, folder_fd, file->name, &fault);
        /* One that is there was put there before: names and blobs of a model don't change. */
        if (linked < 0 && linked != PRONY_EUSAGE)
            code = prn_fail(err, linked, "%s", fault.text);
    }
    close(folder_fd);
    if (code == 0 &&
        snprintf(ret_path, PATH_MAX, "%s/%s/%llu/%zu/%s", session->service->sessions_folder,
                 session->name, (unsigned long long)model_id, backend, main_file->name) >= PATH_MAX)
        code = prn_fail(err, PRONY_ELIMIT, "the model's name is too long");
    return code;
}
