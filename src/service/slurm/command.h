/*
 * What the service asks of Slurm, each a run of one program with fixed arguments. All of them block
 * (slurm_run.h).
 */
#ifndef PRN_SERVICE_SLURM_COMMAND_H
#define PRN_SERVICE_SLURM_COMMAND_H

#include "service/config/config.h"
#include "service/slurm/text.h"

/* Whose jobs they are: "prony-HARDWARE-ID", where the id is the service's, as long as its state
 * folder lives. What can't stand in a name is a '_' there. */
#define PRN_SLURM_ID_DIGITS 8

void prn_slurm_job_name(const char *hardware, const char *id, char ret_name[PRN_SLURM_NAME_SIZE]);

struct prn_slurm_job_order {
    const struct prn_config_pool *pool;
    const char *id;     /* the service's */
    const char *server; /* where its worker finds it */
    const char *key;    /* with which it joins */
    const volatile int *hurry;
};

/* Submits a job. It is one node, for itself alone, on which a worker runs. */
PRONY_MUST_CHECK int prn_slurm_submit(const struct prn_slurm_job_order *order, uint64_t *ret_job,
                                      struct prony_error *err);
/* Whether Slurm would take it; it isn't submitted. */
PRONY_MUST_CHECK int prn_slurm_try(const struct prn_slurm_job_order *order,
                                   struct prony_error *err);
/* Those that have ended already don't matter. */
PRONY_MUST_CHECK int prn_slurm_cancel(const uint64_t *jobs, size_t n, const volatile int *hurry,
                                      struct prony_error *err);
/* Jobs of this user, as squeue lists them: those of these names (a list with commas), also if they
 * have ended, or with NULL all that haven't. */
PRONY_MUST_CHECK int prn_slurm_list(const char *names, const volatile int *hurry,
                                    struct prn_buffer *out, struct prony_error *err);
/* Whether a job is there and hasn't ended. An error: the controller doesn't say. */
PRONY_MUST_CHECK int prn_slurm_has(uint64_t job, const volatile int *hurry, bool *ret_there,
                                   struct prony_error *err);
/* How a job ended: from the controller as long as it remembers, then from the accounting if there
 * is one, which hears of it some seconds later. PRONY_ENOENT: nobody knows. */
PRONY_MUST_CHECK int prn_slurm_outcome(uint64_t job, const volatile int *hurry,
                                       struct prn_slurm_outcome *ret_outcome,
                                       struct prony_error *err);

/* slurm_check.c: whether the cluster has what the pools of type slurm ask for, and takes such jobs.
 * Errors name `file`, and the line. */
PRONY_MUST_CHECK int prn_slurm_check(const struct prn_config *config, const char *file,
                                     struct prony_error *err);

#endif
