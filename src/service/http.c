/*
 * libmicrohttpd with one thread of its own. It limits memory, time without a byte, and connections;
 * what it doesn't limit is a client that sends a byte now and then, so the oldest connections are
 * cut off when many are open.
 */
#include "service/http.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64
#define MEMORY_MAX (32 << 10)
#define IDLE_MAX_S 10
/* A connection may be cut off after so long, once half of all are open. */
#define OLD_S 10

struct prn_http_request {
    struct MHD_Connection *connection;
};

struct prn_http {
    struct MHD_Daemon *daemon;
    int port;
    const struct prn_http_route *routes;
    void *context;
    const char *policy;
    bool loopback_only;
    struct {
        int fd; /* -1: free */
        time_t since_s;
    } connections[CONNECTIONS_MAX]; /* only the daemon's thread looks at them */
};

const char *prn_http_parameter(const struct prn_http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

const char *prn_http_header(const struct prn_http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void cut_off_old(const struct prn_http *http)
{
    size_t open = 0;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        open += http->connections[i].fd >= 0;
    for (size_t i = 0; open > CONNECTIONS_MAX / 2 && i < CONNECTIONS_MAX; i++)
        if (http->connections[i].fd >= 0 && now_s() - http->connections[i].since_s >= OLD_S)
            shutdown(http->connections[i].fd, SHUT_RDWR);
}

static void notice(void *context, struct MHD_Connection *connection, void **socket_context,
                   enum MHD_ConnectionNotificationCode code)
{
    (void)socket_context;
    struct prn_http *http = context;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    int wanted = code == MHD_CONNECTION_NOTIFY_STARTED ? -1 : info->connect_fd;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (http->connections[i].fd != wanted)
            continue;
        http->connections[i].fd = wanted < 0 ? info->connect_fd : -1;
        http->connections[i].since_s = now_s();
        break;
    }
    if (wanted < 0)
        cut_off_old(http);
}

static enum MHD_Result answer(const struct prn_http *http, struct MHD_Connection *connection,
                              unsigned status, const char *media, char *text, size_t length)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, media);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    if (http->policy)
        MHD_add_response_header(response, "Content-Security-Policy", http->policy);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_plainly(const struct prn_http *http,
                                      struct MHD_Connection *connection, unsigned status,
                                      const char *text)
{
    char *copy = strdup(text);
    return copy ? answer(http, connection, status, "text/plain; charset=utf-8", copy, strlen(copy))
                : MHD_NO;
}

static enum MHD_Result serve_page(const struct prn_http *http, const struct prn_http_route *route,
                                  struct MHD_Connection *connection)
{
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_HTTP_PAGE_MAX);
    const struct prn_http_request request = {connection};
    unsigned status = route->page(&request, http->context, &out);
    size_t length = out.len;
    prn_buffer_add(&out, ""); /* a page may be empty */
    char *text = prn_buffer_detach(&out);
    if (!text)
        return answer_plainly(http, connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
    return answer(http, connection, status, route->media, text, length);
}

/* Whether the request names this machine. */
static bool is_for_loopback(struct MHD_Connection *connection)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    const char *host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    for (size_t i = 0; host && i < PRN_ARRAY_SIZE(names); i++) {
        size_t length = strlen(names[i]);
        if (strncasecmp(host, names[i], length) == 0 && (!host[length] || host[length] == ':'))
            return true;
    }
    return false;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **request_context)
{
    (void)version;
    (void)upload;
    static int seen;
    const struct prn_http *http = context;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer_plainly(http, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only\n");
    /* The first call comes before a body, the last behind it; a body is read and dropped. */
    if (!*request_context || *upload_size > 0) {
        *request_context = &seen;
        *upload_size = 0;
        return MHD_YES;
    }
    if (http->loopback_only && !is_for_loopback(connection))
        return answer_plainly(http, connection, MHD_HTTP_FORBIDDEN, "this is not that host\n");
    for (const struct prn_http_route *route = http->routes; route->path; route++)
        if (strcmp(route->path, url) == 0)
            return serve_page(http, route, connection);
    return answer_plainly(http, connection, MHD_HTTP_NOT_FOUND, "no such page\n");
}

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
                        "'%s' is no address for HTTP: it needs the form 127.0.0.1:9464",
                        bracketed ? address - 1 : address);
    memcpy(host, address, length);
    host[length] = '\0';
    bool local = strcmp(host, "localhost") == 0;
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                   .ai_socktype = SOCK_STREAM};
    int error = getaddrinfo(local ? "127.0.0.1" : host, colon + 1, &hints, ret_info);
    return error ? prn_fail(err, PRONY_EUSAGE, "'%s' is no address for HTTP: %s", host,
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

int prn_http_start(const struct prn_http_config *config, struct prn_http **ret_http,
                   struct prony_error *err)
{
    struct prn_http *http = calloc(1, sizeof *http);
    if (!http)
        return prn_fail_memory(err);
    http->routes = config->routes;
    http->context = config->context;
    http->policy = config->policy;
    http->loopback_only = config->loopback_only;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        http->connections[i].fd = -1;
    int fd = -1;
    int code = listen_at(config->address, &fd, &http->port, err);
    if (code < 0) {
        free(http);
        return code;
    }
    /* Not epoll: with that, a client that has sent all and waits may be seen only at its timeout.
     */
    http->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC, 0, NULL, NULL, handle, http,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_MAX_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)MEMORY_MAX, MHD_OPTION_NOTIFY_CONNECTION, notice, http, MHD_OPTION_END);
    if (!http->daemon) {
        close(fd);
        free(http);
        return prn_fail(err, PRONY_EIO, "cannot start the HTTP server at '%s'", config->address);
    }
    *ret_http = http;
    return 0;
}

int prn_http_port(const struct prn_http *http)
{
    return http->port;
}

void prn_http_stop(struct prn_http *http)
{
    if (!http)
        return;
    MHD_stop_daemon(http->daemon);
    free(http);
}
