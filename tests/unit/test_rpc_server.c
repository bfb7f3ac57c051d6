/* Client and server of src/rpc in one process, over loopback and a Unix socket. */
#include "rpc/client.h"
#include "rpc/server.h"

#include "unit.h"

#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE_MAX ((size_t)80 << 20)
#define LARGE ((size_t)64 << 20)
#define TIMEOUT_S 60

/* ---- The service ---- */

/* What the service has seen; tests wait for changes of it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int begun, ended, cancelled, sent, freed;
static struct prn_rpc_call *held; /* by Hold, with a reference */

static void count(int *number)
{
    pthread_mutex_lock(&lock);
    ++*number;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static int value_of(const int *number)
{
    pthread_mutex_lock(&lock);
    int value = *number;
    pthread_mutex_unlock(&lock);
    return value;
}

static void wait_until(const int *number, int value)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += TIMEOUT_S;
    int late = 0;
    pthread_mutex_lock(&lock);
    while (*number < value && late == 0)
        late = pthread_cond_timedwait(&changed, &lock, &until);
    int seen = *number;
    pthread_mutex_unlock(&lock);
    if (seen < value)
        fail_msg("it is %d and should become %d", seen, value);
}

static void on_ended(struct prn_rpc_call *call, bool was_cancelled)
{
    (void)call;
    if (was_cancelled)
        count(&cancelled);
    count(&ended);
}

static void free_bytes(void *context)
{
    prn_bytes_free(context);
}

static void keep(void *context)
{
    (void)context;
}

/* The same pieces that came go back; the last one takes the message with it. */
static struct prn_out *echo_of(struct prn_bytes *message)
{
    struct prn_out *out = prn_out_new();
    struct prn_range range = {0, prn_bytes_length(message)};
    const void *data;
    size_t length;
    if (range.length == 0)
        prn_bytes_free(message);
    while (range.length && prn_bytes_next(message, &range, &data, &length))
        prn_out_borrow(out, data, length, range.length ? keep : free_bytes, message);
    return out;
}

static void echo(struct prn_rpc_call *call, struct prn_bytes *message)
{
    count(&begun);
    prn_rpc_call_finish(call, echo_of(message));
}

static void hold(struct prn_rpc_call *call, struct prn_bytes *message)
{
    prn_bytes_free(message);
    pthread_mutex_lock(&lock);
    held = prn_rpc_call_ref(call);
    pthread_mutex_unlock(&lock);
    count(&begun);
}

/* What a function of a method shouldn't do. */
static void block(struct prn_rpc_call *call, struct prn_bytes *message)
{
    count(&begun);
    wait_until(&freed, 1);
    prn_rpc_call_finish(call, echo_of(message));
}

/* The first byte is the status, the rest the text. */
static void refuse(struct prn_rpc_call *call, struct prn_bytes *message)
{
    count(&begun);
    char text[256] = "";
    size_t length = prn_bytes_length(message);
    prn_bytes_copy(message, (struct prn_range){0, length}, text);
    prn_bytes_free(message);
    prn_rpc_call_fail(call, (enum prn_status)text[0], text + 1);
    prn_rpc_call_fail(call, PRN_STATUS_INTERNAL, "the second end of a call counts for nothing");
    prn_rpc_call_finish(call, prn_out_new());
}

/* Answers with what the client sent along. */
static void mirror(struct prn_rpc_call *call, struct prn_bytes *message)
{
    count(&begun);
    prn_bytes_free(message);
    const char *token = prn_rpc_call_metadata(call, "authorization");
    const char *extra = prn_rpc_call_metadata(call, "x-extra");
    char text[256];
    snprintf(text, sizeof text, "%s|%s|%s|%d|%s", token ? token : "-", extra ? extra : "-",
             prn_rpc_call_peer(call), prn_rpc_call_deadline_ns(call) == INT64_MAX,
             (const char *)prn_rpc_call_service(call));
    prn_rpc_call_add_metadata(call, "set-cookie", "route=7");
    prn_rpc_call_add_metadata(call, "BAD KEY", "left out");
    struct prn_out *out = prn_out_new();
    prn_out_copy(out, text, strlen(text));
    prn_rpc_call_finish(call, out);
}

struct totals {
    uint64_t messages, bytes;
};

static void sum_begin(struct prn_rpc_call *call, struct prn_bytes *message)
{
    assert_null(message);
    prn_rpc_call_set_data(call, calloc(1, sizeof(struct totals)));
    count(&begun);
    prn_rpc_call_read(call);
}

static void sum_message(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct totals *totals = prn_rpc_call_data(call);
    if (message) {
        totals->messages++;
        totals->bytes += prn_bytes_length(message);
        prn_bytes_free(message);
        prn_rpc_call_read(call);
        return;
    }
    struct prn_out *out = prn_out_new();
    prn_out_copy(out, totals, sizeof *totals);
    prn_rpc_call_finish(call, out);
}

static void free_data(struct prn_rpc_call *call, bool was_cancelled)
{
    free(prn_rpc_call_data(call));
    on_ended(call, was_cancelled);
}

/* Refuses the stream after its first message, with more of them coming. */
static void once_message(struct prn_rpc_call *call, struct prn_bytes *message)
{
    prn_bytes_free(message);
    prn_rpc_call_fail(call, PRN_STATUS_NOT_FOUND, "enough");
}

static void once_begin(struct prn_rpc_call *call, struct prn_bytes *message)
{
    assert_null(message);
    count(&begun);
    prn_rpc_call_read(call);
}

struct row {
    uint32_t messages, bytes; /* what the client asks for */
    uint32_t next;
};

static void row_send(struct prn_rpc_call *call)
{
    struct row *row = prn_rpc_call_data(call);
    struct prn_out *out = prn_out_new();
    void *data = calloc(1, row->bytes);
    memcpy(data, &row->next, sizeof row->next);
    row->next++;
    prn_out_borrow(out, data, row->bytes, free, data);
    prn_rpc_call_send(call, out);
}

static void row_begin(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct row *row = calloc(1, sizeof *row);
    prn_bytes_copy(message, (struct prn_range){0, 8}, row);
    prn_bytes_free(message);
    prn_rpc_call_set_data(call, row);
    count(&begun);
    row_send(call);
}

static void row_sent(struct prn_rpc_call *call, bool ok)
{
    struct row *row = prn_rpc_call_data(call);
    count(&sent);
    if (!ok)
        return;
    if (row->next < row->messages)
        row_send(call);
    else
        prn_rpc_call_finish(call, NULL);
}

static void talk_begin(struct prn_rpc_call *call, struct prn_bytes *message)
{
    assert_null(message);
    count(&begun);
    prn_rpc_call_read(call);
}

static void talk_message(struct prn_rpc_call *call, struct prn_bytes *message)
{
    if (message)
        prn_rpc_call_send(call, echo_of(message));
    else
        prn_rpc_call_finish(call, NULL);
}

static void talk_sent(struct prn_rpc_call *call, bool ok)
{
    if (ok)
        prn_rpc_call_read(call);
}

/* Sends and finishes at once: the end waits for the message. */
static void hasty_begin(struct prn_rpc_call *call, struct prn_bytes *message)
{
    count(&begun);
    prn_rpc_call_send(call, echo_of(message));
    prn_rpc_call_finish(call, NULL);
}

static const struct prn_method methods[] = {
    {"/t.T/Echo", PRN_METHOD_UNARY, echo, NULL, NULL, on_ended},
    {"/t.T/Hold", PRN_METHOD_UNARY, hold, NULL, NULL, on_ended},
    {"/t.T/Block", PRN_METHOD_UNARY, block, NULL, NULL, on_ended},
    {"/t.T/Fail", PRN_METHOD_UNARY, refuse, NULL, NULL, on_ended},
    {"/t.T/Mirror", PRN_METHOD_UNARY, mirror, NULL, NULL, on_ended},
    {"/t.T/Sum", PRN_METHOD_CLIENT_STREAM, sum_begin, sum_message, NULL, free_data},
    {"/t.T/Once", PRN_METHOD_CLIENT_STREAM, once_begin, once_message, NULL, on_ended},
    {"/t.T/Row", PRN_METHOD_SERVER_STREAM, row_begin, NULL, row_sent, free_data},
    {"/t.T/Hasty", PRN_METHOD_SERVER_STREAM, hasty_begin, NULL, NULL, on_ended},
    {"/t.T/Talk", PRN_METHOD_BOTH, talk_begin, talk_message, talk_sent, on_ended},
    {0},
};

/* ---- Both sides ---- */

static struct prn_server *server;
static struct prn_channel *channel;
static char address[64];
static char socket_address[64];
static volatile int stop_now;

static struct prn_channel *open_channel(const char *to)
{
    struct prn_channel_config config = {.address = to, .cancelled = &stop_now};
    struct prn_channel *opened = NULL;
    struct prony_error err = {0};
    if (prn_channel_open(&config, &opened, &err) < 0)
        fail_msg("%s", err.text);
    return opened;
}

static int setup(void **state)
{
    (void)state;
    begun = ended = cancelled = sent = freed = 0;
    stop_now = 0;
    static char service[] = "own";
    struct prn_server_config config = {
        .methods = methods, .service = service, .threads = 3, .message_max = MESSAGE_MAX};
    struct prony_error err;
    int port = 0;
    snprintf(socket_address, sizeof socket_address, "unix:/tmp/prony-rpc-%d", (int)getpid());
    if (prn_server_new(&config, &server, &err) < 0 ||
        prn_server_listen(server, "127.0.0.1:0", NULL, &port, &err) < 0 ||
        prn_server_listen(server, socket_address, NULL, NULL, &err) < 0 ||
        prn_server_start(server, &err) < 0)
        fail_msg("%s", err.text);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    channel = open_channel(address);
    return 0;
}

/* Every call that has begun has ended, once. */
static int teardown(void **state)
{
    (void)state;
    prn_channel_close(channel);
    prn_server_free(server);
    if (held)
        prn_rpc_call_unref(held);
    held = NULL;
    assert_int_equal(ended, begun);
    return 0;
}

static struct prn_out *out_of(const void *data, size_t length)
{
    struct prn_out *out = prn_out_new();
    prn_out_copy(out, data, length);
    return out;
}

static void assert_bytes(struct prn_bytes *bytes, const void *data, size_t length)
{
    assert_int_equal(prn_bytes_length(bytes), length);
    char *copy = malloc(length + 1);
    prn_bytes_copy(bytes, (struct prn_range){0, length}, copy);
    assert_memory_equal(copy, data, length);
    free(copy);
    prn_bytes_free(bytes);
}

static int call_text(struct prn_channel *to, const char *method, const char *text, double timeout_s,
                     struct prn_bytes **reply, struct prony_error *err)
{
    return prn_channel_call(to, method, out_of(text, strlen(text)), timeout_s, reply, NULL, err);
}

static void expect_echo(struct prn_channel *to, const char *text)
{
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    if (call_text(to, "/t.T/Echo", text, TIMEOUT_S, &reply, &err) < 0)
        fail_msg("%s", err.text);
    assert_bytes(reply, text, strlen(text));
}

static struct prn_stream *open_stream(const char *method, double timeout_s)
{
    struct prn_stream *stream = NULL;
    struct prony_error err;
    if (prn_stream_open(channel, method, timeout_s, &stream, &err) < 0)
        fail_msg("%s", err.text);
    return stream;
}

static void send_ok(struct prn_stream *stream, const void *data, size_t length)
{
    struct prony_error err;
    if (prn_stream_send(stream, out_of(data, length), TIMEOUT_S, &err) < 0)
        fail_msg("%s", err.text);
}

static void end_ok(struct prn_stream *stream)
{
    struct prony_error err;
    if (prn_stream_end(stream, &err) < 0)
        fail_msg("%s", err.text);
}

static struct prn_bytes *receive_ok(struct prn_stream *stream)
{
    struct prn_bytes *message = NULL;
    struct prony_error err;
    if (prn_stream_receive(stream, TIMEOUT_S, &message, &err) < 0)
        fail_msg("%s", err.text);
    return message;
}

/* ---- Tests ---- */

static void unary(void **state)
{
    (void)state;
    expect_echo(channel, "over loopback");
    expect_echo(channel, "");
    struct prn_channel *other = open_channel(socket_address);
    expect_echo(other, "over a socket");
    prn_channel_close(other);
}

static void client_stream(void **state)
{
    (void)state;
    struct prn_stream *stream = open_stream("/t.T/Sum", 0);
    static char chunk[1 << 20];
    for (int i = 0; i < 20; i++)
        send_ok(stream, chunk, sizeof chunk - (size_t)i);
    send_ok(stream, "", 0);
    end_ok(stream);
    end_ok(stream);
    struct totals totals = {21, 20 * sizeof chunk - 190};
    assert_bytes(receive_ok(stream), &totals, sizeof totals);
    assert_null(receive_ok(stream));
    prn_stream_free(stream);
}

static void server_stream(void **state)
{
    (void)state;
    struct prn_stream *stream = open_stream("/t.T/Row", 0);
    struct row wish = {100, 10000, 0};
    send_ok(stream, &wish, 8);
    end_ok(stream);
    for (uint32_t i = 0; i < wish.messages; i++) {
        struct prn_bytes *message = receive_ok(stream);
        uint32_t number;
        assert_int_equal(prn_bytes_length(message), wish.bytes);
        prn_bytes_copy(message, (struct prn_range){0, 4}, &number);
        assert_int_equal(number, i);
        prn_bytes_free(message);
    }
    assert_null(receive_ok(stream));
    prn_stream_free(stream);
}

static void both_streams(void **state)
{
    (void)state;
    struct prn_stream *stream = open_stream("/t.T/Talk", 0);
    for (int i = 0; i < 50; i++) {
        send_ok(stream, &i, sizeof i);
        assert_bytes(receive_ok(stream), &i, sizeof i);
    }
    /* A message that doesn't come in time comes to a later call. */
    struct prn_bytes *message = NULL;
    struct prony_error err;
    assert_int_equal(prn_stream_receive(stream, 0.01, &message, &err), PRONY_ETIMEDOUT);
    send_ok(stream, "late", 4);
    assert_bytes(receive_ok(stream), "late", 4);
    end_ok(stream);
    assert_null(receive_ok(stream));
    prn_stream_free(stream);
}

static void finish_waits_for_the_message(void **state)
{
    (void)state;
    struct prn_stream *stream = open_stream("/t.T/Hasty", 0);
    send_ok(stream, "once", 4);
    end_ok(stream);
    assert_bytes(receive_ok(stream), "once", 4);
    assert_null(receive_ok(stream));
    prn_stream_free(stream);
}

static void large_messages(void **state)
{
    (void)state;
    char *data = malloc(LARGE);
    for (size_t i = 0; i < LARGE / 8; i++)
        ((uint64_t *)data)[i] = i * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 3; i++) {
        struct prn_out *out = prn_out_new();
        prn_out_borrow(out, data, LARGE, NULL, NULL);
        struct prn_bytes *reply = NULL;
        struct prony_error err;
        if (prn_channel_call(channel, "/t.T/Echo", out, TIMEOUT_S, &reply, NULL, &err) < 0)
            fail_msg("%s", err.text);
        assert_bytes(reply, data, LARGE);
    }
    free(data);
}

static void errors_of_the_service(void **state)
{
    (void)state;
    static const struct {
        enum prn_status status;
        int code;
    } rows[] = {
        {PRN_STATUS_INVALID_ARGUMENT, PRONY_EUSAGE},
        {PRN_STATUS_NOT_FOUND, PRONY_ENOENT},
        {PRN_STATUS_UNAUTHENTICATED, PRONY_EDENIED},
        {PRN_STATUS_PERMISSION_DENIED, PRONY_EDENIED},
        {PRN_STATUS_RESOURCE_EXHAUSTED, PRONY_ELIMIT},
        {PRN_STATUS_FAILED_PRECONDITION, PRONY_EUNSUPPORTED},
        {PRN_STATUS_UNAVAILABLE, PRONY_EUNAVAILABLE},
        {PRN_STATUS_INTERNAL, PRONY_ERUNTIME},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(rows); i++) {
        char text[] = "?it is so";
        text[0] = (char)rows[i].status;
        struct prn_answer answer;
        struct prn_bytes *reply = NULL;
        struct prony_error err;
        assert_int_equal(prn_channel_call(channel, "/t.T/Fail", out_of(text, strlen(text)),
                                          TIMEOUT_S, &reply, &answer, &err),
                         rows[i].code);
        assert_int_equal(answer.status, rows[i].status);
        if (rows[i].code == PRONY_EUNAVAILABLE)
            assert_contains(err.text, address);
        else
            assert_string_equal(err.text, "it is so");
        assert_contains(err.text, "it is so");
        assert_int_equal(prn_status_code(rows[i].status), rows[i].code);
    }
}

static void unknown_method(void **state)
{
    (void)state;
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    struct prn_answer answer;
    assert_int_equal(
        prn_channel_call(channel, "/t.T/Nope", prn_out_new(), TIMEOUT_S, &reply, &answer, &err),
        PRONY_EUNSUPPORTED);
    assert_int_equal(answer.status, PRN_STATUS_UNIMPLEMENTED);
    assert_contains(err.text, "is not a prony service, or has another version: no such method");
    expect_echo(channel, "goes on");
}

static void message_over_the_limit(void **state)
{
    (void)state;
    char *data = calloc(1, MESSAGE_MAX + 1);
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    struct prn_answer answer;
    assert_int_equal(prn_channel_call(channel, "/t.T/Echo", out_of(data, MESSAGE_MAX + 1),
                                      TIMEOUT_S, &reply, &answer, &err),
                     PRONY_ELIMIT);
    assert_int_equal(answer.status, PRN_STATUS_RESOURCE_EXHAUSTED);
    assert_int_equal(value_of(&begun), 0);
    /* In a stream the call has begun; it is told that it is over. */
    struct prn_stream *stream = open_stream("/t.T/Sum", 0);
    send_ok(stream, "first", 5);
    (void)!prn_stream_send(stream, out_of(data, MESSAGE_MAX + 1), TIMEOUT_S, &err);
    assert_int_equal(prn_stream_receive(stream, TIMEOUT_S, &reply, &err), PRONY_ELIMIT);
    prn_stream_free(stream);
    wait_until(&ended, 1);
    assert_int_equal(value_of(&cancelled), 1);
    free(data);
    expect_echo(channel, "goes on");
}

/* A unary call in which the client sends none. */
static void message_missing(void **state)
{
    (void)state;
    struct prn_stream *stream = open_stream("/t.T/Echo", 0);
    end_ok(stream);
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    assert_int_equal(prn_stream_receive(stream, TIMEOUT_S, &reply, &err), PRONY_EUSAGE);
    assert_string_equal(err.text, "the message is missing");
    prn_stream_free(stream);
    assert_int_equal(value_of(&begun), 0);
}

static void metadata(void **state)
{
    (void)state;
    struct prn_channel_config config = {.address = address, .token = "s3cret"};
    struct prn_channel *own = NULL;
    struct prony_error err;
    struct prn_bytes *reply = NULL;
    struct prn_answer answer;
    assert_int_equal(prn_channel_open(&config, &own, &err), 0);
    assert_int_equal(prn_channel_set_metadata(own, "x-extra", "old", &err), 0);
    assert_int_equal(prn_channel_set_metadata(own, "x-extra", "new", &err), 0);
    assert_int_equal(prn_channel_set_metadata(own, "x-extra", "a\nb", &err), PRONY_EUSAGE);
    assert_int_equal(prn_channel_call(own, "/t.T/Mirror", prn_out_new(), 0, &reply, &answer, &err),
                     0);
    char text[256] = "";
    prn_bytes_copy(reply, (struct prn_range){0, prn_bytes_length(reply)}, text);
    prn_bytes_free(reply);
    assert_contains(text, "Bearer s3cret|new|ipv4:127.0.0.1:");
    assert_contains(text, "|1|own");
    assert_int_equal(answer.status, PRN_STATUS_OK);
    assert_string_equal(answer.cookie, "route=7");
    assert_int_equal(prn_channel_set_metadata(own, "x-extra", NULL, &err), 0);
    assert_int_equal(
        prn_channel_call(own, "/t.T/Mirror", prn_out_new(), TIMEOUT_S, &reply, NULL, &err), 0);
    memset(text, 0, sizeof text);
    prn_bytes_copy(reply, (struct prn_range){0, prn_bytes_length(reply)}, text);
    prn_bytes_free(reply);
    assert_contains(text, "Bearer s3cret|-|");
    assert_contains(text, "|0|own");
    prn_channel_close(own);
}

static void deadline(void **state)
{
    (void)state;
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    assert_int_equal(call_text(channel, "/t.T/Hold", "", 0.05, &reply, &err), PRONY_ETIMEDOUT);
    assert_contains(err.text, "didn't answer within 0.05 s");
    assert_contains(err.text, address);
    wait_until(&ended, 1);
    assert_int_equal(value_of(&cancelled), 1);
    /* The call is over: what it is told counts for nothing. */
    assert_true(prn_rpc_call_over(held));
    prn_rpc_call_finish(held, prn_out_new());
    prn_rpc_call_fail(held, PRN_STATUS_INTERNAL, "late");
    prn_rpc_call_read(held);
    prn_rpc_call_send(held, prn_out_new());
    expect_echo(channel, "goes on");
}

static void *set_when_begun(void *unused)
{
    (void)unused;
    wait_until(&begun, 1);
    __atomic_store_n(&stop_now, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void cancelled_by_the_user(void **state)
{
    (void)state;
    pthread_t thread;
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    pthread_create(&thread, NULL, set_when_begun, NULL);
    assert_int_equal(call_text(channel, "/t.T/Hold", "", 0, &reply, &err), PRONY_ECANCELED);
    pthread_join(thread, NULL);
    wait_until(&cancelled, 1);
}

static void *cancel_when_begun(void *stream)
{
    wait_until(&begun, 1);
    prn_stream_cancel(stream);
    return NULL;
}

static void cancelled_from_another_thread(void **state)
{
    (void)state;
    pthread_t thread;
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    struct prn_stream *stream = open_stream("/t.T/Talk", 0);
    pthread_create(&thread, NULL, cancel_when_begun, stream);
    assert_int_equal(prn_stream_receive(stream, 0, &reply, &err), PRONY_ECANCELED);
    pthread_join(thread, NULL);
    assert_int_equal(prn_stream_send(stream, prn_out_new(), 0, &err), PRONY_ECANCELED);
    prn_stream_free(stream);
    wait_until(&cancelled, 1);
}

/* The service ends a stream that the client still fills. */
static void refused_in_the_middle(void **state)
{
    (void)state;
    struct prn_stream *stream = open_stream("/t.T/Once", 0);
    struct prony_error err = {0};
    int r = 0;
    static char chunk[1 << 20];
    for (int i = 0; i < 10000 && r == 0; i++)
        r = prn_stream_send(stream, out_of(chunk, sizeof chunk), TIMEOUT_S, &err);
    assert_int_equal(r, PRONY_ENOENT);
    assert_string_equal(err.text, "enough");
    struct prn_bytes *reply = NULL;
    assert_int_equal(prn_stream_receive(stream, TIMEOUT_S, &reply, &err), PRONY_ENOENT);
    prn_stream_free(stream);
}

/* Who doesn't read holds up the service's sending, and nobody else. */
static void back_pressure(void **state)
{
    (void)state;
    struct prn_stream *stream = open_stream("/t.T/Row", 0);
    struct row wish = {200, 1 << 20, 0};
    send_ok(stream, &wish, 8);
    end_ok(stream);
    wait_until(&sent, 1);
    for (int i = 0; i < 50; i++)
        expect_echo(channel, "meanwhile");
    assert_true(value_of(&sent) < 100);
    for (uint32_t i = 0; i < wish.messages; i++)
        prn_bytes_free(receive_ok(stream));
    assert_null(receive_ok(stream));
    prn_stream_free(stream);
    /* And the other way: a client that sends more than the service reads has to wait. */
    stream = open_stream("/t.T/Talk", 0);
    char *data = calloc(1, LARGE / 4);
    struct prony_error err;
    int r = 0;
    for (int i = 0; i < 10 && r == 0; i++)
        r = prn_stream_send(stream, out_of(data, LARGE / 4), 0.5, &err);
    assert_int_equal(r, PRONY_ETIMEDOUT);
    free(data);
    prn_stream_free(stream);
}

static void *many_calls(void *failures)
{
    struct prn_channel *own = open_channel(address);
    for (int i = 0; i < 300; i++) {
        char text[64];
        snprintf(text, sizeof text, "%d of %p", i, failures);
        struct prn_bytes *reply = NULL;
        struct prony_error err;
        struct prn_channel *to = i % 2 ? own : channel;
        char copy[64] = "";
        if (call_text(to, "/t.T/Echo", text, TIMEOUT_S, &reply, &err) == 0) {
            prn_bytes_copy(reply, (struct prn_range){0, prn_bytes_length(reply)}, copy);
            prn_bytes_free(reply);
        }
        if (strcmp(copy, text) != 0)
            atomic_fetch_add((atomic_int *)failures, 1);
    }
    prn_channel_close(own);
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    pthread_t threads[8];
    atomic_int failures = 0;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(threads); i++)
        pthread_create(&threads[i], NULL, many_calls, &failures);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failures, 0);
    assert_int_equal(value_of(&begun), 2400);
}

/* Calls that wait don't hold up others, however many they are. */
static void many_open_calls(void **state)
{
    (void)state;
    enum { N = 1000 };
    static struct prn_stream *streams[N];
    for (int i = 0; i < N; i++)
        streams[i] = open_stream("/t.T/Talk", 0);
    for (int i = 0; i < N; i++)
        send_ok(streams[i], &i, sizeof i);
    wait_until(&begun, N);
    expect_echo(channel, "one more");
    for (int i = 0; i < N; i++)
        assert_bytes(receive_ok(streams[i]), &i, sizeof i);
    for (int i = 0; i < N; i++)
        prn_stream_free(streams[i]);
    wait_until(&cancelled, N);
}

static void *answer_later(void *unused)
{
    (void)unused;
    wait_until(&begun, 1);
    prn_rpc_call_finish(held, out_of("later", 5));
    return NULL;
}

static void answered_by_another_thread(void **state)
{
    (void)state;
    pthread_t thread;
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    pthread_create(&thread, NULL, answer_later, NULL);
    assert_int_equal(call_text(channel, "/t.T/Hold", "", TIMEOUT_S, &reply, &err), 0);
    assert_bytes(reply, "later", 5);
    pthread_join(thread, NULL);
    wait_until(&ended, 1);
    assert_int_equal(value_of(&cancelled), 0);
}

static void *call_block(void *unused)
{
    (void)unused;
    struct prn_channel *own = open_channel(address);
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    if (call_text(own, "/t.T/Block", "", TIMEOUT_S, &reply, &err) == 0)
        prn_bytes_free(reply);
    prn_channel_close(own);
    return NULL;
}

/* Of three threads two are stuck, and the third goes on. */
static void others_take_over(void **state)
{
    (void)state;
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, call_block, NULL);
        wait_until(&begun, (int)i + 1);
    }
    for (int i = 0; i < 100; i++)
        expect_echo(channel, "goes on");
    count(&freed);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    wait_until(&ended, 102);
}

static void *stop_server(void *grace_s)
{
    prn_server_stop(server, *(const double *)grace_s);
    return NULL;
}

static void stop_cancels_what_is_open(void **state)
{
    (void)state;
    struct prn_stream *stream = open_stream("/t.T/Talk", 0);
    send_ok(stream, "x", 1);
    assert_bytes(receive_ok(stream), "x", 1);
    prn_server_stop(server, 0);
    assert_int_equal(value_of(&ended), 1);
    assert_int_equal(value_of(&cancelled), 1);
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    assert_int_equal(prn_stream_receive(stream, TIMEOUT_S, &reply, &err), PRONY_EUNAVAILABLE);
    assert_contains(err.text, address);
    prn_stream_free(stream);
    assert_int_equal(call_text(channel, "/t.T/Echo", "", TIMEOUT_S, &reply, &err),
                     PRONY_EUNAVAILABLE);
    assert_contains(err.text, address);
}

static void stop_waits_for_the_grace(void **state)
{
    (void)state;
    struct prn_stream *stream = open_stream("/t.T/Talk", 0);
    send_ok(stream, "x", 1);
    assert_bytes(receive_ok(stream), "x", 1);
    pthread_t thread;
    double grace_s = TIMEOUT_S;
    pthread_create(&thread, NULL, stop_server, &grace_s);
    /* What is open goes on; something new is refused as soon as the stop has begun. */
    struct prony_error err;
    for (int r = 0; r == 0;) {
        struct prn_channel *late = open_channel(address);
        struct prn_bytes *reply = NULL;
        r = call_text(late, "/t.T/Echo", "", TIMEOUT_S, &reply, &err);
        if (r == 0)
            prn_bytes_free(reply);
        prn_channel_close(late);
    }
    send_ok(stream, "y", 1);
    assert_bytes(receive_ok(stream), "y", 1);
    end_ok(stream);
    assert_null(receive_ok(stream));
    prn_stream_free(stream);
    pthread_join(thread, NULL);
    assert_int_equal(value_of(&cancelled), 0);
}

static void health(void **state)
{
    (void)state;
    static const char check[] = "/grpc.health.v1.Health/Check";
    static const char *const known[] = {"", "\n\003t.T", "\n\025grpc.health.v1.Health"};
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(known); i++) {
        assert_int_equal(call_text(channel, check, known[i], TIMEOUT_S, &reply, &err), 0);
        assert_bytes(reply, "\010\001", 2);
    }
    assert_int_equal(call_text(channel, check, "\n\002t.", TIMEOUT_S, &reply, &err), PRONY_ENOENT);
    assert_int_equal(call_text(channel, check, "\n\004t.T", TIMEOUT_S, &reply, &err), PRONY_EUSAGE);
    assert_int_equal(call_text(channel, check, "\n", TIMEOUT_S, &reply, &err), PRONY_EUSAGE);
    struct prn_stream *watches[2];
    for (int i = 0; i < 2; i++) {
        watches[i] = open_stream("/grpc.health.v1.Health/Watch", 0);
        send_ok(watches[i], "\n\002no", i ? 4 : 0);
        end_ok(watches[i]);
    }
    assert_bytes(receive_ok(watches[0]), "\010\001", 2);
    assert_bytes(receive_ok(watches[1]), "\010\003", 2);
    prn_server_set_serving(server, false);
    assert_bytes(receive_ok(watches[0]), "\010\002", 2);
    assert_int_equal(call_text(channel, check, "", TIMEOUT_S, &reply, &err), 0);
    assert_bytes(reply, "\010\002", 2);
    prn_server_set_serving(server, true);
    assert_bytes(receive_ok(watches[0]), "\010\001", 2);
    for (int i = 0; i < 2; i++)
        prn_stream_free(watches[i]);
}

static void addresses(void **state)
{
    (void)state;
    static const struct {
        const char *address, *token;
        int code;
    } rows[] = {
        {"localhost", NULL, PRONY_EUSAGE},
        {"localhost:0", NULL, PRONY_EUSAGE},
        {"localhost:65536", NULL, PRONY_EUSAGE},
        {"localhost:1x", NULL, PRONY_EUSAGE},
        {":1", NULL, PRONY_EUSAGE},
        {"unix:", NULL, PRONY_EUSAGE},
        {"", NULL, PRONY_EUSAGE},
        {"example.org:1", "t", PRONY_EUSAGE},
        {"localhost.example.org:1", "t", PRONY_EUSAGE},
        {"1.127.0.1:1", "t", PRONY_EUSAGE},
        {"127.0.0.1.example.org:1", "t", PRONY_EUSAGE},
        {"example.org:1", NULL, 0},
        {"[::1]:1", "t", 0},
        {"localhost:1", "t", 0},
        {"127.0.0.1:1", "t", 0},
        {"127.0.0.1:1", "t\n", PRONY_EUSAGE},
        {"unix:/x", "t", 0},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(rows); i++) {
        struct prn_channel_config config = {.address = rows[i].address, .token = rows[i].token};
        struct prn_channel *own = NULL;
        struct prony_error err;
        if (prn_channel_open(&config, &own, &err) != rows[i].code)
            fail_msg("'%s' should give %d", rows[i].address, rows[i].code);
        prn_channel_close(own);
    }
}

static void nobody_there(void **state)
{
    (void)state;
    struct prn_channel *own = open_channel("unix:/nonexistent/prony");
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(call_text(own, "/t.T/Echo", "", 0, &reply, &err), PRONY_EUNAVAILABLE);
        assert_string_equal(err.text, "cannot reach 'unix:/nonexistent/prony': "
                                      "No such file or directory");
    }
    struct prn_stream *stream = NULL;
    assert_int_equal(prn_stream_open(own, "/t.T/Talk", 0, &stream, &err), 0);
    assert_int_equal(prn_stream_receive(stream, 0, &reply, &err), PRONY_EUNAVAILABLE);
    prn_stream_free(stream);
    prn_channel_close(own);
}

/* A channel that failed finds a service that came later, at once. */
static void service_comes_later(void **state)
{
    (void)state;
    char later[80];
    snprintf(later, sizeof later, "%s-later", socket_address);
    struct prn_channel *own = open_channel(later);
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    assert_int_equal(call_text(own, "/t.T/Echo", "", 0, &reply, &err), PRONY_EUNAVAILABLE);
    struct prn_server_config config = {.methods = methods, .message_max = MESSAGE_MAX};
    for (int i = 0; i < 3; i++) {
        struct prn_server *second = NULL;
        assert_int_equal(prn_server_new(&config, &second, &err), 0);
        assert_int_equal(prn_server_listen(second, later, NULL, NULL, &err), 0);
        assert_int_equal(prn_server_start(second, &err), 0);
        expect_echo(own, "found");
        prn_server_free(second);
        assert_int_equal(call_text(own, "/t.T/Echo", "", 0, &reply, &err), PRONY_EUNAVAILABLE);
    }
    prn_channel_close(own);
}

static void listening(void **state)
{
    (void)state;
    struct prn_server_config config = {.methods = methods, .message_max = 1};
    struct prn_server *second = NULL;
    struct prony_error err;
    assert_int_equal(prn_server_new(&config, &second, &err), 0);
    assert_int_equal(prn_server_listen(second, address, NULL, NULL, &err), PRONY_EIO);
    assert_contains(err.text, address);
    assert_contains(err.text, "Address already in use");
    assert_int_equal(prn_server_listen(second, "unix:/nonexistent/x", NULL, NULL, &err), PRONY_EIO);
    assert_contains(err.text, "No such file");
    struct prn_server_tls tls = {"no", "certificate"};
    assert_int_equal(prn_server_listen(second, "127.0.0.1:0", &tls, NULL, &err), PRONY_EFORMAT);
    assert_contains(err.text, "holds no certificate in PEM format");
    prn_server_free(second); /* without a start */
    prn_server_free(NULL);
}

static int connect_raw(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* What isn't HTTP/2, and what only begins like it, ends its own connection and no other. */
static void garbage_on_the_wire(void **state)
{
    (void)state;
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\0\0\0\004\0\0\0\0\0"
    static const struct {
        const char *data;
        size_t length;
    } rows[] = {
#define ROW(text) {text, sizeof(text) - 1}
        ROW("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        ROW(PREFACE "\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        ROW(PREFACE SETTINGS "\0\0\004\001\004\0\0\0\001\xff\xff\xff\xff"), /* broken headers */
        ROW(PREFACE SETTINGS "\0\0\005\0\0\0\0\0\001zzzzz"),                /* data of no stream */
        ROW(PREFACE SETTINGS "\0\0\004\010\0\0\0\0\0\0\0\0\0"), /* a window of nothing */
        ROW(PREFACE "\0\0\001\004\0\0\0\0\0x"),                 /* settings of the wrong size */
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(rows); i++) {
        int fd = connect_raw();
        assert_int_equal(send(fd, rows[i].data, rows[i].length, MSG_NOSIGNAL), rows[i].length);
        shutdown(fd, SHUT_WR);
        char answer[4096];
        while (recv(fd, answer, sizeof answer, 0) > 0)
            ;
        close(fd);
        expect_echo(channel, "goes on");
    }
}

static void idle_connections(void **state)
{
    (void)state;
    int idle[300];
    for (size_t i = 0; i < PRN_ARRAY_SIZE(idle); i++) {
        idle[i] = connect_raw();
        if (i % 2)
            assert_true(send(idle[i], PREFACE SETTINGS, 33, MSG_NOSIGNAL) == 33);
    }
    expect_echo(channel, "goes on");
    struct prn_channel *own = open_channel(address);
    expect_echo(own, "and others may come");
    prn_channel_close(own);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(idle); i++)
        close(idle[i]);
}

static void metadata_over_the_limit(void **state)
{
    (void)state;
    static char value[40000];
    memset(value, 'v', sizeof value - 1);
    struct prn_channel *own = open_channel(address);
    struct prn_bytes *reply = NULL;
    struct prony_error err;
    assert_int_equal(prn_channel_set_metadata(own, "x-extra", value, &err), 0);
    assert_int_equal(call_text(own, "/t.T/Echo", "", TIMEOUT_S, &reply, &err), PRONY_ELIMIT);
    assert_int_equal(value_of(&begun), 0);
    prn_channel_close(own);
    expect_echo(channel, "goes on");
}

/* A certificate for localhost and its key, in PEM. */
struct identity {
    char *certificate, *key;
};

static char *text_of(BIO *bio)
{
    char *data;
    long length = BIO_get_mem_data(bio, &data);
    char *text = strndup(data, (size_t)length);
    BIO_free(bio);
    return text;
}

static struct identity make_identity(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x509 = X509_new();
    X509_set_version(x509, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
    X509_NAME *name = X509_get_subject_name(x509);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1,
                               0);
    X509_set_issuer_name(x509, name);
    X509_set_pubkey(x509, key);
    X509_EXTENSION *names =
        X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    X509_add_ext(x509, names, -1);
    X509_EXTENSION_free(names);
    assert_true(X509_sign(x509, key, EVP_sha256()) > 0);
    BIO *certificate_text = BIO_new(BIO_s_mem());
    BIO *key_text = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(certificate_text, x509);
    PEM_write_bio_PrivateKey(key_text, key, NULL, NULL, 0, NULL, NULL);
    X509_free(x509);
    EVP_PKEY_free(key);
    return (struct identity){text_of(certificate_text), text_of(key_text)};
}

static void over_tls(void **state)
{
    (void)state;
    struct identity own = make_identity();
    struct identity other = make_identity();
    struct prn_server_config config = {.methods = methods, .message_max = MESSAGE_MAX};
    struct prn_server_tls tls = {own.certificate, own.key};
    struct prn_server_tls mixed = {own.certificate, other.key};
    struct prn_server_tls half = {own.certificate, NULL};
    struct prn_server *secure = NULL;
    struct prony_error err;
    int port = 0;
    assert_int_equal(prn_server_new(&config, &secure, &err), 0);
    assert_int_equal(prn_server_listen(secure, "127.0.0.1:0", &mixed, NULL, &err), PRONY_EFORMAT);
    assert_contains(err.text, "does not match the certificate in");
    assert_int_equal(prn_server_listen(secure, "127.0.0.1:0", &half, NULL, &err), PRONY_EUSAGE);
    assert_int_equal(prn_server_listen(secure, "127.0.0.1:0", &tls, &port, &err), 0);
    assert_int_equal(prn_server_start(secure, &err), 0);
    char to[64];
    snprintf(to, sizeof to, "localhost:%d", port);
    struct prn_channel_config rows[] = {
        {.address = to, .tls = true, .ca = own.certificate, .token = "t"},
        {.address = to, .tls = true, .ca = other.certificate},
        {.address = to, .tls = true},
        {.address = to},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(rows); i++) {
        struct prn_channel *to_it = NULL;
        struct prn_bytes *reply = NULL;
        assert_int_equal(prn_channel_open(&rows[i], &to_it, &err), 0);
        if (i == 0) {
            expect_echo(to_it, "sealed");
        } else {
            assert_int_equal(call_text(to_it, "/t.T/Echo", "", TIMEOUT_S, &reply, &err),
                             PRONY_EUNAVAILABLE);
            assert_contains(err.text, to);
        }
        prn_channel_close(to_it);
    }
    /* Another certificate counts from the next connection on; a wrong one changes nothing. */
    assert_int_equal(prn_server_set_tls(secure, &mixed, &err), PRONY_EFORMAT);
    tls = (struct prn_server_tls){other.certificate, other.key};
    assert_int_equal(prn_server_set_tls(secure, &tls, &err), 0);
    struct prn_channel *renewed = NULL;
    assert_int_equal(prn_channel_open(&rows[1], &renewed, &err), 0);
    expect_echo(renewed, "renewed");
    prn_channel_close(renewed);
    struct prn_channel_config wrong = {.address = to, .tls = true, .ca = "no certificate"};
    struct prn_channel *none = NULL;
    assert_int_equal(prn_channel_open(&wrong, &none, &err), PRONY_EFORMAT);
    prn_server_free(secure);
    free(own.certificate);
    free(own.key);
    free(other.certificate);
    free(other.key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define BOTH_SIDES(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
        BOTH_SIDES(unary),
        BOTH_SIDES(client_stream),
        BOTH_SIDES(server_stream),
        BOTH_SIDES(both_streams),
        BOTH_SIDES(finish_waits_for_the_message),
        BOTH_SIDES(large_messages),
        BOTH_SIDES(errors_of_the_service),
        BOTH_SIDES(unknown_method),
        BOTH_SIDES(message_over_the_limit),
        BOTH_SIDES(message_missing),
        BOTH_SIDES(metadata),
        BOTH_SIDES(deadline),
        BOTH_SIDES(cancelled_by_the_user),
        BOTH_SIDES(cancelled_from_another_thread),
        BOTH_SIDES(refused_in_the_middle),
        BOTH_SIDES(back_pressure),
        BOTH_SIDES(many_threads),
        BOTH_SIDES(many_open_calls),
        BOTH_SIDES(answered_by_another_thread),
        BOTH_SIDES(others_take_over),
        BOTH_SIDES(stop_cancels_what_is_open),
        BOTH_SIDES(stop_waits_for_the_grace),
        BOTH_SIDES(health),
        cmocka_unit_test(addresses),
        cmocka_unit_test(nobody_there),
        BOTH_SIDES(service_comes_later),
        BOTH_SIDES(listening),
        BOTH_SIDES(over_tls),
        BOTH_SIDES(garbage_on_the_wire),
        BOTH_SIDES(idle_connections),
        BOTH_SIDES(metadata_over_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
