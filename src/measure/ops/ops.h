/*
 * Where the time of a run goes, by operator and by node, as the runtime's own profiler saw it.
 *
 * - It is measured in a launch of its own after the plain measurement, which stays untouched by
 *   what the profiler costs. Its failure is a text, and spoils nothing.
 * - Rows don't depend on how a runtime tells of its nodes; its trace is one way to fill them.
 * - A node has the name that the runtime gave it and, where that is known, the ONNX node that it is
 *   or was made of (graph.h). By the latter two backends are compared.
 * - A FLOP/s is never guessed: work is known of nodes that run once per run and whose ONNX node is
 *   known. Of a fused node it is the work of the main one, not of what was fused into it.
 */
#ifndef PRN_MEASURE_OPS_H
#define PRN_MEASURE_OPS_H

#include "measure/measure.h"
#include "measure/ops/graph.h"
#include "trace/trace.h"

/* Shortest time of one execution for which FLOP/s means something, in units of the resolution. */
#define PRN_OPS_RESOLVED 10

/* Widest half of the interval of a mean, as a part of it, with which it makes a FLOP/s. */
#define PRN_OPS_PRECISE 0.25
/* Runs that an average without an interval must be of. */
#define PRN_OPS_AVERAGED 10

/* Most rows that there may be of each kind. */
#define PRN_OPS_ROWS_MAX 100000

/* A node, all nodes of an operator with one provider, or a kernel of a GPU. */
struct prn_ops_row {
    const char *name;       /* of the node or kernel; NULL: an operator's row */
    const char *op;         /* as the runtime calls it: "FusedGemm"; NULL: a kernel's row */
    const char *provider;   /* who ran it: "CPUExecutionProvider"; NULL: not known */
    int64_t nodes;          /* how many nodes these are; 0 for kernels */
    double calls;           /* executions per run */
    struct prn_interval ns; /* per run: mean and its 95 % interval over runs */
    /* of a node: where it comes from */
    int64_t onnx_node; /* position in the model's graph; -1: not known */
    const char *onnx_name, *onnx_op;
    /* work of one run */
    double flops;        /* of the nodes whose work is known; NAN: there are none */
    int64_t flops_nodes; /* how many those are */
    double flops_ns;     /* and their time */
    double flop_per_s;   /* prn_ops_rate() */
    double bytes;        /* that those nodes read and write; NAN: there are none */
    /* how far from the limit, on a machine that was measured; prn_ops_roofs() */
    const char *roof;   /* the precision, or "L2" or "memory", that limits it; NULL: not known */
    int64_t roof_nodes; /* how many nodes that is known of */
    double roof_ns;     /* the shortest time that the machine could take for these */
    double roof_share;  /* and what part of their time that is; NAN: not known */
    /* of a node, known while measuring only */
    double weight_bytes;
    const char *precision;
};

/* What an operator or a node takes here and in the backend that this one is compared with. */
struct prn_ops_change {
    const char *name;
    double ns, baseline_ns; /* per run; 0 where it doesn't occur */
};

struct prn_ops_placed {
    const char *op;
    int64_t nodes;
};

/* An execution provider, and the nodes that it has. */
struct prn_ops_provider {
    const char *name; /* "CUDAExecutionProvider" */
    int64_t nodes;
    double ns; /* of a run */
    size_t n_operators;
    struct prn_ops_placed *operators; /* most nodes first */
};

struct prn_ops {
    const char *error;     /* why there is nothing else here; NULL: there is */
    int64_t runs;          /* whose times these are: the faster half of those that were profiled,
                              because what interrupts a run hits whichever node is at it */
    int64_t profiled_runs; /* all of them */
    double run_ns;         /* median time of a run with the profiler on, by prony's clock */
    double resolution_ns;  /* of the profiler's times */
    bool cut;              /* the profiler dropped events of later runs */
    int64_t lost_events;   /* couldn't be read: names with quotes break a trace */
    bool has_ledger;
    struct prn_interval ledger[PRN_LEDGER_ROW_COUNT]; /* ns per run */
    double parallel; /* nodes that ran at a time, while any did; NAN: not known */
    double nested;   /* part of the nodes' time that is inside other nodes; NAN: not known */
    size_t n_operators, n_nodes, n_kernels;
    struct prn_ops_row *operators, *nodes, *kernels; /* longest first */
    /* who has which nodes: none when there is only the CPU's provider */
    size_t n_providers;
    struct prn_ops_provider *providers; /* the one that was asked for first */
    bool assigned; /* nodes are the model's, as they were assigned; else those that ran */
    double copies, copies_ns; /* between devices, per run */
    /* against the fastest backend that was fed the same, largest difference first */
    int64_t baseline; /* which result that is; -1: none */
    size_t n_operator_changes, n_node_changes;
    struct prn_ops_change *operator_changes, *node_changes;
};

/* What isn't in any node, as a row among the operators' changes. */
#define PRN_OPS_OUTSIDE "(outside nodes)"

/* Profiles each result that was measured. `graphs` has one entry for each point of the profile.
 * Fails only when out of memory; what goes wrong otherwise is in the results. */
PRONY_MUST_CHECK int prn_ops_measure(const struct prn_measure_request *request,
                                     struct prn_ops_graph *const *graphs,
                                     struct prn_profile *profile, struct prony_error *err);

/* Fills `ops` from the `runs` of a trace, which are written as --gather takes them; from all but
 * the first one when it lacks some of those. `graph` may be NULL. */
PRONY_MUST_CHECK int prn_ops_from_trace(struct prn_source *source, const char *runs,
                                        const struct prn_ops_graph *graph, struct prn_arena *arena,
                                        struct prn_ops *ops, struct prony_error *err);

/* Fills in the providers, from what the session says, `rows`, else from the trace. The texts of
 * `rows` are borrowed, and so is the arena. */
PRONY_MUST_CHECK int prn_ops_place(const struct prn_placed *rows, size_t n, struct prn_arena *arena,
                                   struct prn_ops *ops, struct prony_error *err);
bool prn_ops_is_cpu(const char *provider);

/* Compares each profiled result with the fastest of its point; after prn_summarise. */
PRONY_MUST_CHECK int prn_ops_compare(struct prn_profile *profile, struct prony_error *err);

/* FLOP/s of a row; NAN when its work isn't known or is none, and when its time is too short or too
 * unsure to tell. */
double prn_ops_rate(const struct prn_ops *ops, const struct prn_ops_row *row);

/* Fills in that of operators and nodes. */
void prn_ops_rates(struct prn_ops *ops);

/* Whether the time of a row's nodes with known work is long and sure enough to make a rate of. */
bool prn_ops_timed(const struct prn_ops *ops, const struct prn_ops_row *row);

/* Fills in the roofs of operators and nodes that ran on processors of the profile's machine
 * (profile->machine), once after measuring. */
void prn_ops_roofs(struct prn_profile *profile);

/* Whether a roof is a cache or memory. */
bool prn_ops_roof_moves(const char *roof);

#endif
