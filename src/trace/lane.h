/*
 * A second thread that parses events further on in the window, while the reader parses those
 * before. Where an event begins can only be guessed there (a string may hold anything), so what the
 * lane found counts only if the reader arrives at exactly that place between two events. A lane
 * reports no faults: it stops in front of whatever it can't parse, and the reader goes on from
 * there.
 *
 *     prn_lane_start(lane, guess, end);
 *     … the reader parses up to `guess` …
 *     prn_lane_finish(lane, &batch);
 */
#ifndef PRN_TRACE_LANE_H
#define PRN_TRACE_LANE_H

#include "trace/event.h"

struct prn_lane;

struct prn_lane_batch {
    struct prn_trace_event *events; /* good until the next start */
    size_t n;
    const char *stop; /* behind the last event */
};

PRONY_MUST_CHECK int prn_lane_new(size_t symbols_max, bool want_shapes, struct prn_lane **ret_lane,
                                  struct prony_error *err);
void prn_lane_free(struct prn_lane *l); /* waits for it; NULL does nothing */

/* The text must stay where it is until finish. The lane must be idle. */
void prn_lane_start(struct prn_lane *l, const char *begin, const char *end);

/* Where the lane began; NULL: it is idle. */
const char *prn_lane_begin(const struct prn_lane *l);

/* Waits until the lane is done; it is idle then. */
void prn_lane_finish(struct prn_lane *l, struct prn_lane_batch *ret_batch);

/* Replaces the texts of one of the lane's events by those of the reader's own parser. */
PRONY_MUST_CHECK int prn_lane_adopt(struct prn_lane *l, struct prn_event_parser *parser,
                                    struct prn_trace_event *event);

#endif
