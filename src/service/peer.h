/* Whose connection it is, where no token tells: the user at the other end of a loopback or Unix
 * socket. */
#ifndef PRN_SERVICE_PEER_H
#define PRN_SERVICE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* `peer` is as gRPC says it: "ipv4:127.0.0.1:40112", "ipv6:%5B::1%5D:40112"; `ports` are those it
 * may be connected to, since a port of the peer's may be shared by connections to different ones;
 * none: any. False: not known, no connection of this machine, or those of several users. */
bool prn_peer_user(const char *peer, const int *ports, size_t n_ports, uid_t *ret_user);

/* Whether it is a connection within this machine. A Unix socket is one, and its folder says who may
 * use it. */
bool prn_peer_is_local(const char *peer);

#endif
