#include "service/config/address.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define HOST_MAX 253

static const char *parse_socket_file(const char *path, struct prn_address *ret_address)
{
    if (path[0] != '/')
        return "the path of a socket begins with '/'";
    if (strlen(path) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        return "the path of a socket is too long";
    *ret_address = (struct prn_address){.socket_file = true, .local = true};
    return NULL;
}

static bool is_port(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= 5 && strspn(text, "0123456789") == len && atoi(text) <= 65535;
}

static const char *parse_ipv6(const char *host, bool *ret_local)
{
    struct in6_addr address;
    if (inet_pton(AF_INET6, host, &address) != 1)
        return "the text in brackets is not an IPv6 address";
    *ret_local = IN6_IS_ADDR_LOOPBACK(&address) ||
                 (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
    return NULL;
}

static const char *parse_ipv4_or_name(const char *host, bool *ret_local)
{
    struct in_addr address;
    if (strchr(host, ':'))
        return "an IPv6 address is written in brackets: [::1]:50051";
    if (strspn(host, "0123456789.") == strlen(host)) {
        if (inet_pton(AF_INET, host, &address) != 1)
            return "not an IPv4 address";
        *ret_local = ntohl(address.s_addr) >> 24 == 127;
        return NULL;
    }
    for (const char *p = host; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", *p))
            return "a host's name has letters, digits, '.' and '-'";
    *ret_local = strcmp(host, "localhost") == 0;
    return NULL;
}

const char *prn_address_parse(const char *text, struct prn_address *ret_address)
{
    if (strncmp(text, "unix:", 5) == 0)
        return parse_socket_file(text + 5, ret_address);
    const char *colon = strrchr(text, ':');
    if (!colon || strchr(colon, ']'))
        return "no port; it is written HOST:PORT, with port 0 for any that is free";
    if (!is_port(colon + 1))
        return "the port is not a number from 0 to 65535";
    size_t len = (size_t)(colon - text);
    bool brackets = len > 1 && text[0] == '[' && colon[-1] == ']';
    const char *begin = brackets ? text + 1 : text;
    len -= brackets ? 2 : 0;
    char host[HOST_MAX + 1];
    if (len == 0)
        return "no host; 127.0.0.1 is this machine alone";
    if (len > HOST_MAX)
        return "the host's name is too long";
    memcpy(host, begin, len);
    host[len] = '\0';
    struct prn_address address = {0};
    const char *fault =
        brackets ? parse_ipv6(host, &address.local) : parse_ipv4_or_name(host, &address.local);
    if (!fault)
        *ret_address = address;
    return fault;
}
