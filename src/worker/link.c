#include "worker/link.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 16
#define LOOK_MS 100                            /* how often stopping is looked at */
#define CALLERS_MAX 16                         /* who have yet to prove what they are, at a time */
#define HANDSHAKE_NS ((int64_t)5 * 1000000000) /* for each of them */
#define SILENCE_MS 30000 /* of the network, after which a connection is lost */
#define CHUNK ((size_t)1 << 20)

/* ---- Addresses ---- */

/* Parts of "host:port", "[host]:port" or "host". */
static int split(const char *text, char host[PRN_LINK_PEER_MAX], const char **ret_port,
                 struct prony_error *err)
{
    const char *end = text[0] == '[' ? strchr(text, ']') : strchr(text, ':');
    const char *from = text + (text[0] == '[');
    size_t length = end ? (size_t)(end - from) : strlen(from);
    const char *rest = end ? end + (text[0] == '[') : text + strlen(text);
    if (length == 0 || length >= PRN_LINK_PEER_MAX || (text[0] == '[' && !end) ||
        (*rest && (*rest != ':' || strchr(rest + 1, ':'))))
        return prn_fail(err, PRONY_EUSAGE, "invalid address '%.200s': write HOST:PORT", text);
    memcpy(host, from, length);
    host[length] = '\0';
    *ret_port = *rest ? rest + 1 : "0";
    return 0;
}

static int look_up(const char *text, struct addrinfo **ret_found, struct prony_error *err)
{
    char host[PRN_LINK_PEER_MAX];
    const char *port = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int code = split(text, host, &port, err);
    if (code < 0)
        return code;
    int error = getaddrinfo(host, port, &hints, ret_found);
    return error ? prn_fail(err, PRONY_EUNAVAILABLE, "cannot find '%.200s': %s", text,
                            gai_strerror(error))
                 : 0;
}

/* "10.0.0.5:4711", or without the port. */
static int name(int fd, bool with_port, char text[PRN_LINK_PEER_MAX], struct prony_error *err)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[128];
    char port[16];
    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0 ||
        getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return prn_fail(err, PRONY_EIO, "cannot find the address of a socket");
    const char *const form = strchr(host, ':') ? "[%s]%s%s" : "%s%s%s";
    snprintf(text, PRN_LINK_PEER_MAX, form, host, with_port ? ":" : "", with_port ? port : "");
    return 0;
}

/* "0.0.0.0" or "::": all addresses of whoever reads it, so none that others could be told. */
static bool is_any(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return address->sa_family == AF_INET &&
           ((const struct sockaddr_in *)address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

int prn_link_listen(const char *address, int *ret_fd, char peer[PRN_LINK_PEER_MAX],
                    struct prony_error *err)
{
    struct addrinfo *found;
    int code = look_up(address, &found, err);
    if (code < 0)
        return code;
    if (is_any(found->ai_addr)) {
        freeaddrinfo(found);
        return prn_fail(err, PRONY_EUSAGE,
                        "others cannot connect to '%.200s': name an address of this machine",
                        address);
    }
    int on = 1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        code = prn_fail_errno(err, errno, "listen on", address);
    freeaddrinfo(found);
    if (code == 0)
        code = name(fd, true, peer, err);
    if (code == 0)
        *ret_fd = fd;
    else if (fd >= 0)
        close(fd);
    return code;
}

int prn_link_address_towards(const char *server, char address[PRN_LINK_PEER_MAX],
                             struct prony_error *err)
{
    struct addrinfo *found;
    if (strncmp(server, "unix:", 5) == 0) {
        snprintf(address, PRN_LINK_PEER_MAX, "127.0.0.1");
        return 0;
    }
    int code = look_up(server, &found, err);
    if (code < 0)
        return code;
    /* Nothing is sent: the kernel only says which way it would go. */
    int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) < 0)
        code = prn_fail_errno(err, errno, "find a way to", server);
    freeaddrinfo(found);
    if (code == 0)
        code = name(fd, false, address, err);
    if (fd >= 0)
        close(fd);
    return code;
}

/* ---- TLS ---- */

static unsigned give_secret(const struct prn_link *link, unsigned char *key, unsigned most)
{
    if (link->secret->len > most)
        return 0;
    memcpy(key, link->secret->data, link->secret->len);
    return (unsigned)link->secret->len;
}

static unsigned as_client(SSL *tls, const char *hint, char *identity, unsigned identity_most,
                          unsigned char *key, unsigned most)
{
    (void)hint;
    snprintf(identity, identity_most, "stage");
    return give_secret(SSL_get_app_data(tls), key, most);
}

static unsigned as_server(SSL *tls, const char *identity, unsigned char *key, unsigned most)
{
    (void)identity;
    return give_secret(SSL_get_app_data(tls), key, most);
}

/* The secret is the only proof: a certificate, which whoever listens there could show instead, is
 * none, and no authority is trusted to have signed it. */
static SSL *new_tls(struct prn_link *link, int fd, bool server)
{
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    SSL *tls = NULL;
    if (context && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) &&
        SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") &&
        SSL_CTX_set_num_tickets(context, 0)) {
        SSL_CTX_set_psk_client_callback(context, as_client);
        SSL_CTX_set_psk_server_callback(context, as_server);
        tls = SSL_new(context);
    }
    SSL_CTX_free(context); /* tls keeps it */
    if (tls && (!SSL_set_app_data(tls, link) || !SSL_set_fd(tls, fd))) {
        SSL_free(tls);
        tls = NULL;
    }
    if (tls && server) {
        SSL_set_accept_state(tls);
    } else if (tls) {
        SSL_set_verify(tls, SSL_VERIFY_PEER, NULL);
        SSL_set_connect_state(tls);
    }
    return tls;
}

static int lost(struct prony_error *err)
{
    return prn_fail(err, PRONY_ECANCELED, "the connection to another stage was lost");
}

/* One end of a handshake; false: it cannot succeed any more. */
static bool shake_hands(SSL *tls, bool *ret_done, short *ret_events)
{
    ERR_clear_error();
    int result = SSL_do_handshake(tls);
    int why = SSL_get_error(tls, result);
    *ret_done = result == 1;
    *ret_events = why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
    return result == 1 || why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
}

static int set_blocking(int fd, bool blocking)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? -1 : fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

/* ---- Opening and closing ---- */

void prn_link_init(struct prn_link *link)
{
    *link = (struct prn_link){.fd = -1};
    pthread_mutex_init(&link->lock, NULL);
}

static void close_link(struct prn_link *link)
{
    SSL_free(link->tls);
    link->tls = NULL;
    pthread_mutex_lock(&link->lock);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    pthread_mutex_unlock(&link->lock);
}

void prn_link_release(struct prn_link *link)
{
    close_link(link);
    pthread_mutex_destroy(&link->lock);
}

void prn_link_stop(struct prn_link *link)
{
    pthread_mutex_lock(&link->lock);
    link->stopped = true;
    if (link->fd >= 0)
        shutdown(link->fd, SHUT_RDWR);
    pthread_mutex_unlock(&link->lock);
}

static bool is_stopped(struct prn_link *link)
{
    pthread_mutex_lock(&link->lock);
    bool stopped = link->stopped;
    pthread_mutex_unlock(&link->lock);
    return stopped;
}

/* Takes the descriptor over; false: the link was stopped. */
static bool adopt(struct prn_link *link, int fd)
{
    const int on = 1;
    const int idle_s = 10;
    const int interval_s = 5;
    const int silence_ms = SILENCE_MS;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    pthread_mutex_lock(&link->lock);
    link->fd = fd;
    bool stopped = link->stopped;
    pthread_mutex_unlock(&link->lock);
    return !stopped;
}

/* Until the other side has proved what it is, which it may do late: it loads its model first. */
static int prove(struct prn_link *link, int64_t until_ns, struct prony_error *err)
{
    bool done = false;
    struct pollfd wait = {.fd = link->fd};
    link->tls = new_tls(link, link->fd, false);
    if (!link->tls)
        return prn_fail_memory(err);
    bool sound = set_blocking(link->fd, false) == 0;
    while (sound && !done) {
        sound = shake_hands(link->tls, &done, &wait.events) && !is_stopped(link) &&
                prn_monotonic_ns() < until_ns;
        if (sound && !done)
            poll(&wait, 1, LOOK_MS);
    }
    return sound && set_blocking(link->fd, true) == 0 ? 0 : lost(err);
}

int prn_link_connect(struct prn_link *link, const char *peer, const ProtobufCBinaryData *secret,
                     double timeout_s, struct prony_error *err)
{
    int64_t until_ns = prn_monotonic_ns() + (int64_t)(timeout_s * 1e9);
    struct addrinfo *found;
    int code = look_up(peer, &found, err);
    if (code < 0)
        return code;
    link->secret = secret;
    const int silence_ms = SILENCE_MS;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) /* also for connecting */
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    if (fd >= 0 && !adopt(link, fd))
        code = lost(err);
    else if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) < 0)
        code =
            prn_fail(err, PRONY_EUNAVAILABLE, "cannot reach the host of the next stage at '%s': %s",
                     peer, strerror(errno));
    freeaddrinfo(found);
    return code == 0 ? prove(link, until_ns, err) : code;
}

/* Those who have connected and have yet to prove what they are, the oldest first. */
struct callers {
    size_t n;
    struct caller {
        SSL *tls;
        int64_t until_ns;
    } items[CALLERS_MAX];
    struct pollfd waits[CALLERS_MAX + 1]; /* the same in their order, then the listener */
};

static void remove_caller(struct callers *c, size_t i, bool hang_up)
{
    if (hang_up) {
        SSL_free(c->items[i].tls);
        close(c->waits[i].fd);
    }
    c->n--;
    memmove(&c->items[i], &c->items[i + 1], (c->n - i) * sizeof c->items[0]);
    memmove(&c->waits[i], &c->waits[i + 1], (c->n - i) * sizeof c->waits[0]);
}

/* One who is to be let in takes a moment, so it is the oldest who makes room. */
static void add_caller(struct callers *c, struct prn_link *link, int fd)
{
    SSL *tls = new_tls(link, fd, true);
    if (!tls) {
        close(fd);
        return;
    }
    if (c->n == CALLERS_MAX)
        remove_caller(c, 0, true);
    c->items[c->n] = (struct caller){tls, prn_monotonic_ns() + HANDSHAKE_NS};
    c->waits[c->n] = (struct pollfd){.fd = fd, .events = POLLIN};
    c->n++;
}

/* Hears those who have something to say; true: one of them has the secret. */
static bool hear_callers(struct callers *c, struct prn_link *link)
{
    for (size_t i = 0; i < c->n;) {
        bool done = false;
        bool sound = prn_monotonic_ns() < c->items[i].until_ns;
        if (sound && c->waits[i].revents)
            sound = shake_hands(c->items[i].tls, &done, &c->waits[i].events);
        if (done && set_blocking(c->waits[i].fd, true) == 0) {
            link->tls = c->items[i].tls;
            adopt(link, c->waits[i].fd);
            remove_caller(c, i, false);
            return true;
        }
        if (done || !sound)
            remove_caller(c, i, true);
        else
            i++;
    }
    return false;
}

int prn_link_accept(struct prn_link *link, int listen_fd, const ProtobufCBinaryData *secret,
                    double timeout_s, struct prony_error *err)
{
    int64_t until_ns = prn_monotonic_ns() + (int64_t)(timeout_s * 1e9);
    struct callers c = {0};
    bool open = false;
    link->secret = secret;
    while (!open && !is_stopped(link) && prn_monotonic_ns() < until_ns) {
        c.waits[c.n] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
        bool called = poll(c.waits, c.n + 1, LOOK_MS) > 0 && c.waits[c.n].revents;
        open = hear_callers(&c, link);
        int fd =
            called && !open ? accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
        if (fd >= 0)
            add_caller(&c, link, fd);
    }
    while (c.n > 0)
        remove_caller(&c, 0, true);
    if (is_stopped(link))
        return lost(err);
    return open ? 0
                : prn_fail(err, PRONY_ETIMEDOUT,
                           "the stage before it did not connect within %.3g s", timeout_s);
}

/* ---- Data ---- */

int prn_link_write(struct prn_link *link, const void *data, size_t bytes, struct prony_error *err)
{
    for (size_t done = 0; done < bytes;) {
        size_t some = bytes - done < CHUNK ? bytes - done : CHUNK;
        int sent = SSL_write(link->tls, (const char *)data + done, (int)some);
        if (sent <= 0)
            return lost(err);
        done += (size_t)sent;
    }
    return 0;
}

int prn_link_read(struct prn_link *link, void *data, size_t bytes, struct prony_error *err)
{
    for (size_t done = 0; done < bytes;) {
        size_t some = bytes - done < CHUNK ? bytes - done : CHUNK;
        int got = SSL_read(link->tls, (char *)data + done, (int)some);
        if (got <= 0)
            return lost(err);
        done += (size_t)got;
    }
    return 0;
}
