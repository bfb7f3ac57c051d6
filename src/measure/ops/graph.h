/*
 * Finds the ONNX node that a runtime's node is or was made of.
 *
 * Optimisers fuse nodes and rename them. What they leave is told from the name, checked against the
 * graph; a name that fits no rule, or several nodes, has no origin.
 *
 *     "/fc1/Gemm"                      the node of that name
 *     "Conv_12"                        the 12th node, if it has no name and is a Conv
 *     "fused /fc1/Gemm"                with the activation behind it
 *     "/qkv/MatMul/MatMulAddFusion"    with the Add behind it
 *     "/relu/Relu_output_0_nchwc"      what gives that value: the Conv before the Relu
 *     "/fc1/Add", a FullyConnected     the MatMul before the Add
 *     "logits", a FullyConnected       the Gemm that gives that value
 */
#ifndef PRN_MEASURE_OPS_GRAPH_H
#define PRN_MEASURE_OPS_GRAPH_H

#include "measure/profile.h"
#include "model/model.h"

struct prn_ops_graph;

struct prn_ops_origin {
    int64_t node;          /* position in the model's graph */
    const char *name, *op; /* borrowed from the graph; the name may be "" */
    double flops; /* of one execution; NAN: not counted, or not what the runtime's node computes */
    double bytes; /* that it reads and writes then, of which weights are a part; NAN as flops */
    double weight_bytes;
    const char *precision; /* that it computes in, as measure/machine has it; NULL: another */
};

/* Copies what it needs: model and work may go. `work` is that of `model`. */
PRONY_MUST_CHECK int prn_ops_graph_new(const struct prn_model *model, const struct prn_work *work,
                                       struct prn_ops_graph **ret_graph, struct prony_error *err);
void prn_ops_graph_free(struct prn_ops_graph *graph);

/* Gives a model of a profile its graph, sizes included, unless that is too large; what it needs is
 * copied to `arena`. */
PRONY_MUST_CHECK int prn_ops_graph_describe(const struct prn_model *model,
                                            const struct prn_work *work, struct prn_arena *arena,
                                            struct prn_profile_model *described,
                                            struct prony_error *err);

/* `op` is the runtime's name for the node's operator. */
bool prn_ops_graph_find(const struct prn_ops_graph *graph, const char *name, const char *op,
                        struct prn_ops_origin *ret_origin);

/* ONNX's name for a runtime's operator, where there is only one; otherwise the runtime's own. */
const char *prn_ops_onnx_operator(const char *op);

#endif
