/* How large the pipeline's files, and what makes them, may get. */
#ifndef PRN_PIPELINE_LIMITS_H
#define PRN_PIPELINE_LIMITS_H

#include "model/cut/cut.h"

#define PRN_PIPELINE_LAYERS_MAX PRN_CUT_LAYERS_MAX
#define PRN_PIPELINE_BATCH_MAX 1000000

#endif
