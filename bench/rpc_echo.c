/*
 * What src/rpc costs beside bare gRPC: an echo on each, client and servers in processes of their
 * own. The bare server has one thread, and so has ours; ours-2 has two.
 *
 *   rpc_echo                                   all of them, interleaved, and how they compare
 *   rpc_echo serve bare|ours|ours-2            prints its port and serves until its input ends
 *   rpc_echo call bare|ours PORT BYTES CALLS   prints the median time of a call in ns
 */
#include "rpc/client.h"
#include "rpc/server.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define METHOD "/bench.Echo/Echo"
#define MESSAGE_MAX ((size_t)1 << 30)
#define LARGE ((size_t)64 << 20)
#define ROUNDS 15
#define SMALL_CALLS 400
#define LARGE_CALLS 3

static void die(const char *what)
{
    fprintf(stderr, "rpc_echo: %s\n", what);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void say_port(int port)
{
    printf("%d\n", port);
    fflush(stdout);
}

/* ---- Bare ---- */

static grpc_channel_args unlimited(void)
{
    static char key[] = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH;
    static grpc_arg arg = {GRPC_ARG_INTEGER, key, {.integer = -1}};
    return (grpc_channel_args){1, &arg};
}

static gpr_timespec never(void)
{
    return gpr_inf_future(GPR_CLOCK_MONOTONIC);
}

static void bare_serve(void)
{
    grpc_init();
    grpc_channel_args args = unlimited();
    grpc_server *server = grpc_server_create(&args, NULL);
    grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server, queue, NULL);
    void *method = grpc_server_register_method(server, METHOD, NULL,
                                               GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
    int port = grpc_server_add_http2_port(server, "127.0.0.1:0", credentials);
    grpc_server_start(server);
    say_port(port);
    for (;;) {
        grpc_call *call = NULL;
        gpr_timespec deadline;
        grpc_metadata_array metadata;
        grpc_byte_buffer *message = NULL;
        grpc_metadata_array_init(&metadata);
        grpc_server_request_registered_call(server, method, &call, &deadline, &metadata, &message,
                                            queue, queue, &call);
        grpc_completion_queue_next(queue, never(), NULL);
        int cancelled;
        grpc_op ops[] = {
            {.op = GRPC_OP_SEND_INITIAL_METADATA},
            {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
            {.op = GRPC_OP_SEND_STATUS_FROM_SERVER},
            {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &cancelled},
        };
        grpc_call_start_batch(call, ops, 4, ops, NULL);
        grpc_completion_queue_next(queue, never(), NULL);
        grpc_byte_buffer_destroy(message);
        grpc_metadata_array_destroy(&metadata);
        grpc_call_unref(call);
    }
}

struct bare {
    grpc_channel *channel;
    grpc_completion_queue *queue;
    grpc_slice payload;
};

static struct bare bare_open(int port, size_t bytes)
{
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    grpc_init();
    grpc_channel_args args = unlimited();
    struct bare bare = {.channel =
                            grpc_channel_create(address, grpc_insecure_credentials_create(), &args),
                        .queue = grpc_completion_queue_create_for_pluck(NULL),
                        .payload = grpc_slice_malloc_large(bytes)};
    memset(GRPC_SLICE_START_PTR(bare.payload), 1, bytes);
    return bare;
}

static int64_t bare_call(struct bare *bare)
{
    int64_t start = now_ns();
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_status_code status = GRPC_STATUS_OK;
    grpc_slice text = grpc_empty_slice();
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&bare->payload, 1);
    grpc_byte_buffer *reply = NULL;
    grpc_metadata_array_init(&initial);
    grpc_metadata_array_init(&trailing);
    grpc_call *call =
        grpc_channel_create_call(bare->channel, NULL, 0, bare->queue,
                                 grpc_slice_from_static_string(METHOD), NULL, never(), NULL);
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
    grpc_completion_queue_pluck(bare->queue, ops, never(), NULL);
    if (status != GRPC_STATUS_OK || !reply ||
        grpc_byte_buffer_length(reply) != GRPC_SLICE_LENGTH(bare->payload))
        die("a bare call failed");
    grpc_byte_buffer_destroy(message);
    grpc_byte_buffer_destroy(reply);
    grpc_metadata_array_destroy(&initial);
    grpc_metadata_array_destroy(&trailing);
    grpc_slice_unref(text);
    grpc_call_unref(call);
    return now_ns() - start;
}

/* ---- Ours ---- */

static void free_bytes(void *context)
{
    prn_bytes_free(context);
}

/* The pieces go back as they came; the last one takes the message with it. */
static void echo(struct prn_rpc_call *call, struct prn_bytes *message)
{
    struct prn_out *out = prn_out_new();
    struct prn_range range = {0, prn_bytes_length(message)};
    const void *data;
    size_t length;
    if (range.length == 0)
        prn_bytes_free(message);
    while (range.length && prn_bytes_next(message, &range, &data, &length))
        prn_out_borrow(out, data, length, range.length ? NULL : free_bytes, message);
    prn_rpc_call_finish(call, out);
}

static void ours_serve(size_t threads)
{
    static const struct prn_method methods[] = {
        {.name = METHOD, .kind = PRN_METHOD_UNARY, .begin = echo}, {0}};
    struct prn_server_config config = {
        .methods = methods, .threads = threads, .message_max = MESSAGE_MAX};
    struct prn_server *server;
    struct prony_error err;
    int port;
    if (prn_server_new(&config, &server, &err) < 0 ||
        prn_server_listen(server, "127.0.0.1:0", NULL, &port, &err) < 0 ||
        prn_server_start(server, &err) < 0)
        die(err.text);
    say_port(port);
    pause();
}

struct ours {
    struct prn_channel *channel;
    void *payload;
    size_t bytes;
};

static struct ours ours_open(int port, size_t bytes)
{
    /* As prony's own clients do: with a way to end the wait. */
    static volatile int cancelled;
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    struct prn_channel_config config = {.address = address, .cancelled = &cancelled};
    struct ours ours = {.payload = malloc(bytes + 1), .bytes = bytes};
    struct prony_error err;
    memset(ours.payload, 1, bytes);
    if (prn_channel_open(&config, &ours.channel, &err) < 0)
        die(err.text);
    return ours;
}

static int64_t ours_call(struct ours *ours)
{
    int64_t start = now_ns();
    struct prn_out *out = prn_out_new();
    struct prn_bytes *reply;
    struct prony_error err;
    prn_out_borrow(out, ours->payload, ours->bytes, NULL, NULL);
    if (prn_channel_call(ours->channel, METHOD, out, 60, &reply, NULL, &err) < 0)
        die(err.text);
    if (prn_bytes_length(reply) != ours->bytes)
        die("an answer has another length");
    prn_bytes_free(reply);
    return now_ns() - start;
}

/* ---- Both ---- */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median(int64_t *values, size_t n)
{
    qsort(values, n, sizeof *values, by_size);
    return (double)(n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2);
}

/* A server in a process of its own; its port. */
static int spawn(const char *kind)
{
    int ends[2];
    if (pipe(ends) < 0)
        die("no pipe");
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "rpc_echo", "serve", kind, "forever", (char *)NULL);
        die("cannot start a server");
    }
    close(ends[1]);
    FILE *output = fdopen(ends[0], "r");
    int port = 0;
    if (!output || fscanf(output, "%d", &port) != 1)
        die("a server didn't start");
    return port;
}

static const char *const kinds[] = {"bare", "ours", "ours-2"};
#define KINDS 3

static void compare(const char *what, const int ports[KINDS], size_t bytes, int calls)
{
    static int64_t times[KINDS][ROUNDS * SMALL_CALLS];
    struct bare bare = bare_open(ports[0], bytes);
    struct ours ours[KINDS] = {{0}, ours_open(ports[1], bytes), ours_open(ports[2], bytes)};
    for (int i = -calls; i < ROUNDS * calls; i++)
        for (int k = 0; k < KINDS; k++) {
            int kind = (k + i + calls) % KINDS;
            int64_t ns = kind ? ours_call(&ours[kind]) : bare_call(&bare);
            if (i >= 0) /* the first are to warm up */
                times[kind][i] = ns;
        }
    size_t n = (size_t)ROUNDS * (size_t)calls;
    double first = median(times[0], n);
    for (int kind = 0; kind < KINDS; kind++) {
        double own = median(times[kind], n);
        printf("%-6s %-6s median %9.1f us, quarter %9.1f us, %.2f of bare", what, kinds[kind],
               own / 1e3, (double)times[kind][n / 4] / 1e3, own / first);
        printf(bytes ? ", %.2f GB/s\n" : "\n", 2 * (double)bytes / own);
    }
}

static void call_many(const char *kind, int port, size_t bytes, size_t calls)
{
    int64_t *times = calloc(calls, sizeof *times);
    bool is_bare = strcmp(kind, "bare") == 0;
    struct bare bare = {0};
    struct ours ours = {0};
    if (is_bare)
        bare = bare_open(port, bytes);
    else
        ours = ours_open(port, bytes);
    for (size_t i = 0; i < calls / 10 + 1; i++)
        (void)(is_bare ? bare_call(&bare) : ours_call(&ours));
    for (size_t i = 0; i < calls; i++)
        times[i] = is_bare ? bare_call(&bare) : ours_call(&ours);
    printf("%.0f\n", median(times, calls));
}

static void *end_with_input(void *unused)
{
    (void)unused;
    while (getchar() != EOF)
        ;
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        int ports[KINDS];
        for (int i = 0; i < KINDS; i++)
            ports[i] = spawn(kinds[i]);
        compare("empty", ports, 0, SMALL_CALLS);
        compare("64 MiB", ports, LARGE, LARGE_CALLS);
        return 0;
    }
    if (argc >= 3 && strcmp(argv[1], "serve") == 0) {
        pthread_t thread;
        if (argc == 3 && pthread_create(&thread, NULL, end_with_input, NULL) != 0)
            die("no thread");
        if (strcmp(argv[2], "bare") == 0)
            bare_serve();
        ours_serve(strcmp(argv[2], "ours-2") == 0 ? 2 : 1);
        return 0;
    }
    if (argc == 6 && strcmp(argv[1], "call") == 0) {
        call_many(argv[2], atoi(argv[3]), (size_t)atoll(argv[4]), (size_t)atoll(argv[5]));
        return 0;
    }
    die("unknown arguments; its first lines say which there are");
}
