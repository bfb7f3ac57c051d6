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
    /* Bandwidths of pairs of hosts, a map of hosts to maps of hosts to bw_Mbps, as PipeEdge has
     * them; what isn't there has no link. Every host becomes a type of its own then. NULL: none. */
    const char *neighbours_file;
    /* "1,12,13,48": first and last layer of each stage; NULL: they are free. */
    const char *partition;
    int64_t link_bits; /* that an element takes on a link; 0: as many as it has */
};

typedef void prn_pipeline_warn(const char *format, ...) PRN_PRINTF(1, 2);

/* What the pipeline points to lives in `arena`. A type without a profile for the request is left
 * out, and `warn` is told; so are other oddities that can be lived with. */
PRONY_MUST_CHECK int prn_pipeline_load(const struct prn_pipeline_request *request,
                                       prn_pipeline_warn *warn, struct prn_arena *arena,
                                       struct prn_pipeline *ret_pipeline, struct prony_error *err);

#endif
