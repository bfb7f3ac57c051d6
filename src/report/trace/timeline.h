/*
 * The events of one run of a trace, for a picture that can be zoomed into. A trace is read once for
 * its report; the run to show, the one in the middle, is known only then, so it is read again for
 * the timeline. Where nodes tell of memory, the run of the peak is read besides: memory patterns
 * hide what a node takes in all others.
 */
#ifndef PRN_REPORT_TRACE_TIMELINE_H
#define PRN_REPORT_TRACE_TIMELINE_H

#include "base/buffer.h"
#include "trace/trace.h"

/* Events that are drawn one by one; shorter ones are counted. */
#define PRN_TIMELINE_SPANS_MAX 20000
#define PRN_TIMELINE_PIXELS 4096
/* Nodes whose memory is drawn. */
#define PRN_TIMELINE_NODES_MAX 5000
/* Events that are looked at. */
#define PRN_TIMELINE_EVENTS_MAX 4000000

struct prn_timeline;

/* `files` can be read for the second time, and are, with the same options but one run. */
PRONY_MUST_CHECK int prn_timeline_read(struct prn_trace_files *files, const struct prn_trace *trace,
                                       const struct prn_trace_options *options,
                                       struct prn_timeline **ret_timeline, struct prony_error *err);
void prn_timeline_free(struct prn_timeline *t);

/* As a JSON object, thinned. */
PRONY_MUST_CHECK int prn_timeline_write(struct prn_timeline *t, struct prn_buffer *out,
                                        struct prony_error *err);

#endif
