/*
 * The part of a stream that is in memory: from the first byte that is still needed to the last one
 * that was read, followed by PRN_SCAN_PADDING zeros. It grows only for an event that doesn't fit.
 */
#ifndef PRN_TRACE_WINDOW_H
#define PRN_TRACE_WINDOW_H

#include "trace/source.h"

struct prn_window {
    struct prn_source *source; /* borrowed */
    char *data;
    size_t capacity;
    size_t limit;
    size_t wanted;  /* bytes to wait for before going on, unless the stream ends */
    size_t at, len; /* bytes before `at` are no longer needed */
    uint64_t base;  /* where data[0] is in the stream */
    uint64_t lines; /* newlines before data[0] */
    bool ended;     /* nothing comes behind `len` */
};

PRONY_MUST_CHECK int prn_window_init(struct prn_window *w, struct prn_source *source,
                                     size_t capacity, size_t limit, struct prony_error *err);
void prn_window_release(struct prn_window *w);

/* Reads on, moving what is left to the front, so that pointers into the window are void. What is
 * left grows by half of its size at least, so that trying again and again is no more than linear.
 * PRONY_ELIMIT when there is no more room. */
PRONY_MUST_CHECK int prn_window_more(struct prn_window *w, struct prony_error *err);

/* The line, from 1, of the byte at data[offset]. */
uint64_t prn_window_line(const struct prn_window *w, size_t offset);

#endif
