/*
 * Runs a program of Slurm: an array of arguments, no shell, no more environment than Slurm and the
 * job need, an end to how long it may take and to how much it may say. Blocks, so it is for a
 * thread that nobody waits for. SIGPIPE must be ignored.
 */
#ifndef PRN_SERVICE_SLURM_RUN_H
#define PRN_SERVICE_SLURM_RUN_H

#include "base/buffer.h"

#define PRN_SLURM_OUTPUT_MAX ((size_t)8 << 20)

struct prn_slurm_call {
    const char *const *argv; /* ends in NULL; the program is searched in PATH */
    const char *input;       /* for its standard input; NULL: none */
    double timeout_s;
    const char *const *environment; /* "NAME=value", beside what every call has */
    size_t n_environment;
    const volatile int *hurry; /* becomes non-zero when little patience is left; NULL: never */
};

/* What it printed is appended to `out`, whose limit holds. PRONY_ENOENT: there is no such program;
 * PRONY_ETIMEDOUT; PRONY_ELIMIT: it said too much; PRONY_ERUNTIME: it failed, and why. */
PRONY_MUST_CHECK int prn_slurm_run(const struct prn_slurm_call *call, struct prn_buffer *out,
                                   struct prony_error *err);

#endif
