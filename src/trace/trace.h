/*
 * What a trace says: runs, groups of events with their times, where a run's time goes. One pass
 * over the events; memory grows with the number of distinct groups and by 72 bytes per run.
 *
 * A run's events come before its own `model_run`. So events are added up in each group's `pending`,
 * and move to the totals when the run ends, if it is one of those selected. A trace without any
 * `model_run` is one run.
 *
 * Runs may overlap: then the thread tells which one a node belongs to. Each thread has a strand of
 * its own. A run takes what is in the strand of its thread, and in those of threads that have ended
 * no run themselves and did other nodes since it began: they work for it.
 *
 * Some providers write the kernels of all runs after the last one. By their time, if that is the
 * trace's, they belong to the run they began in; else by their order, if it tells.
 *
 * A trace may have several files, each with runs and a clock of its own: runs are numbered on.
 */
#ifndef PRN_TRACE_TRACE_H
#define PRN_TRACE_TRACE_H

#include "base/sketch.h"
#include "trace/files.h"
#include "trace/ledger.h"
#include "trace/reader.h"
#include "trace/select.h"

#define PRN_TRACE_GROUPS_MAX 16384
#define PRN_TRACE_STRANDS_MAX 64         /* threads beyond that share one */
#define PRN_TRACE_ORT_EVENTS_MAX 1000000 /* what ONNX Runtime keeps unless told otherwise */

/* What CPU events can be grouped by. A node has one operator, so NODE shows OP too. */
enum prn_trace_by {
    PRN_TRACE_BY_NODE = PRONY_TRACE_BY_NODE,
    PRN_TRACE_BY_OP = PRONY_TRACE_BY_OP,
    PRN_TRACE_BY_PROVIDER = PRONY_TRACE_BY_PROVIDER,
    PRN_TRACE_BY_SHAPE = PRONY_TRACE_BY_SHAPE,
};

/* The key of a group; what it isn't grouped by is NULL. */
struct prn_trace_key {
    const struct prn_symbol *node; /* a node's event name, or a kernel's */
    const struct prn_symbol *op;
    const struct prn_symbol *provider;
    const struct prn_symbol *shape;
    const struct prn_symbol *dimensions;
};

struct prn_trace_sum {
    uint64_t count;
    int64_t ns;
    struct prn_trace_use memory; /* of one run; not in totals over runs */
};

/* The times of the first selected runs, in their order: what persists from one to the next. */
#define PRN_TRACE_ORDER_MAX 256
struct prn_trace_order {
    float *ns;
    size_t n;
};

struct prn_trace_group {
    struct prn_trace_key key;
    struct prn_trace_sum total;    /* over the selected runs */
    struct prn_trace_sum first;    /* run 0, selected or not */
    struct prn_trace_sum *pending; /* runs being read, by strand */
    size_t n_pending;
    struct prn_sketch per_run;    /* ns per selected run, 0 where it didn't occur */
    struct prn_trace_use memory;  /* of a CPU table */
    struct prn_trace_order order; /* without runs where it didn't occur */
};

/* The groups with anything in `pending`, in one strand. */
struct prn_trace_touched {
    struct prn_trace_group **groups;
    size_t n, capacity;
};

struct prn_trace_table {
    unsigned by; /* of a CPU table */
    struct prn_trace_group **groups;
    size_t n;
    struct prn_trace_sum total; /* of all groups */
    /* inside */
    bool with_statistics;
    struct prn_map by_key;
    struct prn_trace_touched touched[PRN_TRACE_STRANDS_MAX];
};

/* The rows of the ledger. */
#define PRN_LEDGER_ROWS(X)                     \
    X(NODE, node, "Nodes")                     \
    X(OVERHEAD, overhead, "Executor overhead") \
    X(BEFORE, before, "Before the executor")   \
    X(AFTER, after, "After the executor")      \
    X(UNEXPLAINED, unexplained, "Unexplained")

enum prn_ledger_row {
#define PRN_X(name, field, title) PRN_LEDGER_##name,
    PRN_LEDGER_ROWS(PRN_X)
#undef PRN_X
        PRN_LEDGER_TOTAL,
    PRN_LEDGER_ROW_COUNT,
};

struct prn_trace_run {
    int64_t start_ns, duration_ns, node_ns;
    struct prn_trace_run_memory memory;
};

struct prn_trace_options {
    struct prn_run_choice runs;
    unsigned by[2]; /* CPU tables: masks of PRN_TRACE_BY_…; 0: no such table */
    bool kernel_shapes, kernel_dimensions; /* keys of the GPU table beside the name */
    bool mapping;
    const char *const *filters; /* names and wildcards; borrowed until prn_trace_read returns */
    size_t n_filters;
    bool recover;
    bool two_threads;
    size_t groups_max; /* 0: PRN_TRACE_GROUPS_MAX */
    uint64_t runs_max; /* of which `runs` tells; 0: all */
    /* Optional. Called with every event of the runs that are selected, as far as that is known when
     * it is read, and now and then between them. The events of several files are on one clock: a
     * file begins where the one before ended. */
    int (*on_event)(void *context, const struct prn_trace_event *event, uint64_t run,
                    struct prony_error *err);
    void (*on_progress)(void *context, const struct prn_trace_files *files, uint64_t events,
                        uint64_t runs);
    void *context;
};

/* A file of a trace. */
struct prn_trace_file {
    const char *name;
    uint64_t first_run, n_runs, events;
};

struct prn_trace {
    char *name; /* of several files "first.json and 3 others" */
    struct prn_trace_file *files;
    size_t n_files;
    struct prn_trace_reader_counts counts;
    char *first_fault; /* with recover; NULL: none */
    uint64_t n_runs;   /* model_run events */
    uint64_t n_selected;
    char *selected;        /* "1-99" */
    char *missing;         /* runs that --gather names and the trace doesn't have; NULL: none */
    const char *overruled; /* options that --gather makes void; NULL: none */
    bool whole_is_one_run; /* there was no model_run */
    bool includes_warm_up; /* run 0 is used although the default would skip it */
    uint64_t overlapping;  /* runs that began before the one before had ended */
    uint64_t outside;      /* events that belong to no run */
    uint64_t late_kernels; /* came after the last run, and belong to one all the same */
    uint64_t without_op;   /* nodes without an operator: in no table */
    struct prn_trace_table cpu[2];
    struct prn_trace_table gpu;
    struct prn_trace_table mapping; /* key: op, shape, node (the kernel's name), dimensions */
    struct prn_trace_table mapped;  /* CPU events by op and shape: how often a kernel's op ran */
    uint64_t kernels, kernels_unresolved;
    struct prn_sketch ledger[PRN_LEDGER_ROW_COUNT];
    double ledger_ns[PRN_LEDGER_ROW_COUNT]; /* sums over the selected runs */
    double ledger_node_sum_ns;              /* per thread, added up */
    double ledger_nested_ns;                /* of node events, inside others of their thread */
    uint64_t ledger_nodes;
    struct prn_ledger_run first_ledger; /* of run 0 */
    bool has_ledger, ledger_approximate;
    bool has_execute;
    struct prn_trace_run *runs;   /* the first ones, up to `runs_max` */
    struct prn_trace_order order; /* of whole runs */
    struct prn_trace_memory memory;
    /* inside */
    struct prn_arena arena;
    struct prn_symbols programs;     /* of kernels whose name says more than that */
    struct prn_trace_reader *reader; /* owns all other symbols */
};

/* Reads all files. Fails when the selection doesn't fit the trace. */
PRONY_MUST_CHECK int prn_trace_read(struct prn_trace_files *files,
                                    const struct prn_trace_options *options,
                                    struct prn_trace **ret_trace, struct prony_error *err);
void prn_trace_free(struct prn_trace *t);

/* The file of which ONNX Runtime probably dropped events: it keeps a million and says nothing.
 * NULL: there is none. */
const struct prn_trace_file *prn_trace_cut_file(const struct prn_trace *t);

/* A node's name without "_kernel_time". */
size_t prn_trace_node_length(const struct prn_symbol *event_name);

/* Groups of a table that occur in the selected runs, longest first; the caller frees the array. */
PRONY_MUST_CHECK int prn_trace_sorted(const struct prn_trace_table *table,
                                      const struct prn_trace_group ***ret_groups, size_t *ret_n,
                                      struct prony_error *err);

#endif
