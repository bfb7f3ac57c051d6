/*
 * A host while a session has it: the session's folder, its backends, their models. The worker's
 * main thread uses it; executors end with that thread.
 *
 * Two kinds of worker: one elsewhere fetches files, loads and runs. One that the service started on
 * its own machine finds the files where the service put them, and hands executors over.
 */
#ifndef PRN_WORKER_HOST_H
#define PRN_WORKER_HOST_H

#include "rpc/client.h"
#include "instance/instance.h"

#include <prony.pb-c.h>

struct prn_worker_host;

struct prn_worker_host_config {
    const char *hardware;
    struct prn_channel *channel;
    int handoff_fd; /* to the service that started this worker; -1: none did */
    int link_fd;    /* where other stages of a pipeline connect to; -1: nowhere */
    const volatile int *cancelled;
};

/* A session begins. Checks all that the message says. */
PRONY_MUST_CHECK int prn_worker_host_begin(const struct prn_worker_host_config *config,
                                           const Prony__Begin *begin,
                                           struct prn_worker_host **ret_host,
                                           struct prony_error *err);
/* The session ends: executors are killed, files removed. NULL does nothing. */
void prn_worker_host_end(struct prn_worker_host *host);
bool prn_worker_host_is(const struct prn_worker_host *host, const ProtobufCBinaryData *session);

/* Starts an executor and hands it over. */
PRONY_MUST_CHECK int prn_worker_host_spawn(struct prn_worker_host *host, size_t backend,
                                           uint64_t *ret_handle, struct prony_error *err);

PRONY_MUST_CHECK int prn_worker_host_load(struct prn_worker_host *host, const Prony__Load *load,
                                          struct prn_instance_loaded *ret_loaded,
                                          struct prony_error *err);
PRONY_MUST_CHECK int prn_worker_host_run(struct prn_worker_host *host, size_t backend,
                                         const struct prn_instance_run *run,
                                         struct prn_instance_result **ret_result,
                                         struct prony_error *err);

/* `tell` is called with each event as it comes; it belongs to the caller of tell again afterwards.
 * An error of the measurement is an event; the call fails when there is none to tell, or when it
 * was cancelled. */
typedef int prn_worker_tell(void *context, Prony__MeasureEvent *event, struct prony_error *err);
PRONY_MUST_CHECK int prn_worker_host_measure(struct prn_worker_host *host,
                                             const Prony__MeasureModel *measure,
                                             prn_worker_tell *tell, void *context,
                                             struct prony_error *err);

#endif
