/*
 * The process that offers a host to a service: it attaches, says what it has, and does what it is
 * told, one command at a time. Three threads:
 *
 * - the main one carries commands out and answers them; executors are its own and end with it;
 * - a reader takes commands from the stream, and cancels the one that runs;
 * - a watcher waits for signals, and for the service that started this worker to go away.
 *
 * A connection that is lost ends the session, and another one is tried, later and later. What the
 * service refuses isn't tried again.
 */
#ifndef PRN_WORKER_WORKER_H
#define PRN_WORKER_WORKER_H

#include "record/net.h"

/* Names the descriptor, a SOCK_SEQPACKET socket, over which a worker that a service started gets
 * its key and hands executors back. */
#define PRN_WORKER_HANDOFF_VARIABLE "PRONY_WORKER_HANDOFF"
#define PRN_WORKER_KEY_MAX 256

/* Until a signal, the service or an idle time ends it. */
PRONY_MUST_CHECK int prn_work(const struct prn_worker_options *options, struct prony_error *err);

#endif
