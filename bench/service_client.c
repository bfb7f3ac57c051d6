/*
 * The C side of bench/service, which starts these and tells them what to do, a line at a time; each
 * answers with a line.
 *
 *   service_client serve
 *       a server on nothing but gRPC's C core; prints its port. A message begins with how long the
 *       answer is to be (8 bytes).
 *   service_client bare PORT
 *       "call SENT BACK CALLS": median ns of a call with messages of so many bytes
 *   service_client prony ADDRESS BACKEND MODEL DIMS
 *       a session with the model, which has one input of floats
 *       "run CALLS", "infer CALLS": median ns of a Run, without and with outputs
 *       "times REPEATS": median ns of a run of the model, as the service has timed it
 *       "upload MIB SEED": ns to send so much that the service doesn't have, its hash being known
 *       "file PATH": ns to hash and send a file
 *   service_client queue ADDRESS BACKEND
 *       "create N": ns to create sessions, which stay
 *       "churn N PER_SECOND": ns to create and close as many more, as fast as it goes when 0
 *       "close": ns to close those that stayed
 */
#include "bare_rpc.h"

#include "rpc/client.h"
#include "rpc/messages.h"
#include "rpc/remote.h"

#include "record/remote.h"

#include <inference_base.pb-c.h>

#include <grpc/slice.h>
#include <openssl/evp.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define SERVICE(name) "/octoml_profile.RemoteInference/" name
#define TIMEOUT_S 120
#define CALLS_MAX 100000

static int64_t times[CALLS_MAX];

/* ---- Bare ---- */

static int64_t bare_command(struct bench_bare *bare, const char *line)
{
    size_t sent;
    size_t back;
    size_t calls;
    if (sscanf(line, "call %zu %zu %zu", &sent, &back, &calls) != 3 || sent < sizeof(uint64_t) ||
        calls > CALLS_MAX)
        bench_die("no such command of a bare client");
    bench_bare_resize(bare, sent);
    uint64_t wanted = back;
    memcpy(GRPC_SLICE_START_PTR(bare->payload), &wanted, sizeof wanted);
    for (size_t i = 0; i < calls; i++)
        times[i] = bench_bare_call(bare, back);
    return bench_median(times, calls);
}

/* ---- A session ---- */

struct session {
    struct prn_remote *remote;
    struct prn_arena arena;
    struct prony_tensor input;
    int64_t dims[8];
    uint64_t model;
    unsigned char *data; /* of uploads */
    size_t data_bytes;
};

static const struct prn_remote_ops *const ops = &prn_remote_operations;

static void parse_dims(struct session *s, const char *text)
{
    size_t bytes = sizeof(float);
    s->input = (struct prony_tensor){.dtype = PRONY_DTYPE_FLOAT, .dims = s->dims};
    while (*text && s->input.rank < PRN_ARRAY_SIZE(s->dims)) {
        char *end;
        s->dims[s->input.rank] = strtoll(text, &end, 10);
        bytes *= (size_t)s->dims[s->input.rank++];
        text = *end ? end + 1 : end;
    }
    float *data = malloc(bytes);
    if (!data)
        bench_die("out of memory");
    for (size_t i = 0; i < bytes / sizeof *data; i++)
        data[i] = 0.5f;
    s->input.data = data;
    s->input.bytes = bytes;
}

static uint64_t send_file(struct session *s, const char *name, int fd, const uint8_t *sha256)
{
    struct prony_error err;
    struct prony_error failure = {0};
    struct prn_remote_model model = {0};
    const struct prn_remote_file file = {
        .name = name, .fd = fd, .data = s->data, .bytes = s->data_bytes, .sha256 = sha256};
    if (ops->upload(s->remote, &model, &file, 1, &failure, &err) < 0)
        bench_die(err.text);
    if (failure.code < 0)
        bench_die(failure.text);
    return model.id;
}

static void load_model(struct session *s, const char *path)
{
    struct prony_error err;
    struct prn_remote_loaded loaded;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        bench_die("cannot read the model");
    s->model = send_file(s, "model.onnx", fd, NULL);
    close(fd);
    const struct prn_remote_load load = {
        .model = s->model, .format = PRN_REMOTE_FORMAT_ONNX, .timeout_s = TIMEOUT_S};
    if (ops->load(s->remote, &load, &s->arena, &loaded, &err) < 0)
        bench_die(err.text);
    if (loaded.error)
        bench_die(loaded.error);
}

static struct session *session_open(char **argv)
{
    static struct session s;
    struct prony_error err;
    struct prn_spec backend;
    const struct prn_remote_config config = {.address = argv[0]};
    s.arena = PRN_ARENA_INIT((size_t)1 << 20);
    if (prn_spec_parse(argv[1], true, &s.arena, &backend, &err) < 0 ||
        ops->connect(&config, &s.remote, &err) < 0 || ops->open(s.remote, &backend, 1, &err) < 0)
        bench_die(err.text);
    load_model(&s, argv[2]);
    parse_dims(&s, argv[3]);
    return &s;
}

/* The median of what the service has timed is left in `*ret_timed_ns`. */
static void run(struct session *s, size_t repeats, bool outputs, int64_t *ret_timed_ns)
{
    struct prony_error err;
    struct prn_remote_result result;
    struct prn_remote_reply *reply;
    const struct prn_remote_map map = {.n = 1, .indices = &(int32_t){0}};
    const struct prn_remote_run request = {.model = s->model,
                                           .maps = &map,
                                           .inputs = &s->input,
                                           .n_inputs = 1,
                                           .repeats = repeats,
                                           .outputs = outputs,
                                           .timeout_s = TIMEOUT_S};
    if (ops->run(s->remote, &request, &result, &reply, &err) < 0)
        bench_die(err.text);
    if (result.error)
        bench_die(result.error);
    *ret_timed_ns = bench_median(result.samples_ns, result.n_samples);
    ops->reply_free(reply);
}

static int64_t run_many(struct session *s, size_t calls, bool outputs)
{
    int64_t timed_ns;
    for (size_t i = 0; i < calls; i++) {
        int64_t start = bench_now_ns();
        run(s, 1, outputs, &timed_ns);
        times[i] = bench_now_ns() - start;
    }
    return bench_median(times, calls);
}

static int64_t upload(struct session *s, size_t mib, uint64_t seed)
{
    uint8_t sha256[PRN_REMOTE_HASH_BYTES];
    size_t bytes = mib << 20;
    if (s->data_bytes != bytes) {
        free(s->data);
        s->data = malloc(bytes);
        if (!s->data)
            bench_die("out of memory");
        for (size_t i = 0; i < bytes; i++)
            s->data[i] = (unsigned char)(i * 2654435761u >> 13);
        s->data_bytes = bytes;
    }
    memcpy(s->data, &seed, sizeof seed);
    if (EVP_Digest(s->data, bytes, sha256, NULL, EVP_sha256(), NULL) != 1)
        bench_die("no SHA-256");
    int64_t start = bench_now_ns();
    send_file(s, "weights", -1, sha256);
    return bench_now_ns() - start;
}

static int64_t upload_file(struct session *s, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        bench_die("cannot read the file");
    int64_t start = bench_now_ns();
    send_file(s, "weights", fd, NULL);
    close(fd);
    return bench_now_ns() - start;
}

static int64_t session_command(struct session *s, const char *line)
{
    size_t n;
    unsigned long long seed;
    char path[4096];
    int64_t timed_ns;
    if (sscanf(line, "run %zu", &n) == 1 && n <= CALLS_MAX)
        return run_many(s, n, false);
    if (sscanf(line, "infer %zu", &n) == 1 && n <= CALLS_MAX)
        return run_many(s, n, true);
    if (sscanf(line, "upload %zu %llu", &n, &seed) == 2)
        return upload(s, n, seed);
    if (sscanf(line, "file %4095[^\n]", path) == 1)
        return upload_file(s, path);
    if (sscanf(line, "times %zu", &n) != 1)
        bench_die("no such command of a session");
    run(s, n, false, &timed_ns);
    return timed_ns;
}

/* ---- Traffic in the queue ---- */

struct queue {
    struct prn_channel *channel;
    struct prn_spec backend;
    struct prn_arena arena;
    uint8_t (*kept)[16];
    size_t n_kept;
};

static void queue_call(const struct queue *q, const char *method, const ProtobufCMessage *request)
{
    struct prony_error err;
    struct prn_bytes *reply;
    if (prn_channel_call(q->channel, method, prn_rpc_pack(request), TIMEOUT_S, &reply, NULL, &err) <
        0)
        bench_die(err.text);
    prn_bytes_free(reply);
}

static void create(const struct queue *q, uint8_t id[16])
{
    OctomlProfile__CreateSessionRequest request = OCTOML_PROFILE__CREATE_SESSION_REQUEST__INIT;
    OctomlProfile__BackendSpec backend = OCTOML_PROFILE__BACKEND_SPEC__INIT;
    OctomlProfile__BackendSpec *backends = &backend;
    backend.hardware_platform = (char *)(uintptr_t)q->backend.hardware;
    backend.software_backend = (char *)(uintptr_t)q->backend.software;
    if (getrandom(id, 16, 0) != 16)
        bench_die("no random numbers");
    request.has_session_uuid = true;
    request.session_uuid = (ProtobufCBinaryData){16, id};
    request.n_backends = 1;
    request.backends = &backends;
    queue_call(q, SERVICE("CreateSession"), &request.base);
}

static void close_session(const struct queue *q, uint8_t id[16])
{
    OctomlProfile__CloseSessionRequest request = OCTOML_PROFILE__CLOSE_SESSION_REQUEST__INIT;
    request.session_uuid = (ProtobufCBinaryData){16, id};
    queue_call(q, SERVICE("CloseSession"), &request.base);
}

static struct queue *queue_open(char **argv)
{
    static struct queue q;
    struct prony_error err;
    const struct prn_channel_config config = {.address = argv[0]};
    q.arena = PRN_ARENA_INIT((size_t)1 << 20);
    if (prn_spec_parse(argv[1], true, &q.arena, &q.backend, &err) < 0 ||
        prn_channel_open(&config, &q.channel, &err) < 0)
        bench_die(err.text);
    return &q;
}

static void wait_until(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

static int64_t queue_command(struct queue *q, const char *line)
{
    size_t n;
    size_t per_s;
    int64_t start = bench_now_ns();
    if (sscanf(line, "create %zu", &n) == 1) {
        q->kept = reallocarray(q->kept, n + 1, sizeof *q->kept);
        if (!q->kept)
            bench_die("out of memory");
        for (q->n_kept = 0; q->n_kept < n; q->n_kept++)
            create(q, q->kept[q->n_kept]);
    } else if (sscanf(line, "churn %zu %zu", &n, &per_s) == 2) {
        for (size_t i = 0; i < n; i++) {
            uint8_t id[16];
            if (per_s > 0)
                wait_until(start + (int64_t)(i * 1000000000 / per_s));
            create(q, id);
            close_session(q, id);
        }
    } else if (strncmp(line, "close", 5) == 0) {
        for (; q->n_kept > 0; q->n_kept--)
            close_session(q, q->kept[q->n_kept - 1]);
    } else {
        bench_die("no such command of a queue");
    }
    return bench_now_ns() - start;
}

/* ---- Roles ---- */

int main(int argc, char **argv)
{
    const char *role = argc > 1 ? argv[1] : "";
    char line[4200];
    struct bench_bare bare = {0};
    struct session *session = NULL;
    struct queue *queue = NULL;
    if (strcmp(role, "serve") == 0) {
        bench_end_with_input();
        bench_bare_serve(BENCH_ANSWER_WANTED);
    } else if (strcmp(role, "bare") == 0 && argc == 3) {
        bare = bench_bare_open(atoi(argv[2]));
    } else if (strcmp(role, "prony") == 0 && argc == 6) {
        session = session_open(argv + 2);
    } else if (strcmp(role, "queue") == 0 && argc == 4) {
        queue = queue_open(argv + 2);
    } else {
        bench_die("unknown arguments; its first lines say which there are");
    }
    while (fgets(line, sizeof line, stdin)) {
        int64_t ns = session ? session_command(session, line)
                     : queue ? queue_command(queue, line)
                             : bare_command(&bare, line);
        printf("%lld\n", (long long)ns);
        fflush(stdout);
    }
    if (session)
        ops->free(session->remote);
    return 0;
}
