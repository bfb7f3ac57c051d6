/* The kernel's tables of connections name the user of each end: the peer's line is the one whose
 * local address is the peer's. */
#include "service/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static bool find_user(const char *path, const struct address *a, uid_t *ret_user)
{
    FILE *table = fopen(path, "re");
    char line[512];
    bool found = false;
    while (table && !found && fgets(line, sizeof line, table)) {
        char local[40];
        unsigned port;
        unsigned state;
        unsigned user;
        if (sscanf(line, " %*u: %39[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %u", local, &port,
                   &state, &user) != 4 ||
            strlen(local) != (a->v6 ? 32 : 8))
            continue;
        found = state == 1 && port == a->port && same_address(local, a);
        if (found)
            *ret_user = (uid_t)user;
    }
    if (table)
        fclose(table);
    return found;
}

bool prn_peer_user(const char *peer, uid_t *ret_user)
{
    struct address a;
    if (!parse(peer, &a))
        return false;
    if (!a.v6 && find_user("/proc/net/tcp", &a, ret_user))
        return true;
    if (!a.v6) {
        memcpy(a.bytes + sizeof mapped, a.bytes, 4);
        memcpy(a.bytes, mapped, sizeof mapped);
        a.v6 = true;
    }
    return find_user("/proc/net/tcp6", &a, ret_user);
}

bool prn_peer_is_local(const char *peer)
{
    static const unsigned char loopback6[16] = {[15] = 1};
    struct address a;
    if (strncmp(peer, "unix:", 5) == 0)
        return true;
    if (!parse(peer, &a))
        return false;
    return a.v6 ? memcmp(a.bytes, loopback6, sizeof loopback6) == 0 : a.bytes[0] == 127;
}
