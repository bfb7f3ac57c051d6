/*
 * An executor that one process started and another one drives: a worker starts them, a service on
 * the same machine talks to them without a relay.
 *
 *     worker                                       service
 *     prn_executor_export(x, &handle, err);
 *     prn_executor_handle_send(&handle, fd, err);  prn_executor_handle_receive(fd, &handle, err);
 *     prn_executor_handle_release(&handle);        prn_executor_adopt(&handle, ..., &y, err);
 *                                                  prn_executor_handle_release(&handle);
 *                                                  prn_executor_load(y, ...); ...
 *     prn_executor_free(x);                        prn_executor_free(y);
 *
 * Either side's free ends the process. It also ends with the thread that started it, whose process
 * keeps the duty to reap it: it frees its own, sooner or later.
 */
#ifndef PRN_EXEC_HANDLE_H
#define PRN_EXEC_HANDLE_H

#include "exec/executor.h"

enum prn_executor_handle_fd {
    PRN_EXECUTOR_HANDLE_SOCKET,
    PRN_EXECUTOR_HANDLE_SAMPLES,
    PRN_EXECUTOR_HANDLE_OUTPUTS,
    PRN_EXECUTOR_HANDLE_STDERR,
    PRN_EXECUTOR_HANDLE_STATUS, /* struct prn_guard_status: how the executor ended */
    PRN_EXECUTOR_HANDLE_PIDFD,
    PRN_EXECUTOR_HANDLE_INPUTS, /* last: -1 where it has none */
    PRN_EXECUTOR_HANDLE_FDS,
};

struct prn_executor_handle {
    int fds[PRN_EXECUTOR_HANDLE_FDS];
    int64_t memory_bytes, file_bytes, cpu_s;
    bool parked;
    char version[128];
    char library[4096];
    char sandbox[PRN_EXECUTOR_SANDBOX_SIZE];
};

/* Of an executor that is open. From then on the exporter can only park, unpark and free it, and
 * read its memory and time. Fails with PRONY_EUNSUPPORTED where the kernel has no pidfds. */
PRONY_MUST_CHECK int prn_executor_export(struct prn_executor *x,
                                         struct prn_executor_handle *ret_handle,
                                         struct prony_error *err);

/* Closes the descriptors. */
void prn_executor_handle_release(struct prn_executor_handle *handle);

/* Over a Unix socket of type SOCK_SEQPACKET, one packet. Receiving waits for it, and checks all
 * that it says; PRONY_ENOENT at the end of the stream. */
PRONY_MUST_CHECK int prn_executor_handle_send(const struct prn_executor_handle *handle,
                                              int unix_socket_fd, struct prony_error *err);
PRONY_MUST_CHECK int prn_executor_handle_receive(int unix_socket_fd,
                                                 struct prn_executor_handle *ret_handle,
                                                 struct prony_error *err);

/* The handle stays the caller's. `timeout_s` and `cancelled` as in struct prn_executor_config. */
PRONY_MUST_CHECK int prn_executor_adopt(const struct prn_executor_handle *handle, double timeout_s,
                                        const volatile int *cancelled,
                                        struct prn_executor **ret_executor,
                                        struct prony_error *err);

#endif
