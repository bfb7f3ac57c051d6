/*
 * The vocabulary in which the networks of synth.h are described: weights, constants and operators,
 * each of which gives the name of its tensor. Names belong to the description. The first failure
 * sticks, and everything after it does nothing, so a network is described without checks.
 *
 * A node is named SCOPE/TYPE, with _1, _2 … behind it when that name is taken, and its output
 * NAME_output_0 unless it is given one.
 */
#ifndef PRN_MODEL_SYNTH_PARTS_H
#define PRN_MODEL_SYNTH_PARTS_H

#include "base/map.h"
#include "model/synth/synth.h"
#include "model/writer.h"

#define PRN_SYNTH_INPUTS_MAX 6
#define PRN_SYNTH_OUTPUTS_MAX 3
#define PRN_SYNTH_ATTRIBUTES_MAX 6

struct prn_synth {
    struct prn_writer *writer;
    struct prn_arena arena;
    struct prn_map names;             /* of nodes, with how often each was asked for */
    struct prn_synth_options options; /* with the defaults filled in */
    const struct prn_synth_shape *shape;
    struct prn_synth_facts facts;
    bool failed; /* out of memory */
};

/* A dimension of the interface: a number, or open under a name. */
#define PRN_SYNTH_FIXED(n) ((struct prn_dim){.value = (n)})
struct prn_dim prn_synth_batch(const struct prn_synth *s);
struct prn_dim prn_synth_seq(const struct prn_synth *s);

/* Text that lives as long as the description; "" when memory is short. */
const char *prn_synth_name(struct prn_synth *s, const char *format, ...) PRN_PRINTF(2, 3);

void prn_synth_input(struct prn_synth *s, const char *name, int dtype, size_t rank,
                     const struct prn_dim *dims);
void prn_synth_output(struct prn_synth *s, const char *name, size_t rank,
                      const struct prn_dim *dims);
/* Declares the shape of a tensor inside. */
void prn_synth_value(struct prn_synth *s, const char *name, size_t rank,
                     const struct prn_dim *dims);

/* A weight of the given shape (0 ends it), uniform around `mean` with standard deviation `sd`. A
 * statistic is the same, but isn't trained and so doesn't count as a parameter. */
struct prn_synth_weight {
    int64_t dims[4];
    double mean, sd;
    bool statistic;
};
const char *prn_synth_weight(struct prn_synth *s, const char *name,
                             const struct prn_synth_weight *weight);

/* Constants; equal names mean equal constants, made once. */
const char *prn_synth_float(struct prn_synth *s, const char *name, float value);
const char *prn_synth_index(struct prn_synth *s, const char *name, int64_t value);
const char *prn_synth_ints(struct prn_synth *s, const char *name, size_t n, const int64_t *values);

struct prn_synth_op {
    const char *type;
    const char *inputs[PRN_SYNTH_INPUTS_MAX];   /* NULL ends them */
    const char *outputs[PRN_SYNTH_OUTPUTS_MAX]; /* none: one, by the node's name */
    struct prn_attribute attributes[PRN_SYNTH_ATTRIBUTES_MAX];
};
/* The name of the first output. */
const char *prn_synth_add(struct prn_synth *s, const char *scope, const struct prn_synth_op *op);

/* prn_synth_add with the operator written in place:
 *     x = PRN_SYNTH_OP(s, scope, .type = "Relu", .inputs = {x}); */
#define PRN_SYNTH_OP(s, scope, ...) prn_synth_add(s, scope, &(struct prn_synth_op){__VA_ARGS__})

/* Attributes, for PRN_SYNTH_OP. */
#define PRN_SYNTH_INTS(key, ...)                                                           \
    {                                                                                      \
        .name = (key), .kind = PRN_ATTRIBUTE_INTS,                                         \
        .n = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .ints = (const int64_t[]) \
        {                                                                                  \
            __VA_ARGS__                                                                    \
        }                                                                                  \
    }
#define PRN_SYNTH_INT(key, value)                                                   \
    {                                                                               \
        .name = (key), .kind = PRN_ATTRIBUTE_INT, .n = 1, .ints = (const int64_t[]) \
        {                                                                           \
            (value)                                                                 \
        }                                                                           \
    }
#define PRN_SYNTH_REAL(key, value)                                                    \
    {                                                                                 \
        .name = (key), .kind = PRN_ATTRIBUTE_FLOAT, .n = 1, .floats = (const float[]) \
        {                                                                             \
            (value)                                                                   \
        }                                                                             \
    }

/* x · W + b over the last dimension, as MatMul and Add; weights are NAME.weight and NAME.bias. */
const char *prn_synth_linear(struct prn_synth *s, const char *scope, const char *weights,
                             const char *x, int64_t in, int64_t out, double sd);

/* The same for matrices, as one Gemm whose node is SCOPE/Gemm. */
const char *prn_synth_gemm(struct prn_synth *s, const char *scope, const char *weights,
                           const char *x, int64_t in, int64_t out, double sd, const char *output);

void prn_synth_build_mlp(struct prn_synth *s);
void prn_synth_build_resnet50(struct prn_synth *s);
void prn_synth_build_mobilenet_v2(struct prn_synth *s);
void prn_synth_build_vit(struct prn_synth *s);
void prn_synth_build_bert(struct prn_synth *s);
void prn_synth_build_gpt2(struct prn_synth *s);

#endif
