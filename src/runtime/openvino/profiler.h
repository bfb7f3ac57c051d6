/*
 * OpenVINO's counters as a trace in ONNX Runtime's format, the one that prony reads. Counters are
 * times of nodes without a place in time, so nodes are written one behind another from the run's
 * beginning; what a run takes beyond them has no event and comes out as unexplained.
 */
#ifndef PRN_RUNTIME_OPENVINO_PROFILER_H
#define PRN_RUNTIME_OPENVINO_PROFILER_H

#include "runtime/openvino/api.h"

struct ov_profiler;

/* Makes a file in `folder`. */
PRONY_MUST_CHECK int ov_profiler_new(const char *folder, struct ov_profiler **ret_profiler,
                                     struct prony_error *err);
void ov_profiler_free(struct ov_profiler *p); /* NULL does nothing */

/* Around each run: begin and end take the time; write, outside the clock, asks the request for its
 * counters and writes them. It does nothing when there was no run since. */
void ov_profiler_begin(struct ov_profiler *p);
void ov_profiler_end(struct ov_profiler *p);
PRONY_MUST_CHECK int ov_profiler_write(struct ov_profiler *p, const struct ov_api *api,
                                       const ov_infer_request_t *request, struct prony_error *err);

/* Closes the trace. */
PRONY_MUST_CHECK int ov_profiler_finish(struct ov_profiler *p, struct prony_error *err);

#endif
