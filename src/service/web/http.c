/*
 * libmicrohttpd with one thread of its own. It limits memory, time without a byte, and connections;
 * what it doesn't limit is a client that sends a byte now and then, so bodies have a time limit,
 * and the oldest connections are cut off when many are open.
 *
 * A request for a lane is suspended, which takes its connection out of the server's hands, until
 * the lane's thread has filled the answer in; then the server asks for it again.
 *
 * Another certificate means another daemon on the same socket: libmicrohttpd reads it once.
 */
#include "service/web/http.h"

#include "base/clock.h"
#include "base/lock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 256
#define CONNECTIONS_PER_ADDRESS_MAX (CONNECTIONS_MAX / 4 * 3)
#define MEMORY_MAX (32 << 10)
#define IDLE_MAX_S 10
/* A connection may be cut off so long after its last request, once half of all are open. */
#define OLD_S 10
/* A body that nobody wants is read and dropped up to here, so that its sender sees the answer. */
#define DROPPED_MAX ((size_t)1 << 20)
/* Requests that may wait for a lane. */
#define LANE_MAX 32
/* Of all answers under way; past it, lanes are closed. */
#define ANSWERS_MAX ((size_t)256 << 20)
/* What browsers of the last ten years speak. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct prn_http_request {
    struct listener *listener;
    struct MHD_Connection *connection;
    const struct prn_http_route *route; /* NULL: there is none */
    bool api;                           /* faults are told as JSON */
    time_t begun_s;
    size_t received_bytes;
    struct prn_buffer body;
    bool done;       /* what follows is the answer */
    unsigned status; /* 0: the page says it */
    const char *media;
    const char *policy;
    const char *header;
    char value[PRN_HTTP_VALUE_SIZE];
    struct prn_buffer out;
    size_t answer_bytes;           /* that the server keeps of it */
    struct prn_http_request *next; /* in its lane */
};

PRN_LOCK(lanes);

struct lane {
    struct prn_http *http;
    pthread_t thread;
    pthread_cond_t due;
    struct prn_http_request *first PRN_GUARDED(lanes), *last PRN_GUARDED(lanes);
    size_t n PRN_GUARDED(lanes);
    bool runs;
};

/* A daemon, and what only its thread looks at. */
struct listener {
    struct prn_http *http;
    struct MHD_Daemon *daemon;
    size_t in_lanes PRN_GUARDED(lanes); /* requests */
    bool ending PRN_GUARDED(lanes);
    struct connection {
        int fd; /* -1: free */
        time_t since_s;
    } connections[CONNECTIONS_MAX];
};

struct prn_http {
    int fd;
    int port;
    const struct prn_http_route *routes;
    void *context;
    const char *policy;
    bool loopback_only;
    const char *refusal;
    struct listener *listener;
    pthread_mutex_t lock; /* of the lanes, and of what is counted */
    pthread_cond_t left;  /* a request has left its lane */
    bool ending PRN_GUARDED(lanes);
    struct lane lanes[PRN_HTTP_LANES];
    size_t answer_bytes PRN_GUARDED(lanes);
};

PRN_LOCK_FUNCTIONS(lanes, struct prn_http, lock)

/* ---- What pages ask and say ---- */

const char *prn_http_parameter(const struct prn_http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

const char *prn_http_header(const struct prn_http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

const char *prn_http_cookie(const struct prn_http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_COOKIE_KIND, name);
}

const char *prn_http_body(const struct prn_http_request *request, size_t *ret_length)
{
    *ret_length = request->body.len;
    return prn_buffer_text(&request->body);
}

int prn_http_peer(const struct prn_http_request *request, char ret_peer[PRN_HTTP_PEER_SIZE])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    char host[INET6_ADDRSTRLEN];
    ret_peer[0] = '\0';
    if (address && address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        if (inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host))
            snprintf(ret_peer, PRN_HTTP_PEER_SIZE, "ipv4:%s:%d", host, ntohs(v4->sin_port));
    } else if (address && address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
        if (inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host))
            snprintf(ret_peer, PRN_HTTP_PEER_SIZE, "ipv6:%%5B%s%%5D:%d", host,
                     ntohs(v6->sin6_port));
    }
    return request->listener->http->port;
}

void prn_http_set_media(struct prn_http_request *request, const char *media)
{
    request->media = media;
}

void prn_http_set_policy(struct prn_http_request *request, const char *policy)
{
    request->policy = policy;
}

void prn_http_set_header(struct prn_http_request *request, const char *name, const char *value)
{
    request->header = name;
    snprintf(request->value, sizeof request->value, "%s", value);
}

/* ---- Connections ---- */

static time_t now_s(void)
{
    return (time_t)(prn_monotonic_ns() / 1000000000);
}

static void cut_off_old(const struct listener *l)
{
    size_t open = 0;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        open += l->connections[i].fd >= 0;
    for (size_t i = 0; open > CONNECTIONS_MAX / 2 && i < CONNECTIONS_MAX; i++)
        if (l->connections[i].fd >= 0 && now_s() - l->connections[i].since_s >= OLD_S)
            shutdown(l->connections[i].fd, SHUT_RDWR);
}

/* What is known of a descriptor, or of none: a free place. */
static struct connection *find_connection(struct listener *l, int fd)
{
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (l->connections[i].fd == fd)
            return &l->connections[i];
    return NULL;
}

static int descriptor_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

static void notice(void *context, struct MHD_Connection *connection, void **socket_context,
                   enum MHD_ConnectionNotificationCode code)
{
    (void)socket_context;
    struct listener *l = context;
    int fd = descriptor_of(connection);
    bool comes = code == MHD_CONNECTION_NOTIFY_STARTED;
    struct connection *place = find_connection(l, comes ? -1 : fd);
    if (place)
        *place = (struct connection){.fd = comes ? fd : -1, .since_s = now_s()};
    if (comes)
        cut_off_old(l);
}

/* The answer is sent, or nobody is waiting for it any more. */
static void forget(void *context, struct MHD_Connection *connection, void **request_context,
                   enum MHD_RequestTerminationCode code)
{
    (void)code;
    struct listener *l = context;
    struct prn_http_request *r = *request_context;
    struct connection *place = find_connection(l, descriptor_of(connection));
    if (place)
        place->since_s = now_s();
    if (!r)
        return;
    lanes_lock(l->http);
    l->http->answer_bytes -= r->answer_bytes;
    lanes_unlock(l->http);
    /* A token may have been in it. */
    if (r->body.data)
        explicit_bzero(r->body.data, r->body.capacity);
    prn_buffer_release(&r->body);
    prn_buffer_release(&r->out);
    free(r);
    *request_context = NULL;
}

/* ---- Answers ---- */

static void refuse(struct prn_http_request *r, unsigned status, const char *text)
{
    r->done = true;
    r->status = status;
    r->media = r->api ? "application/json" : "text/plain; charset=utf-8";
    r->policy = r->listener->http->policy;
    prn_buffer_clear(&r->out);
    prn_buffer_printf(&r->out, r->api ? "{\"error\": \"%s\"}\n" : "%s\n", text);
}

static const char *allowed(const struct prn_http_request *r)
{
    return r->route && r->route->post ? MHD_HTTP_METHOD_POST : "GET, HEAD";
}

static enum MHD_Result answer(struct prn_http_request *r)
{
    size_t length = r->out.len;
    char *text = prn_buffer_detach(&r->out);
    if (!text) {
        refuse(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
        length = r->out.len;
        text = prn_buffer_detach(&r->out);
    }
    struct MHD_Response *response =
        text ? MHD_create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!response) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, r->media);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    if (r->policy)
        MHD_add_response_header(response, "Content-Security-Policy", r->policy);
    if (r->header)
        MHD_add_response_header(response, r->header, r->value);
    if (r->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allowed(r));
    lanes_lock(r->listener->http);
    r->listener->http->answer_bytes += length;
    r->answer_bytes += length;
    lanes_unlock(r->listener->http);
    enum MHD_Result result = MHD_queue_response(r->connection, r->status, response);
    MHD_destroy_response(response);
    return result;
}

static void run_page(struct prn_http_request *r)
{
    const struct prn_http *http = r->listener->http;
    r->media = r->route->media;
    r->policy = http->policy;
    r->status = r->route->page(r, http->context, &r->out);
    r->done = true;
}

/* ---- Lanes ---- */

/* Does what waits, one after the other; at the end, the rest is refused. */
static void *http_work(void *opaque)
{
    struct lane *lane = opaque;
    struct prn_http *http = lane->http;
    lanes_lock(http);
    for (;;) {
        while (!lane->first && !http->ending)
            pthread_cond_wait(&lane->due, &http->lock);
        struct prn_http_request *r = lane->first;
        if (!r)
            break;
        lane->first = r->next;
        if (!lane->first)
            lane->last = NULL;
        lane->n--;
        bool ending = http->ending;
        struct listener *l = r->listener;
        lanes_unlock(http);
        if (ending)
            refuse(r, MHD_HTTP_SERVICE_UNAVAILABLE, "the service is ending");
        else
            run_page(r);
        /* From here on the request is the server's again, and may be gone. */
        MHD_resume_connection(r->connection);
        lanes_lock(http);
        l->in_lanes--;
        pthread_cond_broadcast(&http->left);
    }
    lanes_unlock(http);
    return NULL;
}

/* Has the request wait for its lane; false: there is no room. */
static bool enter_lane(struct prn_http_request *r)
{
    struct prn_http *http = r->listener->http;
    struct lane *lane = &http->lanes[r->route->lane];
    lanes_lock(http);
    bool room = !http->ending && !r->listener->ending && lane->n < LANE_MAX &&
                http->answer_bytes < ANSWERS_MAX;
    if (room) {
        MHD_suspend_connection(r->connection);
        if (lane->last)
            lane->last->next = r;
        else
            lane->first = r;
        lane->last = r;
        lane->n++;
        r->listener->in_lanes++;
        pthread_cond_signal(&lane->due);
    }
    lanes_unlock(http);
    return room;
}

static int start_lanes(struct prn_http *http, struct prony_error *err)
{
    for (size_t i = 0; i < PRN_HTTP_LANES; i++) {
        http->lanes[i].http = http;
        pthread_cond_init(&http->lanes[i].due, NULL);
    }
    for (size_t i = PRN_HTTP_AT_ONCE + 1; i < PRN_HTTP_LANES; i++) {
        bool wanted = false;
        for (const struct prn_http_route *route = http->routes; route->path; route++)
            wanted |= route->lane == (enum prn_http_lane)i;
        if (!wanted)
            continue;
        if (pthread_create(&http->lanes[i].thread, NULL, http_work, &http->lanes[i]) != 0)
            return prn_fail(err, PRONY_ENOMEM, "cannot start a thread");
        http->lanes[i].runs = true;
    }
    return 0;
}

static void stop_lanes(struct prn_http *http)
{
    lanes_lock(http);
    http->ending = true;
    for (size_t i = 0; i < PRN_HTTP_LANES; i++)
        pthread_cond_signal(&http->lanes[i].due);
    lanes_unlock(http);
    for (size_t i = 0; i < PRN_HTTP_LANES; i++) {
        if (http->lanes[i].runs)
            pthread_join(http->lanes[i].thread, NULL);
        pthread_cond_destroy(&http->lanes[i].due);
    }
}

/* ---- Requests ---- */

/* Whether the request names this machine, in a way that no name service could have made up. */
static bool is_for_loopback(const struct prn_http_request *r)
{
    const char *text = prn_http_header(r, MHD_HTTP_HEADER_HOST);
    struct in_addr address;
    char host[64];
    size_t length = text ? text[0] == '[' ? strcspn(text, "]") + 1 : strcspn(text, ":") : 0;
    if (length == 0 || length >= sizeof host || length > strlen(text))
        return false;
    if (text[length] != '\0' && text[length] != ':')
        return false;
    memcpy(host, text, length);
    host[length] = '\0';
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

/* What is wrong with it before anything is done. */
static void check(struct prn_http_request *r, const char *method)
{
    const struct prn_http *http = r->listener->http;
    bool reads =
        strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    bool open = r->route && r->route->open;
    if (!open && http->refusal)
        refuse(r, MHD_HTTP_FORBIDDEN, http->refusal);
    else if (!open && http->loopback_only && !is_for_loopback(r))
        refuse(r, MHD_HTTP_FORBIDDEN, "unknown host name");
    else if (!r->route)
        refuse(r, MHD_HTTP_NOT_FOUND, "no such page");
    else if (r->route->post ? strcmp(method, MHD_HTTP_METHOD_POST) != 0 : !reads)
        refuse(r, MHD_HTTP_METHOD_NOT_ALLOWED, r->route->post ? "POST only" : "GET and HEAD only");
}

static struct prn_http_request *new_request(struct listener *l, struct MHD_Connection *connection,
                                            const char *url, const char *method)
{
    struct prn_http_request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct prn_http_request){.listener = l,
                                   .connection = connection,
                                   .api = strncmp(url, "/api/", 5) == 0,
                                   .begun_s = now_s(),
                                   .body = PRN_BUFFER_INIT(PRN_HTTP_BODY_MAX),
                                   .out = PRN_BUFFER_INIT(PRN_HTTP_PAGE_MAX)};
    for (const struct prn_http_route *route = l->http->routes; route->path && !r->route; route++)
        if (strcmp(route->path, url) == 0)
            r->route = route;
    check(r, method);
    return r;
}

/* More than anybody reads: the answer comes before the body, which ends the connection. */
static bool is_hopeless(const struct prn_http_request *r)
{
    const char *length = prn_http_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length && strtoull(length, NULL, 10) > DROPPED_MAX;
}

static void refuse_body(struct prn_http_request *r)
{
    if (!r->done)
        refuse(r, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too large");
}

/* False: the connection ends. */
static bool take_body(struct prn_http_request *r, const char *data, size_t size)
{
    r->received_bytes += size;
    if (now_s() - r->begun_s > PRN_HTTP_BODY_MAX_S || r->received_bytes > DROPPED_MAX)
        return false;
    if (r->done || !r->route->post)
        return true;
    prn_buffer_append(&r->body, data, size);
    if (r->body.error)
        refuse_body(r);
    return true;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **request_context)
{
    (void)version;
    struct prn_http_request *r = *request_context;
    /* The first call comes before a body, the last behind it, or when a lane is done. */
    if (!r) {
        r = *request_context = new_request(context, connection, url, method);
        if (!r)
            return MHD_NO;
        if (!is_hopeless(r))
            return MHD_YES;
        refuse_body(r);
        return answer(r);
    }
    if (*upload_size > 0) {
        size_t size = *upload_size;
        *upload_size = 0;
        return take_body(r, upload, size) ? MHD_YES : MHD_NO;
    }
    if (!r->done && r->route->lane == PRN_HTTP_AT_ONCE)
        run_page(r);
    if (!r->done && enter_lane(r))
        return MHD_YES;
    if (!r->done)
        refuse(r, MHD_HTTP_SERVICE_UNAVAILABLE, "too many requests at the moment; try again");
    return answer(r);
}

/* ---- The server ---- */

/* "host:port" or "[host]:port", with a number for both; or "localhost:port". */
static int resolve(const char *address, struct addrinfo **ret_info, struct prony_error *err)
{
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    char host[64];
    bool bracketed = length >= 2 && address[0] == '[' && address[length - 1] == ']';
    if (bracketed) {
        address++;
        length -= 2;
    }
    if (!colon || length == 0 || length >= sizeof host || !colon[1] ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || strtol(colon + 1, NULL, 10) > 65535)
        return prn_fail(err, PRONY_EUSAGE,
                        "'%s' is not an address for HTTP: it needs the form 127.0.0.1:9464",
                        bracketed ? address - 1 : address);
    memcpy(host, address, length);
    host[length] = '\0';
    bool local = strcmp(host, "localhost") == 0;
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                   .ai_socktype = SOCK_STREAM};
    int error = getaddrinfo(local ? "127.0.0.1" : host, colon + 1, &hints, ret_info);
    return error ? prn_fail(err, PRONY_EUSAGE, "'%s' is not an address for HTTP: %s", host,
                            gai_strerror(error))
                 : 0;
}

static int listen_at(const char *address, int *ret_fd, int *ret_port, struct prony_error *err)
{
    struct addrinfo *info = NULL;
    int code = resolve(address, &info, err);
    if (code < 0)
        return code;
    const int on = 1;
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ready = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                 bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0 &&
                 getsockname(fd, (struct sockaddr *)&bound, &size) == 0;
    int error = errno;
    freeaddrinfo(info);
    if (!ready) {
        if (fd >= 0)
            close(fd);
        return prn_fail_errno(err, error, "listen for HTTP at", address);
    }
    /* The port lies at the same place in both kinds of address. */
    *ret_port = ntohs(((const struct sockaddr_in *)&bound)->sin_port);
    *ret_fd = fd;
    return 0;
}

static int start_daemon(struct listener *l, int fd, const struct prn_http_tls *tls,
                        struct prony_error *err)
{
    const struct MHD_OptionItem secure[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, tls ? (void *)(uintptr_t)tls->certificate : NULL},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, tls ? (void *)(uintptr_t)tls->key : NULL},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    if (tls && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return prn_fail(err, PRONY_EUNSUPPORTED, "this libmicrohttpd has no TLS for --http");
    /* Not epoll: with that, a client that has sent all and waits may be seen only at its timeout.
     */
    l->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME |
            (tls ? MHD_USE_TLS : 0),
        0, NULL, NULL, handle, l, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_PER_ADDRESS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_MAX_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_CONNECTION, notice, l, MHD_OPTION_NOTIFY_COMPLETED, forget, l,
        MHD_OPTION_ARRAY, tls ? secure : plain, MHD_OPTION_END);
    return l->daemon ? 0
                     : prn_fail(err, PRONY_EIO, "cannot start the HTTP server%s",
                                tls ? " with this certificate" : "");
}

/* It has the socket for itself, in a descriptor of its own. */
static int open_listener(struct prn_http *http, const struct prn_http_tls *tls,
                         struct listener **ret_listener, struct prony_error *err)
{
    struct listener *l = calloc(1, sizeof *l);
    if (!l)
        return prn_fail_memory(err);
    l->http = http;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        l->connections[i].fd = -1;
    int fd = fcntl(http->fd, F_DUPFD_CLOEXEC, 0);
    int code = fd < 0 ? prn_fail_errno(err, errno, "listen", "for HTTP") : 0;
    if (code == 0)
        code = start_daemon(l, fd, tls, err);
    if (code == 0) {
        *ret_listener = l;
        return 0;
    }
    if (fd >= 0)
        close(fd);
    free(l);
    return code;
}

static void close_listener(struct listener *l)
{
    struct prn_http *http = l->http;
    int fd = MHD_quiesce_daemon(l->daemon);
    lanes_lock(http);
    l->ending = true;
    while (l->in_lanes > 0)
        pthread_cond_wait(&http->left, &http->lock);
    lanes_unlock(http);
    MHD_stop_daemon(l->daemon);
    if (fd >= 0)
        close(fd);
    free(l);
}

int prn_http_start(const struct prn_http_config *config, struct prn_http **ret_http,
                   struct prony_error *err)
{
    struct prn_http *http = calloc(1, sizeof *http);
    if (!http)
        return prn_fail_memory(err);
    http->fd = -1;
    http->routes = config->routes;
    http->context = config->context;
    http->policy = config->policy;
    http->loopback_only = config->loopback_only;
    http->refusal = config->refusal;
    pthread_mutex_init(&http->lock, NULL);
    pthread_cond_init(&http->left, NULL);
    int code = start_lanes(http, err);
    if (code == 0)
        code = listen_at(config->address, &http->fd, &http->port, err);
    if (code == 0)
        code = open_listener(http, config->tls, &http->listener, err);
    if (code < 0)
        prn_http_stop(http);
    else
        *ret_http = http;
    return code;
}

int prn_http_port(const struct prn_http *http)
{
    return http->port;
}

int prn_http_set_tls(struct prn_http *http, const struct prn_http_tls *tls, struct prony_error *err)
{
    struct listener *fresh = NULL;
    int code = open_listener(http, tls, &fresh, err);
    if (code < 0)
        return code;
    close_listener(http->listener);
    http->listener = fresh;
    return 0;
}

void prn_http_stop(struct prn_http *http)
{
    if (!http)
        return;
    stop_lanes(http);
    if (http->listener)
        close_listener(http->listener);
    if (http->fd >= 0)
        close(http->fd);
    pthread_cond_destroy(&http->left);
    pthread_mutex_destroy(&http->lock);
    free(http);
}
