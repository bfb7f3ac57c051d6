/* Starting a backend in a process of its own: what every launch does before its first timed run. */
#ifndef PRN_MEASURE_LAUNCH_H
#define PRN_MEASURE_LAUNCH_H

#include "measure/measure.h"

struct prn_launch_config {
    const struct prn_measure_request *request;
    const struct prn_spec *backend;
    size_t point;               /* of the profile: which inputs it is fed */
    int64_t memory_bytes;       /* limit */
    const char *profile_folder; /* NULL: the runtime's profiler stays off */
    int64_t file_bytes;         /* limit on a file that it writes; 0: as on memory */
};

/* What one executor, or a group of them, may take of the memory that is available now; 0 when that
 * isn't known. */
int64_t prn_launch_memory(void);
/* Of this process, from now on: no launch gets more. */
void prn_launch_limit_memory(int64_t bytes);

/* Starts the process and opens the runtime in it. */
PRONY_MUST_CHECK int prn_launch_open(const struct prn_launch_config *config,
                                     struct prn_executor **ret_executor, struct prony_error *err);

/* Loads the model, binds the inputs and runs it for the first time. What is known even when it
 * fails halfway is in `launch`. */
PRONY_MUST_CHECK int prn_launch_load(const struct prn_launch_config *config,
                                     struct prn_executor *executor, struct prn_launch *launch,
                                     struct prony_error *err);

#endif
