/*
 * A second thread that parses events further on in the window, while the reader parses those
 * before. Where an event begins can only be guessed there (a string may hold anything), so what the
 * lane found counts only if the reader arrives at exactly that place between two events. A lane
 * reports no faults: it stops in front of whatever it can't parse, and the reader goes on from
 * there.
 *
 *     prn_lane_start(lane, guess, &window);
 *     … the reader parses up to `guess` …
 *     prn_lane_finish(lane, &batch, &waited);
 *     … hands these events out …
 *     prn_lane_wait(lane);
 */
#ifndef PRN_TRACE_LANE_H
#define PRN_TRACE_LANE_H

#include "trace/event.h"
#include "trace/window.h"

struct prn_lane;

struct prn_lane_batch {
    struct prn_trace_event *events; /* good until the next start */
    size_t n;
    const char *stop; /* behind the last event */
};

PRONY_MUST_CHECK int prn_lane_new(const struct prn_trace_reader_options *options,
                                  struct prn_lane **ret_lane, struct prony_error *err);
void prn_lane_free(struct prn_lane *l); /* waits for it; NULL does nothing */

/* Parses what is in `window` from `begin` on, then reads ahead. The lane must be idle, and the
 * window stay as it is until it is idle again. */
void prn_lane_start(struct prn_lane *l, const char *begin, struct prn_window *window);

/* Where the lane began, until what it parsed was taken; NULL: there is nothing to take. */
const char *prn_lane_begin(const struct prn_lane *l);

/* Waits for the events; the lane may go on reading ahead. `*ret_waited`: it wasn't done yet. */
void prn_lane_finish(struct prn_lane *l, struct prn_lane_batch *ret_batch, bool *ret_waited);

/* Waits until the lane is idle, and forgets what wasn't taken. */
void prn_lane_wait(struct prn_lane *l);

/* Replaces the texts of one of the lane's events by those of the reader's own parser. */
PRONY_MUST_CHECK int prn_lane_adopt(struct prn_lane *l, struct prn_event_parser *parser,
                                    struct prn_trace_event *event);

#endif
