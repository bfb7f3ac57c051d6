/*
 * Whoever waits for an answer also moves the bytes: each call has a queue of gRPC's to itself, and
 * the thread that waits polls it, because a thread in between costs a third of a small call. Queues
 * are kept for later calls.
 *
 * gRPC fails calls of a channel that couldn't connect for as long as it waits before it tries
 * again. Our callers know better when to try, so such a channel is replaced by a new one.
 */
#include "rpc/client.h"

#include "rpc/core.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <arpa/inet.h>
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define QUEUES_MAX 16 /* that are kept */
#define METADATA_MAX 16
#define CONNECT_MS 5000
#define BACKOFF_MS 200
/* How long a wait may not look whether it is cancelled. */
#define LOOK_MS 50
#define ANSWER_MAX (INT_MAX)

struct prn_channel {
    char *address;
    const volatile int *cancelled;
    int (*interrupted)(void *context);
    void *context;
    grpc_channel_credentials *credentials;
    bool tls;
    bool local; /* nothing of it leaves this machine */

    pthread_mutex_t lock; /* guards what follows */
    grpc_channel *core;
    grpc_completion_queue *queues[QUEUES_MAX];
    size_t n_queues;
    struct {
        char *key, *value;
    } metadata[METADATA_MAX];
    size_t n_metadata;
};

static bool is_socket_file(const char *address)
{
    return strncmp(address, "unix:", 5) == 0;
}

/* Whether nothing that is sent there leaves this machine. A name isn't looked up, for who answers
 * may lie. */
static bool is_local(const char *address)
{
    char host[sizeof "255.255.255.255"] = "";
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    if (length < sizeof host)
        memcpy(host, address, length);
    struct in_addr ipv4;
    return is_socket_file(address) || strcmp(host, "[::1]") == 0 ||
           strcasecmp(host, "localhost") == 0 ||
           (inet_pton(AF_INET, host, &ipv4) == 1 && ntohl(ipv4.s_addr) >> 24 == 127);
}

static int check_address(const char *address, struct prony_error *err)
{
    if (is_socket_file(address) && address[5])
        return 0;
    const char *colon = strrchr(address, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    long port = digits && digits <= 5 && !colon[1 + digits] ? strtol(colon + 1, NULL, 10) : 0;
    if (port < 1 || port > 65535 || colon == address)
        return prn_fail(err, PRONY_EUSAGE,
                        "invalid address '%s': it must be HOST:PORT or unix:PATH", address);
    return 0;
}

static grpc_channel *create_core(const struct prn_channel *channel)
{
    grpc_arg args[] = {
        prn_rpc_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, ANSWER_MAX),
        prn_rpc_arg(GRPC_ARG_MAX_METADATA_SIZE, PRN_RPC_METADATA_MAX),
        prn_rpc_arg(GRPC_ARG_KEEPALIVE_TIME_MS, PRN_RPC_KEEPALIVE_MS),
        prn_rpc_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, PRN_RPC_KEEPALIVE_TIMEOUT_MS),
        prn_rpc_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        /* An attempt to connect takes at most the first of these. */
        prn_rpc_arg(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, CONNECT_MS),
        prn_rpc_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, BACKOFF_MS),
        prn_rpc_arg(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, CONNECT_MS),
        /* A channel is a connection of its own, and a new one begins anew. */
        prn_rpc_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
        prn_rpc_arg(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        prn_rpc_arg(GRPC_ARG_ENABLE_CHANNELZ, 0),
        /* Neither side compresses. */
        prn_rpc_arg(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
        prn_rpc_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        prn_rpc_arg(GRPC_ARG_ENABLE_HTTP_PROXY, !channel->local),
    };
    return grpc_channel_create(channel->address, channel->credentials,
                               &(grpc_channel_args){PRN_ARRAY_SIZE(args), args});
}

int prn_channel_set_metadata(struct prn_channel *channel, const char *key, const char *value,
                             struct prony_error *err)
{
    grpc_slice key_slice = grpc_slice_from_static_string(key);
    grpc_slice value_slice = grpc_slice_from_static_string(value ? value : "");
    if (!grpc_header_key_is_legal(key_slice) || grpc_is_binary_header(key_slice) ||
        !grpc_header_nonbin_value_is_legal(value_slice))
        return prn_fail(err, PRONY_EUSAGE,
                        "the value of '%s' can't be sent: it has characters "
                        "that aren't printable ASCII",
                        key);
    char *key_copy = value ? strdup(key) : NULL;
    char *value_copy = value ? strdup(value) : NULL;
    if (value && (!key_copy || !value_copy)) {
        free(key_copy);
        free(value_copy);
        return prn_fail_memory(err);
    }
    int r = 0;
    pthread_mutex_lock(&channel->lock);
    size_t i = 0;
    while (i < channel->n_metadata && strcmp(channel->metadata[i].key, key) != 0)
        i++;
    if (i < channel->n_metadata) {
        free(channel->metadata[i].key);
        free(channel->metadata[i].value);
        channel->metadata[i] = channel->metadata[--channel->n_metadata];
    }
    if (value && channel->n_metadata == METADATA_MAX) {
        free(key_copy);
        free(value_copy);
        r = prn_fail(err, PRONY_ELIMIT, "more than %d values to be sent with every call",
                     METADATA_MAX);
    } else if (value) {
        channel->metadata[channel->n_metadata].key = key_copy;
        channel->metadata[channel->n_metadata++].value = value_copy;
    }
    pthread_mutex_unlock(&channel->lock);
    return r;
}

static int set_token(struct prn_channel *channel, const char *token, struct prony_error *err)
{
    size_t size = strlen(token) + sizeof "Bearer ";
    char *text = malloc(size);
    if (!text)
        return prn_fail_memory(err);
    snprintf(text, size, "Bearer %s", token);
    int r = prn_channel_set_metadata(channel, "authorization", text, NULL);
    free(text);
    return r == PRONY_EUSAGE
               ? prn_fail(err, r, "the token has characters that aren't printable ASCII")
               : r;
}

int prn_channel_open(const struct prn_channel_config *config, struct prn_channel **ret_channel,
                     struct prony_error *err)
{
    int r = check_address(config->address, err);
    if (r < 0)
        return r;
    bool local = is_local(config->address);
    if (config->token && !config->tls && !local)
        return prn_fail(err, PRONY_EUSAGE,
                        "a token isn't sent to '%s' without TLS, where others could read it",
                        config->address);
    if (config->ca && !strstr(config->ca, "-----BEGIN CERTIFICATE-----"))
        return prn_fail(err, PRONY_EFORMAT, "the file to verify '%s' is not a PEM certificate",
                        config->address);
    struct prn_channel *channel = calloc(1, sizeof *channel);
    char *address = strdup(config->address);
    if (!channel || !address) {
        free(channel);
        free(address);
        return prn_fail_memory(err);
    }
    prn_rpc_begin();
    channel->address = address;
    channel->tls = config->tls;
    channel->local = local;
    channel->cancelled = config->cancelled;
    channel->interrupted = config->interrupted;
    channel->context = config->context;
    pthread_mutex_init(&channel->lock, NULL);
    channel->credentials = config->tls ? grpc_ssl_credentials_create(config->ca, NULL, NULL, NULL)
                                       : grpc_insecure_credentials_create();
    r = config->token ? set_token(channel, config->token, err) : 0;
    if (r < 0) {
        prn_channel_close(channel);
        return r;
    }
    channel->core = create_core(channel);
    *ret_channel = channel;
    return 0;
}

static void drop_queue(grpc_completion_queue *queue)
{
    grpc_completion_queue_shutdown(queue);
    while (
        grpc_completion_queue_pluck(queue, NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
        GRPC_QUEUE_SHUTDOWN)
        ;
    grpc_completion_queue_destroy(queue);
}

void prn_channel_close(struct prn_channel *channel)
{
    if (!channel)
        return;
    if (channel->core)
        grpc_channel_destroy(channel->core);
    for (size_t i = 0; i < channel->n_queues; i++)
        drop_queue(channel->queues[i]);
    for (size_t i = 0; i < channel->n_metadata; i++) {
        free(channel->metadata[i].key);
        free(channel->metadata[i].value);
    }
    grpc_channel_credentials_release(channel->credentials);
    pthread_mutex_destroy(&channel->lock);
    free(channel->address);
    free(channel);
    prn_rpc_end();
}

/* What every call has, of either kind. */
struct call {
    struct prn_channel *channel;
    grpc_call *core;
    grpc_completion_queue *queue;
    double timeout_s;
    grpc_metadata metadata[METADATA_MAX];
    size_t n_metadata;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice text;
};

static gpr_timespec now(void)
{
    return gpr_now(GPR_CLOCK_MONOTONIC);
}

static gpr_timespec deadline_after(double seconds)
{
    if (seconds <= 0 || seconds > 1e9)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(now(), gpr_time_from_nanos((int64_t)(seconds * 1e9), GPR_TIMESPAN));
}

static void call_begin(struct call *call, struct prn_channel *channel, const char *method,
                       double timeout_s)
{
    *call = (struct call){.channel = channel, .timeout_s = timeout_s, .text = grpc_empty_slice()};
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->trailing);
    pthread_mutex_lock(&channel->lock);
    if (grpc_channel_check_connectivity_state(channel->core, 0) == GRPC_CHANNEL_TRANSIENT_FAILURE) {
        grpc_channel_destroy(channel->core);
        channel->core = create_core(channel);
    }
    if (channel->n_queues)
        call->queue = channel->queues[--channel->n_queues];
    for (; call->n_metadata < channel->n_metadata; call->n_metadata++)
        call->metadata[call->n_metadata] = (grpc_metadata){
            .key = grpc_slice_from_copied_string(channel->metadata[call->n_metadata].key),
            .value = grpc_slice_from_copied_string(channel->metadata[call->n_metadata].value)};
    if (!call->queue)
        call->queue = grpc_completion_queue_create_for_pluck(NULL);
    grpc_slice name = grpc_slice_from_copied_string(method);
    call->core = grpc_channel_create_call(channel->core, NULL, 0, call->queue, name, NULL,
                                          deadline_after(timeout_s), NULL);
    grpc_slice_unref(name);
    pthread_mutex_unlock(&channel->lock);
}

/* Nothing of the call may be outstanding. */
static void call_end(struct call *call)
{
    struct prn_channel *channel = call->channel;
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
    grpc_slice_unref(call->text);
    for (size_t i = 0; i < call->n_metadata; i++) {
        grpc_slice_unref(call->metadata[i].key);
        grpc_slice_unref(call->metadata[i].value);
    }
    grpc_call_unref(call->core);
    pthread_mutex_lock(&channel->lock);
    bool kept = channel->n_queues < QUEUES_MAX;
    if (kept)
        channel->queues[channel->n_queues++] = call->queue;
    pthread_mutex_unlock(&channel->lock);
    if (!kept)
        drop_queue(call->queue);
}

/* `ask`: the caller too, which may take a while. */
static bool is_cancelled(const struct prn_channel *channel, bool ask)
{
    return (channel->cancelled && __atomic_load_n(channel->cancelled, __ATOMIC_RELAXED)) ||
           (ask && channel->interrupted && channel->interrupted(channel->context));
}

static void client_start(struct call *call, const grpc_op *ops, size_t n, void *tag)
{
    prn_rpc_give(tag);
    grpc_call_error error = grpc_call_start_batch(call->core, ops, n, tag, NULL);
    assert(error == GRPC_CALL_OK);
    (void)error;
}

/* Waits for a batch, and cancels the call when the user wants to end it. False: it isn't done at
 * `deadline`. `ret_ok` tells whether it was successful. */
static bool wait_for(struct call *call, void *tag, gpr_timespec deadline, bool *ret_ok)
{
    const struct prn_channel *channel = call->channel;
    bool cancelled = !channel->cancelled && !channel->interrupted; /* or never will be */
    for (bool first = true;; first = false) {
        /* Most calls are done before anybody needs to be asked. */
        if (!cancelled && is_cancelled(channel, !first)) {
            grpc_call_cancel(call->core, NULL);
            cancelled = true;
        }
        gpr_timespec look = gpr_time_add(now(), gpr_time_from_millis(LOOK_MS, GPR_TIMESPAN));
        if (cancelled)
            look = deadline;
        grpc_event event =
            grpc_completion_queue_pluck(call->queue, tag, gpr_time_min(look, deadline), NULL);
        if (event.type == GRPC_OP_COMPLETE) {
            prn_rpc_take(tag);
            *ret_ok = event.success != 0;
            return true;
        }
        if (gpr_time_cmp(now(), deadline) >= 0)
            return false;
    }
}

/* What gRPC and OpenSSL say of somebody who isn't, or can't show to be, the service that was meant,
 * in words for people. */
static const struct {
    const char *said, *meant;
} reasons[] = {
    {"certificate verify failed",
     "its certificate has expired, or is not signed by a trusted authority; name the authority "
     "with --ca, PRONY_CA, or ca_file of a session"},
    {"is not in peer certificate", "its certificate is for other names than this one"},
    {"wrong version number", "it doesn't speak TLS; --insecure or insecure=True connects without"},
    {"Failed parsing HTTP/2", "it doesn't speak gRPC"},
    {"Trying to connect an http1.x server", "it doesn't speak gRPC"},
    {"before receiving SETTINGS frame", "it accepts connections but does not respond"},
    {"DNS resolution failed", "unknown host"},
};

static const char *reason_of(const char *text)
{
    for (size_t i = 0; i < PRN_ARRAY_SIZE(reasons); i++)
        if (strstr(text, reasons[i].said))
            return reasons[i].meant;
    return NULL;
}

static int unavailable(const struct call *call, const char *text, struct prony_error *err)
{
    static const char story[] = "failed to connect to all addresses";
    const char *address = call->channel->address;
    const char *reason = reason_of(text);
    if (!reason && strncmp(text, story, strlen(story)) != 0)
        return prn_fail(err, PRONY_EUNAVAILABLE, "'%s' is unavailable: %s", address, text);
    /* Of gRPC's story only the reason at its end, "…: Connection refused". */
    const char *last = strrchr(text, ':');
    if (!reason)
        reason = last && last[1] == ' ' && last[2] ? last + 2 : text;
    /* So does a service that is greeted without the TLS that it has. */
    bool greeted = !call->channel->tls && !is_socket_file(address);
    const char *hint = greeted && strcmp(reason, "Socket closed") == 0
                           ? "; if it uses TLS, name the authority with --ca, PRONY_CA or ca_file"
                           : "";
    return prn_fail(err, PRONY_EUNAVAILABLE, "cannot reach '%s': %s%s", address, reason, hint);
}

/* The call's status as an error of ours, or 0. */
static int outcome(const struct call *call, struct prony_error *err)
{
    if (call->status == GRPC_STATUS_OK)
        return 0;
    char *text = grpc_slice_to_c_string(call->text);
    enum prn_status status = (enum prn_status)call->status;
    int code = prn_status_code(status);
    if (is_cancelled(call->channel, true))
        code = prn_fail(err, PRONY_ECANCELED, "cancelled");
    else if (code == PRONY_EUNAVAILABLE)
        code = unavailable(call, text, err);
    else if (status == PRN_STATUS_DEADLINE_EXCEEDED && call->timeout_s > 0)
        prn_fail(err, code, "'%s' didn't answer within %g s", call->channel->address,
                 call->timeout_s);
    else if (status == PRN_STATUS_UNIMPLEMENTED)
        prn_fail(err, code, "'%s' is not a prony service, or has another version: %s",
                 call->channel->address, text);
    else
        prn_fail(err, code, "%s", text[0] ? text : prony_error_text(code));
    gpr_free(text);
    return code;
}

static void fill_answer(const struct call *call, struct prn_answer *answer)
{
    *answer = (struct prn_answer){.status = (enum prn_status)call->status};
    for (size_t i = 0; i < call->initial.count; i++) {
        const grpc_metadata *entry = &call->initial.metadata[i];
        size_t length = GRPC_SLICE_LENGTH(entry->value);
        if (grpc_slice_str_cmp(entry->key, "set-cookie") != 0 || length >= sizeof answer->cookie)
            continue;
        memcpy(answer->cookie, GRPC_SLICE_START_PTR(entry->value), length);
        answer->cookie[length] = '\0';
    }
}

static grpc_op send_metadata(struct call *call)
{
    return (grpc_op){
        .op = GRPC_OP_SEND_INITIAL_METADATA,
        .data.send_initial_metadata = {.count = call->n_metadata, .metadata = call->metadata}};
}

static grpc_op receive_metadata(struct call *call)
{
    return (grpc_op){.op = GRPC_OP_RECV_INITIAL_METADATA,
                     .data.recv_initial_metadata.recv_initial_metadata = &call->initial};
}

static grpc_op receive_status(struct call *call)
{
    return (grpc_op){.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                     .data.recv_status_on_client = {.trailing_metadata = &call->trailing,
                                                    .status = &call->status,
                                                    .status_details = &call->text}};
}

int prn_channel_call(struct prn_channel *channel, const char *method, struct prn_out *out,
                     double timeout_s, struct prn_bytes **ret_reply, struct prn_answer *answer,
                     struct prony_error *err)
{
    grpc_byte_buffer *message = prn_out_take(out);
    if (!message)
        return prn_fail_memory(err);
    grpc_byte_buffer *reply = NULL;
    struct call call;
    call_begin(&call, channel, method, timeout_s);
    grpc_op ops[] = {
        send_metadata(&call),
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        receive_metadata(&call),
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &reply},
        receive_status(&call),
    };
    client_start(&call, ops, PRN_ARRAY_SIZE(ops), &call);
    bool ok;
    wait_for(&call, &call, gpr_inf_future(GPR_CLOCK_MONOTONIC), &ok);
    grpc_byte_buffer_destroy(message);
    if (answer)
        fill_answer(&call, answer);
    int r = outcome(&call, err);
    call_end(&call);
    if (r < 0) {
        if (reply)
            grpc_byte_buffer_destroy(reply);
        return r;
    }
    if (!reply)
        return prn_fail(err, PRONY_EFORMAT, "'%s' answered without a message", channel->address);
    *ret_reply = prn_bytes_take(reply);
    return *ret_reply ? 0 : prn_fail_memory(err);
}

struct prn_stream {
    struct call call;
    gpr_timespec deadline;
    atomic_bool cancelled; /* by prn_stream_cancel() */
    char opened;           /* the address is the tag of a batch; so are the next two */
    char ended;
    char finished;

    /* Of the thread that sends. */
    grpc_byte_buffer *out;
    bool sending; /* a batch is under way */
    bool closed;  /* prn_stream_end() */

    /* Of the thread that receives. */
    grpc_byte_buffer *in;
    bool receiving; /* a batch is under way */

    pthread_mutex_t lock; /* guards what follows */
    bool has_status;
};

int prn_stream_open(struct prn_channel *channel, const char *method, double timeout_s,
                    struct prn_stream **ret_stream, struct prony_error *err)
{
    struct prn_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return prn_fail_memory(err);
    pthread_mutex_init(&stream->lock, NULL);
    atomic_init(&stream->cancelled, false);
    stream->deadline = deadline_after(timeout_s);
    call_begin(&stream->call, channel, method, timeout_s);
    grpc_op ops[] = {send_metadata(&stream->call), receive_metadata(&stream->call)};
    client_start(&stream->call, ops, PRN_ARRAY_SIZE(ops), &stream->opened);
    *ret_stream = stream;
    return 0;
}

/* How the call ended, which it has: asked by either thread when something fails, or at the end. */
static int stream_outcome(struct prn_stream *stream, struct prony_error *err)
{
    pthread_mutex_lock(&stream->lock);
    if (!stream->has_status) {
        grpc_op op = receive_status(&stream->call);
        bool ok;
        client_start(&stream->call, &op, 1, &stream->finished);
        wait_for(&stream->call, &stream->finished, gpr_inf_future(GPR_CLOCK_MONOTONIC), &ok);
        stream->has_status = true;
    }
    int r = outcome(&stream->call, err);
    pthread_mutex_unlock(&stream->lock);
    if (r < 0 && atomic_load(&stream->cancelled))
        return prn_fail(err, PRONY_ECANCELED, "cancelled");
    return r;
}

/* Waits for a batch of the stream, for at most `timeout_s`. */
static int stream_wait(struct prn_stream *stream, void *tag, double timeout_s, bool *ret_ok,
                       struct prony_error *err)
{
    if (wait_for(&stream->call, tag, deadline_after(timeout_s), ret_ok))
        return 0;
    return prn_fail(err, PRONY_ETIMEDOUT, "'%s' didn't answer within %g s",
                    stream->call.channel->address, timeout_s);
}

/* Until the last message is under way. */
static int flush(struct prn_stream *stream, double timeout_s, struct prony_error *err)
{
    bool ok = true;
    if (!stream->sending)
        return 0;
    int r = stream_wait(stream, &stream->out, timeout_s, &ok, err);
    if (r < 0)
        return r;
    stream->sending = false;
    grpc_byte_buffer_destroy(stream->out);
    stream->out = NULL;
    if (ok)
        return 0;
    r = stream_outcome(stream, err);
    return r < 0 ? r
                 : prn_fail(err, PRONY_EUNAVAILABLE, "'%s' takes no more messages",
                            stream->call.channel->address);
}

int prn_stream_send(struct prn_stream *stream, struct prn_out *out, double timeout_s,
                    struct prony_error *err)
{
    grpc_byte_buffer *message = prn_out_take(out);
    if (!message)
        return prn_fail_memory(err);
    /* One that wasn't waited for long enough goes first. */
    int r = stream->closed ? prn_fail(err, PRONY_EUSAGE, "nothing can be sent after the end")
                           : flush(stream, timeout_s, err);
    if (r < 0) {
        grpc_byte_buffer_destroy(message);
        return r;
    }
    stream->out = message;
    stream->sending = true;
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
    client_start(&stream->call, &op, 1, &stream->out);
    return flush(stream, timeout_s, err);
}

int prn_stream_end(struct prn_stream *stream, struct prony_error *err)
{
    if (stream->closed)
        return 0;
    int r = flush(stream, 0, err);
    if (r < 0)
        return r;
    stream->closed = true;
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    client_start(&stream->call, &op, 1, &stream->ended);
    return 0;
}

/* Waits for what a batch with the tag `in` receives; NULL at the end. */
static int take_message(struct prn_stream *stream, double timeout_s, struct prn_bytes **ret_message,
                        struct prony_error *err)
{
    bool ok = false;
    stream->receiving = true;
    int r = stream_wait(stream, &stream->in, timeout_s, &ok, err);
    if (r < 0)
        return r;
    stream->receiving = false;
    struct prn_bytes *message = NULL;
    if (stream->in) {
        message = prn_bytes_take(stream->in);
        stream->in = NULL;
        if (!message)
            return prn_fail_memory(err);
    } else {
        r = stream_outcome(stream, err);
    }
    if (r == 0)
        *ret_message = message;
    return r;
}

int prn_stream_receive(struct prn_stream *stream, double timeout_s, struct prn_bytes **ret_message,
                       struct prony_error *err)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &stream->in};
    if (!stream->receiving)
        client_start(&stream->call, &op, 1, &stream->in);
    return take_message(stream, timeout_s, ret_message, err);
}

int prn_stream_ask(struct prn_stream *stream, struct prn_out *out, double timeout_s,
                   struct prn_bytes **ret_message, struct prony_error *err)
{
    assert(!stream->sending && !stream->receiving && !stream->out);
    stream->out = prn_out_take(out);
    if (!stream->out)
        return prn_fail_memory(err);
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = stream->out},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &stream->in},
    };
    client_start(&stream->call, ops, PRN_ARRAY_SIZE(ops), &stream->in);
    int r = take_message(stream, timeout_s, ret_message, err);
    if (stream->receiving)
        return r; /* the message is still gRPC's */
    grpc_byte_buffer_destroy(stream->out);
    stream->out = NULL;
    return r;
}

enum prn_status prn_stream_status(const struct prn_stream *stream)
{
    return (enum prn_status)stream->call.status;
}

void prn_stream_cancel(struct prn_stream *stream)
{
    atomic_store(&stream->cancelled, true);
    grpc_call_cancel(stream->call.core, NULL);
}

void prn_stream_free(struct prn_stream *stream)
{
    if (!stream)
        return;
    gpr_timespec never = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    bool ok;
    prn_stream_cancel(stream);
    wait_for(&stream->call, &stream->opened, never, &ok);
    if (stream->sending)
        wait_for(&stream->call, &stream->out, never, &ok);
    if (stream->receiving)
        wait_for(&stream->call, &stream->in, never, &ok);
    if (stream->closed)
        wait_for(&stream->call, &stream->ended, never, &ok);
    if (stream->out)
        grpc_byte_buffer_destroy(stream->out);
    if (stream->in)
        grpc_byte_buffer_destroy(stream->in);
    call_end(&stream->call);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}
