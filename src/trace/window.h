/*
 * The part of a stream that is in memory: from the first byte that is still needed to the last one
 * that was read, followed by PRN_SCAN_PADDING zeros. It grows only for an event that doesn't fit.
 *
 * Another thread may read ahead into a second block while this one is looked at; the two only meet
 * in prn_window_more.
 */
#ifndef PRN_TRACE_WINDOW_H
#define PRN_TRACE_WINDOW_H

#include "trace/source.h"

struct prn_block {
    char *bytes;
    size_t capacity; /* behind the room in front */
};

struct prn_window {
    struct prn_source *source; /* borrowed */
    struct prn_block block, spare;
    size_t limit;
    size_t wanted;  /* bytes to wait for before going on, unless the stream ends */
    char *data;     /* in `block` */
    size_t at, len; /* bytes before `at` are no longer needed */
    uint64_t base;  /* where data[0] is in the stream */
    uint64_t lines; /* newlines before data[0] */
    bool ended;     /* nothing comes behind `len` */
    /* What was read ahead into the spare block. */
    bool is_ahead;
    size_t ahead_len;
    bool ahead_ended;
    int ahead_code; /* why reading ahead stopped */
    struct prony_error ahead_error;
};

PRONY_MUST_CHECK int prn_window_init(struct prn_window *w, struct prn_source *source,
                                     size_t capacity, size_t limit, struct prony_error *err);
void prn_window_release(struct prn_window *w);

/* Goes on with the beginning of another stream; nobody may be reading ahead. */
void prn_window_restart(struct prn_window *w, struct prn_source *source);

/* Makes reading ahead possible. */
PRONY_MUST_CHECK int prn_window_add_spare(struct prn_window *w, struct prony_error *err);

/* Fills the spare block. May run in another thread, but not while prn_window_more does. */
void prn_window_read_ahead(struct prn_window *w);

/* Reads on, moving what is left to the front, so that pointers into the window are void. What is
 * left grows by half of its size at least, so that trying again and again is no more than linear.
 * PRONY_ELIMIT when `limit` bytes are left and weren't enough. */
PRONY_MUST_CHECK int prn_window_more(struct prn_window *w, struct prony_error *err);

/* The line, from 1, of the byte at data[offset]. */
uint64_t prn_window_line(const struct prn_window *w, size_t offset);

#endif
