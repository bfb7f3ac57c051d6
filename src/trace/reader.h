/*
 * Events of an ONNX Runtime trace, one after the other, from a stream of any length.
 *
 * Invariants
 * - Memory: a window that holds the event being read (at most PRN_TRACE_EVENT_MAX), and tables of
 *   distinct texts with limits. Nothing grows with the length of the trace.
 * - Texts of an event are symbols: equal texts are the same pointer until the reader is freed,
 *   except for names past the limit of the table (`transient`), which live until the next event.
 * - An event whose texts aren't escaped, as older releases write it, is repaired and counted.
 * - A fault says the byte, the line, and how much was read. With `recover`, reading goes on at the
 *   next event that makes sense, and what was lost is counted.
 *
 *     struct prn_trace_event event;
 *     int code;
 *     while ((code = prn_trace_reader_next(reader, &event, err)) > 0)
 *         …
 */
#ifndef PRN_TRACE_READER_H
#define PRN_TRACE_READER_H

#include "trace/memory.h"
#include "trace/source.h"
#include "trace/symbols.h"

#define PRN_TRACE_EVENT_MAX ((size_t)16 << 20)

/* Bytes of all distinct texts together; 24 MiB for 16,384 symbols. */
#define PRN_TRACE_TEXTS_MAX(symbols_max) \
    ((size_t)1536 * ((symbols_max) < 16384 ? 16384 : (symbols_max)))

enum prn_trace_category {
    PRN_TRACE_NONE, /* without `cat`, `dur`, `args` or a name: not an event to analyse */
    PRN_TRACE_NODE,
    PRN_TRACE_KERNEL,
    PRN_TRACE_API, /* a kernel of WebGPU, called "node&operator&program" */
    PRN_TRACE_SESSION,
    PRN_TRACE_OTHER,
};

/* How the name of a node's own time ends; the node's name and '_' stand before it. */
#define PRN_TRACE_KERNEL_TIME "kernel_time"

/* What a name says about its event. */
enum prn_trace_role {
    PRN_TRACE_ROLE_NONE,
    PRN_TRACE_ROLE_KERNEL_TIME, /* ends in PRN_TRACE_KERNEL_TIME */
    PRN_TRACE_ROLE_MODEL_RUN,
    PRN_TRACE_ROLE_EXECUTE, /* SequentialExecutor::Execute and its like */
};

/* Kernels follow the node that launched them: so many are remembered with its name. */
#define PRN_TRACE_AFTER 8

struct prn_trace_name {
    struct prn_symbol symbol;
    enum prn_trace_role role;
    bool transient;
    bool plain; /* written in JSON as it is: no character needs an escape */
    void *user; /* for whoever reads the events; NULL at first */
    /* What was seen with this name the last time: the next time it is likely the same again, and
     * equal bytes need no second parsing. */
    struct prn_trace_name *after[PRN_TRACE_AFTER]; /* the events that came next */
    const struct prn_symbol *op, *provider, *dimensions;
    const struct prn_trace_shapes *inputs, *outputs;
};

/* A list of shapes as it stands in a trace, and what it says. */
struct prn_trace_shapes {
    struct prn_symbol raw;
    const struct prn_symbol *shape; /* "float(1x3x224x224),int64(2)" */
};

struct prn_trace_event {
    enum prn_trace_category category;
    int64_t start_ns, duration_ns;
    int64_t thread; /* told from others, no more; of a kernel its stream */
    struct prn_trace_name *name;
    const struct prn_symbol *op, *provider; /* NULL: none */
    const struct prn_symbol *shape;         /* of the inputs */
    const struct prn_symbol *dimensions;    /* of a kernel: "b256x1x1,g1x1x1" */
    struct prn_trace_mem memory;            /* of a node, if it is `known` */
    const char *args; /* as they stand, '{' to '}'; valid until the next event */
    size_t args_len;
};

struct prn_trace_reader_options {
    bool recover;
    bool want_shapes;     /* else shapes are checked, but `shape` stays NULL */
    bool want_dimensions; /* else `dimensions` stays NULL */
    size_t symbols_max;   /* of each kind */
    size_t window_bytes;  /* 0: a good one */
    bool two_threads;     /* parse with a second thread where that is faster */
};

/* Of all streams. */
struct prn_trace_reader_counts {
    uint64_t bytes;       /* of the text */
    uint64_t events;      /* read, passed over or not */
    uint64_t passed_over; /* had no `cat`, `dur`, `args` or name */
    uint64_t repaired;    /* had a text that wasn't escaped */
    uint64_t lost;        /* broken events that `recover` skipped */
};

struct prn_trace_reader;

/* `source` is borrowed. */
PRONY_MUST_CHECK int prn_trace_reader_new(struct prn_source *source,
                                          const struct prn_trace_reader_options *options,
                                          struct prn_trace_reader **ret_reader,
                                          struct prony_error *err);
void prn_trace_reader_free(struct prn_trace_reader *r);

/* Goes on with another stream, which is borrowed too. Symbols stay, counts go on. */
void prn_trace_reader_continue(struct prn_trace_reader *r, struct prn_source *source);

/* 1 and the next event, 0 at the end, or a negative code. */
PRONY_MUST_CHECK int prn_trace_reader_next(struct prn_trace_reader *r,
                                           struct prn_trace_event *ret_event,
                                           struct prony_error *err);

const struct prn_trace_reader_counts *prn_trace_reader_counts(const struct prn_trace_reader *r);

/* Whether what is around the events looks like PyTorch's profiler (Kineto). */
bool prn_trace_reader_is_kineto(const struct prn_trace_reader *r);

/* With `recover`: the first fault that was skipped; NULL when there was none. */
const char *prn_trace_reader_first_fault(const struct prn_trace_reader *r);

#endif
