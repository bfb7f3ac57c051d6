/*
 * Inside of prn_cuts_find(): what graph.c (who reads what), order.c (in which order nodes
 * run), place.c (where the cuts go), shape.c (what passes them) and cut.c (layers) share.
 * Nobody else includes this but tests.
 *
 * Everything is linear in the size of the graph, apart from what is repeated: tensors carried
 * through many layers, and nodes that many layers compute again. Those have a budget.
 */
#ifndef PRN_MODEL_CUT_PARTS_H
#define PRN_MODEL_CUT_PARTS_H

#include "base/map.h"
#include "model/cut/cut.h"

#define PRN_CUT_NONE SIZE_MAX
/* Memory for a graph while it is cut, and for the layers. */
#define PRN_CUT_BYTES_MAX ((size_t)4 << 30)
/* Nodes and tensors of all layers together. */
#define PRN_CUT_ENTRIES_MAX ((size_t)1 << 25)

/* A tensor of the top-level graph. Ids: initialisers, then model inputs, then outputs of nodes in
 * the graph's order. */
struct prn_cut_value {
    const char *name;
    size_t node;      /* that makes it, or PRN_CUT_NONE */
    size_t source;    /* the tensor that it comes from through nodes without weights */
    bool constant;    /* computed from initialisers only: a layer that needs it computes it */
    bool derived;     /* computed from constants, shapes and whole numbers that are fed */
    bool result;      /* an output of the model */
    bool sized;       /* `bytes` is known */
    bool passable;    /* a tensor of known type */
    uint8_t kind;     /* enum prn_value_kind */
    uint64_t bytes;   /* at most PRN_CUT_VALUE_MAX */
    uint64_t carried; /* bytes that must pass a cut for it to be had behind it */
};

/* So that the sum over all tensors of a file can't overflow. */
#define PRN_CUT_VALUE_MAX ((uint64_t)1 << 36)

struct prn_cut_node {
    size_t reads, n_reads; /* in prn_cut_graph.reads: ids, ascending, each once */
    size_t outputs;        /* id of the first */
    size_t source;         /* of the first tensor that it reads and that isn't constant */
    uint64_t own_parameters, own_bytes; /* of a Constant, and of what its own graphs have */
    bool weighted;   /* does something with weights, more than adding, scaling or moving them */
    bool recomputed; /* in every layer that needs it, and so in no order */
    bool needed;     /* for an output of the model */
};

struct prn_cut_graph {
    const struct prn_model *model;
    const struct prn_input *inputs;
    const struct prn_work *work;
    struct prn_arena *arena; /* scratch */
    struct prn_map by_name;  /* → id */
    size_t n_values, n_reads, first_input, first_output;
    struct prn_cut_value *values;
    struct prn_cut_node *nodes; /* as many as the model's graph has */
    size_t *reads;
    struct prony_error *err;
};

PRONY_MUST_CHECK int prn_cut_graph_build(struct prn_cut_graph *g);
void prn_cut_graph_release(struct prn_cut_graph *g);

/* An order of the nodes that are needed and not recomputed. */
struct prn_cut_order {
    size_t n;
    size_t *nodes; /* by position */
    size_t *at;    /* position by node; PRN_CUT_NONE: in no order */
};
PRONY_MUST_CHECK int prn_cut_order_file(const struct prn_cut_graph *g,
                                        struct prn_cut_order *ret_order);
PRONY_MUST_CHECK int prn_cut_order_depth(const struct prn_cut_graph *g,
                                         struct prn_cut_order *ret_order);

/* Visits what a node reads, directly or not, before the node itself, without recursion. */
struct prn_cut_walk {
    size_t *stack;
    size_t *cursor;
    bool *seen;
};
PRONY_MUST_CHECK int prn_cut_walk_init(const struct prn_cut_graph *g, struct prn_cut_walk *ret);
typedef int prn_cut_visit(void *context, size_t node);
PRONY_MUST_CHECK int prn_cut_walk_from(const struct prn_cut_graph *g, struct prn_cut_walk *w,
                                       size_t node, bool only_recomputed, prn_cut_visit *visit,
                                       void *context);

/* When a tensor is alive: at the cuts from `from` to `to`; `first_use` is the first of them before
 * a node that reads it. A cut before position c is called c. */
struct prn_cut_span {
    size_t from, to; /* from > to: never */
    size_t first_use;
};

/* What is alive at a cut. */
struct prn_cut_load {
    uint64_t bytes;
    uint32_t tensors, unsized, barred; /* barred: of a kind that can't pass */
    uint32_t heavy;                    /* tensors that count: tiny ones don't */
};

/* Where an order is cut. */
struct prn_cut_plan {
    struct prn_cut_order order;
    struct prn_cut_span *spans; /* by id */
    struct prn_cut_load *loads; /* by cut, 0 to n */
    size_t n_cuts;
    size_t *cuts;   /* ascending, each within [1, n - 1] */
    uint64_t bytes; /* alive at all cuts */
    struct prn_cut_hint hint;
};
PRONY_MUST_CHECK int prn_cut_plan_make(const struct prn_cut_graph *g,
                                       const struct prn_cut_options *options,
                                       struct prn_cut_plan *ret_plan);

/* The tensors that go into and out of layers, with dimensions that the model leaves open. */
struct prn_cut_shapes;
PRONY_MUST_CHECK int prn_cut_shapes_new(const struct prn_cut_graph *g,
                                        struct prn_cut_shapes **ret_shapes);
void prn_cut_shapes_free(struct prn_cut_shapes *shapes);
PRONY_MUST_CHECK int prn_cut_shapes_tensor(struct prn_cut_shapes *shapes, size_t id,
                                           struct prn_arena *arena,
                                           const struct prn_cut_tensor **ret_tensor);

/* Which files' messages a layer is written from: write.c. */
struct prn_cut_file;
void prn_cut_file_free(struct prn_cut_file *file);

struct prn_cut_set {
    struct prn_cuts cuts; /* first: the public face */
    const struct prn_model *model;
    struct prn_arena arena;
    struct prn_cut_file *file; /* NULL until a layer is written */
};

#endif
