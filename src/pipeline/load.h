/* From the files to a pipeline. */
#ifndef PRN_PIPELINE_LOAD_H
#define PRN_PIPELINE_LOAD_H

#include "pipeline/pipeline.h"

#include <stdbool.h>

struct prn_pipeline_request {
    const char *models_file, *types_file, *devices_file;
    const char *model_name, *dtype;
    int64_t batch_size, buffers_in, buffers_out;
    /* Which hosts may be used, each "PATTERN" of host names or "TYPE=N" for at most N of a type,
     * several with commas between; none: all. */
    const char *const *hosts;
    size_t n_hosts;
    bool priced; /* types without a price are left out */
};

typedef void prn_pipeline_warn(const char *format, ...) PRN_PRINTF(1, 2);

/* What the pipeline points to lives in `arena`. A type without a profile for the request is left
 * out, and `warn` is told; so are other oddities that can be lived with. */
PRONY_MUST_CHECK int prn_pipeline_load(const struct prn_pipeline_request *request,
                                       prn_pipeline_warn *warn, struct prn_arena *arena,
                                       struct prn_pipeline *ret_pipeline, struct prony_error *err);

#endif
