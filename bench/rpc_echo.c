/*
 * What src/rpc costs beside bare gRPC: an echo on each, client and servers in processes of their
 * own. The bare server has one thread, and so has ours; ours-2 has two.
 *
 *   rpc_echo                                   all of them, interleaved, and how they compare
 *   rpc_echo serve bare|ours|ours-2            prints its port and serves until its input ends
 *   rpc_echo call bare|ours PORT BYTES CALLS   prints the median time of a call in ns
 */
#include "bare_rpc.h"

#include "rpc/client.h"
#include "rpc/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#define METHOD "/bench.Echo/Echo"
#define MESSAGE_MAX ((size_t)1 << 30)
#define LARGE ((size_t)64 << 20)
#define ROUNDS 15
#define SMALL_CALLS 400
#define LARGE_CALLS 3

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
        bench_die(err.text);
    printf("%d\n", port);
    fflush(stdout);
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
        bench_die(err.text);
    return ours;
}

static int64_t ours_call(struct ours *ours)
{
    int64_t start = bench_now_ns();
    struct prn_out *out = prn_out_new();
    struct prn_bytes *reply;
    struct prony_error err;
    prn_out_borrow(out, ours->payload, ours->bytes, NULL, NULL);
    if (prn_channel_call(ours->channel, METHOD, out, 60, &reply, NULL, &err) < 0)
        bench_die(err.text);
    if (prn_bytes_length(reply) != ours->bytes)
        bench_die("an answer has another length");
    prn_bytes_free(reply);
    return bench_now_ns() - start;
}

/* ---- Both ---- */

/* A server in a process of its own; its port. */
static int spawn(const char *kind)
{
    int ends[2];
    if (pipe(ends) < 0)
        bench_die("no pipe");
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "rpc_echo", "serve", kind, "forever", (char *)NULL);
        bench_die("cannot start a server");
    }
    close(ends[1]);
    FILE *output = fdopen(ends[0], "r");
    int port = 0;
    if (!output || fscanf(output, "%d", &port) != 1)
        bench_die("a server didn't start");
    return port;
}

static const char *const kinds[] = {"bare", "ours", "ours-2"};
#define KINDS 3

static void compare(const char *what, const int ports[KINDS], size_t bytes, int calls)
{
    static int64_t times[KINDS][ROUNDS * SMALL_CALLS];
    struct bench_bare bare = bench_bare_open(ports[0]);
    bench_bare_resize(&bare, bytes);
    struct ours ours[KINDS] = {{0}, ours_open(ports[1], bytes), ours_open(ports[2], bytes)};
    for (int i = -calls; i < ROUNDS * calls; i++)
        for (int k = 0; k < KINDS; k++) {
            int kind = (k + i + calls) % KINDS;
            int64_t ns = kind ? ours_call(&ours[kind]) : bench_bare_call(&bare, bytes);
            if (i >= 0) /* the first are to warm up */
                times[kind][i] = ns;
        }
    size_t n = (size_t)ROUNDS * (size_t)calls;
    double first = (double)bench_median(times[0], n);
    for (int kind = 0; kind < KINDS; kind++) {
        double own = (double)bench_median(times[kind], n);
        printf("%-6s %-6s median %9.1f us, quarter %9.1f us, %.2f of bare", what, kinds[kind],
               own / 1e3, (double)times[kind][n / 4] / 1e3, own / first);
        printf(bytes ? ", %.2f GB/s\n" : "\n", 2 * (double)bytes / own);
    }
}

static void call_many(const char *kind, int port, size_t bytes, size_t calls)
{
    int64_t *times = calloc(calls, sizeof *times);
    bool is_bare = strcmp(kind, "bare") == 0;
    struct bench_bare bare = {0};
    struct ours ours = {0};
    if (is_bare) {
        bare = bench_bare_open(port);
        bench_bare_resize(&bare, bytes);
    } else {
        ours = ours_open(port, bytes);
    }
    for (size_t i = 0; i < calls / 10 + 1; i++)
        (void)(is_bare ? bench_bare_call(&bare, bytes) : ours_call(&ours));
    for (size_t i = 0; i < calls; i++)
        times[i] = is_bare ? bench_bare_call(&bare, bytes) : ours_call(&ours);
    printf("%lld\n", (long long)bench_median(times, calls));
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
        if (argc == 3)
            bench_end_with_input();
        if (strcmp(argv[2], "bare") == 0)
            bench_bare_serve(BENCH_ANSWER_SAME);
        ours_serve(strcmp(argv[2], "ours-2") == 0 ? 2 : 1);
        return 0;
    }
    if (argc == 6 && strcmp(argv[1], "call") == 0) {
        call_many(argv[2], atoi(argv[3]), (size_t)atoll(argv[4]), (size_t)atoll(argv[5]));
        return 0;
    }
    bench_die("unknown arguments; its first lines say which there are");
}
