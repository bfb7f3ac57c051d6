/*
 * The kernel knows the user of each end of a connection: the peer's end is the one whose local
 * address is the peer's. Asked for a connection by both of its addresses, it answers in
 * microseconds. Its tables take it tens of milliseconds to write, because it walks through all
 * that could be in them, but there the connection is found whatever our own address is.
 */
#include "service/peer.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct address {
    bool v6;
    unsigned char bytes[16];
    unsigned port;
};

/* What an IPv4 address begins with on a socket for both kinds. */
static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

/* Replaces %5B and the like, in place. */
static void unescape(char *text)
{
    char *to = text;
    for (char *c = text; *c; c++) {
        char hex[3] = {c[1], c[1] ? c[2] : '\0', '\0'};
        char *end;
        if (*c == '%' && strlen(hex) == 2) {
            unsigned long value = strtoul(hex, &end, 16);
            if (*end == '\0') {
                *to++ = (char)value;
                c += 2;
                continue;
            }
        }
        *to++ = *c;
    }
    *to = '\0';
}

static bool parse(const char *peer, struct address *ret_address)
{
    char text[128];
    struct address a = {0};
    if (strncmp(peer, "ipv4:", 5) != 0 && strncmp(peer, "ipv6:", 5) != 0)
        return false;
    a.v6 = peer[3] == '6';
    if (snprintf(text, sizeof text, "%s", peer + 5) >= (int)sizeof text)
        return false;
    unescape(text);
    char *port = strrchr(text, ':');
    if (!port)
        return false;
    *port++ = '\0';
    char *end;
    unsigned long number = strtoul(port, &end, 10);
    if (*end || end == port || number > 65535)
        return false;
    a.port = (unsigned)number;
    char *host = text;
    size_t len = strlen(host);
    if (a.v6 && len > 1 && host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        host++;
    }
    if (inet_pton(a.v6 ? AF_INET6 : AF_INET, host, a.bytes) != 1)
        return false;
    if (a.v6 && memcmp(a.bytes, mapped, sizeof mapped) == 0) {
        a.v6 = false;
        memmove(a.bytes, a.bytes + sizeof mapped, 4);
    }
    *ret_address = a;
    return true;
}

/* The kernel writes addresses as words of the machine, in hexadecimal. */
static bool same_address(const char *hex, const struct address *a)
{
    size_t words = a->v6 ? 4 : 1;
    for (size_t i = 0; i < words; i++) {
        uint32_t word;
        uint32_t wanted;
        if (sscanf(hex + 8 * i, "%8" SCNx32, &word) != 1)
            return false;
        memcpy(&wanted, a->bytes + 4 * i, sizeof wanted);
        if (word != wanted)
            return false;
    }
    return true;
}

/* The users of all connections that fit; one is an answer, several are none. */
struct found {
    size_t n;
    uid_t user;
};

static void note_user(struct found *found, uid_t user)
{
    if (found->n == 0 || found->user != user)
        found->n++;
    found->user = user;
}

static bool is_among(unsigned port, const int *ports, size_t n_ports)
{
    for (size_t i = 0; i < n_ports; i++)
        if (ports[i] >= 0 && (unsigned)ports[i] == port)
            return true;
    return n_ports == 0;
}

static void find_users(const char *path, const struct address *a, const int *ports, size_t n_ports,
                       struct found *found)
{
    FILE *table = fopen(path, "re");
    char line[512];
    while (table && fgets(line, sizeof line, table)) {
        char local[40];
        unsigned port;
        unsigned to;
        unsigned state;
        unsigned user;
        if (sscanf(line, " %*u: %39[0-9A-F]:%x %*[0-9A-F]:%x %x %*s %*s %*s %u", local, &port, &to,
                   &state, &user) == 5 &&
            strlen(local) == (a->v6 ? 32 : 8) && state == 1 && port == a->port &&
            is_among(to, ports, n_ports) && same_address(local, a))
            note_user(found, (uid_t)user);
    }
    if (table)
        fclose(table);
}

static const unsigned char loopback4[4] = {127, 0, 0, 1};
static const unsigned char loopback6[16] = {[15] = 1};

/* An IPv4 connection may be that of a socket for both kinds. */
static bool is_source(const struct inet_diag_msg *found, const struct address *a)
{
    const unsigned char *source = (const unsigned char *)found->id.idiag_src;
    if (found->idiag_state != TCP_ESTABLISHED || ntohs(found->id.idiag_sport) != a->port)
        return false;
    if (a->v6)
        return found->idiag_family == AF_INET6 && memcmp(source, a->bytes, 16) == 0;
    if (found->idiag_family == AF_INET)
        return memcmp(source, a->bytes, 4) == 0;
    return memcmp(source, mapped, sizeof mapped) == 0 &&
           memcmp(source + sizeof mapped, a->bytes, 4) == 0;
}

/* The connection from `a` to a port of this machine's usual loopback address. */
static bool ask_user(int fd, const struct address *a, int port, uid_t *ret_user)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 body;
    } question = {
        .header = {.nlmsg_len = sizeof question,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = a->v6 ? AF_INET6 : AF_INET,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = 1U << TCP_ESTABLISHED,
                 .id = {.idiag_sport = htons((uint16_t)a->port),
                        .idiag_dport = htons((uint16_t)port),
                        .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
    };
    union {
        struct nlmsghdr header;
        char bytes[1024];
    } answer;
    memcpy(question.body.id.idiag_src, a->bytes, a->v6 ? 16 : 4);
    memcpy(question.body.id.idiag_dst, a->v6 ? loopback6 : loopback4, a->v6 ? 16 : 4);
    if (send(fd, &question, sizeof question, 0) != sizeof question)
        return false;
    ssize_t n = recv(fd, &answer, sizeof answer, 0);
    const struct inet_diag_msg *found = NLMSG_DATA(&answer.header);
    if (n < (ssize_t)NLMSG_LENGTH(sizeof *found) ||
        answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY || !is_source(found, a))
        return false;
    *ret_user = found->idiag_uid;
    return true;
}

static void ask_users(const struct address *a, const int *ports, size_t n_ports,
                      struct found *found)
{
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    uid_t user;
    for (size_t i = 0; fd >= 0 && i < n_ports; i++)
        if (ask_user(fd, a, ports[i], &user))
            note_user(found, user);
    if (fd >= 0)
        close(fd);
}

bool prn_peer_user(const char *peer, const int *ports, size_t n_ports, uid_t *ret_user)
{
    struct address a;
    struct found found = {0};
    if (!parse(peer, &a))
        return false;
    ask_users(&a, ports, n_ports, &found);
    if (found.n == 0 && !a.v6)
        find_users("/proc/net/tcp", &a, ports, n_ports, &found);
    if (found.n == 0) {
        if (!a.v6) {
            memcpy(a.bytes + sizeof mapped, a.bytes, 4);
            memcpy(a.bytes, mapped, sizeof mapped);
            a.v6 = true;
        }
        find_users("/proc/net/tcp6", &a, ports, n_ports, &found);
    }
    if (found.n == 1)
        *ret_user = found.user;
    return found.n == 1;
}

bool prn_peer_is_local(const char *peer)
{
    struct address a;
    if (strncmp(peer, "unix:", 5) == 0)
        return true;
    if (!parse(peer, &a))
        return false;
    return a.v6 ? memcmp(a.bytes, loopback6, sizeof loopback6) == 0 : a.bytes[0] == 127;
}
