/*
 * Convolutional networks, in the form in which training frameworks export them: BatchNormalization
 * stays a node of its own, for the runtime to fold. Its running statistics are near mean 0 and
 * variance 1, so weights have to keep activations in range by themselves: variance 2/fan-in in
 * front of a ReLU, 1/fan-in elsewhere, and damped residual branches.
 */
#include "model/synth/parts.h"

#include <math.h>

#define IMAGE 224
#define CLASSES 1000
/* Scale of a residual branch, so that sixteen of them don't double the variance sixteen times. */
#define BRANCH_GAIN 0.3

struct conv {
    int64_t in, out, kernel, stride, groups;
    bool activated; /* a ReLU follows */
};

static const char *convolution(struct prn_synth *s, const char *scope, const char *weights,
                               const char *x, const struct conv *c)
{
    int64_t fan_in = c->in / c->groups * c->kernel * c->kernel;
    const char *w = prn_synth_weight(
        s, prn_synth_name(s, "%s.weight", weights),
        &(struct prn_synth_weight){.dims = {c->out, c->in / c->groups, c->kernel, c->kernel},
                                   .sd = sqrt((c->activated ? 2.0 : 1.0) / (double)fan_in)});
    int64_t pad = c->kernel / 2;
    return PRN_SYNTH_OP(s, scope, .type = "Conv", .inputs = {x, w},
                        .attributes = {PRN_SYNTH_INTS("dilations", 1, 1),
                                       PRN_SYNTH_INT("group", c->groups),
                                       PRN_SYNTH_INTS("kernel_shape", c->kernel, c->kernel),
                                       PRN_SYNTH_INTS("pads", pad, pad, pad, pad),
                                       PRN_SYNTH_INTS("strides", c->stride, c->stride)});
}

static const char *batch_norm(struct prn_synth *s, const char *scope, const char *weights,
                              const char *x, int64_t channels, double gain)
{
    static const struct {
        const char *name;
        double mean, sd;
        bool statistic;
    } parts[] = {{"weight", 1.0, 0.05, false},
                 {"bias", 0.0, 0.05, false},
                 {"running_mean", 0.0, 0.05, true},
                 {"running_var", 1.0, 0.05, true}};
    const char *names[4];
    for (size_t i = 0; i < PRN_ARRAY_SIZE(parts); i++) {
        double scale = i == 0 ? gain : 1.0;
        names[i] = prn_synth_weight(s, prn_synth_name(s, "%s.%s", weights, parts[i].name),
                                    &(struct prn_synth_weight){.dims = {channels},
                                                               .mean = parts[i].mean * scale,
                                                               .sd = parts[i].sd * scale,
                                                               .statistic = parts[i].statistic});
    }
    return PRN_SYNTH_OP(s, scope, .type = "BatchNormalization",
                        .inputs = {x, names[0], names[1], names[2], names[3]},
                        .attributes = {PRN_SYNTH_REAL("epsilon", 1e-5f)});
}

static void image_input(struct prn_synth *s)
{
    prn_synth_input(s, "input", PRN_DTYPE_FLOAT, 4,
                    (const struct prn_dim[]){prn_synth_batch(s), PRN_SYNTH_FIXED(3),
                                             PRN_SYNTH_FIXED(IMAGE), PRN_SYNTH_FIXED(IMAGE)});
}

/* From feature maps to class scores. */
static void classify(struct prn_synth *s, const char *scope, const char *weights, const char *x,
                     int64_t channels)
{
    x = PRN_SYNTH_OP(s, "/avgpool", .type = "GlobalAveragePool", .inputs = {x});
    x = PRN_SYNTH_OP(s, "", .type = "Flatten", .inputs = {x},
                     .attributes = {PRN_SYNTH_INT("axis", 1)});
    prn_synth_gemm(s, scope, weights, x, channels, CLASSES, sqrt(1.0 / (double)channels), "output");
    prn_synth_output(s, "output", 2,
                     (const struct prn_dim[]){prn_synth_batch(s), PRN_SYNTH_FIXED(CLASSES)});
}

/* ---- ResNet-50 ---- */

/* conv<number> and bn<number> of a block. */
static const char *conv_bn(struct prn_synth *s, int layer, int block, int number, const char *x,
                           const struct conv *c, double gain)
{
    x = convolution(s, prn_synth_name(s, "/layer%d/%d/conv%d", layer, block, number),
                    prn_synth_name(s, "layer%d.%d.conv%d", layer, block, number), x, c);
    return batch_norm(s, prn_synth_name(s, "/layer%d/%d/bn%d", layer, block, number),
                      prn_synth_name(s, "layer%d.%d.bn%d", layer, block, number), x, c->out, gain);
}

/* Narrow 1x1, 3x3 (which takes the stride), wide 1x1, and the way around them. */
static const char *bottleneck(struct prn_synth *s, int layer, int block, const char *x, int64_t in,
                              int64_t width, int64_t stride)
{
    const char *scope = prn_synth_name(s, "/layer%d/%d", layer, block);
    const char *relu = prn_synth_name(s, "%s/relu", scope);
    const char *around = x;
    int64_t out = 4 * width;
    x = conv_bn(s, layer, block, 1, x, &(struct conv){in, width, 1, 1, 1, true}, 1.0);
    x = PRN_SYNTH_OP(s, relu, .type = "Relu", .inputs = {x});
    x = conv_bn(s, layer, block, 2, x, &(struct conv){width, width, 3, stride, 1, true}, 1.0);
    x = PRN_SYNTH_OP(s, relu, .type = "Relu", .inputs = {x});
    x = conv_bn(s, layer, block, 3, x, &(struct conv){width, out, 1, 1, 1, false}, BRANCH_GAIN);
    if (block == 0) {
        around = convolution(s, prn_synth_name(s, "%s/downsample/0", scope),
                             prn_synth_name(s, "layer%d.%d.downsample.0", layer, block), around,
                             &(struct conv){in, out, 1, stride, 1, true});
        around = batch_norm(s, prn_synth_name(s, "%s/downsample/1", scope),
                            prn_synth_name(s, "layer%d.%d.downsample.1", layer, block), around, out,
                            1.0);
    }
    x = PRN_SYNTH_OP(s, scope, .type = "Add", .inputs = {x, around});
    return PRN_SYNTH_OP(s, relu, .type = "Relu", .inputs = {x});
}

void prn_synth_build_resnet50(struct prn_synth *s)
{
    static const int blocks[] = {3, 4, 6, 3};
    image_input(s);
    const char *x =
        convolution(s, "/conv1", "conv1", "input", &(struct conv){3, 64, 7, 2, 1, true});
    x = batch_norm(s, "/bn1", "bn1", x, 64, 1.0);
    x = PRN_SYNTH_OP(s, "/relu", .type = "Relu", .inputs = {x});
    x = PRN_SYNTH_OP(s, "/maxpool", .type = "MaxPool", .inputs = {x},
                     .attributes = {PRN_SYNTH_INTS("kernel_shape", 3, 3),
                                    PRN_SYNTH_INTS("pads", 1, 1, 1, 1),
                                    PRN_SYNTH_INTS("strides", 2, 2)});
    int64_t in = 64;
    for (int layer = 1; layer <= 4; layer++) {
        int64_t width = 32 << layer;
        for (int block = 0; block < blocks[layer - 1]; block++) {
            int64_t stride = block == 0 && layer > 1 ? 2 : 1;
            x = bottleneck(s, layer, block, x, in, width, stride);
            in = 4 * width;
        }
    }
    classify(s, "/fc", "fc", x, in);
}

/* ---- MobileNet v2 ---- */

/* Convolution and BatchNormalization under one name, with ReLU6 where it is activated. */
static const char *conv_relu6(struct prn_synth *s, int feature, const char *part, const char *x,
                              const struct conv *c, double gain)
{
    const char *scope = prn_synth_name(s, "/features/%d/%s", feature, part);
    const char *weights = prn_synth_name(s, "features.%d.%s", feature, part);
    x = convolution(s, scope, prn_synth_name(s, "%s.conv", weights), x, c);
    x = batch_norm(s, scope, prn_synth_name(s, "%s.bn", weights), x, c->out, gain);
    if (!c->activated)
        return x;
    const char *low = prn_synth_float(s, "/constants/zero", 0.0f);
    const char *high = prn_synth_float(s, "/constants/six", 6.0f);
    return PRN_SYNTH_OP(s, scope, .type = "Clip", .inputs = {x, low, high});
}

/* Widen, filter each channel by itself, narrow; linear at the end. */
static const char *inverted_residual(struct prn_synth *s, int feature, const char *x, int64_t in,
                                     int64_t out, int64_t expand, int64_t stride)
{
    const char *around = x;
    int64_t wide = in * expand;
    bool residual = stride == 1 && in == out;
    if (expand > 1)
        x = conv_relu6(s, feature, "expand", x, &(struct conv){in, wide, 1, 1, 1, true}, 1.0);
    x = conv_relu6(s, feature, "depthwise", x, &(struct conv){wide, wide, 3, stride, wide, true},
                   1.0);
    x = conv_relu6(s, feature, "project", x, &(struct conv){wide, out, 1, 1, 1, false},
                   residual ? BRANCH_GAIN : 1.0);
    if (!residual)
        return x;
    return PRN_SYNTH_OP(s, prn_synth_name(s, "/features/%d", feature), .type = "Add",
                        .inputs = {around, x});
}

void prn_synth_build_mobilenet_v2(struct prn_synth *s)
{
    static const struct {
        int64_t expand, out;
        int repeats;
        int64_t stride;
    } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    image_input(s);
    const char *x = conv_relu6(s, 0, "stem", "input", &(struct conv){3, 32, 3, 2, 1, true}, 1.0);
    int64_t in = 32;
    int feature = 1;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(stages); i++)
        for (int k = 0; k < stages[i].repeats; k++) {
            x = inverted_residual(s, feature++, x, in, stages[i].out, stages[i].expand,
                                  k == 0 ? stages[i].stride : 1);
            in = stages[i].out;
        }
    x = conv_relu6(s, feature, "last", x, &(struct conv){in, 1280, 1, 1, 1, true}, 1.0);
    classify(s, "/classifier", "classifier", x, 1280);
}
