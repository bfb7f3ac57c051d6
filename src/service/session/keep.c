/*
 * Sessions that outlive the process. What their clients asked for is written beside the work, in
 * its order, and read at the next start: sessions get their places and hosts again, the files of
 * their models come from the cache, and models are loaded before anything else is done.
 */
#include "service/host/host.h"

#include "base/clock.h"
#include "service/pool.h"
#include "service/store/lasting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Writing ---- */

enum note_kind { NOTE_OPEN, NOTE_READY, NOTE_FILE, NOTE_LOAD, NOTE_END };

struct note {
    struct prn_pool_job job;
    struct prn_service *service;
    enum note_kind kind;
    uint8_t id[PRN_SESSION_ID_BYTES];
    struct prn_identity owner;
    int64_t created_ms, ready_ms;
    size_t bytes;
    uint8_t request[];
};

static void write_note(struct prn_pool_job *job)
{
    struct note *n = (struct note *)job;
    struct prn_lasting *live = n->service->lasting;
    struct prony_error err;
    const struct prn_lasting_session opened = {.id = n->id,
                                               .user = n->owner.user,
                                               .role = (int)n->owner.role,
                                               .created_ms = n->created_ms,
                                               .request = n->request,
                                               .bytes = n->bytes};
    int code = n->kind == NOTE_OPEN    ? prn_lasting_open(live, &opened, &err)
               : n->kind == NOTE_READY ? prn_lasting_ready(live, n->id, n->ready_ms, &err)
               : n->kind == NOTE_END
                   ? prn_lasting_end(live, n->id, &err)
                   : prn_lasting_add(live, n->id,
                                     n->kind == NOTE_FILE ? PRN_LASTING_FILE : PRN_LASTING_LOAD,
                                     n->request, n->bytes, &err);
    if (code < 0)
        PRN_LOG(n->service->log, PRN_LOG_ERROR, "session.keep", PRN_LOG_TEXT("error", err.text));
}

static void note_over(struct prn_pool_job *job)
{
    free(job);
}

/* One line for all, so that each session's are in order. What can't be noted isn't kept. */
static void note_locked(const struct prn_session *session, enum note_kind kind,
                        const ProtobufCMessage *request) PRN_HOLDS(prn_service)
{
    struct prn_service *s = session->service;
    size_t bytes = request ? protobuf_c_message_get_packed_size(request) : 0;
    struct note *n = s->lasting ? malloc(sizeof *n + bytes) : NULL;
    if (!n)
        return;
    *n = (struct note){.job = {.run = write_note, .over = note_over},
                       .service = s,
                       .kind = kind,
                       .owner = session->owner,
                       .created_ms = session->created_ms,
                       .ready_ms = session->ready_ms,
                       .bytes = bytes};
    memcpy(n->id, session->id, sizeof n->id);
    if (request)
        protobuf_c_message_pack(request, n->request);
    prn_pool_add(s->pool, &s->lasting_line, &n->job);
}

void prn_keep_open_locked(const struct prn_session *session,
                          const OctomlProfile__CreateSessionRequest *request)
{
    OctomlProfile__CreateSessionRequest copy = *request;
    copy.has_session_uuid = true;
    copy.session_uuid =
        (ProtobufCBinaryData){PRN_SESSION_ID_BYTES, (uint8_t *)(uintptr_t)session->id};
    note_locked(session, NOTE_OPEN, &copy.base);
}

void prn_keep_ready_locked(const struct prn_session *session)
{
    note_locked(session, NOTE_READY, NULL);
}

void prn_keep_file_locked(const struct prn_session *session, uint64_t model_id, const char *name,
                          const struct prn_blob *blob, const bool *skip)
{
    OctomlProfile__LoadCachedModelComponentRequest request =
        OCTOML_PROFILE__LOAD_CACHED_MODEL_COMPONENT_REQUEST__INIT;
    uint8_t mask[(PRN_SESSION_BACKENDS_MAX + 7) / 8] = {0};
    for (size_t i = 0; i < session->n_backends; i++)
        mask[i / 8] |= (uint8_t)(skip[i] << (i % 8));
    request.session_uuid =
        (ProtobufCBinaryData){PRN_SESSION_ID_BYTES, (uint8_t *)(uintptr_t)session->id};
    request.model_id = model_id;
    request.model_component_id = 1;
    request.sha256_hash =
        (ProtobufCBinaryData){PRN_SHA256_BYTES, (uint8_t *)(uintptr_t)prn_blob_sha256(blob)};
    request.filename = (char *)(uintptr_t)name;
    request.has_backends_to_skip_bitmask = true;
    request.backends_to_skip_bitmask = (ProtobufCBinaryData){(session->n_backends + 7) / 8, mask};
    note_locked(session, NOTE_FILE, &request.base);
}

void prn_keep_load_locked(const struct prn_session *session,
                          const OctomlProfile__LoadModelRequest *request)
{
    note_locked(session, NOTE_LOAD, &request->base);
}

void prn_keep_end_locked(const struct prn_session *session)
{
    note_locked(session, NOTE_END, NULL);
}

/* ---- Reading ---- */

static int take_file(struct prn_session *session, const void *data, size_t bytes,
                     struct prony_error *err) PRN_ALONE
{
    struct prn_blob *blob = NULL;
    bool skip[PRN_SESSION_BACKENDS_MAX];
    OctomlProfile__LoadCachedModelComponentRequest *q =
        octoml_profile__load_cached_model_component_request__unpack(NULL, bytes, data);
    if (!q || q->sha256_hash.len != PRN_SHA256_BYTES) {
        if (q)
            octoml_profile__load_cached_model_component_request__free_unpacked(q, NULL);
        return prn_fail(err, PRONY_EFORMAT, "what is kept of it is damaged");
    }
    for (size_t i = 0; i < session->n_backends; i++)
        skip[i] = i / 8 < q->backends_to_skip_bitmask.len &&
                  (q->backends_to_skip_bitmask.data[i / 8] >> (i % 8) & 1);
    int code = prn_blobs_find(session->service->blobs, q->sha256_hash.data, &blob, err);
    if (code == 0)
        code = prn_model_attach_locked(session, q->model_id, q->filename, skip, blob, err);
    prn_blob_release(blob);
    octoml_profile__load_cached_model_component_request__free_unpacked(q, NULL);
    return code;
}

/* Loads wait until it has its hosts. */
static int take_load(struct prn_session *session, const void *data, size_t bytes,
                     struct prony_error *err)
{
    struct prn_reload *load = calloc(1, sizeof *load);
    struct prn_reload **end = &session->reloads;
    if (load)
        load->request = octoml_profile__load_model_request__unpack(NULL, bytes, data);
    if (!load || !load->request) {
        free(load);
        return prn_fail(err, PRONY_EFORMAT, "what is kept of it is damaged");
    }
    while (*end)
        end = &(*end)->next;
    *end = load;
    return 0;
}

struct part_reader {
    struct prn_session *session;
    struct prony_error err;
};

static int take_part(enum prn_lasting_kind kind, const void *data, size_t bytes, void *opaque)
{
    struct part_reader *r = opaque;
    return kind == PRN_LASTING_FILE ? take_file(r->session, data, bytes, &r->err)
                                    : take_load(r->session, data, bytes, &r->err);
}

/* A copy of the rows: what reads a session's parts can't run inside of the query for sessions. */
struct kept_session {
    uint8_t id[PRN_SESSION_ID_BYTES];
    struct prn_identity owner;
    int64_t created_ms, ready_ms;
    OctomlProfile__CreateSessionRequest *request;
    struct kept_session *next;
};

static int copy_session(const struct prn_lasting_session *row, void *opaque)
{
    struct kept_session ***end = opaque;
    struct kept_session *k = calloc(1, sizeof *k);
    if (!k)
        return PRONY_ENOMEM;
    memcpy(k->id, row->id, sizeof k->id);
    snprintf(k->owner.user, sizeof k->owner.user, "%s", row->user);
    k->owner.role = (enum prn_role)row->role;
    k->created_ms = row->created_ms;
    k->ready_ms = row->ready_ms;
    k->request = octoml_profile__create_session_request__unpack(NULL, row->bytes, row->request);
    **end = k;
    *end = &k->next;
    return 0;
}

static int restore_locked(struct prn_service *s, const struct kept_session *k,
                          struct prony_error *err) PRN_HOLDS(prn_service)
{
    struct prn_session *session = NULL;
    if (!k->request)
        return prn_fail(err, PRONY_EFORMAT, "what is kept of it is damaged");
    int code = prn_session_restore_locked(s, k->request, &k->owner, k->created_ms, k->ready_ms,
                                          &session, err);
    if (code < 0)
        return code;
    struct part_reader reader = {.session = session};
    code = prn_lasting_parts(s->lasting, k->id, take_part, &reader, err);
    if (code < 0) {
        prn_session_close_locked(session, "its files did not survive a restart of the service");
        return 0;
    }
    return 0;
}

int prn_keep_restore_locked(struct prn_service *s, struct prony_error *err)
{
    struct kept_session *all = NULL;
    struct kept_session **end = &all;
    size_t n = 0;
    int code = s->lasting ? prn_lasting_sessions(s->lasting, copy_session, &end, err) : 0;
    while (all) {
        struct kept_session *k = all;
        struct prony_error why;
        all = k->next;
        int restored = code == 0 ? restore_locked(s, k, &why) : 0;
        n += code == 0 && restored == 0;
        if (restored < 0) {
            PRN_LOG(s->log, PRN_LOG_WARNING, "session.lost", PRN_LOG_TEXT("user", k->owner.user),
                    PRN_LOG_TEXT("error", why.text));
            if (prn_lasting_end(s->lasting, k->id, &why) < 0)
                PRN_LOG(s->log, PRN_LOG_ERROR, "session.keep", PRN_LOG_TEXT("error", why.text));
        }
        if (k->request)
            octoml_profile__create_session_request__free_unpacked(k->request, NULL);
        free(k);
    }
    if (n > 0)
        PRN_LOG(s->log, PRN_LOG_INFO, "sessions.restored", PRN_LOG_INTEGER("sessions", n));
    return code == PRONY_ENOMEM ? prn_fail_memory(err) : code;
}
