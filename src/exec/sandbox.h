/*
 * Confines an executor after its runtime's library is loaded and before it sees a model: no new
 * privileges, Landlock (read access to the model and what runtimes look up about the machine; no
 * writing but into the one folder that a profiler is given, no network, no signals to others),
 * resource limits, a seccomp allow-list. What the kernel doesn't offer is left out and said.
 */
#ifndef PRN_EXEC_SANDBOX_H
#define PRN_EXEC_SANDBOX_H

#include "base/error.h"

#include <stdbool.h>

struct prn_sandbox {
    const char *model_path;      /* NULL: none */
    const char *model_folder;    /* NULL: nothing beside the model's file is needed */
    const char *cache_folder;    /* what was compiled before, for reading; NULL: none */
    const char *library_folder;  /* may hold parts that are loaded later */
    const char *writable_folder; /* where files may be made and written; NULL: nowhere */
    /* Of a runtime that compiles, NULL otherwise: it may do as it likes in there, and start the
     * programs that are installed on the machine. */
    const char *scratch_folder;
    const char *const *readable; /* further folders of the runtime, ending in NULL; NULL: none */
    int64_t memory_bytes;        /* limit on private memory; 0: none */
    int64_t file_bytes;          /* limit on any file, shared memory included; 0: none */
    int64_t cpu_s;               /* limit on the time that all threads compute, in all; 0: none */
    const char *namespaces;      /* which ones it is in already (guard.h), for the text; or NULL */
    bool gpu; /* drivers need devices and calls that nobody can list: limits only */
};

/* Enters the sandbox for good. `ret_text` says what is enforced, e.g. "no_new_privs,
 * user/mount/pid/net/ipc/uts namespaces, landlock 7, rlimits, seccomp". Fails only when a part that
 * the kernel has can't be put in force. */
PRONY_MUST_CHECK int prn_sandbox_enter(const struct prn_sandbox *sandbox, char *ret_text,
                                       size_t size, struct prony_error *err);

enum {
    PRN_SANDBOX_PROTECTIONS = 12,
};

/* Whether this kernel grants one of the protections to this user. */
struct prn_sandbox_protection {
    const char *name;    /* "landlock", "net namespace" */
    const char *against; /* what it keeps a model from */
    bool granted;
    char text[64]; /* of which kind, or why not; may be "" */
};

/* Tries each of them in a process of its own. */
void prn_sandbox_probe(struct prn_sandbox_protection ret_protections[PRN_SANDBOX_PROTECTIONS]);

#endif
