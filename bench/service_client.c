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
#include "rpc/client.h"
#include "rpc/messages.h"
#include "rpc/remote.h"

#include "record/remote.h"

#include <inference_base.pb-c.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <openssl/evp.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define METHOD "/bench.Bare/Call"
#define SERVICE(name) "/octoml_profile.RemoteInference/" name
#define TIMEOUT_S 120
#define CALLS_MAX 100000

static void die(const char *what)
{
    fprintf(stderr, "service_client: %s\n", what);
    exit(1);
}

static int64_t now_ns(void)
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

static int64_t median(int64_t *values, size_t n)
{
    qsort(values, n, sizeof *values, by_size);
    return n ? values[n / 2] : 0;
}

static int64_t times[CALLS_MAX];

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

/* What the message begins with, which may come in pieces. */
static uint64_t bare_wanted(grpc_byte_buffer *message)
{
    grpc_byte_buffer_reader reader;
    grpc_slice piece;
    uint64_t wanted;
    unsigned char *to = (unsigned char *)&wanted;
    size_t left = sizeof wanted;
    if (grpc_byte_buffer_reader_init(&reader, message) == 0)
        die("a message can't be read");
    while (left > 0 && grpc_byte_buffer_reader_next(&reader, &piece) != 0) {
        size_t n = GRPC_SLICE_LENGTH(piece) < left ? GRPC_SLICE_LENGTH(piece) : left;
        memcpy(to + sizeof wanted - left, GRPC_SLICE_START_PTR(piece), n);
        left -= n;
        grpc_slice_unref(piece);
    }
    grpc_byte_buffer_reader_destroy(&reader);
    if (left > 0)
        die("a message doesn't say how long its answer is to be");
    return wanted;
}

/* Out of memory that is used again. */
static grpc_byte_buffer *bare_answer(size_t wanted)
{
    static unsigned char *memory;
    static size_t bytes;
    if (wanted > bytes) {
        memory = realloc(memory, wanted);
        bytes = wanted;
        if (!memory)
            die("out of memory");
        memset(memory, 1, bytes);
    }
    grpc_slice slice = grpc_slice_from_static_buffer(memory, wanted);
    return grpc_raw_byte_buffer_create(&slice, 1);
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
        grpc_completion_queue_next(queue, never(), NULL);
        grpc_byte_buffer *answer = bare_answer(bare_wanted(message));
        grpc_op ops[] = {
            {.op = GRPC_OP_SEND_INITIAL_METADATA},
            {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = answer},
            {.op = GRPC_OP_SEND_STATUS_FROM_SERVER},
            {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &cancelled},
        };
        grpc_call_start_batch(call, ops, 4, ops, NULL);
        grpc_completion_queue_next(queue, never(), NULL);
        grpc_byte_buffer_destroy(answer);
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

static void bare_call(const struct bare *bare, size_t back)
{
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
    if (status != GRPC_STATUS_OK || !reply || grpc_byte_buffer_length(reply) != back)
        die("a bare call failed");
    grpc_byte_buffer_destroy(message);
    grpc_byte_buffer_destroy(reply);
    grpc_metadata_array_destroy(&initial);
    grpc_metadata_array_destroy(&trailing);
    grpc_slice_unref(text);
    grpc_call_unref(call);
}

static int64_t bare_command(struct bare *bare, const char *line)
{
    size_t sent;
    size_t back;
    size_t calls;
    if (sscanf(line, "call %zu %zu %zu", &sent, &back, &calls) != 3 || sent < sizeof(uint64_t) ||
        calls > CALLS_MAX)
        die("no such command of a bare client");
    if (GRPC_SLICE_LENGTH(bare->payload) != sent) {
        grpc_slice_unref(bare->payload);
        bare->payload = grpc_slice_malloc(sent);
        memset(GRPC_SLICE_START_PTR(bare->payload), 1, sent);
    }
    uint64_t wanted = back;
    memcpy(GRPC_SLICE_START_PTR(bare->payload), &wanted, sizeof wanted);
    for (size_t i = 0; i < calls; i++) {
        int64_t start = now_ns();
        bare_call(bare, back);
        times[i] = now_ns() - start;
    }
    return median(times, calls);
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
        die("out of memory");
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
        die(err.text);
    if (failure.code < 0)
        die(failure.text);
    return model.id;
}

static void load_model(struct session *s, const char *path)
{
    struct prony_error err;
    struct prn_remote_loaded loaded;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die("cannot read the model");
    s->model = send_file(s, "model.onnx", fd, NULL);
    close(fd);
    const struct prn_remote_load load = {
        .model = s->model, .format = PRN_REMOTE_FORMAT_ONNX, .timeout_s = TIMEOUT_S};
    if (ops->load(s->remote, &load, &s->arena, &loaded, &err) < 0)
        die(err.text);
    if (loaded.error)
        die(loaded.error);
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
        die(err.text);
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
    const struct prn_remote_run request = {.model = s->model,
                                           .inputs = &s->input,
                                           .n_inputs = 1,
                                           .repeats = repeats,
                                           .outputs = outputs,
                                           .timeout_s = TIMEOUT_S};
    if (ops->run(s->remote, &request, &result, &reply, &err) < 0)
        die(err.text);
    if (result.error)
        die(result.error);
    *ret_timed_ns = median(result.samples_ns, result.n_samples);
    ops->reply_free(reply);
}

static int64_t run_many(struct session *s, size_t calls, bool outputs)
{
    int64_t timed_ns;
    for (size_t i = 0; i < calls; i++) {
        int64_t start = now_ns();
        run(s, 1, outputs, &timed_ns);
        times[i] = now_ns() - start;
    }
    return median(times, calls);
}

static int64_t upload(struct session *s, size_t mib, uint64_t seed)
{
    uint8_t sha256[PRN_REMOTE_HASH_BYTES];
    size_t bytes = mib << 20;
    if (s->data_bytes != bytes) {
        free(s->data);
        s->data = malloc(bytes);
        if (!s->data)
            die("out of memory");
        for (size_t i = 0; i < bytes; i++)
            s->data[i] = (unsigned char)(i * 2654435761u >> 13);
        s->data_bytes = bytes;
    }
    memcpy(s->data, &seed, sizeof seed);
    if (EVP_Digest(s->data, bytes, sha256, NULL, EVP_sha256(), NULL) != 1)
        die("no SHA-256");
    int64_t start = now_ns();
    send_file(s, "weights", -1, sha256);
    return now_ns() - start;
}

static int64_t upload_file(struct session *s, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die("cannot read the file");
    int64_t start = now_ns();
    send_file(s, "weights", fd, NULL);
    close(fd);
    return now_ns() - start;
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
        die("no such command of a session");
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
        die(err.text);
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
        die("no random numbers");
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
        die(err.text);
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
    int64_t start = now_ns();
    if (sscanf(line, "create %zu", &n) == 1) {
        q->kept = reallocarray(q->kept, n + 1, sizeof *q->kept);
        if (!q->kept)
            die("out of memory");
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
        die("no such command of a queue");
    }
    return now_ns() - start;
}

/* ---- Roles ---- */

static void *end_with_input(void *unused)
{
    (void)unused;
    while (getchar() != EOF)
        ;
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *role = argc > 1 ? argv[1] : "";
    char line[4200];
    pthread_t thread;
    struct bare bare = {0};
    struct session *session = NULL;
    struct queue *queue = NULL;
    if (strcmp(role, "serve") == 0) {
        if (pthread_create(&thread, NULL, end_with_input, NULL) != 0)
            die("no thread");
        bare_serve();
    } else if (strcmp(role, "bare") == 0 && argc == 3) {
        char address[64];
        snprintf(address, sizeof address, "127.0.0.1:%s", argv[2]);
        grpc_init();
        grpc_channel_args args = unlimited();
        bare = (struct bare){
            .channel = grpc_channel_create(address, grpc_insecure_credentials_create(), &args),
            .queue = grpc_completion_queue_create_for_pluck(NULL),
            .payload = grpc_empty_slice()};
    } else if (strcmp(role, "prony") == 0 && argc == 6) {
        session = session_open(argv + 2);
    } else if (strcmp(role, "queue") == 0 && argc == 4) {
        queue = queue_open(argv + 2);
    } else {
        die("unknown arguments; its first lines say which there are");
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
