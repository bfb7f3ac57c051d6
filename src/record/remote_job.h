/*
 * A job (measure/job.h) on the hosts of a service: the model and the files that its texts name go
 * up, all hosts measure at once, and what each of them found becomes one profile.
 *
 * When measuring is cancelled or the service is lost, what hosts had sent to be saved is kept, and
 * its results are flagged as interrupted.
 */
#ifndef PRN_RECORD_REMOTE_JOB_H
#define PRN_RECORD_REMOTE_JOB_H

#include "record/remote.h"

struct prn_remote_job {
    struct prn_remote_config config; /* whose `cancelled` is the job's */
    /* Nobody named backends: those of a preset were taken. May be NULL. */
    void (*chosen)(void *context, const char *preset, size_t n);
    struct prony_error lost; /* why not all was measured; code 0: it was, or was cancelled */
};

PRONY_MUST_CHECK int prn_remote_job_run(struct prn_remote_job *remote, const struct prn_job *job,
                                        struct prn_profile **ret_profile, struct prony_error *err);

#endif
