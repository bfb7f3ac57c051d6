/*
 * OpenVINO's counters as a trace in ONNX Runtime's format, the one that prony reads.
 *
 * A counter is the average of a node's time over all inferences since it was compiled, in whole µs.
 * Two readings give the mean of the runs between them: (n·a - m·b) / (n - m). The trace has one
 * run, which stands for all of these. Counters have no place in time, so nodes are written one
 * behind another; what the run takes beyond them has no event and comes out as unexplained.
 */
#ifndef PRN_RUNTIME_OPENVINO_PROFILER_H
#define PRN_RUNTIME_OPENVINO_PROFILER_H

#include "runtime/openvino/api.h"

struct ov_profiler;

/* Makes a file in `folder`. */
PRONY_MUST_CHECK int ov_profiler_new(const char *folder, struct ov_profiler **ret_profiler,
                                     struct prony_error *err);
void ov_profiler_free(struct ov_profiler *p); /* NULL does nothing */

/* Around each run. */
void ov_profiler_before_run(struct ov_profiler *p);
void ov_profiler_after_run(struct ov_profiler *p);

/* The runs that count begin here. */
PRONY_MUST_CHECK int ov_profiler_begin(struct ov_profiler *p, const struct ov_api *api,
                                       const ov_infer_request_t *request, struct prony_error *err);

/* Writes the trace. */
PRONY_MUST_CHECK int ov_profiler_end(struct ov_profiler *p, const struct ov_api *api,
                                     const ov_infer_request_t *request, struct prony_error *err);

#endif
