/*
 * Models on their way to a service. A file is mapped, hashed once and offered by its hash; only
 * what the service doesn't have is sent, in pieces that gRPC takes straight from the map.
 */
#include "rpc/remote_parts.h"

#include "base/array.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define CHUNK_BYTES ((size_t)1 << 20)
#define CHUNK_S 60.0  /* for one piece to get under way */
#define STORED_S 300. /* for the service to have it all on its disk */
#define NAME_MAX_BYTES 4096

/* A file while it is sent. */
struct blob {
    const struct prn_remote_file *file;
    const unsigned char *data;
    size_t bytes;
    bool mapped;
    uint8_t sha256[PRN_REMOTE_HASH_BYTES];
};

/* ---- Hashes ---- */

static int hash(const void *data, size_t bytes, uint8_t sha256[PRN_REMOTE_HASH_BYTES],
                struct prony_error *err)
{
    unsigned length = 0;
    if (EVP_Digest(data, bytes, sha256, &length, EVP_sha256(), NULL) != 1 ||
        length != PRN_REMOTE_HASH_BYTES)
        return prn_fail(err, PRONY_ENOMEM, "SHA-256 can't be computed here");
    return 0;
}

/* A file that hasn't changed keeps its hash for the session. */
static int hash_file(struct prn_remote *r, struct blob *b, const struct stat *status,
                     struct prony_error *err)
{
    struct prn_remote_hash key = {
        .device = status->st_dev,
        .inode = status->st_ino,
        .bytes = b->bytes,
        .changed_ns = (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec,
    };
    for (size_t i = 0; i < r->n_hashes; i++) {
        const struct prn_remote_hash *h = &r->hashes[i];
        if (h->device == key.device && h->inode == key.inode && h->bytes == key.bytes &&
            h->changed_ns == key.changed_ns) {
            memcpy(b->sha256, h->sha256, sizeof b->sha256);
            return 0;
        }
    }
    int code = hash(b->data, b->bytes, b->sha256, err);
    if (code < 0)
        return code;
    struct prn_remote_hash *hashes = prn_array_grow(r->hashes, r->n_hashes, sizeof *hashes);
    if (!hashes)
        return prn_fail_memory(err);
    memcpy(key.sha256, b->sha256, sizeof key.sha256);
    r->hashes = hashes;
    hashes[r->n_hashes++] = key;
    return 0;
}

static int open_blob(struct prn_remote *r, const struct prn_remote_file *file,
                     struct blob *ret_blob, struct prony_error *err)
{
    struct blob b = {.file = file, .data = file->data, .bytes = file->bytes};
    struct stat status;
    int code = 0;
    if (file->fd >= 0) {
        if (fstat(file->fd, &status) < 0)
            return prn_fail_errno(err, errno, "read", file->name);
        b.bytes = (size_t)status.st_size;
        b.data = NULL;
        if (b.bytes > 0) {
            void *map = mmap(NULL, b.bytes, PROT_READ, MAP_PRIVATE, file->fd, 0);
            if (map == MAP_FAILED)
                return prn_fail_errno(err, errno, "map", file->name);
            b.data = map;
            b.mapped = true;
        }
    }
    if (file->sha256)
        memcpy(b.sha256, file->sha256, sizeof b.sha256);
    else if (file->fd >= 0)
        code = hash_file(r, &b, &status, err);
    else
        code = hash(b.data, b.bytes, b.sha256, err);
    if (code < 0 && b.mapped)
        munmap((void *)(uintptr_t)b.data, b.bytes);
    else if (code == 0)
        *ret_blob = b;
    return code;
}

static void close_blob(struct blob *b)
{
    if (b->mapped)
        munmap((void *)(uintptr_t)b->data, b->bytes);
}

/* ---- Components ---- */

static int take_results(const struct prn_remote *r,
                        OctomlProfile__LoadModelComponentResult *const *results, size_t n,
                        struct prony_error *failures, struct prony_error *err)
{
    if (n != r->n_backends)
        return prn_remote_odd(r, "for another number of backends", err);
    for (size_t i = 0; i < n; i++)
        if (results[i]->result_case ==
                OCTOML_PROFILE__LOAD_MODEL_COMPONENT_RESULT__RESULT_ERROR_VALUE &&
            failures[i].code == 0)
            prn_fail(&failures[i], prn_remote_error_code((int)results[i]->error_value->code), "%s",
                     results[i]->error_value->message);
    return 0;
}

/* PRONY_ENOENT: the service doesn't have it. */
static int offer(struct prn_remote *r, const struct prn_remote_model *model, struct blob *b,
                 struct prony_error *failures, struct prony_error *err)
{
    OctomlProfile__LoadCachedModelComponentRequest request =
        OCTOML_PROFILE__LOAD_CACHED_MODEL_COMPONENT_REQUEST__INIT;
    char name[NAME_MAX_BYTES];
    ProtobufCMessage *message = NULL;
    snprintf(name, sizeof name, "%s", b->file->name);
    request.session_uuid = (ProtobufCBinaryData){sizeof r->session, r->session};
    request.model_id = model->id;
    request.model_component_id = model->components;
    request.sha256_hash = (ProtobufCBinaryData){sizeof b->sha256, b->sha256};
    request.filename = name;
    request.has_backends_to_skip_bitmask = b->file->skip != NULL;
    request.backends_to_skip_bitmask =
        (ProtobufCBinaryData){b->file->n_skip, (uint8_t *)(uintptr_t)b->file->skip};
    int code = prn_remote_call(r, PRN_REMOTE_METHOD("LoadCachedModelComponent"), &request.base,
                               &octoml_profile__load_cached_model_component_reply__descriptor,
                               PRN_REMOTE_CALL_S, &message, NULL, err);
    if (code < 0)
        return code;
    const OctomlProfile__LoadCachedModelComponentReply *reply =
        (const OctomlProfile__LoadCachedModelComponentReply *)message;
    code = take_results(r, reply->result_per_backend, reply->n_result_per_backend, failures, err);
    protobuf_c_message_free_unpacked(message, NULL);
    return code;
}

static void tell(const struct prn_remote *r, const struct blob *b, size_t done)
{
    if (r->config.uploading)
        r->config.uploading(r->config.context, b->file->name, done, b->bytes);
}

static int send_chunks(struct prn_remote *r, const struct prn_remote_model *model,
                       const struct blob *b, struct prn_stream *stream, struct prn_loan *loan,
                       struct prony_error *err)
{
    struct prn_rpc_component head = {
        .first = true,
        .model_id = model->id,
        .component_id = model->components,
        .filename = b->file->name,
        .n_skip = b->file->n_skip,
        .skip = (uint8_t *)(uintptr_t)b->file->skip,
    };
    memcpy(head.session, r->session, sizeof head.session);
    size_t done = 0;
    do {
        size_t now = b->bytes - done < CHUNK_BYTES ? b->bytes - done : CHUNK_BYTES;
        prn_loan_take(loan);
        struct prn_out *out = prn_rpc_write_component(&head, now > 0 ? b->data + done : NULL, now,
                                                      prn_loan_return, loan);
        int code = prn_stream_send(stream, out, CHUNK_S, err);
        if (code < 0)
            return code;
        done += now;
        head = (struct prn_rpc_component){.first = false};
        tell(r, b, done);
    } while (done < b->bytes);
    return prn_stream_end(stream, err);
}

static int receive_stored(struct prn_remote *r, struct prn_stream *stream,
                          struct prony_error *failures, struct prony_error *err)
{
    struct prn_bytes *bytes = NULL;
    ProtobufCMessage *message = NULL;
    int code = prn_stream_receive(stream, STORED_S, &bytes, err);
    if (code == 0 && !bytes)
        return prn_remote_odd(r, "without saying what became of a file", err);
    if (code == 0)
        code = prn_rpc_unpack(bytes, &octoml_profile__load_model_component_reply__descriptor,
                              &message, err);
    prn_bytes_free(bytes);
    if (code < 0)
        return code;
    const OctomlProfile__LoadModelComponentReply *reply =
        (const OctomlProfile__LoadModelComponentReply *)message;
    code = take_results(r, reply->result_per_backend, reply->n_result_per_backend, failures, err);
    protobuf_c_message_free_unpacked(message, NULL);
    return code;
}

static int send_once(struct prn_remote *r, const struct prn_remote_model *model,
                     const struct blob *b, struct prony_error *failures, struct prony_error *err)
{
    struct prn_loan loan = PRN_LOAN_INIT;
    struct prn_stream *stream = NULL;
    int code = prn_stream_open(r->calls, PRN_REMOTE_METHOD("LoadModelComponent"), 0, &stream, err);
    if (code == 0)
        code = send_chunks(r, model, b, stream, &loan, err);
    if (code == 0)
        code = receive_stored(r, stream, failures, err);
    prn_stream_free(stream);
    prn_loan_settle(&loan);
    return code;
}

static int upload_blob(struct prn_remote *r, const struct prn_remote_model *model, struct blob *b,
                       struct prony_error *failures, struct prony_error *err)
{
    struct prony_error fault;
    int64_t since_ns = 0;
    int code = offer(r, model, b, failures, &fault);
    if (code == 0) {
        tell(r, b, b->bytes);
        return 0;
    }
    if (code != PRONY_ENOENT)
        return prn_fail(err, code, "%s", fault.text);
    tell(r, b, 0);
    /* The same bytes under the same number: sending them again changes nothing. */
    do
        code = send_once(r, model, b, failures, err);
    while (code < 0 && prn_remote_again(r, code, &since_ns));
    return code;
}

int prn_remote_upload(struct prn_remote *r, struct prn_remote_model *model,
                      const struct prn_remote_file *files, size_t n, struct prony_error *failures,
                      struct prony_error *err)
{
    if (model->id == 0)
        model->id = ++r->last_model;
    for (size_t i = 0; i < n; i++) {
        struct blob b;
        if (strlen(files[i].name) >= NAME_MAX_BYTES)
            return prn_fail(err, PRONY_ELIMIT, "the name of a file is too long");
        int code = open_blob(r, &files[i], &b, err);
        if (code < 0)
            return code;
        model->components++;
        code = upload_blob(r, model, &b, failures, err);
        close_blob(&b);
        if (code < 0)
            return prn_fail_in(err, code, "sending '%.200s'", files[i].name);
    }
    return 0;
}

/* ---- Loading ---- */

static int take_loaded(const OctomlProfile__LoadModelResult *from, struct prn_arena *arena,
                       struct prn_remote_loaded *to, struct prony_error *err)
{
    *to = (struct prn_remote_loaded){.load_ns = -1};
    const char *error = NULL;
    if (from->result_case == OCTOML_PROFILE__LOAD_MODEL_RESULT__RESULT_ERROR_VALUE) {
        to->error_code = prn_remote_error_code((int)from->error_value->code);
        error = from->error_value->message;
    } else if (from->result_case == OCTOML_PROFILE__LOAD_MODEL_RESULT__RESULT_SKIPPED) {
        to->skipped = true;
        to->error_code = PRONY_EUNSUPPORTED;
        error = "this model isn't for it";
    } else if (from->result_case == OCTOML_PROFILE__LOAD_MODEL_RESULT__RESULT_RESULT_VALUE) {
        const OctomlProfile__LoadModelResultValue *value = from->result_value;
        to->load_ns =
            value->has_load_ns && value->load_ns <= INT64_MAX ? (int64_t)value->load_ns : -1;
        to->version =
            value->runtime_version ? prn_arena_strdup(arena, value->runtime_version) : NULL;
        to->sandbox = value->sandbox ? prn_arena_strdup(arena, value->sandbox) : NULL;
    } else {
        to->error_code = PRONY_ERUNTIME;
        error = "the service says nothing about it";
    }
    to->error = error ? prn_arena_strdup(arena, error) : NULL;
    return error && !to->error ? prn_fail_memory(err) : 0;
}

int prn_remote_load(struct prn_remote *r, const struct prn_remote_load *load,
                    struct prn_arena *arena, struct prn_remote_loaded *loaded,
                    struct prony_error *err)
{
    OctomlProfile__LoadModelRequest request = OCTOML_PROFILE__LOAD_MODEL_REQUEST__INIT;
    ProtobufCMessage *message = NULL;
    request.session_uuid = (ProtobufCBinaryData){sizeof r->session, r->session};
    request.model_id = load->model;
    request.model_format = (OctomlProfile__ModelFormat)load->format;
    request.n_input_names = load->n_input_names;
    request.input_names = (char **)(uintptr_t)load->input_names;
    request.n_output_names = load->n_output_names;
    request.output_names = (char **)(uintptr_t)load->output_names;
    request.has_backends_to_skip_bitmask = load->skip != NULL;
    request.backends_to_skip_bitmask =
        (ProtobufCBinaryData){load->n_skip, (uint8_t *)(uintptr_t)load->skip};
    int code = prn_remote_call(r, PRN_REMOTE_METHOD("LoadModel"), &request.base,
                               &octoml_profile__load_model_reply__descriptor,
                               PRN_REMOTE_CALL_S + load->timeout_s * (double)r->n_backends,
                               &message, NULL, err);
    if (code < 0)
        return code;
    const OctomlProfile__LoadModelReply *reply = (const OctomlProfile__LoadModelReply *)message;
    if (reply->n_result_per_backend != r->n_backends)
        code = prn_remote_odd(r, "for another number of backends", err);
    for (size_t i = 0; code == 0 && i < r->n_backends; i++)
        code = take_loaded(reply->result_per_backend[i], arena, &loaded[i], err);
    protobuf_c_message_free_unpacked(message, NULL);
    return code;
}
