/* Whose connection it is: real ones of this process, over both kinds of addresses. */
#include "service/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static unsigned port_of(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                               : ((const struct sockaddr_in6 *)address)->sin6_port);
}

/* A connection to a listener of its own; `ret_port` is that of the end that connects, `ret_to` the
 * listener's. */
static void connect_here(int family, const struct sockaddr *to, socklen_t length, int fds[2],
                         unsigned *ret_port, int *ret_to)
{
    struct sockaddr_storage address;
    memcpy(&address, to, length);
    socklen_t size = length;
    int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, to, length), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    *ret_to = (int)port_of(&address);
    fds[0] = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fds[0], (struct sockaddr *)&address, size), 0);
    fds[1] = accept(listener, NULL, NULL);
    assert_true(fds[1] >= 0);
    size = sizeof address;
    assert_int_equal(getsockname(fds[0], (struct sockaddr *)&address, &size), 0);
    *ret_port = port_of(&address);
    close(listener);
}

static void test_user(void **state)
{
    (void)state;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fds[2];
    unsigned port;
    int to;
    char peer[64];
    uid_t user = (uid_t)-1;
    connect_here(AF_INET, (struct sockaddr *)&v4, sizeof v4, fds, &port, &to);
    snprintf(peer, sizeof peer, "ipv4:127.0.0.1:%u", port);
    assert_true(prn_peer_user(peer, &to, 1, &user));
    assert_int_equal(user, geteuid());
    /* Without its other end the kernel's tables are read. */
    assert_true(prn_peer_user(peer, NULL, 0, &user));
    assert_int_equal(user, geteuid());
    /* The same connection on a socket for both kinds of addresses. */
    snprintf(peer, sizeof peer, "ipv6:%%5B::ffff:127.0.0.1%%5D:%u", port);
    assert_true(prn_peer_user(peer, &to, 1, &user));
    /* The listening end isn't one. */
    close(fds[0]);
    close(fds[1]);
    snprintf(peer, sizeof peer, "ipv4:127.0.0.2:%u", port);
    assert_false(prn_peer_user(peer, &to, 1, &user));
}

static int listen_here(struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)address, size), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, &size), 0);
    return fd;
}

/* From `port`, if it isn't 0, which others may have too. */
static int connect_from(uid_t user, const struct sockaddr_in *to, unsigned *port)
{
    const int on = 1;
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)*port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof from;
    assert_int_equal(seteuid(user), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, size), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)to, sizeof *to), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&from, &size), 0);
    *port = ntohs(from.sin_port);
    return fd;
}

/* Two users' connections from the same port, to different ones of ours: whose it is depends on
 * where it leads, and where that isn't known it is nobody's. */
static void test_shared_port(void **state)
{
    (void)state;
    const uid_t other = 65534;
    struct sockaddr_in to[2];
    int ports[3];
    int fds[4];
    unsigned port = 0;
    char peer[64];
    uid_t user = (uid_t)-1;
    if (geteuid() != 0)
        skip();
    for (size_t i = 0; i < 2; i++) {
        fds[i] = listen_here(&to[i]);
        ports[i] = ntohs(to[i].sin_port);
    }
    ports[2] = ports[0];
    fds[2] = connect_from(0, &to[0], &port);
    fds[3] = connect_from(other, &to[1], &port);
    snprintf(peer, sizeof peer, "ipv4:127.0.0.1:%u", port);
    assert_true(prn_peer_user(peer, &ports[0], 1, &user));
    assert_int_equal(user, 0);
    assert_true(prn_peer_user(peer, &ports[1], 1, &user));
    assert_int_equal(user, other);
    assert_false(prn_peer_user(peer, ports, 2, &user));
    assert_false(prn_peer_user(peer, ports, 3, &user));
    assert_false(prn_peer_user(peer, NULL, 0, &user));
    close(fds[3]);
    assert_true(prn_peer_user(peer, ports, 2, &user));
    assert_int_equal(user, 0);
    for (size_t i = 0; i < 3; i++)
        close(fds[i]);
}

static void test_user_v6(void **state)
{
    (void)state;
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fds[2];
    unsigned port;
    int to;
    char peer[64];
    uid_t user = (uid_t)-1;
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool usable = probe >= 0 && bind(probe, (struct sockaddr *)&v6, sizeof v6) == 0;
    if (probe >= 0)
        close(probe);
    if (!usable)
        skip();
    connect_here(AF_INET6, (struct sockaddr *)&v6, sizeof v6, fds, &port, &to);
    snprintf(peer, sizeof peer, "ipv6:[::1]:%u", port);
    assert_true(prn_peer_user(peer, &to, 1, &user));
    assert_int_equal(user, geteuid());
    close(fds[0]);
    close(fds[1]);
}

static void test_local(void **state)
{
    (void)state;
    assert_true(prn_peer_is_local("unix:"));
    assert_true(prn_peer_is_local("unix:/run/prony"));
    assert_true(prn_peer_is_local("ipv4:127.0.0.1:1"));
    assert_true(prn_peer_is_local("ipv4:127.255.0.1:65535"));
    assert_true(prn_peer_is_local("ipv6:%5B::1%5D:40112"));
    assert_true(prn_peer_is_local("ipv6:[::ffff:127.0.0.1]:40112"));
    assert_false(prn_peer_is_local("ipv6:[::ffff:10.0.0.1]:40112"));
    assert_false(prn_peer_is_local("ipv4:10.0.0.1:1"));
    assert_false(prn_peer_is_local("ipv6:[fe80::1]:1"));
}

static void test_nonsense(void **state)
{
    (void)state;
    static const char *const peers[] = {"",
                                        "ipv4:",
                                        "ipv4:127.0.0.1",
                                        "ipv4:127.0.0.1:",
                                        "ipv4:127.0.0.1:65536",
                                        "ipv4:127.0.0.1:x",
                                        "ipv4:::1:1",
                                        "ipv6:127.0.0.1:1",
                                        "ipv6:%5",
                                        "ipv6:%zz:1",
                                        "dns:host:1",
                                        "ipv4:1270.0.0.1:1"};
    uid_t user;
    char longer[400];
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
        assert_false(prn_peer_user(peers[i], NULL, 0, &user));
        assert_false(prn_peer_is_local(peers[i]));
    }
    memset(longer, '1', sizeof longer);
    memcpy(longer, "ipv4:", 5);
    longer[sizeof longer - 1] = '\0';
    assert_false(prn_peer_is_local(longer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_user),     cmocka_unit_test(test_shared_port),
        cmocka_unit_test(test_user_v6),  cmocka_unit_test(test_local),
        cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
