#include "rpc/call.h"

#include "base/clock.h"

#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Open calls of all clients together. */
#define CALLS_MAX ((size_t)16 << 10)
/* Text of a status: it travels as metadata, of which clients take 8 KiB. */
#define TEXT_MAX ((size_t)2 << 10)

#define BIT(event) (1u << (event))

static void call_free(struct prn_rpc_call *call)
{
    grpc_metadata_array_destroy(&call->received);
    grpc_slice_unref(call->details.method);
    grpc_slice_unref(call->details.host);
    if (call->message)
        grpc_byte_buffer_destroy(call->message);
    if (call->last)
        grpc_byte_buffer_destroy(call->last);
    for (size_t i = 0; i < call->n_metadata; i++) {
        grpc_slice_unref(call->metadata[i].key);
        grpc_slice_unref(call->metadata[i].value);
    }
    free(call->metadata);
    grpc_slice_unref(call->status_text);
    gpr_free(call->peer);
    free(call->entries);
    free(call->text);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

struct prn_rpc_call *prn_rpc_call_ref(struct prn_rpc_call *call)
{
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
    return call;
}

void prn_rpc_call_unref(struct prn_rpc_call *call)
{
    if (atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) == 1)
        call_free(call);
}

void prn_call_request(struct prn_server *server, const struct prn_call_slot *slot)
{
    struct prn_rpc_call *call = calloc(1, sizeof *call);
    /* Without memory this method takes one call less at a time. */
    if (!call)
        return;
    call->server = server;
    call->slot = slot;
    call->method = slot->method;
    atomic_init(&call->refs, 1);
    grpc_metadata_array_init(&call->received);
    call->details.method = grpc_empty_slice();
    call->details.host = grpc_empty_slice();
    call->status_text = grpc_empty_slice();
    pthread_mutex_init(&call->lock, NULL);
    for (int event = 0; event < PRN_CALL_EVENTS; event++)
        call->tags[event] = (struct prn_call_tag){call, (enum prn_call_event)event};
    struct prn_call_tag *tag = &call->tags[PRN_CALL_BEGUN];
    prn_rpc_give(tag);
    bool first =
        slot->method->kind == PRN_METHOD_UNARY || slot->method->kind == PRN_METHOD_SERVER_STREAM;
    grpc_call_error error =
        slot->handle ? grpc_server_request_registered_call(server->core, slot->handle, &call->core,
                                                           &call->deadline, &call->received,
                                                           first ? &call->message : NULL,
                                                           server->queue, server->queue, tag)
                     : grpc_server_request_call(server->core, &call->core, &call->details,
                                                &call->received, server->queue, server->queue, tag);
    if (error != GRPC_CALL_OK)
        call_free(call);
}

/* Slices have no NUL and belong to the call of gRPC; texts must outlive it. */
static void copy_metadata(struct prn_rpc_call *call)
{
    size_t bytes = 0;
    for (size_t i = 0; i < call->received.count; i++)
        bytes += GRPC_SLICE_LENGTH(call->received.metadata[i].key) +
                 GRPC_SLICE_LENGTH(call->received.metadata[i].value) + 2;
    call->entries = calloc(call->received.count + 1, sizeof *call->entries);
    call->text = malloc(bytes + 1);
    if (!call->entries || !call->text)
        return;
    char *at = call->text;
    for (size_t i = 0; i < call->received.count; i++) {
        const grpc_slice *parts[2] = {&call->received.metadata[i].key,
                                      &call->received.metadata[i].value};
        const char *texts[2];
        for (size_t k = 0; k < 2; k++) {
            size_t length = GRPC_SLICE_LENGTH(*parts[k]);
            texts[k] = at;
            memcpy(at, GRPC_SLICE_START_PTR(*parts[k]), length);
            at[length] = '\0';
            at += length + 1;
        }
        call->entries[call->n_entries++] = (struct prn_call_entry){texts[0], texts[1]};
    }
}

static void call_start(struct prn_rpc_call *call, enum prn_call_event event, const grpc_op *ops,
                       size_t n)
{
    struct prn_call_tag *tag = &call->tags[event];
    prn_rpc_give(tag);
    grpc_call_error error = grpc_call_start_batch(call->core, ops, n, tag, NULL);
    assert(error == GRPC_CALL_OK);
    (void)error;
}

static void refuse_unknown(struct prn_rpc_call *call, struct prn_bytes *message)
{
    prn_bytes_free(message);
    prn_rpc_call_fail(call, PRN_STATUS_UNIMPLEMENTED, "no such method");
}

static void refuse_surplus(struct prn_rpc_call *call, struct prn_bytes *message)
{
    prn_bytes_free(message);
    prn_rpc_call_fail(call, PRN_STATUS_RESOURCE_EXHAUSTED, "too many calls at once");
}

static void refuse_nothing(struct prn_rpc_call *call, struct prn_bytes *message)
{
    prn_bytes_free(message);
    prn_rpc_call_fail(call, PRN_STATUS_INVALID_ARGUMENT, "the message is missing");
}

static void refuse_memory(struct prn_rpc_call *call, struct prn_bytes *message)
{
    prn_bytes_free(message);
    prn_rpc_call_fail(call, PRN_STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

const struct prn_method prn_call_unknown = {
    .name = "", .kind = PRN_METHOD_BOTH, .begin = refuse_unknown};
static const struct prn_method surplus = {.begin = refuse_surplus};
static const struct prn_method nothing = {.begin = refuse_nothing};
static const struct prn_method memory = {.begin = refuse_memory};

/* The method that takes the call, with its first message: its own, or one that refuses. */
static const struct prn_method *choose(struct prn_rpc_call *call, bool surplus_call,
                                       struct prn_bytes **message)
{
    bool wanted = call->slot->handle && (call->method->kind == PRN_METHOD_UNARY ||
                                         call->method->kind == PRN_METHOD_SERVER_STREAM);
    *message = NULL;
    if (surplus_call)
        return &surplus;
    if (!call->entries || !call->text)
        return &memory;
    if (!wanted)
        return call->method;
    /* None was sent, or gRPC had no memory for it. */
    if (!call->message)
        return grpc_call_failed_before_recv_message(call->core) ? &memory : &nothing;
    *message = prn_bytes_take(call->message);
    call->message = NULL;
    return *message ? call->method : &memory;
}

static grpc_op receive_close(struct prn_rpc_call *call)
{
    return (grpc_op){.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                     .data.recv_close_on_server.cancelled = &call->cancelled};
}

static void call_begin(struct prn_rpc_call *call)
{
    struct prn_server *server = call->server;
    pthread_mutex_lock(&server->lock);
    bool surplus_call = server->n_calls++ >= CALLS_MAX;
    pthread_mutex_unlock(&server->lock);
    copy_metadata(call);
    call->begun_ns = prn_monotonic_ns();
    call->peer = grpc_call_get_peer(call->core);
    if (!call->slot->handle)
        call->deadline = call->details.deadline;
    call->outstanding = BIT(PRN_CALL_CLOSED);
    call->busy = true;
    struct prn_bytes *message;
    call->method = choose(call, surplus_call, &message);
    call->method->begin(call, message);
    /* Most calls have been answered by now, and their end was asked for together with that. */
    grpc_op op = receive_close(call);
    pthread_mutex_lock(&call->lock);
    bool wait = !call->close_asked;
    call->close_asked = true;
    pthread_mutex_unlock(&call->lock);
    if (wait)
        call_start(call, PRN_CALL_CLOSED, &op, 1);
}

static void finish_now(struct prn_rpc_call *call);

static void tell_finished(struct prn_rpc_call *call, enum prn_status status, const char *text)
{
    if (call->server->config.finished)
        call->server->config.finished(call, status, text, prn_monotonic_ns() - call->begun_ns);
}

static void hand_message(struct prn_rpc_call *call, bool ok)
{
    if (ok && !call->message && grpc_call_failed_before_recv_message(call->core)) {
        prn_rpc_call_fail(call, PRN_STATUS_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    struct prn_bytes *bytes = call->message ? prn_bytes_take(call->message) : NULL;
    bool lost = call->message && !bytes;
    call->message = NULL;
    if (lost)
        prn_rpc_call_fail(call, PRN_STATUS_RESOURCE_EXHAUSTED, "out of memory");
    else if (ok && !prn_rpc_call_over(call))
        call->method->message(call, bytes);
    else
        prn_bytes_free(bytes);
}

static void end(struct prn_rpc_call *call)
{
    struct prn_server *server = call->server;
    if (!call->finished)
        tell_finished(call, PRN_STATUS_CANCELLED, "");
    if (call->method->ended)
        call->method->ended(call, call->cancelled != 0);
    grpc_call_unref(call->core);
    prn_rpc_call_unref(call);
    pthread_mutex_lock(&server->lock);
    server->n_calls--;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/* The next thing to do for a call that this thread is busy with; its lock is held, and is released
 * meanwhile. False: nothing. */
static bool step(struct prn_rpc_call *call)
{
    unsigned pending = call->pending;
    if (pending & BIT(PRN_CALL_READ)) {
        call->pending &= ~BIT(PRN_CALL_READ);
        bool ok = !call->read_failed;
        pthread_mutex_unlock(&call->lock);
        hand_message(call, ok);
        pthread_mutex_lock(&call->lock);
        return true;
    }
    if (pending & BIT(PRN_CALL_SENT)) {
        call->pending &= ~BIT(PRN_CALL_SENT);
        bool ok = !call->send_failed;
        pthread_mutex_unlock(&call->lock);
        if (call->method->sent)
            call->method->sent(call, ok);
        pthread_mutex_lock(&call->lock);
        return true;
    }
    return false;
}

/* Lets this thread hand on the call's events, unless another one does; the lock is held, and
 * released at the end. */
static void hand_on(struct prn_rpc_call *call)
{
    while (step(call))
        ;
    bool ended = call->closed && !call->outstanding;
    call->busy = ended; /* then nobody comes any more */
    pthread_mutex_unlock(&call->lock);
    if (ended)
        end(call);
}

void prn_call_event(struct prn_call_tag *tag, bool ok)
{
    struct prn_rpc_call *call = tag->call;
    if (tag->event == PRN_CALL_BEGUN) {
        if (!ok) {
            call_free(call);
            return;
        }
        prn_call_request(call->server, call->slot);
        call_begin(call);
        pthread_mutex_lock(&call->lock);
        hand_on(call);
        return;
    }
    pthread_mutex_lock(&call->lock);
    call->outstanding &= ~BIT(tag->event);
    bool finish = false;
    switch (tag->event) {
    case PRN_CALL_CLOSED:
        call->closed = true;
        break;
    case PRN_CALL_READ:
        call->read_failed = !ok;
        call->pending |= BIT(PRN_CALL_READ);
        break;
    case PRN_CALL_SENT:
        call->send_failed = !ok;
        call->pending |= BIT(PRN_CALL_SENT);
        finish = call->finished;
        break;
    case PRN_CALL_FINISHED:
        if (call->close_with_finish) {
            call->outstanding &= ~BIT(PRN_CALL_CLOSED);
            call->closed = true;
        }
        break;
    default:
        break;
    }
    if (finish)
        call->outstanding |= BIT(PRN_CALL_FINISHED);
    bool mine = !call->busy;
    call->busy = true;
    pthread_mutex_unlock(&call->lock);
    /* From here on the call is there only as long as this thread is the busy one, or owes gRPC a
     * batch. */
    if (finish)
        finish_now(call);
    if (mine) {
        pthread_mutex_lock(&call->lock);
        hand_on(call);
    }
}

void *prn_rpc_call_service(const struct prn_rpc_call *call)
{
    return call->server->config.service;
}

const struct prn_method *prn_rpc_call_method(const struct prn_rpc_call *call)
{
    return call->method;
}

void prn_rpc_call_set_data(struct prn_rpc_call *call, void *data)
{
    call->data = data;
}

void *prn_rpc_call_data(const struct prn_rpc_call *call)
{
    return call->data;
}

const char *prn_rpc_call_metadata(const struct prn_rpc_call *call, const char *key)
{
    for (size_t i = 0; i < call->n_entries; i++)
        if (strcmp(call->entries[i].key, key) == 0)
            return call->entries[i].value;
    return NULL;
}

const char *prn_rpc_call_peer(const struct prn_rpc_call *call)
{
    return call->peer ? call->peer : "";
}

void prn_rpc_call_set_user(struct prn_rpc_call *call, const char *user)
{
    snprintf(call->user, sizeof call->user, "%s", user);
}

const char *prn_rpc_call_user(const struct prn_rpc_call *call)
{
    return call->user;
}

int64_t prn_rpc_call_deadline_ns(const struct prn_rpc_call *call)
{
    gpr_timespec at = gpr_convert_clock_type(call->deadline, GPR_CLOCK_MONOTONIC);
    int64_t ns;
    if (gpr_time_cmp(at, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0 ||
        __builtin_mul_overflow(at.tv_sec, (int64_t)1000000000, &ns) ||
        __builtin_add_overflow(ns, (int64_t)at.tv_nsec, &ns))
        return INT64_MAX;
    return ns;
}

bool prn_rpc_call_over(const struct prn_rpc_call *call)
{
    struct prn_rpc_call *own = (struct prn_rpc_call *)(uintptr_t)call; /* for its lock */
    pthread_mutex_lock(&own->lock);
    bool over = call->closed || call->finished;
    pthread_mutex_unlock(&own->lock);
    return over;
}

void prn_rpc_call_add_metadata(struct prn_rpc_call *call, const char *key, const char *value)
{
    grpc_metadata entry = {.key = grpc_slice_from_copied_string(key),
                           .value = grpc_slice_from_copied_string(value)};
    bool legal =
        grpc_header_key_is_legal(entry.key) && grpc_header_nonbin_value_is_legal(entry.value);
    pthread_mutex_lock(&call->lock);
    grpc_metadata *metadata =
        legal && !call->metadata_sent
            ? reallocarray(call->metadata, call->n_metadata + 1, sizeof *metadata)
            : NULL;
    if (metadata) {
        call->metadata = metadata;
        call->metadata[call->n_metadata++] = entry;
    }
    pthread_mutex_unlock(&call->lock);
    if (!metadata) {
        grpc_slice_unref(entry.key);
        grpc_slice_unref(entry.value);
    }
}

void prn_rpc_call_read(struct prn_rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    bool over = call->closed || call->finished;
    assert(over || !(call->outstanding & BIT(PRN_CALL_READ)));
    if (!over)
        call->outstanding |= BIT(PRN_CALL_READ);
    pthread_mutex_unlock(&call->lock);
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->message};
    if (!over)
        call_start(call, PRN_CALL_READ, &op, 1);
}

/* Initial metadata goes with the first thing that is sent. The lock is held. */
static size_t add_initial(struct prn_rpc_call *call, grpc_op *op)
{
    if (call->metadata_sent)
        return 0;
    call->metadata_sent = true;
    *op = (grpc_op){
        .op = GRPC_OP_SEND_INITIAL_METADATA,
        .data.send_initial_metadata = {.count = call->n_metadata, .metadata = call->metadata}};
    return 1;
}

void prn_rpc_call_send(struct prn_rpc_call *call, struct prn_out *out)
{
    grpc_byte_buffer *buffer = prn_out_take(out);
    if (!buffer) {
        prn_rpc_call_fail(call, PRN_STATUS_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    grpc_op ops[2];
    size_t n = 0;
    pthread_mutex_lock(&call->lock);
    bool over = call->closed || call->finished;
    assert(over || !(call->outstanding & BIT(PRN_CALL_SENT)));
    if (!over) {
        call->outstanding |= BIT(PRN_CALL_SENT);
        n = add_initial(call, ops);
    }
    pthread_mutex_unlock(&call->lock);
    if (!over) {
        ops[n++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = buffer};
        call_start(call, PRN_CALL_SENT, ops, n);
    }
    /* gRPC has taken what is in it. */
    grpc_byte_buffer_destroy(buffer);
}

/* Only one thread comes here, once: the one that has set PRN_CALL_FINISHED as outstanding. */
static void finish_now(struct prn_rpc_call *call)
{
    grpc_op ops[4];
    pthread_mutex_lock(&call->lock);
    size_t n = add_initial(call, ops);
    call->close_with_finish = !call->close_asked;
    call->close_asked = true;
    if (call->close_with_finish)
        ops[n++] = receive_close(call);
    pthread_mutex_unlock(&call->lock);
    if (call->last)
        ops[n++] =
            (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = call->last};
    ops[n++] = (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
                         .data.send_status_from_server = {
                             .status = (grpc_status_code)call->status,
                             .status_details = &call->status_text,
                         }};
    call_start(call, PRN_CALL_FINISHED, ops, n);
}

static void finish_with(struct prn_rpc_call *call, grpc_byte_buffer *last, enum prn_status status,
                        const char *text)
{
    pthread_mutex_lock(&call->lock);
    bool over = call->closed || call->finished;
    bool now = !over && !(call->outstanding & BIT(PRN_CALL_SENT));
    if (!over) {
        call->finished = true;
        call->last = last;
        call->status = status;
        call->status_text = grpc_slice_from_copied_buffer(text, strnlen(text, TEXT_MAX));
    }
    if (now)
        call->outstanding |= BIT(PRN_CALL_FINISHED);
    pthread_mutex_unlock(&call->lock);
    if (over && last)
        grpc_byte_buffer_destroy(last);
    if (!over)
        tell_finished(call, status, text);
    if (now)
        finish_now(call);
}

void prn_rpc_call_finish(struct prn_rpc_call *call, struct prn_out *out)
{
    bool stream =
        call->method->kind == PRN_METHOD_SERVER_STREAM || call->method->kind == PRN_METHOD_BOTH;
    if (!out && stream) {
        finish_with(call, NULL, PRN_STATUS_OK, "");
        return;
    }
    grpc_byte_buffer *last = prn_out_take(out);
    if (last)
        finish_with(call, last, PRN_STATUS_OK, "");
    else
        finish_with(call, NULL, PRN_STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

void prn_rpc_call_fail(struct prn_rpc_call *call, enum prn_status status, const char *text)
{
    finish_with(call, NULL, status, text ? text : "");
}
