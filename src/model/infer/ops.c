/*
 * The table of operators. A row says which shared functions give an operator's shapes, contents and
 * work, and with which parameters; work.c explains the counting. Operators that aren't here
 * are listed by the analysis as not known.
 */
#include "model/infer/infer.h"

#define OP(name, shape_of, flops_of, bytes_of, ...)                                  \
    {                                                                                \
        .key = (name), .shape = prn_shape_##shape_of, .flops = prn_flops_##flops_of, \
        .bytes = prn_bytes_##bytes_of, __VA_ARGS__                                   \
    }
#define FOLD(name) .fold = prn_fold_##name
#define PER_OUT(n) .per_out = (n)
#define PER_IN(n) .per_in = (n)
#define DTYPE(name) .dtype = PRN_DTYPE_##name
#define DTYPE_OF(input) .dtype = PRN_DTYPE_OF(input)
#define ARGS(first, second) .arg = (first), .arg2 = (second)

#define UNARY(name, ...) OP(name, same, linear, all, PER_OUT(1), __VA_ARGS__)
#define BINARY(name, ...) OP(name, broadcast, linear, all, PER_OUT(1), __VA_ARGS__)
#define COMPARE(name, ...) BINARY(name, DTYPE(BOOL), __VA_ARGS__)
#define VARIADIC(name, per_out_, ...) \
    OP(name, broadcast, variadic, all, PER_OUT(per_out_), __VA_ARGS__)
/* Operations per element of the input and of the result. */
#define REDUCE(name, in, out, ...) \
    OP(name, reduce, linear, all, PER_IN(in), PER_OUT(out), __VA_ARGS__)
#define MOVE(name, shape_of, ...) OP(name, shape_of, none, all, __VA_ARGS__)
#define VIEW(name, shape_of, ...) OP(name, shape_of, none, view, __VA_ARGS__)

#define MS "com.microsoft:"
#define ML "ai.onnx.ml:"

static const struct prn_operator operators[] = {
    /* Functions of one number. */
    UNARY("Abs", FOLD(abs)),
    UNARY("Acos"),
    UNARY("Acosh"),
    UNARY("Asin"),
    UNARY("Asinh"),
    UNARY("Atan"),
    UNARY("Atanh"),
    UNARY("BitwiseNot"),
    UNARY("Ceil", FOLD(ceil)),
    UNARY("Celu"),
    UNARY("Clip"),
    UNARY("Cos"),
    UNARY("Cosh"),
    UNARY("Elu"),
    UNARY("Erf"),
    UNARY("Exp"),
    UNARY("Floor", FOLD(floor)),
    UNARY("Gelu"),
    UNARY("HardSigmoid"),
    UNARY("HardSwish"),
    UNARY("IsInf", DTYPE(BOOL)),
    UNARY("IsNaN", DTYPE(BOOL)),
    UNARY("LeakyRelu"),
    UNARY("Log"),
    UNARY("Mish"),
    UNARY("Neg", FOLD(neg)),
    UNARY("Not", FOLD(not )),
    UNARY("PRelu"),
    UNARY("ParametricSoftplus"),
    UNARY("Reciprocal"),
    UNARY("Relu", FOLD(relu)),
    UNARY("Round", FOLD(round)),
    UNARY("ScaledTanh"),
    UNARY("Selu"),
    UNARY("Shrink"),
    UNARY("Sigmoid"),
    UNARY("Sign", FOLD(sign)),
    UNARY("Sin"),
    UNARY("Sinh"),
    UNARY("Softplus"),
    UNARY("Softsign"),
    UNARY("Sqrt", FOLD(sqrt)),
    UNARY("Swish"),
    UNARY("Tan"),
    UNARY("Tanh"),
    UNARY("ThresholdedRelu"),
    UNARY(MS "Gelu"),
    UNARY(MS "QuickGelu"),
    OP(MS "BiasGelu", same, variadic, all, PER_OUT(1)),
    OP(MS "FastGelu", same, variadic, all, PER_OUT(1)),
    OP(MS "BiasAdd", same, variadic, all),
    OP("SwiGLU", same, linear, all, PER_OUT(2)),

    /* Operands that are broadcast. */
    BINARY("Add", FOLD(add)),
    BINARY("Sub", FOLD(sub)),
    BINARY("Mul", FOLD(mul)),
    BINARY("Div", FOLD(div)),
    BINARY("Mod", FOLD(mod)),
    BINARY("Pow", FOLD(pow)),
    BINARY("BitShift"),
    BINARY("BitwiseAnd"),
    BINARY("BitwiseOr"),
    BINARY("BitwiseXor"),
    COMPARE("And", FOLD(and)),
    COMPARE("Or", FOLD(or)),
    COMPARE("Xor", FOLD(xor)),
    COMPARE("Equal", FOLD(equal)),
    COMPARE("Less", FOLD(less)),
    COMPARE("LessOrEqual", FOLD(less_equal)),
    COMPARE("Greater", FOLD(greater)),
    COMPARE("GreaterOrEqual", FOLD(greater_equal)),
    BINARY("Where", FOLD(where), DTYPE_OF(1)),
    VARIADIC("Sum", 0, FOLD(sum)),
    VARIADIC("Max", 0, FOLD(max)),
    VARIADIC("Min", 0, FOLD(min)),
    VARIADIC("Mean", 1),
    OP(MS "QLinearAdd", broadcast, linear, all, PER_OUT(8)),
    OP(MS "QLinearMul", broadcast, linear, all, PER_OUT(8)),
    OP(MS "QLinearSigmoid", same, linear, all, PER_OUT(6)),
    OP(MS "QLinearLeakyRelu", same, linear, all, PER_OUT(6)),
    OP(MS "QLinearSoftmax", same, linear, all, PER_OUT(10)),

    /* Convolution: the weight's and the bias' input. */
    OP("Conv", conv, conv, all, ARGS(1, 2)),
    OP("ConvInteger", conv, conv, all, ARGS(1, 0), DTYPE(INT32)),
    OP("QLinearConv", conv, conv, all, ARGS(3, 8), DTYPE_OF(7), PER_OUT(3)),
    OP("DeformConv", conv, conv, all, ARGS(1, 3)),
    OP(MS "FusedConv", conv, conv, all, ARGS(1, 2), PER_OUT(1)),
    OP("ConvTranspose", conv_transpose, conv_transpose, all),

    /* Pooling. */
    OP("MaxPool", pool, pool, all),
    OP("AveragePool", pool, pool, all, PER_OUT(1)),
    OP("LpPool", pool, pool, all, PER_OUT(2)),
    OP("GlobalMaxPool", global_pool, linear, all, PER_IN(1)),
    OP("GlobalAveragePool", global_pool, linear, all, PER_IN(1), PER_OUT(1)),
    OP("GlobalLpPool", global_pool, linear, all, PER_IN(2), PER_OUT(1)),
    OP(MS "QLinearGlobalAveragePool", global_pool, linear, all, PER_IN(1), PER_OUT(3)),
    MOVE("MaxUnpool", max_unpool),
    OP("RoiAlign", roi_align, roi_align, all),
    OP("MaxRoiPool", max_roi_pool, linear, all, PER_IN(1)),

    /* Matrix products: the operands' inputs. */
    OP("MatMul", matmul, matmul, all, ARGS(0, 1)),
    OP("MatMulInteger", matmul, matmul, all, ARGS(0, 1), DTYPE(INT32)),
    OP("QLinearMatMul", matmul, matmul, all, ARGS(0, 3), DTYPE_OF(7), PER_OUT(3)),
    OP(MS "FusedMatMul", matmul, matmul, all, ARGS(0, 1)),
    OP(MS "TransposeMatMul", matmul, matmul, all, ARGS(0, 1)),
    OP(MS "MatMulIntegerToFloat", matmul, matmul, all, ARGS(0, 1), DTYPE_OF(2), PER_OUT(2)),
    OP(MS "DynamicQuantizeMatMul", matmul, matmul, all, ARGS(0, 1), PER_OUT(2)),
    OP(MS "MatMulNBits", matmul_nbits, matmul, all, ARGS(0, 1)),
    OP("Gemm", gemm, gemm, all, ARGS(0, 1)),
    OP(MS "FusedGemm", gemm, gemm, all, ARGS(0, 1), PER_OUT(1)),
    OP(MS "QGemm", gemm, gemm, all, ARGS(0, 3), DTYPE_OF(8), PER_OUT(3)),
    OP("Einsum", einsum, einsum, all),
    OP("Det", det, det, all),

    /* Attention: its kind, and where the past of the projected kind is. */
    OP("Attention", attention, attention, all, ARGS(PRN_ATTENTION_ONNX, 0)),
    OP(MS "Attention", attention, attention, all, ARGS(PRN_ATTENTION_PROJECTED, 4)),
    OP(MS "QAttention", attention, attention, all, ARGS(PRN_ATTENTION_PROJECTED, 8), DTYPE_OF(3)),
    OP(MS "MultiHeadAttention", attention, attention, all, ARGS(PRN_ATTENTION_MULTI_HEAD, 0)),
    OP(MS "GroupQueryAttention", attention, attention, all, ARGS(PRN_ATTENTION_GROUP_QUERY, 0)),
    OP("RotaryEmbedding", same, linear, all, PER_OUT(3)),
    OP(MS "RotaryEmbedding", same, linear, all, PER_OUT(3)),
    MOVE("TensorScatter", same),

    /* Recurrence: gates, and the axis of R with the hidden size. */
    OP("LSTM", rnn, rnn, all, ARGS(4, 2), PER_OUT(13)),
    OP("GRU", rnn, rnn, all, ARGS(3, 2), PER_OUT(11)),
    OP("RNN", rnn, rnn, all, ARGS(1, 2), PER_OUT(2)),
    OP(MS "DynamicQuantizeLSTM", rnn, rnn, all, ARGS(4, 1), PER_OUT(13)),

    /* Normalisation. */
    OP("BatchNormalization", batch_norm, linear, all, PER_OUT(2)),
    OP("InstanceNormalization", same, linear, all, PER_OUT(7)),
    OP("GroupNormalization", same, linear, all, PER_OUT(7)),
    OP("LayerNormalization", layer_norm, linear, all, PER_OUT(7)),
    OP("RMSNormalization", same, linear, all, PER_OUT(4)),
    OP("SimplifiedLayerNormalization", layer_norm, linear, all, PER_OUT(4)),
    OP("MeanVarianceNormalization", same, linear, all, PER_OUT(5)),
    OP("LpNormalization", same, linear, all, PER_OUT(3)),
    OP("LRN", same, lrn, all),
    OP(MS "GroupNorm", same, linear, all, PER_OUT(7)),
    OP(MS "SkipLayerNormalization", skip_layer_norm, linear, all, PER_OUT(8)),
    OP(MS "SkipSimplifiedLayerNormalization", skip_layer_norm, linear, all, PER_OUT(5)),
    OP(MS "EmbedLayerNormalization", embed_layer_norm, linear, embed, PER_OUT(9), DTYPE_OF(2)),
    OP("Softmax", same, linear, all, PER_OUT(5)),
    OP("LogSoftmax", same, linear, all, PER_OUT(5)),
    OP("Hardmax", same, linear, all, PER_OUT(1)),
    OP("SoftmaxCrossEntropyLoss", loss, linear, all, PER_IN(6)),
    OP("NegativeLogLikelihoodLoss", loss, linear, all, PER_IN(1)),

    /* Reductions. */
    REDUCE("ReduceSum", 1, 0, FOLD(reduce_sum)),
    REDUCE("ReduceProd", 1, 0, FOLD(reduce_prod)),
    REDUCE("ReduceMax", 1, 0, FOLD(reduce_max)),
    REDUCE("ReduceMin", 1, 0, FOLD(reduce_min)),
    REDUCE("ReduceMean", 1, 1),
    REDUCE("ReduceL1", 2, 0),
    REDUCE("ReduceL2", 2, 1),
    REDUCE("ReduceSumSquare", 2, 0),
    REDUCE("ReduceLogSum", 1, 1),
    REDUCE("ReduceLogSumExp", 2, 1),
    OP("ArgMax", arg_reduce, linear, all, PER_IN(1), DTYPE(INT64)),
    OP("ArgMin", arg_reduce, linear, all, PER_IN(1), DTYPE(INT64)),
    OP("TopK", top_k, linear, all, PER_IN(1)),
    OP("CumSum", same, linear, all, PER_IN(1)),
    OP("CumProd", same, linear, all, PER_IN(1)),

    /* Moving data. */
    OP("Gather", gather, none, gather, FOLD(gather)),
    OP("GatherElements", gather_elements, none, gather),
    OP("GatherND", gather_nd, none, gather),
    OP(MS "GatherND", gather_nd, none, gather),
    OP("Slice", slice, none, slice, FOLD(slice)),
    MOVE("Scatter", same),
    MOVE("ScatterElements", same),
    MOVE("ScatterND", same),
    MOVE("Split", split, FOLD(split)),
    MOVE("Concat", concat, FOLD(concat), ARGS(0, 1)),
    OP(MS "QLinearConcat", concat, linear, all, PER_OUT(5), ARGS(2, 3)),
    MOVE("Transpose", transpose, FOLD(transpose)),
    MOVE("Expand", expand, FOLD(expand)),
    MOVE("Tile", tile, FOLD(tile)),
    MOVE("Pad", pad),
    MOVE("DepthToSpace", depth_to_space, ARGS(0, 0)),
    MOVE("SpaceToDepth", depth_to_space, ARGS(1, 0)),
    MOVE("ReverseSequence", same),
    MOVE("Trilu", same),
    MOVE(MS "Trilu", same),
    MOVE("Cast", cast, FOLD(cast)),
    MOVE("CastLike", same, FOLD(cast), DTYPE_OF(1)),
    MOVE("BitCast", cast),
    MOVE("OneHot", one_hot, DTYPE_OF(2)),
    MOVE("CenterCropPad", center_crop_pad),
    OP("Col2Im", col2im, linear, all, PER_IN(1)),
    OP("Resize", resize, resize, all),
    OP("Upsample", upsample, resize, all),
    OP("GridSample", grid_sample, grid_sample, all),
    OP("AffineGrid", affine_grid, linear, all, PER_OUT(6)),
    OP("NonZero", non_zero, linear, all, PER_IN(1), FOLD(non_zero)),
    OP("Compress", compress, none, all),
    OP("Unique", unique, linear, all, PER_IN(1)),
    OP("NonMaxSuppression", nms, unknown, all),

    /* The same data under another shape or name. */
    VIEW("Reshape", reshape, FOLD(view)),
    VIEW("Flatten", flatten, FOLD(view)),
    VIEW("Squeeze", squeeze, FOLD(view)),
    VIEW("Unsqueeze", unsqueeze, FOLD(view)),
    VIEW("Identity", pass),
    VIEW("Dropout", dropout),
    VIEW("Shape", shape),
    VIEW("Size", size),
    VIEW("Constant", constant),

    /* Made from little. */
    MOVE("ConstantOfShape", constant_of_shape, FOLD(constant_of_shape)),
    OP("Range", range, linear, all, PER_OUT(1), FOLD(range)),
    MOVE("EyeLike", random_like),
    OP("RandomNormal", random, linear, all, PER_OUT(1)),
    OP("RandomUniform", random, linear, all, PER_OUT(1)),
    OP("RandomNormalLike", random_like, linear, all, PER_OUT(1)),
    OP("RandomUniformLike", random_like, linear, all, PER_OUT(1)),
    OP("Bernoulli", random_like, linear, all, PER_OUT(1)),
    OP("Multinomial", multinomial, linear, all, PER_IN(1)),
    OP("HannWindow", window_function, linear, all, PER_OUT(1)),
    OP("HammingWindow", window_function, linear, all, PER_OUT(1)),
    OP("BlackmanWindow", window_function, linear, all, PER_OUT(1)),
    OP("MelWeightMatrix", mel_weights, linear, all, PER_OUT(1)),
    OP("DFT", dft, dft, all),
    OP("STFT", stft, stft, all),

    /* Quantisation. */
    OP("QuantizeLinear", quantize, linear, all, PER_OUT(3)),
    OP("DequantizeLinear", dequantize, linear, all, PER_OUT(2)),
    OP("DynamicQuantizeLinear", dynamic_quantize, linear, all, PER_OUT(5)),
    OP(MS "QuantizeLinear", quantize, linear, all, PER_OUT(3)),
    OP(MS "DequantizeLinear", dequantize, linear, all, PER_OUT(2)),

    /* Bodies, whose nodes are counted by themselves. */
    VIEW("If", if),
    VIEW("Loop", loop),
    VIEW("Scan", scan),

    /* Sequences and optional values: contents aren't followed. */
    MOVE("SequenceConstruct", sequence),
    VIEW("SequenceEmpty", sequence),
    MOVE("SequenceInsert", sequence),
    MOVE("SequenceErase", sequence),
    MOVE("SplitToSequence", sequence),
    OP("SequenceMap", sequence, unknown, view),
    MOVE("SequenceAt", unknown),
    MOVE("ConcatFromSequence", unknown),
    VIEW("SequenceLength", scalar, DTYPE(INT64)),
    VIEW("Optional", pass),
    VIEW("OptionalGetElement", pass),
    VIEW("OptionalHasElement", scalar, DTYPE(BOOL)),

    /* Text. */
    MOVE("StringConcat", broadcast),
    MOVE("RegexFullMatch", same, DTYPE(BOOL)),

    /* Classical models. */
    OP(ML "Binarizer", same, linear, all, PER_OUT(1)),
    OP(ML "Imputer", same, linear, all, PER_OUT(1)),
    OP(ML "Normalizer", same, linear, all, PER_OUT(3), DTYPE(FLOAT)),
    OP(ML "Scaler", same, linear, all, PER_OUT(2), DTYPE(FLOAT)),
};

const struct prn_operator *prn_operators(size_t *ret_count)
{
    *ret_count = PRN_ARRAY_SIZE(operators);
    return operators;
}
