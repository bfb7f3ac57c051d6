/* Parses one event of a trace, and knows the texts that were seen before. */
#ifndef PRN_TRACE_EVENT_H
#define PRN_TRACE_EVENT_H

#include "base/buffer.h"
#include "trace/frame.h"
#include "trace/pattern.h"
#include "trace/reader.h"
#include "trace/scan.h"

/* What there can be too many of. */
#define PRN_EVENT_OPS "operators"
#define PRN_EVENT_PROVIDERS "providers"
#define PRN_EVENT_SHAPES "input shapes"
#define PRN_EVENT_DIMENSIONS "kernel dimensions"

#define PRN_EVENT_KEY_SLOTS 2048

struct prn_event_parser {
    struct prn_arena arena; /* of all texts */
    struct prn_symbols name_texts;
    struct prn_trace_name **names; /* by the id of their text */
    struct prn_symbols ops, providers, shapes, dimensions;
    struct prn_map shapes_by_raw; /* raw text → index */
    struct prn_trace_shapes **raw_shapes;
    size_t n_raw_shapes;
    struct prn_trace_name *anchor;   /* of the last event that isn't a kernel's; NULL: unknown */
    size_t since;                    /* kernels that came after it */
    struct prn_trace_name transient; /* a name that no longer fits into the table */
    struct prn_frames frames;
    struct prn_patterns patterns; /* of nested values that aren't read */
    struct prn_buffer transient_text;
    struct prn_buffer scratch;
    unsigned char key_slots[PRN_EVENT_KEY_SLOTS]; /* guesses: keys of `args` by a hash */
    size_t symbols_max;
    bool want_shapes, want_dimensions;
    int error;        /* a failure that isn't the event's fault */
    const char *over; /* PRONY_ELIMIT: of what there are too many */
    bool odd;         /* the event has a shape of two types, which says nothing */
};

void prn_event_parser_init(struct prn_event_parser *p,
                           const struct prn_trace_reader_options *options, size_t symbols_max);
void prn_event_parser_release(struct prn_event_parser *p);

/* `s->at` is the event's '{'. As the functions of scan.h; also false when `p->error` is set. */
bool prn_event_parse(struct prn_event_parser *p, struct prn_scan *s,
                     struct prn_trace_event *ret_event);

/* The name of an event; 0 or a negative code. */
PRONY_MUST_CHECK int prn_event_name(struct prn_event_parser *p, const char *text, size_t len,
                                    struct prn_trace_name **ret_name);

#endif
