/*
 * The other end of bench/scale: many hosts and many clients of one service, without models. A host
 * is a stream of Attach on a connection of its own, and answers what a worker answers; a client
 * creates a session, waits, has a model loaded, and closes. To load one takes a host as long as the
 * model's id says, in microseconds: that is how long the session holds its hosts. One thread does
 * all of it, because the service is to have the other core.
 *
 *   scale_load ADDRESS HOSTS HARDWARE...
 *       hosts of each hardware in turn; prints how long it took until all had joined, in ns. Then
 *       it takes commands, a line at a time, and answers with a line:
 *       "run PLAN SEEN": ns until the last session is closed. A line of the file PLAN is a session:
 *           when it is asked for, how long it holds its hosts, both in µs, and its hardware as
 * bits. Lines of SEEN are in the same order: when it was asked for, ready and closed, in µs.
 */
#include "bare_rpc.h"

#include "rpc/core.h"
#include "rpc/messages.h"
#include "rpc/remote.h"
#include "service/session/lease.h"

#include "record/remote.h"

#include <inference_base.pb-c.h>
#include <prony.pb-c.h>

#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <openssl/evp.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVICE(name) "/octoml_profile.RemoteInference/" name
#define CONNECTIONS 8 /* of all clients; each may have some thousand calls */
#define REPORTS_MAX 16
#define HARDWARE_MAX 16
#define LOOK_NS ((int64_t)20 * 1000000) /* for a command, at least so often */
#define JOIN_NS ((int64_t)60 * 1000000000)

/* What gRPC has done. */
struct event {
    void (*done)(void *data, bool ok);
    void *data;
};

static grpc_completion_queue *queue;
static struct prn_leases timers; /* of answers and arrivals that are due */
static char *hardware[HARDWARE_MAX];
static size_t n_hardware;
static char software_name[] = "onnxrt-cpu";

static void start(grpc_call *call, const grpc_op *ops, size_t n, struct event *event)
{
    if (grpc_call_start_batch(call, ops, n, event, NULL) != GRPC_CALL_OK)
        bench_die("gRPC refuses a batch");
}

static grpc_channel *connect_to(const char *address)
{
    /* As prony's own clients and workers do. */
    grpc_arg args[] = {
        prn_rpc_arg(GRPC_ARG_KEEPALIVE_TIME_MS, PRN_RPC_KEEPALIVE_MS),
        prn_rpc_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, PRN_RPC_KEEPALIVE_TIMEOUT_MS),
        prn_rpc_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        prn_rpc_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
        prn_rpc_arg(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        prn_rpc_arg(GRPC_ARG_ENABLE_CHANNELZ, 0),
    };
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    grpc_channel *channel =
        grpc_channel_create(address, credentials, &(grpc_channel_args){PRN_ARRAY_SIZE(args), args});
    grpc_channel_credentials_release(credentials);
    return channel;
}

static grpc_call *call_of(grpc_channel *channel, const char *method)
{
    return grpc_channel_create_call(channel, NULL, 0, queue, grpc_slice_from_static_string(method),
                                    NULL, bench_never(), NULL);
}

static grpc_byte_buffer *pack(const ProtobufCMessage *message)
{
    grpc_byte_buffer *buffer = prn_out_take(prn_rpc_pack(message));
    if (!buffer)
        bench_die("out of memory");
    return buffer;
}

/* The buffer is consumed. */
static void *unpack(grpc_byte_buffer *buffer, const ProtobufCMessageDescriptor *type)
{
    struct prony_error err;
    ProtobufCMessage *message;
    struct prn_bytes *bytes = buffer ? prn_bytes_take(buffer) : NULL;
    if (!bytes)
        bench_die("an answer is missing");
    if (prn_rpc_unpack(bytes, type, &message, &err) < 0)
        bench_die(err.text);
    prn_bytes_free(bytes);
    return message;
}

static void free_message(void *message)
{
    protobuf_c_message_free_unpacked(message, NULL);
}

/* ---- Hosts ---- */

struct host {
    const char *hardware;
    grpc_call *call;
    grpc_metadata_array initial;
    grpc_byte_buffer *received;
    struct event begun, read, sent;
    grpc_byte_buffer *reports[REPORTS_MAX]; /* a ring; the first one is under way */
    size_t first, n;
    struct prn_lease due; /* of the answer to a Load */
    uint64_t load_id;
};

static struct host *hosts;
static size_t n_hosts;

static void send_first(struct host *h)
{
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE,
                  .data.send_message.send_message = h->reports[h->first]};
    start(h->call, &op, 1, &h->sent);
}

static void send_report(struct host *h, const Prony__WorkerReport *report)
{
    if (h->n == REPORTS_MAX)
        bench_die("the service takes no reports");
    h->reports[(h->first + h->n++) % REPORTS_MAX] = pack(&report->base);
    if (h->n == 1)
        send_first(h);
}

static void report_sent(void *data, bool ok)
{
    struct host *h = data;
    if (!ok)
        bench_die("the service has ended a host's stream");
    grpc_byte_buffer_destroy(h->reports[h->first]);
    h->first = (h->first + 1) % REPORTS_MAX;
    if (--h->n > 0)
        send_first(h);
}

static void send_done(struct host *h, uint64_t id)
{
    Prony__WorkerReport report = PRONY__WORKER_REPORT__INIT;
    report.has_id = true;
    report.id = id;
    report.body_case = PRONY__WORKER_REPORT__BODY_DONE;
    report.done = true;
    send_report(h, &report);
}

static void send_loaded(struct host *h)
{
    Prony__WorkerReport report = PRONY__WORKER_REPORT__INIT;
    Prony__Loaded loaded = PRONY__LOADED__INIT;
    report.has_id = true;
    report.id = h->load_id;
    report.body_case = PRONY__WORKER_REPORT__BODY_LOADED;
    report.loaded = &loaded;
    send_report(h, &report);
}

static void read_command(struct host *h)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &h->received};
    start(h->call, &op, 1, &h->read);
}

static void set_timer(struct prn_lease *timer, int64_t ns)
{
    if (prn_leases_add(&timers, timer, ns) < 0)
        bench_die("out of memory");
}

static void take_command(void *data, bool ok)
{
    struct host *h = data;
    if (!ok || !h->received)
        bench_die("the service has ended a host's stream");
    Prony__WorkerCommand *command = unpack(h->received, &prony__worker_command__descriptor);
    if (command->body_case == PRONY__WORKER_COMMAND__BODY_LOAD) {
        h->load_id = command->id;
        set_timer(&h->due, bench_now_ns() + (int64_t)command->load->model_id * 1000);
    } else if (command->body_case == PRONY__WORKER_COMMAND__BODY_BEGIN ||
               command->body_case == PRONY__WORKER_COMMAND__BODY_END) {
        send_done(h, command->id);
    } else {
        bench_die("a host gets a command that it doesn't expect");
    }
    free_message(command);
    read_command(h);
}

static void stream_begun(void *data, bool ok)
{
    (void)data;
    if (!ok)
        bench_die("the service takes no host");
}

static void attach(struct host *h, const char *address)
{
    Prony__WorkerReport report = PRONY__WORKER_REPORT__INIT;
    Prony__Hello hello = PRONY__HELLO__INIT;
    Prony__Software software = PRONY__SOFTWARE__INIT;
    Prony__Software *softwares = &software;
    h->begun = (struct event){stream_begun, h};
    h->read = (struct event){take_command, h};
    h->sent = (struct event){report_sent, h};
    h->due.data = h;
    h->call = call_of(connect_to(address), "/prony.Workers/Attach");
    grpc_metadata_array_init(&h->initial);
    grpc_op ops[] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                     {.op = GRPC_OP_RECV_INITIAL_METADATA,
                      .data.recv_initial_metadata.recv_initial_metadata = &h->initial}};
    start(h->call, &ops[0], 1, &h->begun);
    start(h->call, &ops[1], 1, &h->begun);
    software.name = software_name;
    software.version = (char[]){"0"};
    hello.hardware = (char *)(uintptr_t)h->hardware;
    hello.version = (char *)(uintptr_t)prony_version();
    hello.host = (char[]){"simulated"};
    hello.n_software = 1;
    hello.software = &softwares;
    report.body_case = PRONY__WORKER_REPORT__BODY_HELLO;
    report.hello = &hello;
    send_report(h, &report);
    read_command(h);
}

/* ---- Clients ---- */

struct session {
    uint8_t id[16];
    int64_t due_ns, hold_us;
    unsigned needs;
    int64_t asked_ns, ready_ns, closed_ns;
    grpc_channel *channel;
    /* the call that is under way */
    grpc_call *call;
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *sent, *received;
    grpc_status_code status;
    grpc_slice text;
    struct event answered;
    void (*next)(struct session *s); /* takes the answer */
};

static grpc_channel *channels[CONNECTIONS];
static struct session *sessions;
static size_t n_sessions, n_asked, n_closed;
static struct prn_lease arrival; /* of the next session */
static uint8_t model_sha256[PRN_REMOTE_HASH_BYTES];

static void call_answered(void *data, bool ok)
{
    struct session *s = data;
    (void)ok;
    if (s->status != GRPC_STATUS_OK) {
        char *text = grpc_slice_to_c_string(s->text);
        bench_die(text);
    }
    grpc_byte_buffer_destroy(s->sent);
    grpc_metadata_array_destroy(&s->initial);
    grpc_metadata_array_destroy(&s->trailing);
    grpc_slice_unref(s->text);
    grpc_call_unref(s->call);
    s->next(s);
}

static void call(struct session *s, const char *method, const ProtobufCMessage *request,
                 void (*next)(struct session *s))
{
    s->next = next;
    s->answered = (struct event){call_answered, s};
    s->sent = pack(request);
    s->received = NULL;
    s->call = call_of(s->channel, method);
    grpc_metadata_array_init(&s->initial);
    grpc_metadata_array_init(&s->trailing);
    grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = s->sent},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &s->initial},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &s->received},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &s->trailing,
                                        .status = &s->status,
                                        .status_details = &s->text}},
    };
    start(s->call, ops, PRN_ARRAY_SIZE(ops), &s->answered);
}

static ProtobufCBinaryData id_of(struct session *s)
{
    return (ProtobufCBinaryData){sizeof s->id, s->id};
}

static void closed(struct session *s)
{
    free_message(unpack(s->received, &octoml_profile__close_session_reply__descriptor));
    s->closed_ns = bench_now_ns();
    n_closed++;
}

static void loaded(struct session *s)
{
    OctomlProfile__LoadModelReply *reply =
        unpack(s->received, &octoml_profile__load_model_reply__descriptor);
    for (size_t i = 0; i < reply->n_result_per_backend; i++)
        if (reply->result_per_backend[i]->result_case !=
            OCTOML_PROFILE__LOAD_MODEL_RESULT__RESULT_RESULT_VALUE)
            bench_die("a host has failed");
    free_message(reply);
    OctomlProfile__CloseSessionRequest request = OCTOML_PROFILE__CLOSE_SESSION_REQUEST__INIT;
    request.session_uuid = id_of(s);
    call(s, SERVICE("CloseSession"), &request.base, closed);
}

static void found(struct session *s)
{
    free_message(
        unpack(s->received, &octoml_profile__load_cached_model_component_reply__descriptor));
    OctomlProfile__LoadModelRequest request = OCTOML_PROFILE__LOAD_MODEL_REQUEST__INIT;
    request.session_uuid = id_of(s);
    request.model_id = (uint64_t)s->hold_us;
    request.model_format = OCTOML_PROFILE__MODEL_FORMAT__MODEL_FORMAT_ONNX;
    call(s, SERVICE("LoadModel"), &request.base, loaded);
}

static void ready(struct session *s)
{
    OctomlProfile__LoadCachedModelComponentRequest request =
        OCTOML_PROFILE__LOAD_CACHED_MODEL_COMPONENT_REQUEST__INIT;
    s->ready_ns = bench_now_ns();
    request.session_uuid = id_of(s);
    request.model_id = (uint64_t)s->hold_us;
    request.model_component_id = 1;
    request.sha256_hash = (ProtobufCBinaryData){sizeof model_sha256, model_sha256};
    request.filename = (char[]){"model.onnx"};
    call(s, SERVICE("LoadCachedModelComponent"), &request.base, found);
}

static void wait_more(struct session *s);

static void waited(struct session *s)
{
    OctomlProfile__WaitUntilSessionReadyReply *reply =
        unpack(s->received, &octoml_profile__wait_until_session_ready_reply__descriptor);
    bool is_ready = reply->ready;
    free_message(reply);
    if (is_ready)
        ready(s);
    else
        wait_more(s);
}

static void wait_more(struct session *s)
{
    OctomlProfile__WaitUntilSessionReadyRequest request =
        OCTOML_PROFILE__WAIT_UNTIL_SESSION_READY_REQUEST__INIT;
    request.session_uuid = id_of(s);
    call(s, SERVICE("WaitUntilSessionReady"), &request.base, waited);
}

static void created(struct session *s)
{
    OctomlProfile__CreateSessionReply *reply =
        unpack(s->received, &octoml_profile__create_session_reply__descriptor);
    if (reply->result_case != OCTOML_PROFILE__CREATE_SESSION_REPLY__RESULT_RESULT_VALUE)
        bench_die(reply->error_value ? reply->error_value->message : "no session");
    bool is_ready = reply->result_value->ready;
    memcpy(s->id, reply->result_value->session_uuid.data, sizeof s->id);
    free_message(reply);
    if (is_ready)
        ready(s);
    else
        wait_more(s);
}

static void create(struct session *s)
{
    OctomlProfile__CreateSessionRequest request = OCTOML_PROFILE__CREATE_SESSION_REQUEST__INIT;
    OctomlProfile__BackendSpec specs[HARDWARE_MAX];
    OctomlProfile__BackendSpec *backends[HARDWARE_MAX];
    for (size_t i = 0; i < n_hardware; i++) {
        if (!(s->needs >> i & 1))
            continue;
        OctomlProfile__BackendSpec *spec = backends[request.n_backends++] = &specs[i];
        octoml_profile__backend_spec__init(spec);
        spec->hardware_platform = hardware[i];
        spec->software_backend = software_name;
    }
    request.backends = backends;
    s->asked_ns = bench_now_ns();
    call(s, SERVICE("CreateSession"), &request.base, created);
}

/* ---- Time ---- */

static void arrive(int64_t now_ns)
{
    while (n_asked < n_sessions && sessions[n_asked].due_ns <= now_ns)
        create(&sessions[n_asked++]);
    if (n_asked < n_sessions)
        set_timer(&arrival, sessions[n_asked].due_ns);
}

/* Does what is due, and waits for gRPC until the next thing is, at most until `until_ns`. */
static void turn(int64_t until_ns)
{
    struct prn_lease *timer;
    int64_t now_ns = bench_now_ns();
    while ((timer = prn_leases_take_expired(&timers, now_ns))) {
        if (timer == &arrival)
            arrive(now_ns);
        else
            send_loaded(timer->data);
    }
    int64_t next_ns = prn_leases_next_ns(&timers);
    next_ns = next_ns < until_ns ? next_ns : until_ns;
    gpr_timespec deadline = {.tv_sec = next_ns / 1000000000,
                             .tv_nsec = (int32_t)(next_ns % 1000000000),
                             .clock_type = GPR_CLOCK_MONOTONIC};
    grpc_event got = grpc_completion_queue_next(queue, deadline, NULL);
    if (got.type == GRPC_OP_COMPLETE) {
        struct event *event = got.tag;
        event->done(event->data, got.success != 0);
    }
}

/* ---- Commands ---- */

static void read_plan(const char *path)
{
    FILE *file = fopen(path, "r");
    long long due_us, hold_us;
    unsigned needs;
    if (!file)
        bench_die("cannot read the plan");
    for (n_sessions = 0; fscanf(file, "%lld %lld %u", &due_us, &hold_us, &needs) == 3;) {
        sessions = reallocarray(sessions, n_sessions + 1, sizeof *sessions);
        if (!sessions)
            bench_die("out of memory");
        sessions[n_sessions] = (struct session){.due_ns = due_us * 1000,
                                                .hold_us = hold_us,
                                                .needs = needs,
                                                .channel = channels[n_sessions % CONNECTIONS]};
        n_sessions++;
    }
    fclose(file);
}

static void write_seen(const char *path, int64_t start_ns)
{
    FILE *file = fopen(path, "w");
    for (size_t i = 0; file && i < n_sessions; i++)
        fprintf(file, "%.1f %.1f %.1f\n", (double)(sessions[i].asked_ns - start_ns) / 1e3,
                (double)(sessions[i].ready_ns - start_ns) / 1e3,
                (double)(sessions[i].closed_ns - start_ns) / 1e3);
    if (!file || fclose(file) != 0)
        bench_die("cannot write what was seen");
}

static int64_t run(const char *plan, const char *seen)
{
    read_plan(plan);
    int64_t start_ns = bench_now_ns();
    for (size_t i = 0; i < n_sessions; i++)
        sessions[i].due_ns += start_ns;
    n_asked = n_closed = 0;
    arrive(start_ns);
    while (n_closed < n_sessions)
        turn(INT64_MAX);
    int64_t ns = bench_now_ns() - start_ns;
    write_seen(seen, start_ns);
    return ns;
}

/* Commands are read by a thread of their own: hosts must answer pings meanwhile. */
static char line[8192];
static atomic_int line_state; /* 0: to be read, 1: to be done, 2: the end */

static void *read_lines(void *unused)
{
    for (;;) {
        if (atomic_load(&line_state) == 0)
            atomic_store(&line_state, fgets(line, sizeof line, stdin) ? 1 : 2);
        usleep(1000);
    }
    return unused;
}

/* The model's file, which all sessions then find in the cache. */
static void upload(const char *address)
{
    static const char model[] = "no model";
    struct prony_error err;
    struct prony_error failure = {0};
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_spec backend;
    struct prn_remote *remote;
    struct prn_remote_model to = {0};
    const struct prn_remote_ops *ops = &prn_remote_operations;
    const struct prn_remote_config config = {.address = address};
    char name[256];
    snprintf(name, sizeof name, "%s/%s", hardware[0], software_name);
    EVP_Digest(model, sizeof model, model_sha256, NULL, EVP_sha256(), NULL);
    const struct prn_remote_file file = {.name = "model.onnx",
                                         .fd = -1,
                                         .data = model,
                                         .bytes = sizeof model,
                                         .sha256 = model_sha256};
    if (prn_spec_parse(name, true, &arena, &backend, &err) < 0 ||
        ops->connect(&config, &remote, &err) < 0 || ops->open(remote, &backend, 1, &err) < 0 ||
        ops->upload(remote, &to, &file, 1, &failure, &err) < 0)
        bench_die(err.text);
    if (failure.code < 0)
        bench_die(failure.text);
    ops->free(remote);
    prn_arena_release(&arena);
}

static bool all_joined;
static bool status_asked;

static void take_status(struct session *s)
{
    Prony__StatusReply *reply = unpack(s->received, &prony__status_reply__descriptor);
    size_t there = 0;
    for (size_t i = 0; i < reply->n_hardware; i++)
        there += reply->hardware[i]->hosts;
    all_joined = there == n_hosts;
    status_asked = false;
    free_message(reply);
}

static void attach_all(const char *address, size_t n)
{
    Prony__StatusRequest request = PRONY__STATUS_REQUEST__INIT;
    struct session asking = {.channel = channels[0]};
    int64_t start_ns = bench_now_ns();
    hosts = calloc(n, sizeof *hosts);
    if (!hosts)
        bench_die("out of memory");
    for (; n_hosts < n; n_hosts++) {
        hosts[n_hosts].hardware = hardware[n_hosts % n_hardware];
        attach(&hosts[n_hosts], address);
    }
    for (int64_t next_ns = start_ns; !all_joined;) {
        int64_t now_ns = bench_now_ns();
        if (now_ns > start_ns + JOIN_NS)
            bench_die("not all hosts have joined in a minute");
        if (!status_asked && now_ns >= next_ns) {
            status_asked = true;
            next_ns = now_ns + LOOK_NS;
            call(&asking, "/prony.Prony/Status", &request.base, take_status);
        }
        turn(now_ns + LOOK_NS);
    }
    printf("%lld\n", (long long)(bench_now_ns() - start_ns));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc < 4 || argc - 3 > HARDWARE_MAX)
        bench_die("usage: scale_load ADDRESS HOSTS HARDWARE...");
    prn_rpc_begin();
    queue = grpc_completion_queue_create_for_next(NULL);
    for (; n_hardware < (size_t)argc - 3; n_hardware++)
        hardware[n_hardware] = argv[3 + n_hardware];
    for (size_t i = 0; i < CONNECTIONS; i++)
        channels[i] = connect_to(argv[1]);
    attach_all(argv[1], strtoul(argv[2], NULL, 10));
    upload(argv[1]);
    if (pthread_create(&thread, NULL, read_lines, NULL) != 0)
        bench_die("no thread");
    for (int state; (state = atomic_load(&line_state)) != 2;) {
        char plan[4096];
        char seen[4096];
        if (state == 1) {
            if (sscanf(line, "run %4095s %4095s", plan, seen) != 2)
                bench_die("no such command");
            printf("%lld\n", (long long)run(plan, seen));
            fflush(stdout);
            atomic_store(&line_state, 0);
        }
        turn(bench_now_ns() + LOOK_NS);
    }
    return 0;
}
