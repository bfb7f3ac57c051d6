/*
 * An ONNX model as prony sees it: read without its weights, bounded, and checked before a runtime
 * sees the file.
 *
 * prn_model_open() maps the file, walks over the wire format (sizes, counts and depth bounded, raw
 * tensor data stepped over, never copied), hands the rest to protobuf-c, and verifies external data
 * (beneath the model's folder, no symlinks, inside its file). All memory belongs to the model;
 * every `const char *` ends in NUL. A million-node or gigabyte model costs what its graph needs,
 * not what its weights weigh.
 *
 * prn_model_analyse() binds the dynamic dimensions to numbers, infers every shape that can be
 * known, and counts work.
 */
#ifndef PRN_MODEL_MODEL_H
#define PRN_MODEL_MODEL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "model/dtype.h"

#define PRN_RANK_MAX 32

struct prn_graph;

/* A dimension as declared: a number, or open with a name ("batch") or without one (NULL). Names
 * that exporters write where they know none, such as "?", are no names: two of them needn't be
 * equal. */
struct prn_dim {
    int64_t value; /* -1: open */
    const char *param;
};

enum prn_value_kind {
    PRN_VALUE_TENSOR,
    PRN_VALUE_SPARSE,
    PRN_VALUE_SEQUENCE,
    PRN_VALUE_MAP,
    PRN_VALUE_OPTIONAL,
    PRN_VALUE_UNKNOWN, /* no type declared */
};

const char *prn_value_kind_name(enum prn_value_kind kind);

/* A declared input, output or intermediate value. */
struct prn_value {
    const char *name;
    enum prn_value_kind kind;
    int dtype; /* of a tensor */
    bool has_shape;
    size_t rank;
    const struct prn_dim *dims;
};

/* A constant tensor: an initialiser or a tensor attribute. */
struct prn_constant {
    const char *name;
    int dtype;
    size_t rank;
    const int64_t *dims;
    int64_t elements;
    size_t bytes; /* packed size of its elements; 0 for strings */
    /* Its little-endian elements where they are at hand without reading a file: in the map of the
     * model (borrowed), or decoded from typed fields when small. NULL when external or large. */
    const void *data;
    const char *external_location; /* NULL: inline */
    uint64_t external_offset, external_length;
};

enum prn_attribute_kind {
    PRN_ATTRIBUTE_FLOAT,
    PRN_ATTRIBUTE_INT,
    PRN_ATTRIBUTE_STRING,
    PRN_ATTRIBUTE_TENSOR,
    PRN_ATTRIBUTE_GRAPH,
    PRN_ATTRIBUTE_FLOATS,
    PRN_ATTRIBUTE_INTS,
    PRN_ATTRIBUTE_STRINGS,
    PRN_ATTRIBUTE_GRAPHS,
    PRN_ATTRIBUTE_OTHER, /* known to exist, value not kept */
};

struct prn_attribute {
    const char *name;
    enum prn_attribute_kind kind;
    size_t n;                   /* entries of FLOATS, INTS, STRINGS, GRAPHS; 1 otherwise */
    const float *floats;        /* FLOAT, FLOATS */
    const int64_t *ints;        /* INT, INTS */
    const char *const *strings; /* STRING, STRINGS */
    const struct prn_constant *tensor;
    const struct prn_graph *const *graphs; /* GRAPH, GRAPHS */
    /* OTHER, inside a function: the attribute of the calling node that stands here; else NULL. */
    const char *refers_to;
};

struct prn_node {
    const char *name; /* may be "" */
    const char *op_type;
    const char *domain; /* "" is ai.onnx */
    size_t n_inputs, n_outputs, n_attributes;
    const char *const *inputs; /* "" where an optional one is left out */
    const char *const *outputs;
    const struct prn_attribute *attributes;
    size_t place; /* among the nodes of its graph in the file */
};

struct prn_graph {
    const char *name;
    size_t n_nodes, n_inputs, n_outputs, n_constants, n_values;
    struct prn_node *nodes;         /* each after those that it needs */
    const struct prn_value *inputs; /* as declared: old models list initialisers here too */
    const struct prn_value *outputs;
    const struct prn_constant *constants; /* initialisers */
    const struct prn_value *values;       /* value_info */
};

struct prn_opset {
    const char *domain;
    int64_t version;
};

/* A model-local function (ONNX 1.10+). */
struct prn_function {
    const char *domain, *name;
    struct prn_graph body; /* inputs and outputs by name only */
};

struct prn_model {
    const char *path;
    const void *data; /* the bytes of the file, mapped; NULL when there are none */
    uint64_t file_bytes;
    int64_t ir_version;
    const char *producer; /* "pytorch 2.1", "" when not said */
    size_t n_opsets, n_functions;
    const struct prn_opset *opsets;
    const struct prn_function *functions;
    struct prn_graph graph;
    /* What must be fed: graph inputs that are not initialisers. */
    size_t n_inputs;
    const struct prn_value *const *inputs;
    /* Elements and bytes of all weights (prn_constant_is_weight()): initialisers and Constant
     * nodes, those of graphs inside nodes and of functions included. */
    uint64_t n_parameters, parameter_bytes;
    uint64_t external_bytes;
    size_t n_external_files;
    const char **external_files; /* their locations, relative to the model's folder, sorted */
    /* Which node stood before one that it needs, in a sentence; NULL when the file is in order. */
    const char *misplaced;
};

/* What to tell the user of `misplaced`. */
#define PRN_MISPLACED_NOTE "the file's nodes were sorted, because %s"

/* Opens and checks; never trusts. Errors name the path and the fault. */
PRONY_MUST_CHECK int prn_model_open(const char *path, struct prn_model **ret_model,
                                    struct prony_error *err);
void prn_model_free(struct prn_model *model);

/* The same where files of external data come into the model's folder when they are wanted: `file`
 * is told of each of them once, by a relative path without "..", before it is looked at. */
struct prn_model_fetch {
    int (*file)(void *context, const char *location, struct prony_error *err);
    void *context;
};
PRONY_MUST_CHECK int prn_model_open_fetching(const char *path, const struct prn_model_fetch *fetch,
                                             struct prn_model **ret_model, struct prony_error *err);

/* Gives back the pages of the file's map that were touched; they stay in the page cache. Nothing
 * that points into the map becomes invalid. */
void prn_model_leave_pages(const struct prn_model *model);

/* Tells models apart that look alike: 16 hex digits from the file's size and 256 blocks of 4 KiB,
 * spread over the file; all of it when it is no larger. Nothing that resists an attacker. */
#define PRN_FINGERPRINT_SIZE 17
void prn_model_fingerprint(const struct prn_model *model, char text[PRN_FINGERPRINT_SIZE]);

/* Whether a tensor holds parameters: floats, or integers of up to 32 bits as quantisation makes
 * them. Scalars, 64-bit integers, truth values and texts are settings, sizes and indices. */
bool prn_constant_is_weight(const struct prn_constant *constant);

/* The tensor of a Constant node; NULL for every other node. */
const struct prn_constant *prn_node_constant(const struct prn_node *node);

/* The attribute of a node, or NULL; the int with a default. */
const struct prn_attribute *prn_node_attribute(const struct prn_node *node, const char *name);
int64_t prn_node_int(const struct prn_node *node, const char *name, int64_t otherwise);

/* ---- Binding dynamic dimensions ---- */

struct prn_dim_binding { /* --dim batch=8 */
    const char *param;
    int64_t value;
};

struct prn_shape_binding { /* --shape NAME=1x3x224x224 */
    const char *input;
    size_t rank;
    int64_t dims[PRN_RANK_MAX];
};

struct prn_bindings {
    size_t n_dims, n_shapes;
    const struct prn_dim_binding *dims;
    const struct prn_shape_binding *shapes;
};

/* What an input means to the graph, so that random data makes sense. */
enum prn_input_role {
    PRN_INPUT_ROLE_PLAIN,  /* floats in [0,1), small integers */
    PRN_INPUT_ROLE_INDEX,  /* indexes a table (Gather, Embedding) with `bound` rows */
    PRN_INPUT_ROLE_MASK,   /* ones */
    PRN_INPUT_ROLE_LENGTH, /* how long another input is: the size of one of its dimensions */
};

/* A model input with every dimension a number. */
struct prn_input {
    const char *name;
    int dtype;
    size_t rank;
    int64_t dims[PRN_RANK_MAX];
    bool assumed[PRN_RANK_MAX]; /* was left open and became 1 */
    enum prn_input_role role;
    int64_t bound;                /* ROLE_INDEX: ids are in [0, bound); ROLE_LENGTH: the length */
    size_t length_of, length_dim; /* ROLE_LENGTH: of which input, and which of its dimensions */
};

/* Resolves the model's inputs. Errors: a binding that names no dimension or input, a shape of the
 * wrong rank or that contradicts a fixed dimension, an input that isn't a tensor (named), sizes
 * that overflow. `ret_inputs` has model->n_inputs entries and belongs to `arena`. */
PRONY_MUST_CHECK int prn_model_bind(const struct prn_model *model,
                                    const struct prn_bindings *bindings, struct prn_arena *arena,
                                    struct prn_input **ret_inputs, struct prony_error *err);

/* Adds the options that would set what was left open and became 1, all of them: "--dim batch=N
 * --shape x=Nx3xN". Nothing when nothing was. */
void prn_open_dims(const struct prn_model *model, const struct prn_input *inputs,
                   struct prn_buffer *out);

/* For a failure of a runtime, PRONY_ERUNTIME: says before it what was left open. */
int prn_open_dims_fail(const struct prn_model *model, const struct prn_input *inputs, int code,
                       struct prony_error *err);
#define PRN_OPEN_DIMS_FAILURE "with open dimensions taken as 1 (to set them: %s)"

/* ---- Shapes and work ---- */

/* Work of one operator type over the whole graph (subgraph bodies counted once per node, loops by
 * their trip count where it is constant). */
struct prn_op_work {
    const char *op_type;
    const char *domain;
    uint64_t nodes;
    uint64_t counted; /* nodes whose work is known */
    double flops;     /* multiply and add count as two */
    double bytes;     /* read and written: inputs, weights, outputs */
};

struct prn_node_work {
    const struct prn_node *node;
    bool counted;
    double flops;
    double bytes;
};

struct prn_uncounted {
    const char *op_type, *domain;
    uint64_t nodes;
    const char *reason; /* "output shape unknown", "operator not known" */
};

struct prn_work {
    struct prn_arena arena;
    size_t n_ops, n_nodes, n_uncounted, n_outputs, n_values;
    struct prn_op_work *ops;     /* by flops, then nodes, descending */
    struct prn_node_work *nodes; /* top-level nodes in graph order */
    struct prn_uncounted *uncounted;
    double flops, bytes;       /* sums over what was counted: lower bounds when not all nodes are */
    uint64_t n_unknown;        /* nodes, graphs inside nodes included, that weren't */
    struct prn_value *outputs; /* model outputs with inferred dims; open ones stay -1 */
    /* The same for every output of every top-level node, in graph order; dtype and shape as far as
     * they are known, names may be "". */
    struct prn_value *values;
};

/* `inputs` as prn_model_bind gave them. */
PRONY_MUST_CHECK int prn_model_analyse(const struct prn_model *model,
                                       const struct prn_input *inputs, struct prn_work **ret_work,
                                       struct prony_error *err);
void prn_work_free(struct prn_work *work);

#endif
