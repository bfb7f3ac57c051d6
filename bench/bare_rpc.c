#include "bare_rpc.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define METHOD "/bench.Bare/Call"

void bench_die(const char *what)
{
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
    exit(1);
}

int64_t bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t bench_median(int64_t *values, size_t n)
{
    qsort(values, n, sizeof *values, by_size);
    return n ? values[n / 2] : 0;
}

static void *watch_input(void *unused)
{
    (void)unused;
    while (getchar() != EOF)
        ;
    _exit(0);
}

void bench_end_with_input(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch_input, NULL) != 0)
        bench_die("no thread");
}

gpr_timespec bench_never(void)
{
    return gpr_inf_future(GPR_CLOCK_MONOTONIC);
}

static grpc_channel_args unlimited(void)
{
    static char key[] = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH;
    static grpc_arg arg = {GRPC_ARG_INTEGER, key, {.integer = -1}};
    return (grpc_channel_args){1, &arg};
}

/* What the message begins with, which may come in pieces. */
static uint64_t wanted_bytes(grpc_byte_buffer *message)
{
    grpc_byte_buffer_reader reader;
    grpc_slice piece;
    uint64_t wanted;
    unsigned char *to = (unsigned char *)&wanted;
    size_t left = sizeof wanted;
    if (grpc_byte_buffer_reader_init(&reader, message) == 0)
        bench_die("a message can't be read");
    while (left > 0 && grpc_byte_buffer_reader_next(&reader, &piece) != 0) {
        size_t n = GRPC_SLICE_LENGTH(piece) < left ? GRPC_SLICE_LENGTH(piece) : left;
        memcpy(to + sizeof wanted - left, GRPC_SLICE_START_PTR(piece), n);
        left -= n;
        grpc_slice_unref(piece);
    }
    grpc_byte_buffer_reader_destroy(&reader);
    if (left > 0)
        bench_die("a message doesn't say how long its answer is to be");
    return wanted;
}

/* Out of memory that is used again. */
static grpc_byte_buffer *make_answer(size_t wanted)
{
    static unsigned char *memory;
    static size_t bytes;
    if (wanted > bytes) {
        memory = realloc(memory, wanted);
        bytes = wanted;
        if (!memory)
            bench_die("out of memory");
        memset(memory, 1, bytes);
    }
    grpc_slice slice = grpc_slice_from_static_buffer(memory, wanted);
    return grpc_raw_byte_buffer_create(&slice, 1);
}

void bench_bare_serve(enum bench_answer kind)
{
    grpc_init();
    grpc_channel_args args = unlimited();
    grpc_server *server = grpc_server_create(&args, NULL);
    grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server, queue, NULL);
    void *method = grpc_server_register_method(server, METHOD, NULL,
                                               GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    int port = grpc_server_add_http2_port(server, "127.0.0.1:0",
                                          grpc_insecure_server_credentials_create());
    grpc_server_start(server);
    printf("%d\n", port);
    fflush(stdout);
    for (;;) {
        grpc_call *call = NULL;
        gpr_timespec deadline;
        grpc_metadata_array metadata;
        grpc_byte_buffer *message = NULL;
        int cancelled;
        grpc_metadata_array_init(&metadata);
        grpc_server_request_registered_call(server, method, &call, &deadline, &metadata, &message,
                                            queue, queue, &call);
        grpc_completion_queue_next(queue, bench_never(), NULL);
        grpc_byte_buffer *answer =
            kind == BENCH_ANSWER_WANTED ? make_answer(wanted_bytes(message)) : message;
        grpc_op ops[] = {
            {.op = GRPC_OP_SEND_INITIAL_METADATA},
            {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = answer},
            {.op = GRPC_OP_SEND_STATUS_FROM_SERVER},
            {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &cancelled},
        };
        grpc_call_start_batch(call, ops, 4, ops, NULL);
        grpc_completion_queue_next(queue, bench_never(), NULL);
        if (answer != message)
            grpc_byte_buffer_destroy(answer);
        grpc_byte_buffer_destroy(message);
        grpc_metadata_array_destroy(&metadata);
        grpc_call_unref(call);
    }
}

struct bench_bare bench_bare_open(int port)
{
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    grpc_init();
    grpc_channel_args args = unlimited();
    return (struct bench_bare){
        .channel = grpc_channel_create(address, grpc_insecure_credentials_create(), &args),
        .queue = grpc_completion_queue_create_for_pluck(NULL),
        .payload = grpc_empty_slice()};
}

void bench_bare_resize(struct bench_bare *bare, size_t bytes)
{
    if (GRPC_SLICE_LENGTH(bare->payload) == bytes)
        return;
    grpc_slice_unref(bare->payload);
    bare->payload = grpc_slice_malloc_large(bytes);
    memset(GRPC_SLICE_START_PTR(bare->payload), 1, bytes);
}

int64_t bench_bare_call(const struct bench_bare *bare, size_t back)
{
    int64_t start = bench_now_ns();
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_status_code status = GRPC_STATUS_OK;
    grpc_slice text = grpc_empty_slice();
    grpc_slice payload = bare->payload;
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&payload, 1);
    grpc_byte_buffer *reply = NULL;
    grpc_metadata_array_init(&initial);
    grpc_metadata_array_init(&trailing);
    grpc_call *call =
        grpc_channel_create_call(bare->channel, NULL, 0, bare->queue,
                                 grpc_slice_from_static_string(METHOD), NULL, bench_never(), NULL);
    grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &initial},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &reply},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &trailing,
                                        .status = &status,
                                        .status_details = &text}},
    };
    grpc_call_start_batch(call, ops, 6, ops, NULL);
    grpc_completion_queue_pluck(bare->queue, ops, bench_never(), NULL);
    if (status != GRPC_STATUS_OK || !reply || grpc_byte_buffer_length(reply) != back)
        bench_die("a bare call failed");
    grpc_byte_buffer_destroy(message);
    grpc_byte_buffer_destroy(reply);
    grpc_metadata_array_destroy(&initial);
    grpc_metadata_array_destroy(&trailing);
    grpc_slice_unref(text);
    grpc_call_unref(call);
    return bench_now_ns() - start;
}
