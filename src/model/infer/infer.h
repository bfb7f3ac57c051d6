/*
 * Inside of prn_model_analyse(): what shape, folding and work functions see of a node.
 *
 * Every model input has numbers for dimensions, so inference is arithmetic on integers: a dimension
 * is known (≥ 0, at most PRN_DIM_MAX) or not (-1), and small tensors carry their contents, because
 * exporters compute the targets of Reshape, Slice and Expand inside the graph.
 *
 * One table (ops.c) has a row per operator: how to get its output shapes, how to fold it,
 * how many operations and bytes it takes. The driver (infer.c) walks a graph, asks the row, and
 * keeps a journal of what each node took; flow.c enters subgraphs and functions.
 *
 * A shape function returns 0, a positive `enum prn_reason` when it can't tell (outputs it has set
 * stand, the others stay unknown), or a negative PRONY_E… that ends the analysis.
 */
#ifndef PRN_MODEL_INFER_H
#define PRN_MODEL_INFER_H

#include "base/map.h"
#include "model/model.h"

/* Larger dimensions count as malformed; sums and products of a few stay inside int64_t. */
#define PRN_DIM_MAX ((int64_t)1 << 40)
/* The same for strides, dilations, pads and kernel sizes. */
#define PRN_WINDOW_MAX ((int64_t)1 << 20)
/* Contents are kept of tensors up to this many elements. */
#define PRN_ITEMS_MAX 1024

/* Why a node's work isn't known. The texts are in infer.c. */
enum prn_reason {
    PRN_REASON_NONE,
    PRN_REASON_INPUT,
    PRN_REASON_OUTPUT,
    PRN_REASON_OPERATOR,
    PRN_REASON_MALFORMED,
    PRN_REASON_SIZE,
    PRN_REASON_DTYPE,
    PRN_REASON_TRIPS,
    PRN_REASON_DATA,
    PRN_REASON_BRANCH,
    PRN_REASON_NESTING,
    PRN_REASON_COUNT,
};

/* An element of a folded tensor: `f` when the dtype is a float one, `i` otherwise. */
union prn_item {
    int64_t i;
    double f;
};

/* A value as far as it is known. */
struct prn_known {
    enum prn_value_kind kind; /* a tensor unless said otherwise */
    int dtype;                /* PRN_DTYPE_UNDEFINED: not known */
    int rank;                 /* -1: not known */
    const int64_t *dims;
    const union prn_item *items;         /* contents, or NULL */
    const struct prn_constant *constant; /* where contents can still be had from */
};

struct prn_infer;
struct prn_scope;
struct prn_operator;

/* One node while it is looked at. */
struct prn_infer_call {
    struct prn_infer *infer;
    const struct prn_scope *scope;
    const struct prn_node *node;
    const struct prn_operator *op; /* NULL: not in the table */
    size_t n_in, n_out;
    struct prn_known **in;  /* NULL where an optional input is left out */
    struct prn_known **out; /* never NULL */
};

struct prn_cost {
    double flops;
    double bytes;
};

struct prn_operator {
    const char *key; /* "Add", "com.microsoft:FusedMatMul" */
    int (*shape)(struct prn_infer_call *c);
    void (*fold)(struct prn_infer_call *c);                          /* NULL: is not folded */
    int (*flops)(const struct prn_infer_call *c, double *ret_flops); /* 0 or a reason */
    int (*bytes)(const struct prn_infer_call *c, double *ret_bytes); /* 0 or a reason */
    double per_out, per_in; /* for prn_flops_linear: operations per element of output 0, input 0 */
    int dtype;              /* of output 0: a dtype, or PRN_DTYPE_OF(input) */
    int arg, arg2;          /* what the row's functions make of them */
};

#define PRN_DTYPE_OF(input) (-(input))

/* The table. */
const struct prn_operator *prn_operators(size_t *ret_count);

/* ---- Tensors, inputs and outputs (value.c) ---- */

struct prn_arena *prn_infer_arena(struct prn_infer *infer);

/* An array in the arena, never of size 0. NULL is remembered and ends the analysis after the node,
 * so that who only wants contents needn't tell "not known" from "no memory". */
void *prn_infer_array(struct prn_infer *infer, size_t count, size_t size);

/* Takes `cost` from the budget that bounds folding; false when it is used up. */
bool prn_infer_fold_budget(struct prn_infer *infer, size_t cost);

/* Elements, or -1 when a dimension isn't known. */
int64_t prn_known_elements(const struct prn_known *t);

/* Whether contents are known or can be had; prn_known_items gives them, or NULL. */
bool prn_known_foldable(const struct prn_known *t);
const union prn_item *prn_known_items(struct prn_infer *infer, struct prn_known *t);

/* Keeps in `a` what both say of a value that comes from either; `ret_changed` when `a` lost
 * something. */
PRONY_MUST_CHECK int prn_known_join(struct prn_infer *infer, struct prn_known *a,
                                    const struct prn_known *b, bool *ret_changed);

/* The input, or NULL if it is left out; the second also when its rank isn't known. */
struct prn_known *prn_in(const struct prn_infer_call *c, size_t i);
const struct prn_known *prn_in_ranked(const struct prn_infer_call *c, size_t i);

/* The integers of an input of rank 0 or 1; NULL when they aren't known. */
const int64_t *prn_in_ints(const struct prn_infer_call *c, size_t i, size_t *ret_count);

/* A single integer, or number of any type, as the content of an input. */
bool prn_in_int(const struct prn_infer_call *c, size_t i, int64_t *ret_value);
bool prn_in_number(const struct prn_infer_call *c, size_t i, double *ret_value);

/* The dtype that the row of the table gives to output 0. */
int prn_row_dtype(const struct prn_infer_call *c);

/* Sets output `i`, if the node has it. Dimensions that are -1 aren't known. */
PRONY_MUST_CHECK int prn_set_out(struct prn_infer_call *c, size_t i, int dtype, size_t rank,
                                 const int64_t *dims);
/* The same with the shape of `like`, which may be unknown. */
void prn_set_out_like(struct prn_infer_call *c, size_t i, int dtype, const struct prn_known *like);

/* Fresh contents for output `i`, to be filled; NULL when they are too many or not known. */
union prn_item *prn_fold_out(struct prn_infer_call *c, size_t i);

/* An axis as written (negative: from the end) into [0, rank); false when outside. */
bool prn_axis(int64_t axis, size_t rank, size_t *ret_axis);

/* Attributes; inside a function, those that refer to one of the calling node are looked up. */
const struct prn_attribute *prn_attr(const struct prn_infer_call *c, const char *name);
int64_t prn_attr_int(const struct prn_infer_call *c, const char *name, int64_t otherwise);
const char *prn_attr_string(const struct prn_infer_call *c, const char *name,
                            const char *otherwise);
const int64_t *prn_attr_ints(const struct prn_infer_call *c, const char *name, size_t *ret_count);
const struct prn_graph *prn_attr_graph(const struct prn_infer_call *c, const char *name);

/* Integers that are an attribute in old operator sets and input `i` in new ones. `ret_given` says
 * whether either is there; NULL with `ret_given` means that the contents aren't known. */
const int64_t *prn_attr_or_input(const struct prn_infer_call *c, const char *name, size_t i,
                                 size_t *ret_count, bool *ret_given);

/* numpy's broadcasting of `dims` with those of `with`, in place; false when they don't fit. */
bool prn_broadcast(int64_t *dims, size_t *rank, const struct prn_known *with);

/* The windows of convolutions and pooling, one per spatial axis; -1 where not known. */
struct prn_kernel_window {
    size_t n;
    int64_t kernel[PRN_RANK_MAX], stride[PRN_RANK_MAX], dilation[PRN_RANK_MAX];
    int64_t begin[PRN_RANK_MAX], end[PRN_RANK_MAX];
    bool same; /* auto_pad SAME_UPPER or SAME_LOWER */
};

/* Reads strides, dilations, pads, auto_pad and kernel_shape, which `weight`'s dimensions from the
 * third on stand in for. 0 or a reason. */
PRONY_MUST_CHECK int prn_window_read(const struct prn_infer_call *c, size_t n_spatial,
                                     const struct prn_known *weight,
                                     struct prn_kernel_window *ret_window);

/* What Slice takes of each axis: `count` elements from `start` in steps. -1 counts aren't known. */
struct prn_slice {
    int64_t start[PRN_RANK_MAX], step[PRN_RANK_MAX], count[PRN_RANK_MAX];
};
PRONY_MUST_CHECK int prn_slice_read(struct prn_infer_call *c, struct prn_slice *ret_slice);

/* Which axes a reduction takes away. PRN_REASON_INPUT when they aren't known. */
PRONY_MUST_CHECK int prn_reduce_read(const struct prn_infer_call *c, bool reduced[PRN_RANK_MAX]);

/* The sizes that attention operators of all kinds come down to; -1 where not known. */
struct prn_attention {
    int64_t batch, heads, kv_heads;
    int64_t queries, keys;           /* sequence lengths; `keys` with the past */
    int64_t size, v_size;            /* per head */
    int64_t project_in, project_out; /* of the weights that are part of it; 0: none */
};
enum prn_attention_kind {
    PRN_ATTENTION_ONNX,
    PRN_ATTENTION_PROJECTED, /* com.microsoft Attention and QAttention: arg2 is the past input */
    PRN_ATTENTION_MULTI_HEAD,
    PRN_ATTENTION_GROUP_QUERY,
};
PRONY_MUST_CHECK int prn_attention_read(const struct prn_infer_call *c, struct prn_attention *ret);

/* An einsum equation over the shapes of the inputs. */
struct prn_einsum {
    int64_t label[256]; /* sizes of the letters that are `used` */
    bool used[256];
    bool kept[256]; /* is in the result */
    size_t rank;
    int64_t dims[PRN_RANK_MAX]; /* of the result */
    double volume;              /* product of all sizes; NaN: not known */
    bool contracts;             /* something is summed over */
};
PRONY_MUST_CHECK int prn_einsum_read(const struct prn_infer_call *c, struct prn_einsum *ret);

/* ---- The journal of what nodes took, and bodies of nodes (infer.c) ---- */

/* Entries so far: two marks name a range. */
size_t prn_journal_mark(const struct prn_infer *infer);
struct prn_cost prn_journal_sum(const struct prn_infer *infer, size_t from, size_t to);
void prn_journal_scale(struct prn_infer *infer, size_t from, double times);
void prn_journal_void(struct prn_infer *infer, size_t from, enum prn_reason reason);
void prn_journal_drop(struct prn_infer *infer, size_t from, size_t to);

/* Lists the node with a reason, besides its own entry. */
PRONY_MUST_CHECK int prn_journal_remark(struct prn_infer_call *c, enum prn_reason reason);

/* Infers `graph` as a body of `c`. Its inputs get `in` (NULL: left out), what its outputs are is
 * copied to `out`. 0, PRN_REASON_NESTING, or an error. */
PRONY_MUST_CHECK int prn_infer_body(struct prn_infer_call *c, const struct prn_graph *graph,
                                    struct prn_known **in, size_t n_in, struct prn_known *out,
                                    size_t n_out, bool is_function);

/* ---- The functions of the table ---- */

/* clang-format off */
#define PRN_SHAPE_FUNCTIONS(X) \
    X(same) X(cast) X(dropout) X(broadcast) X(reduce) X(arg_reduce) X(top_k) X(gather) \
    X(gather_elements) X(gather_nd) X(slice) X(split) X(concat) X(reshape) X(flatten) X(squeeze) \
    X(unsqueeze) X(transpose) X(expand) X(tile) X(pad) X(upsample) X(resize) X(depth_to_space) \
    X(one_hot) X(non_zero) X(compress) X(unique) X(nms) X(range) X(shape) X(scalar) X(size) \
    X(constant) X(constant_of_shape) X(random) X(random_like) X(multinomial) X(center_crop_pad) \
    X(sequence) X(pass) X(unknown) X(conv) X(conv_transpose) X(pool) X(global_pool) \
    X(max_unpool) X(roi_align) X(max_roi_pool) X(grid_sample) X(affine_grid) X(col2im) X(matmul) \
    X(matmul_nbits) X(gemm) X(einsum) X(rnn) X(batch_norm) X(layer_norm) X(skip_layer_norm) \
    X(embed_layer_norm) X(loss) X(quantize) X(dequantize) X(dynamic_quantize) X(attention) \
    X(det) X(dft) X(stft) X(mel_weights) X(window_function) X(if) X(loop) X(scan)

#define PRN_FOLD_FUNCTIONS(X) \
    X(where) X(cast) X(view) X(expand) X(transpose) X(slice) X(split) X(tile) X(gather) \
    X(concat) X(range) X(constant_of_shape) X(non_zero) X(reduce_sum) X(reduce_prod) \
    X(reduce_max) X(reduce_min) X(add) X(sub) X(mul) X(div) X(mod) X(pow) X(and) X(or) X(xor) \
    X(min) X(max) X(sum) X(not) X(neg) X(abs) X(relu) X(floor) X(ceil) X(round) X(sqrt) X(sign) X(equal) \
    X(less) X(less_equal) X(greater) X(greater_equal)

#define PRN_FLOPS_FUNCTIONS(X) \
    X(none) X(linear) X(variadic) X(unknown) X(conv) X(conv_transpose) X(matmul) X(gemm) \
    X(einsum) X(attention) X(rnn) X(pool) X(lrn) X(resize) X(grid_sample) X(roi_align) X(dft) \
    X(stft) X(det)

#define PRN_BYTES_FUNCTIONS(X) X(all) X(view) X(gather) X(slice) X(embed)
/* clang-format on */

#define PRN_X(name) int prn_shape_##name(struct prn_infer_call *c);
PRN_SHAPE_FUNCTIONS(PRN_X)
#undef PRN_X
#define PRN_X(name) void prn_fold_##name(struct prn_infer_call *c);
PRN_FOLD_FUNCTIONS(PRN_X)
#undef PRN_X
#define PRN_X(name) int prn_flops_##name(const struct prn_infer_call *c, double *ret_flops);
PRN_FLOPS_FUNCTIONS(PRN_X)
#undef PRN_X
#define PRN_X(name) int prn_bytes_##name(const struct prn_infer_call *c, double *ret_bytes);
PRN_BYTES_FUNCTIONS(PRN_X)
#undef PRN_X

#endif
