/*
 * What stands before an event's name: `{"cat" : "Node","pid" :7,"tid" :7,"dur" :12,"ts" :345,"ph" :
 * "X","name" :`. But for the two times it is the same again and again, so it is remembered and
 * compared.
 */
#ifndef PRN_TRACE_FRAME_H
#define PRN_TRACE_FRAME_H

#include "trace/reader.h"
#include "trace/scan.h"

#define PRN_FRAME_PIECE 128
#define PRN_FRAMES 4

/* The members of an event up to its name, in the order in which ONNX Runtime writes them. */
struct prn_frame_members {
    const char *begin;    /* '{' */
    const char *duration; /* where its value stands */
    const char *duration_end;
    const char *start;
    const char *start_end;
    const char *name; /* where its value stands */
    enum prn_trace_category category;
    int64_t thread;
};

struct prn_frame {
    struct {
        char text[PRN_FRAME_PIECE];
        size_t len;
    } pieces[3]; /* up to the duration, from there to the start, from there to the name */
    enum prn_trace_category category;
    int64_t thread;
};

struct prn_frames {
    struct prn_frame items[PRN_FRAMES];
    size_t n;
    size_t next; /* to be replaced */
};

struct prn_frame_match {
    enum prn_trace_category category;
    int64_t thread, start_ns, duration_ns;
};

/* Moves `s->at` from '{' to the name's value if a frame fits, else leaves it where it is. */
bool prn_frames_match(const struct prn_frames *f, struct prn_scan *s,
                      struct prn_frame_match *ret_match);

void prn_frames_learn(struct prn_frames *f, const struct prn_frame_members *members);

#endif
