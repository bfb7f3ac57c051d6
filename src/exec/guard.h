/*
 * The processes above an executor, and the namespaces that it lives in:
 *
 *     guard       the one that prony started: makes the namespaces, and is what prony waits for
 *       init      first in the pid namespace, where abort() would look like another signal
 *         executor
 *
 * Each ends with the one above it. The init records how the executor ended in a page of shared
 * memory that the executor itself doesn't have, so that whoever holds the page knows, parent or
 * not.
 *
 * Inside, the executor is alone: no other process, no network, no queues or names of the machine,
 * and every file system read-only, without devices. Namespaces that the kernel doesn't grant are
 * left out and said.
 */
#ifndef PRN_EXEC_GUARD_H
#define PRN_EXEC_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prn_guard_status {
    _Atomic int32_t ended; /* 1: wait_status says how */
    int32_t wait_status;
};

struct prn_guard {
    bool namespaces;             /* false: the executor must see the machine's devices */
    const char *writable_folder; /* where files may be made and written; NULL: nowhere */
    /* Gets the path, of up to PATH_MAX, of an empty folder that only the executor has and that goes
     * with it, or "" when there is none; NULL: it needs none. It lies over a folder that isn't
     * `needed`, some of which may be NULL. */
    char *scratch;
    const char *const *needed;
    size_t n_needed;
    struct prn_guard_status *status; /* shared */
};

/* Returns in the executor, a new process that has given up its capabilities; the caller stays above
 * it and ends with it. Without a second process, which `ret_text` then says, the caller itself is
 * the executor. `ret_text` is e.g. "user/mount/pid/net/ipc/uts namespaces". */
void prn_guard_enter(const struct prn_guard *guard, char *ret_text, size_t size);

/* Makes a process in these namespaces (CLONE_NEW…) and confines it as the executor would be. 0, or
 * the error. */
int prn_guard_try(unsigned namespaces);
/* The same with a scratch folder of its own. */
int prn_guard_try_scratch(void);

#endif
