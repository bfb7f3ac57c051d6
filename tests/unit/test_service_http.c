/* The HTTP server: pages, bodies, lanes, and clients that mean harm. */
#include "service_unit.h"

#include "service/web/http.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>

static unsigned page_hello(struct prn_http_request *request, void *context, struct prn_buffer *out)
{
    const char *name = prn_http_parameter(request, "name");
    prn_buffer_printf(out, "hello %s of %s\n", name ? name : "you", (const char *)context);
    return 200;
}

static unsigned page_empty(struct prn_http_request *request, void *context, struct prn_buffer *out)
{
    (void)context;
    (void)out;
    return prn_http_header(request, "X-Fail") ? 503 : 200;
}

/* What came, and what it says of itself. */
static unsigned page_echo(struct prn_http_request *request, void *context, struct prn_buffer *out)
{
    (void)context;
    size_t length;
    const char *body = prn_http_body(request, &length);
    const char *cookie = prn_http_cookie(request, "crumb");
    char peer[PRN_HTTP_PEER_SIZE];
    int port = prn_http_peer(request, peer);
    prn_buffer_printf(out, "%zu bytes, cookie %s, from %.15s to %d: %s\n", length,
                      cookie ? cookie : "none", peer, port, length < 100 ? body : "long");
    prn_http_set_header(request, "Set-Cookie", "crumb=2");
    prn_http_set_policy(request, "default-src 'self'");
    prn_http_set_media(request, "text/x-echo");
    return 201;
}

/* Pages that wait until they are let go. */
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moves = PTHREAD_COND_INITIALIZER;
static bool gate_open;
static size_t waiting;

static unsigned page_slow(struct prn_http_request *request, void *context, struct prn_buffer *out)
{
    (void)context;
    pthread_mutex_lock(&gate_lock);
    waiting++;
    pthread_cond_broadcast(&gate_moves);
    while (!gate_open)
        pthread_cond_wait(&gate_moves, &gate_lock);
    waiting--;
    pthread_mutex_unlock(&gate_lock);
    const char *size = prn_http_parameter(request, "bytes");
    for (long i = size ? strtol(size, NULL, 10) : 0; i > 0; i -= 10)
        prn_buffer_add(out, "123456789\n");
    prn_buffer_add(out, "at last\n");
    return 200;
}

static void open_gate(bool open)
{
    pthread_mutex_lock(&gate_lock);
    gate_open = open;
    pthread_cond_broadcast(&gate_moves);
    pthread_mutex_unlock(&gate_lock);
}

static void wait_for_one(void)
{
    pthread_mutex_lock(&gate_lock);
    while (waiting == 0)
        pthread_cond_wait(&gate_moves, &gate_lock);
    pthread_mutex_unlock(&gate_lock);
}

static const struct prn_http_route routes[] = {
    {.path = "/hello", .media = "text/plain; charset=utf-8", .page = page_hello},
    {.path = "/healthz", .media = "text/plain", .page = page_empty, .open = true},
    {.path = "/echo", .media = "text/plain", .page = page_echo, .post = true},
    {.path = "/api/echo", .media = "application/json", .page = page_echo, .post = true},
    {.path = "/disk", .media = "text/plain", .page = page_hello, .lane = PRN_HTTP_DISK},
    {.path = "/long", .media = "text/plain", .page = page_slow, .lane = PRN_HTTP_LONG},
    {0}};

static int dial(int port)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = 20};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* What comes until the end. */
static const char *rest_of(int fd)
{
    static char text[1 << 16];
    size_t used = 0;
    for (ssize_t n;
         used < sizeof text - 1 && (n = recv(fd, text + used, sizeof text - 1 - used, 0)) > 0;)
        used += (size_t)n;
    text[used] = '\0';
    close(fd);
    return text;
}

/* The whole answer to a request on a connection of its own. */
static const char *ask(int port, const char *request, size_t length)
{
    int fd = dial(port);
    send(fd, request, length, MSG_NOSIGNAL);
    return rest_of(fd);
}

static const char *get(int port, const char *method, const char *path)
{
    char request[256];
    int n = snprintf(request, sizeof request,
                     "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, path);
    return ask(port, request, (size_t)n);
}

static char whom[] = "prony";

static struct prn_http *start(const char *address)
{
    struct prn_http *http = NULL;
    const struct prn_http_config config = {.address = address, .routes = routes, .context = whom};
    assert_done(prn_http_start(&config, &http, err));
    assert_true(prn_http_port(http) > 0);
    return http;
}

static void serves_pages(void **state)
{
    (void)state;
    struct prn_http *http = start("127.0.0.1:0");
    int port = prn_http_port(http);
    const char *answer = get(port, "GET", "/hello?name=ann&x=1");
    assert_contains(answer, "HTTP/1.1 200");
    assert_contains(answer, "\r\n\r\nhello ann of prony\n");
    assert_contains(answer, "text/plain; charset=utf-8");
    answer = get(port, "HEAD", "/hello");
    assert_contains(answer, "HTTP/1.1 200");
    assert_contains(answer, "Content-Length: 19");
    assert_null(strstr(answer, "hello"));
    assert_contains(get(port, "GET", "/healthz"), "HTTP/1.1 200");
    assert_contains(get(port, "GET", "/"), "HTTP/1.1 404");
    assert_contains(get(port, "GET", "/hello/../healthz"), "HTTP/1.1 404");
    answer = get(port, "POST", "/hello");
    assert_contains(answer, "HTTP/1.1 405");
    assert_contains(answer, "Allow: GET, HEAD");
    static const char header[] = "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Fail: 1\r\n"
                                 "Connection: close\r\n\r\n";
    assert_contains(ask(port, header, strlen(header)), "HTTP/1.1 503");
    static const char body[] = "GET /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                               "Connection: close\r\n\r\n12345";
    assert_contains(ask(port, body, strlen(body)), "hello you of prony");
    prn_http_stop(http);
}

static void survives_rubbish_and_slow_clients(void **state)
{
    (void)state;
    struct prn_http *http = start("localhost:0");
    int port = prn_http_port(http);
    /* Some stay half open the whole time. */
    int open_fds[20];
    for (size_t i = 0; i < PRN_ARRAY_SIZE(open_fds); i++) {
        open_fds[i] = dial(port);
        send(open_fds[i], "GET /hel", 8, MSG_NOSIGNAL);
    }
    size_t size = 1 << 20;
    char *rubbish = malloc(size);
    for (unsigned round = 0; round < 30; round++) {
        srand(round);
        for (size_t i = 0; i < size; i++)
            rubbish[i] = (char)rand();
        if (round % 3 == 1)
            memcpy(rubbish, "GET ", 4);
        else if (round % 3 == 2)
            memset(rubbish, 'A' + (int)round, size);
        int fd = dial(port);
        send(fd, rubbish, round % 2 ? size : 500 * round, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        assert_null(strstr(rest_of(fd), " 200 "));
    }
    free(rubbish);
    assert_contains(get(port, "GET", "/hello"), "hello you of prony");
    for (size_t i = 0; i < PRN_ARRAY_SIZE(open_fds); i++)
        close(open_fds[i]);
    prn_http_stop(http);
}

static void refuses_addresses(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      "9464",          "127.0.0.1",    "127.0.0.1:",
                                      ":80",   "127.0.0.1:x",   "127.0.0.1:-1", "host.example:1",
                                      "[::1]", "1.2.3.4:65536", "[]:1",         "::1"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(bad); i++) {
        struct prn_http *http = NULL;
        const struct prn_http_config config = {.address = bad[i], .routes = routes};
        assert_refused(prn_http_start(&config, &http, err), PRONY_EUSAGE,
                       "not an address for HTTP");
    }
    struct prn_http *http = start("127.0.0.1:0"), *second = NULL;
    char taken[32];
    snprintf(taken, sizeof taken, "127.0.0.1:%d", prn_http_port(http));
    const struct prn_http_config config = {.address = taken, .routes = routes};
    assert_refused(prn_http_start(&config, &second, err), PRONY_EIO, "in use");
    prn_http_stop(http);
}

/* A POST with `length` bytes of body behind what `headers` says. */
static const char *post(int port, const char *path, const char *headers, size_t length)
{
    size_t size = length + 1024;
    char *request = malloc(size);
    int n = snprintf(request, size,
                     "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s"
                     "Content-Length: %zu\r\n\r\n",
                     path, headers, length);
    memset(request + n, 'b', length);
    const char *answer = ask(port, request, (size_t)n + length);
    free(request);
    return answer;
}

static void takes_bodies(void **state)
{
    (void)state;
    struct prn_http *http = start("127.0.0.1:0");
    int port = prn_http_port(http);
    char expected[64];
    const char *answer = post(port, "/echo", "Cookie: a=b; crumb=1\r\n", 3);
    assert_contains(answer, "HTTP/1.1 201");
    snprintf(expected, sizeof expected, "\r\n3 bytes, cookie 1, from ipv4:127.0.0.1: to %d: bbb\n",
             port);
    /* The peer's port is cut off above. */
    expected[strlen("\r\n3 bytes, cookie 1, from ipv4:127.0.0.1")] = '\0';
    assert_contains(answer, expected);
    snprintf(expected, sizeof expected, "to %d: bbb\n", port);
    assert_contains(answer, expected);
    assert_contains(answer, "Set-Cookie: crumb=2\r\n");
    assert_contains(answer, "Content-Type: text/x-echo\r\n");
    assert_contains(answer, "Content-Security-Policy: default-src 'self'\r\n");
    assert_contains(post(port, "/echo", "", 0), "0 bytes, cookie none");
    assert_contains(post(port, "/echo", "", PRN_HTTP_BODY_MAX), "4096 bytes");
    answer = post(port, "/echo", "", PRN_HTTP_BODY_MAX + 1);
    assert_contains(answer, "HTTP/1.1 413");
    assert_contains(answer, "\r\n\r\nthe body is too large\n");
    assert_contains(post(port, "/echo", "", (size_t)1 << 19), "HTTP/1.1 413");
    /* Below /api/ it is said as JSON. */
    answer = post(port, "/api/echo", "", PRN_HTTP_BODY_MAX + 1);
    assert_contains(answer, "Content-Type: application/json\r\n");
    assert_contains(answer, "\r\n\r\n{\"error\": \"the body is too large\"}\n");
    assert_contains(get(port, "GET", "/api/nothing"), "{\"error\": \"no such page\"}");
    /* So large that nobody waits for it. */
    static const char huge[] = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n"
                               "\r\nxx";
    assert_contains(ask(port, huge, strlen(huge)), "HTTP/1.1 413");
    static const char pieces[] = "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                                 "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n"
                                 "0\r\n\r\n";
    assert_contains(ask(port, pieces, strlen(pieces)), ": abc\n");
    /* Each page has its methods. */
    answer = get(port, "GET", "/echo");
    assert_contains(answer, "HTTP/1.1 405");
    assert_contains(answer, "Allow: POST\r\n");
    assert_contains(get(port, "PUT", "/echo"), "HTTP/1.1 405");
    assert_contains(get(port, "OPTIONS", "/echo"), "HTTP/1.1 405");
    assert_contains(get(port, "DELETE", "/nothing"), "HTTP/1.1 404");
    assert_contains(post(port, "/hello", "", 5000), "HTTP/1.1 405");
    prn_http_stop(http);
}

static void ends_endless_bodies(void **state)
{
    (void)state;
    struct prn_http *http = start("127.0.0.1:0");
    int port = prn_http_port(http);
    int fd = dial(port);
    static const char begin[] = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                                "\r\n";
    char chunk[4096 + 8];
    memset(chunk, 'c', sizeof chunk);
    memcpy(chunk, "1000\r\n", 6);
    memcpy(chunk + 6 + 4096, "\r\n", 2);
    send(fd, begin, strlen(begin), MSG_NOSIGNAL);
    size_t sent = 0;
    while (sent < (size_t)64 << 20 && send(fd, chunk, sizeof chunk, MSG_NOSIGNAL) > 0)
        sent += sizeof chunk;
    assert_true(sent < (size_t)64 << 20);
    close(fd);
    assert_contains(get(port, "GET", "/hello"), "hello you");
    prn_http_stop(http);
}

struct long_client {
    int port;
    bool done, refused;
};

static void *ask_for_long(void *opaque)
{
    static const char request[] = "GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    struct long_client *c = opaque;
    char text[4096];
    size_t used = 0;
    int fd = dial(c->port);
    send(fd, request, strlen(request), MSG_NOSIGNAL);
    for (ssize_t n; (n = recv(fd, text + used, sizeof text - 1 - used, 0)) > 0;)
        used += (size_t)n;
    text[used] = '\0';
    close(fd);
    c->done = strstr(text, "at last");
    c->refused = strstr(text, " 503 ");
    return NULL;
}

/* What takes long keeps nobody waiting but those who want the same, and of them not too many. */
static void long_pages_have_a_lane(void **state)
{
    (void)state;
    enum { CLIENTS = 60 };
    struct prn_http *http = start("127.0.0.1:0");
    int port = prn_http_port(http);
    pthread_t threads[CLIENTS];
    struct long_client clients[CLIENTS];
    size_t done = 0;
    size_t refused = 0;
    open_gate(false);
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = (struct long_client){.port = port};
        assert_int_equal(pthread_create(&threads[i], NULL, ask_for_long, &clients[i]), 0);
    }
    wait_for_one();
    for (size_t i = 0; i < 100; i++) {
        assert_contains(get(port, "GET", "/hello"), "hello you");
        assert_contains(get(port, "GET", "/disk?name=ann"), "hello ann");
    }
    assert_contains(get(port, "HEAD", "/disk"), "HTTP/1.1 200");
    open_gate(true);
    for (size_t i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        done += clients[i].done;
        refused += clients[i].refused;
    }
    assert_int_equal(done + refused, CLIENTS);
    assert_true(done > 20 && refused > 0);
    const char *answer = get(port, "GET", "/long?bytes=30000");
    assert_contains(answer, "123456789\nat last\n");
    prn_http_stop(http);
}

/* A client that left meanwhile, and a server that ends meanwhile. */
static void lanes_outlive_clients(void **state)
{
    (void)state;
    static const char request[] = "GET /long?bytes=1000000 HTTP/1.1\r\nHost: x\r\n\r\n";
    int before = unit_descriptors();
    for (size_t round = 0; round < 20; round++) {
        struct prn_http *http = start("127.0.0.1:0");
        int fds[10];
        open_gate(false);
        for (size_t i = 0; i < PRN_ARRAY_SIZE(fds); i++) {
            fds[i] = dial(prn_http_port(http));
            send(fds[i], request, strlen(request), MSG_NOSIGNAL);
        }
        wait_for_one();
        for (size_t i = 0; i < PRN_ARRAY_SIZE(fds); i += 2)
            close(fds[i]);
        open_gate(true);
        if (round % 2)
            assert_contains(get(prn_http_port(http), "GET", "/hello"), "hello you");
        prn_http_stop(http);
        for (size_t i = 1; i < PRN_ARRAY_SIZE(fds); i += 2)
            close(fds[i]);
    }
    assert_int_equal(unit_descriptors(), before);
}

static const char *get_as(int port, const char *path, const char *host)
{
    char request[512];
    int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n%s%s%sConnection: close\r\n\r\n",
                     path, host ? "Host: " : "", host ? host : "", host ? "\r\n" : "");
    return ask(port, request, (size_t)n);
}

/* A name that leads here isn't this host: who made the name up may be anybody. */
static void knows_its_own_name(void **state)
{
    (void)state;
    static const char *const good[] = {"127.0.0.1", "127.0.0.1:80", "localhost",  "LOCALHOST:9464",
                                       "[::1]",     "[::1]:9464",   "127.9.9.9:1"};
    static const char *const bad[] = {"example.org",
                                      "127.0.0.1.example.org",
                                      "localhost.example.org",
                                      "10.0.0.1",
                                      "[::2]:1",
                                      "",
                                      "[::1",
                                      "[::1].example.org",
                                      "127.0.0.1@example.org",
                                      "localhost@x:1",
                                      "127.1:80",
                                      "0.0.0.0:80"};
    const struct prn_http_config config = {
        .address = "127.0.0.1:0", .routes = routes, .context = whom, .loopback_only = true};
    struct prn_http *http = NULL;
    assert_done(prn_http_start(&config, &http, err));
    int port = prn_http_port(http);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(good); i++)
        assert_contains(get_as(port, "/hello", good[i]), "HTTP/1.1 200");
    for (size_t i = 0; i < PRN_ARRAY_SIZE(bad); i++) {
        assert_contains(get_as(port, "/hello", bad[i]), "HTTP/1.1 403");
        assert_contains(get_as(port, "/nothing", bad[i]), "HTTP/1.1 403");
        assert_contains(get_as(port, "/healthz", bad[i]), "HTTP/1.1 200");
    }
    prn_http_stop(http);
}

static void refuses_all_but_what_is_open(void **state)
{
    (void)state;
    const struct prn_http_config config = {.address = "127.0.0.1:0",
                                           .routes = routes,
                                           .context = whom,
                                           .policy = "default-src 'none'",
                                           .refusal = "not here"};
    struct prn_http *http = NULL;
    assert_done(prn_http_start(&config, &http, err));
    int port = prn_http_port(http);
    const char *answer = get(port, "GET", "/healthz");
    assert_contains(answer, "HTTP/1.1 200");
    assert_contains(answer, "Content-Security-Policy: default-src 'none'\r\n");
    assert_contains(answer, "X-Content-Type-Options: nosniff\r\n");
    assert_contains(answer, "Cache-Control: no-store\r\n");
    answer = get(port, "GET", "/hello");
    assert_contains(answer, "HTTP/1.1 403");
    assert_contains(answer, "\r\n\r\nnot here\n");
    assert_contains(get(port, "GET", "/nothing"), "HTTP/1.1 403");
    answer = post(port, "/api/echo", "", 3);
    assert_contains(answer, "HTTP/1.1 403");
    assert_contains(answer, "{\"error\": \"not here\"}");
    prn_http_stop(http);
}

static void refuses_certificates(void **state)
{
    (void)state;
    int before = unit_descriptors();
    const struct prn_http_tls tls = {"no certificate", "no key"};
    const struct prn_http_config config = {
        .address = "127.0.0.1:0", .routes = routes, .context = whom, .tls = &tls};
    struct prn_http *http = NULL;
    assert_refused(prn_http_start(&config, &http, err), PRONY_EIO, "with this certificate");
    assert_null(http);
    assert_int_equal(unit_descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves_pages),
        cmocka_unit_test(takes_bodies),
        cmocka_unit_test(ends_endless_bodies),
        cmocka_unit_test(long_pages_have_a_lane),
        cmocka_unit_test(lanes_outlive_clients),
        cmocka_unit_test(knows_its_own_name),
        cmocka_unit_test(refuses_all_but_what_is_open),
        cmocka_unit_test(refuses_certificates),
        cmocka_unit_test(survives_rubbish_and_slow_clients),
        cmocka_unit_test(refuses_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
