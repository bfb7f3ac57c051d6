/*
 * Links between the stages of a pipeline, from worker to worker. Each is a TCP connection with TLS
 * 1.3, whose two ends know each other by a secret that the service made for this run and told its
 * stages alone: there are no certificates, and whoever doesn't have the secret gets no further than
 * the handshake.
 *
 * A worker listens as long as it is there, but only a stage (`prony job`) that runs on it takes
 * connections.
 *
 *     prn_link_listen("10.0.0.5:0", &fd, peer, err);                   the worker
 *     prn_link_accept(&in, fd, &secret, timeout_s, err);               the stage
 *     prn_link_connect(&out, peer_of_the_next, &secret, timeout_s, err);
 */
#ifndef PRN_WORKER_LINK_H
#define PRN_WORKER_LINK_H

#include "base/error.h"

#include <protobuf-c/protobuf-c.h>
#include <pthread.h>
#include <stdbool.h>

#define PRN_LINK_PEER_MAX 300

struct prn_link {
    pthread_mutex_t lock;
    int fd;       /* -1: not open */
    bool stopped; /* guarded by the lock, as is changing `fd` */
    void *tls;
    const ProtobufCBinaryData *secret;
};

/* "address", "address:port", "[::1]:port"; what others are to be told is in `peer`. */
PRONY_MUST_CHECK int prn_link_listen(const char *address, int *ret_fd, char peer[PRN_LINK_PEER_MAX],
                                     struct prony_error *err);
/* The address of this machine from which such a service is reached. */
PRONY_MUST_CHECK int prn_link_address_towards(const char *server, char address[PRN_LINK_PEER_MAX],
                                              struct prony_error *err);

void prn_link_init(struct prn_link *link);
void prn_link_release(struct prn_link *link);

PRONY_MUST_CHECK int prn_link_connect(struct prn_link *link, const char *peer,
                                      const ProtobufCBinaryData *secret, double timeout_s,
                                      struct prony_error *err);
/* Connections without the secret are dropped. */
PRONY_MUST_CHECK int prn_link_accept(struct prn_link *link, int listen_fd,
                                     const ProtobufCBinaryData *secret, double timeout_s,
                                     struct prony_error *err);

/* All of it, or PRONY_ECANCELED: the other side is gone. */
PRONY_MUST_CHECK int prn_link_write(struct prn_link *link, const void *data, size_t bytes,
                                    struct prony_error *err);
PRONY_MUST_CHECK int prn_link_read(struct prn_link *link, void *data, size_t bytes,
                                   struct prony_error *err);

/* From any thread: ends what is under way, and all that comes later. */
void prn_link_stop(struct prn_link *link);

#endif
