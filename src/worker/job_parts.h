/* What the kinds of measurement of a job share. Used inside src/worker only. */
#ifndef PRN_WORKER_JOB_PARTS_H
#define PRN_WORKER_JOB_PARTS_H

#include "base/buffer.h"
#include "measure/job.h"
#include "worker/job.h"

#include <limits.h>

struct prn_job_told {
    char folder[PATH_MAX + 1]; /* of the model, with a slash behind it */
    int64_t progress_ns;       /* when progress was last told */
};

/* Both end the process when nobody listens any more. */
void prn_job_tell_progress(void *told, const struct prn_progress *progress);
void prn_job_tell_checkpoint(const struct prn_buffer *text);

/* With the defaults of what isn't given. */
PRONY_MUST_CHECK int prn_job_read_settings(const Prony__MeasureRequest *request,
                                           struct prn_arena *arena,
                                           struct prn_settings *ret_settings,
                                           struct prony_error *err);

/* Measures layer by layer, and writes the report as JSON. */
PRONY_MUST_CHECK int prn_job_layers(const Prony__Job *order, struct prn_job_told *told,
                                    double timeout_s, struct prn_buffer *out,
                                    struct prony_error *err);

/* Runs a stage of a pipeline, and writes a StageResult. PRONY_ECANCELED: another one has failed. */
PRONY_MUST_CHECK int prn_job_stage(const Prony__Job *order, double timeout_s,
                                   struct prn_buffer *out, struct prony_error *err);

#endif
