/*
 * Measuring for a session: `prony job`, a process of its own that a worker starts in the folder of
 * the model. It gets a Job and answers with MeasureEvents, on one socket; both are packed messages
 * behind their length in four bytes, the least significant first. The last event has a result or an
 * error. Killing it ends its executors too.
 */
#ifndef PRN_WORKER_JOB_H
#define PRN_WORKER_JOB_H

#include "base/error.h"

#include <stdbool.h>

#include <prony.pb-c.h>

#define PRN_JOB_FD 3
#define PRN_JOB_LINK_FD 4 /* where the worker listens for other stages; only for a pipeline */

/* Of a message either way: what the service takes in one, with room for what is around it. */
#define PRN_JOB_MESSAGE_MAX ((size_t)127 << 20)

/* The process itself. */
PRONY_MUST_CHECK int prn_job_main(struct prony_error *err);

/* Both return 0, or PRONY_EIO, PRONY_ELIMIT. Receiving waits at most `timeout_ms` for a message to
 * begin (PRONY_ETIMEDOUT); a socket that was closed is PRONY_ENOENT. To be freed with
 * protobuf_c_message_free_unpacked(m, NULL). */
PRONY_MUST_CHECK int prn_job_send(int fd, const ProtobufCMessage *message, struct prony_error *err);
PRONY_MUST_CHECK int prn_job_receive(int fd, int timeout_ms, const ProtobufCMessageDescriptor *type,
                                     ProtobufCMessage **ret_message, struct prony_error *err);

#endif
