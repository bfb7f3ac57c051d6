/*
 * One thread at a time polls gRPC's queue and then runs what the event asks for; when several poll,
 * each event wakes another of them, which makes a small call a third longer. The others stand by: a
 * timer wakes one of them when the one that polled isn't back soon, so that a long function holds
 * up nobody for longer than that.
 */
#include "rpc/call.h"

#include "base/clock.h"

#include <grpc/grpc_security.h>
#include <grpc/impl/codegen/compression_types.h>
#include <grpc/support/time.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* Calls of one method that gRPC may hand over before a thread has asked for more of them. */
#define WINDOW_BYTES (4 << 20)
#define REQUESTS_PER_METHOD 8
#define THREADS_DEFAULT 2
#define SOON_NS 2000000
#define STREAMS_MAX 4096 /* of one connection */
#define HANDSHAKE_MS 10000
#define IDLE_MS 600000 /* of a connection without calls, which isn't asked whether it is alive */

/* gRPC 1.51 never accepts again once it was out of descriptors, and each connection is one. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

_Static_assert(PRN_RPC_KEEPALIVE_MS + PRN_RPC_KEEPALIVE_TIMEOUT_MS == PRN_SERVER_SILENCE_MS,
               "what the header says");

static grpc_server *create_core(size_t message_max)
{
    int most = message_max < INT_MAX ? (int)message_max : INT_MAX;
    grpc_arg args[] = {
        /* What a client may send ahead of being read. gRPC would make it larger the longer the way
         * takes, and on a busy machine a hundred MiB of an upload lie in memory then. */
        prn_rpc_arg(GRPC_ARG_HTTP2_BDP_PROBE, 0),
        prn_rpc_arg(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, WINDOW_BYTES),
        prn_rpc_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, most),
        prn_rpc_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, STREAMS_MAX),
        prn_rpc_arg(GRPC_ARG_MAX_METADATA_SIZE, PRN_RPC_METADATA_MAX),
        prn_rpc_arg(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS),
        prn_rpc_arg(GRPC_ARG_MAX_CONNECTION_IDLE_MS, IDLE_MS),
        prn_rpc_arg(GRPC_ARG_KEEPALIVE_TIME_MS, PRN_RPC_KEEPALIVE_MS),
        prn_rpc_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, PRN_RPC_KEEPALIVE_TIMEOUT_MS),
        prn_rpc_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        /* Clients may ask as often as ours do, and somewhat more often. */
        prn_rpc_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                    PRN_RPC_KEEPALIVE_MS / 4),
        /* Two services on one port would each get some of the calls. */
        prn_rpc_arg(GRPC_ARG_ALLOW_REUSEPORT, 0),
        /* A kilobyte that becomes a gigabyte isn't looked at. */
        prn_rpc_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE),
        prn_rpc_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        prn_rpc_arg(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
        prn_rpc_arg(GRPC_ARG_ENABLE_CHANNELZ, 0),
    };
    return grpc_server_create(&(grpc_channel_args){PRN_ARRAY_SIZE(args), args}, NULL);
}

static bool first_message(const struct prn_method *method)
{
    return method->kind == PRN_METHOD_UNARY || method->kind == PRN_METHOD_SERVER_STREAM;
}

static void register_methods(struct prn_server *server, const struct prn_method *methods)
{
    for (const struct prn_method *m = methods; m->name; m++) {
        void *handle = grpc_server_register_method(
            server->core, m->name, NULL,
            first_message(m) ? GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER : GRPC_SRM_PAYLOAD_NONE,
            0);
        assert(handle); /* a name twice */
        server->slots[server->n_slots++] = (struct prn_call_slot){m, handle};
    }
}

static size_t count(const struct prn_method *methods)
{
    size_t n = 0;
    while (methods[n].name)
        n++;
    return n;
}

int prn_server_new(const struct prn_server_config *config, struct prn_server **ret_server,
                   struct prony_error *err)
{
    struct prn_server *server = calloc(1, sizeof *server);
    size_t n = count(config->methods) + count(prn_health_methods) + 1;
    struct prn_call_slot *slots = calloc(n, sizeof *slots);
    size_t n_threads = config->threads ? config->threads : THREADS_DEFAULT;
    pthread_t *threads = calloc(n_threads, sizeof *threads);
    if (!server || !slots || !threads) {
        free(server);
        free(slots);
        free(threads);
        return prn_fail_memory(err);
    }
    server->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (server->timer < 0) {
        int r = prn_fail_errno(err, errno, "make", "a timer");
        free(server);
        free(slots);
        free(threads);
        return r;
    }
    raise_descriptors();
    prn_rpc_begin();
    server->config = *config;
    server->config.threads = n_threads;
    server->slots = slots;
    server->threads = threads;
    server->serving = true;
    server->stopped_tag.event = PRN_CALL_EVENTS;
    atomic_init(&server->polling, false);
    pthread_mutex_init(&server->lock, NULL);
    pthread_mutex_init(&server->health_lock, NULL);
    prn_condition_init(&server->changed);
    server->core = create_core(config->message_max);
    server->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server->core, server->queue, NULL);
    register_methods(server, config->methods);
    register_methods(server, prn_health_methods);
    server->slots[server->n_slots++] = (struct prn_call_slot){&prn_call_unknown, NULL};
    *ret_server = server;
    return 0;
}

/* gRPC would only say that it can't listen. */
int prn_server_check_tls(const struct prn_server_tls *tls, const struct prn_server_tls *files,
                         struct prony_error *err)
{
    const char *certificate_name = files ? files->certificate : "certificate";
    const char *key_name = files ? files->key : "key";
    BIO *certificate = BIO_new_mem_buf(tls->certificate, -1);
    BIO *key = BIO_new_mem_buf(tls->key, -1);
    X509 *x509 = certificate ? PEM_read_bio_X509(certificate, NULL, NULL, NULL) : NULL;
    /* A key with a password must not make OpenSSL ask for it on the terminal. */
    EVP_PKEY *secret = key ? PEM_read_bio_PrivateKey(key, NULL, NULL, (char[]){""}) : NULL;
    int r = 0;
    if (!x509)
        r = prn_fail(err, PRONY_EFORMAT, "'%s' holds no certificate in PEM format",
                     certificate_name);
    else if (!secret)
        r = prn_fail(err, PRONY_EFORMAT, "'%s' holds no key in PEM format without a password",
                     key_name);
    else if (X509_check_private_key(x509, secret) != 1)
        r = prn_fail(err, PRONY_EFORMAT, "the key in '%s' does not match the certificate in '%s'",
                     key_name, certificate_name);
    ERR_clear_error();
    EVP_PKEY_free(secret);
    X509_free(x509);
    BIO_free(key);
    BIO_free(certificate);
    return r;
}

/* gRPC asks at each handshake; each address remembers what it was told last. */
static grpc_ssl_certificate_config_reload_status
offer_certificate(void *context, grpc_ssl_server_certificate_config **ret_config)
{
    struct prn_server_port *port = context;
    struct prn_server *server = port->server;
    grpc_ssl_certificate_config_reload_status status = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    pthread_mutex_lock(&server->lock);
    if (port->version != server->tls_version) {
        grpc_ssl_pem_key_cert_pair pair = {server->key, server->certificate};
        /* Roots are for clients' certificates, which nobody asks for; gRPC insists on some. */
        *ret_config = grpc_ssl_server_certificate_config_create(server->certificate, &pair, 1);
        status = *ret_config ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW
                             : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
        port->version = server->tls_version;
    }
    pthread_mutex_unlock(&server->lock);
    return status;
}

int prn_server_set_tls(struct prn_server *server, const struct prn_server_tls *tls,
                       struct prony_error *err)
{
    if (!tls->certificate || !tls->key)
        return prn_fail(err, PRONY_EUSAGE, "TLS needs a certificate and its key");
    int r = prn_server_check_tls(tls, NULL, err);
    if (r < 0)
        return r;
    char *certificate = strdup(tls->certificate);
    char *key = strdup(tls->key);
    if (!certificate || !key) {
        free(certificate);
        free(key);
        return prn_fail_memory(err);
    }
    pthread_mutex_lock(&server->lock);
    free(server->certificate);
    free(server->key);
    server->certificate = certificate;
    server->key = key;
    server->tls_version++;
    pthread_mutex_unlock(&server->lock);
    return 0;
}

static int make_credentials(struct prn_server *server, const struct prn_server_tls *tls,
                            grpc_server_credentials **ret, struct prony_error *err)
{
    if (!tls || (!tls->certificate && !tls->key)) {
        *ret = grpc_insecure_server_credentials_create();
        return 0;
    }
    struct prn_server_port *port = calloc(1, sizeof *port);
    int r = port ? prn_server_set_tls(server, tls, err) : prn_fail_memory(err);
    if (r < 0) {
        free(port);
        return r;
    }
    port->server = server;
    port->next = server->ports;
    server->ports = port;
    *ret = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE, offer_certificate, port));
    return 0;
}

int prn_server_listen(struct prn_server *server, const char *address,
                      const struct prn_server_tls *tls, int *ret_port, struct prony_error *err)
{
    grpc_server_credentials *credentials = NULL;
    int r = make_credentials(server, tls, &credentials, err);
    if (r < 0)
        return prn_fail_in(err, r, "cannot listen on '%s'", address);
    prn_rpc_forget_fault();
    int port = grpc_server_add_http2_port(server->core, address, credentials);
    grpc_server_credentials_release(credentials);
    if (port == 0) {
        const char *reason = prn_rpc_fault();
        return prn_fail(err, PRONY_EIO, "cannot listen on '%s': %s", address,
                        reason ? reason : "no such address");
    }
    if (ret_port)
        *ret_port = strncmp(address, "unix:", 5) == 0 ? 0 : port;
    return 0;
}

static void set_timer(struct prn_server *server)
{
    static const struct itimerspec soon = {.it_value.tv_nsec = SOON_NS};
    timerfd_settime(server->timer, 0, &soon, NULL);
}

/* Somebody else polls in a while, unless this thread is back by then. The timer isn't stopped when
 * it is, and so needn't be set again for every event of many. */
static void stop_polling(struct prn_server *server)
{
    int64_t now = prn_monotonic_ns();
    bool set = server->config.threads > 1 && now - server->timer_set_ns > SOON_NS / 2;
    if (set)
        server->timer_set_ns = now;
    atomic_store(&server->polling, false);
    if (set)
        set_timer(server);
}

/* Returns when it is this thread's turn. */
static void start_polling(struct prn_server *server)
{
    bool nobody = false;
    uint64_t unused;
    while (!atomic_compare_exchange_strong(&server->polling, &nobody, true)) {
        nobody = false;
        /* Whatever it returns, the turn is tried again. */
        (void)!read(server->timer, &unused, sizeof unused);
    }
}

static void *serve(void *argument)
{
    struct prn_server *server = argument;
    for (;;) {
        start_polling(server);
        grpc_event event =
            grpc_completion_queue_next(server->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            break;
        stop_polling(server);
        prn_rpc_take(event.tag);
        if (event.tag != &server->stopped_tag) {
            prn_call_event(event.tag, event.success != 0);
            continue;
        }
        pthread_mutex_lock(&server->lock);
        server->stopped = true;
        pthread_cond_broadcast(&server->changed);
        pthread_mutex_unlock(&server->lock);
    }
    /* The next one sees it too. */
    atomic_store(&server->polling, false);
    set_timer(server);
    return NULL;
}

static int start_threads(struct prn_server *server)
{
    sigset_t all;
    sigset_t before;
    int error = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (error == 0 && server->n_threads < server->config.threads) {
        error = pthread_create(&server->threads[server->n_threads], NULL, serve, server);
        server->n_threads += error == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int prn_server_start(struct prn_server *server, struct prony_error *err)
{
    int error = start_threads(server);
    if (error)
        return prn_fail_errno(err, error, "start", "a thread of the server");
    grpc_server_start(server->core);
    for (size_t i = 0; i < server->n_slots; i++)
        for (int k = 0; k < REQUESTS_PER_METHOD; k++)
            prn_call_request(server, &server->slots[i]);
    return 0;
}

static struct timespec after(double seconds)
{
    return prn_timespec(prn_monotonic_ns() + (int64_t)(seconds * 1e9));
}

/* A server that never started has nobody who looks at the queue. */
static void server_drain(struct prn_server *server)
{
    while (!server->stopped) {
        grpc_event event =
            grpc_completion_queue_next(server->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        server->stopped = event.tag == &server->stopped_tag;
    }
}

void prn_server_stop(struct prn_server *server, double grace_s)
{
    if (!server->core)
        return;
    prn_rpc_give(&server->stopped_tag);
    grpc_server_shutdown_and_notify(server->core, server->queue, &server->stopped_tag);
    struct timespec until = after(grace_s);
    pthread_mutex_lock(&server->lock);
    int late = 0;
    while (server->n_calls && late == 0)
        late = pthread_cond_timedwait(&server->changed, &server->lock, &until);
    pthread_mutex_unlock(&server->lock);
    /* Connections on which nothing happens are closed by this too. */
    grpc_server_cancel_all_calls(server->core);
    if (server->n_threads == 0)
        server_drain(server);
    pthread_mutex_lock(&server->lock);
    while (server->n_calls || !server->stopped)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
    grpc_server_destroy(server->core);
    server->core = NULL;
    grpc_completion_queue_shutdown(server->queue);
    for (size_t i = 0; i < server->n_threads; i++)
        pthread_join(server->threads[i], NULL);
    while (
        grpc_completion_queue_next(server->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
        GRPC_QUEUE_SHUTDOWN)
        ;
    grpc_completion_queue_destroy(server->queue);
    prn_rpc_end();
}

void prn_server_free(struct prn_server *server)
{
    if (!server)
        return;
    prn_server_stop(server, 0);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->health_lock);
    pthread_mutex_destroy(&server->lock);
    while (server->ports) {
        struct prn_server_port *port = server->ports;
        server->ports = port->next;
        free(port);
    }
    free(server->certificate);
    free(server->key);
    close(server->timer);
    free(server->slots);
    free(server->threads);
    free(server);
}
