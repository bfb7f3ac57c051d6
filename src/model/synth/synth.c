/*
 * The frame around the networks: their table, the checks of options, and the small vocabulary of
 * graph.h. Each weight has a generator of its own, seeded from the user's seed and the
 * weight's name, so that a weight doesn't depend on what stands before it in the file.
 */
#include "model/synth/parts.h"

#include "base/buffer.h"
#include "base/random.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OPSET 17
#define ARENA_MAX_BYTES ((size_t)16 << 20)

#define CUTS "/cut/*" /* the tensors between layers */
#define SHAPE(blocks_, heads_, width, ...) \
    .shape = {.blocks = (blocks_), .heads = (heads_), .head_width = (width), __VA_ARGS__}
#define VIT(name_, blocks, heads, width, ...)                                           \
    {                                                                                   \
        .name = (name_), .summary = "vision transformer, 224x224 images", .cuts = CUTS, \
        SHAPE(blocks, heads, width, __VA_ARGS__), .build = prn_synth_build_vit          \
    }
#define DISTILLED .patch = 16, .classes = 1000, .distilled = true
#define BERT(name_, summary_, cuts_, blocks, heads, ...)                                      \
    {                                                                                         \
        .name = (name_), .summary = (summary_), .default_seq = 128, .max_seq = 512,           \
        .cuts = (cuts_), SHAPE(blocks, heads, 64, __VA_ARGS__), .build = prn_synth_build_bert \
    }

const struct prn_synth_network prn_synth_networks[] = {
    {.name = "mlp",
     .summary = "fully connected, ReLU; see --hidden and --layers",
     .sized = true,
     .build = prn_synth_build_mlp},
    {.name = "resnet50",
     .summary = "residual convolutions, 224x224 images",
     .build = prn_synth_build_resnet50},
    {.name = "mobilenet-v2",
     .summary = "depthwise convolutions, 224x224 images",
     .build = prn_synth_build_mobilenet_v2},
    VIT("vit-base-patch16-224", 12, 12, 64, .patch = 16, .classes = 1000),
    VIT("vit-large-patch16-224", 24, 16, 64, .patch = 16, .classes = 1000),
    VIT("vit-huge-patch14-224-in21k", 32, 16, 80, .patch = 14, .classes = 21843),
    VIT("deit-base-distilled-patch16-224", 12, 12, 64, DISTILLED),
    VIT("deit-small-distilled-patch16-224", 12, 6, 64, DISTILLED),
    VIT("deit-tiny-distilled-patch16-224", 12, 3, 64, DISTILLED),
    BERT("bert-base", "text encoder with pooler", NULL, 12, 12),
    BERT("bert-base-uncased", "the same with ids as its only input", CUTS, 12, 12, .plain = true),
    BERT("bert-large-uncased", "the same, larger", CUTS, 24, 16, .plain = true),
    BERT("bert-base-uncased-CoLA", "the same, classifying", CUTS, 12, 12, .classes = 2,
         .plain = true),
    {.name = "gpt2-small",
     .summary = "text decoder, one forward pass to logits",
     .default_seq = 128,
     .max_seq = 1024,
     .shape = {.blocks = 12, .heads = 12, .head_width = 64},
     .build = prn_synth_build_gpt2},
    {0},
};

const struct prn_synth_network *prn_synth_find(const char *name)
{
    for (const struct prn_synth_network *n = prn_synth_networks; n->name; n++)
        if (strcmp(n->name, name) == 0)
            return n;
    return NULL;
}

int prn_synth_check(const struct prn_synth_network *network,
                    const struct prn_synth_options *options, struct prony_error *err)
{
    if (options->seq && !network->max_seq)
        return prn_fail(err, PRONY_EUSAGE, "--seq: '%s' takes no sequence", network->name);
    if (options->seq > network->max_seq)
        return prn_fail(err, PRONY_EUSAGE, "--seq: '%s' takes sequences of up to %lld tokens",
                        network->name, (long long)network->max_seq);
    if ((options->hidden || options->layers) && !network->sized)
        return prn_fail(err, PRONY_EUSAGE, "--%s: only 'mlp' can be sized, not '%s'",
                        options->hidden ? "hidden" : "layers", network->name);
    return 0;
}

/* ---- Names and interface ---- */

const char *prn_synth_name(struct prn_synth *s, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *copy = prn_arena_strdup(&s->arena, text);
    s->failed |= !copy;
    return copy ? copy : "";
}

static struct prn_dim open_or_fixed(int64_t value, const char *param)
{
    return value == PRN_SYNTH_DYNAMIC ? (struct prn_dim){.value = -1, .param = param}
                                      : PRN_SYNTH_FIXED(value);
}

struct prn_dim prn_synth_batch(const struct prn_synth *s)
{
    return open_or_fixed(s->options.batch, "batch");
}

struct prn_dim prn_synth_seq(const struct prn_synth *s)
{
    return open_or_fixed(s->options.seq, "seq");
}

static struct prn_value tensor_value(const char *name, int dtype, size_t rank,
                                     const struct prn_dim *dims)
{
    return (struct prn_value){.name = name,
                              .kind = PRN_VALUE_TENSOR,
                              .dtype = dtype,
                              .has_shape = true,
                              .rank = rank,
                              .dims = dims};
}

static void describe_input(struct prn_synth *s, const struct prn_value *value)
{
    struct prn_buffer text = PRN_BUFFER_INIT(sizeof s->facts.inputs - 1);
    prn_buffer_printf(&text, "%s%s%s %s ", s->facts.inputs, s->facts.inputs[0] ? ", " : "",
                      value->name, prn_dtype_name(value->dtype));
    for (size_t i = 0; i < value->rank; i++) {
        prn_buffer_add(&text, i ? "x" : "");
        if (value->dims[i].value < 0)
            prn_buffer_add(&text, value->dims[i].param);
        else
            prn_buffer_printf(&text, "%lld", (long long)value->dims[i].value);
    }
    s->failed |= text.error == PRONY_ENOMEM;
    snprintf(s->facts.inputs, sizeof s->facts.inputs, "%s", prn_buffer_text(&text));
    s->failed |= text.error == PRONY_ENOMEM;
    prn_buffer_release(&text);
}

void prn_synth_input(struct prn_synth *s, const char *name, int dtype, size_t rank,
                     const struct prn_dim *dims)
{
    struct prn_value value = tensor_value(name, dtype, rank, dims);
    prn_writer_input(s->writer, &value);
    describe_input(s, &value);
}

void prn_synth_output(struct prn_synth *s, const char *name, size_t rank,
                      const struct prn_dim *dims)
{
    struct prn_value value = tensor_value(name, PRN_DTYPE_FLOAT, rank, dims);
    prn_writer_output(s->writer, &value);
}

void prn_synth_value(struct prn_synth *s, const char *name, size_t rank, const struct prn_dim *dims)
{
    struct prn_value value = tensor_value(name, PRN_DTYPE_FLOAT, rank, dims);
    prn_writer_value(s->writer, &value);
}

/* ---- Weights ---- */

struct generator {
    struct prn_random random;
    float mean, half_width;
};

/* Two floats from each number of the generator: a weight costs about a nanosecond. */
static int generate(void *context, void *data, size_t len, struct prony_error *err)
{
    (void)err;
    struct generator *g = context;
    float *values = data;
    size_t n = len / sizeof *values;
    for (size_t i = 0; i < n; i += 2) {
        uint64_t bits = prn_random_u64(&g->random);
        const int32_t halves[2] = {(int32_t)(uint32_t)bits, (int32_t)(uint32_t)(bits >> 32)};
        for (size_t k = 0; k < 2 && i + k < n; k++)
            values[i + k] = g->mean + (float)halves[k] * 0x1.0p-31f * g->half_width;
    }
    return 0;
}

const char *prn_synth_weight(struct prn_synth *s, const char *name,
                             const struct prn_synth_weight *weight)
{
    struct generator *g = PRN_ARENA_NEW(&s->arena, struct generator);
    if (!g) {
        s->failed = true;
        return "";
    }
    prn_random_seed_named(&g->random, s->options.seed, name);
    g->mean = (float)weight->mean;
    g->half_width = (float)(weight->sd * sqrt(3.0));
    struct prn_constant constant = {
        .name = name, .dtype = PRN_DTYPE_FLOAT, .dims = weight->dims, .elements = 1};
    for (; constant.rank < PRN_ARRAY_SIZE(weight->dims) && weight->dims[constant.rank];
         constant.rank++)
        constant.elements *= weight->dims[constant.rank];
    constant.bytes = (size_t)constant.elements * sizeof(float);
    if (!weight->statistic)
        s->facts.parameters += (uint64_t)constant.elements;
    prn_writer_initialiser(s->writer, &constant,
                           &(struct prn_writer_source){.read = generate, .context = g});
    return name;
}

/* ---- Nodes ---- */

/* How often a name was asked for before. */
static size_t count_name(struct prn_synth *s, const char *name)
{
    size_t before = prn_map_get(&s->names, name);
    before = before == PRN_MAP_NONE ? 0 : before;
    s->failed |= prn_map_set(&s->names, name, before + 1) < 0;
    return before;
}

const char *prn_synth_add(struct prn_synth *s, const char *scope, const struct prn_synth_op *op)
{
    const char *name = prn_synth_name(s, "%s/%s", scope, op->type);
    size_t before = count_name(s, name);
    if (before)
        name = prn_synth_name(s, "%s_%zu", name, before);
    const char *output = op->outputs[0];
    struct prn_node node = {.name = name,
                            .op_type = op->type,
                            .inputs = op->inputs,
                            .outputs = op->outputs,
                            .attributes = op->attributes};
    if (!output) {
        output = prn_synth_name(s, "%s_output_0", name);
        node.outputs = &output;
        node.n_outputs = 1;
    }
    while (node.outputs == op->outputs && node.n_outputs < PRN_SYNTH_OUTPUTS_MAX &&
           op->outputs[node.n_outputs])
        node.n_outputs++;
    while (node.n_inputs < PRN_SYNTH_INPUTS_MAX && op->inputs[node.n_inputs])
        node.n_inputs++;
    while (node.n_attributes < PRN_SYNTH_ATTRIBUTES_MAX && op->attributes[node.n_attributes].name)
        node.n_attributes++;
    if (!s->failed)
        prn_writer_node(s->writer, &node);
    return output;
}

static const char *add_constant(struct prn_synth *s, const char *name,
                                const struct prn_constant *value)
{
    if (count_name(s, name) > 0)
        return name;
    struct prn_attribute attribute = {
        .name = "value", .kind = PRN_ATTRIBUTE_TENSOR, .n = 1, .tensor = value};
    struct prn_node node = {.name = name,
                            .op_type = "Constant",
                            .n_outputs = 1,
                            .outputs = &name,
                            .n_attributes = 1,
                            .attributes = &attribute};
    if (!s->failed)
        prn_writer_node(s->writer, &node);
    return name;
}

const char *prn_synth_float(struct prn_synth *s, const char *name, float value)
{
    return add_constant(
        s, name,
        &(struct prn_constant){
            .dtype = PRN_DTYPE_FLOAT, .elements = 1, .bytes = sizeof value, .data = &value});
}

const char *prn_synth_index(struct prn_synth *s, const char *name, int64_t value)
{
    return add_constant(
        s, name,
        &(struct prn_constant){
            .dtype = PRN_DTYPE_INT64, .elements = 1, .bytes = sizeof value, .data = &value});
}

const char *prn_synth_ints(struct prn_synth *s, const char *name, size_t n, const int64_t *values)
{
    int64_t dim = (int64_t)n;
    return add_constant(s, name,
                        &(struct prn_constant){.dtype = PRN_DTYPE_INT64,
                                               .rank = 1,
                                               .dims = &dim,
                                               .elements = dim,
                                               .bytes = n * sizeof *values,
                                               .data = values});
}

const char *prn_synth_linear(struct prn_synth *s, const char *scope, const char *weights,
                             const char *x, int64_t in, int64_t out, double sd)
{
    const char *w = prn_synth_weight(s, prn_synth_name(s, "%s.weight", weights),
                                     &(struct prn_synth_weight){.dims = {in, out}, .sd = sd});
    const char *b = prn_synth_weight(s, prn_synth_name(s, "%s.bias", weights),
                                     &(struct prn_synth_weight){.dims = {out}, .sd = 0.01});
    x = PRN_SYNTH_OP(s, scope, .type = "MatMul", .inputs = {x, w});
    return PRN_SYNTH_OP(s, scope, .type = "Add", .inputs = {x, b});
}

const char *prn_synth_gemm(struct prn_synth *s, const char *scope, const char *weights,
                           const char *x, int64_t in, int64_t out, double sd, const char *output)
{
    const char *w = prn_synth_weight(s, prn_synth_name(s, "%s.weight", weights),
                                     &(struct prn_synth_weight){.dims = {out, in}, .sd = sd});
    const char *b = prn_synth_weight(s, prn_synth_name(s, "%s.bias", weights),
                                     &(struct prn_synth_weight){.dims = {out}, .sd = 0.01});
    return PRN_SYNTH_OP(s, scope, .type = "Gemm", .inputs = {x, w, b}, .outputs = {output},
                        .attributes = {PRN_SYNTH_INT("transB", 1)});
}

/* ---- From description to file ---- */

static int build(struct prn_synth *s, const struct prn_synth_network *network,
                 const struct prn_synth_options *options, struct prony_error *err)
{
    int code = prn_synth_check(network, options, err);
    if (code < 0)
        return code;
    s->options = *options;
    s->shape = &network->shape;
    if (s->options.batch == 0)
        s->options.batch = 1;
    if (s->options.seq == 0)
        s->options.seq = network->default_seq;
    s->arena = PRN_ARENA_INIT(ARENA_MAX_BYTES);
    s->writer = prn_writer_new("prony", prony_version());
    if (!s->writer)
        return prn_fail_memory(err);
    if (options->large)
        prn_writer_allow_large(s->writer);
    prn_writer_opset(s->writer, "", OPSET);
    prn_writer_graph_name(s->writer, network->name);
    network->build(s);
    s->facts.file_bytes = prn_writer_bytes(s->writer);
    return s->failed ? prn_fail_memory(err) : 0;
}

static void synth_release(struct prn_synth *s)
{
    prn_writer_free(s->writer);
    prn_map_release(&s->names);
    prn_arena_release(&s->arena);
}

int prn_synth_describe(const struct prn_synth_network *network,
                       const struct prn_synth_options *options, struct prn_synth_facts *ret_facts,
                       struct prony_error *err)
{
    struct prn_synth s = {0};
    struct prn_synth_options any = *options;
    any.large = true; /* nothing is written */
    int code = build(&s, network, &any, err);
    if (code == 0)
        code = prn_writer_check(s.writer, network->name, err);
    if (code == 0)
        *ret_facts = s.facts;
    synth_release(&s);
    return code;
}

int prn_synth_write(const struct prn_synth_network *network,
                    const struct prn_synth_options *options, int fd, const char *name,
                    struct prony_error *err)
{
    struct prn_synth s = {0};
    int code = build(&s, network, options, err);
    if (code == 0)
        code = prn_writer_write(s.writer, fd, name, err);
    synth_release(&s);
    return code;
}
